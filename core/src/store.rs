//! The store: a cheap handle over the engine, the catalog and the background work.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::budget::{Budgets, Throttling, Turn};
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::convoy::{ItemLatches, Refused, Ride};
use crate::engine::{BoxFuture, Engine};
use crate::error::{Error, Result, StatementError};
use crate::feed::retention::FeedOptions;
use crate::feed::stamp::Stamp;
use crate::feed::waking::Feeds;
use crate::intent::{HeldIntents, Intents};
use crate::job::JobId;
use crate::key::{self, StorageId, system};
use crate::latch::{LatchedItem, Latches};
use crate::limits::Limits;
use crate::memory_budget::MemoryBudget;
use crate::model::Model;
use crate::sequence::Sequence;
use crate::throughput::Meter;
use crate::transaction::{Committed, Manner, Transaction};

/// The version of the key shapes and values that this code reads and writes.
const FORMAT: &[u8] = b"1";

/// The format once a feed was turned on: a release without feeds would write without recording its
/// changes.
const FORMAT_WITH_FEEDS: &[u8] = b"2";

/// How often a statement runs again after a conflict before it fails.
const MAX_ATTEMPTS: u32 = 100;
/// The longest pause between two attempts.
const MAX_PAUSE_MS: u64 = 20;

/// How long a statement waits in all for memory.
const LONGEST_SHORTAGE: Duration = Duration::from_secs(10);

/// How long a statement waits in all for the write intents of open transactions.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

/// Everything the front ends share. Clones are handles to the same store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn Engine>,
    catalog: Arc<Catalog>,
    clock: Clock,
    memory: MemoryBudget,
    latches: Arc<ItemLatches>,
    intents: Arc<Intents>,
    budgets: Budgets,
    storage_ids: Sequence,
    job_ids: Sequence,
    /// Identifies this process among others on the same data, and from itself before a restart.
    instance: u64,
    running_jobs: Mutex<HashSet<JobId>>,
    /// How often other servers announced a change.
    news: AtomicU64,
    /// Changes when there may be background work.
    background: watch::Sender<()>,
    feeds: Arc<Feeds>,
    feed_options: FeedOptions,
}

/// The options with which a store is opened.
pub struct StoreOptions {
    /// The model of each API's front end, by the API's name.
    pub models: HashMap<String, Arc<dyn Model>>,
    /// The clock.
    pub clock: Clock,
    /// How requests beyond their throughput are treated.
    pub throttling: Throttling,
    /// Limits of partitions that override those of their API.
    pub limits: Limits,
    /// The memory that all requests share.
    pub memory: MemoryBudget,
    /// Whether heat is recorded for [`crate::insight`].
    pub insight: bool,
    /// How change feeds are kept.
    pub feeds: FeedOptions,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            models: HashMap::new(),
            clock: Clock::system(),
            throttling: Throttling::default(),
            limits: Limits::default(),
            memory: MemoryBudget::unlimited(),
            insight: true,
            feeds: FeedOptions::default(),
        }
    }
}

/// The result of a statement, and its cost.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// The statement's own result.
    pub value: T,
    /// The work done and its cost.
    pub meter: Meter,
    /// The engine's version of the commit.
    pub version: u64,
    /// The last stamp that its entries of the change feed can have; none if it has none.
    pub stamp: Option<Stamp>,
}

impl Store {
    /// Opens the store on an engine, which it marks with its format or checks against it.
    pub async fn open(engine: Arc<dyn Engine>, options: StoreOptions) -> Result<Self> {
        mark_format(engine.as_ref()).await?;
        let shared_engine = engine.capabilities().shared;
        let store = Self {
            shared: Arc::new(Shared {
                engine,
                catalog: Arc::new(Catalog::new(
                    options.models,
                    (options.limits, options.insight),
                    shared_engine,
                )),
                budgets: Budgets::new(options.clock.clone(), options.throttling, shared_engine),
                clock: options.clock,
                memory: options.memory,
                latches: Arc::new(Latches::new()),
                intents: Arc::new(Intents::new()),
                storage_ids: Sequence::new("storage_id"),
                job_ids: Sequence::new("job_id"),
                instance: RandomState::new().build_hasher().finish(),
                running_jobs: Mutex::default(),
                news: AtomicU64::new(0),
                background: watch::Sender::new(()),
                feeds: Arc::default(),
                feed_options: options.feeds,
            }),
        };
        if store.feed_options().always {
            store.prepare_feeds().await?;
        }
        Ok(store)
    }

    /// Begins a transaction at this moment. Its writes are checked for conflicts at the commit
    /// only; statements go through [`Self::run`].
    pub async fn begin(&self) -> Result<Box<Transaction>> {
        self.begin_as(Manner::Heedless).await
    }

    /// Begins a transaction that stays open across a client's round trips, for `lifetime` at most.
    /// Its write intents conflict at once with other writers: another open transaction gets
    /// [`Error::Conflict`], a statement waits.
    pub async fn open_transaction(&self, lifetime: Duration) -> Result<Box<Transaction>> {
        self.begin_as(self.open_manner(lifetime)).await
    }

    pub(crate) fn open_manner(&self, lifetime: Duration) -> Manner {
        let intents = Arc::clone(&self.shared.intents);
        Manner::Open(HeldIntents::new(intents, lifetime))
    }

    pub(crate) async fn begin_statement(&self) -> Result<Box<Transaction>> {
        self.begin_as(Manner::Statement).await
    }

    async fn begin_as(&self, manner: Manner) -> Result<Box<Transaction>> {
        let engine = &self.shared.engine;
        let snapshot = match manner {
            Manner::Heedless | Manner::Statement => engine.snapshot().await?,
            Manner::Open(_) => engine.snapshot_to_keep().await?,
        };
        // Boxed: half a KiB, which each future above would move.
        Ok(Box::new(Transaction::new(self.clone(), snapshot, manner)))
    }

    /// Runs one statement as a transaction, again after each conflict; if it fails, nothing of it
    /// is applied. `items` are those it is known to change: writers of the same items wait for each
    /// other instead of conflicting, and those that wait share a commit.
    pub async fn run<T, E, F>(
        &self,
        items: &[LatchedItem<'_>],
        statement: F,
    ) -> std::result::Result<Outcome<T>, E>
    where
        F: for<'a> Fn(&'a mut Transaction) -> BoxFuture<'a, std::result::Result<T, E>>
            + Send
            + Sync,
        T: Send,
        E: StatementError,
    {
        let (mut attempt, mut waiting_since, mut joins) = (0, None, true);
        let mut turn: Option<Turn> = None;
        let mut memory_until = None;
        loop {
            let latched = self.latches().lock(items, joins).await;
            let mut ride = Ride::begin(self, latched, joins).await?;
            if let Some(turn) = turn {
                ride.transaction().bill.has_waited(turn);
            }
            let done = statement(ride.transaction()).await;
            let blocked = match done {
                Ok(value) => match ride.commit().await {
                    Ok(committed) => return Ok(Outcome::new(value, committed)),
                    Err(Refused { error, .. }) if error.is_conflict() => None,
                    // The cause may be an uncommitted write of another statement.
                    Err(Refused {
                        in_company: true, ..
                    }) => {
                        joins = false;
                        continue;
                    }
                    Err(Refused { error, .. }) => return Err(error.into()),
                },
                Err(error) if error.is_conflict() => {
                    let holder = ride.transaction().take_blocker();
                    // Latches are not held while waiting for another client.
                    ride.leave();
                    holder.map(|holder| (error, holder))
                }
                Err(_) if ride.transaction().may_find_memory_after(memory_until) => {
                    let refused = ride.transaction().take_shortage();
                    // Latches are not held while waiting for memory.
                    ride.leave();
                    let until =
                        *memory_until.get_or_insert_with(|| Instant::now() + LONGEST_SHORTAGE);
                    if let Some(refused) = refused {
                        Box::pin(self.memory().wait_for(refused, until)).await;
                    }
                    continue;
                }
                Err(error) => match ride.transaction().bill.take_turn() {
                    // Nor while waiting for throughput.
                    Some(next) => {
                        ride.leave();
                        turn = Some(next);
                        Box::pin(tokio::time::sleep_until(next.at)).await;
                        continue;
                    }
                    None => match ride.fail().await {
                        true => return Err(error),
                        false => None,
                    },
                },
            };
            match blocked {
                None => self.pause_before_retry(&mut attempt).await?,
                Some((error, holder)) => {
                    let limit = *waiting_since.get_or_insert_with(Instant::now) + LONGEST_WAIT;
                    if Instant::now() >= limit {
                        return Err(error);
                    }
                    holder.wait(limit).await;
                }
            }
        }
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The memory that all requests share.
    pub fn memory(&self) -> &MemoryBudget {
        &self.shared.memory
    }

    /// A number that grows when another server on the same engine announced a change of
    /// definitions. It may come late or be missing: a hint that cached definitions should be read
    /// again.
    pub fn news(&self) -> u64 {
        self.shared.news.load(Ordering::Acquire)
    }

    /// Records that another server announced a change of `key`, or of any key if it is empty.
    pub(crate) fn hear(&self, key: &[u8]) {
        if key.is_empty() || key::is_log(key) {
            self.feeds().wake_all();
        }
        if key::is_log(key) {
            return;
        }
        if let Some(storage) = key::parse_definition_version(key) {
            self.catalog().outdate(storage);
        }
        self.shared.news.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn feeds(&self) -> &Arc<Feeds> {
        &self.shared.feeds
    }

    pub(crate) fn feed_options(&self) -> FeedOptions {
        self.shared.feed_options
    }

    /// Marks the data with the format that servers without feeds refuse.
    pub(crate) async fn mark_format_of_feeds(&self) -> Result<()> {
        let marked = self.run(&[], |transaction| {
            Box::pin(async move {
                let key = key::system_key(system::FORMAT, &[]);
                if transaction.get(&key).await?.as_deref() != Some(FORMAT_WITH_FEEDS) {
                    let format = Bytes::from_static(FORMAT_WITH_FEEDS);
                    transaction.writes.put(key, format);
                }
                Ok::<_, Error>(())
            })
        });
        marked.await.map(drop)
    }

    pub(crate) fn latches(&self) -> &Arc<ItemLatches> {
        &self.shared.latches
    }

    pub(crate) fn intents(&self) -> &Intents {
        &self.shared.intents
    }

    pub(crate) fn budgets(&self) -> &Budgets {
        &self.shared.budgets
    }

    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.shared.catalog
    }

    /// Takes a storage id that was never used.
    pub(crate) async fn take_storage_id(&self) -> Result<StorageId> {
        self.shared.storage_ids.next(self.engine().as_ref()).await
    }

    pub(crate) async fn take_job_id(&self) -> Result<JobId> {
        self.shared.job_ids.next(self.engine().as_ref()).await
    }

    pub(crate) fn instance(&self) -> u64 {
        self.shared.instance
    }

    /// The jobs that this process works on right now.
    pub(crate) fn running_jobs(&self) -> MutexGuard<'_, HashSet<JobId>> {
        let running = self.shared.running_jobs.lock();
        running.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the background loops.
    pub(crate) fn wake_background(&self) {
        self.shared.background.send_replace(());
    }

    /// Changes whenever there may be background work.
    pub(crate) fn background_work(&self) -> watch::Receiver<()> {
        self.shared.background.subscribe()
    }

    /// Waits a little longer after each conflict, and fails after [`MAX_ATTEMPTS`] of them.
    pub(crate) async fn pause_before_retry(&self, attempt: &mut u32) -> Result<()> {
        *attempt += 1;
        if *attempt >= MAX_ATTEMPTS {
            return Err(Error::Conflict);
        }
        if *attempt <= 2 {
            tokio::task::yield_now().await;
            return Ok(());
        }
        // Different waiters get different pauses from the clock's low digits, which spreads them.
        let spread = self.clock().next_version(0) % 4;
        let pause = (1 << (*attempt / 2).min(5)).min(MAX_PAUSE_MS) + spread;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        Ok(())
    }
}

impl<T> Outcome<T> {
    fn new(value: T, committed: Committed) -> Self {
        Self {
            value,
            meter: committed.meter,
            version: committed.version,
            stamp: committed.stamp,
        }
    }
}

/// Refuses data of another format than this code reads and writes.
pub(crate) fn check_format(stored: &[u8]) -> Result<()> {
    if stored == FORMAT || stored == FORMAT_WITH_FEEDS {
        return Ok(());
    }
    Err(Error::Rejected(format!(
        "the data has format {}, and this version of tessera reads formats up to \
         {}; use the version that wrote it, or a newer one",
        String::from_utf8_lossy(stored),
        String::from_utf8_lossy(FORMAT_WITH_FEEDS),
    )))
}

/// Marks an empty engine with the format, and refuses one that was written by a newer version.
async fn mark_format(engine: &dyn Engine) -> Result<()> {
    let key = key::system_key(system::FORMAT, &[]);
    let snapshot = engine.snapshot().await?;
    match snapshot.get(&key).await? {
        Some(format) => check_format(&format),
        None => {
            let mut writes = crate::write_set::WriteSet::default();
            writes.put(key, Bytes::from_static(FORMAT));
            // A conflict means that another server marked it at the same moment.
            snapshot.commit(writes).await?;
            Ok(())
        }
    }
}
