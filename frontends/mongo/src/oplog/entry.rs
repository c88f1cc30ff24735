//! Entries of the oplog: a change of the feed as a document, `{op, ns, ui, o, o2, ts, t, v, wall}`.

use bson::{Bson, DateTime, Document, RawDocument, Timestamp, doc};
use tessera_core::feed::control::{Control, Event};
use tessera_core::feed::reader::{Change, FeedItem};
use tessera_core::feed::record::{ChangeKind, ChangeRecord};
use tessera_core::feed::segments::Term;
use tessera_core::name::ContainerName;

use crate::change_stream::payload::Payload;
use crate::change_stream::{expanded, key};
use crate::collection::Collection;
use crate::execute::decode;
use crate::failure::Result;
use crate::oplog::diff;

/// The term of elections that all entries are of: there is one member, which never loses one.
pub(crate) const TERM: i64 = 1;

/// The version of the form of entries.
const VERSION: i64 = 2;

/// What an entry does, without when.
pub(crate) type Operation = Document;

/// What a change does, in order; nothing if it is none of clients' data.
pub(crate) fn of(item: &FeedItem) -> Result<Vec<Operation>> {
    if is_internal(&item.term.name) {
        return Ok(Vec::new());
    }
    match &item.change {
        Change::Item(record) => of_record(item, record),
        Change::Container(control) => of_control(item, control),
    }
}

/// What the server keeps for itself, and what it computes.
fn is_internal(name: &ContainerName) -> bool {
    ["config", "local"].contains(&name.database.as_str())
}

/// The entry of an operation at this time.
pub(crate) fn at(operation: Operation, time: Timestamp, wall_ms: u64) -> Document {
    let mut entry = operation;
    let wall_ms = i64::try_from(wall_ms).unwrap_or(i64::MAX);
    entry.insert("ts", time);
    entry.insert("t", TERM);
    entry.insert("v", VERSION);
    entry.insert("wall", DateTime::from_millis(wall_ms));
    entry
}

/// One entry for all operations of a transaction.
pub(crate) fn together(operations: Vec<Operation>) -> Operation {
    let operations: Vec<Bson> = operations.into_iter().map(Bson::Document).collect();
    doc! { "op": "c", "ns": "admin.$cmd", "o": { "applyOps": operations } }
}

/// An entry that does nothing: the first one.
pub(crate) fn nothing(message: &str) -> Operation {
    doc! { "op": "n", "ns": "", "o": { "msg": message } }
}

fn of_record(item: &FeedItem, record: &ChangeRecord) -> Result<Vec<Operation>> {
    let collection = Collection::decode(&item.term.schema)?;
    let namespace = format!("{}.{}", item.term.name.database, item.term.name.container);
    let operation = |op: &str, o: Document| {
        doc! { "op": op, "ns": namespace.clone(), "ui": collection.uuid_bson(), "o": o }
    };
    let whole = |op: &str| -> Result<Document> {
        let raw = RawDocument::from_bytes(&record.payload)?;
        let mut whole = operation(op, decode(&record.payload)?);
        whole.insert("o2", key::of(&collection, raw)?);
        Ok(whole)
    };
    Ok(match record.kind {
        ChangeKind::Insert => vec![whole("i")?],
        ChangeKind::Replace => vec![whole("u")?],
        ChangeKind::Update => {
            let payload = Payload::decode(&record.payload)?;
            let diff = diff::of_description(&payload.description.unwrap_or_default());
            let mut update = operation("u", doc! { "$v": 2, "diff": diff });
            update.insert("o2", payload.key);
            vec![update]
        }
        ChangeKind::Delete | ChangeKind::Expire => {
            let payload = Payload::decode(&record.payload)?;
            vec![operation("d", payload.key)]
        }
        // No statement of MongoDB is written as one.
        ChangeKind::Operation => Vec::new(),
    })
}

fn of_control(item: &FeedItem, control: &Control) -> Result<Vec<Operation>> {
    let name = &control.name;
    let before = control.renamed_from.as_ref().unwrap_or(name);
    let uuid = uuid(item)?;
    let command = |o: Document| {
        let mut command = doc! { "op": "c", "ns": format!("{}.$cmd", before.database), "o": o };
        if let Some(uuid) = &uuid {
            command.insert("ui", uuid.clone());
        }
        command
    };
    let of = |name: &ContainerName| format!("{}.{}", name.database, name.container);
    Ok(match control.event {
        Event::Dropped => vec![command(doc! { "drop": name.container.clone() })],
        Event::Renamed => {
            let replaced = control.replaced.as_deref().map(Collection::decode);
            let replaced = replaced.transpose()?.map(|replaced| replaced.uuid_bson());
            vec![command(doc! {
                "renameCollection": of(before),
                "to": of(name),
                "stayTemp": false,
                "dropTarget": replaced.unwrap_or(Bson::Boolean(false)),
            })]
        }
        Event::DatabaseDropped => vec![command(doc! { "dropDatabase": 1 })],
        Event::Created => {
            let told = expanded::created(item)?;
            commands(&name.container, told).map(command).collect()
        }
        Event::Altered => {
            let told = expanded::altered(item)?;
            commands(&name.container, told).map(command).collect()
        }
        Event::Truncated => {
            let drop = command(doc! { "drop": name.container.clone() });
            let told = expanded::created(item)?;
            let again = commands(&name.container, told).map(command);
            std::iter::once(drop).chain(again).collect()
        }
        Event::Begun | Event::Repartitioned | Event::Relocated | Event::Ended => Vec::new(),
    })
}

/// What happened to a definition as the commands that do it: for each index one.
fn commands(container: &str, told: Vec<expanded::Told>) -> impl Iterator<Item = Document> {
    told.into_iter().flat_map(move |told| {
        let begin = |name: &str| doc! { name: container };
        match told.operation {
            "create" => {
                let mut create = begin("create");
                create.extend(told.description);
                vec![create]
            }
            "modify" => {
                let mut modify = begin("collMod");
                modify.extend(told.description);
                vec![modify]
            }
            "createIndexes" => {
                let specs = indexes(&told.description);
                let create = |spec: Document| {
                    let mut create = begin("createIndexes");
                    create.extend(spec);
                    create
                };
                specs.map(create).collect()
            }
            "dropIndexes" => {
                let specs = indexes(&told.description);
                let drop = |spec: Document| {
                    let mut drop = begin("dropIndexes");
                    drop.insert("index", spec.get("name").cloned().unwrap_or(Bson::Null));
                    drop
                };
                specs.map(drop).collect()
            }
            // Where documents lie is no part of what they are.
            _ => Vec::new(),
        }
    })
}

fn indexes(description: &Document) -> impl Iterator<Item = Document> + use<> {
    let indexes = description
        .get_array("indexes")
        .cloned()
        .unwrap_or_default();
    let documents = indexes.into_iter().filter_map(|index| match index {
        Bson::Document(index) => Some(index),
        _ => None,
    });
    documents.collect::<Vec<_>>().into_iter()
}

/// The identity of the collection: its last one, if it is gone.
fn uuid(item: &FeedItem) -> Result<Option<Bson>> {
    let terms: [Option<&Term>; 2] = [Some(&item.term), item.before.as_deref()];
    let mut schemas = terms.into_iter().flatten().map(|term| &term.schema);
    let Some(schema) = schemas.find(|schema| !schema.is_empty()) else {
        return Ok(None);
    };
    let collection = Collection::decode(schema)?;
    Ok(collection.view.is_none().then(|| collection.uuid_bson()))
}
