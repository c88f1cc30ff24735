//! `fuzz`: a server between clients that send made-up requests to all its ports.
//!
//! Each client opens connections, sends sequences of valid and changed requests, and reads what
//! comes. Beside them canaries ask each API for little, and the server's memory and log are looked
//! at. It stops by itself; what was sent on a connection with which something is wrong is kept, and
//! `--replay` sends it again. The inputs are made as those of the fuzzer in process
//! (`fuzz/`), from the same corpus.

mod client;
mod guard;
mod recording;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, value_parser};
use tessera_conformance::Server;

use crate::Failure;
use client::{Api, Clients, Sources};
use guard::Guard;

/// How often the server is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn arguments() -> Vec<Arg> {
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        let parser = value_parser!(u64);
        Arg::new(name)
            .long(name)
            .value_parser(parser)
            .default_value(default)
            .help(help)
    };
    let path = |name: &'static str| {
        Arg::new(name)
            .long(name)
            .value_parser(value_parser!(PathBuf))
    };
    vec![
        number("inputs", "100000", "How many requests in all"),
        number("seed", "1", "Tells the requests from those of other runs"),
        number("clients", "6", "How many clients at once"),
        number("memory", "1024", "MiB that the server may take"),
        number("patience", "2000", "Milliseconds that a canary may wait"),
        path("findings")
            .default_value("fuzz/findings")
            .help("Where connections are kept with which something is wrong"),
        path("replay").help("Send what was kept in this file, and nothing else"),
    ]
}

fn number(matches: &ArgMatches, name: &str) -> u64 {
    matches.get_one(name).copied().unwrap_or(0)
}

/// What is bounded.
#[derive(Clone, Copy)]
struct Bounds {
    memory: u64,
    patience: Duration,
}

pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let bounds = Bounds {
        memory: number(matches, "memory") << 20,
        patience: Duration::from_millis(number(matches, "patience")),
    };
    if let Some(path) = matches.get_one::<PathBuf>("replay") {
        return replay(path, bounds);
    }
    let server = Server::start(&["--durability", "periodic"])?;
    let sources = Sources::new();
    let guard = Guard::new(&server, bounds);
    let clients = Clients::new(&server, &sources, number(matches, "seed"));
    let (inputs, count) = (number(matches, "inputs"), number(matches, "clients"));
    let (sent, began) = (AtomicU64::new(0), Instant::now());
    let found = thread::scope(|scope| {
        let working: Vec<_> = (0..count)
            .map(|number| {
                let (clients, sent) = (&clients, &sent);
                scope.spawn(move || clients.work(number, inputs, sent))
            })
            .collect();
        let canaries: Vec<_> = Api::ALL
            .iter()
            .map(|api| {
                let (guard, clients) = (&guard, &clients);
                scope.spawn(move || guard.canary(*api, clients))
            })
            .collect();
        let mut found = None;
        while found.is_none() && working.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(LOOK);
            found = guard.look(&server);
        }
        clients.stop();
        let panicked = working
            .into_iter()
            .chain(canaries)
            .any(|thread| thread.join().is_err());
        found
            .or_else(|| guard.look(&server))
            .or(panicked.then(|| "a client panicked".to_owned()))
    });
    let seconds = began.elapsed().as_secs_f64();
    let polls = tessera_conformance::http::get(server.console(), "/api/polls");
    let polls = polls.map_or_else(|error| error.to_string(), |polls| polls.body);
    say(&format!(
        "{} requests on {} connections in {seconds:.0} s; {}; {polls}",
        sent.load(Ordering::Relaxed),
        clients.connections(),
        guard.summary(),
    ));
    match found {
        None => Ok(()),
        Some(found) => {
            let folder = matches
                .get_one::<PathBuf>("findings")
                .cloned()
                .unwrap_or_default();
            let kept = clients.keep(&folder)?;
            Err(format!(
                "{found}\nwhat every client sent last is kept in {}",
                kept.display()
            )
            .into())
        }
    }
}

/// Sends what was kept, connection after connection, and looks at the server after each.
fn replay(path: &Path, bounds: Bounds) -> Result<(), Failure> {
    let recordings = recording::read(&std::fs::read(path)?);
    let server = Server::start(&["--durability", "periodic"])?;
    let guard = Guard::new(&server, bounds);
    for (place, recording) in recordings.iter().enumerate() {
        let began = Instant::now();
        client::send_all(&server, recording);
        guard.ask_all();
        say(&format!("connection {place}: {:?}", began.elapsed()));
        if let Some(found) = guard.look(&server) {
            return Err(format!("connection {place}: {found}").into());
        }
    }
    say("nothing is wrong");
    Ok(())
}

fn say(line: &str) {
    // Without a standard output there is nobody to tell.
    let _told = writeln!(std::io::stdout(), "{line}").is_ok();
}
