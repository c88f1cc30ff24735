//! Wakes the cursors that wait at the end of a capped collection.
//!
//! A document is recorded when it is stored, inside a statement that is not committed yet: a cursor
//! woken at that moment would find nothing and wait again. So every command that recorded a
//! document wakes the waiting cursors at its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// How often a waiting cursor looks by itself: for what another server on the same engine wrote,
/// and for a commit that went on after its command was interrupted.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The writes to capped collections.
pub(crate) struct CappedWrites {
    /// Stored, perhaps not committed.
    noted: AtomicU64,
    /// Grows when there may be something new to read.
    told: watch::Sender<u64>,
}

impl Default for CappedWrites {
    fn default() -> Self {
        Self {
            noted: AtomicU64::new(0),
            told: watch::Sender::new(0),
        }
    }
}

impl CappedWrites {
    /// Notes a document that a statement stored.
    pub(crate) fn note(&self) {
        self.noted.fetch_add(1, Ordering::AcqRel);
    }

    /// What was noted so far, for [`Self::tell`] at the end of a command.
    pub(crate) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }

    /// Tells waiting cursors if anything was noted since `before`. Whatever the command stored
    /// itself is committed by now.
    pub(crate) fn tell(&self, before: u64) {
        if self.noted() != before {
            self.told.send_modify(|count| *count += 1);
        }
    }

    /// Waits for what is told from now on.
    pub(crate) fn listen(&self) -> Listener {
        Listener(self.told.subscribe())
    }
}

/// One cursor that waits.
pub(crate) struct Listener(watch::Receiver<u64>);

impl Listener {
    /// Forgets what was told before: the caller reads now.
    pub(crate) fn catch_up(&mut self) {
        self.0.borrow_and_update();
    }

    /// Waits until there may be something to read, for `longest` at most.
    pub(crate) async fn wait(&mut self, longest: Duration) {
        let wait = longest.min(LOOK_AGAIN);
        // Either way the caller looks again, until its own time is over.
        let _woken = tokio::time::timeout(wait, self.0.changed()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, OnceLock};

    use bson::doc;
    use bytes::Bytes;
    use tessera_core::engine::{
        Answer, BoxFuture, Capabilities, CommitOutcome, Engine, EngineResult, KeyRange, Page, Scan,
        Snapshot,
    };
    use tessera_core::memory::MemoryEngine;
    use tessera_core::write_set::WriteSet;

    use super::*;
    use crate::client::{Client, documents};
    use crate::service::Service;

    /// The memory engine, of which each commit waits a little and then notes how much had been told
    /// to cursors before it.
    #[derive(Default)]
    struct Slow {
        engine: MemoryEngine,
        service: Arc<OnceLock<Arc<Service>>>,
        told_early: Arc<AtomicU64>,
    }

    struct SlowSnapshot {
        snapshot: Box<dyn Snapshot>,
        service: Arc<OnceLock<Arc<Service>>>,
        told_early: Arc<AtomicU64>,
    }

    impl Engine for Slow {
        fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
            Answer::later(async {
                let snapshot: Box<dyn Snapshot> = Box::new(SlowSnapshot {
                    snapshot: self.engine.snapshot().await?,
                    service: Arc::clone(&self.service),
                    told_early: Arc::clone(&self.told_early),
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

        fn commit(
            self: Box<Self>,
            writes: WriteSet,
        ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                if let Some(service) = self.service.get() {
                    let told = *service.data.capped_writes.told.borrow();
                    self.told_early.store(told, Ordering::Release);
                }
                self.snapshot.commit(writes).await
            })
        }
    }

    #[tokio::test]
    async fn cursors_are_told_after_the_commit_and_not_before() {
        let engine = Slow::default();
        let (service, early) = (Arc::clone(&engine.service), Arc::clone(&engine.told_early));
        let mut client = Client::on(Arc::new(engine)).await;
        assert!(service.set(Arc::clone(&client.service)).is_ok());
        let create = doc! { "create": "c", "capped": true, "size": 100_000 };
        client.run("test", create).await;
        let upsert = doc! { "q": { "_id": 3 }, "u": { "$set": { "a": 1 } }, "upsert": true };
        let into = doc! { "$merge": { "into": "c" } };
        let bulk = vec![
            doc! { "insert": 0, "document": { "_id": 5 } },
            doc! { "insert": 0, "document": { "_id": 6 } },
        ];
        for (database, command) in [
            ("test", doc! { "insert": "c", "documents": [{ "_id": 1 }] }),
            (
                "test",
                doc! { "insert": "c", "documents": [{ "_id": 2 }, { "_id": 20 }] },
            ),
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
                doc! { "bulkWrite": 1, "ops": bulk, "nsInfo": [{ "ns": "test.c" }] },
            ),
            (
                "test",
                doc! {
                    "aggregate": "c", "cursor": {},
                    "pipeline": [{ "$limit": 1 }, { "$set": { "_id": 7 } }, into],
                },
            ),
        ] {
            let told = || *client.service.data.capped_writes.told.borrow();
            let before = told();
            let text = command.to_string();
            client.another().run(database, command).await;
            assert_eq!(early.load(Ordering::Acquire), before, "{text}");
            assert!(told() > before, "{text}");
        }
        let before = *client.service.data.capped_writes.told.borrow();
        client
            .insert("test", "plain", vec![doc! { "_id": 1 }])
            .await;
        assert_eq!(*client.service.data.capped_writes.told.borrow(), before);
    }

    #[tokio::test]
    async fn a_waiting_cursor_gets_what_is_slow_to_commit() {
        let mut client = Client::on(Arc::new(Slow::default())).await;
        let create = doc! { "create": "c", "capped": true, "size": 100_000 };
        client.run("test", create).await;
        client.insert("test", "c", vec![doc! { "_id": 0 }]).await;
        let find = doc! { "find": "c", "tailable": true, "awaitData": true };
        let reply = client.run("test", find).await;
        let cursor = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
        for number in 1..20 {
            let mut writer = client.another();
            let more = doc! { "getMore": cursor, "collection": "c", "maxTimeMS": 60_000 };
            let document = doc! { "_id": number };
            let (reply, ()) = tokio::join!(
                client.run("test", more),
                writer.insert("test", "c", vec![document.clone()]),
            );
            assert_eq!(documents(&reply, "nextBatch"), [document]);
        }
    }
}
