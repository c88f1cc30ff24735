//! Containers that come and go by the thousands leave nothing slow behind.

#![cfg(test)]

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tessera_core::Store;
use tessera_core::background::Background;
use tessera_core::definition::NewContainer;
use tessera_core::engine::{KeyRange, Scan};
use tessera_core::item::NewItem;
use tessera_core::key;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_storage::{Durability, EngineConfig};

const CONTAINERS: usize = 20_000;
const ITEMS: usize = 10;
/// The first and the last so many are compared by their medians.
const COMPARED: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_twenty_thousand_containers_is_as_fast_as_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let background = Background::start(store.clone());
    let mut took = Vec::with_capacity(CONTAINERS);
    for number in 0..CONTAINERS {
        let start = Instant::now();
        come_and_go(
            &store,
            &ContainerName::new("test", "db", format!("c{number}")),
        )
        .await;
        took.push(start.elapsed());
    }
    let first = median(&took[..COMPARED]);
    let last = median(&took[CONTAINERS - COMPARED..]);
    println!("create, fill and drop: {first:?} at first, {last:?} at last");
    assert!(last < first * 2, "{first:?} at first, {last:?} at last");
    background.stop().await;
    store.settle().await.unwrap();
    assert_eq!(leftovers(&store).await, Vec::<Bytes>::new());
    store.engine().close().await.unwrap();
}

#[tokio::test]
async fn a_large_container_is_dropped_without_reading_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let name = ContainerName::new("test", "db", "large");
    store
        .create_container(&name, &NewContainer::default())
        .await
        .unwrap();
    for batch in 0..50 {
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&name).await.unwrap();
        for number in 0..1_000 {
            let locator = Locator::murmur3(format!("{batch} {number}"), "");
            let new = NewItem::new(locator, "some body");
            transaction.insert(&container, new).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }
    let version = || async { store.engine().snapshot().await.unwrap().version() };
    let held = store.engine().snapshot().await.unwrap();
    store.drop_container(&name).await.unwrap();
    let before = version().await;
    store.settle().await.unwrap();
    let commits = version().await - before;
    assert!(commits <= 8, "{commits} commits for 50,000 items");
    assert_eq!(leftovers(&store).await, Vec::<Bytes>::new());
    let scan = Scan::new(KeyRange::all());
    let page = held.scan(&scan).await.unwrap();
    assert!(page.more, "an older snapshot still sees all of it");
}

async fn open(folder: &Path) -> Store {
    let engine = tessera_storage::open(&EngineConfig::Rocks {
        path: folder.join("data"),
        durability: Durability::Periodic,
        memory_bytes: 256 << 20,
    });
    Store::open(engine.unwrap(), StoreOptions::default())
        .await
        .unwrap()
}

async fn come_and_go(store: &Store, name: &ContainerName) {
    store
        .create_container(name, &NewContainer::default())
        .await
        .unwrap();
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    for item in 0..ITEMS {
        let locator = Locator::murmur3(format!("p{item}"), "");
        transaction
            .insert(&container, NewItem::new(locator, "some body"))
            .await
            .unwrap();
    }
    transaction.commit().await.unwrap();
    store.drop_container(name).await.unwrap();
}

/// What is left when everything was dropped: only the store's own few keys may be.
async fn leftovers(store: &Store) -> Vec<Bytes> {
    let snapshot = store.engine().snapshot().await.unwrap();
    let mut scan = Scan::new(KeyRange::all());
    scan.keys_only = true;
    let page = snapshot.scan(&scan).await.unwrap();
    let expected = [key::system::FORMAT, key::system::SEQUENCE].map(key::system_range);
    let keys = page.entries.into_iter().map(|(key, _)| key);
    keys.filter(|key| !expected.iter().any(|range| range.contains(key)))
        .collect()
}

fn median(durations: &[Duration]) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
