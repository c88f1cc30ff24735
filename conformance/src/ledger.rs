//! What passes: `expected/<suite>.toml`, which a run is held against.
//!
//! A case that fails, one that passes and is not listed, and one that is listed and was not tried
//! all fail the run until the file says so: a client, an area and the names of its cases, by the
//! variants that they pass in. Where a peer differs is listed by hand, apart from what it does not
//! offer at all, because only what both servers offer can agree: each of those says where the
//! peer's own documentation or source shows the gap, so that no disagreement hides there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::Error;
use crate::cases::Case;
use crate::runner::Walked;
use crate::suites::{Suite, Variant};

/// Cases that pass in every variant that their client is tried with.
const EVERYWHERE: &str = "everywhere";
const AND: &str = " and ";
/// Between the parts of a case in the list of differences.
const SLASH: &str = " / ";
/// Any client, in the list of differences.
const ANY: &str = "*";
/// Our server, in the list of differences.
pub const OURS: &str = "tessera";
/// The lists of what a server does otherwise, and of what it does not offer.
const DIFFERENCES: &str = "differences";
const BEYOND: &str = "beyond";

const HEAD: &str = "\
# The cases that pass, by client and area, in all variants of the server or in those that are named;
# then the cases in which a server differs, each with the reason, and those of features that it does
# not offer, which are beyond it, each with where its own documentation or source shows that. A run
# that finds anything else fails. What passes is written by `tessera-conformance run --update`, the
# rest by hand.
";

type Areas = BTreeMap<String, BTreeMap<String, BTreeSet<Variant>>>;

/// The ledger of one suite.
#[derive(Debug)]
pub struct Ledger {
    suite: &'static Suite,
    /// By client, area and name.
    passes: BTreeMap<String, Areas>,
    differences: Vec<Difference>,
}

/// Where a server does not do what the cases expect.
#[derive(Clone, Debug, PartialEq)]
struct Difference {
    server: String,
    known: Known,
    /// Each as `client / area / case`.
    cases: Vec<String>,
}

/// Why a server differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// Where its own documentation or source shows that it does not offer this, if it is that.
    pub shown: Option<String>,
    /// What it does otherwise, or does not offer.
    pub reason: String,
}

impl Known {
    /// Whether the server does not offer what the case is about.
    pub fn is_beyond(&self) -> bool {
        self.shown.is_some()
    }

    /// The name of its list in the file.
    fn list(&self) -> &'static str {
        match self.shown {
            None => DIFFERENCES,
            Some(_) => BEYOND,
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            None => write!(f, "known: {}", self.reason),
            Some(shown) => write!(f, "not offered: {} ({shown})", self.reason),
        }
    }
}

/// What a run found that the ledger must say, or says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// In which way it is otherwise.
    pub kind: Kind,
    /// The area of the case.
    pub area: String,
    /// Its name.
    pub case: String,
    /// What the walk said of it.
    pub message: String,
    /// Why, if the ledger says so.
    pub known: Option<Known>,
}

/// In which way a case is otherwise than it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It fails.
    Failed,
    /// It passes, and is not listed.
    Unlisted,
    /// It is listed, and was not tried.
    Missing,
    /// Another case has its name.
    Repeated,
    /// Listed as a difference that is none.
    Agrees,
}

impl Kind {
    /// What is said of such a case.
    pub fn words(self) -> &'static str {
        match self {
            Self::Failed => "FAILED",
            Self::Unlisted => "PASSES and is not in the ledger",
            Self::Missing => "NOT TRIED",
            Self::Repeated => "TWO CASES have the name",
            Self::Agrees => "NO DIFFERENCE, but listed as one",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kind.words(), self.area, self.case)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

impl Difference {
    fn parsed(list: &str, value: &Value) -> Result<Self, String> {
        let text = |name| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let shown = match list {
            BEYOND => Some(text("shown").ok_or("what is beyond a server must be shown")?),
            _ => None,
        };
        Ok(Self {
            server: text("server").ok_or("a difference names no server")?,
            known: Known {
                reason: text("reason").ok_or("a difference has no reason")?,
                shown,
            },
            cases: strings(value.get("cases").ok_or("a difference names no cases")?)?,
        })
    }
}

impl Ledger {
    /// Where the ledger of a suite is.
    pub fn file(suite: &Suite) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("expected")
            .join(suite.name)
            .with_extension("toml")
    }

    /// Reads the ledger of a suite; a file that is not there lists nothing.
    pub fn read(suite: &'static Suite) -> Result<Self, Error> {
        let file = Self::file(suite);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::io(format!("reading {}", file.display()))(error)),
        };
        Self::parse(suite, &text)
    }

    /// Reads the ledger of a suite from this text.
    pub(crate) fn parse(suite: &'static Suite, text: &str) -> Result<Self, Error> {
        Self::parsed(suite, text).map_err(|reason| Error::Ledger {
            suite: suite.name,
            reason,
        })
    }

    fn parsed(suite: &'static Suite, text: &str) -> Result<Self, String> {
        let root: Table = text.parse().map_err(|error| format!("{error}"))?;
        let mut ledger = Self {
            suite,
            passes: BTreeMap::new(),
            differences: Vec::new(),
        };
        let passes = root.get("passes").map(table).transpose()?;
        for (client, areas) in passes.into_iter().flatten() {
            for (area, lists) in table(areas)? {
                for (variants, names) in table(lists)? {
                    let variants = ledger.variants(client, variants)?;
                    for name in strings(names)? {
                        ledger.add(client, area, &name, &variants);
                    }
                }
            }
        }
        for list in [DIFFERENCES, BEYOND] {
            let differences = root.get(list).and_then(Value::as_array);
            for one in differences.into_iter().flatten() {
                ledger.differences.push(Difference::parsed(list, one)?);
            }
        }
        Ok(ledger)
    }

    /// The suite that it is of.
    pub fn suite(&self) -> &'static Suite {
        self.suite
    }

    /// The variants that a client is tried with.
    fn all_variants(&self, client: &str) -> BTreeSet<Variant> {
        let walker = self.suite.walkers.iter().find(|it| it.name == client);
        let variants = walker.into_iter().flat_map(|walker| walker.variants);
        variants.map(|(variant, _)| *variant).collect()
    }

    fn variants(&self, client: &str, words: &str) -> Result<BTreeSet<Variant>, String> {
        if words == EVERYWHERE {
            return Ok(self.all_variants(client));
        }
        let named = |word| Variant::named(word).ok_or(format!("there is no variant {word:?}"));
        words.split(AND).map(named).collect()
    }

    fn add(&mut self, client: &str, area: &str, name: &str, variants: &BTreeSet<Variant>) {
        let areas = self.passes.entry(client.to_owned()).or_default();
        let names = areas.entry(area.to_owned()).or_default();
        names.entry(name.to_owned()).or_default().extend(variants);
    }

    /// The number of cases of a client in an area.
    pub fn count(&self, client: &str, area: &str) -> usize {
        let areas = self.passes.get(client);
        areas
            .and_then(|areas| areas.get(area))
            .map_or(0, BTreeMap::len)
    }

    /// The areas of all clients.
    pub fn areas(&self) -> BTreeSet<&str> {
        let areas = self.passes.values().flat_map(BTreeMap::keys);
        areas.map(String::as_str).collect()
    }

    /// How many cases a walk should have.
    pub fn expected(&self, walk: &crate::suites::Walk) -> usize {
        self.listed(walk.walker.name, walk.variant).len()
    }

    /// The area and the name of each case that a client should pass in a variant.
    fn listed(&self, client: &str, variant: Variant) -> BTreeSet<(&str, &str)> {
        let areas = self.passes.get(client).into_iter().flatten();
        areas
            .flat_map(|(area, names)| names.iter().map(move |(name, within)| (area, name, within)))
            .filter(|(_, _, within)| within.contains(&variant))
            .map(|(area, name, _)| (area.as_str(), name.as_str()))
            .collect()
    }

    /// Why a server differs in a case; any server but ours, if none is named.
    fn known(&self, server: Option<&str>, client: &str, case: (&str, &str)) -> Option<&Known> {
        let is_of = |one: &&Difference| match server {
            Some(server) => one.server == server,
            None => one.server != OURS,
        };
        let names = [client, ANY].map(|client| [client, case.0, case.1].join(SLASH));
        let mut differences = self.differences.iter().filter(is_of);
        let found = differences.find(|one| one.cases.iter().any(|case| names.contains(case)))?;
        Some(&found.known)
    }

    /// What a walk over this server found otherwise than it is written here.
    pub fn judge(&self, walked: &Walked, server: Option<&str>) -> Vec<Finding> {
        let client = walked.walk.walker.name;
        let listed = self.listed(client, walked.walk.variant);
        let finding = |kind, area: &str, case: &str, message: &str| Finding {
            kind,
            area: area.to_owned(),
            case: case.to_owned(),
            message: message.to_owned(),
            known: self.known(server, client, (area, case)).cloned(),
        };
        let of = |kind, case: &Case| finding(kind, &case.area, &case.name, &case.message);
        let mut findings: Vec<Finding> = walked
            .repeated()
            .into_iter()
            .map(|case| of(Kind::Repeated, case))
            .collect();
        let mut tried = BTreeSet::new();
        for case in &walked.cases {
            let key = (case.area.as_str(), case.name.as_str());
            tried.insert(key);
            let is_different = self.known(server, client, key).is_some();
            match (case.passed, listed.contains(&key)) {
                (false, _) => findings.push(of(Kind::Failed, case)),
                (true, _) if is_different && server.is_some() => findings.push(Finding {
                    known: None,
                    ..of(Kind::Agrees, case)
                }),
                (true, false) => findings.push(of(Kind::Unlisted, case)),
                (true, true) => {}
            }
        }
        let missing = listed.iter().filter(|key| !tried.contains(*key));
        findings.extend(missing.map(|(area, case)| finding(Kind::Missing, area, case, "")));
        findings
    }

    /// Writes down what a walk over our server passed.
    pub fn update(&mut self, walked: &Walked) {
        let (client, variant) = (walked.walk.walker.name, walked.walk.variant);
        for names in self
            .passes
            .entry(client.to_owned())
            .or_default()
            .values_mut()
        {
            for variants in names.values_mut() {
                variants.remove(&variant);
            }
            names.retain(|_, variants| !variants.is_empty());
        }
        let variants = BTreeSet::from([variant]);
        for case in walked.cases.iter().filter(|case| case.passed) {
            self.add(client, &case.area, &case.name, &variants);
        }
        if let Some(areas) = self.passes.get_mut(client) {
            areas.retain(|_, names| !names.is_empty());
        }
    }

    /// Writes the file.
    pub fn write(&self) -> Result<(), Error> {
        let file = Self::file(self.suite);
        fs::write(&file, self.to_string()).map_err(Error::io(format!("writing {}", file.display())))
    }
}

/// As it stands in the file.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for (client, areas) in &self.passes {
            let all = self.all_variants(client);
            for (area, names) in areas {
                write!(f, "\n[passes.{client}.{area}]\n")?;
                let mut lists: BTreeMap<String, Vec<&String>> = BTreeMap::new();
                for (name, variants) in names {
                    let key = match *variants == all {
                        true => EVERYWHERE.to_owned(),
                        false => joined(variants),
                    };
                    lists.entry(key).or_default().push(name);
                }
                for (variants, names) in lists {
                    let key = match variants.contains(' ') {
                        true => quoted(&variants),
                        false => variants,
                    };
                    list(f, &key, names)?;
                }
            }
        }
        for difference in &self.differences {
            let Difference {
                server,
                known,
                cases,
            } = difference;
            writeln!(f, "\n[[{}]]\nserver = {}", known.list(), quoted(server))?;
            writeln!(f, "reason = {}", quoted(&known.reason))?;
            if let Some(shown) = &known.shown {
                writeln!(f, "shown = {}", quoted(shown))?;
            }
            list(f, "cases", cases.iter().collect())?;
        }
        Ok(())
    }
}

fn joined(variants: &BTreeSet<Variant>) -> String {
    let names: Vec<&str> = variants.iter().map(|variant| variant.name()).collect();
    names.join(AND)
}

fn list(f: &mut fmt::Formatter<'_>, key: &str, names: Vec<&String>) -> fmt::Result {
    writeln!(f, "{key} = [")?;
    for name in names {
        writeln!(f, "    {},", quoted(name))?;
    }
    f.write_str("]\n")
}

/// A text on one line, as TOML has it.
fn quoted(text: &str) -> String {
    if !text.contains('\'') && !text.contains(char::is_control) && text.contains(['"', '\\']) {
        return format!("'{text}'");
    }
    let mut quoted = String::from('"');
    for one in text.chars() {
        let written = match one {
            '"' | '\\' => write!(quoted, "\\{one}"),
            _ if one.is_control() => write!(quoted, "\\u{:04x}", u32::from(one)),
            _ => write!(quoted, "{one}"),
        };
        // Nothing can go wrong with a string in memory.
        debug_assert!(written.is_ok());
    }
    quoted.push('"');
    quoted
}

fn table(value: &Value) -> Result<&Table, String> {
    value.as_table().ok_or(format!("{value} is no table"))
}

fn strings(value: &Value) -> Result<Vec<String>, String> {
    let all = value.as_array().ok_or(format!("{value} is no list"))?;
    all.iter()
        .map(|one| {
            one.as_str()
                .map(str::to_owned)
                .ok_or(format!("{one} is no name"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::suites::{Walk, suite};

    const TEXT: &str = r#"
[passes.python.access]
everywhere = ["both"]
tls = ['only "there"']

[[differences]]
server = "peer"
reason = "it is older"
cases = ["* / access / both"]

[[beyond]]
server = "peer"
reason = "it has no such thing"
shown = "its documentation"
cases = ["python / access / more"]
"#;

    fn ledger(text: &str) -> Ledger {
        Ledger::parse(suite("cql").unwrap(), text).unwrap()
    }

    fn walked(variant: Variant, cases: &[(&str, bool)]) -> Walked {
        let is_meant = |walk: &Walk| walk.to_string() == format!("cql python {}", variant.name());
        let case = |&(name, passed): &(&str, bool)| Case {
            area: "access".to_owned(),
            name: name.to_owned(),
            passed,
            time: Duration::ZERO,
            message: String::new(),
        };
        Walked {
            walk: Walk::all().find(is_meant).unwrap(),
            cases: cases.iter().map(case).collect(),
            time: Duration::ZERO,
            server: String::new(),
        }
    }

    fn found(walked: &Walked, server: Option<&str>) -> Vec<(Kind, String, bool)> {
        let findings = ledger(TEXT).judge(walked, server).into_iter();
        let plain = |one: Finding| (one.kind, one.case, one.known.is_some());
        findings.map(plain).collect()
    }

    #[test]
    fn a_run_that_differs_from_the_ledger_is_told_how() {
        let there = r#"only "there""#;
        let ours = Some(OURS);
        for (variant, cases, server, expected) in [
            (Variant::Plain, &[("both", true)][..], ours, vec![]),
            (Variant::Tls, &[("both", true), (there, true)], ours, vec![]),
            (
                Variant::Plain,
                &[("both", false)],
                ours,
                vec![(Kind::Failed, "both", false)],
            ),
            (
                Variant::Tls,
                &[("both", true)],
                ours,
                vec![(Kind::Missing, there, false)],
            ),
            (
                Variant::Plain,
                &[("both", true), (there, true)],
                ours,
                vec![(Kind::Unlisted, there, false)],
            ),
            (
                Variant::Plain,
                &[("both", true), ("both", true)],
                ours,
                vec![(Kind::Repeated, "both", false)],
            ),
            // A peer's difference is known; one that is gone is told too.
            (
                Variant::Plain,
                &[("both", false)],
                Some("peer"),
                vec![(Kind::Failed, "both", true)],
            ),
            (
                Variant::Plain,
                &[("both", false)],
                None,
                vec![(Kind::Failed, "both", true)],
            ),
            (
                Variant::Plain,
                &[("both", true)],
                Some("peer"),
                vec![(Kind::Agrees, "both", false)],
            ),
        ] {
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(kind, case, known): (Kind, &str, bool)| (kind, case.to_owned(), known))
                .collect();
            assert_eq!(
                found(&walked(variant, cases), server),
                expected,
                "{cases:?}"
            );
        }
    }

    #[test]
    fn what_a_server_does_not_offer_is_apart_from_what_it_does_otherwise() {
        let cases = [("both", false), ("more", false), ("new", false)];
        let findings = ledger(TEXT).judge(&walked(Variant::Plain, &cases), Some("peer"));
        let why = |one: &Finding| one.known.as_ref().map(Known::to_string);
        let shown: Vec<_> = findings.iter().map(why).collect();
        assert_eq!(
            shown,
            [
                Some("known: it is older".to_owned()),
                Some("not offered: it has no such thing (its documentation)".to_owned()),
                None,
            ]
        );
        // What passes all the same is no reason for anything.
        let findings = ledger(TEXT).judge(
            &walked(Variant::Plain, &[("both", false), ("more", true)]),
            Some("peer"),
        );
        assert!(
            findings
                .iter()
                .any(|one| one.kind == Kind::Agrees && one.known.is_none())
        );
    }

    #[test]
    fn an_update_writes_what_passed_in_one_variant() {
        let mut changed = ledger(TEXT);
        changed.update(&walked(
            Variant::Plain,
            &[("new\n'\"", true), ("both", false)],
        ));
        let again = ledger(&changed.to_string());
        assert_eq!(again.to_string(), changed.to_string());
        let listed = |variant| again.listed("python", variant);
        assert_eq!(
            listed(Variant::Plain),
            BTreeSet::from([("access", "new\n'\"")])
        );
        assert!(listed(Variant::Tls).contains(&("access", "both")));
        assert_eq!(again.differences, ledger(TEXT).differences);
    }

    #[test]
    fn a_ledger_with_a_mistake_is_refused() {
        for text in [
            "passes = 1",
            "[passes.python.access]\nsideways = ['x']",
            "[passes.python.access]\neverywhere = [1]",
            "[[differences]]\nserver = 'x'\ncases = []",
            "[[beyond]]\nserver = 'x'\nreason = 'x'\ncases = []",
            "[",
        ] {
            assert!(
                Ledger::parse(suite("cql").unwrap(), text).is_err(),
                "{text}"
            );
        }
    }
}
