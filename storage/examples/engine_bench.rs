//! How much of RocksDB's own speed is left above it, as ratios taken in one run.
//!
//! ```text
//! cargo run --release -p tessera-storage --example engine_bench
//! ```
//!
//! Two workloads: 32 tasks that each write 1 KiB items with a sync, and 2 threads that read 1 KiB
//! items at random from a million in memory. Each runs on several [`Subject`]s: RocksDB alone with
//! the engine's own options and the same grouping of writes, and what is built on it. A further
//! layer is one more `Subject`. Rounds alternate between subjects, and the best round counts,
//! because a shared machine only ever makes a round slower.

use std::error::Error;
use std::future::Future;
use std::io::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DB, WaitForCompactOptions, WriteBatch, WriteOptions};
use tessera_core::engine::Engine;
use tessera_core::write_set::WriteSet;
use tessera_storage::{Durability, EngineConfig};
use tokio::sync::oneshot;

type Failure = Box<dyn Error + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

const ITEMS: u64 = 1_000_000;
const VALUE_BYTES: usize = 1_024;
const MEMORY_BYTES: usize = 2 << 30;
const WRITERS: u64 = 32;
const READERS: u64 = 2;
const ROUNDS: u32 = 3;
const ROUND: Duration = Duration::from_millis(1_500);

/// Something that stores items and gives them back. Each layer to measure is one of these.
trait Subject: Send + Sync {
    fn name(&self) -> &'static str;

    /// Stores one item, durably.
    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<()>;

    /// Reads one item; its length is enough.
    fn get(&self, key: Bytes) -> BoxFuture<usize>;
}

/// RocksDB alone: a thread drains the queue into one batch and one sync, as the engine does.
struct Raw {
    database: Arc<DB>,
    queue: mpsc::Sender<(Bytes, Bytes, oneshot::Sender<()>)>,
}

impl Raw {
    fn open(path: &Path) -> Result<Self, Failure> {
        let options = tessera_storage::rocks_options(MEMORY_BYTES);
        let database = Arc::new(DB::open(&options, path)?);
        let (queue, waiting) = mpsc::channel::<(Bytes, Bytes, oneshot::Sender<()>)>();
        let writer = Arc::clone(&database);
        std::thread::spawn(move || -> Result<(), rocksdb::Error> {
            let mut synced = WriteOptions::default();
            synced.set_sync(true);
            while let Ok(first) = waiting.recv() {
                let mut batch = WriteBatch::default();
                let mut answers = Vec::new();
                for (key, value, answer) in std::iter::once(first).chain(waiting.try_iter()) {
                    batch.put(key, value);
                    answers.push(answer);
                }
                writer.write_opt(batch, &synced)?;
                answers.into_iter().for_each(|answer| {
                    answer.send(()).ok();
                });
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

    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<()> {
        let queue = self.queue.clone();
        Box::pin(async move {
            let (answer, done) = oneshot::channel();
            queue.send((key, value, answer))?;
            Ok(done.await?)
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<usize> {
        let database = Arc::clone(&self.database);
        Box::pin(async move {
            let value = database.get_pinned(&key)?.ok_or("an item is missing")?;
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

    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<()> {
        let engine = Arc::clone(&self.0);
        Box::pin(async move {
            let mut writes = WriteSet::default();
            writes.put(key, value);
            engine.snapshot().await?.commit(writes).await?;
            Ok(())
        })
    }

    fn get(&self, key: Bytes) -> BoxFuture<usize> {
        let engine = Arc::clone(&self.0);
        Box::pin(async move {
            let value = engine.snapshot().await?.get(&key).await?;
            Ok(value.ok_or("an item is missing")?.len())
        })
    }
}

fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let (raw_path, engine_path) = (folder.path().join("raw"), folder.path().join("engine"));
    let config = EngineConfig::Rocks {
        path: engine_path.clone(),
        durability: Durability::Group,
        memory_bytes: MEMORY_BYTES,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    // The engine makes its folder, then both start from one and the same data.
    runtime.block_on(tessera_storage::open(&config)?.close())?;
    let start = Instant::now();
    load(&engine_path.join("rocks"), &raw_path)?;
    let seconds = start.elapsed().as_secs_f64();
    writeln!(std::io::stdout(), "{ITEMS} items written in {seconds:.1} s")?;
    let raw: Arc<dyn Subject> = Arc::new(Raw::open(&raw_path)?);
    let engine = Arc::new(OverEngine(tessera_storage::open(&config)?));
    let subjects: Vec<Arc<dyn Subject>> = vec![raw, engine];
    runtime.block_on(measure(&subjects))
}

/// Writes all items, lets compaction finish so that it disturbs nothing later, and copies the
/// result.
fn load(path: &Path, copy: &Path) -> Result<(), Failure> {
    let database = DB::open(&tessera_storage::rocks_options(MEMORY_BYTES), path)?;
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    let mut items: Vec<(Bytes, u64)> = (0..ITEMS).map(|number| (key(number), number)).collect();
    items.sort();
    for chunk in items.chunks(1_000) {
        let mut batch = WriteBatch::default();
        for (key, number) in chunk {
            batch.put(key, value(*number));
        }
        database.write_opt(batch, &unlogged)?;
    }
    database.flush()?;
    database.wait_for_compact(&WaitForCompactOptions::default())?;
    Checkpoint::new(&database)?.create_checkpoint(copy)?;
    Ok(())
}

async fn measure(subjects: &[Arc<dyn Subject>]) -> Result<(), Failure> {
    let mut report = std::io::stdout();
    let start = Instant::now();
    warm(subjects).await?;
    writeln!(
        report,
        "{ITEMS} items read once in {:.1} s",
        start.elapsed().as_secs_f64()
    )?;
    for (workload, tasks) in [(Workload::Get, READERS), (Workload::Put, WRITERS)] {
        let mut best = vec![0.0_f64; subjects.len()];
        for round in 0..ROUNDS {
            for (subject, best) in subjects.iter().zip(&mut best) {
                *best = best.max(run_round(subject, workload, tasks, round).await?);
            }
        }
        let first = best.first().copied().unwrap_or(1.0);
        for (subject, rate) in subjects.iter().zip(&best) {
            let (name, ratio) = (subject.name(), rate / first);
            writeln!(
                report,
                "{name:>14}: {} {rate:>9.0}/s, ratio {ratio:.2}",
                workload.name()
            )?;
        }
    }
    Ok(())
}

/// Reads everything once, in key order, to have it in memory.
async fn warm(subjects: &[Arc<dyn Subject>]) -> Result<(), Failure> {
    let mut keys: Vec<Bytes> = (0..ITEMS).map(key).collect();
    keys.sort();
    let keys = Arc::new(keys);
    let mut running = Vec::new();
    for subject in subjects {
        let (subject, keys) = (Arc::clone(subject), Arc::clone(&keys));
        running.push(tokio::spawn(async move {
            for key in keys.iter() {
                subject.get(key.clone()).await?;
            }
            Ok::<(), Failure>(())
        }));
    }
    for task in running {
        task.await??;
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
    workload: Workload,
    tasks: u64,
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
                    Workload::Put => subject.put(key(ITEMS + number), value(number)).await?,
                    Workload::Get => {
                        subject.get(key(number % ITEMS)).await?;
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

/// 24 bytes that sort like a hash, as item keys do.
fn key(number: u64) -> Bytes {
    let mut key = Vec::with_capacity(24);
    key.extend_from_slice(&mix(number).to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key.extend_from_slice(&[0; 8]);
    key.into()
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
