//! Finding, counting and paging.

use bson::{Document, doc};

use crate::client::{Client, documents};

async fn filled(count: i32) -> Client {
    let mut client = Client::new().await;
    let documents: Vec<Document> = (0..count)
        .map(|n| doc! { "_id": n, "a": n % 10, "b": -n })
        .collect();
    client
        .run("test", doc! { "insert": "c", "documents": documents })
        .await;
    client
}

#[tokio::test]
async fn finds_by_id_and_by_filter() {
    let mut client = filled(20).await;
    let one = client
        .batch("test", doc! { "find": "c", "filter": { "_id": 7 } })
        .await;
    assert_eq!(one, [doc! { "_id": 7, "a": 7, "b": -7 }]);
    let some = client.batch(
        "test",
        doc! { "find": "c", "filter": { "a": 3 }, "projection": { "b": 1 } },
    );
    assert_eq!(
        some.await,
        [doc! { "_id": 3, "b": -3 }, doc! { "_id": 13, "b": -13 }]
    );
    assert!(
        client
            .batch("test", doc! { "find": "none", "filter": { "_id": 7 } })
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn sorts_skips_and_limits() {
    let mut client = filled(20).await;
    let query = doc! { "find": "c", "sort": { "a": -1, "_id": 1 }, "skip": 1, "limit": 2 };
    let ids: Vec<_> = client
        .batch("test", query)
        .await
        .iter()
        .map(|d| d.get_i32("_id").unwrap())
        .collect();
    assert_eq!(ids, [19, 8]);
}

#[tokio::test]
async fn cursors_give_every_document_once() {
    let mut client = filled(250).await;
    let reply = client.run("test", doc! { "find": "c" }).await;
    assert_eq!(documents(&reply, "firstBatch").len(), 101);
    let mut id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let mut found = 101;
    while id != 0 {
        let more = doc! { "getMore": id, "collection": "c", "batchSize": 40 };
        let reply = client.run("test", more).await;
        found += documents(&reply, "nextBatch").len();
        id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    }
    assert_eq!(found, 250);
    assert_eq!(
        client
            .code("test", doc! { "getMore": 5i64, "collection": "c" })
            .await,
        43
    );
}

#[tokio::test]
async fn counts_and_distinct_values() {
    let mut client = filled(20).await;
    for (command, expected) in [
        (doc! { "count": "c" }, 20),
        (doc! { "count": "c", "query": { "a": 3 } }, 2),
        (
            doc! { "count": "c", "query": { "a": { "$gte": 5 } }, "skip": 3, "limit": 4 },
            4,
        ),
        (doc! { "count": "none" }, 0),
    ] {
        assert_eq!(
            client.run("test", command.clone()).await.get_i32("n").ok(),
            Some(expected),
            "{command}"
        );
    }
    let reply = client.run(
        "test",
        doc! { "distinct": "c", "key": "a", "query": { "a": { "$lt": 3 } } },
    );
    assert_eq!(
        reply.await.get_array("values").unwrap(),
        &vec![0.into(), 1.into(), 2.into()]
    );
}
