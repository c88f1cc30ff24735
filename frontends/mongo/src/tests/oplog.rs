//! The oplog: what it tells, how it is read, and doing again what it says.

use bson::{Bson, Document, Timestamp, doc};

use super::change_streams::{delete, update};
use crate::client::{Client, documents};

const LOG: &str = "oplog.rs";

async fn entries(client: &mut Client, filter: Document) -> Vec<Document> {
    client
        .batch("local", doc! { "find": LOG, "filter": filter })
        .await
}

fn time(entry: &Document) -> Timestamp {
    entry.get_timestamp("ts").unwrap()
}

/// Of each entry its kind and what it does, in short.
fn short(entries: &[Document]) -> Vec<String> {
    let entry = |entry: &Document| {
        let o = entry.get_document("o").unwrap();
        let first = o
            .iter()
            .next()
            .map(|(name, value)| format!("{name} {value}"));
        let (op, ns) = (entry.get_str("op").unwrap(), entry.get_str("ns").unwrap());
        format!("{op} {ns} {}", first.unwrap_or_default())
    };
    entries.iter().map(entry).collect()
}

async fn changed(client: &mut Client) {
    client.run("shop", doc! { "create": "orders" }).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1, "n": { "a": 1 } }])
        .await;
    update(client, 1, doc! { "$set": { "n.b": 2 } }).await;
    update(client, 1, doc! { "c": 3 }).await;
    let index = doc! { "key": { "c": 1 }, "name": "c" };
    let create = doc! { "createIndexes": "orders", "indexes": [index] };
    client.run("shop", create).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 2, "l": [1, 2] }])
        .await;
    update(client, 2, doc! { "$set": { "l.1": 7 } }).await;
    delete(client, 1).await;
}

#[tokio::test]
async fn every_change_is_an_entry_with_a_time_of_its_own() {
    let mut client = Client::of_replica_set().await;
    entries(&mut client, doc! {}).await;
    changed(&mut client).await;
    client
        .run("shop", doc! { "dropIndexes": "orders", "index": "c" })
        .await;
    client.run("shop", doc! { "drop": "orders" }).await;
    let log = entries(&mut client, doc! {}).await;
    assert_eq!(
        short(&log),
        [
            "n  msg \"the log begins\"",
            "c shop.$cmd create \"orders\"",
            "i shop.orders _id 1",
            "u shop.orders $v 2",
            "u shop.orders _id 1",
            "c shop.$cmd createIndexes \"orders\"",
            "i shop.orders _id 2",
            "u shop.orders $v 2",
            "d shop.orders _id 1",
            "c shop.$cmd dropIndexes \"orders\"",
            "c shop.$cmd drop \"orders\"",
        ]
    );
    assert!(log.is_sorted_by(|a, b| {
        let order = |entry| (time(entry).time, time(entry).increment);
        order(a) < order(b)
    }));
    let update = &log[3];
    assert_eq!(update.get_document("o2").unwrap(), &doc! { "_id": 1 });
    let diff = update.get_document("o").unwrap().get_document("diff");
    assert_eq!(diff.unwrap(), &doc! { "sn": { "u": { "b": 2 } } });
    for entry in &log[1..] {
        assert!(entry.contains_key("ui"), "{entry}");
        assert_eq!(entry.get_i64("t").unwrap(), 1);
        assert_eq!(entry.get_i64("v").unwrap(), 2);
        assert!(entry.get_datetime("wall").is_ok());
    }
    // From any entry on, the log is the same.
    for (at, entry) in log.iter().enumerate() {
        let from = doc! { "ts": { "$gte": time(entry) } };
        assert_eq!(entries(&mut client, from).await, log[at..], "{entry}");
    }
}

#[tokio::test]
async fn the_log_is_read_backwards_from_its_end() {
    let mut client = Client::of_replica_set().await;
    let last = doc! { "find": LOG, "sort": { "$natural": -1 }, "limit": 1 };
    let begin = client.batch("local", last.clone()).await;
    assert_eq!(short(&begin), ["n  msg \"the log begins\""]);
    changed(&mut client).await;
    let log = entries(&mut client, doc! {}).await;
    assert_eq!(client.batch("local", last).await, log[log.len() - 1..]);
    let all = doc! { "find": LOG, "sort": { "$natural": -1 }, "filter": { "op": "i" } };
    let inserts = short(&client.batch("local", all).await);
    assert_eq!(inserts, ["i shop.orders _id 2", "i shop.orders _id 1"]);
    let other = doc! { "find": LOG, "sort": { "ns": 1 } };
    assert_eq!(client.code("local", other).await, 115);
}

#[tokio::test]
async fn the_log_is_followed_as_it_grows() {
    let mut client = Client::of_replica_set().await;
    let last = entries(&mut client, doc! {}).await.pop().unwrap();
    let find = doc! {
        "find": LOG, "filter": { "ts": { "$gt": time(&last) }, "op": { "$in": ["i", "d"] } },
        "tailable": true, "awaitData": true,
    };
    let reply = client.run("local", find).await;
    let cursor = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_ne!(cursor, 0);
    let mut writer = client.another();
    let more = doc! { "getMore": cursor, "collection": LOG, "maxTimeMS": 5_000 };
    for id in 0..3 {
        let writes = async {
            tokio::task::yield_now().await;
            writer
                .insert("shop", "orders", vec![doc! { "_id": id }])
                .await;
        };
        let (reply, ()) = tokio::join!(client.run("local", more.clone()), writes);
        let told = short(&documents(&reply, "nextBatch"));
        assert_eq!(told, [format!("i shop.orders _id {id}")]);
    }
    let more = doc! { "getMore": cursor, "collection": LOG, "maxTimeMS": 50 };
    let reply = client.run("local", more).await;
    assert!(documents(&reply, "nextBatch").is_empty());
}

#[tokio::test]
async fn a_transaction_is_one_entry() {
    let mut client = Client::of_replica_set().await.in_session(7);
    client.run("shop", doc! { "create": "orders" }).await;
    let begin = entries(&mut client, doc! {}).await.pop().unwrap();
    let plain = client.generic.clone();
    client.generic.insert("txnNumber", 1_i64);
    client.generic.insert("autocommit", false);
    let first = doc! {
        "insert": "orders", "documents": [{ "_id": 1 }, { "_id": 2 }], "startTransaction": true,
    };
    client.run("shop", first).await;
    client
        .run(
            "shop",
            doc! { "delete": "orders", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] },
        )
        .await;
    client.run("admin", doc! { "commitTransaction": 1 }).await;
    client.generic = plain;
    client
        .insert("shop", "orders", vec![doc! { "_id": 3 }])
        .await;
    let log = entries(&mut client, doc! { "ts": { "$gt": time(&begin) } }).await;
    let [together, alone] = log.as_slice() else {
        panic!("{log:?}");
    };
    let operations = together
        .get_document("o")
        .unwrap()
        .get_array("applyOps")
        .unwrap();
    let operations: Vec<Document> = operations
        .iter()
        .map(|operation| operation.as_document().unwrap().clone())
        .collect();
    assert_eq!(
        short(&operations),
        [
            "i shop.orders _id 1",
            "i shop.orders _id 2",
            "d shop.orders _id 1"
        ]
    );
    assert_eq!(together.get_i64("txnNumber").unwrap(), 1);
    assert!(together.get_document("lsid").is_ok());
    assert_eq!(short(std::slice::from_ref(alone)), ["i shop.orders _id 3"]);
}

#[tokio::test]
async fn doing_again_what_the_log_says_makes_the_same_data() {
    let mut client = Client::of_replica_set().await;
    entries(&mut client, doc! {}).await;
    changed(&mut client).await;
    let log = entries(&mut client, doc! {}).await;
    let mut replica = Client::new().await;
    // Twice: what was done before is done again without harm.
    for _ in 0..2 {
        for entry in &log {
            let reply = replica
                .run("admin", doc! { "applyOps": [entry.clone()] })
                .await;
            assert_eq!(reply.get_i32("applied").unwrap(), 1, "{entry}");
        }
    }
    let found = |filter: Document| doc! { "find": "orders", "filter": filter };
    let expected = client.batch("shop", found(doc! {})).await;
    assert_eq!(expected, [doc! { "_id": 2, "l": [1, 7] }]);
    assert_eq!(replica.batch("shop", found(doc! {})).await, expected);
    let indexes = replica
        .batch("shop", doc! { "listIndexes": "orders" })
        .await;
    assert_eq!(indexes.len(), 2);
}

#[tokio::test]
async fn operations_that_mean_nothing_are_refused() {
    let mut client = Client::new().await;
    let apply = |operation: Bson| doc! { "applyOps": [operation] };
    let on = |op: &str, o: Document| doc! { "op": op, "ns": "shop.orders", "o": o };
    for (operation, code) in [
        (Bson::from(1), 9),
        (doc! {}.into(), 9),
        (doc! { "op": "i", "ns": "shop.orders" }.into(), 9),
        (on("x", doc! {}).into(), 2),
        (on("i", doc! { "a": 1 }).into(), 4),
        (on("u", doc! { "$v": 2, "diff": {} }).into(), 9),
        (
            doc! { "op": "u", "ns": "shop.orders", "o2": { "_id": 1 }, "o": { "$v": 1 } }.into(),
            4_772_604,
        ),
        (on("c", doc! { "create": "orders" }).into(), 2),
        (
            doc! { "op": "c", "ns": "shop.$cmd", "o": { "shutdown": 1 } }.into(),
            115,
        ),
        (doc! { "op": "n", "ns": "", "o": {} }.into(), 0),
        (on("i", doc! { "_id": 1 }).into(), 0),
    ] {
        let told = operation.to_string();
        assert_eq!(client.code("admin", apply(operation)).await, code, "{told}");
    }
    let failed = client
        .send(
            "admin",
            doc! { "applyOps": [on("i", doc! { "_id": 2 }), on("x", doc! {})] },
        )
        .await;
    assert_eq!(failed.get_i32("applied").unwrap(), 2);
    assert_eq!(
        failed.get_array("results").unwrap(),
        &vec![Bson::Boolean(true), Bson::Boolean(false)]
    );
}

/// Without a replica set there is none.
#[tokio::test]
async fn a_router_has_no_log() {
    let mut client = Client::new().await;
    assert!(entries(&mut client, doc! {}).await.is_empty());
}
