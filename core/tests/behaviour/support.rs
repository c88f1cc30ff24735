//! What the core's tests share: a model of small text items, and a store on the memory engine.
//!
//! A body is `field=value` pairs separated by `;`. An index named `mail` holds every value of
//! `mail`; a relocation places items by the field that the new schema names. A schema with indexes
//! names them one after another, each behind a `;`.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::clock::Clock;
use tessera_core::definition::{Definition, IndexDefinition, NewContainer, NewIndex};
use tessera_core::engine::{KeyRange, Scan};
use tessera_core::feed::definition::Images;
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::{IndexEntry, Model, ScalarRef};
use tessera_core::name::ContainerName;
use tessera_core::reading::{IndexSpan, PageRequest, Span};
use tessera_core::store::StoreOptions;
use tessera_core::{Container, Error, Result, Store};

pub(crate) const API: &str = "test";
/// Partitions larger than this are split. No test that does not want it comes near.
pub(crate) const MAX_PARTITION_BYTES: i64 = 1 << 20;

/// What the model cannot read.
pub(crate) const UNREADABLE: &[u8] = b"?";

/// Fields as text.
pub(crate) struct TextModel;

impl Model for TextModel {
    fn index_entries(
        &self,
        _definition: &Definition,
        indexes: &[IndexDefinition],
        item: &Item,
    ) -> Result<Vec<IndexEntry>> {
        if item.body.starts_with(UNREADABLE) {
            return Err(Error::Corrupt("no fields".into()));
        }
        let entries = indexes.iter().flat_map(|index| {
            fields(&item.body, &index.name)
                .into_iter()
                .map(|value| IndexEntry {
                    index: index.id,
                    value: value.into(),
                    covered: Bytes::new(),
                })
        });
        Ok(entries.collect())
    }

    fn without_index(&self, schema: &Bytes, index: &str) -> Result<Bytes> {
        let schema = String::from_utf8_lossy(schema);
        Ok(schema.replace(&format!(";{index}"), "").into())
    }

    /// Schemas that begin with [`UNREADABLE`] are not.
    fn check_definition(&self, definition: &Definition) -> Result<()> {
        if definition.schema.starts_with(UNREADABLE) {
            return Err(Error::Corrupt("no schema".into()));
        }
        Ok(())
    }

    /// Those whose schema says so.
    fn images(&self, schema: &Bytes) -> Result<Images> {
        Ok(Images {
            before: schema.ends_with(b"images"),
            after: schema.ends_with(b"both images"),
        })
    }

    fn max_partition_bytes(&self) -> i64 {
        MAX_PARTITION_BYTES
    }

    fn relocate(&self, target: &Definition, item: &Item) -> Result<Locator> {
        if item.body.starts_with(UNREADABLE) {
            return Err(Error::Corrupt("no fields".into()));
        }
        let field = String::from_utf8_lossy(&target.schema).into_owned();
        let value = fields(&item.body, &field).into_iter().next();
        let value = value.ok_or_else(|| Error::Rejected(format!("no field '{field}'")))?;
        Ok(Locator::murmur3(value, item.locator.row_key.clone()))
    }

    /// Those whose schema says so.
    fn counts_logical_partitions(&self, definition: &Definition) -> bool {
        definition.schema.ends_with(b"counted")
    }

    fn partition_key_fields(&self, definition: &Definition) -> Vec<String> {
        vec![String::from_utf8_lossy(&definition.schema).into_owned()]
    }

    fn describe(
        &self,
        _definition: &Definition,
        item: &Item,
        visit: &mut dyn FnMut(&str, ScalarRef<'_>),
    ) -> Result<bool> {
        let body = String::from_utf8_lossy(&item.body);
        for (field, value) in body.split(';').filter_map(|pair| pair.split_once('=')) {
            visit(field, ScalarRef::Text(value));
        }
        Ok(true)
    }
}

fn fields(body: &[u8], name: &str) -> Vec<String> {
    let body = String::from_utf8_lossy(body).into_owned();
    let pairs = body.split(';').filter_map(|pair| pair.split_once('='));
    pairs
        .filter(|(field, _)| *field == name)
        .map(|(_, value)| value.to_owned())
        .collect()
}

pub(crate) fn name(container: &str) -> ContainerName {
    ContainerName::new(API, "db", container)
}

pub(crate) fn options(clock: Clock) -> StoreOptions {
    let model: Arc<dyn Model> = Arc::new(TextModel);
    StoreOptions {
        models: HashMap::from([(API.to_owned(), model)]),
        clock,
        ..StoreOptions::default()
    }
}

pub(crate) async fn open_store() -> Store {
    open_store_at(Clock::system()).await
}

pub(crate) async fn open_store_at(clock: Clock) -> Store {
    Store::open(Arc::new(MemoryEngine::new()), options(clock))
        .await
        .unwrap()
}

pub(crate) fn new_container(indexes: Vec<NewIndex>, partitions: u32) -> NewContainer {
    NewContainer {
        schema: Bytes::from_static(b"pk"),
        indexes,
        partitions,
        ..NewContainer::default()
    }
}

pub(crate) fn locator(number: usize) -> Locator {
    Locator::murmur3(format!("p{number}"), format!("r{number}"))
}

pub(crate) fn item(number: usize, body: impl Into<String>) -> NewItem {
    NewItem::new(locator(number), body.into())
}

/// Inserts one item in a transaction of its own.
pub(crate) async fn insert(store: &Store, name: &ContainerName, item: NewItem) -> Result<()> {
    let name = name.clone();
    let run = store.run(&[], move |transaction| {
        let (name, item) = (name.clone(), item.clone());
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            transaction.insert(&container, item).await.map(|_| ())
        })
    });
    run.await.map(|_| ())
}

/// Stores one item in a transaction of its own.
pub(crate) async fn upsert(store: &Store, name: &ContainerName, item: NewItem) -> Result<()> {
    let name = name.clone();
    let run = store.run(&[], move |transaction| {
        let (name, item) = (name.clone(), item.clone());
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            transaction.upsert(&container, item).await.map(|_| ())
        })
    });
    run.await.map(|_| ())
}

/// Deletes one item in a transaction of its own; answers whether it was there.
pub(crate) async fn delete(store: &Store, name: &ContainerName, locator: Locator) -> Result<bool> {
    let name = name.clone();
    let run = store.run(&[], move |transaction| {
        let (name, locator) = (name.clone(), locator.clone());
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            Ok(transaction.delete(&container, &locator).await?.is_some())
        })
    });
    run.await.map(|outcome| outcome.value)
}

/// The body at a locator.
pub(crate) async fn body(store: &Store, name: &ContainerName, locator: &Locator) -> Option<String> {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    let item = transaction.read(&container, locator).await.unwrap();
    item.map(|item| String::from_utf8(item.body.to_vec()).unwrap())
}

/// All visible items, in order.
pub(crate) async fn all(store: &Store, name: &ContainerName) -> Vec<Item> {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    let mut page = PageRequest::default();
    let mut items = Vec::new();
    loop {
        let found = transaction
            .scan(&container, &Span::All, &page)
            .await
            .unwrap();
        items.extend(found.items);
        page.continuation = found.continuation;
        if page.continuation.is_none() {
            return items;
        }
    }
}

/// The locators with a value in an index.
pub(crate) async fn find(
    store: &Store,
    name: &ContainerName,
    index: &str,
    value: &str,
) -> Vec<Locator> {
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(name).await.unwrap();
    let id = container.definition.index(index).unwrap().id;
    let span = IndexSpan::equal(id, value.to_owned());
    let page = PageRequest {
        max_items: 10_000,
        ..PageRequest::default()
    };
    let found = transaction
        .scan_index(&container, &span, &page)
        .await
        .unwrap();
    found.hits.into_iter().map(|hit| hit.locator).collect()
}

pub(crate) async fn container(store: &Store, name: &ContainerName) -> Arc<Container> {
    store.begin().await.unwrap().container(name).await.unwrap()
}

/// Everything agrees with everything.
pub(crate) async fn assert_sound(store: &Store, name: &ContainerName) {
    assert_eq!(store.verify(name).await.unwrap(), Vec::<String>::new());
}

/// How many keys the engine holds in a range, up to a page of them.
pub(crate) async fn keys_in(store: &Store, range: KeyRange) -> usize {
    let snapshot = store.engine().snapshot().await.unwrap();
    let page = snapshot.scan(&Scan::new(range)).await.unwrap();
    page.entries.len()
}

/// The same data, opened by another process.
pub(crate) async fn reopened(store: Store) -> Store {
    let engine = Arc::clone(store.engine());
    drop(store);
    Store::open(engine, options(Clock::system())).await.unwrap()
}
