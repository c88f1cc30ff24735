//! What commands refuse, and what they tell of the server.

use bson::{Bson, Decimal128, Document, doc};

use crate::client::Client;

#[tokio::test]
async fn fields_of_wrong_kinds_are_refused() {
    let mut client = Client::new().await;
    client.insert("test", "c", vec![doc! { "_id": 1 }]).await;
    let decimal = |text: &str| Bson::Decimal128(text.parse::<Decimal128>().unwrap());
    for (command, expected) in [
        (doc! { "count": "c", "limit": "x" }, 2),
        (doc! { "count": "c", "limit": Bson::Null }, 2),
        (doc! { "count": "c", "limit": 1.5 }, 9),
        (doc! { "count": "c", "limit": i64::MIN }, 2),
        (doc! { "count": "c", "limit": decimal("3.00") }, 0),
        (doc! { "count": "c", "hint": 1 }, 9),
        (
            doc! { "count": "c", "hint": { "$natural": decimal("-1") } },
            0,
        ),
        (
            doc! { "count": "c", "readConcern": { "level": "snapshot" } },
            72,
        ),
        (
            doc! { "count": "c", "readConcern": { "provenance": "x" } },
            2,
        ),
        (
            doc! { "distinct": "c", "key": "_id", "hint": Bson::Null },
            9,
        ),
        (doc! { "find": "c", "filter": Bson::Null }, 14),
        (
            doc! { "aggregate": "c", "pipeline": [], "cursor": Bson::Null },
            14,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [], "cursor": {}, "explain": 1 },
            14,
        ),
        (
            doc! { "aggregate": "c", "pipeline": [Bson::Null], "cursor": {} },
            14,
        ),
        (doc! { "aggregate": 2, "pipeline": [], "cursor": {} }, 2),
    ] {
        assert_eq!(
            client.code("test", command.clone()).await,
            expected,
            "{command}"
        );
    }
}

#[tokio::test]
async fn commands_on_collections_check_what_they_are_asked() {
    let mut client = Client::new().await;
    client.insert("test", "c", vec![doc! { "_id": 1 }]).await;
    for (command, expected) in [
        (doc! { "dropDatabase": "x" }, 14),
        (doc! { "dropDatabase": 2 }, 5_255_100),
        (doc! { "validate": "$c" }, 26),
        (doc! { "validate": "c", "metadata": true, "full": true }, 72),
        (
            doc! { "validate": "c", "repair": "yes", "checkBSONConformance": 1 },
            72,
        ),
        (doc! { "commitTransaction": 1 }, 13),
        (
            doc! { "create": "v", "viewOn": "c", "pipeline": [{ "$documents": [] }] },
            73,
        ),
        (
            doc! {
                "createIndexes": "c",
                "indexes": [{ "key": { "a": 1 }, "name": "a", "hidden": 1 }],
            },
            14,
        ),
        (
            doc! { "listIndexes": "c", "includeBuildUUIDs": true, "includeIndexBuildInfo": true },
            72,
        ),
    ] {
        assert_eq!(
            client.code("test", command.clone()).await,
            expected,
            "{command}"
        );
    }
    assert_eq!(
        client.code("admin", doc! { "commitTransaction": 1 }).await,
        125
    );
}

#[tokio::test]
async fn validation_tells_what_it_found() {
    let mut client = Client::new().await;
    client
        .insert("test", "c", vec![doc! { "_id": 1 }, doc! { "_id": 2 }])
        .await;
    for (options, mode, records) in [
        (doc! {}, "None", Some(2)),
        (doc! { "fixMultikey": true }, "AdjustMultikey", Some(2)),
        (doc! { "repair": 1, "unknown": 1 }, "FixErrors", Some(2)),
        (doc! { "metadata": true }, "None", None),
    ] {
        let mut command = doc! { "validate": "c" };
        command.extend(options);
        let reply = client.run("test", command.clone()).await;
        assert_eq!(reply.get_str("repairMode").ok(), Some(mode), "{command}");
        assert_eq!(reply.get_i32("nrecords").ok(), records, "{command}");
        assert_eq!(reply.get_bool("valid").ok(), Some(true), "{command}");
    }
}

#[tokio::test]
async fn stages_tell_of_the_server() {
    let mut client = Client::new().await.in_session(7);
    let pipeline = |stage: &str, argument: Document| {
        doc! { "aggregate": 1, "pipeline": [{ stage: argument }], "cursor": {} }
    };
    let running = client.batch("admin", pipeline("$currentOp", doc! {})).await;
    assert_eq!(running.len(), 1);
    let sessions = client
        .batch("test", pipeline("$listLocalSessions", doc! {}))
        .await;
    assert_eq!(sessions.len(), 1);
    let somebody = doc! { "users": [{ "user": "a", "db": "b" }] };
    let sessions = client
        .batch("test", pipeline("$listLocalSessions", somebody))
        .await;
    assert!(sessions.is_empty());
    for (database, stage, argument, expected) in [
        ("admin", "$currentOp", doc! { "allUsers": 1 }, 14),
        ("admin", "$currentOp", doc! { "x": true }, 40415),
        ("admin", "$currentOp", doc! { "targetAllNodes": true }, 9),
        ("test", "$listLocalSessions", doc! { "users": 1 }, 14),
        (
            "test",
            "$listLocalSessions",
            doc! { "users": [{ "user": "a" }] },
            40414,
        ),
        (
            "admin",
            "$querySettings",
            doc! { "showDebugQueryShape": 1 },
            14,
        ),
    ] {
        let command = pipeline(stage, argument);
        assert_eq!(
            client.code(database, command.clone()).await,
            expected,
            "{command}"
        );
    }
}

#[tokio::test]
async fn defaults_of_concerns_are_kept() {
    let mut client = Client::new().await;
    let set = doc! { "setDefaultRWConcern": 1, "defaultReadConcern": { "level": "majority" } };
    client.run("admin", set).await;
    let kept = client.find("config", "settings", doc! {}).await;
    assert_eq!(kept.len(), 1);
    let reply = client.run("admin", doc! { "getDefaultRWConcern": 1 }).await;
    let read = reply.get_document("defaultReadConcern").unwrap();
    assert_eq!(read, &doc! { "level": "majority" });
}

#[tokio::test]
async fn users_are_filtered() {
    let mut client = Client::new().await;
    for name in ["ann", "bob"] {
        let create = doc! { "createUser": name, "pwd": "x", "roles": [] };
        client.run("test", create).await;
    }
    let asked = doc! { "usersInfo": 1, "filter": { "user": "bob" } };
    let reply = client.run("test", asked).await;
    assert_eq!(reply.get_array("users").unwrap().len(), 1);
    client.run("admin", doc! { "fsync": 1 }).await;
}

#[tokio::test]
async fn tables_of_the_server_are_not_written() {
    let mut client = Client::new().await;
    let bulk = doc! {
        "bulkWrite": 1, "nsInfo": [{ "ns": "config.chunks" }],
        "ops": [{ "insert": 0, "document": { "_id": 1 } }],
    };
    let plain = doc! { "insert": "chunks", "documents": [{ "_id": 1 }] };
    let refused = client.code("config", plain).await;
    assert!(refused != 0);
    assert_eq!(client.code("admin", bulk).await, refused);
    let convert = doc! { "convertToCapped": "chunks", "size": 4096 };
    assert_eq!(client.code("config", convert).await, refused);
}
