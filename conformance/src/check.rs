//! A whole run: walks, held against the ledgers of their suites. The program's `run` and the test
//! run both do this.

use std::fs;
use std::path::Path;

use crate::Error;
use crate::ledger::{Finding, Kind, Ledger, OURS};
use crate::reports::{self, Progress};
use crate::runner::{self, Walked};
use crate::suites::{SUITES, Walk};

/// Over which server, and how much of what the walks say counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Where another server listens; ours is started otherwise.
    pub target: Option<&'a str>,
    /// Which server that is, if it is known: the ledger says where it differs.
    pub server: Option<&'a str>,
    /// Only cases with this text in their area or name.
    pub only: &'a str,
}

impl<'a> Options<'a> {
    /// The server whose differences are known.
    fn judged_as(&self) -> Option<&'a str> {
        match self.target {
            None => Some(OURS),
            Some(_) => self.server,
        }
    }

    fn wants(&self, area: &str, case: &str) -> bool {
        area.contains(self.only) || case.contains(self.only)
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Checked {
    /// What came of each walk.
    pub results: Vec<Walked>,
    /// What is otherwise than the ledgers say.
    pub findings: Vec<(Walk, Finding)>,
}

impl Checked {
    /// What the ledgers do not explain.
    pub fn unexplained(&self) -> impl Iterator<Item = &(Walk, Finding)> {
        self.findings.iter().filter(|(_, it)| it.reason.is_none())
    }

    /// Of all cases, how many are as the ledgers say.
    pub fn agreement(&self) -> f64 {
        let cases: usize = self.results.iter().map(|walked| walked.cases.len()).sum();
        let is_tried = |(_, it): &&(Walk, Finding)| it.kind != Kind::Agrees;
        let different = self.findings.iter().filter(is_tried).count();
        let missing = self
            .findings
            .iter()
            .filter(|(_, it)| it.kind == Kind::Missing);
        let all = cases + missing.count();
        let parts = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        match all {
            0 => 0.0,
            _ => 1.0 - parts(different.min(all)) / parts(all),
        }
    }

    /// Everything that somebody should see at the end.
    pub fn text(&self) -> String {
        let mut text = reports::matrix(&self.results);
        for walked in self.results.iter().filter(|it| !it.server.is_empty()) {
            text.push_str(&format!(
                "{}: the server printed\n{}\n\n",
                walked.walk, walked.server
            ));
        }
        for (walk, finding) in &self.findings {
            text.push_str(&format!("{walk}: {finding}\n"));
        }
        text.push_str(&reports::summary(&self.results));
        text.push('\n');
        let (known, new) = (self.findings.len(), self.unexplained().count());
        match (known - new, new) {
            (0, 0) => text.push_str("As the ledgers say.\n"),
            (known, 0) => {
                text.push_str(&format!("As the ledgers say, {known} known differences.\n"))
            }
            (known, new) => text.push_str(&format!(
                "{new} otherwise than the ledgers say, and {known} known differences.\n"
            )),
        }
        text
    }
}

/// Walks, shows how it goes, and compares with the ledgers.
pub fn check(walks: &[Walk], options: &Options<'_>) -> Result<Checked, Error> {
    let ledgers = ledgers()?;
    let of = |walk: &Walk| ledgers.iter().find(|it| it.suite().name == walk.suite.name);
    let expected = walks
        .iter()
        .map(|walk| of(walk).map_or(0, |ledger| ledger.expected(walk)))
        .sum();
    let progress = Progress::new(expected);
    let results = runner::run(walks, options.target, &|event| progress.tell(&event));
    progress.finish();
    let mut results = results?;
    let mut findings = Vec::new();
    for walked in &results {
        let Some(ledger) = of(&walked.walk) else {
            continue;
        };
        let found = ledger.judge(walked, options.judged_as()).into_iter();
        let wanted = found.filter(|it| options.wants(&it.area, &it.case));
        findings.extend(wanted.map(|finding| (walked.walk, finding)));
    }
    for walked in &mut results {
        walked
            .cases
            .retain(|case| options.wants(&case.area, &case.name));
    }
    Ok(Checked { results, findings })
}

/// Writes what passed into the ledgers, and their table into the README.
pub fn update(results: &[Walked]) -> Result<(), Error> {
    let mut ledgers = ledgers()?;
    for walked in results {
        let suite = walked.walk.suite.name;
        if let Some(ledger) = ledgers.iter_mut().find(|it| it.suite().name == suite) {
            ledger.update(walked);
        }
    }
    ledgers.iter().try_for_each(Ledger::write)?;
    let readme = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(reports::README);
    let doing = |what| format!("{what} {}", readme.display());
    let text = fs::read_to_string(&readme).map_err(Error::io(doing("reading")))?;
    let Some(text) = reports::with_support(&text, &reports::support(&ledgers)) else {
        return Ok(());
    };
    fs::write(&readme, text).map_err(Error::io(doing("writing")))
}

fn ledgers() -> Result<Vec<Ledger>, Error> {
    SUITES.iter().map(Ledger::read).collect()
}
