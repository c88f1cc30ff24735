//! What clients see of transactions, through commands.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::{Bson, Document, doc};
use bytes::Bytes;
use tessera_core::engine::{
    Answer, BoxFuture, Capabilities, CommitOutcome, Engine, EngineResult, KeyRange, Page, Scan,
    Snapshot,
};
use tessera_core::memory::MemoryEngine;
use tessera_core::write_set::WriteSet;

use crate::client::Client;

/// A session whose commands belong to a transaction.
struct Speaker {
    client: Client,
    number: i64,
}

impl Speaker {
    fn new(client: Client, session: u8) -> Self {
        Self {
            client: client.in_session(session),
            number: 0,
        }
    }

    fn part(&self, mut command: Document) -> Document {
        command.insert("txnNumber", self.number);
        command.insert("autocommit", false);
        command
    }

    /// The first statement of a new transaction.
    async fn start(&mut self, command: Document) -> Document {
        self.number += 1;
        let mut command = self.part(command);
        command.insert("startTransaction", true);
        self.client.send("db", command).await
    }

    async fn next(&mut self, command: Document) -> Document {
        let command = self.part(command);
        self.client.send("db", command).await
    }

    async fn end(&mut self, how: &str) -> Document {
        let command = self.part(doc! { how: 1 });
        self.client.send("admin", command).await
    }
}

fn insert(id: i32) -> Document {
    doc! { "insert": "c", "documents": [{ "_id": id }] }
}

fn set(id: i32, value: i32) -> Document {
    doc! { "update": "c", "updates": [{ "q": { "_id": id }, "u": { "$set": { "v": value } } }] }
}

fn find() -> Document {
    doc! { "find": "c", "filter": {} }
}

fn code(reply: &Document) -> i32 {
    let statement = reply.get_array("writeErrors").ok();
    let statement = statement.and_then(|all| all.first()?.as_document()?.get_i32("code").ok());
    reply.get_i32("code").ok().or(statement).unwrap_or(0)
}

fn is_labelled(reply: &Document, label: &str) -> bool {
    let labels = reply.get_array("errorLabels").ok();
    labels.is_some_and(|labels| labels.contains(&Bson::from(label)))
}

fn count(reply: &Document) -> usize {
    let cursor = reply.get_document("cursor").unwrap();
    cursor.get_array("firstBatch").unwrap().len()
}

async fn filled() -> Client {
    let mut client = Client::new().await;
    client
        .insert("db", "c", vec![doc! { "_id": 1 }, doc! { "_id": 2 }])
        .await;
    client
}

#[tokio::test]
async fn statements_are_seen_by_others_only_after_the_commit_which_can_be_repeated() {
    let mut client = filled().await;
    let mut speaker = Speaker::new(client.another(), 1);
    assert_eq!(code(&speaker.start(insert(3)).await), 0);
    assert_eq!(code(&speaker.next(set(1, 7)).await), 0);
    assert_eq!(count(&speaker.next(find()).await), 3);
    assert_eq!(client.find("db", "c", doc! {}).await.len(), 2);
    for _ in 0..2 {
        assert_eq!(code(&speaker.end("commitTransaction").await), 0);
    }
    assert_eq!(client.find("db", "c", doc! {}).await.len(), 3);
    assert_eq!(client.find("db", "c", doc! { "v": 7 }).await.len(), 1);
    assert_eq!(code(&speaker.next(find()).await), 256);
    assert_eq!(code(&speaker.end("abortTransaction").await), 256);
}

#[tokio::test]
async fn an_aborted_transaction_leaves_nothing_and_is_no_more() {
    let mut client = filled().await;
    let mut speaker = Speaker::new(client.another(), 1);
    speaker.start(insert(3)).await;
    assert_eq!(code(&speaker.end("abortTransaction").await), 0);
    for reply in [
        speaker.end("abortTransaction").await,
        speaker.end("commitTransaction").await,
        speaker.next(find()).await,
    ] {
        assert_eq!(code(&reply), 251);
        assert!(is_labelled(&reply, "TransientTransactionError"), "{reply}");
    }
    assert_eq!(client.find("db", "c", doc! {}).await.len(), 2);
    speaker.number -= 1;
    assert_eq!(code(&speaker.next(find()).await), 225);
    speaker.number += 5;
    assert_eq!(code(&speaker.next(find()).await), 251);
}

#[tokio::test]
async fn any_error_ends_the_transaction() {
    let client = filled().await;
    let mut speaker = Speaker::new(client.another(), 1);
    speaker.start(insert(3)).await;
    assert_eq!(code(&speaker.next(insert(1)).await), 11000);
    assert_eq!(code(&speaker.next(find()).await), 251);
    assert_eq!(code(&speaker.end("commitTransaction").await), 251);
}

#[tokio::test]
async fn the_second_writer_is_told_at_its_statement_and_a_plain_one_waits() {
    let mut client = filled().await;
    let mut first = Speaker::new(client.another(), 1);
    let mut second = Speaker::new(client.another(), 2);
    first.start(set(1, 7)).await;
    let refused = second.start(set(1, 8)).await;
    assert_eq!(code(&refused), 112, "{refused}");
    let mut plain = client.another();
    let mut waiting = tokio::spawn(async move { plain.run("db", set(1, 9)).await });
    let wait = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(wait.is_err());
    assert_eq!(code(&first.end("commitTransaction").await), 0);
    waiting.await.unwrap();
    assert_eq!(client.find("db", "c", doc! { "v": 9 }).await.len(), 1);
}

#[tokio::test]
async fn a_snapshot_is_kept_and_writing_what_changed_since_is_a_conflict() {
    let mut client = filled().await;
    let mut speaker = Speaker::new(client.another(), 1);
    assert_eq!(count(&speaker.start(find()).await), 2);
    client.run("db", insert(3)).await;
    client.run("db", set(1, 5)).await;
    assert_eq!(count(&speaker.next(find()).await), 2);
    assert_eq!(code(&speaker.next(set(1, 6)).await), 112);
    // Nobody has seen anything of a transaction whose first statement this is: it begins anew.
    assert_eq!(code(&speaker.start(set(1, 6)).await), 0);
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
}

#[tokio::test]
async fn a_transaction_reads_the_moment_that_it_asks_for() {
    let mut client = filled().await;
    let mut speaker = Speaker::new(client.another(), 1);
    // The first transaction of all makes the place where their ends are noted.
    assert_eq!(count(&speaker.start(find()).await), 2);
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
    let mut read = find();
    read.insert("readConcern", doc! { "level": "snapshot" });
    let told = client.run("db", read).await;
    let cursor = told.get_document("cursor").unwrap();
    let time = cursor.get_timestamp("atClusterTime").unwrap();
    client.run("db", insert(3)).await;
    client.run("db", set(1, 5)).await;
    let at = |mut command: Document, time: bson::Timestamp| {
        let concern = doc! { "level": "snapshot", "atClusterTime": time };
        command.insert("readConcern", concern);
        command
    };
    assert_eq!(count(&speaker.start(at(find(), time)).await), 2);
    assert_eq!(count(&speaker.next(find()).await), 2);
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
    // What nobody has changed since may be written, and nothing else.
    assert_eq!(code(&speaker.start(at(set(2, 7), time)).await), 0);
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
    assert_eq!(client.find("db", "c", doc! { "v": 7 }).await.len(), 1);
    assert_eq!(code(&speaker.start(at(set(1, 8), time)).await), 112);
    let future = bson::Timestamp {
        time: time.time + 1_000,
        ..time
    };
    assert_eq!(code(&speaker.start(at(find(), future)).await), 72);
    let past = bson::Timestamp { time: 5, ..time };
    assert_eq!(code(&speaker.start(at(find(), past)).await), 239);
}

#[tokio::test]
async fn collections_and_their_indexes_are_created_in_transactions() {
    let mut client = filled().await;
    let mut speaker = Speaker::new(client.another(), 1);
    let index = doc! { "key": { "x": 1 }, "name": "x_1", "unique": true };
    let indexes = doc! { "createIndexes": "new", "indexes": [index.clone()] };
    assert_eq!(code(&speaker.start(doc! { "create": "new" }).await), 0);
    assert_eq!(code(&speaker.next(indexes.clone()).await), 0);
    let write = doc! { "insert": "new", "documents": [{ "_id": 1, "x": 1 }] };
    assert_eq!(code(&speaker.next(write.clone()).await), 0);
    let implicit = doc! { "insert": "implicit", "documents": [{ "_id": 1 }] };
    assert_eq!(code(&speaker.next(implicit).await), 0);
    assert_eq!(client.find("db", "new", doc! {}).await.len(), 0);
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
    assert_eq!(client.find("db", "new", doc! { "x": 1 }).await.len(), 1);
    assert_eq!(client.find("db", "implicit", doc! {}).await.len(), 1);
    let again = doc! { "insert": "new", "documents": [{ "_id": 2, "x": 1 }] };
    assert_eq!(client.code("db", again).await, 11000);
    let on_existing = doc! { "createIndexes": "c", "indexes": [index] };
    assert_eq!(code(&speaker.start(on_existing).await), 263);
    assert_eq!(code(&speaker.start(doc! { "create": "gone" }).await), 0);
    speaker.end("abortTransaction").await;
    let listed = client
        .run("db", doc! { "listCollections": 1, "nameOnly": true })
        .await;
    assert_eq!(count(&listed), 3, "{listed}");
}

#[tokio::test]
async fn concerns_belong_to_the_first_and_the_last_statement() {
    let mut speaker = Speaker::new(filled().await, 1);
    let with = |mut command: Document, name: &str, value: Document| {
        command.insert(name, value);
        command
    };
    for level in ["local", "majority", "snapshot"] {
        let reply = speaker
            .start(with(find(), "readConcern", doc! { "level": level }))
            .await;
        assert_eq!(code(&reply), 0, "{level}");
    }
    let late = with(find(), "readConcern", doc! { "level": "local" });
    assert_eq!(code(&speaker.next(late).await), 72);
    let early = with(insert(9), "writeConcern", doc! { "w": 1 });
    assert_eq!(code(&speaker.start(early).await), 72);
    let wrong = with(find(), "readConcern", doc! { "level": "linearizable" });
    assert_eq!(code(&speaker.start(wrong).await), 72);
}

#[tokio::test]
async fn a_transaction_that_is_open_for_too_long_is_ended_and_says_why() {
    let mut client = filled().await;
    let limit = doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 1 };
    client.run("admin", limit).await;
    let mut speaker = Speaker::new(client.another(), 1);
    speaker.start(set(1, 7)).await;
    assert_eq!(client.service.data.transactions.count_open(), 1);
    let waited = tokio::time::timeout(Duration::from_secs(10), client.run("db", set(1, 8)));
    waited.await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(client.service.data.transactions.count_open(), 0);
    let late = speaker.next(find()).await;
    assert_eq!(code(&late), 290);
    assert!(is_labelled(&late, "TransientTransactionError"));
    assert_eq!(client.find("db", "c", doc! { "v": 8 }).await.len(), 1);
}

#[tokio::test]
async fn the_end_of_a_session_and_its_next_number_end_what_it_has_open() {
    let mut client = filled().await;
    let mut speaker = Speaker::new(client.another(), 1);
    speaker.start(set(1, 7)).await;
    let session = crate::logical::SessionKey {
        id: crate::logical::SessionId([1; 16]),
        owner: crate::logical::Owner::nobody(),
    };
    client.service.data.end_session(session);
    client.run("db", set(1, 8)).await;
    assert_eq!(code(&speaker.end("commitTransaction").await), 251);
    speaker.start(set(1, 9)).await;
    speaker.start(set(2, 9)).await;
    client.run("db", set(1, 10)).await;
    speaker.number -= 1;
    assert_eq!(code(&speaker.end("commitTransaction").await), 225);
}

#[tokio::test]
async fn cursors_of_a_transaction_read_its_snapshot() {
    let mut client = filled().await;
    let documents: Vec<Document> = (10..60).map(|id| doc! { "_id": id }).collect();
    client.insert("db", "c", documents).await;
    let mut speaker = Speaker::new(client.another(), 1);
    let first = speaker.start(doc! { "find": "c", "batchSize": 10 }).await;
    let cursor = first.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_ne!(cursor, 0);
    let delete = doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] };
    client.run("db", delete).await;
    let rest = speaker
        .next(doc! { "getMore": cursor, "collection": "c" })
        .await;
    let rest = rest.get_document("cursor").unwrap();
    assert_eq!(rest.get_array("nextBatch").unwrap().len(), 42);
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
}

/// An engine that loses the answer of a commit when told to: having applied it, or not.
#[derive(Clone, Default)]
struct Unsure {
    inner: MemoryEngine,
    next: Arc<AtomicU8>,
    /// What was not applied and may still be.
    late: Arc<Mutex<Option<Commit>>>,
}

type Commit = (Box<dyn Snapshot>, WriteSet);

const SURE: u8 = 0;
const APPLIED: u8 = 1;
const DELAYED: u8 = 2;

struct UnsureSnapshot {
    inner: Box<dyn Snapshot>,
    engine: Unsure,
}

impl Engine for Unsure {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        Answer::later(async {
            let (inner, engine) = (self.inner.snapshot().await?, self.clone());
            let snapshot: Box<dyn Snapshot> = Box::new(UnsureSnapshot { inner, engine });
            Ok(snapshot)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        self.inner.approximate_size(range)
    }

    fn checkpoint<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        self.inner.checkpoint(path)
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        self.inner.close()
    }
}

impl Snapshot for UnsureSnapshot {
    fn version(&self) -> u64 {
        self.inner.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>> {
        self.inner.get(key)
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        self.inner.multi_get(keys)
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        self.inner.scan(scan)
    }

    fn commit(
        self: Box<Self>,
        writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async move {
            match self.engine.next.swap(SURE, Ordering::Relaxed) {
                APPLIED => {
                    self.inner.commit(writes).await?;
                    Ok(CommitOutcome::Unknown)
                }
                DELAYED => {
                    *self.engine.late.lock().unwrap() = Some((self.inner, writes));
                    Ok(CommitOutcome::Unknown)
                }
                _ => self.inner.commit(writes).await,
            }
        })
    }
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_can_be_asked_for_again() {
    for (mode, expected) in [(APPLIED, 0), (DELAYED, 251)] {
        let engine = Unsure::default();
        let mut client = Client::on(Arc::new(engine.clone())).await;
        client.insert("db", "c", vec![doc! { "_id": 1 }]).await;
        let mut speaker = Speaker::new(client.another(), 1);
        speaker.start(insert(2)).await;
        engine.next.store(mode, Ordering::Relaxed);
        let lost = speaker.end("commitTransaction").await;
        assert!(
            is_labelled(&lost, "UnknownTransactionCommitResult"),
            "{lost}"
        );
        for _ in 0..2 {
            let again = speaker.end("commitTransaction").await;
            assert_eq!(code(&again), expected, "{again}");
        }
        // What was given up must not come in late.
        let late = engine.late.lock().unwrap().take();
        if let Some((snapshot, writes)) = late {
            let outcome = snapshot.commit(writes).await.unwrap();
            assert_eq!(outcome, CommitOutcome::Conflict);
        }
        let there = client.find("db", "c", doc! { "_id": 2 }).await.len();
        assert_eq!(there, usize::from(mode == APPLIED));
    }
}

#[tokio::test]
async fn a_commit_is_remembered_across_a_restart() {
    let engine = Arc::new(MemoryEngine::new());
    let mut client = Client::on(engine.clone()).await;
    client.insert("db", "c", vec![doc! { "_id": 1 }]).await;
    let mut speaker = Speaker::new(client.another(), 1);
    speaker.start(insert(2)).await;
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
    let mut restarted = Speaker::new(Client::on(engine).await, 1);
    restarted.number = speaker.number;
    assert_eq!(code(&restarted.end("commitTransaction").await), 0);
    assert_eq!(code(&restarted.next(find()).await), 256);
    restarted.number += 1;
    assert_eq!(code(&restarted.end("commitTransaction").await), 251);
}

#[tokio::test]
async fn transactions_reach_across_collections_and_shards() {
    let mut client = filled().await;
    let shard = doc! { "shardCollection": "db.s", "key": { "k": "hashed" } };
    client.run("admin", shard).await;
    let mut speaker = Speaker::new(client.another(), 1);
    let many: Vec<Document> = (0..40).map(|k| doc! { "_id": k, "k": k }).collect();
    let write = doc! { "insert": "s", "documents": many };
    assert_eq!(code(&speaker.start(write).await), 0);
    assert_eq!(code(&speaker.next(insert(3)).await), 0);
    let moved = doc! { "q": { "_id": 5 }, "u": { "$set": { "k": 100 } } };
    let moving = doc! { "update": "s", "updates": [moved] };
    assert_eq!(code(&speaker.next(moving).await), 0);
    assert_eq!(client.find("db", "s", doc! {}).await.len(), 0);
    assert_eq!(code(&speaker.end("commitTransaction").await), 0);
    assert_eq!(client.find("db", "s", doc! {}).await.len(), 40);
    assert_eq!(client.find("db", "s", doc! { "k": 100 }).await.len(), 1);
    assert_eq!(client.find("db", "c", doc! {}).await.len(), 3);
}

#[tokio::test]
async fn pipelines_read_in_their_transaction() {
    let client = Client::new().await;
    let mut other = client.another();
    let mut speaker = Speaker::new(client, 1);
    speaker.start(insert(1)).await;
    other.insert("db", "d", vec![doc! { "_id": 1 }]).await;
    let pipeline = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    let counted = pipeline(doc! { "$count": "n" });
    for _ in 0..2 {
        let reply = speaker.next(counted.clone()).await;
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(
            cursor.get_array("firstBatch").unwrap(),
            &[doc! { "n": 1 }.into()]
        );
    }
    let refused = speaker.next(pipeline(doc! { "$unionWith": "d" })).await;
    assert_eq!(refused.get_i32("code").ok(), Some(263));
}

#[tokio::test]
async fn a_later_numbered_write_ends_the_transaction() {
    let client = Client::new().await;
    let mut speaker = Speaker::new(client, 1);
    speaker.start(insert(1)).await;
    let later = doc! { "insert": "c", "documents": [{ "_id": 2 }], "txnNumber": 2i64 };
    assert_eq!(speaker.client.code("db", later).await, 0);
    let transactions = &speaker.client.service.data.transactions;
    assert_eq!(transactions.count_open(), 0);
    let overtaken = speaker.next(insert(3)).await;
    assert_eq!(overtaken.get_i32("code").ok(), Some(225));
}
