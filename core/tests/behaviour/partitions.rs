//! Physical partitions: splits and merges beside running work, with exact statistics and whole
//! scans.

use std::collections::BTreeSet;

use crate::support::*;
use proptest::prelude::*;
use tessera_core::continuation::Continuation;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::{Error, Store};

async fn filled(items: usize, partitions: u32) -> Store {
    let store = open_store().await;
    store
        .create_container(&name("c"), &new_container(vec![], partitions))
        .await
        .unwrap();
    for number in 0..items {
        insert(&store, &name("c"), item(number, "x".repeat(number % 50)))
            .await
            .unwrap();
    }
    store
}

#[tokio::test]
async fn a_split_halves_the_bytes_and_keeps_statistics_exact() {
    let store = filled(400, 1).await;
    let (left, right) = store.split_partition(&name("c"), 0, None).await.unwrap();
    let transaction = store.begin().await.unwrap();
    let container = container(&store, &name("c")).await;
    let rows = transaction.statistics(&container).await.unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.partition).collect();
    assert_eq!(ids, [left, right]);
    let total: i64 = rows.iter().map(|row| row.tally.bytes).sum();
    for row in &rows {
        let share = row.tally.bytes * 100 / total;
        assert!((45..=55).contains(&share), "{share} % of the bytes");
    }
    assert_sound(&store, &name("c")).await;
    let merged = store.merge_partitions(&name("c"), left).await.unwrap();
    let container = crate::support::container(&store, &name("c")).await;
    assert_eq!(container.partitions.count(), 1);
    assert_eq!(container.partitions.locate(0).id, merged);
    assert_sound(&store, &name("c")).await;
    assert_eq!(store.jobs().await.unwrap(), []);
}

#[tokio::test]
async fn a_single_logical_partition_cannot_be_divided() {
    let store = filled(0, 1).await;
    for row in 0..20 {
        let new = NewItem::new(Locator::murmur3("one", format!("{row}")), "x");
        insert(&store, &name("c"), new).await.unwrap();
    }
    let token = Locator::murmur3("one", "").token;
    let refused = store.split_partition(&name("c"), 0, None).await;
    // The one logical partition may begin at the split token, which leaves the left half empty.
    if let Ok((_, right)) = refused {
        let container = container(&store, &name("c")).await;
        assert_eq!(container.partitions.locate(token).id, right);
        let again = store
            .split_partition(&name("c"), right, None)
            .await
            .unwrap_err();
        assert!(matches!(again, Error::Rejected(_)), "{again}");
    }
    assert_sound(&store, &name("c")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn splits_and_merges_beside_writers_lose_nothing() {
    let store = filled(200, 1).await;
    let writers: Vec<_> = (0..8usize)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for step in 0..200usize {
                    let number = 1_000 + writer * 1_000 + step % 60;
                    if step % 4 == 3 {
                        delete(&store, &name("c"), locator(number)).await.unwrap();
                    } else {
                        let new = item(number, "y".repeat(step));
                        upsert(&store, &name("c"), new).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for round in 0..10 {
        let current = container(&store, &name("c")).await;
        let id = current.partitions.locate(round * 1_000_003).id;
        if round % 3 == 2 {
            let first = current.partitions.iter().next().unwrap().id;
            store.merge_partitions(&name("c"), first).await.unwrap();
        } else {
            store.split_partition(&name("c"), id, None).await.unwrap();
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_crashed_split_is_finished_by_the_next_process() {
    let store = filled(100, 1).await;
    store.begin_split(&name("c"), 0, Some(0)).await.unwrap();
    for number in 100..150 {
        insert(&store, &name("c"), item(number, "counted twice"))
            .await
            .unwrap();
    }
    let store = reopened(store).await;
    store.settle().await.unwrap();
    assert_sound(&store, &name("c")).await;
    let partitions = container(&store, &name("c")).await.partitions.clone();
    assert!(
        partitions
            .iter()
            .all(|partition| partition.heirs.is_empty())
    );
    assert_eq!(partitions.count(), 2);
    assert_eq!(store.jobs().await.unwrap(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_paged_scan_visits_each_item_once_while_splits_happen(
        items in 0usize..120,
        page_size in 1usize..20,
        reverse: bool,
        changes in prop::collection::vec((any::<bool>(), any::<i64>()), 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = filled(items, 1).await;
            let mut changes = changes.into_iter();
            let mut page = PageRequest { reverse, max_items: page_size, ..PageRequest::default() };
            let mut seen = Vec::new();
            loop {
                let mut transaction = store.begin().await.unwrap();
                let container = transaction.container(&name("c")).await.unwrap();
                let found = transaction.scan(&container, &Span::All, &page).await.unwrap();
                seen.extend(found.items.into_iter().map(|item| item.locator));
                if let Some((split, token)) = changes.next() {
                    let id = container.partitions.locate(token).id;
                    // A token at the edge of a partition or the last partition is refused: no
                    // matter.
                    let _refused = if split {
                        store.split_partition(&name("c"), id, Some(token)).await.is_err()
                    } else {
                        store.merge_partitions(&name("c"), id).await.is_err()
                    };
                }
                page.continuation = found.continuation.map(|continuation| {
                    Continuation::decode(&continuation.encode()).unwrap()
                });
                if page.continuation.is_none() {
                    break;
                }
            }
            let distinct: BTreeSet<_> = seen.iter().cloned().collect();
            assert_eq!(distinct.len(), items);
            assert_eq!(seen.len(), items, "none twice");
            let ordered = if reverse { seen.is_sorted_by(|a, b| a > b) } else { seen.is_sorted() };
            assert!(ordered);
            assert_sound(&store, &name("c")).await;
        });
    }
}

#[tokio::test]
async fn a_partition_that_grew_too_large_is_split_by_itself() {
    let store = open_store().await;
    let c = name("c");
    store
        .create_container(&c, &new_container(vec![], 1))
        .await
        .unwrap();
    let items = 40;
    for number in 0..items {
        let locator = Locator::murmur3(format!("key {number}"), "row");
        let body = "x".repeat(usize::try_from(MAX_PARTITION_BYTES).unwrap() / 32);
        insert(&store, &c, NewItem::new(locator, body))
            .await
            .unwrap();
    }
    store.settle().await.unwrap();
    let partitions = store.insight(&c).await.unwrap().partitions;
    assert_eq!(partitions.len(), 2);
    let counted: i64 = partitions
        .iter()
        .map(|partition| partition.statistics.tally.items)
        .sum();
    assert_eq!(counted, items);
    assert!(
        partitions
            .iter()
            .all(|partition| partition.statistics.tally.items >= items / 3)
    );
    store.settle().await.unwrap();
    assert_eq!(store.insight(&c).await.unwrap().partitions.len(), 2);
}
