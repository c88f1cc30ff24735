//! Changing how a live collection is placed: sharding, resharding and unsharding it, which is all
//! one relocation of the core. Reads and writes continue; a document that does not fit ends the
//! relocation and leaves the collection as it was.

use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use tessera_core::definition::{NewContainer, NewIndex};
use tessera_core::rebuild::NewPlacement;
use tessera_core::{Container, Error as CoreError};
use tessera_mongo_language::error::Code;
use tokio::sync::MutexGuard;

use crate::collection::{CORE_ID_INDEX, Collection, Namespace, ShardKey};
use crate::failure::{Failure, Result};
use crate::index::IndexSpec;
use crate::model::refusal_of;
use crate::service::Service;
use crate::sharding::key::{AskedKey, check_unique_index};
use crate::write::target::new_container;

/// Physical partitions of a collection that was just sharded, unless the client says.
const INITIAL_PARTITIONS: u32 = 4;
/// How often one who waits for another one's resharding looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Keeps others from changing the schema that a new one is made from.
type Changing<'a> = Option<MutexGuard<'a, ()>>;

/// A collection and how it lies now.
pub(crate) struct Current {
    pub(crate) collection: Collection,
    pub(crate) partitions: u32,
    /// The key that a relocation under way leads to: none of an unsharding.
    moving_to: Option<Option<Document>>,
}

/// What to shard by, and how.
pub(crate) struct Wanted {
    pub(crate) key: AskedKey,
    /// The index that shall keep the key unique.
    pub(crate) unique: Option<IndexSpec>,
    /// Number of physical partitions to begin with.
    pub(crate) partitions: Option<u32>,
    /// Move the documents although the key stays the same.
    pub(crate) force: bool,
}

impl Current {
    /// The collection of this name, if there is one.
    pub(crate) async fn load(service: &Service, namespace: &Namespace) -> Result<Option<Self>> {
        let mut transaction = service.store.begin().await?;
        let container = match transaction.container(&namespace.container).await {
            Ok(container) => container,
            Err(CoreError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let collection = Collection::decode(&container.definition.schema)?;
        if collection.view.is_some() {
            let message = format!("Namespace {namespace} is a view, not a collection");
            return Err(Failure::new(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, message));
        }
        Ok(Some(Self {
            collection,
            partitions: u32::try_from(container.partitions.count()).unwrap_or(u32::MAX),
            moving_to: moving_to(&container)?,
        }))
    }

    /// The same, which must be sharded.
    pub(crate) async fn sharded(service: &Service, namespace: &Namespace) -> Result<Self> {
        let current = Self::load(service, namespace).await?;
        let current = current.ok_or_else(|| missing(namespace))?;
        if current.collection.shard_key.is_none() {
            let message = format!("Namespace {namespace} is not sharded");
            return Err(Failure::new(Code::NAMESPACE_NOT_SHARDED, message));
        }
        Ok(current)
    }

    pub(crate) fn shard_key(&self) -> Option<&Document> {
        self.collection
            .shard_key
            .as_ref()
            .map(|shard_key| &shard_key.key)
    }

    fn check(&self, namespace: &Namespace, wanted: &Wanted) -> Result<()> {
        if self.collection.capped.is_some() {
            let message = format!("can't shard a capped collection: {namespace}");
            return Err(Failure::new(Code::INVALID_OPTIONS, message));
        }
        for index in self.collection.indexes.iter().filter(|index| index.unique) {
            check_unique_index(&index.key, &wanted.key.key, Code::INVALID_OPTIONS)?;
        }
        Ok(())
    }
}

fn moving_to(container: &Container) -> Result<Option<Option<Document>>> {
    let Some(target) = container.relocation() else {
        return Ok(None);
    };
    let target = Collection::decode(&target.schema)?;
    Ok(Some(target.shard_key.map(|shard_key| shard_key.key)))
}

/// Shards a collection, which is created if it is not there.
pub(crate) async fn shard(service: &Service, namespace: &Namespace, wanted: &Wanted) -> Result<()> {
    let changing = service.data.lock_schema(namespace).await;
    let current = Current::load(service, namespace).await?;
    let Some(current) = current else {
        drop(changing);
        return create_sharded(service, namespace, wanted).await;
    };
    if let Some(key) = current.shard_key() {
        if *key == wanted.key.key {
            return Ok(());
        }
        let message =
            format!("sharding already enabled for collection {namespace} with another key: {key}");
        return Err(Failure::new(Code::ALREADY_INITIALIZED, message));
    }
    current.check(namespace, wanted)?;
    relocate(service, namespace, &current, Some(wanted), changing).await
}

/// Shards a collection by the hash of one field, into so many partitions if it is not there yet.
pub(crate) async fn shard_by_hash(
    service: &Service,
    namespace: &Namespace,
    (path, partitions): (&str, u32),
) -> Result<()> {
    let wanted = Wanted {
        key: AskedKey::parse(&doc! { path: "hashed" })?,
        unique: None,
        partitions: Some(partitions),
        force: false,
    };
    shard(service, namespace, &wanted).await
}

/// Places the documents of a sharded collection by another key.
pub(crate) async fn reshard(
    service: &Service,
    namespace: &Namespace,
    wanted: &Wanted,
) -> Result<()> {
    let changing = service.data.lock_schema(namespace).await;
    let current = Current::sharded(service, namespace).await?;
    if current.shard_key() == Some(&wanted.key.key) && !wanted.force && current.moving_to.is_none()
    {
        return Ok(());
    }
    current.check(namespace, wanted)?;
    relocate(service, namespace, &current, Some(wanted), changing).await
}

/// Makes a sharded collection one that is not.
pub(crate) async fn unshard(service: &Service, namespace: &Namespace) -> Result<()> {
    let changing = service.data.lock_schema(namespace).await;
    let current = Current::sharded(service, namespace).await?;
    relocate(service, namespace, &current, None, changing).await
}

async fn create_sharded(service: &Service, namespace: &Namespace, wanted: &Wanted) -> Result<()> {
    namespace.check_creatable()?;
    let mut collection = Collection::new(Document::new())?;
    collection.shard_key = Some(ShardKey::new(wanted.key.key.clone()));
    add_unique_index(&mut collection, wanted);
    let new = NewContainer {
        partitions: wanted.partitions.unwrap_or(INITIAL_PARTITIONS),
        counts_logical_partitions: true,
        ..new_container(&collection)?
    };
    let created = service
        .store
        .create_container(&namespace.container, &new)
        .await;
    match created {
        Ok(_) => Ok(()),
        // Somebody else was quicker: what they created is sharded instead.
        Err(CoreError::AlreadyExists(_)) => Box::pin(shard(service, namespace, wanted)).await,
        Err(error) => Err(error.into()),
    }
}

/// Moves the documents to where `wanted` places them; none: to one partition, ordered by `_id`.
async fn relocate(
    service: &Service,
    namespace: &Namespace,
    current: &Current,
    wanted: Option<&Wanted>,
    changing: Changing<'_>,
) -> Result<()> {
    let key = wanted.map(|wanted| wanted.key.key.clone());
    if let Some(under_way) = &current.moving_to {
        drop(changing);
        if *under_way == key {
            return join(service, namespace, key).await;
        }
        return Err(in_progress(namespace));
    }
    let was_sharded = current.shard_key().is_some();
    let mut collection = current.collection.clone();
    collection.shard_key = key.clone().map(ShardKey::new);
    let unique = wanted.and_then(|wanted| add_unique_index(&mut collection, wanted));
    let mut placement = NewPlacement {
        schema: collection.encode()?,
        partitions: 1,
        counts_logical_partitions: Some(wanted.is_some()),
        new_indexes: unique.into_iter().collect(),
        ..NewPlacement::default()
    };
    if let Some(wanted) = wanted {
        let usual = current.partitions.max(INITIAL_PARTITIONS);
        placement.partitions = wanted.partitions.unwrap_or(usual);
    }
    match (was_sharded, key.is_some()) {
        (false, true) => placement.new_indexes.push(NewIndex::new(CORE_ID_INDEX)),
        (true, false) => placement.dropped_indexes.push(CORE_ID_INDEX.to_owned()),
        _ => {}
    }
    let begun = service
        .store
        .begin_relocation(&namespace.container, &placement)
        .await;
    // From here on the core refuses changes of the schema by itself.
    drop(changing);
    let moved = match begun {
        Ok(job) => service.store.run_job(job).await,
        Err(error) => Err(error),
    };
    moved.map_err(|error| failure_of(namespace, error))
}

/// Adds the index that keeps the shard key unique, if that was asked for and it is not there.
fn add_unique_index(collection: &mut Collection, wanted: &Wanted) -> Option<NewIndex> {
    let index = wanted.unique.as_ref()?;
    if collection.index(&index.name).is_some() {
        return None;
    }
    collection.indexes.push(Arc::new(index.clone()));
    Some(NewIndex::unique(index.name.clone()))
}

/// Waits for a relocation that another client began and that leads to the same end.
async fn join(service: &Service, namespace: &Namespace, key: Option<Document>) -> Result<()> {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let current = Current::load(service, namespace).await?;
        let current = current.ok_or_else(|| missing(namespace))?;
        if current.moving_to.is_some() {
            continue;
        }
        return if current.shard_key() == key.as_ref() {
            Ok(())
        } else {
            Err(aborted(namespace))
        };
    }
}

fn failure_of(namespace: &Namespace, error: CoreError) -> Failure {
    match error {
        CoreError::Rejected(cause) => {
            let refusal = refusal_of(&cause);
            if refusal.code == Code::OPERATION_FAILED {
                return in_progress(namespace);
            }
            refusal.into()
        }
        CoreError::DuplicateValue { index } => {
            let message = format!(
                "E11000 duplicate key error collection: {namespace}: two documents have the same \
                 value of {index}"
            );
            Failure::new(Code::DUPLICATE_KEY, message)
        }
        CoreError::NotFound(_) => aborted(namespace),
        other => other.into(),
    }
}

fn missing(namespace: &Namespace) -> Failure {
    let message = format!("Namespace {namespace} does not exist");
    Failure::new(Code::NAMESPACE_NOT_FOUND, message)
}

fn in_progress(namespace: &Namespace) -> Failure {
    let message = format!("the collection {namespace} is being changed otherwise already");
    Failure::new(Code::RESHARD_COLLECTION_IN_PROGRESS, message)
}

fn aborted(namespace: &Namespace) -> Failure {
    let message = format!("the resharding of {namespace} was aborted");
    Failure::new(Code::RESHARD_COLLECTION_ABORTED, message)
}
