//! How fast the core inserts entities by itself: what the Table front end is measured against.
//!
//! `tessera-conformance bench table` runs it as a child. Sixteen tasks insert items of 1 KB into a
//! container like that of a table, each answered after a sync. The argument is the time in
//! milliseconds; the output is the number of inserts per second.

use std::collections::HashMap;
use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tessera_core::Store;
use tessera_core::definition::{NewContainer, NewIndex};
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::model::Model;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_storage::{Durability, EngineConfig};
use tessera_table::TableModel;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn Error + Send + Sync>;

const WRITERS: u32 = 16;
const PARTITION_KEYS: u32 = 64;
const BODY_BYTES: usize = 1_000;
/// What the server gives the engine unless told otherwise.
const MEMORY_BYTES: usize = 256_000_000;

fn main() -> Result<(), Failure> {
    let time_ms = std::env::args()
        .nth(1)
        .ok_or("the first argument must be the time in milliseconds")?;
    let time = Duration::from_millis(time_ms.parse()?);
    let folder = tempfile::tempdir()?;
    let engine = tessera_storage::open(&EngineConfig::Rocks {
        path: folder.path().to_owned(),
        durability: Durability::Group,
        memory_bytes: MEMORY_BYTES,
    })?;
    // As many threads as the server has.
    tokio::runtime::Runtime::new()?.block_on(async {
        let model: Arc<dyn Model> = Arc::new(TableModel);
        let options = StoreOptions {
            models: HashMap::from([(tessera_table::API.to_owned(), model)]),
            ..StoreOptions::default()
        };
        let store = Store::open(engine, options).await?;
        let rate = insert(&store, time).await?;
        store.engine().close().await?;
        writeln!(std::io::stdout(), "{rate:.0} inserts per second")?;
        Ok(())
    })
}

async fn insert(store: &Store, time: Duration) -> Result<f64, Failure> {
    let table = Arc::new(ContainerName::new(tessera_table::API, "account", "bench"));
    let new = NewContainer {
        indexes: vec![NewIndex::new("key_order")],
        counts_logical_partitions: true,
        ..NewContainer::default()
    };
    store.create_container(&table, &new).await?;
    let inserted = Arc::new(AtomicU32::new(0));
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (store, table, inserted) = (store.clone(), table.clone(), inserted.clone());
            tokio::spawn(async move {
                while start.elapsed() < time {
                    let number = inserted.fetch_add(1, Ordering::Relaxed);
                    insert_one(&store, &table, number).await?;
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    Ok(f64::from(inserted.load(Ordering::Relaxed)) / start.elapsed().as_secs_f64())
}

async fn insert_one(store: &Store, table: &Arc<ContainerName>, number: u32) -> Result<(), Failure> {
    let partition_key = format!("p{:02}", number % PARTITION_KEYS);
    let locator = Locator::murmur3(partition_key, format!("{number:010}"));
    let new = NewItem::new(locator.clone(), Bytes::from(vec![b'x'; BODY_BYTES]));
    let changed = [(&**table, &locator)];
    let insert = store.run(&changed, |transaction| {
        let (table, new) = (Arc::clone(table), new.clone());
        Box::pin(async move {
            let container = transaction.container(&table).await?;
            transaction.insert(&container, new).await
        })
    });
    let outcome: tessera_core::Result<_> = insert.await;
    outcome?;
    Ok(())
}
