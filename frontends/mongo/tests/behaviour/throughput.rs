//! Throughput as clients of Cosmos DB provision it, and what happens beyond it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::doc;
use tessera_core::Store;
use tessera_core::memory::MemoryEngine;
use tessera_core::store::StoreOptions;
use tessera_mongo::MongoConfig;

use crate::client::Service;

#[tokio::test]
async fn collections_are_created_with_throughput_and_changed() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let create = doc! {
        "customAction": "CreateCollection", "collection": "c", "offerThroughput": 400,
        "shardKey": "tenant", "indexes": [
            { "key": { "_id": 1 }, "name": "_id_" }, { "key": { "a": 1 }, "name": "a_1" },
        ],
    };
    client.must("shop", create.clone()).await;
    let show = doc! { "customAction": "GetCollection", "collection": "c" };
    let shown = client.must("shop", show.clone()).await;
    assert_eq!(shown.get_str("database").unwrap(), "shop");
    assert_eq!(
        shown.get_document("shardKeyDefinition").unwrap(),
        &doc! { "tenant": "hash" }
    );
    assert_eq!(shown.get_i32("provisionedThroughput").unwrap(), 400);
    let insight = doc! { "partitionInsight": "shop.c" };
    let insight = client.must("admin", insight).await;
    assert_eq!(insight.get_array("partitions").unwrap().len(), 1);
    let listed = client.must("shop", doc! { "listIndexes": "c" }).await;
    let listed = listed
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap();
    assert!(
        listed
            .iter()
            .any(|index| index.as_document().unwrap().get_str("name").unwrap() == "a_1")
    );

    let scale = doc! {
        "customAction": "UpdateCollection", "collection": "c",
        "autoScaleSettings": { "maxThroughput": 60_000 },
    };
    client.must("shop", scale).await;
    let shown = client.must("shop", show).await;
    assert_eq!(shown.get_i32("provisionedThroughput").unwrap(), 6_000);
    let settings = shown.get_document("autoScaleSettings").unwrap();
    assert_eq!(settings, &doc! { "maxThroughput": 60_000 });

    let again = client.run("shop", create).await;
    assert_eq!(again.get_i32("code").ok(), Some(48));
}

#[tokio::test]
async fn custom_actions_refuse_what_cannot_be() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let fixed = doc! {
        "customAction": "CreateCollection", "collection": "fixed", "offerThroughput": 10_000,
    };
    client.must("shop", fixed).await;
    for (command, code) in [
        (doc! { "customAction": "Nothing" }, 2),
        (
            doc! { "customAction": "GetCollection", "collection": "none" },
            26,
        ),
        (doc! { "customAction": "GetCollection" }, 40414),
        (
            doc! { "customAction": "CreateCollection", "collection": "d", "offerThroughput": 1 },
            2,
        ),
        (
            doc! { "customAction": "CreateDatabase", "offerThroughput": 1 },
            2,
        ),
        // Without a shard key there is one partition, and that has 10,000 at most.
        (
            doc! {
                "customAction": "CreateCollection", "collection": "d", "offerThroughput": 10_100,
            },
            2,
        ),
        (
            doc! {
                "customAction": "UpdateCollection", "collection": "fixed",
                "autoScaleSettings": { "maxThroughput": 11_000 },
            },
            2,
        ),
    ] {
        let reply = client.run("shop", command.clone()).await;
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}");
    }
    client
        .must("shop", doc! { "customAction": "CreateDatabase" })
        .await;
}

/// What is kept so that a write may be sent twice is nobody's cost: the first write of a session
/// would cost less than those that follow.
#[tokio::test]
async fn the_same_write_costs_the_same_whoever_numbers_it() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let session = doc! { "id": bson::Uuid::from_bytes([7; 16]) };
    client.must("shop", doc! { "create": "c" }).await;
    let mut charges = Vec::new();
    for number in 0..4i64 {
        let mut insert = doc! { "insert": "c", "documents": [{ "_id": number, "a": 1 }] };
        if number > 0 {
            insert.extend(doc! { "lsid": session.clone(), "txnNumber": number });
        }
        client.must("shop", insert).await;
        let cost = client
            .must("shop", doc! { "getLastRequestStatistics": 1 })
            .await;
        charges.push(cost.get_f64("RequestCharge").unwrap());
    }
    assert_eq!(charges, [5.5; 4]);
}

#[tokio::test]
async fn beyond_its_throughput_a_collection_says_when_to_come_again() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let create = doc! {
        "customAction": "CreateCollection", "collection": "c", "offerThroughput": 400,
    };
    client.must("shop", create).await;
    // 400 request units are 72 inserts and a bit; all at once cost more than a second has.
    let documents: Vec<_> = (0..200).map(|number| doc! { "_id": number }).collect();
    client
        .must("shop", doc! { "insert": "c", "documents": documents })
        .await;
    let cost = client
        .must("shop", doc! { "getLastRequestStatistics": 1 })
        .await;
    assert!(cost.get_f64("RequestCharge").unwrap() >= 1_100.0, "{cost}");
    let refused = client
        .run("shop", doc! { "find": "c", "filter": { "_id": 7 } })
        .await;
    assert_eq!(refused.get_i32("code").ok(), Some(16500), "{refused}");
    assert!(
        refused.get_str("errmsg").unwrap().contains("RetryAfterMs="),
        "{refused}"
    );
}

#[tokio::test]
async fn the_collections_of_a_database_share_its_throughput() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let show = doc! { "customAction": "GetDatabase" };
    let insert = |collection: &str, first: i32, count: i32| {
        let documents: Vec<_> = (first..first + count)
            .map(|id| doc! { "_id": id })
            .collect();
        doc! { "insert": collection, "documents": documents }
    };
    client.must("shop", insert("before", 0, 1)).await;
    client
        .must(
            "shop",
            doc! { "customAction": "CreateDatabase", "offerThroughput": 400 },
        )
        .await;
    let shown = client.must("shop", show.clone()).await;
    assert_eq!(shown.get_i32("provisionedThroughput").ok(), Some(400));
    client
        .must(
            "shop",
            doc! {
                "customAction": "CreateCollection", "collection": "own", "offerThroughput": 400,
            },
        )
        .await;
    // What one collection spends, the other one lacks; one with its own does not care.
    client.must("shop", insert("after", 0, 200)).await;
    let refused = client.run("shop", insert("before", 1, 1)).await;
    assert_eq!(refused.get_i32("code").ok(), Some(16500), "{refused}");
    client.must("shop", insert("own", 0, 1)).await;
    client.must("other", insert("before", 0, 1)).await;

    let scale = doc! {
        "customAction": "UpdateDatabase", "autoScaleSettings": { "maxThroughput": 20_000 },
    };
    client.must("shop", scale).await;
    let shown = client.must("shop", show.clone()).await;
    let settings = shown.get_document("autoScaleSettings").unwrap();
    assert_eq!(settings, &doc! { "maxThroughput": 20_000 });
    client.must("shop", doc! { "dropDatabase": 1 }).await;
    let shown = client.must("shop", show).await;
    assert!(!shown.contains_key("provisionedThroughput"), "{shown}");
}

#[tokio::test]
async fn who_waits_for_throughput_waits_no_longer_than_was_said() {
    let mut options = StoreOptions::default();
    options.throttling.patience = Duration::from_secs(60);
    let store = Store::open(Arc::new(MemoryEngine::new()), options).await;
    let service = Service::over(store.unwrap(), MongoConfig::default());
    let mut client = service.connect();
    let create = doc! {
        "customAction": "CreateCollection", "collection": "c", "offerThroughput": 400,
    };
    client.must("shop", create).await;
    // More than two seconds have.
    let documents: Vec<_> = (0..200).map(|number| doc! { "_id": number }).collect();
    let insert = doc! { "insert": "c", "documents": documents };
    client.must("shop", insert).await;
    let began = Instant::now();
    for command in [
        doc! { "find": "c", "filter": { "_id": 7 }, "maxTimeMS": 50 },
        doc! { "insert": "c", "documents": [{ "_id": "late" }], "maxTimeMS": 50 },
        doc! { "count": "c", "query": { "_id": 7 }, "maxTimeMS": 50 },
    ] {
        let late = client.run("shop", command.clone()).await;
        assert_eq!(late.get_i32("code").ok(), Some(50), "{command}: {late}");
        assert_eq!(late.get_str("codeName").ok(), Some("MaxTimeMSExpired"));
    }
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let patient = doc! { "find": "c", "filter": { "_id": "late" } };
    let found = client.must("shop", patient).await;
    assert!(
        began.elapsed() > Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let batch = found
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch");
    assert!(
        batch.unwrap().is_empty(),
        "what was given up is not done: {found}"
    );
}
