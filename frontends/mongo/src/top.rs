//! Time and count of operations by namespace, for `top`.
//!
//! A connection remembers the row of the namespace that it used last, so that most requests compare
//! two names and add to two numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ahash::RandomState;
use bson::{Document, RawBsonRef, doc};
use dashmap::DashMap;

use crate::command::Command;
use crate::counters::signed;
use crate::request::Request;

/// So many namespaces are counted; when there are more, those used less give way.
const MAX_NAMESPACES: usize = 10_000;

/// What is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Queries,
    GetMore,
    Insert,
    Update,
    Remove,
    ReadCommands,
    WriteCommands,
}

const KINDS: usize = 7;

impl Kind {
    /// Of a command on one collection; none of others.
    fn of(command: &str) -> Option<Self> {
        Some(match command {
            "find" => Self::Queries,
            "getMore" => Self::GetMore,
            "insert" => Self::Insert,
            "update" => Self::Update,
            "delete" => Self::Remove,
            "aggregate" | "count" | "distinct" | "listIndexes" | "collStats" | "validate" => {
                Self::ReadCommands
            }
            "findAndModify" | "create" | "createIndexes" | "dropIndexes" | "drop" | "collMod" => {
                Self::WriteCommands
            }
            _ => return None,
        })
    }
}

/// The counts of one namespace.
#[derive(Debug)]
pub(crate) struct Row {
    database: Box<str>,
    collection: Box<str>,
    counts: [Count; KINDS],
}

#[derive(Debug, Default)]
struct Count {
    micros: AtomicU64,
    times: AtomicU64,
}

impl Row {
    fn new(database: &str, collection: &str) -> Self {
        Self {
            database: database.into(),
            collection: collection.into(),
            counts: Default::default(),
        }
    }

    fn is_of(&self, database: &str, collection: &str) -> bool {
        *self.collection == *collection && *self.database == *database
    }

    fn add(&self, kind: Kind, took: Duration) {
        if let Some(count) = self.counts.get(kind as usize) {
            let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            count.micros.fetch_add(micros, Ordering::Relaxed);
            count.times.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn times(&self) -> u64 {
        let counts = self.counts.iter();
        counts
            .map(|count| count.times.load(Ordering::Relaxed))
            .sum()
    }

    /// As MongoDB shows it. What reads takes a lock for reading there, what writes one for writing.
    fn to_document(&self) -> Document {
        use Kind::{GetMore, Insert, Queries, ReadCommands, Remove, Update, WriteCommands};
        let sum = |kinds: &[Kind]| {
            let (mut micros, mut times) = (0, 0);
            for count in kinds
                .iter()
                .filter_map(|kind| self.counts.get(*kind as usize))
            {
                micros += count.micros.load(Ordering::Relaxed);
                times += count.times.load(Ordering::Relaxed);
            }
            doc! { "time": signed(micros), "count": signed(times) }
        };
        let (reads, writes) = (
            [Queries, GetMore, ReadCommands],
            [Insert, Update, Remove, WriteCommands],
        );
        doc! {
            "total": sum(&[reads.as_slice(), &writes].concat()),
            "readLock": sum(&reads),
            "writeLock": sum(&writes),
            "queries": sum(&[Queries]),
            "getmore": sum(&[GetMore]),
            "insert": sum(&[Insert]),
            "update": sum(&[Update]),
            "remove": sum(&[Remove]),
            "commands": sum(&[ReadCommands, WriteCommands]),
        }
    }
}

/// The counts of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct Top {
    /// By the hash of the name: looking one up makes no copy of it. Of two with one hash the later
    /// is counted.
    rows: DashMap<u64, Arc<Row>, RandomState>,
    hashing: RandomState,
}

impl Top {
    /// Counts a command, if it works on one collection. `last` is the row that the connection used
    /// before.
    pub(crate) fn ran(
        &self,
        command: &Command,
        request: &Request<'_>,
        last: &mut Option<Arc<Row>>,
        took: Duration,
    ) {
        let Some(kind) = Kind::of(command.name) else {
            return;
        };
        let collection = match kind {
            Kind::GetMore => request.body.get("collection").ok().flatten(),
            _ => Some(request.argument()),
        };
        let Some(RawBsonRef::String(collection)) = collection else {
            return;
        };
        let row = last
            .take()
            .filter(|row| row.is_of(request.database, collection));
        let row = row.unwrap_or_else(|| self.row(request.database, collection));
        row.add(kind, took);
        *last = Some(row);
    }

    fn row(&self, database: &str, collection: &str) -> Arc<Row> {
        let hash = self.hashing.hash_one((database, collection));
        if let Some(row) = self.rows.get(&hash)
            && row.is_of(database, collection)
        {
            return Arc::clone(&row);
        }
        if self.rows.len() >= MAX_NAMESPACES {
            self.make_room();
        }
        let row = Arc::new(Row::new(database, collection));
        self.rows.insert(hash, Arc::clone(&row));
        row
    }

    /// Forgets the half that was used less.
    fn make_room(&self) {
        let mut times: Vec<u64> = self.rows.iter().map(|row| row.times()).collect();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied().unwrap_or(0);
        self.rows.retain(|_, row| row.times() > middle);
    }

    /// What was counted, by name.
    pub(crate) fn all(&self) -> Vec<(String, Document)> {
        let shown = |row: &Row| {
            let name = format!("{}.{}", row.database, row.collection);
            (name, row.to_document())
        };
        let mut all: Vec<_> = self.rows.iter().map(|row| shown(&row)).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;

    fn count(totals: &Document, namespace: &str, field: &str) -> i64 {
        let row = totals.get_document(namespace).unwrap();
        let field = row.get_document(field).unwrap();
        assert!(field.get_i64("time").unwrap() >= 0);
        field.get_i64("count").unwrap()
    }

    #[tokio::test]
    async fn top_counts_by_namespace_and_kind() {
        let mut client = Client::new().await;
        for number in 0..3 {
            client.insert("a", "x", vec![doc! { "_id": number }]).await;
            client.insert("b", "x", vec![doc! { "_id": number }]).await;
        }
        let find = doc! { "find": "x", "batchSize": 1 };
        let reply = client.run("a", find).await;
        let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
        for command in [
            doc! { "getMore": id, "collection": "x", "batchSize": 1 },
            doc! { "find": "x", "filter": { "_id": 1 } },
            doc! { "update": "x", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } }] },
            doc! { "delete": "x", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] },
            doc! { "count": "x" },
            doc! { "findAndModify": "x", "query": {}, "update": { "$set": { "b": 1 } } },
            doc! { "ping": 1 },
            doc! { "find": "not there" },
        ] {
            client.run("a", command).await;
        }
        let reply = client.run("admin", doc! { "top": 1 }).await;
        let totals = reply.get_document("totals").unwrap();
        assert_eq!(totals.get_str("note").unwrap(), "all times in microseconds");
        let expected = [
            ("total", 10),
            ("readLock", 4),
            ("writeLock", 6),
            ("queries", 2),
            ("getmore", 1),
            ("insert", 3),
            ("update", 1),
            ("remove", 1),
            ("commands", 2),
        ];
        for (field, expected) in expected {
            assert_eq!(count(totals, "a.x", field), expected, "{field}");
        }
        assert_eq!(count(totals, "b.x", "total"), 3);
        // Only what there is: nobody fills the reply with names.
        assert_eq!(totals.keys().collect::<Vec<_>>(), ["note", "a.x", "b.x"]);
        client.run("a", doc! { "drop": "x" }).await;
        let reply = client.run("admin", doc! { "top": 1 }).await;
        assert!(!reply.get_document("totals").unwrap().contains_key("a.x"));
    }

    #[test]
    fn names_are_bounded_and_those_in_use_stay() {
        let top = Top::default();
        let busy = top.row("db", "busy");
        for _ in 0..100 {
            busy.add(Kind::Insert, Duration::from_micros(3));
        }
        for number in 0..3 * MAX_NAMESPACES {
            let row = top.row("db", &format!("c{number}"));
            row.add(Kind::Queries, Duration::ZERO);
            assert!(top.rows.len() <= MAX_NAMESPACES);
        }
        let all = top.all();
        let (_, busy) = all.iter().find(|(name, _)| name == "db.busy").unwrap();
        let insert = busy.get_document("insert").unwrap();
        assert_eq!(insert, &doc! { "time": 300i64, "count": 100i64 });
    }
}
