//! One page with everything in it: which feature works with which client, and each case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Matrix, Tally, escaped, suites};
use crate::cases::Case;
use crate::check::Checked;
use crate::ledger::{Finding, Known};
use crate::suites::{Suite, Walk};

const STYLE: &str = include_str!("page.css");

/// The page.
pub fn html(checked: &Checked) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // Nothing can go wrong with a string in memory.
    let _written = write_body(&mut page, checked).is_ok();
    page
}

fn write_body(page: &mut String, checked: &Checked) -> std::fmt::Result {
    let server = escaped(&checked.server);
    writeln!(page, "<title>Conformance of {server}</title>")?;
    writeln!(
        page,
        "<style>\n{STYLE}</style>\n<h1>Conformance of {server}</h1>"
    )?;
    let class = match checked.unexplained().next() {
        None => "good",
        Some(_) => "bad",
    };
    writeln!(page, "<div class=\"verdict {class}\">")?;
    for sentence in checked.verdict().lines() {
        writeln!(page, "<p>{}</p>", escaped(sentence))?;
    }
    writeln!(page, "</div>")?;
    write_unexplained(page, checked)?;
    for suite in suites(&checked.results) {
        writeln!(page, "<h2>{}</h2>", suite.title)?;
        let matrix = Matrix::of(suite, &checked.results);
        write_matrix(page, suite, &matrix, checked)?;
        for area in matrix.areas.keys() {
            write_area(page, suite, area, checked)?;
        }
    }
    write_explained(page, "What it does otherwise", checked, |known| {
        !known.is_beyond()
    })?;
    write_explained(page, "What it does not offer", checked, Known::is_beyond)
}

fn write_unexplained(page: &mut String, checked: &Checked) -> std::fmt::Result {
    if checked.unexplained().next().is_none() {
        return Ok(());
    }
    writeln!(page, "<h2>Otherwise than the ledgers say</h2>\n<ul>")?;
    for (walk, finding) in checked.unexplained() {
        write_finding(page, walk, finding)?;
    }
    writeln!(page, "</ul>")
}

/// Some of what the ledgers explain, each reason with its cases.
fn write_explained(
    page: &mut String,
    title: &str,
    checked: &Checked,
    is_meant: impl Fn(&Known) -> bool,
) -> std::fmt::Result {
    let mut reasons = checked.reasons();
    reasons.retain(|known, _| is_meant(known));
    if !reasons.is_empty() {
        writeln!(page, "<h2>{title}</h2>")?;
    }
    for (known, findings) in reasons {
        let (reason, count) = (escaped(&known.reason), findings.len());
        let shown = known.shown.as_deref().map_or(String::new(), |shown| {
            format!("<br><small>{}</small>", escaped(shown))
        });
        writeln!(
            page,
            "<details><summary>{reason} <small>{count}</small>{shown}</summary><ul>"
        )?;
        for (walk, finding) in findings {
            write_finding(page, walk, finding)?;
        }
        writeln!(page, "</ul></details>")?;
    }
    Ok(())
}

fn write_finding(page: &mut String, walk: &Walk, finding: &Finding) -> std::fmt::Result {
    let (what, case) = (finding.kind.words(), escaped(&finding.case));
    let area = escaped(&finding.area);
    write!(page, "<li><small>{walk}: {area}: {what}</small> {case}")?;
    write_message(page, &finding.message)
}

fn write_message(page: &mut String, message: &str) -> std::fmt::Result {
    match message {
        "" => writeln!(page),
        message => writeln!(page, "<pre>{}</pre>", escaped(message)),
    }
}

fn write_matrix(
    page: &mut String,
    suite: &Suite,
    matrix: &Matrix<'_>,
    checked: &Checked,
) -> std::fmt::Result {
    let unexplained = |client: &str, area: Option<&str>| {
        checked.unexplained().any(|(walk, finding)| {
            let is_there = walk.suite.name == suite.name && walk.walker.name == client;
            is_there && area.is_none_or(|area| finding.area == area)
        })
    };
    write!(page, "<div class=\"scroll\"><table>\n<tr><th>feature")?;
    for client in &matrix.clients {
        write!(page, "<th>{client}")?;
    }
    for area in matrix.areas.keys() {
        write!(page, "\n<tr><th>{}", escaped(area))?;
        for client in &matrix.clients {
            let sign = Sign::of(matrix.cell(area, client), unexplained(client, Some(area)));
            write_cell(page, matrix.cell(area, client), sign)?;
        }
    }
    write!(page, "\n<tr class=\"sum\"><th>all")?;
    for client in &matrix.clients {
        let sign = Sign::of(matrix.total(client), unexplained(client, None));
        write_cell(page, matrix.total(client), sign)?;
    }
    writeln!(page, "\n</table></div>")
}

/// How something went.
#[derive(Clone, Copy)]
enum Sign {
    Good,
    /// Not as it should be, and the ledger says why.
    Known,
    Bad,
}

impl Sign {
    fn of(tally: Tally, is_unexplained: bool) -> Self {
        match (is_unexplained, tally.passed == tally.all) {
            (true, _) => Self::Bad,
            (false, true) => Self::Good,
            (false, false) => Self::Known,
        }
    }

    /// The class of its color, and the sign itself: colors are not for everybody.
    fn shown(self) -> (&'static str, char) {
        match self {
            Self::Good => ("good", '✓'),
            Self::Known => ("known", '≠'),
            Self::Bad => ("bad", '✗'),
        }
    }
}

fn write_cell(page: &mut String, tally: Tally, sign: Sign) -> std::fmt::Result {
    let (class, sign) = sign.shown();
    match tally {
        Tally { all: 0, .. } => write!(page, "<td>"),
        Tally { passed, all } if passed == all => {
            write!(page, "<td class=\"{class}\">{sign} {all}")
        }
        Tally { passed, all } => write!(page, "<td class=\"{class}\">{sign} {passed} of {all}"),
    }
}

/// The cases of an area, each with the walks that tried it.
fn write_area(page: &mut String, suite: &Suite, area: &str, checked: &Checked) -> std::fmt::Result {
    let mut cases: BTreeMap<&str, Vec<(&Walk, &Case)>> = BTreeMap::new();
    let of_suite = checked.results.iter();
    for walked in of_suite.filter(|it| it.walk.suite.name == suite.name) {
        for case in walked.cases.iter().filter(|case| case.area == area) {
            let tried = cases.entry(&case.name).or_default();
            tried.push((&walked.walk, case));
        }
    }
    let count = cases.len();
    writeln!(
        page,
        "<details><summary>{} <small>{count} cases</small></summary><ul>",
        escaped(area)
    )?;
    for (name, tried) in cases {
        write!(page, "<li>{} <small>", escaped(name))?;
        for (walk, case) in tried {
            let (class, sign) = match checked.finding(walk, case) {
                None => Sign::Good,
                Some(finding) if finding.known.is_some() => Sign::Known,
                Some(_) => Sign::Bad,
            }
            .shown();
            let (client, variant) = (walk.walker.name, walk.variant.name());
            let time = case.time.as_secs_f64() * 1_000.0;
            write!(
                page,
                "<span><b class=\"{class}\">{sign}</b> {client} {variant} {time:.1} ms</span> "
            )?;
        }
        writeln!(page, "</small>")?;
    }
    writeln!(page, "</ul></details>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::tests::checked;

    #[test]
    fn the_page_has_the_matrix_and_the_cases_and_fetches_nothing() {
        let page = html(&checked());
        for part in [
            "<h1>Conformance of peer</h1>",
            "<th>keys<td class=\"bad\">✗ 1 of 2",
            "<li>b&lt;a&gt;d <small><span><b class=\"bad\">✗</b> scylla plain 1500.0 ms<",
            "<li><small>cql scylla plain: keys: FAILED</small> b&lt;a&gt;d<pre>&quot;&amp;",
            "<summary>it is older <small>1</small></summary>",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        for outside in ["src=", "href=", "url(", "<script", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
