//! A relocation of many items beside eight writers: nobody is refused, nothing is lost, and the
//! slowest hundredth of the writes takes at most five times as long as before.
//!
//! ```text
//! cargo run --release -p tessera-storage --example relocation_bench [ITEMS]
//! ```
//!
//! Each writer replaces random items of its own, one after another, with a sync; every item knows
//! how often it was written, and at the end each has what was acknowledged last.

use std::collections::HashMap;
use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tessera_core::definition::{Definition, IndexDefinition, NewContainer, NewIndex};
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model};
use tessera_core::name::ContainerName;
use tessera_core::rebuild::NewPlacement;
use tessera_core::store::StoreOptions;
use tessera_core::{Error as CoreError, Store, Transaction};
use tessera_storage::{Durability, EngineConfig};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

const ITEMS: u64 = 1_000_000;
const WRITERS: u64 = 8;
const BODY_BYTES: usize = 500;
const MEMORY_BYTES: usize = 1 << 30;
const BEFORE: Duration = Duration::from_secs(10);
const MAX_RATIO: f64 = 5.0;
const FILL_STEP: u64 = 1_000;

/// A body begins with how often it was written, and its number; the rest is filling. The schema
/// says whether items are placed by their number or by a small group that it belongs to.
struct Numbers;

impl Model for Numbers {
    fn index_entries(
        &self,
        _definition: &Definition,
        indexes: &[IndexDefinition],
        item: &Item,
    ) -> tessera_core::Result<Vec<IndexEntry>> {
        let entries = indexes.iter().map(|index| IndexEntry {
            index: index.id,
            value: item.locator.row_key.clone(),
            covered: bytes::Bytes::new(),
        });
        Ok(entries.collect())
    }

    fn relocate(&self, target: &Definition, item: &Item) -> tessera_core::Result<Locator> {
        let number = number_of(&item.body).ok_or(CoreError::Internal("a body".into()))?;
        Ok(place(&target.schema, number))
    }
}

fn place(schema: &[u8], number: u64) -> Locator {
    let group = if schema == b"group" {
        number % 5_000
    } else {
        number
    };
    Locator::murmur3(group.to_be_bytes().to_vec(), number.to_be_bytes().to_vec())
}

fn body(writes: u64, number: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(BODY_BYTES);
    body.extend_from_slice(&writes.to_be_bytes());
    body.extend_from_slice(&number.to_be_bytes());
    body.resize(BODY_BYTES, b'.');
    body
}

fn writes_of(body: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*body.first_chunk()?))
}

fn number_of(body: &[u8]) -> Option<u64> {
    writes_of(body.get(8..)?)
}

fn name() -> ContainerName {
    ContainerName::new("bench", "db", "items")
}

async fn write(
    transaction: &mut Transaction,
    number: u64,
    writes: u64,
) -> tessera_core::Result<()> {
    let container = transaction.container(&name()).await?;
    let place = place(&container.definition.schema, number);
    let old = transaction.read(&container, &place).await?;
    let old = old.ok_or(CoreError::NotFound(format!("item {number}")))?;
    let new = NewItem::new(place, body(writes, number));
    transaction.replace(&container, &old, new).await?;
    Ok(())
}

async fn fill(store: &Store, items: u64) -> Result<(), Failure> {
    let new = NewContainer {
        schema: "number".into(),
        indexes: vec![NewIndex::new("numbers")],
        partitions: 4,
        ..NewContainer::default()
    };
    store.create_container(&name(), &new).await?;
    for start in (0..items).step_by(usize::try_from(FILL_STEP)?) {
        let mut transaction = store.begin().await?;
        let container = transaction.container(&name()).await?;
        for number in start..(start + FILL_STEP).min(items) {
            let new = NewItem::new(place(b"number", number), body(0, number));
            transaction.insert(&container, new).await?;
        }
        transaction.commit().await?;
    }
    Ok(())
}

/// What one writer did: how long each write took and when it ended, and what it wrote last.
#[derive(Default)]
struct Written {
    latencies: Vec<(Instant, Duration)>,
    last: HashMap<u64, u64>,
}

async fn keep_writing(
    store: Store,
    (writer, items): (u64, u64),
    stop: Arc<AtomicBool>,
) -> Result<Written, CoreError> {
    let mut written = Written::default();
    let mut state = writer + 1;
    while !stop.load(Ordering::Relaxed) {
        // Steps of a linear congruence, of which the high bits are random enough here.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let number = (state >> 20) % (items / WRITERS) * WRITERS + writer;
        let writes = written.last.get(&number).copied().unwrap_or(0) + 1;
        let began = Instant::now();
        let done = store.run(&[], |transaction| {
            Box::pin(write(transaction, number, writes))
        });
        done.await?;
        written.latencies.push((Instant::now(), began.elapsed()));
        written.last.insert(number, writes);
    }
    Ok(written)
}

/// The slowest hundredth begins here, and the slowest of all.
fn slowest(latencies: &mut [Duration]) -> Result<(Duration, Duration), Failure> {
    latencies.sort_unstable();
    let place = latencies.len() * 99 / 100;
    let p99 = latencies.get(place).ok_or("no writes")?;
    let longest = latencies.last().ok_or("no writes")?;
    Ok((*p99, *longest))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let items = match std::env::args().nth(1) {
        Some(items) => items.parse()?,
        None => ITEMS,
    };
    let directory = tempfile::tempdir()?;
    let engine = tessera_storage::open(&EngineConfig::Rocks {
        path: directory.path().join("data"),
        durability: Durability::Group,
        memory_bytes: MEMORY_BYTES,
    })?;
    let model: Arc<dyn Model> = Arc::new(Numbers);
    let options = StoreOptions {
        models: HashMap::from([("bench".to_owned(), model)]),
        ..StoreOptions::default()
    };
    let store = Store::open(engine, options).await?;
    fill(&store, items).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            tokio::spawn(keep_writing(
                store.clone(),
                (writer, items),
                Arc::clone(&stop),
            ))
        })
        .collect();
    tokio::time::sleep(BEFORE).await;
    let began = Instant::now();
    let placement = NewPlacement {
        schema: "group".into(),
        partitions: 4,
        ..NewPlacement::default()
    };
    store.relocate(&name(), &placement).await?;
    let took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    let (mut before, mut during, mut last) = (Vec::new(), Vec::new(), HashMap::new());
    for writer in writers {
        let written = writer.await??;
        for (ended, latency) in written.latencies {
            (if ended < began {
                &mut before
            } else {
                &mut during
            })
            .push(latency);
        }
        last.extend(written.last);
    }
    report(items, took, &mut before, &mut during)?;
    check(&store, items, &last).await
}

fn report(
    items: u64,
    took: Duration,
    before: &mut [Duration],
    during: &mut [Duration],
) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    let mut p99s = Vec::new();
    for (when, latencies) in [("before", before), ("during", during)] {
        let count = latencies.len();
        let (p99, longest) = slowest(latencies)?;
        writeln!(
            out,
            "{when}: {count} writes, p99 {p99:?}, longest {longest:?}"
        )?;
        p99s.push(p99.as_secs_f64());
    }
    writeln!(out, "relocation of {items} items: {took:?}")?;
    let [before, during] = p99s.as_slice() else {
        return Err("two figures".into());
    };
    let ratio = during / before;
    writeln!(out, "ratio of the p99: {ratio:.2} (limit {MAX_RATIO})")?;
    if ratio > MAX_RATIO {
        return Err("writes were held up for too long".into());
    }
    Ok(())
}

/// Every item is there, as it was acknowledged last.
async fn check(store: &Store, items: u64, last: &HashMap<u64, u64>) -> Result<(), Failure> {
    let mut transaction = store.begin().await?;
    let container = transaction.container(&name()).await?;
    for number in 0..items {
        let place = place(&container.definition.schema, number);
        let item = transaction.read(&container, &place).await?;
        let writes = item
            .and_then(|item| writes_of(&item.body))
            .ok_or("an item is lost")?;
        if writes != last.get(&number).copied().unwrap_or(0) {
            return Err(format!("a write of item {number} is lost").into());
        }
    }
    let unsound = store.verify(&name()).await?;
    if !unsound.is_empty() {
        return Err(unsound.join("; ").into());
    }
    writeln!(
        std::io::stdout(),
        "{} changed items checked, all of {items} sound",
        last.len()
    )?;
    Ok(())
}
