//! Where a server is known to differ from what the cases expect, and why.

use std::fmt;

use super::Ledger;

/// Our server, in the list of differences.
pub const OURS: &str = "tessera";
/// Between the parts of a case in the list of differences.
const SLASH: &str = " / ";
/// Any client, in the list of differences.
const ANY: &str = "*";

/// Where a server does not do what the cases expect.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) server: String,
    pub(super) known: Known,
    /// Each as `client / area / case`.
    pub(super) cases: Vec<String>,
}

/// Why a server differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// Where its own documentation or source shows that it does not offer this, if it is that.
    pub shown: Option<String>,
    /// What it does otherwise, or does not offer.
    pub reason: String,
}

impl Known {
    /// Whether the server does not offer what the case is about.
    pub fn is_beyond(&self) -> bool {
        self.shown.is_some()
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            None => write!(f, "known: {}", self.reason),
            Some(shown) => write!(f, "not offered: {} ({shown})", self.reason),
        }
    }
}

impl Ledger {
    /// Why a server differs in a case; any server but ours, if none is named.
    pub(super) fn known(
        &self,
        server: Option<&str>,
        client: &str,
        case: (&str, &str),
    ) -> Option<&Known> {
        let is_of = |one: &&Difference| match server {
            Some(server) => one.server == server,
            None => one.server != OURS,
        };
        let names = [client, ANY].map(|client| [client, case.0, case.1].join(SLASH));
        let mut differences = self.differences.iter().filter(is_of);
        let found = differences.find(|one| one.cases.iter().any(|case| names.contains(case)))?;
        Some(&found.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::{TEXT, ledger, walked};
    use crate::ledger::{Finding, Kind};
    use crate::suites::Variant;

    #[test]
    fn what_a_server_does_not_offer_is_apart_from_what_it_does_otherwise() {
        let cases = [("both", false), ("more", false), ("new", false)];
        let findings = ledger(TEXT).judge(&walked(Variant::Plain, &cases), Some("peer"));
        let why = |one: &Finding| one.known.as_ref().map(Known::to_string);
        let shown: Vec<_> = findings.iter().map(why).collect();
        assert_eq!(
            shown,
            [
                Some("known: it is older".to_owned()),
                Some("not offered: it has no such thing (its documentation)".to_owned()),
                None,
            ]
        );
        // What passes all the same is no reason for anything.
        let findings = ledger(TEXT).judge(
            &walked(Variant::Plain, &[("both", false), ("more", true)]),
            Some("peer"),
        );
        assert!(
            findings
                .iter()
                .any(|one| one.kind == Kind::Agrees && one.known.is_none())
        );
    }
}
