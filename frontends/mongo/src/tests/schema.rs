//! Creating, changing and listing collections and indexes.

use bson::{Document, doc};

use crate::client::{Client, documents};

#[tokio::test]
async fn collections_are_created_listed_and_dropped() {
    let mut client = Client::new().await;
    client.run("test", doc! { "create": "a" }).await;
    client
        .run(
            "test",
            doc! { "create": "b", "capped": true, "size": 4096, "max": 3 },
        )
        .await;
    client.run("test", doc! { "create": "a" }).await;
    for (command, code) in [
        (doc! { "create": "a", "capped": true, "size": 10 }, 48),
        (doc! { "create": "x", "size": 10 }, 72),
        (doc! { "create": "x", "unknown": 1 }, 40_415),
        (doc! { "create": "a$b" }, 73),
        (doc! { "create": "system.x" }, 73),
        (doc! { "create": "x", "validationLevel": "other" }, 2),
        (
            doc! { "create": "x", "clusteredIndex": { "key": { "_id": 1 } } },
            40_414,
        ),
    ] {
        assert_eq!(
            client.code("test", command.clone()).await,
            code,
            "{command}"
        );
    }
    let listed = client
        .batch("test", doc! { "listCollections": 1, "nameOnly": true })
        .await;
    let expected = |name: &str| doc! { "name": name, "type": "collection" };
    assert_eq!(listed, [expected("a"), expected("b")]);
    let reply = client.run("test", doc! { "drop": "b" }).await;
    assert_eq!(reply.get_i32("nIndexesWas").ok(), Some(1));
    client.run("test", doc! { "drop": "none" }).await;
    client.run("test", doc! { "dropDatabase": 1 }).await;
    assert!(
        client
            .batch("test", doc! { "listCollections": 1 })
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn capped_collections_keep_the_last_in_order() {
    let mut client = Client::new().await;
    client
        .run(
            "test",
            doc! { "create": "c", "capped": true, "size": 100_000, "max": 3 },
        )
        .await;
    for id in [5, 1, 4, 2, 3] {
        client
            .run("test", doc! { "insert": "c", "documents": [{ "_id": id }] })
            .await;
    }
    let found = client.batch("test", doc! { "find": "c" }).await;
    assert_eq!(
        found,
        [doc! { "_id": 4 }, doc! { "_id": 2 }, doc! { "_id": 3 }]
    );
    assert_eq!(
        client
            .code("test", doc! { "insert": "c", "documents": [{ "_id": 4 }] })
            .await,
        11_000
    );
    let tail = doc! { "find": "c", "tailable": true, "awaitData": true };
    let reply = client.run("test", tail).await;
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert_ne!(id, 0);
    client
        .run("test", doc! { "insert": "c", "documents": [{ "_id": 9 }] })
        .await;
    let more = client
        .run(
            "test",
            doc! { "getMore": id, "collection": "c", "maxTimeMS": 50 },
        )
        .await;
    assert_eq!(documents(&more, "nextBatch"), [doc! { "_id": 9 }]);
    let more = client
        .run(
            "test",
            doc! { "getMore": id, "collection": "c", "maxTimeMS": 50 },
        )
        .await;
    assert!(documents(&more, "nextBatch").is_empty());
}

#[tokio::test]
async fn validators_refuse_documents() {
    let mut client = Client::new().await;
    let schema =
        doc! { "$jsonSchema": { "required": ["a"], "properties": { "a": { "bsonType": "int" } } } };
    client
        .run("test", doc! { "create": "c", "validator": schema })
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
            doc! { "insert": "c", "documents": [{ "_id": 2, "a": "x" }] },
        )
        .await;
    let error = reply.get_array("writeErrors").unwrap()[0]
        .as_document()
        .unwrap()
        .clone();
    assert_eq!(error.get_i32("code").ok(), Some(121));
    let info = error.get_document("errInfo").unwrap();
    assert_eq!(info.get_i32("failingDocumentId").ok(), Some(2));
    let broken = doc! {
        "operatorName": "bsonType", "specifiedAs": { "bsonType": "int" },
        "reason": "type did not match", "consideredType": "string", "consideredValue": "x",
    };
    let property = doc! { "propertyName": "a", "details": [broken] };
    let rule = doc! { "operatorName": "properties", "propertiesNotSatisfied": [property] };
    let details = doc! { "operatorName": "$jsonSchema", "schemaRulesNotSatisfied": [rule] };
    assert_eq!(info.get_document("details").unwrap(), &details);
    let bypassed = doc! {
        "insert": "c", "documents": [{ "_id": 2 }], "bypassDocumentValidation": true,
    };
    client.run("test", bypassed).await;
    let update = |id: i32| {
        let change = doc! { "q": { "_id": id }, "u": { "$set": { "b": 1 } } };
        doc! { "update": "c", "updates": [change] }
    };
    assert_eq!(client.code("test", update(2)).await, 121);
    client
        .run(
            "test",
            doc! { "collMod": "c", "validationLevel": "moderate" },
        )
        .await;
    client.run("test", update(2)).await;
    client
        .run("test", doc! { "collMod": "c", "validationAction": "warn" })
        .await;
    client
        .run("test", doc! { "insert": "c", "documents": [{ "_id": 3 }] })
        .await;
}

#[tokio::test]
async fn indexes_are_built_listed_and_dropped() {
    let mut client = Client::new().await;
    client
        .run(
            "test",
            doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 1 }] },
        )
        .await;
    let create = |spec: Document| doc! { "createIndexes": "c", "indexes": [spec] };
    let reply = client
        .run("test", create(doc! { "key": { "a": 1 }, "name": "a_1" }))
        .await;
    assert_eq!(
        (
            reply.get_i32("numIndexesBefore").ok(),
            reply.get_i32("numIndexesAfter").ok()
        ),
        (Some(1), Some(2))
    );
    for (spec, code) in [
        (doc! { "key": { "a": 1 }, "name": "a_1" }, 0),
        (doc! { "key": { "a": 1 }, "name": "other" }, 85),
        (doc! { "key": { "b": 1 }, "name": "a_1" }, 86),
        (
            doc! { "key": { "a": 1 }, "name": "u", "unique": true },
            11_000,
        ),
        (doc! { "key": { "a": "text" }, "name": "t" }, 67),
    ] {
        assert_eq!(
            client.code("test", create(spec.clone())).await,
            code,
            "{spec}"
        );
    }
    let names = |listed: Vec<Document>| -> Vec<String> {
        listed
            .iter()
            .map(|index| index.get_str("name").unwrap().to_owned())
            .collect()
    };
    let listed = client.batch("test", doc! { "listIndexes": "c" }).await;
    assert_eq!(names(listed), ["_id_", "a_1"]);
    for (index, code) in [("none", 27), ("_id_", 72), ("a_1", 0)] {
        assert_eq!(
            client
                .code("test", doc! { "dropIndexes": "c", "index": index })
                .await,
            code,
            "{index}"
        );
    }
    let listed = client.batch("test", doc! { "listIndexes": "c" }).await;
    assert_eq!(names(listed), ["_id_"]);
    assert_eq!(
        client.code("test", doc! { "listIndexes": "none" }).await,
        26
    );
}

#[tokio::test]
async fn views_read_through_their_pipeline() {
    let mut client = Client::new().await;
    let rows: Vec<Document> = (0..6).map(|n| doc! { "_id": n, "a": n % 2 }).collect();
    client
        .run("test", doc! { "insert": "c", "documents": rows })
        .await;
    let pipeline = vec![doc! { "$match": { "a": 1 } }];
    client
        .run(
            "test",
            doc! { "create": "v", "viewOn": "c", "pipeline": pipeline },
        )
        .await;
    let found = client
        .batch(
            "test",
            doc! { "find": "v", "filter": { "_id": { "$gt": 2 } } },
        )
        .await;
    assert_eq!(
        found,
        [doc! { "_id": 3, "a": 1 }, doc! { "_id": 5, "a": 1 }]
    );
    assert_eq!(
        client
            .run("test", doc! { "count": "v" })
            .await
            .get_i32("n")
            .ok(),
        Some(3)
    );
    let values = client
        .run("test", doc! { "distinct": "v", "key": "a" })
        .await;
    assert_eq!(values.get_array("values").unwrap(), &vec![1.into()]);
    for (command, code) in [
        (doc! { "insert": "v", "documents": [{ "_id": 9 }] }, 166),
        (
            doc! { "createIndexes": "v", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
            166,
        ),
        (doc! { "create": "w", "viewOn": "w", "pipeline": [] }, 5),
    ] {
        assert_eq!(
            client.code("test", command.clone()).await,
            code,
            "{command}"
        );
    }
}

#[tokio::test]
async fn what_would_silently_do_nothing_is_refused() {
    let mut client = Client::new().await;
    client.insert("test", "c", vec![doc! { "_id": 1 }]).await;
    let fields = doc! { "fields": [{ "path": "ssn", "bsonType": "string" }] };
    for encrypted in [
        doc! {},
        fields.clone(),
        doc! { "fields": [], "escCollection": "x" },
    ] {
        let create = doc! { "create": "e", "encryptedFields": encrypted };
        assert_eq!(client.code("test", create).await, 115);
    }
    let information = doc! { "type": 1, "schema": { "test.c": fields } };
    for mut command in [
        doc! { "find": "c" },
        doc! { "count": "c" },
        doc! { "aggregate": "c", "pipeline": [], "cursor": {} },
        doc! { "insert": "c", "documents": [{ "_id": 2 }] },
        doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
        doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] },
        doc! { "findAndModify": "c", "query": {}, "remove": true },
    ] {
        command.insert("encryptionInformation", information.clone());
        let text = command.to_string();
        assert_eq!(client.code("test", command).await, 40_415, "{text}");
    }
    assert_eq!(client.find("test", "c", doc! {}).await, [doc! { "_id": 1 }]);
}

#[tokio::test]
async fn a_list_of_config_leaves_out_what_no_restore_takes_back() {
    let mut client = Client::new().await;
    let wanted = [
        "chunks",
        "collections",
        "databases",
        "settings",
        "shards",
        "tags",
        "version",
    ];
    let set = doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": { "w": 1 } };
    client.run("admin", set).await;
    let listed = client.batch("config", doc! { "listCollections": 1 }).await;
    let listed: Vec<&str> = listed
        .iter()
        .map(|it| it.get_str("name").unwrap())
        .collect();
    assert!(listed.contains(&"partitions"), "{listed:?}");
    assert!(
        !listed.iter().any(|name| wanted.contains(name)),
        "{listed:?}"
    );
    // Asked for by name they are there, and can be read.
    for name in wanted {
        let list = doc! { "listCollections": 1, "filter": { "name": name } };
        assert_eq!(client.batch("config", list).await.len(), 1, "{name}");
        client.find("config", name, doc! {}).await;
    }
}
