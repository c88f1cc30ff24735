//! The change log: who holds it up and who does not, epochs, and writers that are overtaken by the
//! changes of the catalog which wait for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tessera_core::definition::NewContainer;
use tessera_core::engine::{CommitOutcome, Engine, Settled};
use tessera_core::feed::control::Event;
use tessera_core::feed::policy::{FeedScope, FeedWish, Followed};
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem, FeedRequest};
use tessera_core::feed::stamp::Stamp;
use tessera_core::item::NewItem;
use tessera_core::key;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::store::StoreOptions;
use tessera_core::{Error, Store};
use tessera_storage::PostgresEngine;
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::cluster::{Cluster, new_schema_name};
use crate::{bytes, writes};

async fn append(engine: &Arc<dyn Engine>) -> Stamp {
    let set = writes(|set| set.append(bytes("l1"), bytes("x")));
    let snapshot = engine.snapshot().await.unwrap();
    match snapshot.commit(set).await.unwrap() {
        CommitOutcome::Done(done) => done.stamp.unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn settled(engine: &Arc<dyn Engine>) -> Settled {
    engine.snapshot().await.unwrap().settled().await.unwrap()
}

/// A session of somebody else.
async fn session(database: &str) -> Client {
    let url = Cluster::shared().url_of_database(database);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

/// Until everything up to a stamp is complete: other tests of this process write to the database.
async fn until_settled(engine: &Arc<dyn Engine>, stamp: Stamp) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while settled(engine).await.through < stamp {
        assert!(Instant::now() < deadline, "{stamp:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_of_the_same_database_holds_up_what_comes_after_it_and_one_of_another_does_not() {
    let cluster = Cluster::shared();
    let engine = cluster.open(&new_schema_name());
    let other = new_schema_name();
    cluster.run(&format!("CREATE DATABASE {other}")).await;
    let elsewhere = session(&other).await;
    elsewhere
        .batch_execute("BEGIN; SELECT pg_current_xact_id()")
        .await
        .unwrap();
    let free = append(&engine).await;
    until_settled(&engine, free).await;
    let beside = session("postgres").await;
    beside
        .batch_execute("BEGIN; SELECT pg_current_xact_id()")
        .await
        .unwrap();
    let held = append(&engine).await;
    let now = settled(&engine).await;
    assert!(now.through < held && held <= now.newest, "{now:?} {held:?}");
    let later = append(&engine).await;
    assert!(later > held);
    assert!(settled(&engine).await.through < held);
    beside.batch_execute("COMMIT").await.unwrap();
    until_settled(&engine, later).await;
    elsewhere.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_snapshot_that_has_begun_can_no_longer_tell_how_far_it_is_complete() {
    let engine = Cluster::shared().open(&new_schema_name());
    let snapshot = engine.snapshot().await.unwrap();
    assert_eq!(snapshot.get(b"a").await.unwrap(), None);
    assert!(snapshot.settled().await.is_err());
    let snapshot = engine.snapshot().await.unwrap();
    snapshot.settled().await.unwrap();
    append(&engine).await;
    let page = snapshot
        .scan(&tessera_core::engine::Scan::new(key::log()))
        .await
        .unwrap();
    assert_eq!(page.entries, [], "the moment is that of the answer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_hear_that_others_appended() {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    let (one, other) = (cluster.open(&schema), cluster.open(&schema));
    let mut news = other.news().unwrap();
    let listening = tokio::time::timeout(Duration::from_secs(10), news.recv()).await;
    assert_eq!(listening.unwrap().unwrap(), Bytes::new());
    append(&one).await;
    one.hint_log();
    let told = tokio::time::timeout(Duration::from_secs(10), news.recv()).await;
    assert_eq!(told.unwrap().unwrap(), bytes("l"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_promoted_standby_begins_an_epoch() {
    let mut cluster = Cluster::start();
    let address = cluster.address(&new_schema_name()).await;
    let engine: Arc<dyn Engine> = Arc::new(PostgresEngine::connect(&address, 8).await.unwrap());
    let before = append(&engine).await;
    assert_eq!(engine.past_epochs().await.unwrap(), []);
    tokio::task::block_in_place(|| cluster.tell("kill-primary"));
    tokio::task::block_in_place(|| cluster.tell("promote 1"));
    let deadline = Instant::now() + Duration::from_secs(30);
    let after = loop {
        let set = writes(|set| set.append(bytes("l1"), bytes("y")));
        let snapshot = engine.snapshot().await.unwrap();
        match snapshot.commit(set).await {
            Ok(CommitOutcome::Done(done)) => break done.stamp.unwrap(),
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(after.epoch > before.epoch, "{before:?} {after:?}");
    let past = engine.past_epochs().await.unwrap();
    let [end] = past.as_slice() else {
        panic!("{past:?}");
    };
    assert!(end.epoch == before.epoch && *end >= before && *end < after);
    assert_eq!(settled(&engine).await.newest.epoch, after.epoch);
}

/// A store with a feed, whose writers can be parked.
struct Parking {
    store: Store,
    name: ContainerName,
    followed: Followed,
    guard: Client,
    schema: String,
}

const BEHIND: usize = 6;

/// Those, the first writer and the change.
const ALL_WAITING: i64 = 8;

fn locator(number: usize) -> Locator {
    Locator::murmur3(format!("p{number}"), format!("r{number}"))
}

async fn insert(store: Store, name: ContainerName, number: usize) -> Result<Stamp, Error> {
    let done = store.run(&[], move |transaction| {
        let name = name.clone();
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            let new = NewItem::new(locator(number), format!("body {number}"));
            transaction.insert(&container, new).await?;
            Ok::<_, Error>(())
        })
    });
    Ok(done.await?.stamp.unwrap())
}

impl Parking {
    async fn new() -> Self {
        let (cluster, schema) = (Cluster::shared(), new_schema_name());
        let engine = cluster.open(&schema);
        let store = Store::open(engine, StoreOptions::default()).await.unwrap();
        let name = ContainerName::new("test", "db", "c");
        store
            .create_container(&name, &NewContainer::default())
            .await
            .unwrap();
        let scope = FeedScope::Container(name.clone());
        let followed = store.follow(&scope, &FeedWish::default()).await.unwrap();
        for number in 100..110 {
            insert(store.clone(), name.clone(), number).await.unwrap();
        }
        let guard = session("postgres").await;
        guard
            .batch_execute(&format!("SET search_path = {schema}"))
            .await
            .unwrap();
        Self {
            store,
            name,
            followed,
            guard,
            schema,
        }
    }

    /// Holds the places of some items: whoever inserts one waits, with its container guarded.
    async fn close(&self, numbers: std::ops::Range<usize>) {
        let container = self
            .store
            .begin()
            .await
            .unwrap()
            .container(&self.name)
            .await
            .unwrap();
        self.guard.batch_execute("BEGIN").await.unwrap();
        for number in numbers {
            let key = key::item(container.storage(), &locator(number)).to_vec();
            let insert = "INSERT INTO tessera_data (key, mark, value) VALUES ($1, '', 'held')";
            self.guard.execute(insert, &[&key]).await.unwrap();
        }
    }

    async fn open(&self) {
        self.guard.batch_execute("ROLLBACK").await.unwrap();
    }

    /// Waits until so many sessions wait for locks of this schema's tables.
    async fn until_waiting(&self, count: i64) {
        let query = format!(
            "SELECT count(DISTINCT a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
                JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n
                ON n.oid = c.relnamespace WHERE n.nspname = '{}' AND a.wait_event_type = 'Lock'",
            self.schema
        );
        let watch = session("postgres").await;
        let deadline = Instant::now() + Duration::from_secs(8);
        loop {
            let waiting: i64 = watch.query_one(&query, &[]).await.unwrap().get(0);
            if waiting >= count {
                return;
            }
            assert!(Instant::now() < deadline, "{waiting} of {count} wait");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything behind a position, once it is complete.
    async fn read(&self, after: Position) -> Vec<FeedItem> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut request = FeedRequest::after(after);
        request.max_entries = 4;
        let mut found = Vec::new();
        loop {
            let page = self
                .store
                .read_feed(self.followed.feed, &request)
                .await
                .unwrap();
            found.extend(page.items);
            request.after = page.position;
            if !page.has_more && !page.is_pending {
                return found;
            }
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn told(items: &[FeedItem]) -> Vec<String> {
    let text = |item: &FeedItem| match &item.change {
        Change::Item(record) => String::from_utf8_lossy(&record.locator.row_key).into_owned(),
        Change::Container(control) => format!("{:?}", control.event),
    };
    items.iter().map(text).collect()
}

/// Parks a writer, lets a change of the container wait for it, and then parks others with larger
/// numbers than that change took. All that the feed tells must come to what the container holds.
async fn overtaken<F>(expected: Event, change: impl Fn(Store, ContainerName) -> F) -> bool
where
    F: Future<Output = ()> + Send + 'static,
{
    let parking = Parking::new().await;
    parking.close(0..BEHIND + 1).await;
    let writer = |number| {
        let (store, name) = (parking.store.clone(), parking.name.clone());
        tokio::spawn(async move { insert(store, name, number).await })
    };
    let mut writers = vec![writer(0)];
    parking.until_waiting(1).await;
    let change = tokio::spawn(change(parking.store.clone(), parking.name.clone()));
    parking.until_waiting(2).await;
    writers.extend((1..=BEHIND).map(writer));
    // Those whose row of the guard is taken already wait as well.
    parking.until_waiting(ALL_WAITING).await;
    parking.open().await;
    change.await.unwrap();
    let mut done = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(_) => done += 1,
            Err(Error::NotFound(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    check_told(&parking, expected, done).await
}

/// All that was committed is told once, whole positions included, and comes to what is there.
async fn check_told(parking: &Parking, expected: Event, done: usize) -> bool {
    let found = parking.read(parking.followed.position).await;
    let events: Vec<&FeedItem> = found
        .iter()
        .filter(|it| matches!(it.change, Change::Container(_)))
        .collect();
    let event = events.iter().rposition(|item| match &item.change {
        Change::Container(control) => control.event == expected,
        Change::Item(_) => false,
    });
    let event = events[event.unwrap()];
    // Each change once, and the rest from each position on is the same.
    assert_eq!(
        told(&found).iter().filter(|it| it.starts_with('r')).count(),
        10 + done
    );
    for (at, entry) in found.iter().enumerate() {
        let rest = parking.read(entry.position).await;
        assert_eq!(
            told(&rest),
            told(&found[at + 1..]),
            "behind {at}: {:?}",
            told(&found)
        );
    }
    let mut state = BTreeMap::new();
    for item in &found {
        match &item.change {
            Change::Container(control) => match control.event {
                Event::Truncated | Event::Dropped => state.clear(),
                _ => {}
            },
            Change::Item(record) => {
                state.insert(record.locator.row_key.clone(), record.payload.clone());
            }
        }
        let is_behind = item.position > event.position;
        let is_renamed = item.term.name.container == "renamed";
        if expected == Event::Renamed && !matches!(item.change, Change::Container(_)) {
            assert_eq!(is_behind, is_renamed, "{:?}", told(&found));
        }
    }
    let name = match expected {
        Event::Renamed => ContainerName::new("test", "db", "renamed"),
        _ => parking.name.clone(),
    };
    if expected == Event::Dropped {
        assert_eq!(told(&found).last().map(String::as_str), Some("Dropped"));
    } else {
        let mut transaction = parking.store.begin().await.unwrap();
        let container = transaction.container(&name).await.unwrap();
        let page = PageRequest::default();
        let all = transaction
            .scan(&container, &Span::All, &page)
            .await
            .unwrap();
        let all = all
            .items
            .into_iter()
            .map(|it| (it.locator.row_key, it.body));
        assert_eq!(all.collect::<BTreeMap<_, _>>(), state);
        drop(transaction);
        assert_eq!(
            parking.store.verify(&name).await.unwrap(),
            Vec::<String>::new()
        );
    }
    event.position.displaced.is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_that_a_truncate_waits_for_are_told_before_it() {
    let is_displaced = overtaken(Event::Truncated, |store, name| async move {
        store.truncate_container(&name).await.unwrap();
    });
    assert!(
        is_displaced.await,
        "a writer had a larger number than the truncate"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_that_a_rename_waits_for_are_told_before_it() {
    overtaken(Event::Renamed, |store, name| async move {
        let other = ContainerName::new("test", "db", "renamed");
        store.rename_container(&name, &other).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_that_a_drop_waits_for_are_told_before_it() {
    overtaken(Event::Dropped, |store, name| async move {
        store.drop_container(&name).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_that_a_split_waits_for_are_not_missed() {
    overtaken(Event::Repartitioned, |store, name| async move {
        store.split_partition(&name, 0, Some(0)).await.unwrap();
    })
    .await;
}
