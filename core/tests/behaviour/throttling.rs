//! Provisioned throughput: each physical partition has its share of every second.

use crate::support::*;
use tessera_core::clock::Clock;
use tessera_core::definition::NewContainer;
use tessera_core::locator::Locator;
use tessera_core::{Error, Store};

const PROVISIONED: u32 = 400;
const PARTITIONS: u32 = 2;
/// An insert of a small item costs 5.5 request units, and a partition has 200 a second: the 37th
/// insert uses up what is left.
const INSERTS_PER_SECOND: usize = 37;

async fn store(clock: &Clock, provisioned: Option<u32>) -> Store {
    let store = open_store_at(clock.clone()).await;
    let new = NewContainer {
        provisioned,
        ..new_container(vec![], PARTITIONS)
    };
    store.create_container(&name("c"), &new).await.unwrap();
    store
}

/// A place in the first (`-1`) or second (`1`) partition.
fn place(token: i64, row: usize) -> Locator {
    Locator::row(token, "p", row.to_string())
}

async fn put(store: &Store, locator: Locator) -> Result<(), Error> {
    let new = tessera_core::item::NewItem::new(locator, "x");
    insert(store, &name("c"), new).await.map(|_| ())
}

#[tokio::test]
async fn a_partition_that_used_up_its_share_waits_for_the_next_second() {
    let clock = Clock::manual(5_200);
    let store = store(&clock, Some(PROVISIONED)).await;
    for row in 0..INSERTS_PER_SECOND {
        put(&store, place(-1, row)).await.unwrap();
    }
    let throttled = put(&store, place(-1, 99)).await.unwrap_err();
    let Error::Throttled { retry_after } = throttled else {
        panic!("{throttled}");
    };
    assert_eq!(retry_after.as_millis(), 800);
    assert_eq!(body(&store, &name("c"), &place(1, 0)).await, None);
    put(&store, place(1, 0)).await.unwrap();
    clock.advance(800);
    put(&store, place(-1, 99)).await.unwrap();
}

#[tokio::test]
async fn reads_and_failed_writes_are_paid_for_too() {
    let clock = Clock::manual(5_000);
    let store = store(&clock, Some(PROVISIONED)).await;
    put(&store, place(-1, 0)).await.unwrap();
    let mut reads = 0;
    loop {
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&name("c")).await.unwrap();
        match transaction.read(&container, &place(-1, 0)).await {
            Ok(item) => assert!(item.is_some()),
            Err(Error::Throttled { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        reads += 1;
    }
    // 200 request units, of which the insert took 5.5.
    assert_eq!(reads, 195);
}

#[tokio::test]
async fn without_provisioned_throughput_nothing_is_held_back() {
    let clock = Clock::manual(5_000);
    let store = store(&clock, None).await;
    for row in 0..10 * INSERTS_PER_SECOND {
        put(&store, place(-1, row)).await.unwrap();
    }
}

/// Thirty seconds in which the first partition is asked for more than it has, all the time, and the
/// second for a little.
#[tokio::test]
async fn what_is_granted_is_what_was_provisioned_and_neighbours_do_not_suffer() {
    const SECONDS: usize = 30;
    let clock = Clock::manual(5_000);
    let store = store(&clock, Some(PROVISIONED)).await;
    for tenth in 0..SECONDS * 10 {
        for row in 0..INSERTS_PER_SECOND {
            // Of different prices, so that seconds do not end where a budget does.
            let body = "x".repeat(100 * (row + tenth % 7));
            let locator = place(-1, tenth * INSERTS_PER_SECOND + row);
            let new = tessera_core::item::NewItem::new(locator, body);
            match insert(&store, &name("c"), new).await {
                Ok(()) => {}
                Err(Error::Throttled { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        put(&store, place(1, tenth)).await.unwrap();
        clock.advance(100);
    }
    let insight = store.insight(&name("c")).await.unwrap();
    let [busy, quiet] = insight.partitions.as_slice() else {
        panic!("{insight:?}");
    };
    assert_eq!(quiet.throttled, 0);
    assert!(busy.throttled > 0);
    let granted = busy.charged.request_units();
    let share = f64::from(PROVISIONED / PARTITIONS);
    let expected = share * f64::from(u32::try_from(SECONDS).unwrap());
    assert!(
        (granted / expected - 1.0).abs() < 0.02,
        "{granted} of {expected}"
    );
}
