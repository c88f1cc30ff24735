//! What guards leave in the database, and what they cost it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tessera_core::definition::NewContainer;
use tessera_core::engine::CommitOutcome;
use tessera_core::item::NewItem;
use tessera_core::key;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_core::write_set::WriteSet;
use tessera_core::{Error, Store};

use crate::cluster::{Cluster, new_schema_name};
use crate::{bytes, writes};

async fn number(query: &str) -> i64 {
    let url = Cluster::shared().url_of_database("postgres");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// A list of several lockers has the bit 0x1000 of the row's header; a lock by one has not.
async fn rows_locked_by_several(table: &str) -> i64 {
    let pages =
        format!("SELECT pg_relation_size('{table}') / current_setting('block_size')::bigint");
    let last = number(&pages).await - 1;
    number(&format!(
        "SELECT count(*) FROM generate_series(0, {last}) page,
            LATERAL heap_page_items(get_raw_page('{table}', page::int)) item
        WHERE item.t_infomask & 4096 <> 0"
    ))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_of_one_container_never_lock_one_row_together() {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    cluster
        .run("CREATE EXTENSION IF NOT EXISTS pageinspect")
        .await;
    let engine = cluster.open(&schema);
    let version = key::definition_version(3);
    let create = writes(|set| set.put(version.clone(), bytes("1")));
    engine
        .snapshot()
        .await
        .unwrap()
        .commit(create)
        .await
        .unwrap();
    let together = Arc::new(tokio::sync::Barrier::new(24));
    let mut writers = Vec::new();
    for writer in 0..24 {
        let (engine, version) = (Arc::clone(&engine), version.clone());
        let together = Arc::clone(&together);
        writers.push(tokio::spawn(async move {
            for step in 0..10 {
                let snapshot = engine.snapshot().await.unwrap();
                snapshot.get(&version).await.unwrap();
                together.wait().await;
                let set = writes(|set| {
                    set.guard(version.clone());
                    set.put(bytes(format!("i {writer} {step}")), bytes("x"));
                });
                let outcome = snapshot.commit(set).await.unwrap();
                assert!(matches!(outcome, CommitOutcome::Done(_)));
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    for table in ["tessera_cold", "tessera_hot", "tessera_guards"] {
        let table = format!("{schema}.{table}");
        assert_eq!(rows_locked_by_several(&table).await, 0, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn guards_hold_across_servers() {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    let (one, other) = (cluster.open(&schema), cluster.open(&schema));
    let contended = |key: &str| {
        writes(|set| {
            set.guard(bytes(key));
            set.delete(bytes(key));
        })
    };
    let version = key::definition_version(5);
    let guarded = writes(|set| {
        set.guard(version.clone());
        set.put(bytes("i"), bytes("x"));
    });
    let cases: Vec<(WriteSet, WriteSet)> = vec![
        (contended("absent"), contended("absent")),
        (contended("u"), contended("u")),
        (
            writes(|set| set.put(version.clone(), bytes("1"))),
            guarded.clone(),
        ),
        (
            writes(|set| set.put(version.clone(), bytes("2"))),
            guarded.clone(),
        ),
        (writes(|set| set.delete(version.clone())), guarded),
    ];
    for (first, second) in cases {
        for (quick, slow) in [(&one, &other), (&other, &one)] {
            let late = slow.snapshot().await.unwrap();
            late.get(b"begin").await.unwrap();
            let early = quick.snapshot().await.unwrap();
            let outcome = early.commit(first.clone()).await.unwrap();
            assert!(matches!(outcome, CommitOutcome::Done(_)));
            let outcome = late.commit(second.clone()).await.unwrap();
            assert_eq!(outcome, CommitOutcome::Conflict);
        }
    }
}

/// A transaction that takes as long as a client may think, beside definitions of others that come
/// and go: more of them than there are buckets of guards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_long_transaction_commits_beside_containers_that_come_and_go() {
    const OTHERS: usize = 300;
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    let open = async || Store::open(cluster.open(&schema), StoreOptions::default()).await;
    let (store, other_server) = (open().await.unwrap(), open().await.unwrap());
    let name = |container: &str| ContainerName::new("test", "guards", container);
    let new = NewContainer::default();
    for container in ["accounts", "audit", "dropped"] {
        let created = store.create_container(&name(container), &new).await;
        created.unwrap();
    }
    let mut long = Vec::new();
    for written in ["accounts", "audit", "dropped"] {
        let mut transaction = store
            .open_transaction(Duration::from_secs(60))
            .await
            .unwrap();
        for container in ["accounts", written] {
            let container = transaction.container(&name(container)).await.unwrap();
            let item = NewItem::new(Locator::murmur3(written, ""), "1");
            transaction.upsert(&container, item).await.unwrap();
        }
        long.push(transaction);
    }
    let began = Instant::now();
    let mut others = 0;
    while others < OTHERS || began.elapsed() < Duration::from_secs(2) {
        let server = [&store, &other_server][others % 2];
        let container = name(&format!("other {others}"));
        server.create_container(&container, &new).await.unwrap();
        if others.is_multiple_of(3) {
            server.drop_container(&container).await.unwrap();
        }
        others += 1;
    }
    other_server.drop_container(&name("dropped")).await.unwrap();
    let mut outcomes = Vec::new();
    for transaction in long {
        outcomes.push(transaction.commit().await.map(drop));
    }
    assert_eq!(outcomes, [Ok(()), Ok(()), Err(Error::Conflict)]);
}
