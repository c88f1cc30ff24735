//! MongoDB's wire protocol as a driver speaks it: OP_MSG with a session, and with a transaction
//! number in writes, which drivers send so that they may send them twice.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, Timestamp, doc};

use tessera_conformance::peers::Peer;

use crate::Failure;
use crate::bench::Scale;
use crate::bench::figures::{Limit, Report};
use crate::bench::load::{Dialect, Operation};
use crate::bench::subject::Subject;
use crate::bench::target::{self, RANGE, Target};
use crate::bench::template::{Form, Key, Mark, Place, Sender, Source, Template};
use crate::bench::wire::Wire;
use crate::bench::workload::{self, Row};
use crate::bench::ycsb;

const SUITE: &str = "mongo";
pub(crate) const DATABASE: &str = "bench";
pub(crate) const COLLECTION: &str = "items";
/// OP_MSG.
const OP_CODE: u32 = 2013;
/// Numbers that stand for others.
const ITEM: i64 = 0x6d65_7469_6d65_7469;
const END: i64 = 0x646e_6565_646e_6565;
const NUMBER: i64 = 0x656e_6f65_656e_6f65;
/// The session's id ends with the number of the connection.
const SESSION: [u8; 16] = *b"tessera-sessions";
const SESSION_END: &[u8] = b"sessions";
/// Documents of one insert while a collection is filled.
const GROUP: u64 = 100;

const ROWS: &[Row] = &[
    Row {
        name: "find by _id",
        operation: Operation::Read,
        echo: [Some(Limit::AtMost(2.5)), Some(Limit::AtLeast(0.5))],
        peer: None,
    },
    Row {
        name: "insertOne",
        operation: Operation::Insert,
        echo: [None, None],
        peer: None,
    },
    Row {
        name: "updateOne by _id",
        operation: Operation::Update,
        echo: [None, None],
        peer: None,
    },
    Row {
        name: "find of 100 documents",
        operation: Operation::Range,
        echo: [None, None],
        peer: None,
    },
];

pub(crate) async fn run(report: &mut Report, scale: &Scale) -> Result<(), Failure> {
    let start = |data| Subject::tessera(SUITE, data);
    let subject = start(tempfile::tempdir()?)?;
    target::fill(subject.address, &group_dialect(Bson::Int64)?, GROUP).await?;
    let ours = Target::restarted(subject, start, dialect()?, scale.rounds).await?;
    let ferretdb = workload::if_there(SUITE, "FerretDB", ferretdb(scale).await)?;
    let targets = (&ours, ferretdb.as_ref());
    workload::points(report, SUITE, targets, ROWS, scale).await?;
    ycsb::shapes(report, SUITE, targets, scale).await
}

/// The peer, where Go can bring it. It is compiled before it runs: nothing needs to warm up.
///
/// Its documents have object ids: those it looks for in the database, which has an index of another
/// form and reads them all, and numbers it looks for in what it has read. So it reads ranges, which
/// are left out: each would take seconds.
async fn ferretdb(scale: &Scale) -> Result<Target, Failure> {
    let subject = Subject::peer(Peer::ferretdb()?);
    target::fill(subject.address, &group_dialect(object_id)?, GROUP).await?;
    let target = Target::kept(subject, dialect_with(object_id)?, scale.ferretdb);
    Ok(target.without(Operation::Range))
}

fn object_id(number: i64) -> Bson {
    let mut bytes = *b"item........";
    if let Some(end) = bytes.last_chunk_mut() {
        *end = number.to_be_bytes();
    }
    ObjectId::from_bytes(bytes).into()
}

pub(crate) fn dialect() -> Result<Dialect, Failure> {
    dialect_with(Bson::Int64)
}

fn dialect_with(id: fn(i64) -> Bson) -> Result<Dialect, Failure> {
    let (first, last, end) = (id(ITEM), id(END), i64::try_from(RANGE)?);
    let read = doc! {
        "find": COLLECTION, "filter": { "_id": &first }, "limit": 1, "singleBatch": true,
    };
    let range = doc! {
        "find": COLLECTION, "filter": { "_id": { "$gte": &first, "$lt": last } },
        "batchSize": end + 1,
    };
    let insert = insert(&first, 1)?;
    let update = doc! {
        "update": COLLECTION, "ordered": true,
        "updates": [{ "q": { "_id": first }, "u": { "$set": { "field3": text('u') } } }],
    };
    Ok(Dialect {
        wire: Wire::Mongo,
        window: 1,
        greeting: Vec::new(),
        preparations: Vec::new(),
        read: template(read, false, |answer| answer.len() > 1_000)?,
        insert: template(insert, true, changed::<1>)?,
        update: template(update, true, changed::<1>)?,
        range: template(range, false, |answer| answer.len() > 100_000)?,
        key: |item| Key {
            partition: 0,
            row: item,
        },
    })
}

/// The same with inserts of [`GROUP`] documents.
fn group_dialect(id: fn(i64) -> Bson) -> Result<Dialect, Failure> {
    let insert = insert(&id(ITEM), GROUP)?;
    Ok(Dialect {
        insert: template(insert, true, changed::<GROUP>)?,
        key: |group| Key {
            partition: 0,
            row: group * GROUP,
        },
        ..dialect_with(id)?
    })
}

/// Inserts so many documents, whose ids follow each other.
fn insert(first: &Bson, documents: u64) -> Result<Document, Failure> {
    let documents = vec![item(first); usize::try_from(documents)?];
    Ok(doc! { "insert": COLLECTION, "ordered": true, "documents": documents })
}

/// What every client sends from time to time to see whether the server is there.
pub(crate) fn hello() -> Result<(&'static str, Vec<u8>), Failure> {
    let hello = doc! { "hello": 1, "helloOk": true };
    let mut hello = template(hello, false, |_| true)?;
    Ok((
        "hello",
        hello.fill(Key::default(), Sender::default()).to_vec(),
    ))
}

/// Whether an answer says that `n` is so many, as those of writes do.
fn changed<const DOCUMENTS: u64>(answer: &[u8]) -> bool {
    const NAME: &[u8] = b"\x10n\0";
    let is_it = |window: &[u8]| {
        let number = window.strip_prefix(NAME).and_then(|it| it.first_chunk());
        number.is_some_and(|it| u64::from(u32::from_le_bytes(*it)) == DOCUMENTS)
    };
    answer.windows(NAME.len() + 4).any(is_it)
}

/// Ten fields of 100 bytes.
fn item(id: &Bson) -> Document {
    let mut item = doc! { "_id": id };
    for field in 0..10 {
        item.insert(format!("field{field}"), text('v'));
    }
    item
}

fn text(letter: char) -> String {
    letter.to_string().repeat(100)
}

/// A command with all that a driver adds to it.
fn template(
    mut command: Document,
    writes: bool,
    expected: fn(&[u8]) -> bool,
) -> Result<Template, Failure> {
    let id = Binary {
        subtype: BinarySubtype::Uuid,
        bytes: SESSION.to_vec(),
    };
    command.insert("lsid", doc! { "id": id });
    if writes {
        command.insert("txnNumber", NUMBER);
    }
    let time = Timestamp {
        time: 1,
        increment: 1,
    };
    let nobody = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![0; 20],
    };
    let signature = doc! { "hash": nobody, "keyId": 0_i64 };
    command.insert(
        "$clusterTime",
        doc! { "clusterTime": time, "signature": signature },
    );
    command.insert("$db", DATABASE);
    let bytes = message(&command)?;
    let (item, end, number) = (ITEM.to_le_bytes(), END.to_le_bytes(), NUMBER.to_le_bytes());
    // Object ids end with the number, the other way round.
    let [item_end, end_end] = [ITEM, END].map(i64::to_be_bytes);
    let reversed = |text, plus| {
        let mut reversed = mark(text, Source::Row, plus);
        reversed.place.form = Form::BigEndian64;
        reversed
    };
    let marks = [
        reversed(&item_end, 0),
        reversed(&end_end, RANGE),
        mark(&item, Source::Row, 0),
        mark(&end, Source::Row, RANGE),
        mark(&number, Source::Sequence, 0),
        mark(SESSION_END, Source::Connection, 0),
    ];
    Ok(Template::new(&bytes, &marks, expected).with_place(Wire::Mongo.slot_place()))
}

/// A command as OP_MSG, its only section.
pub(crate) fn message(command: &Document) -> Result<Vec<u8>, Failure> {
    let body = command.to_vec()?;
    let length = u32::try_from(16 + 4 + 1 + body.len())?;
    let mut bytes = Vec::new();
    for field in [length, 0, 0, OP_CODE, 0] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn mark(text: &[u8], source: Source, plus: u64) -> Mark<'_> {
    Mark {
        text,
        place: Place {
            source,
            plus,
            form: Form::LittleEndian64,
        },
        // The ids of several documents follow each other; all other numbers stand there once.
        step: 1,
    }
}
