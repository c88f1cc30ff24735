//! The table of front ends. Adding a protocol is its crate and one row here: the row brings its
//! setting (and with it the flag, the variable, the key in the file), its line in the banner and in
//! `/health`.
//!
//! A protocol that is not built has no row, so nothing listens for it and nothing advertises it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tessera_console::Console;
use tessera_core::Store;
use tessera_core::model::Model;
use tessera_frontend::{About, FrontEnd};

use crate::output;
use crate::settings::Setting;

/// One front end.
pub(crate) struct Row {
    /// Its name, its default address and its help.
    pub(crate) setting: Setting,
    /// A command that a person can paste to try it.
    pub(crate) connect: fn(&Endpoint) -> String,
    pub(crate) start: fn(&Services) -> Arc<dyn FrontEnd>,
    /// Registered also while the front end is off: work in the background goes on.
    pub(crate) model: Option<ApiModel>,
}

/// What the core must know of the items that a front end writes.
#[derive(Clone, Copy)]
pub(crate) struct ApiModel {
    /// The name of the API, as the catalog has it.
    pub(crate) api: &'static str,
    pub(crate) model: fn() -> Arc<dyn Model>,
}

/// Every front end, in the order of the banner.
pub(crate) const TABLE: &[Row] = &[Row {
    setting: Setting::listener(
        "console",
        "127.0.0.1:8080",
        "Where the console listens (HTTP; so far its health page)",
    ),
    connect: |endpoint| endpoint.curl("/health"),
    start: |services| Arc::new(Console::new(services.store.clone(), services.about.clone())),
    model: None,
}];

/// The models of all front ends, as the store wants them.
pub(crate) fn models() -> HashMap<String, Arc<dyn Model>> {
    let models = TABLE.iter().filter_map(|row| row.model);
    models
        .map(|row| (row.api.to_owned(), (row.model)()))
        .collect()
}

/// What front ends are made from.
pub(crate) struct Services {
    pub(crate) store: Store,
    pub(crate) about: About,
}

/// Where a client finds a front end, and how.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Trust,
}

/// What a client must know to trust the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// No TLS.
    Plain,
    /// A certificate that the user brought and whose issuer we cannot know.
    Given,
    /// Our own certificate, in this file.
    Own(PathBuf),
    /// Our own certificate, kept nowhere.
    Unkept,
}

impl Endpoint {
    /// The address as a client on this machine writes it.
    pub(crate) fn local(&self) -> SocketAddr {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.address.port())
    }

    fn curl(&self, path: &str) -> String {
        let address = self.local();
        match &self.tls {
            Trust::Plain => format!("curl http://{address}{path}"),
            Trust::Given => format!("curl https://{address}{path}"),
            Trust::Own(file) => {
                format!(
                    "curl --cacert {} https://{address}{path}",
                    output::shell_word(&file.to_string_lossy())
                )
            }
            Trust::Unkept => format!("curl --insecure https://{address}{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_lines_can_be_pasted() {
        let check = |address: &str, tls, expected: &str| {
            let endpoint = Endpoint {
                address: address.parse().unwrap(),
                tls,
            };
            assert_eq!(endpoint.curl("/health"), expected);
        };
        check(
            "127.0.0.1:80",
            Trust::Plain,
            "curl http://127.0.0.1:80/health",
        );
        check(
            "0.0.0.0:80",
            Trust::Plain,
            "curl http://127.0.0.1:80/health",
        );
        check("[::]:80", Trust::Given, "curl https://[::1]:80/health");
        check(
            "127.0.0.1:1",
            Trust::Unkept,
            "curl --insecure https://127.0.0.1:1/health",
        );
        check(
            "127.0.0.1:1",
            Trust::Own("/my data/it's.pem".into()),
            r"curl --cacert '/my data/it'\''s.pem' https://127.0.0.1:1/health",
        );
    }
}
