//! Partitions and throughput as clients of all APIs see them: the story of a container, and splits
//! and merges under load. `clients/partitions/README.md` tells what is looked at.
#![cfg(test)]

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Server};

/// Long enough for splits and merges to meet many requests.
const SECONDS_OF_SPLITS: &str = "5";
/// Long enough for a budget to be given a few times.
const SECONDS_OF_SATURATION: &str = "3";
/// Asks for a measurement of so many seconds, in which latencies are judged too.
const SPLIT_SECONDS: &str = "TESSERA_SPLIT_SECONDS";
/// The same, in which it is judged whether all of the budget is granted.
const BUDGET_SECONDS: &str = "TESSERA_BUDGET_SECONDS";

fn walk(options: &[&str]) -> Result<(), Error> {
    walk_on(&["--memory", "--table-mode", "cosmos"], options)
}

fn walk_on(settings: &[&str], options: &[&str]) -> Result<(), Error> {
    let server = Server::start(settings)?;
    let client = Client::python("partitions")?.with(options);
    match client.walk(&server.console().to_string()) {
        // Figures are in it; `--nocapture` shows them.
        Ok(report) => println!("{report}"),
        // Not as a result: the report is many lines long, and must be shown as lines.
        Err(error) => panic!("{error}\n\nThe server printed:\n{}", server.output()),
    }
    server.stop()
}

#[test]
fn the_story_in_mongodb() -> Result<(), Error> {
    walk(&["story", "mongo"])
}

#[test]
fn the_story_in_cassandra() -> Result<(), Error> {
    walk(&["story", "cql"])
}

#[test]
fn the_story_in_tables() -> Result<(), Error> {
    walk(&["story", "table"])
}

#[test]
fn limits_are_kept() -> Result<(), Error> {
    let limits = [
        "--max-logical-partition",
        "100KB",
        "--max-partition-key",
        "100",
    ];
    let cosmos = ["--memory", "--table-mode", "cosmos"];
    walk_on(&[cosmos.as_slice(), &limits].concat(), &["limits"])
}

#[test]
fn splits_and_merges_lose_nothing() -> Result<(), Error> {
    match std::env::var(SPLIT_SECONDS) {
        Ok(seconds) => walk(&["splits", "--seconds", &seconds]),
        Err(_) => walk(&["splits", "--only-correct", "--seconds", SECONDS_OF_SPLITS]),
    }
}

#[test]
fn budgets_are_granted_and_neighbours_left_alone() -> Result<(), Error> {
    match std::env::var(BUDGET_SECONDS) {
        Ok(seconds) => walk(&["budget", "--seconds", &seconds]),
        Err(_) => walk(&[
            "budget",
            "--only-correct",
            "--seconds",
            SECONDS_OF_SATURATION,
        ]),
    }
}
