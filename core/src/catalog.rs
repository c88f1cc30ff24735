//! The catalog: all containers and their definitions.
//!
//! Definitions are cached. A cached one may be used at a snapshot if it is the one that was in
//! force at that moment, which is known without a read where no other server writes to the engine:
//! the definition was seen at or before the snapshot, and no change is in progress whose result the
//! cache may not show yet. Otherwise the version key in the snapshot decides, and if that differs,
//! the definition is read from it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::{BufMut, Bytes, BytesMut};

use crate::container::{Container, Usage};
use crate::damage;
use crate::definition::Definition;
use crate::encoding::take_u64;
use crate::engine::{Scan, Snapshot};
use crate::error::{Error, Result};
use crate::insight;
use crate::key::{self, PartitionId, StorageId, system};
use crate::limits::{ContainerLimits, Limits};
use crate::model::{Model, Opaque};
use crate::name::ContainerName;
use crate::partition_map::{PartitionMap, PartitionRecord};
use crate::sharing::MAX_SHARED_CONTAINERS;

/// Caches container definitions, and finds the one in force at a snapshot.
pub struct Catalog {
    cache: RwLock<Cache>,
    models: HashMap<String, Arc<dyn Model>>,
    limits: Limits,
    keeps_heat: bool,
    shared_engine: bool,
}

/// What the catalog stores of one container, or shall store.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) name: ContainerName,
    pub(crate) definition: Definition,
    pub(crate) partitions: PartitionMap,
    /// The storage being filled by a relocation.
    pub(crate) target: Option<(Definition, PartitionMap)>,
}

#[derive(Default)]
struct Cache {
    /// Looked up by every request, so the hash is fast; it is seeded, so that clients cannot
    /// provoke collisions.
    containers: HashMap<ContainerName, Arc<Container>, ahash::RandomState>,
    /// The same by storage, which is what other servers announce.
    names: HashMap<StorageId, ContainerName>,
    /// Storages whose definition another server has announced as changed: the cached one is not
    /// worth checking.
    outdated: HashSet<StorageId>,
    /// Changes that may be committed and not be cached yet.
    changes_under_way: usize,
    /// The engine version of the latest change.
    last_change: u64,
}

impl Cache {
    /// The container of this name, unless it is known to have changed.
    fn probable(&self, name: &ContainerName) -> Option<Arc<Container>> {
        let container = self.containers.get(name)?;
        let is_outdated = self.outdated.contains(&container.storage());
        (!is_outdated).then(|| Arc::clone(container))
    }

    fn insert(&mut self, container: Arc<Container>) {
        self.names
            .insert(container.storage(), container.name.clone());
        let replaced = self.containers.insert(container.name.clone(), container);
        self.forget_storage(replaced);
    }

    fn remove(&mut self, name: &ContainerName) {
        let removed = self.containers.remove(name);
        self.forget_storage(removed);
    }

    /// Removes a container's storage from the cache, unless it is cached for another version of it.
    fn forget_storage(&mut self, gone: Option<Arc<Container>>) {
        let Some(storage) = gone.map(|gone| gone.storage()) else {
            return;
        };
        let name = self.names.get(&storage);
        let current = name.and_then(|name| self.containers.get(name));
        if current.is_none_or(|current| current.storage() != storage) {
            self.names.remove(&storage);
            self.outdated.remove(&storage);
        }
    }
}

impl Catalog {
    pub(crate) fn new(
        models: HashMap<String, Arc<dyn Model>>,
        (limits, keeps_heat): (Limits, bool),
        shared_engine: bool,
    ) -> Self {
        Self {
            cache: RwLock::default(),
            models,
            limits,
            keeps_heat,
            shared_engine,
        }
    }

    /// The cached container of this name, if it is certainly the one in force at `version`.
    pub(crate) fn certain(&self, version: u64, name: &ContainerName) -> Option<Arc<Container>> {
        let cache = self.read();
        if self.shared_engine || cache.changes_under_way > 0 {
            return None;
        }
        let container = cache.containers.get(name)?;
        container.usage.note();
        (container.as_of <= version).then(|| Arc::clone(container))
    }

    /// The container of this name that is in force at `snapshot`; none if there is no such.
    pub(crate) async fn look_up(
        &self,
        snapshot: &dyn Snapshot,
        name: &ContainerName,
    ) -> Result<Option<Arc<Container>>> {
        let cached = self.read().probable(name);
        if let Some(container) = cached
            && self.is_in_force(snapshot, &container).await?
        {
            container.usage.note();
            return Ok(Some(container));
        }
        let loaded = self.load(snapshot, name).await?;
        if let Some(container) = &loaded {
            self.remember_loaded(container);
        }
        Ok(loaded)
    }

    async fn is_in_force(&self, snapshot: &dyn Snapshot, container: &Container) -> Result<bool> {
        let stored = snapshot
            .get(&key::definition_version(container.storage()))
            .await?;
        let stored = stored.and_then(|value| decode_version(&value));
        Ok(stored.is_some_and(|(version, name)| {
            version == container.definition.version && name == container.name
        }))
    }

    /// Reads a definition and its partition map from a snapshot.
    pub(crate) async fn load(
        &self,
        snapshot: &dyn Snapshot,
        name: &ContainerName,
    ) -> Result<Option<Arc<Container>>> {
        let loaded = self.read_definition(snapshot, name).await;
        loaded.map_err(|error| damage::named(name, error))
    }

    async fn read_definition(
        &self,
        snapshot: &dyn Snapshot,
        name: &ContainerName,
    ) -> Result<Option<Arc<Container>>> {
        let Some(encoded) = snapshot.get(&key::catalog(name)).await? else {
            return Ok(None);
        };
        let definition = Definition::decode(&encoded)?;
        let target = match definition.relocation {
            None => None,
            Some(target) => {
                let stored = snapshot.get(&relocation_key(target)).await?;
                let lost = || Error::Corrupt("its relocation is missing".to_owned());
                let definition = Definition::decode(&stored.ok_or_else(lost)?)?;
                Some((definition, load_partitions(snapshot, target).await?))
            }
        };
        let draft = Draft {
            name: name.clone(),
            partitions: load_partitions(snapshot, definition.storage).await?,
            definition,
            target,
        };
        Ok(Some(self.container(draft, snapshot.version())))
    }

    /// The model of an API's front end.
    pub(crate) fn model(&self, api: &str) -> Arc<dyn Model> {
        let model = self.models.get(api).map(Arc::clone);
        model.unwrap_or_else(|| Arc::new(Opaque))
    }

    /// How many containers may share the throughput of their database.
    pub(crate) fn max_shared_containers(&self) -> usize {
        self.limits
            .shared_containers
            .unwrap_or(MAX_SHARED_CONTAINERS)
    }

    /// The limits of an API's partitions.
    pub(crate) fn limits(&self, api: &str) -> ContainerLimits {
        self.limits.of(self.model(api).as_ref())
    }

    /// All containers in memory.
    pub(crate) fn in_memory(&self) -> Vec<Arc<Container>> {
        self.read().containers.values().map(Arc::clone).collect()
    }

    /// Records the size that a partition was found to have, if its container is in memory.
    pub(crate) fn note_bytes(
        &self,
        name: &ContainerName,
        place: (StorageId, PartitionId),
        bytes: i64,
    ) {
        let cached = self.read().containers.get(name).map(Arc::clone);
        if let Some(container) = cached.filter(|container| container.storage() == place.0) {
            container.heat.note_bytes(place.1, bytes);
        }
    }

    /// The container that a draft describes, as it is in force at `as_of`.
    pub(crate) fn container(&self, draft: Draft, as_of: u64) -> Arc<Container> {
        let model = self.model(&draft.name.api);
        let is_bookkeeping = draft.name.is_bookkeeping();
        let cached = self.read().containers.get(&draft.name).map(Arc::clone);
        let container = |definition: Definition, partitions, shadow| {
            let before = cached
                .as_deref()
                .and_then(|cached| of_storage(cached, definition.storage));
            Arc::new(Container {
                name: draft.name.clone(),
                heat: insight::inherit(before, &partitions, self.keeps_heat && !is_bookkeeping),
                is_bookkeeping,
                limits: self.limits.of(model.as_ref()),
                definition,
                partitions,
                shadow,
                model: Arc::clone(&model),
                as_of,
                usage: Usage::default(),
            })
        };
        let shadow = draft
            .target
            .map(|(target, partitions)| container(target, partitions, None));
        container(draft.definition, draft.partitions, shadow)
    }

    /// The name of the container that owns a storage id at a snapshot.
    pub(crate) async fn owner(
        &self,
        snapshot: &dyn Snapshot,
        storage: StorageId,
    ) -> Result<Option<ContainerName>> {
        let stored = snapshot.get(&key::definition_version(storage)).await?;
        Ok(stored
            .and_then(|value| decode_version(&value))
            .map(|(_, name)| name))
    }

    /// Caches what was read from a snapshot, unless a change may have come after it.
    fn remember_loaded(&self, container: &Arc<Container>) {
        let mut cache = self.write();
        if cache.changes_under_way == 0 && container.as_of >= cache.last_change {
            cache.outdated.remove(&container.storage());
            cache.insert(Arc::clone(container));
        }
    }

    /// Records that another server changed the definition of this storage.
    pub(crate) fn outdate(&self, storage: StorageId) {
        let mut cache = self.write();
        // Only a cached definition can be out of date, so this set stays bounded.
        if cache.names.contains_key(&storage) {
            cache.outdated.insert(storage);
        }
    }

    /// About how much memory the containers take that are cached.
    pub(crate) fn footprint(&self) -> usize {
        // The definition, its names, its places in tables.
        const EACH: usize = 2 << 10;
        let each = |it: &Arc<Container>| EACH + it.definition.schema.len() + it.heat.footprint();
        self.read().containers.values().map(each).sum()
    }

    /// Ends a round, and removes containers without a request for this many rounds. They are read
    /// again when needed.
    pub(crate) fn forget_idle(&self, rounds: u8) {
        let mut cache = self.write();
        let idle = |container: &&Arc<Container>| {
            let is_idle = container.usage.end_round() >= rounds;
            is_idle && Arc::strong_count(container) == 1
        };
        let forgotten = cache.containers.values().filter(idle);
        let forgotten: Vec<_> = forgotten.map(|it| it.name.clone()).collect();
        for name in forgotten {
            cache.remove(&name);
        }
    }

    /// Announces a change. Until the answer is settled, cached definitions are checked before use.
    pub(crate) fn begin_change(self: &Arc<Self>) -> ChangeUnderWay {
        self.write().changes_under_way += 1;
        ChangeUnderWay {
            catalog: Arc::clone(self),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Cache> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A change of the catalog that may be committed at any moment.
pub(crate) struct ChangeUnderWay {
    catalog: Arc<Catalog>,
}

impl ChangeUnderWay {
    /// Puts the result of a committed change in place of the container it changed. Changes may
    /// settle in another order than they were committed in; then the earlier one leaves the cache
    /// to the later.
    pub(crate) fn settle(
        self,
        committed_at: u64,
        changed: &ContainerName,
        now: Option<Arc<Container>>,
    ) {
        let mut cache = self.catalog.write();
        // A renamed container may have replaced another.
        let taken = now.as_ref().map(|now| &now.name);
        for name in [Some(changed), taken].into_iter().flatten() {
            let cached = cache.containers.get(name);
            if cached.is_some_and(|cached| cached.as_of < committed_at) {
                cache.remove(name);
            }
        }
        if committed_at >= cache.last_change {
            cache.last_change = committed_at;
            if let Some(container) = now {
                cache.insert(container);
            }
        }
    }
}

impl Drop for ChangeUnderWay {
    fn drop(&mut self) {
        self.catalog.write().changes_under_way -= 1;
    }
}

/// The container or the one that a relocation of it fills, whichever is of this storage.
fn of_storage(container: &Container, storage: StorageId) -> Option<&Container> {
    let shadow = container.shadow.as_deref();
    let mut storages = [Some(container), shadow].into_iter().flatten();
    storages.find(|container| container.storage() == storage)
}

pub(crate) fn relocation_key(target: StorageId) -> Bytes {
    key::system_key(system::RELOCATION, &target.to_be_bytes())
}

/// The value of a version key: the version and the owner's name.
pub(crate) fn encode_version(version: u64, name: &ContainerName) -> Bytes {
    let mut value = BytesMut::with_capacity(64);
    value.put_u64(version);
    let mut encoded = Vec::new();
    name.encode_into(&mut encoded);
    value.put_slice(&encoded);
    value.freeze()
}

pub(crate) fn decode_version(value: &[u8]) -> Option<(u64, ContainerName)> {
    let mut input = value;
    let version = take_u64(&mut input)?;
    Some((version, ContainerName::decode(&mut input)?))
}

async fn load_partitions(snapshot: &dyn Snapshot, storage: StorageId) -> Result<PartitionMap> {
    let mut records = Vec::new();
    let mut scan = Scan::new(key::partitions(storage));
    loop {
        let page = snapshot.scan(&scan).await?;
        for (key, value) in &page.entries {
            let damaged = || Error::Corrupt(format!("a partition of storage {storage}"));
            let first = key::parse_partition(key).ok_or_else(damaged)?;
            let record: PartitionRecord = serde_json::from_slice(value).map_err(|_| damaged())?;
            records.push((first, record));
        }
        match page.entries.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => return PartitionMap::from_records(records),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::NewContainer;
    use crate::memory::MemoryEngine;
    use crate::store::{Store, StoreOptions};

    async fn store_with(containers: &[&str]) -> Store {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine, StoreOptions::default()).await.unwrap();
        for name in containers {
            let name = ContainerName::new("test", "db", *name);
            let new = NewContainer::default();
            store.create_container(&name, &new).await.unwrap();
        }
        store
    }

    fn cached(store: &Store) -> Vec<String> {
        let cache = store.catalog().read();
        assert_eq!(cache.names.len(), cache.containers.len());
        let mut names: Vec<_> = cache
            .names
            .values()
            .map(|it| it.container.clone())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn what_nobody_uses_is_forgotten_and_read_again_when_it_is_needed() {
        let store = store_with(&["used", "idle", "held"]).await;
        let name = |name| ContainerName::new("test", "db", name);
        let held = store.begin().await.unwrap().container(&name("held")).await;
        for _ in 0..4 {
            let mut transaction = store.begin().await.unwrap();
            transaction.container(&name("used")).await.unwrap();
            drop(transaction);
            store.catalog().forget_idle(3);
        }
        assert_eq!(cached(&store), ["held", "used"]);
        drop(held);
        store.catalog().forget_idle(3);
        assert_eq!(cached(&store), ["used"]);
        let mut transaction = store.begin().await.unwrap();
        transaction.container(&name("idle")).await.unwrap();
        assert_eq!(cached(&store), ["idle", "used"]);
    }

    #[tokio::test]
    async fn storages_of_the_cache_follow_renames_truncates_and_drops() {
        let store = store_with(&["a", "b", "c"]).await;
        let name = |name| ContainerName::new("test", "db", name);
        store.truncate_container(&name("a")).await.unwrap();
        store
            .rename_container(&name("b"), &name("d"))
            .await
            .unwrap();
        store.drop_container(&name("c")).await.unwrap();
        assert_eq!(cached(&store), ["a", "d"]);
        store
            .rename_container(&name("a"), &name("c"))
            .await
            .unwrap();
        assert_eq!(cached(&store), ["c", "d"]);
    }
}
