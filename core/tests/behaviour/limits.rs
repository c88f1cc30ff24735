//! Limits: what a logical partition and its key may be, and that others do not pay for it.

use std::sync::Arc;

use crate::support::*;
use tessera_core::clock::Clock;
use tessera_core::definition::NewContainer;
use tessera_core::item::NewItem;
use tessera_core::limits::Limits;
use tessera_core::locator::Locator;
use tessera_core::memory::MemoryEngine;
use tessera_core::{Error, Store};

const LOGICAL_BYTES: i64 = 10_000;

/// A store with small limits and a container whose logical partitions are counted.
async fn store(engine: &Arc<MemoryEngine>) -> Store {
    let mut options = options(Clock::manual(5_000));
    options.limits = Limits {
        logical_bytes: Some(LOGICAL_BYTES),
        partition_key_bytes: Some(20),
        ..Limits::default()
    };
    Store::open(Arc::clone(engine) as _, options).await.unwrap()
}

async fn filled() -> (Arc<MemoryEngine>, Store) {
    let engine = Arc::new(MemoryEngine::new());
    let store = store(&engine).await;
    let new = NewContainer {
        counts_logical_partitions: true,
        ..new_container(vec![], 1)
    };
    store.create_container(&name("c"), &new).await.unwrap();
    let mut row = 0;
    while put(&store, "full", row, 1_000).await.is_ok() {
        row += 1;
    }
    assert_eq!(
        row, 9,
        "with its keys an item is a little more than 1,000 bytes"
    );
    (engine, store)
}

async fn put(store: &Store, key: &str, row: usize, bytes: usize) -> Result<(), Error> {
    let locator = Locator::murmur3(key.to_owned(), row.to_string());
    let new = NewItem::new(locator, "x".repeat(bytes));
    let name = name("c");
    store
        .run(&[], move |transaction| {
            let (name, new) = (name.clone(), new.clone());
            Box::pin(async move {
                let container = transaction.container(&name).await?;
                transaction.upsert(&container, new).await?;
                Ok::<_, Error>(())
            })
        })
        .await
        .map(|_| ())
}

fn is_full(outcome: &Result<(), Error>) -> bool {
    matches!(
        outcome,
        Err(Error::PartitionFull {
            limit: LOGICAL_BYTES
        })
    )
}

#[tokio::test]
async fn a_full_logical_partition_takes_nothing_more() {
    let (_, store) = filled().await;
    assert!(is_full(&put(&store, "full", 100, 1_000).await));
    assert!(
        is_full(&put(&store, "full", 3, 3_000).await),
        "growing an item"
    );
    put(&store, "other", 0, 1_000).await.unwrap();
    put(&store, "full", 3, 500).await.unwrap();
    put(&store, "full", 100, 100).await.unwrap();
}

#[tokio::test]
async fn it_is_full_after_a_restart_and_a_split_too() {
    let (engine, before) = filled().await;
    drop(before);
    let store = store(&engine).await;
    assert!(is_full(&put(&store, "full", 100, 1_000).await));
    put(&store, "other", 0, 1_000).await.unwrap();
    store.split_partition(&name("c"), 0, None).await.unwrap();
    assert!(is_full(&put(&store, "full", 100, 1_000).await));
    put(&store, "other", 1, 1_000).await.unwrap();
}

#[tokio::test]
async fn one_transaction_cannot_overfill_it() {
    let (_, store) = filled().await;
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name("c")).await.unwrap();
    let mut stored = 0;
    let refused = loop {
        let locator = Locator::murmur3("another", stored.to_string());
        let new = NewItem::new(locator, "x".repeat(1_000));
        match transaction.insert(&container, new).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(is_full(&Err(refused)));
    assert_eq!(stored, 9);
}

#[tokio::test]
async fn keys_have_a_limit() {
    let (_, store) = filled().await;
    put(&store, &"k".repeat(20), 0, 1).await.unwrap();
    let refused = put(&store, &"k".repeat(21), 0, 1).await;
    let expected = Error::TooLarge {
        what: "partition key",
        size: 21,
        limit: 20,
    };
    assert_eq!(refused, Err(expected));
}

/// As a version created it that did not count logical partitions yet.
#[tokio::test]
async fn what_was_not_counted_before_is_counted_after_a_start() {
    let engine = Arc::new(MemoryEngine::new());
    let store = store(&engine).await;
    let new = NewContainer {
        schema: "counted".into(),
        counts_logical_partitions: false,
        ..new_container(vec![], 2)
    };
    store.create_container(&name("c"), &new).await.unwrap();
    let put = async |key: &str, row: usize| {
        let locator = Locator::murmur3(key.to_owned(), row.to_string());
        let body = format!("counted={key};x={}", "x".repeat(1_000));
        insert(&store, &name("c"), NewItem::new(locator, body)).await
    };
    for row in 0..30 {
        put("full", row).await.unwrap();
    }
    put("other", 0).await.unwrap();
    assert!(store.largest_keys(&name("c")).await.unwrap().is_empty());

    store.settle().await.unwrap();
    let largest = store.largest_keys(&name("c")).await.unwrap();
    let largest: Vec<_> = largest
        .iter()
        .map(|it| (it.key.as_str(), it.tally.items))
        .collect();
    assert_eq!(largest, [("full", 30), ("other", 1)]);
    assert!(is_full(&put("full", 99).await));
    put("other", 1).await.unwrap();
    assert_eq!(
        store.verify(&name("c")).await.unwrap(),
        Vec::<String>::new()
    );
    let before = container(&store, &name("c")).await.storage();
    store.settle().await.unwrap();
    let after = container(&store, &name("c")).await.storage();
    assert_eq!(before, after, "once is enough");
}
