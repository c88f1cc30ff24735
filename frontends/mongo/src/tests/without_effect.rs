//! Options that would be without effect are refused, and their neutral forms taken.

use bson::{Bson, Document, Timestamp, doc};

use crate::client::Client;

/// A command with one more field.
fn with(mut command: Document, name: &str, value: impl Into<Bson>) -> Document {
    command.insert(name, value);
    command
}

fn create(name: &str, value: impl Into<Bson>) -> Document {
    with(doc! { "create": format!("c{name}") }, name, value)
}

fn aggregate(name: &str, value: impl Into<Bson>) -> Document {
    let command = doc! { "aggregate": "c", "pipeline": [], "cursor": {} };
    with(command, name, value)
}

fn index(quorum: impl Into<Bson>) -> Document {
    let indexes = doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] };
    with(indexes, "commitQuorum", quorum)
}

fn update(name: &str, value: impl Into<Bson>) -> Document {
    let statement = doc! { "q": {}, "u": { "$set": { "a": 1 } } };
    doc! { "update": "c", "updates": [with(statement, name, value)] }
}

fn config(text: &str) -> Document {
    let options = doc! { "wiredTiger": { "configString": text } };
    doc! { "create": format!("e{}", text.len()), "storageEngine": options }
}

/// Options of collections, each with its code.
fn of_collections() -> Vec<(Document, i32)> {
    vec![
        (create("recordPreImages", true), 72),
        (create("recordPreImages", 1.0), 72),
        (create("recordPreImages", false), 0),
        (with(doc! { "collMod": "c" }, "recordPreImages", true), 72),
        (config("block_compressor=zlib"), 0),
        (
            config("block_compressor=zlib,log=(enabled=false,x=1),checksum=on"),
            0,
        ),
        (config("block_compressor=zlib,encryption=(name=aes)"), 2),
        (config("prefix_compression=true,cache_size=5"), 2),
        (config("cache_size=5,prefix_compression=true,"), 2),
    ]
}

/// Options of indexes and pipelines.
fn of_indexes_and_pipelines() -> Vec<(Document, i32)> {
    vec![
        (index("majority"), 0),
        (index("votingMembers"), 0),
        (index(0), 0),
        (index(1), 0),
        (index(50_i64), 0),
        (index(2.0), 0),
        (index(51), 9),
        (index(-1), 9),
        (index(f64::INFINITY), 9),
        (index(true), 9),
        (index(doc! {}), 9),
        (index("all"), 79),
        (index("Majority"), 79),
        (index(""), 79),
        (
            aggregate("exchange", doc! { "policy": "roundrobin", "consumers": 2 }),
            51_028,
        ),
        (aggregate("exchange", doc! {}), 51_028),
        (aggregate("needsMerge", true), 51_089),
        (aggregate("needsMerge", false), 0),
        (aggregate("fromMongos", 1), 51_089),
        (aggregate("fromRouter", true), 51_089),
        (aggregate("runtimeConstants", doc! {}), 51_143),
        (aggregate("legacyRuntimeConstants", doc! {}), 51_143),
        (aggregate("passthroughToShard", doc! { "shard": "s" }), 115),
        (aggregate("requestReshardingResumeToken", true), 115),
        (aggregate("requestReshardingResumeToken", false), 0),
    ]
}

/// Options of queries and writes.
fn of_queries_and_writes() -> Vec<(Document, i32)> {
    vec![
        (with(doc! { "find": "c" }, "ntoreturn", 5), 5_746_102),
        (with(doc! { "find": "c" }, "requestResumeToken", true), 115),
        (
            with(doc! { "find": "c" }, "resumeAfter", doc! { "$recordId": 5 }),
            115,
        ),
        (with(doc! { "find": "c" }, "startAt", doc! {}), 115),
        (
            with(doc! { "find": "c" }, "legacyRuntimeConstants", doc! {}),
            51_202,
        ),
        (with(doc! { "find": "c" }, "requestResumeToken", false), 0),
        (
            with(update("multi", false), "legacyRuntimeConstants", doc! {}),
            51_195,
        ),
        (
            with(update("multi", false), "isTimeseriesNamespace", true),
            5_916_400,
        ),
        (
            with(update("multi", false), "isTimeseriesNamespace", false),
            0,
        ),
        (update("upsertSupplied", true), 115),
        (update("upsertSupplied", false), 0),
        (
            doc! { "delete": "c", "deletes": [{ "q": { "x": 1 }, "limit": 1 }],
            "isTimeseriesNamespace": true },
            5_916_400,
        ),
        (
            doc! { "findAndModify": "c", "remove": true, "legacyRuntimeConstants": {} },
            51_196,
        ),
    ]
}

#[tokio::test]
async fn options_without_effect_are_refused() {
    let mut client = Client::new().await;
    client.insert("db", "c", vec![doc! { "_id": 1 }]).await;
    let rows = [
        of_collections(),
        of_indexes_and_pipelines(),
        of_queries_and_writes(),
    ];
    for (command, code) in rows.concat() {
        let shown = command.to_string();
        assert_eq!(client.code("db", command).await, code, "{shown}");
    }
    let hidden = doc! { "collMod": "c", "index": { "name": "a", "hidden": true,
    "forceNonUnique": true } };
    assert_eq!(client.code("db", hidden).await, 72);
}

/// What tells a restore to leave timestamps alone.
#[tokio::test]
async fn empty_timestamps_stay_if_that_is_said() {
    let empty = Timestamp {
        time: 0,
        increment: 0,
    };
    let mut client = Client::new().await;
    for (id, bypass) in [(1, None), (2, Some(false)), (3, Some(true))] {
        let document = doc! { "_id": id, "t": empty };
        let mut insert = doc! { "insert": "c", "documents": [document.clone()] };
        let mut bulk = doc! {
            "bulkWrite": 1, "ops": [{ "insert": 0, "document": document }],
            "nsInfo": [{ "ns": "db.b" }],
        };
        if let Some(bypass) = bypass {
            insert.insert("bypassEmptyTsReplacement", bypass);
            bulk.insert("bypassEmptyTsReplacement", bypass);
        }
        client.run("db", insert).await;
        client.run("admin", bulk).await;
        for name in ["c", "b"] {
            let found = client.find("db", name, doc! { "_id": id }).await;
            let kept = found[0].get_timestamp("t").unwrap() == empty;
            assert_eq!(kept, bypass == Some(true), "{name} {id}");
        }
    }
}
