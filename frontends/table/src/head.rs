//! The head of a request as plain values: the part that authorization and routing read.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::header::{HOST, HeaderName};
use hyper::{HeaderMap, Method};

use crate::address::SECONDARY;
use crate::entity::Origin;

/// A request without its body.
#[derive(Clone, Debug)]
pub(crate) struct Head<'r> {
    /// As on the wire; `X-HTTP-Method` is not yet looked at.
    pub(crate) method: Method,
    /// The path as it was sent, percent-encoded.
    pub(crate) path: &'r str,
    /// The parameters of the query, decoded, in their order.
    pub(crate) query: Query<'r>,
    pub(crate) headers: HeaderMap,
    /// The account that is addressed.
    pub(crate) account: &'r str,
    /// Whether the account stood in the path (`/account/table`) and not in the host.
    pub(crate) path_style: bool,
    /// Whether the emulated service supports Atom.
    pub(crate) speaks_atom: bool,
    pub(crate) tls: bool,
    pub(crate) peer: IpAddr,
}

impl Head<'_> {
    /// Whether the request came to the account's second location.
    pub(crate) fn is_secondary(&self) -> bool {
        let account = if self.path_style {
            self.path.split('/').nth(1)
        } else {
            self.host().split(['.', ':']).next()
        };
        account.is_some_and(|account| account.ends_with(SECONDARY))
    }

    /// A header's text; none if it is missing or not text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The host with its port, as the client names it.
    pub(crate) fn host(&self) -> &str {
        self.header(&HOST).unwrap_or_default()
    }

    /// The origin of the answer, as the client sees it.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin {
            tls: self.tls,
            host: self.host(),
            account: self.account,
            path_style: self.path_style,
        }
    }
}

/// The decoded parameters of a query string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query<'r>(pub(crate) Vec<(Cow<'r, str>, Cow<'r, str>)>);

impl Query<'_> {
    /// The first value of a parameter. Names are compared exactly.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        pairs
            .find(|(key, _)| key == name)
            .map(|(_, value)| &**value)
    }
}
