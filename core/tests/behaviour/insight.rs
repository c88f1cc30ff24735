//! Insight: where load and data lie, and that throughput can be changed.

use crate::support::*;
use tessera_core::clock::Clock;
use tessera_core::definition::NewContainer;
use tessera_core::insight::{Insight, LISTED_KEYS};
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::provisioning::Throughput;
use tessera_core::{Error, Store};

async fn store(clock: &Clock, provisioned: u32) -> Store {
    let store = open_store_at(clock.clone()).await;
    let new = NewContainer {
        throughput: Some(Throughput::Manual(provisioned)),
        counts_logical_partitions: true,
        ..new_container(vec![], 1)
    };
    store.create_container(&name("c"), &new).await.unwrap();
    store
}

async fn put(store: &Store, partition_key: &str, row: usize) -> Result<(), Error> {
    let locator = Locator::murmur3(partition_key.to_owned(), row.to_string());
    let new = NewItem::new(locator, "x".repeat(100));
    insert(store, &name("c"), new).await.map(|_| ())
}

async fn insight(store: &Store) -> Insight {
    store.insight(&name("c")).await.unwrap()
}

#[tokio::test]
async fn a_hot_key_is_first_and_only_its_partition_is_throttled() {
    let clock = Clock::manual(60_000_000);
    let store = store(&clock, 400).await;
    store
        .provision(&name("c"), Some(Throughput::manual(30_000).unwrap()))
        .await
        .unwrap();
    let mut refused = 0;
    for row in 0..2_000 {
        for key in ["hot".to_owned(), format!("cold {row}")] {
            refused += usize::from(put(&store, &key, row).await.is_err());
        }
    }
    clock.advance(1_000);
    let insight = insight(&store).await;
    assert_eq!(insight.partitions.len(), 3);
    let hottest = insight.hot_keys.first().unwrap();
    assert_eq!(hottest.key, "hot");
    assert_eq!(insight.hot_keys.len(), LISTED_KEYS);
    for partition in &insight.partitions {
        let is_hot = partition.statistics.partition == hottest.partition;
        assert_eq!(partition.throttled > 0, is_hot, "{partition:?}");
        let consumption = partition.normalised_consumption.unwrap();
        assert_eq!(consumption >= 1.0, is_hot, "{partition:?}");
        assert_eq!(partition.budget, Some(10_000.0));
    }
    let throttled: u64 = insight
        .partitions
        .iter()
        .map(|partition| partition.throttled)
        .sum();
    assert_eq!(throttled, refused as u64);
}

#[tokio::test]
async fn charges_of_a_partition_are_those_that_were_reported() {
    let clock = Clock::manual(60_000_000);
    let store = store(&clock, 10_000).await;
    for row in 0..50 {
        put(&store, "k", row).await.unwrap();
    }
    clock.advance(1_000);
    let insight = insight(&store).await;
    let [partition] = insight.partitions.as_slice() else {
        panic!("{insight:?}");
    };
    // 5.5 for each insert, all within one of the ten seconds that the rate is taken over.
    assert_eq!(partition.charged.milli_units(), 50 * 5_500);
    assert_eq!(partition.requests, 50);
    assert_eq!(partition.request_units_per_second, 27.5);
    assert_eq!(partition.normalised_consumption, Some(0.0275));
    assert_eq!(partition.statistics.tally.items, 50);
    let largest = store.largest_keys(&name("c")).await.unwrap();
    let largest = largest.first().unwrap();
    assert_eq!((largest.key.as_str(), largest.tally.items), ("k", 50));
    assert_eq!(largest.tally.bytes, partition.statistics.tally.bytes);
}

#[tokio::test]
async fn more_throughput_brings_partitions_and_less_takes_none_away() {
    let clock = Clock::manual(60_000_000);
    let store = store(&clock, 400).await;
    for row in 0..30 {
        put(&store, &format!("key {row}"), row).await.unwrap();
    }
    for (throughput, partitions, budget) in [
        (Some(Throughput::manual(30_000).unwrap()), 3, Some(10_000.0)),
        (
            Some(Throughput::autoscale(1_000).unwrap()),
            3,
            Some(333.333),
        ),
        (None, 3, None),
    ] {
        store.provision(&name("c"), throughput).await.unwrap();
        let insight = insight(&store).await;
        assert_eq!(insight.throughput, throughput);
        assert_eq!(insight.partitions.len(), partitions);
        assert!(
            insight
                .partitions
                .iter()
                .all(|partition| partition.budget == budget)
        );
        let items: i64 = insight
            .partitions
            .iter()
            .map(|partition| partition.statistics.tally.items)
            .sum();
        assert_eq!(items, 30);
    }
}

#[tokio::test]
async fn what_one_key_costs_is_counted_for_reads_of_its_rows_too() {
    use tessera_core::reading::{PageRequest, Span};

    let clock = Clock::manual(60_000_000);
    let store = store(&clock, 10_000).await;
    for row in 0..20 {
        put(&store, &format!("key {row}"), row).await.unwrap();
    }
    for _ in 0..20 {
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&name("c")).await.unwrap();
        let locator = Locator::murmur3("key 7", "7");
        let span = Span::Partition {
            token: locator.token,
            partition_key: locator.partition_key,
        };
        let page = transaction
            .scan(&container, &span, &PageRequest::default())
            .await
            .unwrap();
        assert_eq!(page.items.len(), 1);
    }
    let insight = insight(&store).await;
    assert_eq!(insight.hot_keys.first().unwrap().key, "key 7");
}

/// Steady load on known keys, by reads, writes and queries, with idle times, a wall clock that is
/// set, and a split: what is shown of keys is what they cost.
#[tokio::test]
async fn what_is_shown_of_hot_keys_is_what_they_cost() {
    use tessera_core::reading::{PageRequest, Span};

    let clock = Clock::manual(60_000_000);
    let store = store(&clock, 10_000).await;
    let keys = [("a", 6), ("b", 3), ("c", 1)];
    for (key, _) in keys {
        for row in 0..38 {
            put(&store, key, row).await.unwrap();
        }
    }
    clock.advance(100_000);
    let query = async |key: &'static str| {
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&name("c")).await.unwrap();
        let locator = Locator::murmur3(key, "0");
        let span = Span::Partition {
            token: locator.token,
            partition_key: locator.partition_key.clone(),
        };
        let request = PageRequest::default();
        let page = transaction.scan(&container, &span, &request).await;
        assert_eq!(page.unwrap().items.len(), 38);
        transaction.read(&container, &locator).await.unwrap();
        transaction.meter().charge().request_units()
    };
    for second in 0..95 {
        let mut costs = Vec::new();
        for (key, times) in keys {
            let mut cost = 0.0;
            for _ in 0..times {
                cost += query(key).await;
            }
            costs.push(cost);
        }
        clock.advance(1_000);
        match second {
            20 => clock.set_wall(1),
            33 => clock.set_wall(90_000_000_000),
            47 => {
                let more = Some(Throughput::manual(20_000).unwrap());
                store.provision(&name("c"), more).await.unwrap();
            }
            70 => clock.advance(300_000),
            _ => {}
        }
        // A rate is over ten seconds, which is how long after an idle time it takes to be right.
        if second < 10 || (70..81).contains(&second) {
            continue;
        }
        let insight = insight(&store).await;
        let all: f64 = costs.iter().sum();
        let partitions = insight.partitions.iter();
        let shown: f64 = partitions.map(|it| it.request_units_per_second).sum();
        assert!(
            (shown / all - 1.0).abs() < 0.05,
            "{second}: {shown} of {all}"
        );
        assert_eq!(insight.hot_keys.len(), keys.len(), "{second}");
        for ((hot, (key, _)), cost) in insight.hot_keys.iter().zip(keys).zip(&costs) {
            assert_eq!(hot.key, key, "{second}");
            let rate = hot.request_units_per_second / cost;
            assert!((rate - 1.0).abs() < 0.05, "{second} {key}: {rate}");
            let share = hot.share / (cost / all);
            assert!((share - 1.0).abs() < 0.05, "{second} {key}: {share}");
        }
    }
}
