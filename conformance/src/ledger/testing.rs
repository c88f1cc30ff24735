//! A ledger, and walks to hold against it, for the tests here.

use std::time::Duration;

use super::Ledger;
use crate::cases::Case;
use crate::runner::Walked;
use crate::suites::{Variant, Walk, suite};

pub(super) const TEXT: &str = r#"
[passes.python.access]
everywhere = ["both"]
tls = ['only "there"']

[[differences]]
server = "peer"
reason = "it is older"
cases = ["* / access / both"]

[[beyond]]
server = "peer"
reason = "it has no such thing"
shown = "its documentation"
cases = ["python / access / more"]
"#;

pub(super) fn ledger(text: &str) -> Ledger {
    Ledger::parse(suite("cql").unwrap(), text).unwrap()
}

/// A walk with these cases, each with whether it passed.
pub(super) fn walked(variant: Variant, cases: &[(&str, bool)]) -> Walked {
    let is_meant = |walk: &Walk| walk.to_string() == format!("cql python {}", variant.name());
    let case = |&(name, passed): &(&str, bool)| Case {
        area: "access".to_owned(),
        name: name.to_owned(),
        passed,
        time: Duration::ZERO,
        message: String::new(),
    };
    Walked {
        walk: Walk::all().find(is_meant).unwrap(),
        cases: cases.iter().map(case).collect(),
        time: Duration::ZERO,
        server: String::new(),
    }
}
