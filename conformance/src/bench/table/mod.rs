//! Azure Tables over HTTP: beside Azurite, beside the core below the front end, beside a bare HTTP
//! server, and with a million entities in one table.

mod pages;
mod requests;

use std::net::SocketAddr;

use tessera_conformance::peers::Peer;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::figures::{Figure, Limit, Report, Section, median};
use crate::bench::load::{Dialect, Operation};
use crate::bench::subject::{self, Subject};
use crate::bench::target::{self, Target};
use crate::bench::template::{Key, Sender};
use crate::bench::workload::{self, Row};
use crate::bench::ycsb;

const SUITE: &str = "table";
const TABLE: &str = "bench";

const ROWS: &[Row] = &[
    Row {
        name: "point get",
        operation: Operation::Read,
        echo: [Some(Limit::AtMost(2.5)), None],
        peer: Some(Limit::AtLeast(15.0)),
    },
    Row {
        name: INSERT,
        operation: Operation::Insert,
        echo: [None, None],
        peer: Some(Limit::AtLeast(5.0)),
    },
    Row {
        name: "merge of one property",
        operation: Operation::Update,
        echo: [None, None],
        peer: None,
    },
    Row {
        name: "page of 100 entities",
        operation: Operation::Range,
        echo: [None, None],
        peer: None,
    },
];
const INSERT: &str = "insert";

pub(crate) async fn run(report: &mut Report, scale: &Scale) -> Result<(), Failure> {
    let start = |data| Subject::tessera(SUITE, data);
    let subject = filled(start(tempfile::tempdir()?)?).await?;
    let ours = Target::restarted(subject, start, requests::dialect(TABLE), scale.rounds).await?;
    let azurite = workload::if_there(SUITE, "Azurite", azurite(scale).await)?;
    let targets = (&ours, azurite.as_ref());
    workload::points(report, SUITE, targets, ROWS, scale).await?;
    if scale.wants(INSERT) {
        beside_core(report, scale)?;
    }
    ycsb::shapes(report, SUITE, targets, scale).await?;
    drop(azurite);
    match scale.wants(PAGES) {
        true => pages(report, &start(tempfile::tempdir()?)?, scale).await,
        false => Ok(()),
    }
}

/// The peer, where npm can bring it.
async fn azurite(scale: &Scale) -> Result<Target, Failure> {
    let start = |data| Ok(Subject::peer(Peer::azurite_in(data)?));
    let subject = filled(start(tempfile::tempdir()?)?).await?;
    let dialect = requests::dialect(TABLE);
    match scale.azurite {
        Some(rounds) => Target::restarted(subject, start, dialect, rounds).await,
        None => {
            let target = Target::kept(subject, dialect, scale.rounds);
            target.warm_up(scale.warm_up).await?;
            Ok(target)
        }
    }
}

/// The same with a table and the entities that are read.
async fn filled(subject: Subject) -> Result<Subject, Failure> {
    pages::create(subject.address, TABLE).await?;
    target::fill(subject.address, &requests::dialect(TABLE), 1).await?;
    Ok(subject)
}

const PAGES: &str = "pages of a large table beside those of a small one";

/// Makes the table that the requests are about.
pub(crate) async fn create(address: SocketAddr) -> Result<(), Failure> {
    pages::create(address, TABLE).await
}

/// The requests with all entities under one PartitionKey.
pub(crate) fn one_partition() -> Dialect {
    Dialect {
        key: |item| Key {
            partition: 0,
            row: item,
        },
        ..requests::dialect(TABLE)
    }
}

/// A request for an entity that does not exist.
pub(crate) fn not_there() -> (&'static str, Vec<u8>) {
    let missing = Key {
        partition: 1,
        row: 0,
    };
    let mut read = requests::dialect(TABLE).read;
    (
        "read of nothing",
        read.fill(missing, Sender::default()).to_vec(),
    )
}

/// How many of the core's own inserts are left above it.
fn beside_core(report: &mut Report, scale: &Scale) -> Result<(), Failure> {
    let inserts = report
        .sections
        .iter()
        .find(|it| it.name == INSERT && it.suite == SUITE);
    let ours = inserts.and_then(|section| section.measured.first());
    let ours = ours.map_or(f64::NAN, |row| row.per_second);
    let rounds = scale.rounds;
    let rounds = (0..rounds.count).map(|_| subject::core_inserts(rounds.time));
    let core = median(rounds.collect::<Result<Vec<f64>, Failure>>()?.into_iter());
    report.add(Section {
        suite: SUITE,
        name: "insert, beside the core's own".to_owned(),
        measured: Vec::new(),
        figures: vec![Figure {
            name: "throughput",
            value: format!("{ours:.0}/s"),
            beside: format!("the core's {core:.0}/s"),
            ratio: ours / core,
            limit: Some(Limit::AtLeast(0.4)),
        }],
    })
}

/// Pages of a large table beside those of a small one.
async fn pages(report: &mut Report, subject: &Subject, scale: &Scale) -> Result<(), Failure> {
    let tables = [("small", scale.small_table), ("large", scale.large_table)];
    for (table, entities) in tables {
        pages::fill(subject.address, table, entities).await?;
    }
    subject.quiet().await?;
    let mut figures = Vec::new();
    for page in pages::PAGES {
        let tables = tables.map(|(table, _)| table);
        let [small, large] = pages::latencies(subject.address, page, tables, scale.pages).await?;
        figures.push(Figure {
            name: page.name(),
            value: format!("{large:.2} ms of {}", scale.large_table),
            beside: format!("{small:.2} ms of {}", scale.small_table),
            ratio: large / small,
            limit: Some(Limit::AtMost(2.0)),
        });
    }
    report.add(Section {
        suite: SUITE,
        name: PAGES.to_owned(),
        measured: Vec::new(),
        figures,
    })
}
