//! CQL as a driver speaks it: version 4, statements prepared once, 32 of them on the way on each
//! connection.

use std::net::SocketAddr;

use tessera_conformance::peers::Peer;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::figures::{Limit, Report};
use crate::bench::load::{Connection, Dialect, Operation};
use crate::bench::subject::Subject;
use crate::bench::target::{self, RANGE, Target};
use crate::bench::template::{Form, Key, Mark, Place, Source, Template};
use crate::bench::wire::Wire;
use crate::bench::workload::{self, Row};
use crate::bench::ycsb;

const SUITE: &str = "cql";
const STREAMS: usize = 32;
const VERSION: u8 = 4;
/// What stands for the two keys.
const PARTITION: &[u8] = b"{parted}";
const ROW: &[u8] = b"{the-row";
const LOCAL_ONE: u16 = 10;

mod op_code {
    pub(super) const STARTUP: u8 = 1;
    pub(super) const READY: u8 = 2;
    pub(super) const QUERY: u8 = 7;
    pub(super) const RESULT: u8 = 8;
    pub(super) const PREPARE: u8 = 9;
    pub(super) const EXECUTE: u8 = 10;
}

const ROWS: &[Row] = &[
    Row {
        name: "prepared SELECT of a row",
        operation: Operation::Read,
        echo: [Some(Limit::AtMost(3.0)), Some(Limit::AtLeast(0.4))],
        peer: None,
    },
    Row {
        name: "prepared INSERT",
        operation: Operation::Insert,
        echo: [None, None],
        peer: None,
    },
    Row {
        name: "prepared UPDATE",
        operation: Operation::Update,
        echo: [None, None],
        peer: None,
    },
    Row {
        name: "prepared SELECT of 100 rows",
        operation: Operation::Range,
        echo: [None, None],
        peer: None,
    },
];

const SCHEMA: &[&str] = &[
    "CREATE KEYSPACE bench WITH replication = \
     {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE bench.items (part bigint, line bigint, field0 text, field1 text, field2 text, \
     field3 text, field4 text, field5 text, field6 text, field7 text, field8 text, field9 text, \
     PRIMARY KEY (part, line))",
];

const READ: &str = "SELECT * FROM bench.items WHERE part = ? AND line = ?";
const RANGE_READ: &str = "SELECT * FROM bench.items WHERE part = ?";
const INSERT: &str = "INSERT INTO bench.items (part, line, field0, field1, field2, field3, field4, \
                      field5, field6, field7, field8, field9) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, \
                      ?, ?, ?)";
const UPDATE: &str = "UPDATE bench.items SET field3 = ? WHERE part = ? AND line = ?";

pub(crate) async fn run(report: &mut Report, scale: &Scale) -> Result<(), Failure> {
    let start = |data| Subject::tessera(SUITE, data);
    let subject = start(tempfile::tempdir()?)?;
    let dialect = prepare(subject.address).await?;
    target::fill(subject.address, &dialect, 1).await?;
    let ours = Target::restarted(subject, start, dialect, scale.rounds).await?;
    let cassandra = workload::if_there(SUITE, "Cassandra", cassandra(scale).await)?;
    let targets = (&ours, cassandra.as_ref());
    workload::points(report, SUITE, targets, ROWS, scale).await?;
    ycsb::shapes(report, SUITE, targets, scale).await
}

/// The peer, where Maven and Java can bring it.
async fn cassandra(scale: &Scale) -> Result<Target, Failure> {
    let subject = Subject::peer(Peer::cassandra()?);
    let dialect = prepare(subject.address).await?;
    target::fill(subject.address, &dialect, 1).await?;
    let target = Target::kept(subject, dialect, scale.rounds);
    target.warm_up(scale.warm_up).await?;
    Ok(target)
}

/// Makes the table and prepares the statements.
pub(crate) async fn prepare(address: SocketAddr) -> Result<Dialect, Failure> {
    let bare = |_: &[u8]| true;
    let nothing = Template::new(&[], &[], bare);
    let mut dialect = Dialect {
        wire: Wire::Cql,
        window: STREAMS,
        greeting: frame(op_code::STARTUP, &startup())?,
        preparations: preparations()?,
        read: nothing.clone(),
        insert: nothing.clone(),
        update: nothing.clone(),
        range: nothing,
        key: |item| Key {
            partition: item / RANGE,
            row: item % RANGE,
        },
    };
    let mut connection = Connection::open(address, &dialect).await?;
    for statement in SCHEMA {
        ask(&mut connection, op_code::QUERY, &query(statement)?).await?;
    }
    let text = "v".repeat(100).into_bytes();
    let mut values: Vec<&[u8]> = vec![PARTITION, ROW];
    dialect.read = execute(&mut connection, READ, &values, |answer| {
        is_result(answer) && answer.len() > 1_000
    })
    .await?;
    dialect.range = execute(&mut connection, RANGE_READ, &[PARTITION], |answer| {
        is_result(answer) && answer.len() > 100_000
    })
    .await?;
    dialect.update = execute(&mut connection, UPDATE, &[&text, PARTITION, ROW], is_result).await?;
    values.extend([text.as_slice(); 10]);
    dialect.insert = execute(&mut connection, INSERT, &values, is_result).await?;
    Ok(dialect)
}

/// Requests to prepare all statements, for a process that has the table.
fn preparations() -> Result<Vec<Vec<u8>>, Failure> {
    [READ, RANGE_READ, INSERT, UPDATE]
        .iter()
        .map(|statement| frame(op_code::PREPARE, &long_string(statement)?))
        .collect()
}

/// A statement that is parsed each time.
pub(crate) fn unprepared() -> Result<(&'static str, Vec<u8>), Failure> {
    let statement = "SELECT * FROM bench.items WHERE part = 0 AND line = 0";
    Ok((
        "unprepared read",
        frame(op_code::QUERY, &query(statement)?)?,
    ))
}

/// The body of a statement without values.
fn query(statement: &str) -> Result<Vec<u8>, Failure> {
    let mut body = long_string(statement)?;
    body.extend_from_slice(&LOCAL_ONE.to_be_bytes());
    body.push(0);
    Ok(body)
}

fn is_result(answer: &[u8]) -> bool {
    answer.get(4) == Some(&op_code::RESULT)
}

/// Sends one frame; its answer must be a result or that all is ready.
async fn ask<'a>(
    connection: &'a mut Connection,
    op_code: u8,
    body: &[u8],
) -> Result<&'a [u8], Failure> {
    let answer = connection.ask(&frame(op_code, body)?).await?;
    match answer.get(4) {
        Some(&op_code::RESULT | &op_code::READY) => Ok(answer),
        _ => Err(format!("refused: {:?}", String::from_utf8_lossy(answer)).into()),
    }
}

/// Prepares a statement: its execution with these values.
async fn execute(
    connection: &mut Connection,
    statement: &str,
    values: &[&[u8]],
    expected: fn(&[u8]) -> bool,
) -> Result<Template, Failure> {
    let prepared = ask(connection, op_code::PREPARE, &long_string(statement)?).await?;
    // Behind the header, the kind of the result and the length of the id: the id.
    let rest = prepared.get(13..).unwrap_or_default();
    let length = rest.first_chunk().copied().map_or(0, u16::from_be_bytes);
    let id = rest.get(..2 + usize::from(length));
    let mut body = id.ok_or("no statement was prepared")?.to_vec();
    body.extend_from_slice(&LOCAL_ONE.to_be_bytes());
    // The only flag: values follow.
    body.push(1);
    body.extend_from_slice(&u16::try_from(values.len())?.to_be_bytes());
    for value in values {
        body.extend_from_slice(&u32::try_from(value.len())?.to_be_bytes());
        body.extend_from_slice(value);
    }
    let marks = [mark(PARTITION, Source::Partition), mark(ROW, Source::Row)];
    let frame = frame(op_code::EXECUTE, &body)?;
    Ok(Template::new(&frame, &marks, expected).with_place(Wire::Cql.slot_place()))
}

fn mark(text: &[u8], source: Source) -> Mark<'_> {
    Mark {
        text,
        place: Place {
            source,
            plus: 0,
            form: Form::BigEndian64,
        },
        step: 0,
    }
}

fn frame(op_code: u8, body: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut frame = vec![VERSION, 0, 0, 0, op_code];
    frame.extend_from_slice(&u32::try_from(body.len())?.to_be_bytes());
    frame.extend_from_slice(body);
    Ok(frame)
}

/// The one option that must be there, and the one that drivers add.
fn startup() -> Vec<u8> {
    b"\0\x02\0\x0bCQL_VERSION\0\x053.4.5\0\x0bDRIVER_NAME\0\x05bench".to_vec()
}

fn long_string(text: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = u32::try_from(text.len())?.to_be_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    Ok(bytes)
}
