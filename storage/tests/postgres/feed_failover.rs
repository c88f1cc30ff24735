//! The change feed of a store whose primary is killed: behind a synchronous standby nothing is lost
//! and every position stays good; behind one that lagged, those who have heard of what is lost are
//! told so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tessera_core::definition::NewContainer;
use tessera_core::feed::policy::{FeedScope, FeedWish, Followed};
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem, FeedRequest};
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_core::{Error, Store};
use tessera_storage::PostgresEngine;
use tokio::time::Instant;

use crate::cluster::{Cluster, new_schema_name};

const PATIENCE: Duration = Duration::from_secs(60);
const WRITERS: usize = 4;

fn name() -> ContainerName {
    ContainerName::new("test", "db", "c")
}

async fn open(cluster: &Cluster) -> (Store, Followed) {
    let address = cluster.address(&new_schema_name()).await;
    let engine = PostgresEngine::connect(&address, 16).await.unwrap();
    let store = Store::open(Arc::new(engine), StoreOptions::default());
    let store = store.await.unwrap();
    let container = NewContainer::default();
    store.create_container(&name(), &container).await.unwrap();
    let scope = FeedScope::Container(name());
    let followed = store.follow(&scope, &FeedWish::default()).await.unwrap();
    (store, followed)
}

/// Inserts an item, again and again until it is known to be there.
async fn insist(store: &Store, row: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let place = row.to_owned();
        let inserted = store.run(&[], move |transaction| {
            let locator = Locator::murmur3(place.clone(), place.clone());
            Box::pin(async move {
                let container = transaction.container(&name()).await?;
                let new = NewItem::new(locator, "body");
                transaction.insert(&container, new).await?;
                Ok::<_, Error>(())
            })
        });
        match inserted.await {
            Ok(_) | Err(Error::AlreadyExists(_)) => return,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Everything behind a position, once it is complete.
async fn rest(store: &Store, followed: Followed, after: Position) -> Result<Vec<FeedItem>, Error> {
    let deadline = Instant::now() + PATIENCE;
    let mut request = FeedRequest::after(after);
    let mut found = Vec::new();
    loop {
        match store.read_feed(followed.feed, &request).await {
            Ok(page) => {
                found.extend(page.items);
                request.after = page.position;
                if !page.has_more && !page.is_pending {
                    return Ok(found);
                }
            }
            Err(lost @ Error::HistoryLost(_)) => return Err(lost),
            // The primary is not there.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn rows(items: &[FeedItem]) -> Vec<String> {
    let row = |item: &FeedItem| match &item.change {
        Change::Item(record) => String::from_utf8_lossy(&record.locator.row_key).into_owned(),
        Change::Container(control) => format!("{:?}", control.event),
    };
    items.iter().map(row).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_a_synchronous_standby_each_write_is_told_once_and_in_order() {
    let mut cluster = Cluster::start();
    let (store, followed) = open(&cluster).await;
    for number in 0..20 {
        insist(&store, &format!("before {number:03}")).await;
    }
    let before = rest(&store, followed, followed.position).await.unwrap();
    // Whoever hears nothing while others commit must not be told that something is lost.
    cluster.use_up_numbers(0).await;
    let last = before.last().unwrap().position;
    let behind = FeedRequest::after(last);
    let idle = store.read_feed(followed.feed, &behind);
    let idle = idle.await.unwrap().position;
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..150 {
                insist(&store, &format!("{writer} {number:03}")).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    tokio::task::block_in_place(|| cluster.tell("kill-primary"));
    tokio::task::block_in_place(|| cluster.tell("promote 1"));
    for writer in writers {
        writer.await.unwrap();
    }
    let all = rest(&store, followed, followed.position).await.unwrap();
    assert!(all.is_sorted_by(|one, other| one.position < other.position));
    assert_eq!(rows(&all)[..20], rows(&before));
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows(&all).split_off(20) {
        let (writer, number) = row.split_once(' ').unwrap();
        told.entry(writer.to_owned())
            .or_default()
            .push(number.to_owned());
    }
    let expected: Vec<String> = (0..150).map(|number| format!("{number:03}")).collect();
    assert_eq!(told.len(), WRITERS);
    for (writer, numbers) in told {
        assert_eq!(numbers, expected, "of writer {writer}");
    }
    let epochs = |items: &[FeedItem]| {
        let mut epochs: Vec<u64> = items.iter().map(|it| it.position.stamp.epoch).collect();
        epochs.dedup();
        epochs.len()
    };
    assert_eq!((epochs(&before), epochs(&all)), (1, 2));
    let since = rest(&store, followed, idle).await.unwrap();
    assert_eq!(rows(&since), rows(&all[20..]));
    // Positions of both primaries lead to the same rest.
    for at in (0..all.len()).step_by(61) {
        let later = rest(&store, followed, all[at].position).await.unwrap();
        assert_eq!(rows(&later), rows(&all[at + 1..]), "behind {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn behind_a_standby_that_lagged_what_was_told_and_lost_is_history_lost() {
    let mut cluster = Cluster::start();
    let (store, followed) = open(&cluster).await;
    for number in 0..10 {
        insist(&store, &format!("kept {number}")).await;
    }
    let kept = rest(&store, followed, followed.position).await.unwrap();
    let last = kept.last().unwrap().position;
    cluster.detach_standbys().await;
    for number in 0..10 {
        insist(&store, &format!("lost {number}")).await;
    }
    let lost = rest(&store, followed, last).await.unwrap();
    assert_eq!(lost.len(), 10);
    tokio::task::block_in_place(|| cluster.tell("kill-primary"));
    tokio::task::block_in_place(|| cluster.tell("promote 1"));
    // The numbers of the lost commits are those of others now.
    cluster.use_up_numbers(1).await;
    for number in 0..10 {
        insist(&store, &format!("new {number}")).await;
    }
    let expected: Vec<String> = (0..10).map(|number| format!("new {number}")).collect();
    assert_eq!(rows(&rest(&store, followed, last).await.unwrap()), expected);
    for item in &lost {
        let found = rest(&store, followed, item.position).await;
        let found = found.map(|items| rows(&items));
        assert!(matches!(found, Err(Error::HistoryLost(_))), "{found:?}");
    }
    let all = rest(&store, followed, followed.position).await.unwrap();
    assert_eq!(rows(&all), [rows(&kept), expected].concat());
}
