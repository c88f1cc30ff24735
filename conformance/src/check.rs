//! A whole run: walks, held against the ledgers of their suites. The program's `run` and the test
//! run both do this.

use std::fmt;
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

/// How far another server agrees with ours: in so many of the cases of what both offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    agreed: usize,
    cases: usize,
    /// Cases of what the other server does not offer, in which nothing can agree.
    beyond: usize,
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            agreed,
            cases,
            beyond,
        } = *self;
        let part = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let percent = 100.0 * part(agreed) / part(cases.max(1));
        write!(
            f,
            "Agrees with our server in {agreed} of {cases} cases of what both offer, \
             {percent:.1} %; {beyond} are beyond it."
        )
    }
}

impl Checked {
    /// What the ledgers do not explain.
    pub fn unexplained(&self) -> impl Iterator<Item = &(Walk, Finding)> {
        self.findings.iter().filter(|(_, it)| it.reason.is_none())
    }

    /// How far another server agrees with ours.
    pub fn agreement(&self) -> Agreement {
        let count = |is: &dyn Fn(&Finding) -> bool| {
            let findings = self.findings.iter();
            findings.filter(|(_, finding)| is(finding)).count()
        };
        let tried: usize = self.results.iter().map(|walked| walked.cases.len()).sum();
        let beyond = count(&|it| it.is_beyond);
        let different = count(&|it| !it.is_beyond && it.kind != Kind::Agrees);
        let cases = (tried + count(&|it| it.kind == Kind::Missing)).saturating_sub(beyond);
        Agreement {
            agreed: cases.saturating_sub(different),
            cases,
            beyond,
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
    let mut results = runner::run(walks, options.target, &|event| progress.tell(&event));
    progress.finish();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::tests::walked;

    #[test]
    fn servers_agree_in_what_both_offer() {
        let finding = |case: &str, kind, is_beyond| {
            let finding = Finding {
                kind,
                area: "keys".to_owned(),
                case: case.to_owned(),
                message: String::new(),
                reason: None,
                is_beyond,
            };
            (walked().walk, finding)
        };
        let all = || vec![walked(), walked()];
        for (findings, expected) in [
            (vec![], [4, 4, 0]),
            (vec![finding("a", Kind::Failed, false)], [3, 4, 0]),
            (vec![finding("a", Kind::Failed, true)], [3, 3, 1]),
            (vec![finding("a", Kind::Missing, false)], [4, 5, 0]),
            (vec![finding("a", Kind::Missing, true)], [4, 4, 1]),
            (vec![finding("a", Kind::Agrees, false)], [4, 4, 0]),
        ] {
            let checked = Checked {
                results: all(),
                findings,
            };
            let Agreement {
                agreed,
                cases,
                beyond,
            } = checked.agreement();
            assert_eq!([agreed, cases, beyond], expected);
        }
        let none = Checked {
            results: Vec::new(),
            findings: Vec::new(),
        };
        assert!(none.agreement().to_string().contains("0 of 0 cases"));
    }
}
