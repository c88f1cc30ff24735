//! `external`: a public suite, from a checkout that the user has, over our server or another one.
//!
//! Nothing of a suite is part of this project. What it needs is installed in the cache; what came
//! of each case is written down by a small recorder under `clients/`, one line of JSON for each,
//! and counted here by area.

mod record;
mod suites;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgMatches, value_parser};
use tempfile::TempDir;
use tessera_conformance::Server;
use tessera_conformance::packages::source;

use crate::Failure;
use crate::arguments::{file, only};
use crate::external::record::Record;
use crate::external::suites::SUITES;

/// One public suite. Adding one is its functions and its row in [`SUITES`].
struct Suite {
    name: &'static str,
    /// What a checkout is recognised by.
    sign: &'static str,
    /// Where it comes from.
    origin: &'static str,
    /// The front end that it is for, and how our server is started for it.
    front_end: &'static str,
    options: &'static [&'static str],
    /// How it calls a server at this address.
    target: fn(&str) -> String,
    /// The programs to run one after the other, each with a name for people.
    steps: fn(&Run<'_>) -> Result<Vec<Step>, Failure>,
    /// The area of a case.
    area: fn(&str) -> String,
    /// What makes a table of a record, if anything does.
    table: Option<&'static str>,
    /// The file under `expected/` that says how many cases of each area pass at least.
    ledger: Option<&'static str>,
}

/// One program of a suite.
struct Step {
    name: String,
    command: Command,
}

/// What a suite is run with.
struct Run<'a> {
    /// The checkout.
    path: &'a Path,
    target: &'a str,
    /// The file that gets a line for each case.
    record: &'a Path,
    /// Only what has this in its name.
    only: &'a str,
}

pub(crate) fn arguments() -> Vec<Arg> {
    let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
    vec![
        Arg::new("SUITE")
            .required(true)
            .value_parser(names)
            .help("Which public suite to run"),
        Arg::new("path")
            .long("path")
            .value_name("CHECKOUT")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("Where it is checked out"),
        Arg::new("target")
            .long("target")
            .value_name("HOST:PORT")
            .help("A server that runs already; without it, ours is started"),
        only("Only what has this text in its name"),
        file(
            "record",
            "Keep what came of each case there, as lines of JSON",
        ),
        file(
            "table",
            "Write a table of it there, with what fails and why",
        ),
    ]
}

/// Runs a suite and prints what passed, failed and was skipped. Cases that fail are no failure of
/// the command: public suites have many that need something else. Fewer passes than a ledger has
/// are one.
pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let name = matches.get_one::<String>("SUITE").ok_or("no suite")?;
    let suite = SUITES.iter().find(|suite| suite.name == name);
    let suite = suite.ok_or("no such suite")?;
    let path = matches.get_one::<PathBuf>("path").ok_or("no checkout")?;
    let path = fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if !path.join(suite.sign).exists() {
        let (path, sign, origin) = (path.display(), suite.sign, suite.origin);
        return Err(format!("{path} has no {sign}: it is no checkout of {origin}").into());
    }
    let folder = tempfile::tempdir()?;
    let kept = matches.get_one::<PathBuf>("record").cloned();
    let record = std::path::absolute(kept.unwrap_or_else(|| folder.path().join("record")))?;
    fs::write(&record, "")?;
    let server = Started::for_suite(suite, matches.get_one::<String>("target"))?;
    let run = Run {
        path: &path,
        target: &(suite.target)(&server.address),
        record: &record,
        only: matches.get_one::<String>("only").map_or("", String::as_str),
    };
    run_steps((suite.steps)(&run)?, &record)?;
    let record = Record::read(&record)?;
    if record.is_empty() {
        return Err("no case ran".into());
    }
    write!(std::io::stdout(), "{}", record.by_area(suite.area))?;
    if let Some(file) = matches.get_one::<PathBuf>("table") {
        let table = suite.table.ok_or("there is no table of this suite")?;
        fs::write(file, suites::table(table, run.record)?)?;
    }
    match suite.ledger {
        Some(ledger) if run.only.is_empty() && matches.get_one::<String>("target").is_none() => {
            let ledger = source("../expected").join(ledger);
            record.check(suite.area, &fs::read_to_string(ledger)?)
        }
        _ => Ok(()),
    }
}

/// Runs the programs, each to its end, however that is: they fail when one of their cases does.
fn run_steps(steps: Vec<Step>, record: &Path) -> Result<(), Failure> {
    let mut before = Record::default();
    for mut step in steps {
        let ended = step.command.output()?;
        let now = Record::read(record)?;
        let mut out = std::io::stdout();
        writeln!(out, "{}: {}", step.name, now.since(&before))?;
        if now.len() == before.len() {
            let said = String::from_utf8_lossy(&ended.stdout);
            let last: Vec<&str> = said.lines().rev().take(5).collect();
            let wrong = String::from_utf8_lossy(&ended.stderr);
            for line in last.iter().rev().copied().chain(wrong.lines().take(20)) {
                writeln!(out, "    {line}")?;
            }
        }
        before = now;
    }
    Ok(())
}

/// The server that a suite is run over.
struct Started {
    address: String,
    _server: Option<(Server, TempDir)>,
}

impl Started {
    fn for_suite(suite: &Suite, target: Option<&String>) -> Result<Self, Failure> {
        if let Some(address) = target {
            return Ok(Self {
                address: address.clone(),
                _server: None,
            });
        }
        let data = tempfile::tempdir()?;
        let server = Server::start_on(data.path(), suite.options)?;
        let address = server.address(suite.front_end);
        let address = address.ok_or_else(|| format!("nothing serves {}", suite.front_end))?;
        Ok(Self {
            address: address.to_string(),
            _server: Some((server, data)),
        })
    }
}
