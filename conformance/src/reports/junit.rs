//! The form of JUnit, which build servers read.

use std::fmt::Write as _;

use super::escaped;
use crate::runner::Walked;

/// One suite for each walk, one class for each area.
pub fn junit(results: &[Walked]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for walked in results {
        // Nothing can go wrong with a string in memory.
        let _written = suite(&mut xml, walked).is_ok();
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn suite(xml: &mut String, walked: &Walked) -> std::fmt::Result {
    let (all, failed) = (walked.cases.len(), walked.failed().count());
    let (name, time) = (walked.walk.to_string(), walked.time.as_secs_f64());
    write!(xml, "  <testsuite name=\"{name}\" tests=\"{all}\" ")?;
    writeln!(xml, "failures=\"{failed}\" time=\"{time:.3}\">")?;
    for case in &walked.cases {
        let (area, case_name) = (escaped(&case.area), escaped(&case.name));
        let seconds = case.time.as_secs_f64();
        write!(xml, "    <testcase classname=\"{name} {area}\" ")?;
        write!(xml, "name=\"{case_name}\" time=\"{seconds:.6}\"")?;
        match case.passed {
            true => writeln!(xml, "/>")?,
            false => {
                let message = escaped(&case.message);
                writeln!(xml, "><failure>{message}</failure></testcase>")?;
            }
        }
    }
    writeln!(xml, "  </testsuite>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::tests::walked;

    #[test]
    fn build_servers_can_read_it() {
        let xml = junit(&[walked()]);
        let expected = concat!(
            "  <testsuite name=\"cql scylla plain\" tests=\"2\" failures=\"1\" time=\"3.000\">\n",
            "    <testcase classname=\"cql scylla plain keys\" name=\"good\" time=\"1.500000\"/>\n",
            "    <testcase classname=\"cql scylla plain keys\" name=\"b&lt;a&gt;d\" ",
            "time=\"1.500000\"><failure>&quot;&amp;\u{fffd}</failure></testcase>\n",
            "  </testsuite>\n",
        );
        assert!(xml.contains(expected), "{xml}");
    }
}
