//! Inserting, updating and deleting.

use bson::{Bson, bson, doc};

use crate::client::Client;

#[tokio::test]
async fn duplicates_are_refused_by_index() {
    let mut client = Client::new().await;
    let index = doc! { "key": { "a": 1 }, "name": "a_1", "unique": true };
    client
        .run("test", doc! { "createIndexes": "c", "indexes": [index] })
        .await;
    client
        .run(
            "test",
            doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }] },
        )
        .await;
    let reply = client
        .send(
            "test",
            doc! { "insert": "c", "documents": [{ "_id": 2, "a": 1.0 }] },
        )
        .await;
    let error = reply.get_array("writeErrors").unwrap()[0]
        .as_document()
        .unwrap()
        .clone();
    assert_eq!(error.get_i32("code").ok(), Some(11_000));
    let message = "E11000 duplicate key error collection: test.c index: a_1 dup key: { a: 1.0 }";
    assert_eq!(error.get_str("errmsg").ok(), Some(message));
    assert_eq!(
        error.get_document("keyPattern").ok(),
        Some(&doc! { "a": 1 })
    );
    let documents = bson!([{ "_id": 3, "a": 3 }, { "_id": 1 }, { "_id": 4, "a": 4 }]);
    let ordered = doc! { "insert": "c", "documents": documents };
    let mut unordered = ordered.clone();
    assert_eq!(
        client.send("test", ordered).await.get_i32("n").ok(),
        Some(1)
    );
    unordered.insert("ordered", false);
    assert_eq!(
        client.send("test", unordered).await.get_i32("n").ok(),
        Some(1)
    );
    assert_eq!(
        client
            .run("test", doc! { "count": "c" })
            .await
            .get_i32("n")
            .ok(),
        Some(3)
    );
}

#[tokio::test]
async fn updates_change_one_or_all() {
    let mut client = Client::new().await;
    client
        .run(
            "test",
            doc! { "insert": "c", "documents": [{ "_id": 1 }, { "_id": 2 }, { "_id": 3 }] },
        )
        .await;
    let one = doc! { "q": {}, "u": { "$set": { "a": 1 } } };
    let reply = client
        .run("test", doc! { "update": "c", "updates": [one] })
        .await;
    assert_eq!(
        (
            reply.get_i32("n").unwrap(),
            reply.get_i32("nModified").unwrap()
        ),
        (1, 1)
    );
    let all = doc! { "q": {}, "u": { "$set": { "a": 1 } }, "multi": true };
    let reply = client
        .run("test", doc! { "update": "c", "updates": [all] })
        .await;
    assert_eq!(
        (
            reply.get_i32("n").unwrap(),
            reply.get_i32("nModified").unwrap()
        ),
        (3, 2)
    );
    let upsert = doc! { "q": { "_id": 9 }, "u": { "$inc": { "b": 2 } }, "upsert": true };
    let reply = client
        .run("test", doc! { "update": "c", "updates": [upsert] })
        .await;
    let upserted = reply.get_array("upserted").unwrap();
    assert_eq!(
        upserted,
        &vec![Bson::Document(doc! { "index": 0, "_id": 9 })]
    );
    let reply = client
        .run(
            "test",
            doc! { "delete": "c", "deletes": [{ "q": { "a": 1 }, "limit": 0 }] },
        )
        .await;
    assert_eq!(reply.get_i32("n").ok(), Some(3));
    let left = client.batch("test", doc! { "find": "c" }).await;
    assert_eq!(left, [doc! { "_id": 9, "b": 2 }]);
}

#[tokio::test]
async fn retried_writes_are_done_once() {
    let mut client = Client::new().await;
    let session = doc! { "id": bson::Uuid::from_bytes([7; 16]) };
    let update = doc! {
        "update": "c",
        "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "a": 1 } }, "upsert": true }],
        "lsid": session.clone(), "txnNumber": 5i64,
    };
    client.run("test", update.clone()).await;
    let again = client.run("test", update).await;
    assert_eq!(
        again.get_array("retriedStmtIds").unwrap(),
        &vec![Bson::Int32(0)]
    );
    assert_eq!(again.get_i32("n").ok(), Some(1));
    assert_eq!(
        client.batch("test", doc! { "find": "c" }).await,
        [doc! { "_id": 1, "a": 1 }]
    );
    let insert =
        doc! { "insert": "c", "documents": [{ "_id": 2 }], "lsid": session, "txnNumber": 4i64 };
    assert_eq!(client.code("test", insert).await, 225);
}

#[tokio::test]
async fn find_and_modify_answers_the_document() {
    let mut client = Client::new().await;
    client
        .run(
            "test",
            doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }] },
        )
        .await;
    let modify =
        doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$inc": { "a": 1 } } };
    let reply = client.run("test", modify.clone()).await;
    assert_eq!(
        reply.get_document("value").ok(),
        Some(&doc! { "_id": 1, "a": 1 })
    );
    let mut new = modify;
    new.insert("new", true);
    assert_eq!(
        client.run("test", new).await.get_document("value").ok(),
        Some(&doc! { "_id": 1, "a": 3 })
    );
    let remove = doc! { "findAndModify": "c", "query": {}, "remove": true };
    assert_eq!(
        client
            .run("test", remove.clone())
            .await
            .get_document("value")
            .ok(),
        Some(&doc! { "_id": 1, "a": 3 })
    );
    assert_eq!(
        client.run("test", remove).await.get("value"),
        Some(&Bson::Null)
    );
}
