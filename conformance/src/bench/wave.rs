//! What requests cost at the start of a wave of work and what they cost by now, in one file.
//!
//! Growth comes in small steps that each look like noise, so every row is held to where the wave
//! began and not only to the step before.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Failure;

/// By how much a request may cost more than at the start of the wave, in percent.
const GROWTH: u64 = 3;
/// By how much it may differ from what was counted last, in percent: less is noise of hash seeds
/// and of when timers fire. Also to the better, so that what is written stays true.
const DRIFT: u64 = 3;

/// Instructions for one request, by its name.
pub(crate) type Counts = BTreeMap<String, u64>;

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Ledger {
    /// The commit that the wave began with.
    wave: String,
    requests: BTreeMap<String, Row>,
}

/// One request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Row {
    start: u64,
    now: u64,
}

impl Ledger {
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self)?;
        Ok(fs::write(file, text + "\n")?)
    }

    /// The names of its requests.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.requests.keys().map(String::as_str)
    }

    /// The ledger of a wave that begins at this commit, which is what was counted.
    pub(crate) fn begin(wave: &str, counted: &Counts) -> Self {
        let rows = counted.iter().map(|(name, count)| {
            let row = Row {
                start: *count,
                now: *count,
            };
            (name.clone(), row)
        });
        Self {
            wave: wave.to_owned(),
            requests: rows.collect(),
        }
    }

    /// Takes what was counted as what requests cost now. The start of the wave stays; requests that
    /// are new begin here, and those that nobody counts any more are gone.
    pub(crate) fn update(&mut self, counted: &Counts) {
        let mut requests = Self::begin(&self.wave, counted).requests;
        for (name, row) in &mut requests {
            row.start = self.requests.get(name).map_or(row.start, |old| old.start);
        }
        self.requests = requests;
    }

    /// Prints each count beside the start of the wave and what was counted last. How many are not
    /// as they should be.
    pub(crate) fn compare(&self, counted: &Counts, out: &mut impl Write) -> io::Result<usize> {
        let mut wrong = 0;
        let wave = &self.wave;
        writeln!(out, "instructions for one request, wave since {wave}")?;
        writeln!(
            out,
            "{:<24} {:>9} {:>9} {:>8} {:>9} {:>8}",
            "", "start", "now", "growth", "committed", "drift"
        )?;
        let gone = self.requests.keys();
        let gone = gone.filter(|name| !counted.contains_key(*name));
        for name in counted.keys().chain(gone) {
            let (count, row) = (counted.get(name).copied(), self.requests.get(name));
            let verdict = verdict(count, row);
            wrong += usize::from(verdict.is_some());
            let (start, now) = (row.map(|row| row.start), row.map(|row| row.now));
            writeln!(
                out,
                "{name:<24} {:>9} {:>9} {:>8} {:>9} {:>8}  {}",
                shown(start),
                shown(count),
                change(count, start),
                shown(now),
                change(count, now),
                verdict.unwrap_or_default(),
            )?;
        }
        Ok(wrong)
    }
}

/// What is wrong with a count, if anything is.
fn verdict(count: Option<u64>, row: Option<&Row>) -> Option<&'static str> {
    let (Some(count), Some(row)) = (count, row) else {
        return Some("NOT IN BOTH");
    };
    let percents = |of: u64, percent: u64| of.saturating_mul(percent);
    if percents(count, 100) > percents(row.start, 100 + GROWTH) {
        return Some("GROWN");
    }
    let drift = count.abs_diff(row.now);
    (percents(drift, 100) > percents(row.now, DRIFT)).then_some("NOT AS COMMITTED")
}

fn shown(count: Option<u64>) -> String {
    count.map_or_else(|| "none".to_owned(), |count| count.to_string())
}

/// In percent.
fn change(now: Option<u64>, before: Option<u64>) -> String {
    let float = |count: u64| Some(f64::from(u32::try_from(count).ok()?));
    let change = || {
        let (now, before) = (float(now?)?, float(before?)?);
        (before > 0.0).then(|| (now / before - 1.0) * 100.0)
    };
    change().map_or_else(String::new, |change| format!("{change:+.1} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> Counts {
        let counts = counts.iter();
        counts
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    }

    fn wrong(ledger: &Ledger, counted: &[(&str, u64)]) -> Vec<String> {
        let mut out = Vec::new();
        let wrong = ledger.compare(&counts(counted), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let marked = text.lines().filter_map(|line| {
            let (name, verdict) = (line.split(' ').next()?, line.rsplit("  ").next()?);
            let is_wrong = verdict.starts_with(|first: char| first.is_ascii_uppercase());
            is_wrong.then(|| format!("{name} {verdict}"))
        });
        let marked: Vec<String> = marked.collect();
        assert_eq!(marked.len(), wrong, "{text}");
        marked
    }

    #[test]
    fn a_request_that_costs_more_than_at_the_start_is_found_step_by_step() {
        let mut ledger = Ledger::begin("abc", &counts(&[("a", 10_000), ("b", 10_000)]));
        for step in [10_100, 10_200, 10_300] {
            assert_eq!(wrong(&ledger, &[("a", step), ("b", 9_900)]), [""; 0]);
            ledger.update(&counts(&[("a", step), ("b", 9_900)]));
        }
        // A step as small as those before, but one too many.
        let counted = [("a", 10_301), ("b", 9_900)];
        assert_eq!(wrong(&ledger, &counted), ["a GROWN"]);
        // Writing it down does not help.
        ledger.update(&counts(&counted));
        assert_eq!(wrong(&ledger, &counted), ["a GROWN"]);
    }

    #[test]
    fn a_count_that_is_not_what_is_committed_is_found_in_both_directions() {
        let mut ledger = Ledger::begin("abc", &counts(&[("a", 10_000)]));
        ledger.update(&counts(&[("a", 8_000)]));
        for (count, expected) in [
            (8_000, ""),
            (8_240, ""),
            (8_241, "a NOT AS COMMITTED"),
            (7_760, ""),
            (7_759, "a NOT AS COMMITTED"),
            (10_000, "a NOT AS COMMITTED"),
            (10_301, "a GROWN"),
        ] {
            assert_eq!(
                wrong(&ledger, &[("a", count)]).concat(),
                expected,
                "{count}"
            );
        }
    }

    #[test]
    fn requests_come_and_go_only_by_an_update() {
        let mut ledger = Ledger::begin("abc", &counts(&[("a", 100), ("old", 100)]));
        let counted = [("a", 100), ("new", 100)];
        let both = ["new NOT IN BOTH", "old NOT IN BOTH"];
        assert_eq!(wrong(&ledger, &counted), both);
        ledger.update(&counts(&counted));
        assert_eq!(ledger, Ledger::begin("abc", &counts(&counted)));
    }
}
