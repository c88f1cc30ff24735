//! The whole store under a kill: items, indexes, unique claims, expiry marks and statistics must
//! agree afterwards, also when the kill hit a split, an index build or a relocation; and so must
//! the change feed.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::definition::{Definition, IndexDefinition, NewContainer, NewIndex};
use tessera_core::feed::retention::FeedOptions;
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model};
use tessera_core::name::ContainerName;
use tessera_core::rebuild::NewPlacement;
use tessera_core::store::StoreOptions;
use tessera_core::{Error, Result, Store};
use tessera_storage::Durability;

use crate::feed;
use crate::kill::{
    acknowledge, child_durability, child_folder, child_round, rounds, write_until_killed,
};
use crate::support::{Dice, copy_folder, files, run, try_open};

const WRITERS: u64 = 8;
/// Pairs of items that a writer keeps; older ones are removed by the transaction that adds one.
const KEPT: u64 = 20;

#[test]
fn everything_agrees_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut dice = Dice::new("store");
    for round in 0..rounds() {
        let before_kill = dice.below(1_500);
        let child = "store::changes_everything_until_it_is_killed";
        let acknowledged = write_until_killed(child, &data, round, before_kill);
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for line in acknowledged {
            let (writer, number) = line.split_once(' ').unwrap();
            last.insert(writer.parse().unwrap(), number.parse().unwrap());
        }
        run(check(&data, first_number(round), &last));
    }
}

async fn check(data: &Path, first: u64, last: &BTreeMap<u64, u64>) {
    let engine = try_open(data, Durability::Group).unwrap();
    let store = open(Arc::clone(&engine)).await;
    if store
        .list_containers("test", None)
        .await
        .unwrap()
        .is_empty()
    {
        assert!(last.is_empty(), "the container is lost");
        return engine.close().await.unwrap();
    }
    assert_sound(&store).await;
    store.settle().await.unwrap();
    assert_eq!(store.jobs().await.unwrap(), [], "jobs were resumed");
    assert_sound(&store).await;
    feed::assert_tells_all(&store, &name()).await;
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name()).await.unwrap();
    for (writer, acknowledged) in last {
        // The next transaction may have been committed and not acknowledged; it removes one pair.
        let kept = acknowledged.saturating_sub(KEPT - 2).max(first);
        for number in kept..=*acknowledged {
            let pair = pair(&container.definition.schema, *writer, number);
            let found = transaction
                .read_many(&container, &pair.map(|item| item.locator))
                .await;
            let found = found.unwrap().iter().flatten().count();
            assert_eq!(found, 2, "pair {number} of writer {writer}");
        }
    }
    drop(transaction);
    engine.close().await.unwrap();
}

#[test]
fn everything_agrees_wherever_the_log_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (live, copy) = (folder.path().join("live"), folder.path().join("copy"));
    run(async {
        let store = open(try_open(&live, Durability::Group).unwrap()).await;
        create(&store).await;
        for number in 0..40 {
            write_pair(&store, 0, number).await;
            if number == 20 {
                reshape(&store).await;
            }
        }
        copy_folder(&live, &copy);
        store.engine().close().await.unwrap();
    });
    // As after a power cut, before the note of what was synced had reached the disk either.
    std::fs::remove_file(copy.join("synced")).unwrap();
    let log = files(&copy, ".log").pop().unwrap();
    let length = log.metadata().unwrap().len();
    let mut dice = Dice::new("store log");
    for attempt in 0..25 {
        let cut = folder.path().join(format!("cut{attempt}"));
        copy_folder(&copy, &cut);
        let log = files(&cut, ".log").pop().unwrap();
        let log = std::fs::OpenOptions::new().write(true).open(log).unwrap();
        log.set_len(dice.below(length + 1)).unwrap();
        run(check(&cut, 0, &BTreeMap::new()));
    }
}

async fn assert_sound(store: &Store) {
    assert_eq!(store.verify(&name()).await.unwrap(), Vec::<String>::new());
}

/// Not a test by itself: the process that gets killed.
#[test]
fn changes_everything_until_it_is_killed() {
    let Some(folder) = child_folder() else {
        return;
    };
    let durability = child_durability();
    run(async {
        let store = open(try_open(&folder, durability).unwrap()).await;
        store.settle().await.unwrap();
        create(&store).await;
        let start = first_number(child_round());
        for writer in 0..WRITERS {
            tokio::spawn(write_pairs(store.clone(), writer, start));
        }
        loop {
            reshape(&store).await;
        }
    });
}

async fn create(store: &Store) {
    let new = NewContainer {
        schema: Bytes::from_static(b"writer"),
        indexes: vec![NewIndex::unique("id")],
        ..NewContainer::default()
    };
    match store.create_container(&name(), &new).await {
        Ok(_) | Err(Error::AlreadyExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

async fn write_pairs(store: Store, writer: u64, start: u64) {
    for number in start.. {
        write_pair(&store, writer, number).await;
        acknowledge(&format!("{writer} {number}"));
    }
}

/// Adds a pair and removes an old one, in one transaction.
async fn write_pair(store: &Store, writer: u64, number: u64) {
    let written = store.run(&[], |transaction| {
        Box::pin(async move {
            let container = transaction.container(&name()).await?;
            let schema = container.definition.schema.clone();
            for item in pair(&schema, writer, number) {
                transaction.upsert(&container, item).await?;
            }
            if let Some(old) = number.checked_sub(KEPT) {
                for item in pair(&schema, writer, old) {
                    transaction.delete(&container, &item.locator).await?;
                }
            }
            Ok::<_, Error>(())
        })
    });
    written.await.unwrap();
}

/// Each round numbers its pairs from here.
fn first_number(round: u32) -> u64 {
    u64::from(round) << 32
}

/// Splits, merges, indexes and moves the container under its writers.
async fn reshape(store: &Store) {
    let partitions = {
        let mut transaction = store.begin().await.unwrap();
        transaction
            .container(&name())
            .await
            .unwrap()
            .partitions
            .clone()
    };
    let first = partitions.iter().next().unwrap().id;
    // Refusals (a partition with one logical partition, the last one to merge) do not matter here.
    store.split_partition(&name(), first, None).await.ok();
    store.drop_index(&name(), "tag", None).await.ok();
    store
        .create_index(&name(), &NewIndex::new("tag"), None)
        .await
        .unwrap();
    store.merge_partitions(&name(), first).await.ok();
    for field in ["tag", "writer"] {
        let placement = NewPlacement {
            schema: field.into(),
            partitions: 2,
            ..NewPlacement::default()
        };
        store.relocate(&name(), &placement).await.unwrap();
    }
}

/// Two items that are written and removed together, far apart on the ring.
fn pair(schema: &[u8], writer: u64, number: u64) -> [NewItem; 2] {
    ["left", "right"].map(|side| {
        let body = format!(
            "id={side}{writer}.{number};tag={};writer={writer}{side}",
            number % 7
        );
        let value = field(body.as_bytes(), std::str::from_utf8(schema).unwrap()).unwrap();
        let locator = Locator::murmur3(value, format!("{side} {writer} {number:08}"));
        let far_future = 1 << 50;
        NewItem::new(locator, body).expiring_at(far_future)
    })
}

fn name() -> ContainerName {
    ContainerName::new("test", "db", "pairs")
}

async fn open(engine: Arc<dyn tessera_core::engine::Engine>) -> Store {
    let model: Arc<dyn Model> = Arc::new(FieldModel);
    let options = StoreOptions {
        models: HashMap::from([("test".to_owned(), model)]),
        feeds: FeedOptions {
            always: true,
            ..FeedOptions::default()
        },
        ..StoreOptions::default()
    };
    Store::open(engine, options).await.unwrap()
}

/// Bodies are `field=value;…`; an index holds the field of its name, the schema names the field
/// that places an item.
struct FieldModel;

impl Model for FieldModel {
    fn index_entries(
        &self,
        _definition: &Definition,
        indexes: &[IndexDefinition],
        item: &Item,
    ) -> Result<Vec<IndexEntry>> {
        let entry = |index: &IndexDefinition| {
            let value = field(&item.body, &index.name)?.into();
            Some(IndexEntry {
                index: index.id,
                value,
                covered: Bytes::new(),
            })
        };
        Ok(indexes.iter().filter_map(entry).collect())
    }

    fn relocate(&self, target: &Definition, item: &Item) -> Result<Locator> {
        let name = String::from_utf8_lossy(&target.schema).into_owned();
        let value = field(&item.body, &name);
        let value = value.ok_or_else(|| Error::Rejected(format!("no field '{name}'")))?;
        Ok(Locator::murmur3(value, item.locator.row_key.clone()))
    }
}

fn field(body: &[u8], name: &str) -> Option<String> {
    let body = std::str::from_utf8(body).ok()?;
    let mut pairs = body.split(';').filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(field, _)| *field == name)
        .map(|(_, value)| value.to_owned())
}
