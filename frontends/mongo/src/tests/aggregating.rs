//! Pipelines that read other collections, and that write.

use bson::{Document, doc};

use crate::client::Client;

async fn filled() -> Client {
    let mut client = Client::new().await;
    let orders: Vec<Document> = (0..10)
        .map(|n| doc! { "_id": n, "customer": n % 3, "total": n * 10 })
        .collect();
    client
        .run("test", doc! { "insert": "orders", "documents": orders })
        .await;
    let customers: Vec<Document> = (0..3)
        .map(|n| doc! { "_id": n, "name": format!("c{n}") })
        .collect();
    client
        .run(
            "test",
            doc! { "insert": "customers", "documents": customers },
        )
        .await;
    client
}

#[tokio::test]
async fn pipelines_group_and_look_up() {
    let mut client = filled().await;
    let pipeline = vec![
        doc! { "$match": { "total": { "$gte": 50 } } },
        doc! { "$group": { "_id": "$customer", "sum": { "$sum": "$total" } } },
        doc! { "$sort": { "_id": 1 } },
        doc! { "$lookup": {
            "from": "customers", "localField": "_id", "foreignField": "_id", "as": "who",
        } },
        doc! { "$project": { "sum": 1, "name": { "$first": "$who.name" } } },
    ];
    let found = client
        .batch(
            "test",
            doc! { "aggregate": "orders", "pipeline": pipeline, "cursor": {} },
        )
        .await;
    let expected = [(0, 150, "c0"), (1, 70, "c1"), (2, 130, "c2")];
    let expected = expected.map(|(id, sum, name)| doc! { "_id": id, "sum": sum, "name": name });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn pipelines_write_collections() {
    let mut client = filled().await;
    let out = vec![
        doc! { "$match": { "_id": { "$lt": 2 } } },
        doc! { "$out": "copy" },
    ];
    client
        .run(
            "test",
            doc! { "aggregate": "orders", "pipeline": out, "cursor": {} },
        )
        .await;
    assert_eq!(
        client
            .run("test", doc! { "count": "copy" })
            .await
            .get_i32("n")
            .ok(),
        Some(2)
    );
    let merge = vec![
        doc! { "$match": { "_id": { "$lt": 3 } } },
        doc! { "$project": { "merged": { "$literal": true } } },
        doc! { "$merge": { "into": "copy" } },
    ];
    client
        .run(
            "test",
            doc! { "aggregate": "orders", "pipeline": merge, "cursor": {} },
        )
        .await;
    let found = client
        .batch("test", doc! { "find": "copy", "sort": { "_id": 1 } })
        .await;
    assert_eq!(found.len(), 3);
    assert_eq!(
        found[0],
        doc! { "_id": 0, "customer": 0, "total": 0, "merged": true }
    );
    assert_eq!(found[2], doc! { "_id": 2, "merged": true });
}

#[tokio::test]
async fn bulk_writes_count_what_they_did() {
    let mut client = Client::new().await;
    let ops = vec![
        doc! { "insert": 0, "document": { "_id": 1 } },
        doc! { "insert": 1, "document": { "_id": 1 } },
        doc! { "update": 0, "filter": { "_id": 1 }, "updateMods": { "$set": { "a": 1 } } },
        doc! { "insert": 0, "document": { "_id": 1 } },
        doc! { "delete": 1, "filter": { "_id": 1 } },
    ];
    let namespaces = vec![doc! { "ns": "test.a" }, doc! { "ns": "test.b" }];
    let bulk = doc! { "bulkWrite": 1, "ops": ops, "nsInfo": namespaces, "ordered": false };
    let reply = client.send("admin", bulk).await;
    let numbers = ["nInserted", "nMatched", "nModified", "nDeleted", "nErrors"];
    let numbers = numbers.map(|name| reply.get_i32(name).unwrap());
    assert_eq!(numbers, [2, 1, 1, 1, 1], "{reply}");
}

/// While a collection is replaced, whoever reads it finds the old documents or the new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_collection_that_is_replaced_is_never_missing() {
    let mut client = Client::new().await;
    let fill = |round: i32| (0..5).map(move |id| doc! { "_id": id, "round": round });
    client.insert("db", "a", fill(0).collect()).await;
    let copy = |from: &str| {
        doc! {
            "aggregate": from, "pipeline": [{ "$out": "shown" }], "cursor": {},
        }
    };
    client.run("db", copy("a")).await;
    let mut reader = client.another();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let reading = tokio::spawn(async move {
        let mut reads = 0;
        while !*stopped.borrow() {
            let found = reader.find("db", "shown", doc! {}).await;
            assert_eq!(found.len(), 5, "{found:?}");
            let round = found[0].get_i32("round").unwrap();
            assert!(
                found
                    .iter()
                    .all(|it| it.get_i32("round").ok() == Some(round))
            );
            reads += 1;
        }
        reads
    });
    for round in 1..=20 {
        let name = format!("r{round}");
        client.insert("db", &name, fill(round).collect()).await;
        match round % 3 {
            0 => {
                let rename = doc! {
                    "renameCollection": format!("db.{name}"), "to": "db.shown", "dropTarget": true,
                };
                client.run("admin", rename).await;
            }
            1 => {
                client.run("db", copy(&name)).await;
            }
            _ => {
                client.run("db", copy(&name)).await;
                let convert = doc! { "convertToCapped": "shown", "size": 1 << 20 };
                client.run("db", convert).await;
                // What is capped cannot be replaced by $out, and stays.
                assert_eq!(client.code("db", copy("a")).await, 17_152);
                let rename = doc! {
                    "renameCollection": "db.a", "to": "db.shown", "dropTarget": true,
                };
                client.run("admin", rename).await;
                client.insert("db", "a", fill(round).collect()).await;
            }
        }
    }
    stop.send(true).unwrap();
    assert!(reading.await.unwrap() > 0);
    // A failure amid the documents leaves what was there, and nothing beside it.
    let before = client.find("db", "shown", doc! {}).await;
    let fails = doc! {
        "aggregate": "a",
        "pipeline": [
            { "$set": { "x": { "$divide": [1, { "$subtract": ["$_id", 3] }] } } },
            { "$out": "shown" },
        ],
        "cursor": {},
    };
    assert_ne!(client.code("db", fails).await, 0);
    assert_eq!(client.find("db", "shown", doc! {}).await, before);
    let names = client
        .batch("db", doc! { "listCollections": 1, "nameOnly": true })
        .await;
    let is_left = |it: &Document| it.get_str("name").unwrap().starts_with("tmp.");
    assert!(!names.iter().any(is_left), "{names:?}");
}

/// What `$out` would silently lose is refused: changes of the collection since it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_collection_that_changes_while_it_is_replaced_stays() {
    let mut client = Client::new().await;
    for step in 0..10 {
        let documents = (0..1_000).map(|n| doc! { "_id": step * 1_000 + n });
        client.insert("db", "a", documents.collect()).await;
    }
    let key = doc! { "key": { "x": 1 }, "name": "x_1" };
    let changes = [
        doc! { "createIndexes": "b", "indexes": [key] },
        doc! { "dropIndexes": "b", "index": "kept" },
        doc! { "collMod": "b", "validator": { "x": 1 } },
    ];
    for change in changes {
        let mut codes = Vec::new();
        // The change may come too late, after the collection was replaced.
        while codes.len() < 20 && codes.last() != Some(&125) {
            client.run("db", doc! { "drop": "b" }).await;
            client.insert("db", "b", vec![doc! { "_id": "old" }]).await;
            let kept = doc! { "key": { "y": 1 }, "name": "kept" };
            let create = doc! { "createIndexes": "b", "indexes": [kept] };
            client.run("db", create).await;
            let mut other = client.another();
            let replacing = tokio::spawn(async move {
                let out = doc! { "aggregate": "a", "pipeline": [{ "$out": "b" }], "cursor": {} };
                other.code("db", out).await
            });
            let is_temporary = |it: &Document| it.get_str("name").unwrap().starts_with("tmp.");
            while !replacing.is_finished() {
                let list = doc! { "listCollections": 1, "nameOnly": true };
                if client.batch("db", list).await.iter().any(is_temporary) {
                    client.run("db", change.clone()).await;
                    break;
                }
            }
            codes.push(replacing.await.unwrap());
        }
        assert_eq!(codes.last(), Some(&125), "{change}: {codes:?}");
        let found = client.find("db", "b", doc! {}).await;
        assert_eq!(found, [doc! { "_id": "old" }], "{change}");
        let list = doc! { "listCollections": 1, "nameOnly": true };
        assert_eq!(client.batch("db", list).await.len(), 2, "{change}");
    }
}
