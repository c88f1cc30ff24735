//! Copies between engines of different kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tessera_core::definition::NewContainer;
use tessera_core::engine::Engine;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::store::StoreOptions;
use tessera_core::write_set::WriteSet;
use tessera_core::{Error, Store};
use tessera_storage::MemoryEngine;
use tessera_storage::copy::{CopyError, copy, holds_unfinished_copy};

use crate::cluster::{Cluster, new_schema_name};
use crate::{bytes, writes};

const ITEMS: usize = 3_000;

fn name() -> ContainerName {
    ContainerName::new("test", "db", "things")
}

async fn open(engine: &Arc<dyn Engine>) -> Store {
    let opened = Store::open(Arc::clone(engine), StoreOptions::default());
    opened.await.unwrap()
}

async fn insert(store: &Store, numbers: std::ops::Range<usize>) -> Result<(), Error> {
    let mut transaction = store.begin().await?;
    let container = transaction.container(&name()).await?;
    for number in numbers {
        let locator = Locator::murmur3(format!("p{}", number % 100), format!("r{number}"));
        let new = NewItem::new(locator, vec![b'x'; number % 900]);
        transaction.insert(&container, new).await?;
    }
    transaction.commit().await.map(drop)
}

async fn commit(engine: &Arc<dyn Engine>, set: WriteSet) {
    let snapshot = engine.snapshot().await.unwrap();
    snapshot.commit(set).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_goes_to_postgresql_and_back_and_lives_on() {
    let memory: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = open(&memory).await;
    let container = NewContainer::default();
    store.create_container(&name(), &container).await.unwrap();
    insert(&store, 0..ITEMS).await.unwrap();

    let database = Cluster::shared().open(&new_schema_name());
    let mut pages = 0;
    let there = copy(memory.as_ref(), database.as_ref(), |_| pages += 1);
    let there = there.await.unwrap();
    assert!(pages > 2 && there.entries > ITEMS as u64 && there.written == there.entries);
    let moved = open(&database).await;
    assert_eq!(moved.verify(&name()).await.unwrap(), Vec::<String>::new());
    insert(&moved, ITEMS..ITEMS + 100).await.unwrap();
    assert_eq!(moved.verify(&name()).await.unwrap(), Vec::<String>::new());

    let again: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            let mut number = ITEMS + 1_000;
            while !stop.load(Ordering::Relaxed) {
                insert(&moved, number..number + 1).await.unwrap();
                number += 1;
            }
        }
    });
    let back = copy(database.as_ref(), again.as_ref(), |_| {}).await;
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    assert!(back.unwrap().entries >= there.entries + 100);
    let returned = open(&again).await;
    insert(&returned, ITEMS + 100..ITEMS + 200).await.unwrap();
    assert_eq!(
        returned.verify(&name()).await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_copy_goes_on_and_ends_equal() {
    let source: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let target = Cluster::shared().open(&new_schema_name());
    let fill = writes(|set| {
        for number in 0..5_000 {
            set.put(bytes(format!("k{number:05}")), bytes([b'v'; 100]));
        }
    });
    commit(&source, fill).await;
    {
        // Dropped in the middle, as a killed process would leave it.
        let mut pages = 0;
        let (enough, mut reached) = tokio::sync::mpsc::unbounded_channel();
        let copying = copy(source.as_ref(), target.as_ref(), |_| {
            pages += 1;
            if pages == 3 {
                enough.send(()).unwrap();
            }
        });
        tokio::select! {
            biased;
            _ = reached.recv() => {}
            outcome = copying => panic!("{outcome:?}"),
        }
    }
    assert!(holds_unfinished_copy(target.as_ref()).await.unwrap());
    let from_half = copy(target.as_ref(), &MemoryEngine::new(), |_| {}).await;
    assert!(matches!(from_half, Err(CopyError::Unfinished)));

    // Meanwhile the source went on.
    let change = writes(|set| {
        set.put(bytes("k00001"), bytes("changed"));
        set.delete(bytes("k00002"));
        set.delete(bytes("k04999"));
    });
    commit(&source, change).await;
    let copied = copy(source.as_ref(), target.as_ref(), |_| {})
        .await
        .unwrap();
    assert_eq!(copied.entries, 4_998);
    assert!((1_990..2_010).contains(&copied.written), "{copied:?}");
    assert!(!holds_unfinished_copy(target.as_ref()).await.unwrap());
    let snapshot = target.snapshot().await.unwrap();
    let found = snapshot
        .multi_get(&[bytes("k00001"), bytes("k00002")])
        .await;
    assert_eq!(found.unwrap(), [Some(bytes("changed")), None]);

    let refused = copy(source.as_ref(), target.as_ref(), |_| {}).await;
    assert!(matches!(refused, Err(CopyError::NotEmpty)));
}
