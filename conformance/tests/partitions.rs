//! Partitions and throughput as clients of all APIs see them: the story of a container, and splits
//! and merges under load. `clients/partitions/README.md` tells what is looked at.
#![cfg(test)]

use tessera_conformance::clients::Client;
use tessera_conformance::{Error, Server};

/// Long enough for splits and merges to meet many requests; the whole measurement takes 60.
const SECONDS_OF_SPLITS: &str = "5";

fn walk(options: &[&str]) -> Result<(), Error> {
    let server = Server::start(&["--memory", "--table-mode", "cosmos"])?;
    let client = Client::python("partitions")?.with(options);
    if let Err(error) = client.walk(&server.console().to_string(), None) {
        // Not as a result: the report is many lines long, and must be shown as lines.
        panic!("{error}\n\nThe server printed:\n{}", server.output());
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
fn splits_and_merges_lose_nothing() -> Result<(), Error> {
    walk(&["splits", "--only-correct", "--seconds", SECONDS_OF_SPLITS])
}
