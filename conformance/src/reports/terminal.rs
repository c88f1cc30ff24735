//! What somebody at a terminal sees: progress and failures while it runs, and then a table.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use super::{Matrix, Tally, suites};
use crate::runner::{Event, Walked};

const BAR: usize = 30;

/// Shows how far a run is: a bar on a terminal, and a line for each walk elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    expected: usize,
    is_terminal: bool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    cases: usize,
    failed: usize,
}

impl Progress {
    /// Of a run with about so many cases.
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            began: Instant::now(),
            expected,
            is_terminal: io::stderr().is_terminal(),
            seen: Mutex::default(),
        }
    }

    /// Shows what happened.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        let mut seen = self.seen();
        let line = match event {
            Event::Heard(walk, case) => {
                seen.cases += 1;
                seen.failed += usize::from(!case.passed);
                (!case.passed).then(|| format!("FAILED {walk}: {case}"))
            }
            Event::Ended(walk, walked) => Some(ended(&walk.to_string(), walked)),
        };
        let mut out = io::stderr().lock();
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        // Without a standard error there is nobody to tell.
        let _told = match line {
            Some(line) => writeln!(out, "{clear}{line}").is_ok(),
            None => true,
        };
        if self.is_terminal {
            let _told = write!(out, "{clear}{}", self.bar(&seen)).is_ok();
            let _told = out.flush().is_ok();
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        if self.is_terminal {
            let _told = write!(io::stderr(), "\r\x1b[K").is_ok();
        }
    }

    fn bar(&self, seen: &Seen) -> String {
        let (done, all) = (seen.cases, self.expected.max(seen.cases).max(1));
        let filled = done * BAR / all;
        let (full, empty) = ("█".repeat(filled), "░".repeat(BAR - filled));
        let time = self.began.elapsed().as_secs();
        format!(
            "{full}{empty} {done} of {all} cases, {} failed, {time} s",
            seen.failed
        )
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn ended(walk: &str, walked: &Walked) -> String {
    let (all, failed) = (walked.cases.len(), walked.failed().count());
    let time = walked.time.as_secs_f64();
    let slowest = walked.cases.iter().max_by_key(|case| case.time);
    let slowest = slowest.map_or(String::new(), |case| {
        let (area, name) = (&case.area, shortened(&case.name));
        format!("; slowest {:.1} s: {area}: {name}", case.time.as_secs_f64())
    });
    format!(
        "{walk:<24} {:>4} of {all:>4} passed in {time:>5.1} s{slowest}",
        all - failed
    )
}

/// The beginning of a name: some are whole statements.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 40;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or(name)),
        None => name.to_owned(),
    }
}

/// Areas by clients, a table for each suite. All variants count.
pub(crate) fn matrix(results: &[Walked]) -> String {
    let mut text = String::new();
    for suite in suites(results) {
        let matrix = Matrix::of(suite, results);
        let mut rows = vec![[vec![suite.title.to_owned()], words(&matrix.clients)].concat()];
        for area in matrix.areas.keys() {
            let cells = matrix
                .clients
                .iter()
                .map(|client| matrix.cell(area, client));
            rows.push([vec![(*area).to_owned()], cells.map(shown).collect()].concat());
        }
        let totals = matrix.clients.iter().map(|client| matrix.total(client));
        rows.push([vec!["all".to_owned()], totals.map(shown).collect()].concat());
        text.push_str(&aligned(&rows));
        text.push('\n');
    }
    text
}

fn words(clients: &[&str]) -> Vec<String> {
    clients.iter().map(|client| (*client).to_owned()).collect()
}

fn shown(tally: Tally) -> String {
    match tally {
        Tally { all: 0, .. } => String::new(),
        Tally { passed, all } if passed == all => all.to_string(),
        Tally { passed, all } => format!("{passed}/{all}"),
    }
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match index {
                0 => text.push_str(&format!("{cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// One sentence about the whole.
pub(crate) fn summary(results: &[Walked]) -> String {
    let count = |name: &str| -> usize {
        let of_suite = results.iter().filter(|it| it.walk.suite.name == name);
        of_suite.map(|walked| walked.cases.len()).sum()
    };
    let suites: Vec<String> = suites(results)
        .map(|suite| format!("{} {}", count(suite.name), suite.name))
        .collect();
    let all: usize = results.iter().map(|walked| walked.cases.len()).sum();
    let failed: usize = results.iter().map(|walked| walked.failed().count()).sum();
    let suites = suites.join(", ");
    format!(
        "{all} cases ({suites}): {} passed, {failed} failed",
        all - failed
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::tests::walked;

    #[test]
    fn people_see_a_table_and_a_sentence() {
        let results = [walked()];
        assert_eq!(
            matrix(&results),
            "Cassandra  scylla\nkeys          1/2\nall           1/2\n\n"
        );
        assert_eq!(summary(&results), "2 cases (2 cql): 1 passed, 1 failed");
        let line = ended("cql scylla plain", &results[0]);
        assert!(
            line.contains("1 of    2 passed in   3.0 s; slowest 1.5 s: keys"),
            "{line}"
        );
    }

    #[test]
    fn the_bar_is_never_longer_than_whole() {
        let progress = Progress::new(2);
        for (cases, full) in [(0, 0), (1, 15), (2, 30), (5, 30)] {
            let bar = progress.bar(&Seen { cases, failed: 0 });
            assert_eq!(bar.matches('█').count(), full);
            assert_eq!(bar.matches(['█', '░']).count(), BAR);
        }
    }
}
