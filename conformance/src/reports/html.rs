//! One page with everything in it: which feature works with which client, and each case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Matrix, Tally, escaped, suites, summary};
use crate::cases::Case;
use crate::runner::Walked;

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; }
body { padding: 0 1rem; }
.scroll { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .7rem; text-align: right; }
td, small > span { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.good { color: var(--good); }
.bad { color: var(--bad); font-weight: 600; }
details { margin: .2rem 0; }
summary { cursor: pointer; }
ul { padding-left: 1.2rem; }
li { margin: .1rem 0; }
pre { margin: .2rem 0; padding-left: .6rem; border-left: 2px solid var(--bad); }
pre { font: 12px/1.4 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
small { opacity: .7; }
";

/// The page.
pub fn html(results: &[Walked]) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<title>Conformance</title>\n");
    // Nothing can go wrong with a string in memory.
    let _written = write_body(&mut page, results).is_ok();
    page
}

fn write_body(page: &mut String, results: &[Walked]) -> std::fmt::Result {
    writeln!(page, "<style>\n{STYLE}</style>\n<h1>Conformance</h1>")?;
    writeln!(page, "<p>{}.</p>", escaped(&summary(results)))?;
    for suite in suites(results) {
        writeln!(page, "<h2>{}</h2>", suite.title)?;
        let matrix = Matrix::of(suite, results);
        write_matrix(page, &matrix)?;
        for area in matrix.areas.keys() {
            write_area(page, suite.name, area, results)?;
        }
    }
    Ok(())
}

fn write_matrix(page: &mut String, matrix: &Matrix<'_>) -> std::fmt::Result {
    write!(page, "<div class=\"scroll\"><table>\n<tr><th>feature")?;
    for client in &matrix.clients {
        write!(page, "<th>{client}")?;
    }
    for area in matrix.areas.keys() {
        write!(page, "\n<tr><td>{}", escaped(area))?;
        for client in &matrix.clients {
            write_cell(page, matrix.cell(area, client))?;
        }
    }
    write!(page, "\n<tr><th>all")?;
    for client in &matrix.clients {
        write_cell(page, matrix.total(client))?;
    }
    writeln!(page, "\n</table></div>")
}

fn write_cell(page: &mut String, tally: Tally) -> std::fmt::Result {
    match tally {
        Tally { all: 0, .. } => write!(page, "<td>"),
        Tally { passed, all } if passed == all => {
            write!(page, "<td class=\"good\">✓ {all}")
        }
        Tally { passed, all } => write!(page, "<td class=\"bad\">✗ {passed} of {all}"),
    }
}

/// The cases of an area, each with the walks that tried it.
fn write_area(page: &mut String, suite: &str, area: &str, results: &[Walked]) -> std::fmt::Result {
    let mut cases: BTreeMap<&str, Vec<(String, &Case)>> = BTreeMap::new();
    for walked in results.iter().filter(|it| it.walk.suite.name == suite) {
        let walk = &walked.walk;
        for case in walked.cases.iter().filter(|case| case.area == area) {
            let by = format!("{} {}", walk.walker.name, walk.variant.name());
            cases.entry(&case.name).or_default().push((by, case));
        }
    }
    let failed = cases.values().flatten().any(|(_, case)| !case.passed);
    let open = if failed { " open" } else { "" };
    let (area, count) = (escaped(area), cases.len());
    writeln!(
        page,
        "<details{open}><summary>{area}: {count} cases</summary><ul>"
    )?;
    for (name, tried) in cases {
        write!(page, "<li>{} <small>", escaped(name))?;
        for (by, case) in &tried {
            let (class, sign) = if case.passed {
                ("good", '✓')
            } else {
                ("bad", '✗')
            };
            let time = case.time.as_secs_f64() * 1_000.0;
            write!(
                page,
                "<span><span class=\"{class}\">{sign}</span> {by} {time:.1} ms</span> "
            )?;
        }
        write!(page, "</small>")?;
        for (by, case) in tried.iter().filter(|(_, case)| !case.passed) {
            write!(page, "<pre>{by}: {}</pre>", escaped(&case.message))?;
        }
        writeln!(page)?;
    }
    writeln!(page, "</ul></details>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::tests::walked;

    #[test]
    fn the_page_has_the_matrix_and_the_cases_and_fetches_nothing() {
        let page = html(&[walked()]);
        for part in [
            "<td>keys<td class=\"bad\">✗ 1 of 2",
            "<li>b&lt;a&gt;d <small><span><span class=\"bad\">✗</span> scylla plain 1500.0 ms<",
            "<pre>scylla plain: &quot;&amp;\u{fffd}</pre>",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        for outside in ["src=", "href=", "url(", "<script", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
