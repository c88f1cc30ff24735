//! Writes of many statements that run out of throughput: whatever is answered, it says what was
//! done.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use tessera_core::Store;
use tessera_core::clock::Clock;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;
use tessera_mongo::{API, MongoConfig, MongoModel};

use crate::client::{Client, Service};

const THROTTLED: i32 = 16500;

/// A service whose time stands still, a client of it, and a collection `shop.c` with 400 RU/s.
struct Shop {
    clock: Clock,
    service: Service,
    client: Client,
}

impl Shop {
    async fn open() -> Self {
        let clock = Clock::manual(1_700_000_000_000);
        let model: Arc<dyn Model> = Arc::new(MongoModel::default());
        let options = StoreOptions {
            models: HashMap::from([(API.to_owned(), model)]),
            clock: clock.clone(),
            ..StoreOptions::default()
        };
        let store = Store::open(Arc::new(MemoryEngine::new()), options).await;
        let service = Service::over(store.unwrap(), MongoConfig::default());
        let mut client = service.connect();
        client.must("shop", create("c")).await;
        Self {
            clock,
            service,
            client,
        }
    }

    /// One whose collection holds so many documents.
    async fn filled(count: i32) -> Self {
        let mut shop = Self::open().await;
        shop.set_throughput(None).await;
        for first in (0..count).step_by(500) {
            let part = documents(first..count.min(first + 500));
            shop.must(doc! { "insert": "c", "documents": part }).await;
            shop.clock.advance(1_000);
        }
        shop.set_throughput(Some(400)).await;
        shop
    }

    async fn set_throughput(&mut self, units: Option<i32>) {
        let mut update = doc! { "customAction": "UpdateCollection", "collection": "c" };
        // Enough for whatever a test fills it with.
        update.insert("offerThroughput", units.unwrap_or(10_000));
        self.client.must("shop", update).await;
        self.clock.advance(1_000_000);
    }

    async fn run(&mut self, command: Document) -> Document {
        self.client.run("shop", command).await
    }

    async fn must(&mut self, command: Document) -> Document {
        self.client.must("shop", command).await
    }

    /// How many documents match, once everything is paid for.
    async fn count(&mut self, query: Document) -> i32 {
        self.clock.advance(100_000);
        let counted = self.must(doc! { "count": "c", "query": query }).await;
        self.clock.advance(100_000);
        counted.get_i32("n").unwrap()
    }

    /// Spends what the collection has.
    async fn exhaust(&mut self) {
        let body = "x".repeat(4 << 20);
        let large = doc! { "insert": "c", "documents": [{ "_id": "large", "body": body }] };
        self.must(large).await;
    }
}

fn create(collection: &str) -> Document {
    doc! { "customAction": "CreateCollection", "collection": collection, "offerThroughput": 400 }
}

fn documents(ids: std::ops::Range<i32>) -> Vec<Document> {
    ids.map(|id| doc! { "_id": id, "v": 0 }).collect()
}

/// The same, of a client that wants its answer now.
fn soon(mut command: Document) -> Document {
    command.insert("maxTimeMS", 1_000);
    command
}

fn numbered(mut command: Document, number: i64) -> Document {
    let session = doc! { "id": bson::Uuid::from_bytes([7; 16]) };
    command.extend(doc! { "lsid": session, "txnNumber": number });
    command
}

/// Positions and codes of the statements that failed.
fn errors(reply: &Document) -> Vec<(i32, i32)> {
    let errors = reply.get_array("writeErrors").ok().into_iter().flatten();
    let of = |error: &Bson| {
        let error = error.as_document().unwrap();
        (
            error.get_i32("index").unwrap(),
            error.get_i32("code").unwrap(),
        )
    };
    errors.map(of).collect()
}

fn size(errors: &[(i32, i32)]) -> i32 {
    i32::try_from(errors.len()).unwrap()
}

fn labels(reply: &Document) -> Vec<&str> {
    let labels = reply.get_array("errorLabels").ok().into_iter().flatten();
    labels.map(|label| label.as_str().unwrap()).collect()
}

fn is_ok(reply: &Document) -> bool {
    reply.get_f64("ok").unwrap() == 1.0
}

#[tokio::test]
async fn an_insert_says_how_many_documents_there_are() {
    for (count, ordered) in [(600, true), (600, false), (1_500, true), (1_500, false)] {
        let mut shop = Shop::open().await;
        let insert = doc! { "insert": "c", "documents": documents(0..count), "ordered": ordered };
        let reply = shop.run(soon(insert)).await;
        assert!(is_ok(&reply), "{reply}");
        let n = reply.get_i32("n").unwrap();
        assert!(n > 0 && n < count, "{reply}");
        let expected: Vec<_> = match ordered {
            true => vec![(n, THROTTLED)],
            false => (n..count).map(|index| (index, THROTTLED)).collect(),
        };
        assert_eq!(errors(&reply), expected);
        assert_eq!(shop.count(doc! {}).await, n);
    }
}

#[tokio::test]
async fn documents_that_are_refused_otherwise_are_told_apart() {
    let mut shop = Shop::filled(3).await;
    // The 700 new ones are more than there is throughput for; three are there already.
    let mut sent = documents(100..800);
    for (position, id) in [(5, 0), (250, 1), (699, 2)] {
        sent[position].insert("_id", id);
    }
    let insert = doc! { "insert": "c", "documents": sent, "ordered": false };
    let reply = shop.run(soon(insert)).await;
    let n = reply.get_i32("n").unwrap();
    let codes = errors(&reply);
    assert_eq!(size(&codes), 700 - n);
    assert!(codes.contains(&(5, 11000)), "{codes:?}");
    assert_eq!(shop.count(doc! { "_id": { "$gte": 100 } }).await, n);
}

#[tokio::test]
async fn what_was_not_begun_may_be_sent_again() {
    let mut shop = Shop::filled(10).await;
    let hello = doc! { "hello": 1, "backpressure": true };
    shop.client.must("admin", hello).await;
    shop.exhaust().await;
    let update = doc! { "q": { "v": 0 }, "u": { "$inc": { "v": 1 } }, "multi": true };
    for command in [
        doc! { "insert": "c", "documents": documents(100..103) },
        doc! { "insert": "c", "documents": documents(100..103), "ordered": false },
        doc! { "insert": "c", "documents": documents(100..700), "ordered": false },
        numbered(doc! { "insert": "c", "documents": documents(100..103) }, 1),
        doc! { "update": "c", "updates": [update.clone(), update] },
        doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "v": 5 } } }] },
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }], "ordered": false },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$set": { "v": 9 } } },
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "remove": true },
    ] {
        let reply = shop.run(command.clone()).await;
        assert!(!is_ok(&reply), "{command}: {reply}");
        assert_eq!(reply.get_i32("code").ok(), Some(THROTTLED), "{command}");
        assert_eq!(labels(&reply), ["SystemOverloadedError", "RetryableError"]);
        assert!(!reply.contains_key("n"), "{reply}");
    }
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "shop.c" }],
        "ops": [{ "insert": 0, "document": { "_id": 100 } }, { "delete": 0, "filter": {} }],
    };
    let reply = shop.client.run("admin", bulk).await;
    assert_eq!(reply.get_i32("code").ok(), Some(THROTTLED), "{reply}");
    assert_eq!(shop.count(doc! { "v": 0 }).await, 10);
}

#[tokio::test]
async fn a_numbered_write_that_is_sent_again_goes_on() {
    let mut shop = Shop::open().await;
    let hello = doc! { "hello": 1, "backpressure": true };
    shop.client.must("admin", hello).await;
    let insert = doc! { "insert": "c", "documents": documents(0..1_700) };
    let insert = numbered(soon(insert), 1);
    let mut done = 0;
    for attempt in 0.. {
        let reply = shop.run(insert.clone()).await;
        let n = reply.get_i32("n").unwrap();
        assert!(n > done, "{attempt}: {reply}");
        done = n;
        assert_eq!(shop.count(doc! {}).await, n);
        if is_ok(&reply) {
            break;
        }
        assert_eq!(reply.get_i32("code").ok(), Some(THROTTLED));
        assert_eq!(labels(&reply), ["SystemOverloadedError", "RetryableError"]);
        assert!(!reply.contains_key("writeErrors"), "{reply}");
    }
    assert_eq!(done, 1_700);
    // A client that would not send it again is told at once.
    let mut old = shop.service.connect();
    let more = doc! { "insert": "c", "documents": documents(2_000..3_000) };
    let reply = old.run("shop", numbered(soon(more), 2)).await;
    let n = reply.get_i32("n").unwrap();
    assert_eq!((is_ok(&reply), n), (true, 500), "{reply}");
    assert_eq!(errors(&reply), [(n, THROTTLED)]);
    assert_eq!(shop.count(doc! {}).await, 1_700 + n);
}

#[tokio::test]
async fn changes_of_many_documents_say_how_many_they_changed() {
    let change = doc! { "q": { "v": 0 }, "u": { "$inc": { "v": 1 } }, "multi": true };
    let mut shop = Shop::filled(2_500).await;
    let update = doc! { "update": "c", "updates": [change.clone()] };
    let reply = shop.run(soon(update)).await;
    let n = reply.get_i32("n").unwrap();
    assert!(is_ok(&reply) && n > 0 && n < 2_500, "{reply}");
    assert_eq!(reply.get_i32("nModified").unwrap(), n);
    assert_eq!(errors(&reply), [(0, THROTTLED)]);
    let said = format!("{n} documents were written before");
    assert!(reply.to_string().contains(&said), "{reply}");
    assert_eq!(shop.count(doc! { "v": 1 }).await, n);

    let remove = doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] };
    let reply = shop.run(soon(remove)).await;
    let n = reply.get_i32("n").unwrap();
    assert!(is_ok(&reply) && n > 0 && n < 2_500, "{reply}");
    assert_eq!(errors(&reply), [(0, THROTTLED)]);
    assert_eq!(shop.count(doc! {}).await, 2_500 - n);

    let mut shop = Shop::filled(2_500).await;
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "shop.c" }], "maxTimeMS": 1_000,
        "ops": [{
            "update": 0, "filter": { "v": 0 }, "updateMods": { "$inc": { "v": 1 } }, "multi": true,
        }, { "delete": 0, "filter": {}, "multi": true }],
    };
    let reply = shop.client.run("admin", bulk).await;
    let n = reply.get_i32("nModified").unwrap();
    assert_eq!(reply.get_i32("nErrors").ok(), Some(1), "{reply}");
    assert_eq!(reply.get_i32("nMatched").ok(), Some(n), "{reply}");
    let cursor = reply.get_document("cursor").unwrap();
    let [Bson::Document(first)] = cursor.get_array("firstBatch").unwrap().as_slice() else {
        panic!("{reply}");
    };
    assert_eq!(first.get_f64("ok").ok(), Some(0.0), "{first}");
    assert_eq!(first.get_i32("code").ok(), Some(THROTTLED), "{first}");
    assert_eq!(first.get_i32("nModified").ok(), Some(n), "{first}");
    assert_eq!(shop.count(doc! { "v": 1 }).await, n);
}

#[tokio::test]
async fn statements_that_were_not_done_are_told_one_by_one() {
    for ordered in [true, false] {
        let mut shop = Shop::filled(200).await;
        let updates: Vec<Document> = (0..200)
            .map(|id| doc! { "q": { "_id": id }, "u": { "$set": { "v": 1 } } })
            .collect();
        let update = doc! { "update": "c", "updates": updates, "ordered": ordered };
        let reply = shop.run(soon(update)).await;
        let n = reply.get_i32("n").unwrap();
        assert!(is_ok(&reply) && n > 0 && n < 200, "{reply}");
        let failed = errors(&reply);
        assert_eq!(failed.first(), Some(&(n, THROTTLED)));
        assert_eq!(size(&failed), if ordered { 1 } else { 200 - n });
        assert_eq!(shop.count(doc! { "v": 1 }).await, n);

        let deletes: Vec<Document> = (0..200)
            .map(|id| doc! { "q": { "_id": id }, "limit": 1 })
            .collect();
        let delete = doc! { "delete": "c", "deletes": deletes, "ordered": ordered };
        let reply = shop.run(soon(delete)).await;
        let n = reply.get_i32("n").unwrap();
        assert!(is_ok(&reply) && n > 0 && n < 200, "{reply}");
        assert_eq!(shop.count(doc! {}).await, 200 - n);

        let ops: Vec<Document> = (1_000..1_200)
            .map(|id| doc! { "insert": 0, "document": { "_id": id } })
            .collect();
        let bulk = doc! {
            "bulkWrite": 1, "nsInfo": [{ "ns": "shop.c" }], "ops": ops, "ordered": ordered,
            "maxTimeMS": 1_000, "errorsOnly": true,
        };
        let reply = shop.client.run("admin", bulk).await;
        let n = reply.get_i32("nInserted").unwrap();
        let expected = if ordered { 1 } else { 200 - n };
        assert_eq!(reply.get_i32("nErrors").ok(), Some(expected), "{reply}");
        assert_eq!(shop.count(doc! { "_id": { "$gte": 1_000 } }).await, n);
    }
}

#[tokio::test]
async fn nothing_of_a_transaction_is_done() {
    let mut shop = Shop::filled(100).await;
    let part = |mut command: Document, starts: bool| {
        command = numbered(command, 5);
        command.insert("autocommit", false);
        if starts {
            command.insert("startTransaction", true);
        }
        command
    };
    let first = doc! { "insert": "c", "documents": documents(1_000..1_010) };
    shop.must(part(first, true)).await;
    shop.exhaust().await;
    let second = doc! { "find": "c", "filter": { "_id": 1 } };
    drop(shop.run(part(second, false)).await);
    shop.clock.advance(1_000_000);
    let abort = part(doc! { "abortTransaction": 1 }, false);
    drop(shop.client.run("admin", abort).await);
    assert_eq!(shop.count(doc! { "_id": { "$gte": 1_000 } }).await, 0);

    shop.exhaust_again().await;
    let mut insert = part(
        doc! { "insert": "c", "documents": documents(2_000..2_010) },
        true,
    );
    insert.insert("txnNumber", 6i64);
    let refused = shop.run(insert).await;
    assert!(!is_ok(&refused), "{refused}");
    assert_eq!(refused.get_i32("code").ok(), Some(THROTTLED), "{refused}");
    assert_eq!(shop.count(doc! { "_id": { "$gte": 2_000 } }).await, 0);
}

impl Shop {
    async fn exhaust_again(&mut self) {
        let body = "y".repeat(4 << 20);
        let update = doc! { "q": { "_id": "large" }, "u": { "$set": { "body": body } } };
        let reply = self.must(doc! { "update": "c", "updates": [update] }).await;
        assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
    }
}

#[tokio::test]
async fn a_pipeline_that_has_merged_something_is_not_sent_again() {
    let mut shop = Shop::open().await;
    let hello = doc! { "hello": 1, "backpressure": true };
    shop.client.must("admin", hello).await;
    let source = doc! { "insert": "source", "documents": documents(0..300) };
    shop.must(source).await;
    let merge = |stage: Document| {
        doc! { "aggregate": "source", "pipeline": [stage], "cursor": {} }
    };
    let reply = shop.run(merge(doc! { "$merge": { "into": "c" } })).await;
    assert_eq!(reply.get_i32("code").ok(), Some(THROTTLED), "{reply}");
    assert_eq!(labels(&reply), ["SystemOverloadedError"]);
    let merged = shop.count(doc! {}).await;
    assert!(merged > 0 && merged < 300, "{merged}");
    let said = format!("{merged} documents were written before");
    assert!(reply.get_str("errmsg").unwrap().contains(&said), "{reply}");
    shop.exhaust().await;
    let reply = shop.run(merge(doc! { "$merge": { "into": "c" } })).await;
    assert_eq!(labels(&reply), ["SystemOverloadedError", "RetryableError"]);
}

#[tokio::test]
async fn partitions_that_have_throughput_take_what_is_theirs() {
    // Of some keys, at least one leaves the partition of the first document alone.
    let mut begun = 0;
    for (ordered, hot) in [
        (false, 1),
        (true, 0),
        (true, 1),
        (true, 2),
        (true, 3),
        (true, 4),
    ] {
        let mut shop = Shop::open().await;
        let create = doc! {
            "customAction": "CreateCollection", "collection": "s", "offerThroughput": 20_000,
            "shardKey": "k",
        };
        shop.must(create).await;
        let fewer = doc! {
            "customAction": "UpdateCollection", "collection": "s", "offerThroughput": 400,
        };
        shop.must(fewer).await;
        // One key's partition is spent, with all keys that lie beside it.
        let body = "x".repeat(4 << 20);
        let large = doc! { "insert": "s", "documents": [{ "_id": "large", "k": hot, "b": body }] };
        shop.must(large).await;
        let sent: Vec<Document> = (0..60).map(|id| doc! { "_id": id, "k": id }).collect();
        let insert = doc! { "insert": "s", "documents": sent, "ordered": ordered };
        let reply = shop.run(soon(insert)).await;
        begun += i32::from(is_ok(&reply));
        let n = reply.get_i32("n").unwrap_or(0);
        let failed = errors(&reply);
        assert!(failed.iter().all(|(_, code)| *code == THROTTLED));
        if ordered {
            assert_eq!(failed.len(), usize::from(is_ok(&reply)), "{reply}");
        } else {
            assert_eq!(size(&failed), 60 - n, "{reply}");
            assert!((15..45).contains(&n), "{n}");
        }
        shop.clock.advance(100_000);
        let count = doc! { "count": "s", "query": { "_id": { "$ne": "large" } } };
        assert_eq!(shop.must(count).await.get_i32("n").ok(), Some(n));
        let refused: Vec<Bson> = failed.iter().map(|(id, _)| Bson::Int32(*id)).collect();
        shop.clock.advance(100_000);
        let count = doc! { "count": "s", "query": { "_id": { "$in": refused } } };
        assert_eq!(shop.must(count).await.get_i32("n").ok(), Some(0));
    }
    assert!(begun > 1, "{begun}");
}

#[tokio::test]
async fn what_was_begun_is_finished_if_that_is_soon() {
    let service = Service::plain().await;
    let mut client = service.connect();
    client.must("shop", create("c")).await;
    let began = Instant::now();
    let insert = doc! { "insert": "c", "documents": documents(0..1_200) };
    let reply = client.must("shop", insert).await;
    assert_eq!(reply.get_i32("n").ok(), Some(1_200), "{reply}");
    assert!(!reply.contains_key("writeErrors"), "{reply}");
    let took = began.elapsed();
    assert!(took > Duration::from_secs(1), "{took:?}");
}
