//! How fast the server is: beside a bare server that sends the same bytes, beside other servers of
//! the same protocol, beside the core and the engine below.
//!
//! One client with 16 kept connections loads each server in turn with the same requests, written
//! beforehand. Our server syncs each write to disk before it answers. It starts anew for every
//! round, on the same data, and the median of the rounds counts.

mod client;
mod core;
mod cql;
pub(crate) mod echo;
mod feed;
mod figures;
mod folder;
pub(crate) mod instructions;
mod keys;
mod load;
mod machine;
mod markdown;
mod mongo;
mod reshard;
mod subject;
mod svg;
mod table;
mod target;
mod template;
mod wave;
mod wire;
mod workload;
mod ycsb;

use std::fs;
use std::future::Future;
use std::io::Write as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches};

use crate::Failure;
use crate::arguments::{ALL, file, only};
use crate::bench::figures::Report;
use crate::bench::machine::Machine;
use crate::bench::target::Rounds;

/// How much is measured.
#[derive(Debug)]
pub(crate) struct Scale {
    rounds: Rounds,
    /// It starts anew for each round, on the same data as before, if there is time for that. It
    /// saves everything every five seconds, so a round has to be as long.
    azurite: Option<Rounds>,
    /// It answers a few requests each second.
    ferretdb: Rounds,
    /// Of each operation, for peers that are kept running.
    warm_up: Duration,
    small_table: u64,
    large_table: u64,
    pages: u64,
    /// Items and rounds of the core.
    core: (u64, u32),
    /// Only workloads whose name has this in it: a profiler wants one thing at a time.
    only: String,
}

impl Scale {
    fn wants(&self, workload: &str) -> bool {
        workload.contains(&self.only)
    }
}

const FULL: Scale = Scale {
    rounds: Rounds {
        count: 9,
        settle: Duration::from_millis(300),
        time: Duration::from_millis(1_250),
    },
    azurite: Some(Rounds {
        count: 5,
        settle: Duration::from_secs(2),
        time: Duration::from_secs(5),
    }),
    ferretdb: Rounds {
        count: 3,
        settle: Duration::ZERO,
        time: Duration::from_millis(2_500),
    },
    warm_up: Duration::from_secs(10),
    small_table: 10_000,
    large_table: 1_000_000,
    pages: 500,
    core: (1_000_000, 4),
    only: String::new(),
};

const QUICK: Scale = Scale {
    rounds: Rounds {
        count: 3,
        settle: Duration::from_millis(100),
        time: Duration::from_millis(700),
    },
    azurite: None,
    ferretdb: Rounds {
        count: 3,
        settle: Duration::ZERO,
        time: Duration::from_millis(700),
    },
    warm_up: Duration::from_secs(3),
    small_table: 10_000,
    large_table: 50_000,
    pages: 200,
    core: (200_000, 1),
    only: String::new(),
};

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

/// What is measured together. Adding a suite is its file and its row in [`SUITES`].
struct Suite {
    name: &'static str,
    run: for<'a> fn(&'a mut Report, &'a Scale) -> Running<'a>,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "mongo",
        run: |report, scale| Box::pin(mongo::run(report, scale)),
    },
    Suite {
        name: "cql",
        run: |report, scale| Box::pin(cql::run(report, scale)),
    },
    Suite {
        name: "table",
        run: |report, scale| Box::pin(table::run(report, scale)),
    },
    Suite {
        name: "reshard",
        run: |report, scale| Box::pin(reshard::run(report, scale)),
    },
    Suite {
        name: "feed",
        run: |report, scale| Box::pin(feed::run(report, scale)),
    },
    Suite {
        name: "core",
        run: |report, scale| Box::pin(std::future::ready(core::run(report, scale))),
    },
];

/// The options that name a file to write, each with what is written there.
const OUTPUTS: [(&str, &str); 3] = [
    ("json", "Write all figures there"),
    ("svg", "Draw throughput and processor time there"),
    (
        "markdown",
        "Write a table of all servers there, for a document",
    ),
];

pub(crate) fn arguments() -> Vec<Arg> {
    let names = SUITES.iter().map(|suite| suite.name).chain([ALL]);
    let mut arguments = vec![
        Arg::new("SUITE")
            .default_value(ALL)
            .value_parser(names.collect::<Vec<_>>())
            .help("What to measure"),
        Arg::new("quick")
            .long("quick")
            .action(ArgAction::SetTrue)
            .help("Shorter rounds and fewer items: at most two minutes for a suite"),
        only("Only the workloads whose name has this text in it"),
    ];
    arguments.extend(OUTPUTS.map(|(name, help)| file(name, help)));
    arguments
}

/// Fails if a figure misses its limit.
pub(crate) fn command(matches: &ArgMatches) -> Result<(), Failure> {
    let chosen = matches.get_one::<String>("SUITE").ok_or("no suite")?;
    let mut scale = match matches.get_flag("quick") {
        true => QUICK,
        false => FULL,
    };
    scale.only = matches
        .get_one::<String>("only")
        .cloned()
        .unwrap_or_default();
    // One thread for the client: it must leave the processors to the servers.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut report = Report::default();
    let machine = Machine::here();
    writeln!(std::io::stdout(), "{}", machine.described())?;
    for suite in SUITES {
        if chosen == ALL || chosen == suite.name {
            runtime.block_on((suite.run)(&mut report, &scale))?;
        }
    }
    if let Some(file) = matches.get_one::<PathBuf>("json") {
        fs::write(file, format!("{:#}\n", report.json(&machine)))?;
    }
    if let Some(file) = matches.get_one::<PathBuf>("svg") {
        fs::write(file, svg::chart(&report.sections))?;
    }
    if let Some(file) = matches.get_one::<PathBuf>("markdown") {
        fs::write(file, markdown::table(&machine, &report.sections))?;
    }
    match report.missed() {
        0 => Ok(()),
        1 => Err("a figure misses its limit".into()),
        more => Err(format!("{more} figures miss their limits").into()),
    }
}
