//! A whole run: walks, held against the ledgers of their suites. The program's `run` and the test
//! run both do this.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::Error;
use crate::cases::Case;
use crate::ledger::{Finding, Kind, Known, Ledger, OURS};
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
    /// Which server was walked over: its name, or where it listens.
    pub server: String,
    /// What came of each walk.
    pub results: Vec<Walked>,
    /// What is otherwise than the ledgers say.
    pub findings: Vec<(Walk, Finding)>,
}

/// How far another server agrees with ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Cases that both servers pass.
    agreed: usize,
    /// Cases in which the other one does otherwise.
    otherwise: usize,
    /// Cases of what the other one does not offer, in which nothing can agree.
    beyond: usize,
}

impl Agreement {
    pub(crate) fn json(self) -> Value {
        json!({
            "agreed": self.agreed,
            "otherwise": self.otherwise,
            "not_offered": self.beyond,
        })
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            agreed,
            otherwise,
            beyond,
        } = *self;
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let percent = |of: usize| 100.0 * number(agreed) / number(of.max(1));
        let (offered, all) = (agreed + otherwise, agreed + otherwise + beyond);
        let (of_all, of_offered) = (percent(all), percent(offered));
        write!(
            f,
            "Agrees with our server in {agreed} of {all} cases, {of_all:.1} %"
        )?;
        if beyond == 0 {
            return write!(f, ", and does otherwise in {otherwise}.");
        }
        writeln!(f, ".")?;
        writeln!(f, "{beyond} of them ask for what it does not offer.")?;
        write!(
            f,
            "Of the other {offered} it agrees in {agreed}, {of_offered:.1} %, \
             and does otherwise in {otherwise}."
        )
    }
}

impl Checked {
    /// What the ledgers do not explain.
    pub fn unexplained(&self) -> impl Iterator<Item = &(Walk, Finding)> {
        self.findings.iter().filter(|(_, it)| it.known.is_none())
    }

    /// What is otherwise about a case than the ledgers say.
    pub fn finding(&self, walk: &Walk, case: &Case) -> Option<&Finding> {
        let is_meant = |it: &&(Walk, Finding)| {
            it.0 == *walk && it.1.area == case.area && it.1.case == case.name
        };
        let (_, finding) = self.findings.iter().find(is_meant)?;
        Some(finding)
    }

    /// Cases of this walk that the ledgers list, and that nobody tried.
    pub fn missing(&self, walk: &Walk) -> impl Iterator<Item = &Finding> {
        let of_walk = self.findings.iter().filter(move |it| it.0 == *walk);
        of_walk
            .map(|(_, finding)| finding)
            .filter(|finding| finding.kind == Kind::Missing)
    }

    /// How far another server agrees with ours; none if it is ours.
    pub fn agreement(&self) -> Option<Agreement> {
        if self.server == OURS {
            return None;
        }
        let count = |is: &dyn Fn(&Finding) -> bool| {
            let findings = self.findings.iter();
            findings.filter(|(_, finding)| is(finding)).count()
        };
        let tried: usize = self.results.iter().map(|walked| walked.cases.len()).sum();
        let is_beyond = |it: &Finding| it.known.as_ref().is_some_and(Known::is_beyond);
        let beyond = count(&is_beyond);
        let otherwise = count(&|it| !is_beyond(it) && it.kind != Kind::Agrees);
        let all = tried + count(&|it| it.kind == Kind::Missing);
        Some(Agreement {
            agreed: all.saturating_sub(otherwise + beyond),
            otherwise,
            beyond,
        })
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
        text.push_str(&self.explained());
        for (walk, finding) in self.unexplained() {
            text.push_str(&format!("{walk}: {finding}\n"));
        }
        text.push_str(&self.verdict());
        text
    }

    /// The sum of it, in a few sentences.
    pub fn verdict(&self) -> String {
        let mut text = format!("{}.\n", reports::summary(&self.results));
        let (known, new) = (self.findings.len(), self.unexplained().count());
        text.push_str(&match (known - new, new) {
            (0, 0) => "As the ledgers say.\n".to_owned(),
            (known, 0) => format!("As the ledgers say, {known} known differences.\n"),
            (known, new) => {
                format!("{new} otherwise than the ledgers say, and {known} known differences.\n")
            }
        });
        if let Some(agreement) = self.agreement() {
            text.push_str(&format!("{agreement}\n"));
        }
        text
    }

    /// What the ledgers explain, each reason with its cases.
    pub(crate) fn reasons(&self) -> BTreeMap<&Known, Vec<&(Walk, Finding)>> {
        let mut reasons: BTreeMap<&Known, Vec<&(Walk, Finding)>> = BTreeMap::new();
        for found in &self.findings {
            if let Some(known) = &found.1.known {
                reasons.entry(known).or_default().push(found);
            }
        }
        reasons
    }

    fn explained(&self) -> String {
        let told = self.reasons().into_iter().map(|(known, cases)| {
            let lines: String = cases
                .iter()
                .map(|(walk, finding)| format!("  {walk}: {finding}\n"))
                .collect();
            format!("{} {known}\n{lines}\n", cases.len())
        });
        told.collect()
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
    let server = options.judged_as().or(options.target).unwrap_or(OURS);
    Ok(Checked {
        server: server.to_owned(),
        results,
        findings,
    })
}

/// Writes what passed into the ledgers, and their table into `docs/compatibility.md`.
pub fn update(results: &[Walked]) -> Result<(), Error> {
    let mut ledgers = ledgers()?;
    for walked in results {
        let suite = walked.walk.suite.name;
        if let Some(ledger) = ledgers.iter_mut().find(|it| it.suite().name == suite) {
            ledger.update(walked);
        }
    }
    ledgers.iter().try_for_each(Ledger::write)?;
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(reports::PAGE);
    let doing = |what| format!("{what} {}", page.display());
    let text = fs::read_to_string(&page).map_err(Error::io(doing("reading")))?;
    let Some(text) = reports::with_support(&text, &reports::support(&ledgers)) else {
        return Ok(());
    };
    fs::write(&page, text).map_err(Error::io(doing("writing")))
}

fn ledgers() -> Result<Vec<Ledger>, Error> {
    SUITES.iter().map(Ledger::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::tests::walked;

    fn checked(results: Vec<Walked>, findings: Vec<(Walk, Finding)>) -> Checked {
        Checked {
            server: "peer".to_owned(),
            results,
            findings,
        }
    }

    fn finding(kind: Kind, shown: Option<&str>) -> (Walk, Finding) {
        let known = shown.map(|shown| Known {
            reason: "it is older".to_owned(),
            shown: Some(shown.to_owned()).filter(|shown| !shown.is_empty()),
        });
        let finding = Finding {
            kind,
            area: "keys".to_owned(),
            case: "a".to_owned(),
            message: String::new(),
            known,
        };
        (walked().walk, finding)
    }

    #[test]
    fn servers_agree_in_what_both_offer() {
        for (findings, expected) in [
            (vec![], [4, 0, 0]),
            (vec![finding(Kind::Failed, None)], [3, 1, 0]),
            (vec![finding(Kind::Failed, Some(""))], [3, 1, 0]),
            (vec![finding(Kind::Failed, Some("read me"))], [3, 0, 1]),
            (vec![finding(Kind::Missing, None)], [4, 1, 0]),
            (vec![finding(Kind::Missing, Some("read me"))], [4, 0, 1]),
            (vec![finding(Kind::Agrees, None)], [4, 0, 0]),
        ] {
            let [agreed, otherwise, beyond] = expected;
            let expected = Agreement {
                agreed,
                otherwise,
                beyond,
            };
            let checked = checked(vec![walked(), walked()], findings);
            assert_eq!(checked.agreement(), Some(expected));
        }
        let ours = Checked {
            server: OURS.to_owned(),
            ..checked(Vec::new(), Vec::new())
        };
        assert_eq!(ours.agreement(), None);
    }

    #[test]
    fn agreement_is_told_of_all_cases_and_of_what_both_offer() {
        let agreement = Agreement {
            agreed: 6,
            otherwise: 2,
            beyond: 4,
        };
        assert_eq!(
            agreement.to_string(),
            "Agrees with our server in 6 of 12 cases, 50.0 %.\n\
             4 of them ask for what it does not offer.\n\
             Of the other 8 it agrees in 6, 75.0 %, and does otherwise in 2."
        );
        let none = checked(Vec::new(), Vec::new());
        assert!(
            none.verdict()
                .contains("0 of 0 cases, 0.0 %, and does otherwise in 0.")
        );
    }

    #[test]
    fn cases_are_told_under_their_reason() {
        let known = || finding(Kind::Failed, Some("read me"));
        let findings = vec![known(), finding(Kind::Failed, None), known()];
        let checked = checked(Vec::new(), findings);
        let line = "  cql scylla plain: FAILED: keys: a\n";
        assert_eq!(
            checked.explained(),
            format!("2 not offered: it is older (read me)\n{line}{line}\n")
        );
    }
}
