//! What is measured: RocksDB alone, and each layer above it.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

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

use crate::Failure;
use crate::data::{key, value};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

const MEMORY_BYTES: usize = 2 << 30;

/// All subjects, the one that the others are compared with first. A further layer is one more.
pub(crate) struct Subjects(pub(crate) [Arc<dyn Subject>; Self::COUNT]);

impl Subjects {
    pub(crate) const COUNT: usize = 3;
    pub(crate) const NAMES: [&str; Self::COUNT] = ["RocksDB alone", "engine", "core"];
}

/// Opens what [`load`] has written.
pub(crate) async fn open(folder: &Path) -> Result<Subjects, Failure> {
    let engine = tessera_storage::open(&config(&folder.join("engine"), Durability::Group))?;
    let core = OverCore::open(&folder.join("core"), Durability::Group).await?;
    Ok(Subjects([
        Arc::new(Raw::open(&folder.join("raw"))?),
        Arc::new(OverEngine(engine)),
        Arc::new(core),
    ]))
}

/// Writes all items for all subjects, and lets compaction finish so that it disturbs nothing later.
pub(crate) async fn load(folder: &Path, items: u64) -> Result<(), Failure> {
    let engine = folder.join("engine");
    // The engine makes its folder, then it and RocksDB alone start from one and the same data.
    let made = tessera_storage::open(&config(&engine, Durability::Group))?;
    made.close().await?;
    drop(made);
    load_rocks(&engine.join("rocks"), &folder.join("raw"), items)?;
    OverCore::load(&folder.join("core"), items).await
}

fn load_rocks(path: &Path, copy: &Path, items: u64) -> Result<(), Failure> {
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

/// Something that stores items and gives them back. Each layer to measure is one of these.
pub(crate) trait Subject: Send + Sync {
    /// Stores one item, durably.
    fn put(&self, key: Bytes, value: Bytes) -> BoxFuture<'_, ()>;

    /// Reads one item; its length is enough.
    fn get(&self, key: Bytes) -> BoxFuture<'_, usize>;

    /// Puts keys into the order in which their items are stored.
    fn sort(&self, keys: &mut [Bytes]) {
        keys.sort_unstable();
    }
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
                let bytes: usize = puts
                    .iter()
                    .map(|(key, value, _)| key.len() + value.len())
                    .sum();
                // As much room at once as the engine makes.
                let mut batch = WriteBatch::with_capacity_bytes(bytes + bytes / 8);
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
pub(crate) struct OverCore {
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

    pub(crate) async fn create(path: &Path, durability: Durability) -> Result<Self, Failure> {
        let new = Self::open(path, durability).await?;
        let definition = NewContainer::default();
        new.store
            .create_container(&new.container, &definition)
            .await?;
        Ok(new)
    }

    /// Writes all items, as compact as RocksDB alone has them, with nothing in memtables: reads
    /// look into those first.
    async fn load(path: &Path, items: u64) -> Result<(), Failure> {
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
        compact(&DB::open(&options, path.join("rocks"))?)
    }

    /// Adds one to the number in an item.
    pub(crate) async fn increment(&self) -> Result<(), Failure> {
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

    pub(crate) async fn counted(&self) -> Result<u64, Failure> {
        let mut transaction = self.store.begin().await?;
        let container = transaction.container(&self.container).await?;
        let counter = locator(Bytes::from_static(b"counter"));
        let item = transaction.read(&container, &counter).await?;
        Ok(item.map_or(0, |item| number_in(&item.body)))
    }
}

impl Subject for OverCore {
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

    fn sort(&self, keys: &mut [Bytes]) {
        keys.sort_by_cached_key(|key| locator(key.clone()).token);
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
