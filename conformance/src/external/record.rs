//! What came of the cases of a public suite, and that by area.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Write as _};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Failure;

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// All cases that ran; of one that ran twice, the last time counts.
#[derive(Debug, Default)]
pub(crate) struct Record {
    cases: HashMap<String, Outcome>,
}

impl Record {
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        Self::parse(&fs::read_to_string(file)?)
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let mut record = Self::default();
        for line in text.lines() {
            let case: Value = serde_json::from_str(line)?;
            let field = |name| case.get(name).and_then(Value::as_str);
            let (Some(name), Some(outcome)) = (field("case"), field("outcome")) else {
                return Err(format!("no case: {line}").into());
            };
            let outcome = match outcome {
                "passed" => Outcome::Passed,
                "skipped" => Outcome::Skipped,
                // What a suite expects to fail fails all the same.
                _ => Outcome::Failed,
            };
            record.cases.insert(name.to_owned(), outcome);
        }
        Ok(record)
    }

    pub(crate) fn len(&self) -> usize {
        self.cases.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// What came of the cases that are not in the record before.
    pub(crate) fn since(&self, before: &Self) -> Count {
        let cases = self.cases.iter();
        Count::of(cases.filter(|(name, _)| !before.cases.contains_key(*name)))
    }

    fn areas(&self, area: fn(&str) -> String) -> BTreeMap<String, Count> {
        let mut areas: BTreeMap<String, Vec<(&String, &Outcome)>> = BTreeMap::new();
        for case in &self.cases {
            areas.entry(area(case.0)).or_default().push(case);
        }
        let counts = areas.into_iter();
        counts
            .map(|(area, cases)| (area, Count::of(cases)))
            .collect()
    }

    /// Whether as many cases of each area pass as the ledger says, or more.
    pub(crate) fn check(&self, area: fn(&str) -> String, ledger: &str) -> Result<(), Failure> {
        let areas = self.areas(area);
        let mut short = Vec::new();
        for (area, expected) in &ledger.parse::<toml::Table>()? {
            let expected = expected.get("passed").and_then(toml::Value::as_integer);
            let passed = areas.get(area).map_or(0, |count| count.passed);
            if let Some(expected) = expected.filter(|expected| i64::from(passed) < *expected) {
                short.push(format!("{area}: {passed} passed, {expected} expected"));
            }
        }
        match short.is_empty() {
            true => Ok(()),
            false => Err(short.join("; ").into()),
        }
    }

    /// A table of all areas, and all together.
    pub(crate) fn by_area(&self, area: fn(&str) -> String) -> String {
        let areas = self.areas(area);
        let width = areas.keys().map(String::len).max().unwrap_or(0).max(5);
        let mut table = format!(
            "\n{:<width$} {:>7} {:>7} {:>7} {:>8}\n",
            "area", "passed", "failed", "skipped", "rate"
        );
        let counts = areas.iter().map(|(area, count)| (area.as_str(), *count));
        for (area, count) in counts.chain([("all", Count::of(&self.cases))]) {
            let Count {
                passed,
                failed,
                skipped,
            } = count;
            // Writing to a string cannot fail.
            let _written = writeln!(
                table,
                "{area:<width$} {passed:>7} {failed:>7} {skipped:>7} {:>8}",
                count.rate()
            );
        }
        table
    }
}

/// How many cases came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl Count {
    fn of<'a>(cases: impl IntoIterator<Item = (&'a String, &'a Outcome)>) -> Self {
        let mut count = Self::default();
        for (_, outcome) in cases {
            match outcome {
                Outcome::Passed => count.passed += 1,
                Outcome::Failed => count.failed += 1,
                Outcome::Skipped => count.skipped += 1,
            }
        }
        count
    }

    /// What part passed of those that ran.
    fn rate(self) -> String {
        match self.passed + self.failed {
            0 => "-".to_owned(),
            ran => {
                let rate = 100.0 * f64::from(self.passed) / f64::from(ran);
                format!("{rate:.1} %")
            }
        }
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
        {\"case\":\"a/1\",\"outcome\":\"failed\",\"message\":\"x\"}\n\
        {\"case\":\"a/2\",\"outcome\":\"passed\",\"message\":\"\"}\n\
        {\"case\":\"b/1\",\"outcome\":\"skipped\",\"message\":\"\"}\n\
        {\"case\":\"a/1\",\"outcome\":\"passed\",\"message\":\"\"}\n\
        {\"case\":\"a/3\",\"outcome\":\"xfailed\",\"message\":\"\"}\n";

    #[test]
    fn cases_are_counted_once_and_by_area() {
        let record = Record::parse(LINES).unwrap();
        let before = Record::parse(LINES.lines().next().unwrap()).unwrap();
        assert_eq!(
            record.since(&before).to_string(),
            "1 passed, 1 failed, 1 skipped"
        );
        let table = record.by_area(|case| case.split('/').next().unwrap_or("").to_owned());
        let rows: Vec<_> = table.lines().map(str::split_whitespace).collect();
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| row.collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "",
                "area passed failed skipped rate",
                "a 2 1 0 66.7 %",
                "b 0 0 1 -",
                "all 2 1 1 66.7 %",
            ]
        );
        let area = |case: &str| case.split('/').next().unwrap_or("").to_owned();
        record.check(area, "[a]\npassed = 2\n").unwrap();
        let short = record
            .check(area, "[a]\npassed = 3\n[c]\npassed = 1\n")
            .unwrap_err();
        assert_eq!(
            short.to_string(),
            "a: 2 passed, 3 expected; c: 0 passed, 1 expected"
        );
        assert!(Record::parse("{}").is_err() && Record::parse("x").is_err());
        assert!(Record::parse("").unwrap().is_empty());
    }
}
