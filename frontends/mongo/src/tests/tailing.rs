//! Cursors that wait at the end of a capped collection.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use bytes::Bytes;
use tessera_core::engine::{
    Answer, BoxFuture, Capabilities, CommitOutcome, Engine, EngineResult, KeyRange, Page, Scan,
    Settled, Snapshot,
};
use tessera_core::memory::MemoryEngine;
use tessera_core::write_set::WriteSet;

use crate::client::{Client, documents};

/// The memory engine, of which each commit waits a little: a cursor that is woken before it finds
/// nothing and waits on.
#[derive(Default)]
struct Slow {
    engine: MemoryEngine,
}

struct SlowSnapshot {
    snapshot: Box<dyn Snapshot>,
}

impl Engine for Slow {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        Answer::later(async {
            let snapshot: Box<dyn Snapshot> = Box::new(SlowSnapshot {
                snapshot: self.engine.snapshot().await?,
            });
            Ok(snapshot)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        self.engine.approximate_size(range)
    }

    fn checkpoint<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        self.engine.checkpoint(path)
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        self.engine.close()
    }
}

impl Snapshot for SlowSnapshot {
    fn version(&self) -> u64 {
        self.snapshot.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>> {
        self.snapshot.get(key)
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        self.snapshot.multi_get(keys)
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        self.snapshot.scan(scan)
    }

    fn settled(&self) -> Answer<'_, EngineResult<Settled>> {
        self.snapshot.settled()
    }

    fn commit(
        self: Box<Self>,
        writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.snapshot.commit(writes).await
        })
    }
}

/// A cursor at the end of a capped collection of one document.
async fn tail(client: &mut Client) -> Document {
    let create = doc! { "create": "c", "capped": true, "size": 100_000 };
    client.run("test", create).await;
    client.insert("test", "c", vec![doc! { "_id": 0 }]).await;
    let find = doc! { "find": "c", "tailable": true, "awaitData": true };
    let reply = client.run("test", find).await;
    let cursor = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    doc! { "getMore": cursor, "collection": "c", "maxTimeMS": 60_000 }
}

#[tokio::test]
async fn a_waiting_cursor_is_woken_by_every_kind_of_write_once_it_is_committed() {
    let mut client = Client::on(Arc::new(Slow::default())).await;
    let more = tail(&mut client).await;
    let upsert = doc! { "q": { "_id": 3 }, "u": { "$set": { "a": 1 } }, "upsert": true };
    let into = doc! { "$merge": { "into": "c" } };
    let bulk = doc! { "insert": 0, "document": { "_id": 5 } };
    for (database, command) in [
        ("test", doc! { "insert": "c", "documents": [{ "_id": 1 }] }),
        ("test", doc! { "update": "c", "updates": [upsert] }),
        (
            "test",
            doc! {
                "findAndModify": "c", "query": { "_id": 4 }, "update": { "a": 1 },
                "upsert": true,
            },
        ),
        (
            "admin",
            doc! { "bulkWrite": 1, "ops": [bulk], "nsInfo": [{ "ns": "test.c" }] },
        ),
        (
            "test",
            doc! {
                "aggregate": "c", "cursor": {},
                "pipeline": [{ "$limit": 1 }, { "$set": { "_id": 7 } }, into],
            },
        ),
    ] {
        let mut writer = client.another();
        let text = command.to_string();
        let began = Instant::now();
        let (reply, _) = tokio::join!(
            client.run("test", more.clone()),
            writer.run(database, command)
        );
        assert_eq!(documents(&reply, "nextBatch").len(), 1, "{text}");
        // Far from the time at which it would have given up.
        assert!(began.elapsed() < Duration::from_secs(20), "{text}");
    }
}

#[tokio::test]
async fn no_write_between_two_looks_is_missed() {
    let mut client = Client::on(Arc::new(Slow::default())).await;
    let more = tail(&mut client).await;
    for number in 1..20 {
        let mut writer = client.another();
        let document = doc! { "_id": number };
        let (reply, ()) = tokio::join!(
            client.run("test", more.clone()),
            writer.insert("test", "c", vec![document.clone()]),
        );
        assert_eq!(documents(&reply, "nextBatch"), [document]);
    }
}

#[tokio::test]
async fn a_cursor_that_nothing_is_written_for_waits_and_stays() {
    let mut client = Client::new().await;
    let mut more = tail(&mut client).await;
    more.insert("maxTimeMS", 50);
    for _ in 0..2 {
        client.insert("test", "plain", vec![doc! {}]).await;
        let reply = client.run("test", more.clone()).await;
        assert_eq!(documents(&reply, "nextBatch"), Vec::<Document>::new());
        let cursor = reply.get_document("cursor").unwrap();
        assert_ne!(cursor.get_i64("id").unwrap(), 0);
    }
}
