//! Expiry: items vanish on time, and their traces are removed by ordinary transactions.

use crate::support::*;
use bytes::Bytes;
use tessera_core::clock::Clock;
use tessera_core::definition::NewIndex;
use tessera_core::item::NewItem;
use tessera_core::throughput::Charge;
use tessera_core::{Store, key};

const NOW: u64 = 1_000_000;

async fn store_with_clock() -> (Store, Clock) {
    let clock = Clock::manual(NOW);
    let store = open_store_at(clock.clone()).await;
    let indexes = vec![NewIndex::unique("mail"), NewIndex::new("tag")];
    store
        .create_container(&name("c"), &new_container(indexes, 1))
        .await
        .unwrap();
    (store, clock)
}

async fn marks(store: &Store) -> usize {
    keys_in(store, key::expiries(0, u64::MAX - 1)).await
}

#[tokio::test]
async fn an_expired_item_is_invisible_at_once_and_removed_later() {
    let (store, clock) = store_with_clock().await;
    insert(
        &store,
        &name("c"),
        item(1, "mail=a;tag=t").expiring_at(NOW + 500),
    )
    .await
    .unwrap();
    insert(
        &store,
        &name("c"),
        item(2, "mail=b;tag=t").expiring_at(NOW + 900),
    )
    .await
    .unwrap();
    assert_eq!(all(&store, &name("c")).await.len(), 2);
    clock.advance(500);
    assert_eq!(body(&store, &name("c"), &locator(1)).await, None);
    assert_eq!(all(&store, &name("c")).await.len(), 1);
    assert_sound(&store, &name("c")).await;
    store.settle().await.unwrap();
    assert_eq!(find(&store, &name("c"), "tag", "t").await, [locator(2)]);
    assert_eq!(marks(&store).await, 1);
    assert_sound(&store, &name("c")).await;
    clock.advance(400);
    store.settle().await.unwrap();
    assert_eq!(marks(&store).await, 0);
    let transaction = store.begin().await.unwrap();
    let rows = transaction
        .statistics(&*container(&store, &name("c")).await)
        .await
        .unwrap();
    assert_eq!(rows[0].tally, Default::default());
}

#[tokio::test]
async fn a_rewritten_item_lives_as_long_as_its_last_write_says() {
    let (store, clock) = store_with_clock().await;
    insert(&store, &name("c"), item(1, "mail=a").expiring_at(NOW + 100))
        .await
        .unwrap();
    upsert(&store, &name("c"), item(1, "mail=a").expiring_at(NOW + 300))
        .await
        .unwrap();
    clock.advance(200);
    store.settle().await.unwrap();
    assert!(body(&store, &name("c"), &locator(1)).await.is_some());
    upsert(&store, &name("c"), item(1, "mail=a")).await.unwrap();
    clock.advance(1_000);
    store.settle().await.unwrap();
    assert!(body(&store, &name("c"), &locator(1)).await.is_some());
    assert_eq!(marks(&store).await, 0);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn an_expired_item_holds_neither_its_key_nor_its_unique_value() {
    let (store, clock) = store_with_clock().await;
    insert(&store, &name("c"), item(1, "mail=a").expiring_at(NOW + 100))
        .await
        .unwrap();
    clock.advance(100);
    insert(&store, &name("c"), item(2, "mail=a")).await.unwrap();
    insert(&store, &name("c"), item(1, "mail=b")).await.unwrap();
    store.settle().await.unwrap();
    assert_eq!(all(&store, &name("c")).await.len(), 2);
    assert_sound(&store, &name("c")).await;
}

/// Replaces an item by looking and putting: what there was to see, the version that was stored and
/// the charge.
async fn look_and_put(store: &Store, new: NewItem) -> (Option<Bytes>, u64, Charge) {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name("c")).await.unwrap();
    let entry = transaction.look(&container, &new.locator).await.unwrap();
    let seen = entry.visible().map(|item| item.body.clone());
    let stored = transaction.put(&container, &entry, new).await.unwrap();
    let charge = transaction.commit().await.unwrap().meter.charge();
    (seen, stored.version, charge)
}

/// The same in two looks, each of which sees half.
async fn read_and_upsert(store: &Store, new: NewItem) -> (Option<Bytes>, u64, Charge) {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name("c")).await.unwrap();
    let seen = transaction.read(&container, &new.locator).await.unwrap();
    let stored = transaction.upsert(&container, new).await.unwrap();
    let charge = transaction.commit().await.unwrap().meter.charge();
    (seen.map(|item| item.body), stored.version, charge)
}

#[tokio::test]
async fn one_look_does_for_a_write_what_two_do() {
    let (one, clock) = store_with_clock().await;
    let (other, others) = store_with_clock().await;
    for (step, wait) in [0, 1, 99, 100, 101, 500, 0, 1_000].into_iter().enumerate() {
        clock.advance(wait);
        others.advance(wait);
        for key in 1..4 {
            let new = item(key, format!("mail={key};tag={step}"));
            let new = match (key + step) % 3 {
                0 => new,
                _ => new.expiring_at(clock.now_ms() + 100),
            };
            let found = look_and_put(&one, new.clone()).await;
            assert_eq!(found, read_and_upsert(&other, new).await, "{step} {key}");
        }
        assert_sound(&one, &name("c")).await;
        assert_eq!(marks(&one).await, marks(&other).await, "{step}");
    }
}

#[tokio::test]
async fn marks_of_a_dropped_container_are_forgotten() {
    let (store, clock) = store_with_clock().await;
    insert(&store, &name("c"), item(1, "mail=a").expiring_at(NOW + 100))
        .await
        .unwrap();
    store.drop_container(&name("c")).await.unwrap();
    clock.advance(100);
    store.settle().await.unwrap();
    assert_eq!(marks(&store).await, 0);
}

#[tokio::test]
async fn thousands_of_items_expire_in_bounded_steps() {
    let (store, clock) = store_with_clock().await;
    for number in 0..1_000 {
        let new = item(number, format!("mail={number}")).expiring_at(NOW + 1 + number as u64 % 7);
        insert(&store, &name("c"), new).await.unwrap();
    }
    clock.advance(10);
    store.settle().await.unwrap();
    assert_eq!(marks(&store).await, 0);
    assert_sound(&store, &name("c")).await;
}
