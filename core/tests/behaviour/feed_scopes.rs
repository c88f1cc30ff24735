//! Change feeds over scopes, restarts and time: who inherits one, how long it is kept, how to wait.

use std::sync::Arc;
use std::time::Duration;

use tessera_core::clock::Clock;
use tessera_core::engine::Engine;
use tessera_core::feed::definition::Images;
use tessera_core::feed::policy::{FeedScope, FeedWish};
use tessera_core::feed::position::Position;
use tessera_core::feed::stamp::Stamp;
use tessera_core::feed::time::FeedTime;
use tessera_core::memory::MemoryEngine;
use tessera_core::name::ContainerName;
use tessera_core::{Error, Store};
use tokio::time::Instant;

use crate::feed::{changes, create, follow, read, records, told};
use crate::support::{
    insert, item, keys_in, name, new_container, open_store, open_store_at, options,
};

#[tokio::test]
async fn scopes_follow_all_their_containers_and_those_to_come() {
    let store = open_store().await;
    let (one, two) = (
        create(&store, "one", 1).await,
        create(&store, "two", 2).await,
    );
    let elsewhere = ContainerName::new("test", "other", "three");
    let new = new_container(vec![], 1);
    store.create_container(&elsewhere, &new).await.unwrap();
    let database = FeedScope::Database {
        api: "test".into(),
        database: "db".into(),
    };
    let database = store.follow(&database, &FeedWish::default()).await.unwrap();
    let api = FeedScope::Api("test".into());
    let api = store.follow(&api, &FeedWish::default()).await.unwrap();
    insert(&store, &one, item(1, "one")).await.unwrap();
    insert(&store, &two, item(2, "two")).await.unwrap();
    insert(&store, &elsewhere, item(3, "three")).await.unwrap();
    let late = create(&store, "late", 1).await;
    insert(&store, &late, item(4, "four")).await.unwrap();
    let mut both = store.begin().await.unwrap();
    for (name, number) in [(&one, 5), (&two, 6)] {
        let container = both.container(name).await.unwrap();
        both.insert(&container, item(number, "both")).await.unwrap();
    }
    both.commit().await.unwrap();
    store.drop_container(&two).await.unwrap();
    let in_database = changes(&store, database).await;
    assert_eq!(
        told(&in_database),
        [
            "Insert r1 one",
            "Insert r2 two",
            "Created",
            "Insert r4 four",
            "Insert r5 both",
            "Insert r6 both",
            "Dropped",
        ]
    );
    let names = in_database
        .iter()
        .map(|item| item.term.name.container.clone());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["one", "two", "late", "late", "one", "two", "two"]
    );
    let everywhere = changes(&store, api).await;
    assert_eq!(everywhere.len(), in_database.len() + 1);
    let at = |at: usize| in_database[at].position.stamp;
    assert!(at(4).is_same_commit(at(5)) && !at(3).is_same_commit(at(4)));
    store.note_database_dropped("test", "db").await.unwrap();
    let (rest, _) = read(&store, api.feed, everywhere.last().unwrap().position)
        .await
        .unwrap();
    assert_eq!(told(&rest), ["DatabaseDropped"]);
    for (at, entry) in in_database.iter().enumerate() {
        let (rest, _) = read(&store, database.feed, entry.position).await.unwrap();
        assert_eq!(told(&rest)[..6 - at], told(&in_database[at + 1..])[..]);
    }
}

#[tokio::test]
async fn what_a_container_inherits_follows_its_database() {
    let store = open_store().await;
    let database = FeedScope::Database {
        api: "test".into(),
        database: "db".into(),
    };
    let wish = FeedWish {
        images: Images::BOTH,
        ..FeedWish::default()
    };
    let followed = store.follow(&database, &wish).await.unwrap();
    let elsewhere = ContainerName::new("test", "other", "c");
    store
        .create_container(&elsewhere, &new_container(vec![], 1))
        .await
        .unwrap();
    let inside = name("c");
    store.rename_container(&elsewhere, &inside).await.unwrap();
    insert(&store, &inside, item(1, "inside")).await.unwrap();
    store.rename_container(&inside, &elsewhere).await.unwrap();
    insert(&store, &elsewhere, item(2, "outside"))
        .await
        .unwrap();
    assert_eq!(
        told(&changes(&store, followed).await),
        ["Begun", "Insert r1 inside", "Renamed"]
    );
    let bookkeeping = ContainerName::new("test-system", "db", "c");
    let own = FeedScope::Container(bookkeeping.clone());
    store
        .create_container(&bookkeeping, &new_container(vec![], 1))
        .await
        .unwrap();
    let refused = store.follow(&own, &FeedWish::default()).await;
    assert!(matches!(refused, Err(Error::Rejected(_))));
}

#[tokio::test]
async fn with_always_every_container_has_a_feed_from_the_start() {
    let mut options = options(Clock::system());
    options.feeds.always = true;
    let store = Store::open(Arc::new(MemoryEngine::new()), options)
        .await
        .unwrap();
    let name = create(&store, "c", 1).await;
    insert(&store, &name, item(1, "one")).await.unwrap();
    let feed = store
        .feed_of(&FeedScope::Container(name))
        .await
        .unwrap()
        .unwrap();
    let (found, _) = read(&store, feed, Position::START).await.unwrap();
    assert_eq!(told(&found), ["Created", "Insert r1 one"]);
}

#[tokio::test]
async fn positions_of_nowhere_hear_that_history_is_lost() {
    let store = open_store().await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    let stamp = followed.position.stamp;
    for stamp in [
        Stamp::end_of(stamp.epoch, stamp.version + 1_000),
        Stamp::end_of(stamp.epoch + 1, 1),
        Stamp::end_of(stamp.epoch - 1, 1),
    ] {
        let lost = read(&store, followed.feed, Position::at(stamp)).await;
        assert!(matches!(lost, Err(Error::HistoryLost(_))), "{stamp:?}");
    }
    let unknown = read(&store, followed.feed + 1_000, followed.position).await;
    assert!(matches!(unknown, Err(Error::HistoryLost(_))));
}

#[tokio::test]
async fn what_is_older_than_feeds_are_kept_is_lost_and_the_rest_is_not() {
    let clock = Clock::manual(1_000_000_000);
    let mut options = options(clock.clone());
    options.feeds.retention = Duration::from_secs(100);
    let store = Store::open(Arc::new(MemoryEngine::new()), options)
        .await
        .unwrap();
    let name = create(&store, "c", 2).await;
    let followed = follow(&store, &name).await;
    let mut positions = vec![followed.position];
    for number in 0..20 {
        insert(&store, &name, item(number, "x")).await.unwrap();
        store.tend_feeds_now().await.unwrap();
        positions.push(
            read(&store, followed.feed, *positions.last().unwrap())
                .await
                .unwrap()
                .1,
        );
        clock.advance(10_000);
    }
    store.tend_feeds_now().await.unwrap();
    let mut lost = 0;
    for (number, position) in positions.iter().enumerate() {
        match read(&store, followed.feed, *position).await {
            Ok((rest, _)) => assert_eq!(rest.len(), 20 - number),
            Err(Error::HistoryLost(_)) => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!((8..=11).contains(&lost), "{lost}");
    let (kept, _) = read(&store, followed.feed, Position::START).await.unwrap();
    assert_eq!(records(&kept).len(), 20 - lost);
    // Nobody follows any more: it is turned off, and later nothing of it is left.
    clock.advance(200_000);
    store.tend_feeds_now().await.unwrap();
    let scope = FeedScope::Container(name.clone());
    assert_eq!(store.feed_of(&scope).await.unwrap(), None);
    clock.advance(200_000);
    store.tend_feeds_now().await.unwrap();
    let lost = read(&store, followed.feed, Position::START).await;
    assert!(matches!(lost, Err(Error::HistoryLost(_))));
    let left = keys_in(&store, tessera_core::key::log()).await;
    assert!(left <= 2, "{left}: the last clock marks");
}

#[tokio::test]
async fn times_grow_with_the_feed_and_lead_back_to_it() {
    let clock = Clock::manual(1_000_000_000);
    let store = open_store_at(clock.clone()).await;
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    for number in 0..12 {
        store.tend_feeds_now().await.unwrap();
        insert(&store, &name, item(number, "x")).await.unwrap();
        clock.advance(700);
    }
    let found = changes(&store, followed).await;
    let (first, last) = (found[0].position.stamp, found[11].position.stamp);
    let feed_clock = store.feed_clock(first, last).await.unwrap();
    let times: Vec<FeedTime> = found
        .iter()
        .map(|it| feed_clock.time_of(it.position.stamp))
        .collect();
    assert!(times.is_sorted_by(|one, other| one < other), "{times:?}");
    for (at, time) in times.iter().enumerate() {
        let position = store.position_at(*time).await.unwrap();
        let (rest, _) = read(&store, followed.feed, position).await.unwrap();
        assert_eq!(told(&rest), told(&found[at..]), "{time:?}");
        let later = FeedTime {
            increment: time.increment + 1,
            ..*time
        };
        let position = store.position_at(later).await.unwrap();
        let (rest, _) = read(&store, followed.feed, position).await.unwrap();
        assert_eq!(told(&rest), told(&found[at + 1..]), "{later:?}");
    }
}

#[tokio::test]
async fn who_waits_is_woken_by_the_commit_and_by_nothing_else() {
    let store = open_store().await;
    let (name, other) = (create(&store, "c", 1).await, create(&store, "d", 1).await);
    let followed = follow(&store, &name).await;
    follow(&store, &other).await;
    let mut alarm = store.feed_alarm(followed.feed);
    insert(&store, &other, item(1, "x")).await.unwrap();
    let soon = || Instant::now() + Duration::from_millis(50);
    assert!(!alarm.wait(false, soon()).await);
    insert(&store, &name, item(1, "x")).await.unwrap();
    assert!(alarm.wait(false, soon()).await);
    assert!(!alarm.wait(false, soon()).await);
    // What is there and not complete is looked at again.
    assert!(alarm.wait(true, soon()).await);
}

#[tokio::test]
async fn a_copy_goes_on_from_what_was_copied_and_nothing_later() {
    let engine = MemoryEngine::new();
    let store = Store::open(Arc::new(engine.clone()), options(Clock::system()))
        .await
        .unwrap();
    let name = create(&store, "c", 1).await;
    let followed = follow(&store, &name).await;
    insert(&store, &name, item(1, "x")).await.unwrap();
    let (_, before) = read(&store, followed.feed, followed.position)
        .await
        .unwrap();
    engine.adopt_history(vec![before.stamp]).await.unwrap();
    let store = Store::open(Arc::new(engine), options(Clock::system()))
        .await
        .unwrap();
    insert(&store, &name, item(2, "y")).await.unwrap();
    let (found, _) = read(&store, followed.feed, before).await.unwrap();
    assert_eq!(told(&found), ["Insert r2 y"]);
    let discarded = Position::at(Stamp {
        version: before.stamp.version + 1,
        ..before.stamp
    });
    let lost = read(&store, followed.feed, discarded).await;
    assert!(matches!(lost, Err(Error::HistoryLost(_))));
}
