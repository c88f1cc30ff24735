//! What a run found, held against the ledger.

use std::collections::BTreeSet;
use std::fmt;

use super::{Known, Ledger};
use crate::cases::Case;
use crate::runner::Walked;

/// What a run found that the ledger must say, or says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// In which way it is otherwise.
    pub kind: Kind,
    /// The area of the case.
    pub area: String,
    /// Its name.
    pub case: String,
    /// What the walk said of it.
    pub message: String,
    /// Why, if the ledger says so.
    pub known: Option<Known>,
}

/// In which way a case is otherwise than it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It fails.
    Failed,
    /// It passes, and is not listed.
    Unlisted,
    /// It is listed, and was not tried.
    Missing,
    /// Another case has its name.
    Repeated,
    /// Listed as a difference that is none.
    Agrees,
}

impl Kind {
    /// What is said of such a case.
    pub fn words(self) -> &'static str {
        match self {
            Self::Failed => "FAILED",
            Self::Unlisted => "PASSES and is not in the ledger",
            Self::Missing => "NOT TRIED",
            Self::Repeated => "TWO CASES have the name",
            Self::Agrees => "NO DIFFERENCE, but listed as one",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kind.words(), self.area, self.case)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

impl Ledger {
    /// What a walk over this server found otherwise than it is written here.
    pub fn judge(&self, walked: &Walked, server: Option<&str>) -> Vec<Finding> {
        let client = walked.walk.walker.name;
        let listed = self.listed(client, walked.walk.variant);
        let finding = |kind, area: &str, case: &str, message: &str| Finding {
            kind,
            area: area.to_owned(),
            case: case.to_owned(),
            message: message.to_owned(),
            known: self.known(server, client, (area, case)).cloned(),
        };
        let of = |kind, case: &Case| finding(kind, &case.area, &case.name, &case.message);
        let mut findings: Vec<Finding> = walked
            .repeated()
            .into_iter()
            .map(|case| of(Kind::Repeated, case))
            .collect();
        let mut tried = BTreeSet::new();
        for case in &walked.cases {
            let key = (case.area.as_str(), case.name.as_str());
            tried.insert(key);
            let is_different = self.known(server, client, key).is_some();
            match (case.passed, listed.contains(&key)) {
                (false, _) => findings.push(of(Kind::Failed, case)),
                (true, _) if is_different && server.is_some() => findings.push(Finding {
                    known: None,
                    ..of(Kind::Agrees, case)
                }),
                (true, false) => findings.push(of(Kind::Unlisted, case)),
                (true, true) => {}
            }
        }
        let missing = listed.iter().filter(|key| !tried.contains(*key));
        findings.extend(missing.map(|(area, case)| finding(Kind::Missing, area, case, "")));
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::OURS;
    use crate::ledger::testing::{TEXT, ledger, walked};
    use crate::suites::Variant;

    fn found(walked: &Walked, server: Option<&str>) -> Vec<(Kind, String, bool)> {
        let findings = ledger(TEXT).judge(walked, server).into_iter();
        let plain = |one: Finding| (one.kind, one.case, one.known.is_some());
        findings.map(plain).collect()
    }

    #[test]
    fn a_run_that_differs_from_the_ledger_is_told_how() {
        let there = r#"only "there""#;
        let ours = Some(OURS);
        for (variant, cases, server, expected) in [
            (Variant::Plain, &[("both", true)][..], ours, vec![]),
            (Variant::Tls, &[("both", true), (there, true)], ours, vec![]),
            (
                Variant::Plain,
                &[("both", false)],
                ours,
                vec![(Kind::Failed, "both", false)],
            ),
            (
                Variant::Tls,
                &[("both", true)],
                ours,
                vec![(Kind::Missing, there, false)],
            ),
            (
                Variant::Plain,
                &[("both", true), (there, true)],
                ours,
                vec![(Kind::Unlisted, there, false)],
            ),
            (
                Variant::Plain,
                &[("both", true), ("both", true)],
                ours,
                vec![(Kind::Repeated, "both", false)],
            ),
            // A peer's difference is known; one that is gone is told too.
            (
                Variant::Plain,
                &[("both", false)],
                Some("peer"),
                vec![(Kind::Failed, "both", true)],
            ),
            (
                Variant::Plain,
                &[("both", false)],
                None,
                vec![(Kind::Failed, "both", true)],
            ),
            (
                Variant::Plain,
                &[("both", true)],
                Some("peer"),
                vec![(Kind::Agrees, "both", false)],
            ),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(kind, case, known): (Kind, &str, bool)| (kind, case.to_owned(), known))
                .collect();
            assert_eq!(
                found(&walked(variant, cases), server),
                expected,
                "{cases:?}"
            );
        }
    }
}
