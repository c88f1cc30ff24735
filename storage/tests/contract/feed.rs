//! The change feed of a store, on every engine: writers, a follower beside them, and meanwhile
//! everything that a container can go through.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tessera_core::definition::{Definition, IndexDefinition, NewContainer};
use tessera_core::engine::{Engine, Scan};
use tessera_core::feed::control::Event;
use tessera_core::feed::definition::FeedId;
use tessera_core::feed::policy::{FeedScope, FeedWish, Followed};
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem, FeedRequest};
use tessera_core::feed::record::ChangeKind;
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model};
use tessera_core::name::ContainerName;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::rebuild::NewPlacement;
use tessera_core::store::StoreOptions;
use tessera_core::{Error, Result, Store, key};
use tokio::time::Instant;

use crate::harness::{Harness, collect, snapshot};

const WRITERS: usize = 8;
/// Items of each writer, which no other one touches.
const ITEMS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// Places items by what their bodies begin with, after a relocation.
struct ByBody;

impl Model for ByBody {
    fn index_entries(
        &self,
        _definition: &Definition,
        _indexes: &[IndexDefinition],
        _item: &Item,
    ) -> Result<Vec<IndexEntry>> {
        Ok(Vec::new())
    }

    fn relocate(&self, _target: &Definition, item: &Item) -> Result<Locator> {
        Ok(place(&item.locator.row_key, "moved "))
    }
}

fn place(row: &[u8], prefix: &str) -> Locator {
    let partition = [prefix.as_bytes(), row].concat();
    Locator::murmur3(partition, Bytes::copy_from_slice(row))
}

async fn open(engine: Arc<dyn Engine>) -> Store {
    let model: Arc<dyn Model> = Arc::new(ByBody);
    let options = StoreOptions {
        models: HashMap::from([("test".to_owned(), model)]),
        ..StoreOptions::default()
    };
    Store::open(engine, options).await.unwrap()
}

fn named(container: &str) -> ContainerName {
    ContainerName::new("test", "db", container)
}

async fn create(store: &Store, partitions: u32) -> ContainerName {
    let name = named("c");
    let new = NewContainer {
        partitions,
        ..NewContainer::default()
    };
    store.create_container(&name, &new).await.unwrap();
    name
}

async fn follow(store: &Store, name: &ContainerName) -> Followed {
    let scope = FeedScope::Container(name.clone());
    store.follow(&scope, &FeedWish::default()).await.unwrap()
}

/// One page, small, so that many end in the middle of a commit.
async fn page(store: &Store, feed: FeedId, after: &mut Position) -> Result<(Vec<FeedItem>, bool)> {
    let mut request = FeedRequest::after(*after);
    request.max_entries = 7;
    let page = store.read_feed(feed, &request).await?;
    *after = page.position;
    Ok((page.items, page.has_more || page.is_pending))
}

/// Everything behind a position, once it is complete.
async fn rest(store: &Store, feed: FeedId, mut after: Position) -> Result<Vec<FeedItem>> {
    let deadline = Instant::now() + PATIENCE;
    let mut found = Vec::new();
    loop {
        let (items, is_more) = page(store, feed, &mut after).await?;
        found.extend(items);
        if !is_more {
            return Ok(found);
        }
        assert!(Instant::now() < deadline, "the feed never ends");
    }
}

/// What a writer did to an item: its new body, or none if it removed it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Write {
    row: Bytes,
    body: Option<Bytes>,
}

/// A write that was answered, and when it began and ended, in steps of a clock that all share.
#[derive(Clone, Debug)]
struct Answered {
    write: Write,
    began: usize,
    ended: usize,
}

/// Writers that go on until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    clock: Arc<AtomicUsize>,
    writers: Vec<tokio::task::JoinHandle<Vec<Answered>>>,
}

impl Load {
    /// Every store gets its share of the writers.
    fn start(stores: &[Store]) -> Self {
        let (stop, clock) = (Arc::default(), Arc::default());
        let writer = |number: usize| {
            let store = stores[number % stores.len()].clone();
            let (stop, clock) = (Arc::clone(&stop), Arc::clone(&clock));
            tokio::spawn(write(store, number, stop, clock))
        };
        let writers = (0..WRITERS).map(writer).collect();
        Self {
            stop,
            clock,
            writers,
        }
    }

    fn now(&self) -> usize {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits until a number of writes more were answered.
    async fn go_on(&self, writes: usize) {
        let until = self.clock.load(Ordering::SeqCst) + 2 * writes;
        let deadline = Instant::now() + PATIENCE;
        while self.clock.load(Ordering::SeqCst) < until {
            assert!(Instant::now() < deadline, "the writers hang");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What each writer did, in its order.
    async fn end(self) -> Vec<Vec<Answered>> {
        self.stop.store(true, Ordering::Release);
        let mut all = Vec::new();
        for writer in self.writers {
            all.push(writer.await.unwrap());
        }
        all
    }
}

async fn write(
    store: Store,
    writer: usize,
    stop: Arc<AtomicBool>,
    clock: Arc<AtomicUsize>,
) -> Vec<Answered> {
    let mut done = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let row = Bytes::from(format!("{writer}/{}", number * 7 % ITEMS));
        let body = (number % 5 != 4).then(|| Bytes::from(format!("{writer} {number}")));
        let write = Write { row, body };
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let did = apply(&store, &write).await;
        let ended = clock.fetch_add(1, Ordering::SeqCst);
        // A removal of what is not there changes nothing.
        if did {
            done.push(Answered {
                write,
                began,
                ended,
            });
        }
    }
    done
}

/// Writes wherever the container is now; answers whether there was anything to do.
async fn apply(store: &Store, write: &Write) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for name in ["c", "renamed"] {
            match apply_to(store, named(name), write.clone()).await {
                Ok(did) => return did,
                Err(Error::NotFound(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert!(Instant::now() < deadline, "the container is nowhere");
    }
}

async fn apply_to(store: &Store, name: ContainerName, write: Write) -> Result<bool> {
    let run = store.run(&[], move |transaction| {
        let (name, write) = (name.clone(), write.clone());
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            let is_moved = container.definition.schema == "moved";
            let prefix = if is_moved { "moved " } else { "" };
            let locator = place(&write.row, prefix);
            if let Some(body) = write.body {
                let new = NewItem::new(locator, body);
                transaction.upsert(&container, new).await?;
                return Ok(true);
            }
            let old = transaction.read(&container, &locator).await?;
            if let Some(old) = &old {
                transaction.remove(&container, old).await?;
            }
            Ok::<_, Error>(old.is_some())
        })
    });
    Ok(run.await?.value)
}

/// What the feed tells of items, in its order.
fn told(items: &[FeedItem]) -> Vec<Write> {
    let write = |item: &FeedItem| match &item.change {
        Change::Item(record) => Some(Write {
            row: record.locator.row_key.clone(),
            body: (record.kind != ChangeKind::Delete).then(|| record.payload.clone()),
        }),
        Change::Container(_) => None,
    };
    items.iter().filter_map(write).collect()
}

fn writer_of(write: &Write) -> usize {
    let row = std::str::from_utf8(&write.row).unwrap();
    row.split_once('/').unwrap().0.parse().unwrap()
}

/// What is told of each writer, in order.
fn by_writer(told: &[Write]) -> Vec<Vec<Write>> {
    let mut writers = vec![Vec::new(); WRITERS];
    for write in told {
        writers[writer_of(write)].push(write.clone());
    }
    writers
}

/// A write that was answered before another one began is told before it.
fn assert_in_real_time(told: &[Write], answered: &[Vec<Answered>]) {
    let mut next = [0; WRITERS];
    let mut times = Vec::new();
    for write in told {
        let writer = writer_of(write);
        let answer = &answered[writer][next[writer]];
        assert_eq!(answer.write, *write);
        next[writer] += 1;
        times.push((answer.began, answer.ended));
    }
    let mut earliest_end = usize::MAX;
    for (at, (began, ended)) in times.iter().enumerate().rev() {
        assert!(
            earliest_end > *began,
            "{at}: told before what had ended when it began"
        );
        earliest_end = earliest_end.min(*ended);
    }
}

fn replayed(items: &[FeedItem]) -> BTreeMap<Bytes, Bytes> {
    let mut state = BTreeMap::new();
    for item in items {
        match &item.change {
            Change::Container(control) if control.event == Event::Truncated => state.clear(),
            Change::Container(_) => {}
            Change::Item(record) if record.kind == ChangeKind::Delete => {
                state.remove(&record.locator.row_key);
            }
            Change::Item(record) => {
                state.insert(record.locator.row_key.clone(), record.payload.clone());
            }
        }
    }
    state
}

async fn held(store: &Store, name: &ContainerName) -> BTreeMap<Bytes, Bytes> {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    let mut request = PageRequest::default();
    let mut held = BTreeMap::new();
    loop {
        let page = transaction.scan(&container, &Span::All, &request).await;
        let page = page.unwrap();
        let items = page.items.into_iter();
        held.extend(items.map(|it| (it.locator.row_key, it.body)));
        request.continuation = page.continuation;
        if request.continuation.is_none() {
            return held;
        }
    }
}

/// Follows until it is told that all is written, and then to the end.
fn follower(
    store: Store,
    followed: Followed,
    done: Arc<AtomicBool>,
) -> tokio::task::JoinHandle<Vec<FeedItem>> {
    tokio::spawn(async move {
        let (mut seen, mut after) = (Vec::new(), followed.position);
        loop {
            let was_done = done.load(Ordering::Acquire);
            let (items, is_more) = page(&store, followed.feed, &mut after).await.unwrap();
            seen.extend(items);
            if was_done && !is_more {
                return seen;
            }
            tokio::task::yield_now().await;
        }
    })
}

/// Stores on the engine: several servers, where the engine knows that.
async fn stores(harness: &Harness) -> Vec<Store> {
    let engine = harness.open();
    let is_shared = engine.capabilities().shared;
    let mut stores = vec![open(engine).await];
    if is_shared {
        stores.push(open(harness.open()).await);
    }
    stores
}

/// Everything that happens to a container in its life, with writes in between.
async fn change_shape(store: &Store, load: &Load) {
    let name = named("c");
    load.go_on(40).await;
    let (left, _) = store.split_partition(&name, 0, None).await.unwrap();
    load.go_on(40).await;
    store.merge_partitions(&name, left).await.unwrap();
    load.go_on(40).await;
    let renamed = named("renamed");
    store.rename_container(&name, &renamed).await.unwrap();
    load.go_on(40).await;
    store.truncate_container(&renamed).await.unwrap();
    load.go_on(40).await;
    let placement = NewPlacement {
        schema: "moved".into(),
        partitions: 3,
        ..NewPlacement::default()
    };
    let job = store.begin_relocation(&renamed, &placement).await.unwrap();
    load.go_on(40).await;
    store.run_job(job).await.unwrap();
    load.go_on(40).await;
    store.rename_container(&renamed, &name).await.unwrap();
    load.go_on(40).await;
}

pub(crate) async fn every_change_is_told_once_and_in_order_whatever_the_container_goes_through(
    harness: Harness,
) {
    let stores = stores(&harness).await;
    let (first, last) = (stores.first().unwrap(), stores.last().unwrap());
    let name = create(first, 2).await;
    let followed = follow(first, &name).await;
    let done = Arc::new(AtomicBool::new(false));
    let follower = follower(last.clone(), followed, Arc::clone(&done));
    let load = Load::start(&stores);
    change_shape(first, &load).await;
    let answered = load.end().await;
    done.store(true, Ordering::Release);
    let seen = follower.await.unwrap();
    assert!(seen.is_sorted_by(|one, other| one.position < other.position));
    let writes = told(&seen);
    let of_writers = by_writer(&writes);
    for (writer, answered) in answered.iter().enumerate() {
        let wrote: Vec<Write> = answered.iter().map(|it| it.write.clone()).collect();
        assert_eq!(of_writers[writer], wrote, "of writer {writer}");
    }
    assert_in_real_time(&writes, &answered);
    assert_eq!(replayed(&seen), held(first, &name).await);
    let events = seen.iter().filter_map(|item| match &item.change {
        Change::Container(control) => Some(control.event),
        Change::Item(_) => None,
    });
    let expected = [
        Event::Repartitioned,
        Event::Repartitioned,
        Event::Renamed,
        Event::Truncated,
        Event::Relocated,
        Event::Renamed,
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected);
    // Whoever comes back with any position hears the same.
    for at in (0..seen.len()).step_by(seen.len() / 20 + 1) {
        let again = rest(last, followed.feed, seen[at].position).await.unwrap();
        assert_eq!(told(&again), told(&seen[at + 1..]), "behind {at}");
    }
    assert_eq!(first.verify(&name).await.unwrap(), Vec::<String>::new());
}

pub(crate) async fn a_feed_turned_on_beside_writers_tells_all_that_begins_later(harness: Harness) {
    let stores = stores(&harness).await;
    let store = stores.last().unwrap();
    let name = create(store, 2).await;
    let load = Load::start(&stores);
    load.go_on(60).await;
    let followed = follow(store, &name).await;
    let on = load.now();
    load.go_on(60).await;
    let answered = load.end().await;
    let of_writers = by_writer(&told(
        &rest(store, followed.feed, followed.position).await.unwrap(),
    ));
    let mut sum = 0;
    for (told, answered) in of_writers.iter().zip(&answered) {
        let wrote: Vec<Write> = answered.iter().map(|it| it.write.clone()).collect();
        assert!(
            wrote.ends_with(told),
            "each once, in order, and none left out"
        );
        let later = answered.iter().filter(|it| it.began > on).count();
        assert!(told.len() >= later, "{} of {later}", told.len());
        sum += later;
    }
    assert!(sum > 0, "nobody wrote any more");
}

pub(crate) async fn nobody_following_leaves_the_log_empty(harness: Harness) {
    let engine = harness.open();
    let store = open(Arc::clone(&engine)).await;
    let name = create(&store, 2).await;
    let load = Load::start(std::slice::from_ref(&store));
    load.go_on(30).await;
    store.split_partition(&name, 0, None).await.unwrap();
    store.truncate_container(&name).await.unwrap();
    load.go_on(30).await;
    load.end().await;
    let scan = Scan::new(key::log());
    let found = collect(snapshot(&engine).await.as_ref(), scan).await;
    assert_eq!(found, []);
}

/// Writes some items one after the other; answers what.
async fn write_some(store: &Store, numbers: std::ops::Range<usize>) -> Vec<Write> {
    let mut done = Vec::new();
    for number in numbers {
        let write = Write {
            row: Bytes::from(format!("0/{}", number % ITEMS)),
            body: Some(Bytes::from(number.to_string())),
        };
        assert!(apply(store, &write).await);
        done.push(write);
    }
    done
}

pub(crate) async fn every_position_is_good_after_a_restart(harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let engine = harness.open();
    let store = open(Arc::clone(&engine)).await;
    let name = create(&store, 2).await;
    let followed = follow(&store, &name).await;
    let mut wrote = write_some(&store, 0..20).await;
    store.split_partition(&name, 1, None).await.unwrap();
    wrote.extend(write_some(&store, 20..30).await);
    let before = rest(&store, followed.feed, followed.position)
        .await
        .unwrap();
    engine.close().await.unwrap();
    drop((store, engine));
    let store = open(harness.open()).await;
    wrote.extend(write_some(&store, 30..40).await);
    let again = follow(&store, &name).await;
    assert_eq!(again.feed, followed.feed);
    assert!(again.position > followed.position);
    let all = rest(&store, followed.feed, followed.position)
        .await
        .unwrap();
    assert_eq!(told(&all), wrote);
    for (at, item) in before.iter().enumerate() {
        let later = rest(&store, followed.feed, item.position).await.unwrap();
        assert_eq!(told(&later), told(&all[at + 1..]), "behind {at}");
    }
}

/// Of data that was set back to an earlier moment: what was told up to then is a good position, and
/// what was told afterwards is of a history that this data never had.
async fn assert_set_back(
    store: &Store,
    (followed, kept): (Followed, Position),
    (before, discarded): (&[Write], &[FeedItem]),
) {
    let all = rest(store, followed.feed, followed.position).await.unwrap();
    assert_eq!(told(&all), before);
    let another = write_some(store, 50..60).await;
    assert_eq!(
        told(&rest(store, followed.feed, kept).await.unwrap()),
        another
    );
    for item in discarded {
        let lost = rest(store, followed.feed, item.position).await;
        assert!(matches!(lost, Err(Error::HistoryLost(_))), "{lost:?}");
    }
}

pub(crate) async fn positions_that_a_copy_or_a_backup_never_had_are_lost_and_the_others_good(
    harness: Harness,
) {
    let engine = harness.open();
    let store = open(Arc::clone(&engine)).await;
    let name = create(&store, 2).await;
    let followed = follow(&store, &name).await;
    let before = write_some(&store, 0..20).await;
    let kept = rest(&store, followed.feed, followed.position)
        .await
        .unwrap();
    let kept = kept.last().unwrap().position;
    if harness.has_checkpoints() {
        engine.checkpoint(&harness.path("backup")).await.unwrap();
    }
    let target: Arc<dyn Engine> = Arc::new(tessera_storage::MemoryEngine::new());
    let copied = tessera_storage::copy::copy(engine.as_ref(), target.as_ref(), |_| {});
    copied.await.unwrap();
    write_some(&store, 20..40).await;
    let discarded = rest(&store, followed.feed, kept).await.unwrap();
    assert_eq!(discarded.len(), 20);
    let (marks, histories) = ((followed, kept), (before.as_slice(), discarded.as_slice()));
    assert_set_back(&open(target).await, marks, histories).await;
    if harness.has_checkpoints() {
        let backup = open(harness.open_at("backup")).await;
        assert_set_back(&backup, marks, histories).await;
    }
    // The source goes on as if nothing had happened.
    let all = rest(&store, followed.feed, followed.position).await;
    assert_eq!(all.unwrap().len(), 40);
}
