//! Reads of one moment outside of transactions.

use bson::{Bson, Document, Timestamp, doc};

use crate::client::{Client, Service};

async fn filled() -> (Service, Client) {
    let service = Service::plain().await;
    let mut client = service.connect();
    let documents: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "n": n }).collect();
    let insert = doc! { "insert": "c", "documents": documents };
    client.must("test", insert).await;
    (service, client)
}

fn snapshot(at: Option<Timestamp>) -> Document {
    let mut concern = doc! { "level": "snapshot" };
    if let Some(at) = at {
        concern.insert("atClusterTime", at);
    }
    concern
}

fn time(reply: &Document) -> Timestamp {
    let cursor = reply.get_document("cursor").unwrap();
    cursor.get_timestamp("atClusterTime").unwrap()
}

fn batch<'a>(reply: &'a Document, name: &str) -> &'a Vec<Bson> {
    let cursor = reply.get_document("cursor").unwrap();
    cursor.get_array(name).unwrap()
}

async fn change_all(client: &mut Client) {
    let change = doc! { "q": {}, "u": { "$set": { "n": -1 } }, "multi": true };
    let update = doc! { "update": "c", "updates": [change] };
    client.must("test", update).await;
    let insert = doc! { "insert": "c", "documents": [{ "_id": 9, "n": 9 }] };
    client.must("test", insert).await;
}

#[tokio::test]
async fn a_moment_can_be_read_again_whatever_is_written() {
    let (_service, mut client) = filled().await;
    let find = |at| doc! { "find": "c", "filter": { "_id": 1 }, "readConcern": snapshot(at) };
    let first = client.must("test", find(None)).await;
    let at = time(&first);
    change_all(&mut client).await;

    let again = client.must("test", find(Some(at))).await;
    assert_eq!(time(&again), at);
    assert_eq!(
        batch(&again, "firstBatch"),
        &vec![Bson::from(doc! { "_id": 1, "n": 1 })]
    );
    let aggregate = doc! {
        "aggregate": "c", "pipeline": [{ "$group": { "_id": null, "sum": { "$sum": "$n" } } }],
        "cursor": {}, "readConcern": snapshot(Some(at)),
    };
    let sum = client.must("test", aggregate).await;
    assert_eq!(time(&sum), at);
    let expected = Bson::from(doc! { "_id": null, "sum": 10 });
    assert_eq!(batch(&sum, "firstBatch"), &vec![expected]);
    let distinct = |at| doc! { "distinct": "c", "key": "n", "readConcern": snapshot(at) };
    let values = client.must("test", distinct(Some(at))).await;
    assert_eq!(values.get_array("values").unwrap().len(), 5);
    assert_eq!(values.get_timestamp("atClusterTime").unwrap(), at);

    let now = client.must("test", distinct(None)).await;
    assert_eq!(now.get_array("values").unwrap().len(), 2);
    assert!(now.get_timestamp("atClusterTime").unwrap() > at);
}

#[tokio::test]
async fn all_batches_of_a_cursor_are_of_its_moment() {
    let (_service, mut client) = filled().await;
    for command in [
        doc! { "find": "c", "batchSize": 2 },
        doc! { "aggregate": "c", "pipeline": [], "cursor": { "batchSize": 2 } },
    ] {
        let mut command = command;
        command.insert("readConcern", snapshot(None));
        let first = client.must("test", command).await;
        let before = client.must("test", doc! { "count": "c" }).await;
        change_all(&mut client).await;
        let id = first.get_document("cursor").unwrap().get_i64("id").unwrap();
        let more = doc! { "getMore": id, "collection": "c" };
        let rest = client.must("test", more).await;
        assert_eq!(time(&rest), time(&first));
        let seen = batch(&first, "firstBatch").iter();
        let seen = seen.chain(batch(&rest, "nextBatch")).cloned();
        let seen: Vec<Document> = seen.map(|row| row.as_document().unwrap().clone()).collect();
        assert_eq!(seen.len(), 5);
        assert_eq!(before.get_i32("n").unwrap(), 5);
        assert!(seen.iter().all(|row| row.get("n") == row.get("_id")));
        let all = doc! { "q": {}, "limit": 0 };
        let delete = doc! { "delete": "c", "deletes": [all] };
        client.must("test", delete).await;
        let documents: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "n": n }).collect();
        let insert = doc! { "insert": "c", "documents": documents };
        client.must("test", insert).await;
    }
}

#[tokio::test]
async fn times_that_are_not_kept_are_refused() {
    let (_service, mut client) = filled().await;
    let find = |at| doc! { "find": "c", "readConcern": snapshot(at) };
    let ping = client.must("test", doc! { "ping": 1 }).await;
    let told = ping.get_timestamp("operationTime").unwrap();
    // Nothing was written since.
    let read = client.must("test", find(Some(told))).await;
    assert_eq!(batch(&read, "firstBatch").len(), 5);
    let insert = doc! { "insert": "c", "documents": [{}] };
    let written = client.must("test", insert.clone()).await;
    let written = written.get_timestamp("operationTime").unwrap();
    client.must("test", insert).await;
    let future = Timestamp {
        time: u32::MAX,
        increment: 1,
    };
    for (at, code) in [(told, 0), (written, 239), (future, 72)] {
        let reply = client.run("test", find(Some(at))).await;
        assert_eq!(reply.get_i32("code").unwrap_or(0), code, "{reply}");
    }
}

#[tokio::test]
async fn only_queries_read_moments() {
    let (_service, mut client) = filled().await;
    for command in [
        doc! { "count": "c" },
        doc! { "insert": "c", "documents": [{}] },
        doc! { "listCollections": 1 },
        doc! { "listIndexes": "c" },
        doc! { "findAndModify": "c", "update": { "$set": { "a": 1 } } },
        doc! { "ping": 1 },
    ] {
        let mut command = command;
        command.insert("readConcern", snapshot(None));
        let reply = client.run("test", command.clone()).await;
        assert_eq!(reply.get_i32("code").unwrap_or(0), 72, "{command}");
    }
}

#[tokio::test]
async fn a_view_is_read_at_its_moment_and_in_its_transaction() {
    let (_service, mut client) = filled().await;
    let view =
        doc! { "create": "v", "viewOn": "c", "pipeline": [{ "$match": { "n": { "$gt": 2 } } }] };
    client.must("test", view).await;
    let distinct = |at| doc! { "distinct": "v", "key": "n", "readConcern": snapshot(at) };
    let first = client.must("test", distinct(None)).await;
    let at = first.get_timestamp("atClusterTime").unwrap();
    change_all(&mut client).await;
    let again = client.must("test", distinct(Some(at))).await;
    assert_eq!(again.get("values"), Some(&bson::bson!([3, 4])));

    let id = Bson::from(bson::Uuid::from_bytes([7; 16]));
    let mut own = doc! {
        "lsid": { "id": id }, "txnNumber": 1i64, "autocommit": false, "startTransaction": true,
    };
    let mut insert = doc! { "insert": "c", "documents": [{ "_id": 20, "n": 20 }] };
    insert.extend(own.clone());
    client.must("test", insert).await;
    own.remove("startTransaction");
    let mut within = doc! { "distinct": "v", "key": "n" };
    within.extend(own);
    let seen = client.must("test", within).await;
    assert_eq!(seen.get("values"), Some(&bson::bson!([9, 20])));
}
