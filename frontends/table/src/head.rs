//! What a request says before its body, as plain values: the part that authorization and routing
//! read.

use std::net::IpAddr;

use hyper::{HeaderMap, Method};

use crate::address::SECONDARY;

/// A request without its body.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// As on the wire; `X-HTTP-Method` is not yet looked at.
    pub(crate) method: Method,
    /// The path as it was sent, percent-encoded.
    pub(crate) path: String,
    /// The parameters of the query, decoded, in their order.
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    /// The account that is addressed.
    pub(crate) account: String,
    /// Whether the account stood in the path (`/account/table`) and not in the host.
    pub(crate) path_style: bool,
    /// Whether the service that is played knows Atom.
    pub(crate) speaks_atom: bool,
    pub(crate) tls: bool,
    pub(crate) peer: IpAddr,
}

impl Head {
    /// Whether the request came to the account's second location.
    pub(crate) fn is_secondary(&self) -> bool {
        let account = if self.path_style {
            self.path.split('/').nth(1)
        } else {
            self.header("host")
                .and_then(|host| host.split(['.', ':']).next())
        };
        account.is_some_and(|account| account.ends_with(SECONDARY))
    }

    /// A header's text; none if it is missing or not text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The decoded parameters of a query string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    /// The first value of a parameter. Names are compared exactly.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        pairs
            .find(|(key, _)| key == name)
            .map(|(_, value)| &**value)
    }
}
