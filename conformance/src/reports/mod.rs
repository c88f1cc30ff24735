//! What came of a run, for people and for programs.

mod html;
mod junit;
mod support;
mod terminal;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cases::Case;
use crate::check::Checked;
use crate::ledger::Finding;
use crate::runner::Walked;
use crate::suites::{SUITES, Suite, Walk};

pub use html::html;
pub use junit::junit;
pub use support::is_current;
pub(crate) use support::{PAGE, support, with_support};
pub(crate) use terminal::{Progress, matrix, summary};

/// How many cases passed, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    passed: usize,
    all: usize,
}

/// The results of one suite by area and client.
struct Matrix<'a> {
    clients: Vec<&'static str>,
    areas: BTreeMap<&'a str, BTreeMap<&'static str, Tally>>,
}

impl<'a> Matrix<'a> {
    fn of(suite: &Suite, results: &'a [Walked]) -> Self {
        let mut areas: BTreeMap<&str, BTreeMap<&'static str, Tally>> = BTreeMap::new();
        let of_suite = |walked: &&Walked| walked.walk.suite.name == suite.name;
        for walked in results.iter().filter(of_suite) {
            for case in &walked.cases {
                let clients = areas.entry(&case.area).or_default();
                let tally = clients.entry(walked.walk.walker.name).or_default();
                tally.all += 1;
                tally.passed += usize::from(case.passed);
            }
        }
        let is_there = |name: &&'static str| areas.values().any(|it| it.contains_key(name));
        let names = suite.walkers.iter().map(|walker| walker.name);
        Self {
            clients: names.filter(is_there).collect(),
            areas,
        }
    }

    fn cell(&self, area: &str, client: &str) -> Tally {
        let clients = self.areas.get(area);
        let found = clients.and_then(|clients| clients.get(client));
        found.copied().unwrap_or_default()
    }

    /// All areas of a client together.
    fn total(&self, client: &str) -> Tally {
        let cells = self.areas.keys().map(|area| self.cell(area, client));
        cells.fold(Tally::default(), |sum, cell| Tally {
            passed: sum.passed + cell.passed,
            all: sum.all + cell.all,
        })
    }
}

/// The suites that something was found of.
fn suites(results: &[Walked]) -> impl Iterator<Item = &'static Suite> {
    let has = |suite: &&Suite| {
        let mut walks = results.iter().map(|walked| walked.walk);
        walks.any(|walk| walk.suite.name == suite.name)
    };
    SUITES.iter().filter(has)
}

/// Everything, for programs.
pub fn json(checked: &Checked) -> Value {
    let walk = |walked: &Walked| {
        let cases: Vec<Value> = walked.cases.iter().map(Case::json).collect();
        json!({
            "suite": walked.walk.suite.name,
            "client": walked.walk.walker.name,
            "variant": walked.walk.variant.name(),
            "seconds": walked.time.as_secs_f64(),
            "cases": cases,
        })
    };
    let finding = |(walk, finding): &(Walk, Finding)| {
        json!({
            "suite": walk.suite.name,
            "client": walk.walker.name,
            "variant": walk.variant.name(),
            "area": finding.area,
            "case": finding.case,
            "what": finding.kind.words(),
            "reason": finding.known.as_ref().map(|known| &known.reason),
            "shown": finding.known.as_ref().and_then(|known| known.shown.as_ref()),
        })
    };
    let (results, findings) = (checked.results.iter(), checked.findings.iter());
    let cases = || results.clone().flat_map(|walked| &walked.cases);
    json!({
        "server": checked.server,
        "cases": cases().count(),
        "passed": cases().filter(|case| case.passed).count(),
        "failed": cases().filter(|case| !case.passed).count(),
        "unexplained": checked.unexplained().count(),
        "agreement": checked.agreement().map(|agreement| agreement.json()),
        "walks": results.clone().map(walk).collect::<Vec<_>>(),
        "findings": findings.map(finding).collect::<Vec<_>>(),
    })
}

/// A text that may stand in XML and in HTML, in an attribute too.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(one),
            // XML has no form for these; other control characters may stand as they are.
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                escaped.push('\u{fffd}');
            }
            _ => escaped.push(one),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ledger::{Kind, Known};

    /// A walk with two cases, of which one failed with a message that needs care.
    pub(crate) fn walked() -> Walked {
        let case = |name: &str, message: &str| Case {
            area: "keys".to_owned(),
            name: name.to_owned(),
            passed: message.is_empty(),
            time: Duration::from_millis(1_500),
            message: message.to_owned(),
        };
        Walked {
            walk: Walk::all()
                .find(|walk| walk.to_string() == "cql scylla plain")
                .unwrap(),
            cases: vec![case("good", ""), case("b<a>d", "\"&\u{1}")],
            time: Duration::from_secs(3),
            server: String::new(),
        }
    }

    /// The same held against a ledger, which has a third case and knows why it was not tried.
    pub(crate) fn checked() -> Checked {
        let finding = |kind, case: &str, message: &str, known: Option<&str>| Finding {
            kind,
            area: "keys".to_owned(),
            case: case.to_owned(),
            message: message.to_owned(),
            known: known.map(|reason| Known {
                reason: reason.to_owned(),
                shown: None,
            }),
        };
        let findings = [
            finding(Kind::Failed, "b<a>d", "\"&\u{1}", None),
            finding(Kind::Missing, "old", "", Some("it is older")),
        ];
        Checked {
            server: "peer".to_owned(),
            results: vec![walked()],
            findings: findings.map(|one| (walked().walk, one)).to_vec(),
        }
    }

    #[test]
    fn texts_that_differ_differ_in_xml_too() {
        assert_eq!(escaped("\u{7f}\u{80}\n\u{1}"), "\u{7f}\u{80}\n\u{fffd}");
    }

    #[test]
    fn cases_are_counted_by_area_and_client() {
        let results = [walked()];
        let suite = suites(&results).next().unwrap();
        let matrix = Matrix::of(suite, &results);
        assert_eq!(matrix.clients, ["scylla"]);
        let both = Tally { passed: 1, all: 2 };
        assert_eq!(matrix.cell("keys", "scylla"), both);
        assert_eq!(matrix.total("scylla"), both);
        assert_eq!(matrix.cell("keys", "cdrs"), Tally::default());
    }

    #[test]
    fn programs_read_every_case() {
        let found = json(&checked());
        for (place, expected) in [
            ("/walks/0/cases/1/message", json!("\"&\u{1}")),
            ("/walks/0/client", json!("scylla")),
            ("/cases", json!(2)),
            ("/failed", json!(1)),
            ("/unexplained", json!(1)),
            ("/agreement/agreed", json!(1)),
            ("/findings/1/reason", json!("it is older")),
        ] {
            assert_eq!(found.pointer(place), Some(&expected), "{place}");
        }
    }
}
