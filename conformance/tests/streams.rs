//! Change streams of every driver over servers that are killed: each event once, and in order.
//!
//! A client follows a collection through one address, two others write to it, and meanwhile the
//! server behind the address is killed and comes back, or another one takes its place.
#![cfg(test)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tessera_conformance::clients::Client;
use tessera_conformance::relay::Relay;
use tessera_conformance::suites::suite;
use tessera_conformance::{Error, Postgres, Process, Server};

const PATIENCE: Duration = Duration::from_secs(120);

/// Documents of each of the two who write; with updates, replacements and deletes it is 1.7 times
/// as many events.
const DOCUMENTS: u64 = 60;

/// After so many events a server is killed.
const KILLS: [usize; 3] = [30, 75, 120];

/// Kills the server that clients speak to, and answers where they find the next one.
type Next<'a> = &'a mut dyn FnMut() -> Result<SocketAddr, Error>;

fn address(server: &Server) -> SocketAddr {
    let address = server.address("mongo");
    address.expect("a listener for MongoDB clients")
}

/// The number of an event that a follower prints.
fn number(line: &str) -> Option<usize> {
    let (number, _) = line.strip_prefix("event ")?.split_once(' ')?;
    number.parse().ok()
}

/// What was done to the documents of each writer, in order.
fn by_writer<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut writers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines {
        let (_, id) = line.rsplit_once(' ').expect("an operation and an id");
        writers.entry(&id[..1]).or_default().push(line);
    }
    writers
}

fn ended(process: &mut Process, who: &str) -> Result<String, Error> {
    let status = process.ended_within(PATIENCE)?;
    let printed = process.printed();
    assert!(
        status.is_some_and(|it| it.success()),
        "{who} ended with {status:?}:\n{printed}"
    );
    Ok(printed)
}

/// Follows while servers are killed, and compares what was told with what was done.
fn follow(follower: Client, first: SocketAddr, next: Next<'_>) -> Result<(), Error> {
    let relay = Relay::start(first)?;
    let endpoint = format!("mongodb://{}/", relay.address());
    let mut follower = follower.start(&endpoint)?;
    let ready = follower.wait_for(|line| (line == "ready").then_some(()), PATIENCE);
    assert!(ready.is_some(), "not ready:\n{}", follower.printed());
    let writer = Client::python_script("mongo/python", "steady.py")?;
    let mut writer = writer
        .with(["--count", &DOCUMENTS.to_string()])
        .start(&endpoint)?;
    for kill in KILLS {
        let reached = |line: &str| number(line).filter(|number| *number >= kill);
        let reached = follower.wait_for(reached, PATIENCE);
        let printed = || format!("{}\n{}", follower.printed(), writer.printed());
        assert!(reached.is_some(), "never {kill} events:\n{}", printed());
        relay.lead_to(next()?);
    }
    let wrote = ended(&mut writer, "the writer")?;
    let told = ended(&mut follower, "the follower")?;
    let wrote = wrote.lines().filter_map(|line| line.strip_prefix("wrote "));
    let events = told.lines().filter(|line| number(line).is_some());
    let events = events.filter_map(|line| line.splitn(3, ' ').nth(2));
    assert_eq!(by_writer(events), by_writer(wrote), "{told}");
    Ok(())
}

/// A server that is killed and started again on what it left behind.
fn over_restarts(follower: Client) -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a folder for data");
    let start = || Server::start_on(folder.path(), &[]);
    let mut server = Some(start()?);
    let first = server.as_ref().map(address).expect("it was started");
    follow(follower, first, &mut || {
        // Dropping it kills it.
        drop(server.take());
        Ok(address(server.insert(start()?)))
    })
}

/// Two servers on one database: when one is killed the other takes over, and then back.
fn over_servers(postgres: &Postgres, name: &str, follower: Client) -> Result<(), Error> {
    let place = postgres.place(name)?;
    let start = || Server::start(&["--engine", &place]);
    let (mut serving, mut waiting) = (start()?, start()?);
    follow(follower, address(&serving), &mut || {
        std::mem::swap(&mut serving, &mut waiting);
        // Dropping the one that served kills it.
        waiting = start()?;
        Ok(address(&serving))
    })
}

/// A follower with each driver, and what makes it.
type Follower = (&'static str, fn() -> Result<Client, Error>);

const FOLLOWERS: [Follower; 6] = [
    ("pymongo", || {
        Client::python_script("mongo/python", "follow.py")
    }),
    ("node", || {
        Client::node_script("mongo/javascript", "follow.js")
    }),
    ("mongosh", || Client::mongosh("follow.js")),
    ("rust", || Client::rust("mongo_follow")),
    ("go", || Client::go("follow")),
    ("java", || Client::java("MongoFollow")),
];

/// Those whose languages this machine has.
fn followers() -> impl Iterator<Item = &'static Follower> {
    let is_here = |(name, _): &&Follower| {
        let walkers = suite("mongo").map_or(&[][..], |suite| suite.walkers);
        let walker = walkers.iter().find(|walker| walker.name == *name);
        walker.is_some_and(|walker| walker.lacks().is_none())
    };
    FOLLOWERS.iter().filter(is_here)
}

#[test]
fn streams_go_on_after_their_server_was_killed_and_started_again() -> Result<(), Error> {
    for (name, follower) in followers() {
        println!("{name}");
        over_restarts(follower()?)?;
    }
    Ok(())
}

#[test]
fn streams_go_on_with_another_server_of_the_same_database() -> Result<(), Error> {
    let postgres = Postgres::start()?;
    for (name, follower) in followers() {
        println!("{name}");
        over_servers(&postgres, &format!("streams_{name}"), follower()?)?;
    }
    Ok(())
}
