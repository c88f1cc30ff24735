//! The form of JUnit, which build servers read.
//!
//! A case fails there exactly if it fails the run: what a ledger explains is skipped with its
//! reason, and what a ledger lists and nobody tried is a case that failed.

use std::fmt::Write as _;
use std::time::Duration;

use super::escaped;
use crate::cases::Case;
use crate::check::Checked;
use crate::ledger::Finding;
use crate::runner::Walked;

/// One suite for each walk, one class for each area.
pub fn junit(checked: &Checked) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suites: Vec<Suite> = checked
        .results
        .iter()
        .map(|it| suite(checked, it))
        .collect();
    let sum = suites.iter().fold(Counts::default(), |sum, suite| Counts {
        tests: sum.tests + suite.counts.tests,
        failures: sum.failures + suite.counts.failures,
        skipped: sum.skipped + suite.counts.skipped,
        time: sum.time + suite.counts.time,
    });
    let server = escaped(&checked.server);
    // Nothing can go wrong with a string in memory.
    let _written = writeln!(xml, "<testsuites name=\"{server}\" {}>", sum.text()).is_ok();
    for Suite {
        name,
        counts,
        cases,
    } in suites
    {
        let counts = counts.text();
        let _written = writeln!(xml, "  <testsuite name=\"{name}\" {counts}>").is_ok();
        xml.push_str(&cases);
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// A suite, with its cases written out.
struct Suite {
    name: String,
    counts: Counts,
    cases: String,
}

#[derive(Default)]
struct Counts {
    tests: usize,
    failures: usize,
    skipped: usize,
    time: Duration,
}

impl Counts {
    fn text(&self) -> String {
        let Self {
            tests,
            failures,
            skipped,
            time,
        } = self;
        let seconds = time.as_secs_f64();
        format!(
            "tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" \
             time=\"{seconds:.3}\""
        )
    }
}

fn suite(checked: &Checked, walked: &Walked) -> Suite {
    let walk = &walked.walk;
    let mut suite = Suite {
        name: walk.to_string(),
        counts: Counts {
            time: walked.time,
            ..Counts::default()
        },
        cases: String::new(),
    };
    for case in &walked.cases {
        suite.add(case, checked.finding(walk, case));
    }
    for finding in checked.missing(walk) {
        let case = Case {
            area: finding.area.clone(),
            name: finding.case.clone(),
            passed: false,
            time: Duration::ZERO,
            message: String::new(),
        };
        suite.add(&case, Some(finding));
    }
    suite
}

impl Suite {
    fn add(&mut self, case: &Case, finding: Option<&Finding>) {
        self.counts.tests += 1;
        let known = finding.and_then(|finding| finding.known.as_ref());
        let outcome = match (finding, known) {
            (_, Some(known)) => {
                self.counts.skipped += 1;
                format!("<skipped message=\"{}\"/>", escaped(&known.to_string()))
            }
            (Some(finding), None) => {
                self.counts.failures += 1;
                let (kind, message) = (finding.kind.words(), escaped(&finding.message));
                format!("<failure type=\"{kind}\" message=\"{kind}\">{message}</failure>")
            }
            (None, None) => String::new(),
        };
        // Build servers take what is before the last dot for the place of a class.
        let class = format!("{}.{}", self.name.replace(' ', "."), escaped(&case.area));
        let (name, seconds) = (escaped(&case.name), case.time.as_secs_f64());
        // Nothing can go wrong with a string in memory.
        let _written = writeln!(
            self.cases,
            "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.6}\">{outcome}\
             </testcase>"
        )
        .is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::tests::checked;

    #[test]
    fn build_servers_can_read_it() {
        let counts = "tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"3.000\"";
        let case = "    <testcase classname=\"cql.scylla.plain.keys\" name=";
        let expected = [
            format!("<testsuites name=\"peer\" {counts}>\n"),
            format!("  <testsuite name=\"cql scylla plain\" {counts}>\n"),
            format!("{case}\"good\" time=\"1.500000\"></testcase>\n"),
            format!(
                "{case}\"b&lt;a&gt;d\" time=\"1.500000\"><failure type=\"FAILED\" \
                 message=\"FAILED\">&quot;&amp;\u{fffd}</failure></testcase>\n"
            ),
            format!(
                "{case}\"old\" time=\"0.000000\"><skipped message=\"known: it is older\"/>\
                 </testcase>\n"
            ),
        ];
        let xml = junit(&checked());
        assert!(xml.contains(&expected.concat()), "{xml}");
    }
}
