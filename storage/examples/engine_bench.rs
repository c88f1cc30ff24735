//! How much of RocksDB's own speed is left above it, as ratios taken in one run, each beside its
//! limit.
//!
//! ```text
//! cargo run --release -p tessera-storage --example engine_bench -- [--items N] [--rounds N]
//! ```
//!
//! Two workloads: 32 tasks that each write 1 KiB items with a sync, and 2 threads that read 1 KiB
//! items at random from a million in memory. Each runs on several [`Subject`]s: RocksDB alone with
//! the engine's own options and the same grouping of writes, and what is built on it. A further
//! layer is one more `Subject`. Short rounds alternate between subjects and the median of their
//! ratios counts: what a sync takes doubles and halves within seconds. A third workload has 32
//! tasks increment one counter through transactions of the core. Fails if a figure misses its
//! limit.

use std::error::Error;
use std::future::Future;
use std::io::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DB, WaitForCompactOptions, WriteBatch, WriteOptions};
use tessera_core::Store;
use tessera_core::definition::NewContainer;
use tessera_core::engine::Engine;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_core::write_set::WriteSet;
use tessera_storage::{Durability, EngineConfig, GroupSender, group_queue};
use tokio::sync::oneshot;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

const VALUE_BYTES: usize = 1_024;
const MEMORY_BYTES: usize = 2 << 30;
const WRITERS: u64 = 32;
const READERS: u64 = 2;
const ROUND: Duration = Duration::from_millis(500);
const COUNTING: Duration = Duration::from_millis(1_500);
const MIN_RATIO: f64 = 0.7;
const MIN_INCREMENTS: f64 = 5_000.0;

/// How much is measured.
#[derive(Clone, Copy)]
struct Scale {
    items: u64,
    rounds: u32,
}

impl Scale {
    fn of_arguments() -> Result<Self, Failure> {
        let mut scale = Self {
            items: 1_000_000,
            rounds: 15,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let number = arguments.next().ok_or("a number is missing")?;
            match name.as_str() {
                "--items" => scale.items = number.parse()?,
                "--rounds" => scale.rounds = number.parse()?,
                _ => return Err(format!("unknown argument {name}").into()),
            }
        }
        Ok(scale)
    }
}

/// Something that stores items and gives them back. Each layer to measure is one of these.
trait Subject: Send + Sync {
    fn name(&self) -> &'static str;

    /// Stores one item, durably.
    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<'_, ()>;

    /// Reads one item; its length is enough.
    fn get(&self, key: Bytes) -> BoxFuture<'_, usize>;
}

/// RocksDB alone: a thread gathers what waits into one batch and one sync, with the engine's own
/// queue.
struct Raw {
    database: Arc<DB>,
    queue: GroupSender<RawPut>,
}

/// What to write, and who waits for it.
type RawPut = (Bytes, Bytes, oneshot::Sender<()>);

impl Raw {
    fn open(path: &Path) -> Result<Self, Failure> {
        let options = tessera_storage::rocks_options(MEMORY_BYTES);
        let database = Arc::new(DB::open(&options, path)?);
        let (queue, mut waiting) = group_queue::<RawPut>();
        let writer = Arc::clone(&database);
        std::thread::spawn(move || -> Result<(), rocksdb::Error> {
            let mut synced = WriteOptions::default();
            synced.set_sync(true);
            while let Ok(first) = waiting.first(None, true) {
                let mut puts = vec![first];
                waiting.gather(true, |put| {
                    puts.push(put);
                    true
                });
                let start = Instant::now();
                let mut batch = WriteBatch::default();
                for (key, value, _) in &puts {
                    batch.put(key, value);
                }
                writer.write_opt(batch, &synced)?;
                waiting.finished(puts.len(), start.elapsed());
                for (_, _, answer) in puts {
                    answer.send(()).ok();
                }
            }
            Ok(())
        });
        Ok(Self { database, queue })
    }
}

impl Subject for Raw {
    fn name(&self) -> &'static str {
        "RocksDB alone"
    }

    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let (answer, done) = oneshot::channel();
            let gone = |_| "the writer is gone";
            self.queue.send((key, value, answer)).map_err(gone)?;
            Ok(done.await?)
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let value = self
                .database
                .get_pinned(&key)?
                .ok_or("an item is missing")?;
            Ok(Bytes::copy_from_slice(&value).len())
        })
    }
}

/// The engine: one commit of one put, one snapshot and one get.
struct OverEngine(Arc<dyn Engine>);

impl Subject for OverEngine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut writes = WriteSet::default();
            writes.put(key, value);
            self.0.snapshot().await?.commit(writes).await?;
            Ok(())
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let value = self.0.snapshot().await?.get(&key).await?;
            Ok(value.ok_or("an item is missing")?.len())
        })
    }
}

/// The core: one transaction that inserts an item with all that belongs to it, or reads one.
struct OverCore {
    store: Store,
    container: Arc<ContainerName>,
}

impl OverCore {
    async fn open(path: &Path, durability: Durability) -> Result<Self, Failure> {
        let engine = tessera_storage::open(&config(path, durability))?;
        let store = Store::open(engine, StoreOptions::default()).await?;
        let container = Arc::new(ContainerName::new("bench", "db", "items"));
        Ok(Self { store, container })
    }

    async fn create(path: &Path, durability: Durability) -> Result<Self, Failure> {
        let new = Self::open(path, durability).await?;
        let definition = NewContainer::default();
        new.store
            .create_container(&new.container, &definition)
            .await?;
        Ok(new)
    }

    /// A store that holds all items, as compact as RocksDB alone does, with nothing in memtables:
    /// reads look into those first.
    async fn loaded(path: &Path, items: u64) -> Result<Self, Failure> {
        let loading = Self::create(path, Durability::Group).await?;
        for first in (0..items).step_by(1_000) {
            let mut transaction = loading.store.begin().await?;
            let container = transaction.container(&loading.container).await?;
            for number in first..items.min(first + 1_000) {
                let new = NewItem::new(locator(key(number)), value(number));
                transaction.insert(&container, new).await?;
            }
            transaction.commit().await?;
        }
        loading.store.engine().close().await?;
        drop(loading);
        let options = tessera_storage::rocks_options(MEMORY_BYTES);
        compact(&DB::open(&options, path.join("rocks"))?)?;
        Self::open(path, Durability::Group).await
    }

    /// Adds one to the number in an item.
    async fn increment(&self) -> Result<(), Failure> {
        let counter = locator(Bytes::from_static(b"counter"));
        let changed = [(&*self.container, &counter)];
        let increment = self.store.run(&changed, |transaction| {
            let (name, counter) = (Arc::clone(&self.container), counter.clone());
            Box::pin(async move {
                let container = transaction.container(&name).await?;
                let old = transaction.read(&container, &counter).await?;
                let count = old.as_ref().map_or(0, |old| number_in(&old.body));
                let body = Bytes::copy_from_slice(&(count + 1).to_be_bytes());
                let new = NewItem::new(counter, body);
                match old {
                    Some(old) => transaction.replace(&container, &old, new).await,
                    None => transaction.insert(&container, new).await,
                }
            })
        });
        let outcome: tessera_core::Result<_> = increment.await;
        outcome?;
        Ok(())
    }

    async fn counted(&self) -> Result<u64, Failure> {
        let mut transaction = self.store.begin().await?;
        let container = transaction.container(&self.container).await?;
        let counter = locator(Bytes::from_static(b"counter"));
        let item = transaction.read(&container, &counter).await?;
        Ok(item.map_or(0, |item| number_in(&item.body)))
    }
}

impl Subject for OverCore {
    fn name(&self) -> &'static str {
        "core"
    }

    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<'_, ()> {
        let new = NewItem::new(locator(key), value);
        Box::pin(async move {
            let insert = self.store.run(&[], |transaction| {
                let (name, new) = (Arc::clone(&self.container), new.clone());
                Box::pin(async move {
                    let container = transaction.container(&name).await?;
                    transaction.insert(&container, new).await
                })
            });
            insert.await?;
            Ok(())
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            let mut transaction = self.store.begin().await?;
            let container = transaction.container(&self.container).await?;
            let item = transaction.read(&container, &locator(key)).await?;
            Ok(item.ok_or("an item is missing")?.body.len())
        })
    }
}

fn locator(key: Bytes) -> Locator {
    Locator::murmur3(key, Bytes::new())
}

fn number_in(body: &[u8]) -> u64 {
    body.first_chunk()
        .map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn config(path: &Path, durability: Durability) -> EngineConfig {
    EngineConfig::Rocks {
        path: path.to_owned(),
        durability,
        memory_bytes: MEMORY_BYTES,
    }
}

fn main() -> Result<(), Failure> {
    let scale = Scale::of_arguments()?;
    let folder = tempfile::tempdir()?;
    let (raw_path, engine_path) = (folder.path().join("raw"), folder.path().join("engine"));
    let config = config(&engine_path, Durability::Group);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    // The engine makes its folder, then both start from one and the same data.
    runtime.block_on(tessera_storage::open(&config)?.close())?;
    let start = Instant::now();
    load(&engine_path.join("rocks"), &raw_path, scale.items)?;
    let (items, seconds) = (scale.items, start.elapsed().as_secs_f64());
    writeln!(std::io::stdout(), "{items} items written in {seconds:.1} s")?;
    let raw: Arc<dyn Subject> = Arc::new(Raw::open(&raw_path)?);
    let engine = Arc::new(OverEngine(tessera_storage::open(&config)?));
    runtime.block_on(async {
        let core = OverCore::loaded(&folder.path().join("core"), items).await?;
        let counter = folder.path().join("counter");
        let counter = OverCore::create(&counter, Durability::Periodic).await?;
        let counted = count(counter).await?;
        let subjects: Vec<Arc<dyn Subject>> = vec![raw, engine, Arc::new(core)];
        if counted & measure(&subjects, scale).await? {
            Ok(())
        } else {
            Err("a figure misses its limit".into())
        }
    })
}

/// Increments per second of one counter by many tasks, none of which may be lost.
async fn count(core: OverCore) -> Result<bool, Failure> {
    let core = Arc::new(core);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..WRITERS {
        let core = Arc::clone(&core);
        tasks.push(tokio::spawn(async move {
            let mut done = 0;
            while start.elapsed() < COUNTING {
                core.increment().await?;
                done += 1;
            }
            Ok::<u64, Failure>(done)
        }));
    }
    let mut incremented = 0;
    for task in tasks {
        incremented += task.await??;
    }
    let rate = f64::from(u32::try_from(incremented)?) / start.elapsed().as_secs_f64();
    let lost = incremented - core.counted().await?;
    writeln!(
        std::io::stdout(),
        "          core: increments of one counter, 32 tasks, periodic {rate:.0}/s \
         (limit {MIN_INCREMENTS}), {lost} lost"
    )?;
    Ok(lost == 0 && rate >= MIN_INCREMENTS)
}

/// Writes all items, lets compaction finish so that it disturbs nothing later, and copies the
/// result.
fn load(path: &Path, copy: &Path, items: u64) -> Result<(), Failure> {
    let database = DB::open(&tessera_storage::rocks_options(MEMORY_BYTES), path)?;
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    let mut items: Vec<(Bytes, u64)> = (0..items).map(|number| (key(number), number)).collect();
    items.sort();
    for chunk in items.chunks(1_000) {
        let mut batch = WriteBatch::default();
        for (key, number) in chunk {
            batch.put(key, value(*number));
        }
        database.write_opt(batch, &unlogged)?;
    }
    compact(&database)?;
    Checkpoint::new(&database)?.create_checkpoint(copy)?;
    Ok(())
}

fn compact(database: &DB) -> Result<(), Failure> {
    database.flush()?;
    database.compact_range(None::<&[u8]>, None::<&[u8]>);
    database.wait_for_compact(&WaitForCompactOptions::default())?;
    Ok(())
}

/// Prints the rates of all subjects; answers whether the core meets its limit.
async fn measure(subjects: &[Arc<dyn Subject>], scale: Scale) -> Result<bool, Failure> {
    let mut met = true;
    let mut report = std::io::stdout();
    let start = Instant::now();
    warm(subjects, scale.items).await?;
    writeln!(
        report,
        "{} items read once in {:.1} s",
        scale.items,
        start.elapsed().as_secs_f64()
    )?;
    for (workload, tasks, rounds) in [
        (Workload::Get, READERS, scale.rounds),
        // More of these: from one to the next the disk may take twice or half as long.
        (Workload::Put, WRITERS, 3 * scale.rounds),
    ] {
        let mut rates = vec![Vec::new(); subjects.len()];
        for round in 0..rounds {
            for (subject, rates) in subjects.iter().zip(&mut rates) {
                rates.push(run_round(subject, (workload, tasks), scale.items, round).await?);
            }
        }
        for (subject, own) in subjects.iter().zip(&rates) {
            let first = rates.first().unwrap_or(own);
            let ratios = own.iter().zip(first).map(|(own, first)| own / first);
            let (rate, ratio) = (median(own.iter().copied()), median(ratios));
            writeln!(
                report,
                "{:>14}: {} {rate:>9.0}/s, ratio {ratio:.2}",
                subject.name(),
                workload.name()
            )?;
            met &= subject.name() != "core" || ratio >= MIN_RATIO;
        }
    }
    writeln!(report, "the core's ratios must be at least {MIN_RATIO}")?;
    Ok(met)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Reads everything once, in key order, to have it in memory. One subject after another: what they
/// read would otherwise lie mixed up in memory.
async fn warm(subjects: &[Arc<dyn Subject>], items: u64) -> Result<(), Failure> {
    let mut keys: Vec<Bytes> = (0..items).map(key).collect();
    keys.sort();
    let keys = Arc::new(keys);
    for subject in subjects {
        let (subject, keys) = (Arc::clone(subject), Arc::clone(&keys));
        let reading = tokio::spawn(async move {
            for key in keys.iter() {
                subject.get(key.clone()).await?;
            }
            Ok::<(), Failure>(())
        });
        reading.await??;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Workload {
    Put,
    Get,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Self::Put => "synced put, 32 tasks",
            Self::Get => "random get, 2 tasks ",
        }
    }
}

/// Operations per second of one round.
async fn run_round(
    subject: &Arc<dyn Subject>,
    (workload, tasks): (Workload, u64),
    items: u64,
    round: u32,
) -> Result<f64, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut running = Vec::new();
    for task in 0..tasks {
        let (subject, stop, done) = (Arc::clone(subject), Arc::clone(&stop), Arc::clone(&done));
        running.push(tokio::spawn(async move {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let number = mix(u64::from(round) << 48 | task << 40 | count);
                match workload {
                    // New items, all over the key space.
                    Workload::Put => subject.put(key(items + number), value(number)).await?,
                    Workload::Get => {
                        subject.get(key(number % items)).await?;
                    }
                }
                count += 1;
            }
            done.fetch_add(count, Ordering::Relaxed);
            Ok::<(), Failure>(())
        }));
    }
    // A thread of its own: readers that never wait would keep a timer from being served.
    tokio::task::spawn_blocking(|| std::thread::sleep(ROUND)).await?;
    stop.store(true, Ordering::Relaxed);
    for task in running {
        task.await??;
    }
    let count = u32::try_from(done.load(Ordering::Relaxed))?;
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// 24 bytes that sort like a hash, as item keys do, and have no more zeros than chance gives them.
fn key(number: u64) -> Bytes {
    let words = [mix(number), mix(!number), mix(number.rotate_left(32))];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Half noise, half filler: compresses to about half.
fn value(number: u64) -> Bytes {
    let mut value = Vec::with_capacity(VALUE_BYTES);
    let mut state = number;
    while value.len() < VALUE_BYTES / 2 {
        state = mix(state);
        value.extend_from_slice(&state.to_be_bytes());
    }
    value.resize(VALUE_BYTES, b'.');
    value.into()
}

/// Spreads numbers over 64 bits.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
