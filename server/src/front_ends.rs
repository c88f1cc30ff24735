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
use tessera_cql::{Cql, CqlModel};
use tessera_frontend::{About, FrontEnd};
use tessera_mongo::{Mongo, MongoModel};
use tessera_table::{Table, TableModel};

use crate::error::Error;
use crate::output;
use crate::settings::{Config, Setting, console, cql, mongo, table};

/// One front end.
pub(crate) struct Row {
    /// Its name, its default address and its help.
    pub(crate) setting: Setting,
    /// Further settings of its own.
    pub(crate) options: &'static [Setting],
    /// The protocols of TLS's ALPN.
    pub(crate) protocols: &'static [&'static [u8]],
    /// Whether it requires authentication, as it must to listen where other machines reach it.
    pub(crate) has_users: fn(&Config) -> bool,
    /// The weakness of a secret in the settings, if there is one: the end of a sentence that names
    /// the setting.
    pub(crate) weakness: fn(&Config) -> Option<String>,
    /// How to create the first user, where authentication is required and the settings name none.
    pub(crate) first_user: fn(&Config) -> Option<&'static str>,
    /// A command to paste to try it.
    pub(crate) connect: fn(&Config, &Endpoint) -> String,
    pub(crate) start: fn(&Services<'_>) -> Result<Arc<dyn FrontEnd>, Error>,
    /// Registered also while the front end is off: background work needs it.
    pub(crate) model: Option<ApiModel>,
}

/// A front end's model of its items, for the core.
#[derive(Clone, Copy)]
pub(crate) struct ApiModel {
    /// The name of the API, as the catalog has it.
    pub(crate) api: &'static str,
    pub(crate) model: fn() -> Arc<dyn Model>,
}

/// Every front end, in the order of the banner.
pub(crate) const TABLE: &[Row] = &[
    Row {
        setting: Setting::listener(
            "mongo",
            "127.0.0.1:27017",
            "Address of the MongoDB API (mongosh and drivers)",
        ),
        options: mongo::OPTIONS,
        protocols: &[],
        has_users: |config| config.mongo.requires_authentication(),
        weakness: |config| config.mongo.weakness(),
        first_user: |config| config.mongo.how_to_begin(),
        connect: |config, endpoint| endpoint.mongosh(config.mongo.first_user()),
        start: |services| {
            let config = services.config.mongo.config(&services.about);
            let mongo = Mongo::new(services.store.clone(), config);
            let mongo = mongo.map_err(|cause| Error::Settings(format!("mongo-users: {cause}")))?;
            Ok(Arc::new(mongo))
        },
        model: Some(ApiModel {
            api: tessera_mongo::API,
            model: || Arc::new(MongoModel::default()),
        }),
    },
    Row {
        setting: Setting::listener(
            "cql",
            "127.0.0.1:9042",
            "Address of the Cassandra API (cqlsh and drivers)",
        ),
        options: cql::OPTIONS,
        protocols: &[],
        has_users: |config| config.cql.requires_authentication(),
        weakness: |config| config.cql.weakness(),
        first_user: |config| config.cql.how_to_begin(),
        connect: |config, endpoint| endpoint.cqlsh(config.cql.first_user()),
        start: |services| {
            let config = services.config.cql.config(&services.about);
            Ok(Arc::new(Cql::new(services.store.clone(), config)))
        },
        model: Some(ApiModel {
            api: tessera_cql::API,
            model: || Arc::new(CqlModel::default()),
        }),
    },
    Row {
        setting: Setting::listener(
            "table",
            "127.0.0.1:10002",
            "Address of the Table API (HTTP; Azure Tables clients)",
        ),
        options: table::OPTIONS,
        protocols: &[b"h2", b"http/1.1"],
        has_users: |config| config.table.has_own_accounts(),
        weakness: |config| config.table.weakness(),
        first_user: |_| None,
        connect: |config, endpoint| {
            config
                .table
                .connection_string(endpoint.scheme("http", "https"), endpoint.local())
        },
        start: |services| {
            let config = services.config.table.config()?;
            Ok(Arc::new(Table::new(services.store.clone(), config)))
        },
        model: Some(ApiModel {
            api: tessera_table::API,
            model: || Arc::new(TableModel),
        }),
    },
    Row {
        setting: Setting::listener(
            "console",
            "127.0.0.1:8080",
            "Address of the console (HTTP: a page for browsers, /api, /metrics, /health)",
        ),
        options: console::OPTIONS,
        protocols: &[b"http/1.1"],
        has_users: |config| config.console.admin_key().is_some(),
        weakness: |config| config.console.weakness(),
        first_user: |_| None,
        connect: |_, endpoint| endpoint.url(),
        start: |services| {
            let admin_key = services.config.console.admin_key().map(str::to_owned);
            let (store, about) = (services.store.clone(), services.about.clone());
            Ok(Arc::new(Console::new(store, about, admin_key)))
        },
        model: None,
    },
];

/// The models of all front ends, in the form that the store takes.
pub(crate) fn models() -> HashMap<String, Arc<dyn Model>> {
    let models = TABLE.iter().filter_map(|row| row.model);
    models
        .map(|row| (row.api.to_owned(), (row.model)()))
        .collect()
}

/// The inputs from which front ends are made.
pub(crate) struct Services<'a> {
    pub(crate) config: &'a Config,
    pub(crate) store: Store,
    pub(crate) about: About,
}

/// How a client reaches a front end.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Trust,
}

/// How a client trusts the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// No TLS.
    Plain,
    /// A certificate of the user, whose issuer is unknown.
    Given,
    /// A self-signed certificate, in this file.
    Own(PathBuf),
    /// A self-signed certificate that is not kept.
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

    /// The scheme of a URL, without TLS or with it.
    fn scheme(&self, plain: &'static str, tls: &'static str) -> &'static str {
        match self.tls {
            Trust::Plain => plain,
            Trust::Given | Trust::Own(_) | Trust::Unkept => tls,
        }
    }

    /// The command with which mongosh connects; it asks for the password itself.
    fn mongosh(&self, user: Option<&str>) -> String {
        let address = self.local();
        let user = user.map_or_else(String::new, |user| format!("{user}@"));
        let trust = match &self.tls {
            Trust::Plain => String::new(),
            Trust::Given => "--tls ".to_owned(),
            Trust::Own(file) => {
                let file = output::shell_word(&file.to_string_lossy());
                format!("--tls --tlsCAFile {file} ")
            }
            Trust::Unkept => "--tls --tlsAllowInvalidCertificates ".to_owned(),
        };
        format!("mongosh {trust}mongodb://{user}{address}/")
    }

    /// The command with which cqlsh connects; it asks for the password itself.
    fn cqlsh(&self, user: Option<&str>) -> String {
        let address = self.local();
        let (ip, port) = (address.ip(), address.port());
        let user = user.map_or_else(String::new, |user| {
            format!("-u {} ", output::shell_word(user))
        });
        let (trust, ssl) = match &self.tls {
            Trust::Plain => (String::new(), ""),
            Trust::Given => (String::new(), "--ssl "),
            Trust::Own(file) => {
                let file = output::shell_word(&file.to_string_lossy());
                (format!("SSL_CERTFILE={file} "), "--ssl ")
            }
            Trust::Unkept => ("SSL_VALIDATE=false ".to_owned(), "--ssl "),
        };
        format!("{trust}cqlsh {ssl}{user}{ip} {port}")
    }

    /// The URL for a browser.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}/", self.scheme("http", "https"), self.local())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_of_mongodb_is_told_whom_to_trust() {
        let check = |tls, user, expected: &str| {
            let address = "0.0.0.0:27017".parse().unwrap();
            assert_eq!(Endpoint { address, tls }.mongosh(user), expected);
        };
        check(Trust::Plain, None, "mongosh mongodb://127.0.0.1:27017/");
        check(
            Trust::Plain,
            Some("ada"),
            "mongosh mongodb://ada@127.0.0.1:27017/",
        );
        check(
            Trust::Own("/my data/cert.pem".into()),
            None,
            "mongosh --tls --tlsCAFile '/my data/cert.pem' mongodb://127.0.0.1:27017/",
        );
        check(
            Trust::Unkept,
            None,
            "mongosh --tls --tlsAllowInvalidCertificates mongodb://127.0.0.1:27017/",
        );
    }

    #[test]
    fn the_shell_of_cassandra_is_told_whom_to_trust() {
        let check = |tls, user, expected: &str| {
            let address = "0.0.0.0:9042".parse().unwrap();
            assert_eq!(Endpoint { address, tls }.cqlsh(user), expected);
        };
        check(Trust::Plain, None, "cqlsh 127.0.0.1 9042");
        check(
            Trust::Own("/my data/cert.pem".into()),
            Some("ada"),
            "SSL_CERTFILE='/my data/cert.pem' cqlsh --ssl -u ada 127.0.0.1 9042",
        );
        check(
            Trust::Unkept,
            None,
            "SSL_VALIDATE=false cqlsh --ssl 127.0.0.1 9042",
        );
    }

    #[test]
    fn addresses_can_be_pasted_into_a_browser() {
        let check = |address: &str, tls, expected: &str| {
            let address = address.parse().unwrap();
            assert_eq!(Endpoint { address, tls }.url(), expected);
        };
        check("127.0.0.1:80", Trust::Plain, "http://127.0.0.1:80/");
        check("0.0.0.0:80", Trust::Plain, "http://127.0.0.1:80/");
        check("[::]:80", Trust::Given, "https://[::1]:80/");
        check("127.0.0.1:1", Trust::Unkept, "https://127.0.0.1:1/");
    }
}
