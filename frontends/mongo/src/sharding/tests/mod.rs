//! What clients see of sharding, through commands.

mod insight;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};

use crate::client::Client;

fn documents(count: i32) -> Vec<Document> {
    (0..count)
        .map(|n| doc! { "_id": n, "a": n % 20, "b": format!("b{n}"), "n": 0 })
        .collect()
}

async fn sharded(count: i32) -> Client {
    let mut client = Client::new().await;
    let shard = doc! { "shardCollection": "db.c", "key": { "a": "hashed" } };
    client.run("admin", shard).await;
    client.insert("db", "c", documents(count)).await;
    client
}

/// Documents and chunks of a collection, by shard.
async fn distribution(client: &Client) -> Vec<(String, i64)> {
    let rows = crate::sharding::statistics::data_distribution(&client.service)
        .await
        .unwrap();
    let shards = rows[0].get_array("shards").unwrap().iter();
    let share = |shard: &Bson| {
        let shard = shard.as_document().unwrap();
        let name = shard.get_str("shardName").unwrap().to_owned();
        (name, shard.get_i64("numOwnedDocuments").unwrap())
    };
    shards.map(share).collect()
}

#[tokio::test]
async fn the_documented_command_is_answered_as_documented() {
    let mut client = Client::new().await;
    let command = doc! { "shardCollection": "admin.people", "key": { "region": "hashed" } };
    let reply = client.run("test", command).await;
    assert_eq!(reply.get_str("_t").unwrap(), "ShardCollectionResponse");
    assert_eq!(reply.get_str("collectionsharded").unwrap(), "admin.people");
    assert!(!reply.contains_key("note"));
}

#[tokio::test]
async fn keys_are_checked_and_compared() {
    let mut client = sharded(10).await;
    let shard = |ns: &str, key: Document| doc! { "shardCollection": ns, "key": key };
    for (command, code) in [
        (shard("db.c", doc! { "a": "hashed" }), 0),
        (shard("db.c", doc! { "a": 1 }), 0),
        (shard("db.c", doc! { "b": "hashed" }), 23),
        (shard("db.new", doc! {}), 2),
        (shard("db.new", doc! { "a": "text" }), 2),
        (shard("config.new", doc! { "a": 1 }), 28769),
        (shard("nodatabase", doc! { "a": 1 }), 73),
        (doc! { "shardCollection": "db.new" }, 40414),
        (doc! { "shardCollection": "db.new", "key": 1 }, 14),
        (
            doc! { "shardCollection": "db.new", "key": { "a": 1 }, "what": 1 },
            40415,
        ),
        (
            doc! { "shardCollection": "db.n", "key": { "a": "hashed" }, "unique": true },
            2,
        ),
        (
            doc! { "shardCollection": "db.n", "key": { "a": 1 }, "numInitialChunks": 5_000 },
            2,
        ),
        (
            doc! { "reshardCollection": "db.missing", "key": { "a": 1 } },
            26,
        ),
        (doc! { "unshardCollection": "db.missing" }, 26),
        (
            doc! { "moveCollection": "db.c", "toShard": "partition-0" },
            28769,
        ),
        (doc! { "enableSharding": "db" }, 0),
        (
            doc! { "enableSharding": "db", "primaryShard": "elsewhere" },
            70,
        ),
        (doc! { "enableSharding": "d.b" }, 73),
        (doc! { "addShardToZone": "partition-0", "zone": "z" }, 115),
    ] {
        let text = command.to_string();
        assert_eq!(client.code("admin", command).await, code, "{text}");
    }
}

#[tokio::test]
async fn ranges_are_placed_by_hash_and_the_answer_says_so() {
    let mut client = Client::new().await;
    let command = doc! { "shardCollection": "db.r", "key": { "a": 1 }, "unique": true };
    let reply = client.run("admin", command).await;
    assert!(reply.get_str("note").unwrap().contains("hash"));
    client
        .insert("db", "r", vec![doc! { "_id": 1, "a": 1 }])
        .await;
    let again = doc! { "insert": "r", "documents": [{ "_id": 2, "a": 1 }] };
    assert_eq!(client.code("db", again).await, 11000);
    let rows = client.find("config", "collections", doc! {}).await;
    assert_eq!(
        rows[0].get_document("key").unwrap(),
        &doc! { "a": "hashed" }
    );
}

#[tokio::test]
async fn documents_need_a_shard_key_and_keep_it() {
    let mut client = sharded(5).await.in_session(1);
    let insert = |document: Document| doc! { "insert": "c", "documents": [document] };
    for (document, code) in [
        (doc! { "_id": 90, "b": 1 }, 61),
        (doc! { "_id": 90, "a": [1] }, 61),
        (doc! { "_id": 90, "a": Bson::Undefined }, 61),
        (doc! { "_id": 90, "a": Bson::Null }, 0),
        // The same _id under another key is another document.
        (doc! { "_id": 90, "a": 1 }, 0),
        (doc! { "_id": 90, "a": 1 }, 11000),
    ] {
        let text = document.to_string();
        assert_eq!(client.code("db", insert(document)).await, code, "{text}");
    }
    let update = |set: Document, multi: bool| {
        let statement = doc! { "q": { "_id": 3 }, "u": { "$set": set }, "multi": multi };
        doc! { "update": "c", "updates": [statement] }
    };
    assert_eq!(client.code("db", update(doc! { "a": 9 }, false)).await, 66);
    assert_eq!(
        client
            .code("db", update(doc! { "a": 3, "n": 1 }, false))
            .await,
        0
    );
    let mut numbered = update(doc! { "a": 9 }, false);
    numbered.insert("txnNumber", 1i64);
    assert_eq!(client.code("db", numbered).await, 0);
    let many = update(doc! { "a": 8 }, true);
    assert_eq!(client.code("db", many).await, 66);
    let moved = client.find("db", "c", doc! { "a": 9 }).await;
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].get_i32("n").unwrap(), 1);
}

#[tokio::test]
async fn a_live_collection_is_sharded_resharded_refined_and_unsharded() {
    let mut client = Client::new().await;
    client.insert("db", "c", documents(300)).await;
    let commands = [
        doc! { "shardCollection": "db.c", "key": { "b": "hashed" }, "numInitialChunks": 3 },
        doc! { "reshardCollection": "db.c", "key": { "a": "hashed" } },
        doc! { "refineCollectionShardKey": "db.c", "key": { "a": 1, "b": 1 } },
        doc! { "reshardCollection": "db.c", "key": { "_id": "hashed" }, "numInitialChunks": 2 },
        doc! { "unshardCollection": "db.c", "toShard": "partition-0" },
    ];
    for (command, partitions) in commands.into_iter().zip([3, 4, 4, 2, 0]) {
        let text = command.to_string();
        client.run("admin", command).await;
        let chunks = client.find("config", "chunks", doc! {}).await;
        assert_eq!(chunks.len(), partitions, "{text}");
        assert_eq!(client.find("db", "c", doc! {}).await.len(), 300, "{text}");
        assert_eq!(
            client.find("db", "c", doc! { "a": 7 }).await.len(),
            15,
            "{text}"
        );
        assert_eq!(
            client.find("db", "c", doc! { "_id": 7 }).await.len(),
            1,
            "{text}"
        );
    }
    for (command, code) in [
        (doc! { "reshardCollection": "db.c", "key": { "a": 1 } }, 118),
        (doc! { "unshardCollection": "db.c" }, 118),
        (
            doc! { "refineCollectionShardKey": "db.c", "key": { "a": 1 } },
            118,
        ),
    ] {
        assert_eq!(client.code("admin", command).await, code);
    }
}

#[tokio::test]
async fn what_does_not_fit_ends_a_resharding_and_leaves_the_collection_whole() {
    let mut client = sharded(30).await;
    client
        .insert("db", "c", vec![doc! { "_id": 500, "a": 1 }])
        .await;
    let by_b = doc! { "reshardCollection": "db.c", "key": { "b": "hashed" } };
    assert_eq!(client.code("admin", by_b).await, 61);
    client
        .insert("db", "c", vec![doc! { "_id": 3, "a": 99, "b": "b3" }])
        .await;
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": 500 }, "limit": 1 }] };
    client.run("db", delete).await;
    let by_b = doc! { "reshardCollection": "db.c", "key": { "b": "hashed" } };
    assert_eq!(client.code("admin", by_b).await, 11000);
    assert_eq!(client.find("db", "c", doc! {}).await.len(), 31);
    let rows = client.find("config", "collections", doc! {}).await;
    assert_eq!(
        rows[0].get_document("key").unwrap(),
        &doc! { "a": "hashed" }
    );
    assert!(!rows[0].contains_key("reshardingFields"));
    for command in ["abortReshardCollection", "commitReshardCollection"] {
        assert_eq!(
            client.code("admin", doc! { command: "db.c" }).await,
            339,
            "{command}"
        );
    }
    client
        .run("admin", doc! { "cleanupReshardCollection": "db.c" })
        .await;
}

#[tokio::test]
async fn unique_indexes_and_refinements_must_fit_the_key() {
    let mut client = sharded(3).await;
    let refine = doc! { "refineCollectionShardKey": "db.c", "key": { "b": 1, "a": 1 } };
    assert_eq!(client.code("admin", refine).await, 72);
    let unique = |collection: &str, key: Document| {
        let index = doc! { "key": key, "name": "x_1", "unique": true };
        doc! { "createIndexes": collection, "indexes": [index] }
    };
    client.run("db", unique("u", doc! { "x": 1 })).await;
    let shard = doc! { "shardCollection": "db.u", "key": { "a": "hashed" } };
    assert_eq!(client.code("admin", shard).await, 72);
    assert_eq!(client.code("db", unique("c", doc! { "x": 1 })).await, 67);
    client.run("db", unique("c", doc! { "x": 1, "a": 1 })).await;
}

#[tokio::test]
async fn config_shows_the_physical_partitions() {
    let mut client = sharded(200).await;
    client.insert("other", "plain", documents(3)).await;
    let chunks = client.find("config", "chunks", doc! {}).await;
    assert_eq!(chunks.len(), 4);
    assert_eq!(
        chunks[0].get_document("min").unwrap(),
        &doc! { "a": Bson::MinKey }
    );
    assert_eq!(
        chunks[3].get_document("max").unwrap(),
        &doc! { "a": Bson::MaxKey }
    );
    let before = distribution(&client).await;
    assert_eq!(before.iter().map(|(_, count)| count).sum::<i64>(), 200);
    assert!(
        before.iter().filter(|(_, count)| *count > 0).count() > 1,
        "{before:?}"
    );
    let split = doc! { "split": "db.c", "middle": { "a": 17i64 } };
    client.run("admin", split).await;
    assert_eq!(client.find("config", "chunks", doc! {}).await.len(), 5);
    let split = doc! { "split": "db.c", "find": { "a": 3 } };
    client.run("admin", split).await;
    let chunks = client.find("config", "chunks", doc! {}).await;
    assert_eq!(chunks.len(), 6);
    let bounds = vec![chunks[0].get("min").unwrap(), chunks[2].get("max").unwrap()];
    let bounds: Vec<Bson> = bounds.into_iter().cloned().collect();
    client
        .run("admin", doc! { "mergeChunks": "db.c", "bounds": bounds })
        .await;
    assert_eq!(client.find("config", "chunks", doc! {}).await.len(), 4);
    let after = distribution(&client).await;
    assert_eq!(after.iter().map(|(_, count)| count).sum::<i64>(), 200);
    let shards = client.find("config", "shards", doc! {}).await;
    let listed = client.run("admin", doc! { "listShards": 1 }).await;
    assert_eq!(listed.get_array("shards").unwrap().len(), shards.len());
    for (name, _) in after {
        let known = client
            .find("config", "shards", doc! { "_id": name.clone() })
            .await;
        assert_eq!(known.len(), 1, "{name}");
    }
    let databases = client.find("config", "databases", doc! {}).await;
    assert_eq!(databases.len(), 2);
    let version = client.find("config", "version", doc! {}).await;
    assert_eq!(version, client.find("config", "version", doc! {}).await);
    assert_eq!(client.find("config", "mongos", doc! {}).await.len(), 1);
}

#[tokio::test]
async fn only_switches_of_config_can_be_written() {
    let mut client = sharded(3).await;
    for (command, code) in [
        (doc! { "insert": "shards", "documents": [{ "_id": 1 }] }, 20),
        (
            doc! { "delete": "chunks", "deletes": [{ "q": {}, "limit": 0 }] },
            20,
        ),
        (
            doc! { "update": "version", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] },
            20,
        ),
        (
            doc! { "insert": "settings", "documents": [{ "_id": "chunksize", "value": 64 }] },
            0,
        ),
    ] {
        let text = command.to_string();
        assert_eq!(client.code("config", command).await, code, "{text}");
    }
    let update = doc! {
        "update": "collections",
        "updates": [{ "q": { "_id": "db.c" }, "u": { "$set": { "noBalance": true } } }],
    };
    let reply = client.run("config", update).await;
    assert_eq!(reply.get_i32("nModified").unwrap(), 1);
    let rows = client
        .find("config", "collections", doc! { "_id": "db.c" })
        .await;
    assert!(rows[0].get_bool("noBalance").unwrap());
    assert!(rows[0].contains_key("uuid"));
    client.run("admin", doc! { "balancerStop": 1 }).await;
    let status = client.run("admin", doc! { "balancerStatus": 1 }).await;
    assert_eq!(status.get_str("mode").unwrap(), "off");
    client.run("admin", doc! { "balancerStart": 1 }).await;
    let status = client.run("admin", doc! { "balancerStatus": 1 }).await;
    assert_eq!(status.get_str("mode").unwrap(), "full");
}

#[tokio::test]
async fn explain_shows_to_which_partition_a_query_goes() {
    let mut client = sharded(100).await;
    for (filter, stage, count) in [
        (doc! { "a": 7 }, "SINGLE_SHARD", 1),
        (doc! { "a": 7, "_id": 7 }, "SINGLE_SHARD", 1),
        (doc! { "b": "b7" }, "SHARD_MERGE", 4),
    ] {
        let command = doc! { "explain": { "find": "c", "filter": filter.clone() } };
        let reply = client.run("db", command).await;
        let planner = reply.get_document("queryPlanner").unwrap();
        let plan = planner.get_document("winningPlan").unwrap();
        assert_eq!(plan.get_str("stage").unwrap(), stage, "{filter}");
        let shards = plan.get_array("shards").unwrap();
        assert_eq!(shards.len(), count, "{filter}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn stages_tell_of_collections_shard_by_shard() {
    let mut client = sharded(200).await;
    let stage = |collection: Bson, stage: Document| {
        doc! { "aggregate": collection, "pipeline": [stage], "cursor": {} }
    };
    let command = stage("c".into(), doc! { "$collStats": { "storageStats": {} } });
    let reply = client.run("db", command).await;
    let rows = reply
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap();
    assert_eq!(rows.len(), 4);
    let counts = rows.iter().map(|row| {
        let row = row.as_document().unwrap();
        assert!(row.get_str("shard").unwrap().starts_with("partition-"));
        row.get_document("storageStats")
            .unwrap()
            .get_i64("count")
            .unwrap()
    });
    assert_eq!(counts.sum::<i64>(), 200);
    for (name, argument, database, target, code) in [
        (
            "$shardedDataDistribution",
            Bson::Document(doc! {}),
            "admin",
            Bson::Int32(1),
            0,
        ),
        (
            "$shardedDataDistribution",
            Bson::Document(doc! {}),
            "db",
            Bson::Int32(1),
            6789102,
        ),
        (
            "$listClusterCatalog",
            Bson::Document(doc! { "shards": true }),
            "db",
            Bson::Int32(1),
            0,
        ),
        (
            "$listClusterCatalog",
            Bson::Int32(1),
            "db",
            Bson::Int32(1),
            9621302,
        ),
        (
            "$listClusterCatalog",
            Bson::Document(doc! { "shards": 1 }),
            "db",
            Bson::Int32(1),
            14,
        ),
        (
            "$listClusterCatalog",
            Bson::Document(doc! { "x": 1 }),
            "db",
            Bson::Int32(1),
            40415,
        ),
    ] {
        let command = stage(target, doc! { name: argument });
        assert_eq!(client.code(database, command).await, code, "{name}");
    }
    let command = doc! {
        "aggregate": "chunks",
        "pipeline": [{ "$group": { "_id": "$shard", "n": { "$sum": 1 } } }],
        "cursor": {},
    };
    let reply = client.run("config", command).await;
    let rows = reply
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap();
    assert_eq!(rows.len(), 4);
    let counted = client.run("config", doc! { "count": "chunks" }).await;
    assert_eq!(counted.get_i32("n").unwrap(), 4);
}

/// Eight clients write while the collection is resharded: no write is refused or lost, and the
/// progress can be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_clients_write_while_a_collection_is_resharded() {
    const DOCUMENTS: i32 = 1_000;
    const WRITERS: i32 = 8;
    let mut client = sharded(DOCUMENTS).await;
    let (stop, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (mut client, stop) = (client.another(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut last = std::collections::HashMap::new();
                let mut step = writer;
                while !stop.load(Ordering::Relaxed) {
                    step = (step + WRITERS * 7) % DOCUMENTS;
                    let id = step - step % WRITERS + writer;
                    let count = last.entry(id).or_insert(0);
                    *count += 1;
                    let change = doc! { "q": { "_id": id }, "u": { "$set": { "n": *count } } };
                    let reply = client
                        .run("db", doc! { "update": "c", "updates": [change] })
                        .await;
                    assert_eq!(reply.get_i32("n").unwrap(), 1, "{id}");
                }
                last
            })
        })
        .collect();
    let watcher = {
        let (service, stop, seen) = (
            Arc::clone(&client.service),
            Arc::clone(&stop),
            Arc::clone(&seen),
        );
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let operations = crate::sharding::operations(&service).await.unwrap();
                let copying = operations.iter().filter(|operation| {
                    operation
                        .get_i64("approxDocumentsToCopy")
                        .is_ok_and(|count| count > 0)
                });
                seen.fetch_add(copying.count(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    };
    let began = Instant::now();
    for key in ["b", "_id", "a"] {
        let command = doc! { "reshardCollection": "db.c", "key": { key: "hashed" } };
        client.run("admin", command).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.store(true, Ordering::Relaxed);
    let mut written = std::collections::HashMap::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    watcher.await.unwrap();
    assert!(seen.load(Ordering::Relaxed) > 0, "in {:?}", began.elapsed());
    let all = client.find("db", "c", doc! {}).await;
    assert_eq!(all.len(), 1_000);
    for document in all {
        let id = document.get_i32("_id").unwrap();
        let expected = written.get(&id).copied().unwrap_or(0);
        assert_eq!(document.get_i32("n").unwrap(), expected, "{id}");
    }
    let store = &client.service.store;
    let name = tessera_core::name::ContainerName::new(crate::API, "db", "c");
    assert_eq!(store.verify(&name).await.unwrap(), Vec::<String>::new());
}
