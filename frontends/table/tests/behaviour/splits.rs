//! Physical partitions that split and merge while a client pages through a table.

use std::collections::BTreeSet;

use tessera_core::Store;

use crate::ask::query;
use crate::service::{Service, container};

const PARTITIONS: usize = 60;
const ROWS: usize = 5;
/// Tokens on which partitions are divided, one between two pages.
const STEP: i64 = 1_000_003 * 1_000_003;

/// Splits a partition, or merges two; answers whether that could be done.
async fn disturb(store: &Store, round: i64) -> bool {
    let name = container("table");
    let mut transaction = store.begin().await.unwrap();
    let table = transaction.container(&name).await.unwrap();
    let token = round.wrapping_mul(STEP).wrapping_mul(7);
    let id = table.partitions.locate(token).id;
    if round % 4 == 3 {
        let first = table.partitions.iter().next().unwrap().id;
        store.merge_partitions(&name, first).await.is_ok()
    } else {
        store.split_partition(&name, id, None).await.is_ok()
    }
}

async fn check(service: Service, filter: &str, in_order: bool) {
    service.fill("table", PARTITIONS, ROWS).await;
    let (mut seen, mut next) = (Vec::new(), String::new());
    let mut disturbed = 0;
    for round in 0.. {
        let page = query("table", filter, &format!("&$top=17{next}"));
        let page = service.must(page).await;
        seen.extend(page.keys());
        match page.next_page() {
            Some(more) => next = more,
            None => break,
        }
        disturbed += usize::from(disturb(&service.store, round).await);
    }
    assert!(disturbed > 10, "{disturbed} splits and merges");
    let distinct: BTreeSet<_> = seen.iter().collect();
    let all = PARTITIONS * ROWS;
    assert_eq!((seen.len(), distinct.len()), (all, all), "{filter}");
    assert_eq!(seen.is_sorted(), in_order, "{filter}");
    let unsound = service.store.verify(&container("table")).await.unwrap();
    assert_eq!(unsound, Vec::<String>::new());
}

#[tokio::test]
async fn each_entity_is_listed_once_in_the_order_of_the_keys() {
    check(Service::storage().await, "", true).await;
}

#[tokio::test]
async fn each_entity_is_listed_once_in_the_order_of_the_hash() {
    check(Service::cosmos().await, "", false).await;
}

#[tokio::test]
async fn each_entity_is_found_once_by_a_range() {
    check(Service::cosmos().await, "PartitionKey ge 'p'", true).await;
}
