//! Changing the catalog: create, drop, truncate, rename and alter containers.
//!
//! Every change is one transaction that rewrites the container's catalog entry, its version key and
//! the rows of its partition map. It therefore conflicts with writers of that container, who retry
//! and see the new definition, and with nothing else.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::{Catalog, Draft, encode_version};
use crate::container::Container;
use crate::damage;
use crate::database::require_database;
use crate::definition::{Definition, IndexState, NewContainer};
use crate::engine::{BoxFuture, Snapshot};
use crate::error::{Error, Result};
use crate::feed::policy::{inherited, meet_schema};
use crate::job::Job;
use crate::key::{self, StorageId};
use crate::layout_change::{forget_storage, forget_target, write_partitions, write_target};
use crate::name::ContainerName;
use crate::partition_map::PartitionMap;
use crate::sharing::{join, shared_in};
use crate::store::{Store, check_format};
use crate::transaction::Transaction;

/// The container of a change.
pub(crate) enum Subject {
    Name(ContainerName),
    /// A job knows the storage that it works on; the container may be renamed meanwhile.
    OwnerOf(StorageId),
}

impl Subject {
    async fn name(&self, catalog: &Catalog, snapshot: &dyn Snapshot) -> Result<ContainerName> {
        match self {
            Self::Name(name) => Ok(name.clone()),
            Self::OwnerOf(storage) => {
                let owner = catalog.owner(snapshot, *storage).await?;
                owner.ok_or_else(|| Error::NotFound(self.to_string()))
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "container '{name}'"),
            Self::OwnerOf(storage) => write!(f, "the container of storage {storage}"),
        }
    }
}

impl Draft {
    pub(crate) fn of(container: &Container) -> Self {
        let target = container.shadow.as_ref();
        Self {
            name: container.name.clone(),
            definition: container.definition.clone(),
            partitions: container.partitions.clone(),
            target: target.map(|s| (s.definition.clone(), s.partitions.clone())),
        }
    }

    /// The first state of a new container, which depends on the shared throughput of its database.
    pub(crate) async fn create(
        transaction: &mut Transaction,
        name: ContainerName,
        storage: StorageId,
        new: &NewContainer,
    ) -> Result<Self> {
        let shared = shared_in(transaction, &name).await?;
        if let (Some(shared), None) = (shared, new.throughput) {
            join(transaction, &name, shared).await?;
        }
        let (mut definition, partitions) = Definition::create(storage, new, shared);
        let inherited = inherited(transaction, &name).await?;
        inherited.apply_to(&mut definition, storage);
        meet_schema(transaction, &name, (&mut definition, storage)).await?;
        Ok(Self {
            name,
            definition,
            partitions: PartitionMap::equal(partitions),
            target: None,
        })
    }
}

impl Store {
    /// Creates a container.
    pub async fn create_container(
        &self,
        name: &ContainerName,
        new: &NewContainer,
    ) -> Result<Arc<Container>> {
        if name.container.is_empty() {
            return Err(Error::Rejected("a container needs a name".into()));
        }
        let storage = self.take_storage_id().await?;
        let asked = Arc::new((name.clone(), new.clone()));
        let created = self
            .change_catalog(Subject::Name(name.clone()), move |transaction, existing| {
                let asked = Arc::clone(&asked);
                Box::pin(async move {
                    let (name, new) = asked.as_ref();
                    if let Some(existing) = existing {
                        let taken = format!("container '{}'", existing.name);
                        return Err(Error::AlreadyExists(taken));
                    }
                    if new.requires_database {
                        require_database(transaction, name).await?;
                    }
                    let draft = Draft::create(transaction, name.clone(), storage, new);
                    draft.await.map(Some)
                })
            })
            .await?;
        created.ok_or_else(|| Error::Internal("a created container is missing".into()))
    }

    /// Drops a container. Its data is deleted in the background.
    pub async fn drop_container(&self, name: &ContainerName) -> Result<()> {
        let missing = Error::NotFound(format!("container '{name}'"));
        let dropped = self.change_catalog(Subject::Name(name.clone()), move |_, existing| {
            let missing = missing.clone();
            Box::pin(async move { existing.map(|_| None).ok_or(missing) })
        });
        match dropped.await {
            Err(Error::Corrupt(_)) => self.drop_damaged(name).await,
            dropped => dropped.map(|_| ()),
        }
    }

    /// Removes all items of a container at once, keeping its definition and its partitions.
    pub async fn truncate_container(&self, name: &ContainerName) -> Result<Arc<Container>> {
        let storage = self.take_storage_id().await?;
        self.alter(name, move |transaction, mut draft| {
            Box::pin(async move {
                if draft.target.is_some() {
                    return Err(Error::Rejected(
                        "the container is being rebuilt; truncate it when that is done".into(),
                    ));
                }
                end_jobs(transaction, &mut draft).await?;
                draft.definition.storage = storage;
                Ok(draft)
            })
        })
        .await
    }

    /// Gives a container another name, which must be free.
    pub async fn rename_container(
        &self,
        from: &ContainerName,
        to: &ContainerName,
    ) -> Result<Arc<Container>> {
        self.rename(from, to, None).await
    }

    /// Renames a container, and drops the one that has the new name, if there is one: atomically,
    /// so that one of them is always found there.
    pub async fn replace_container(
        &self,
        from: &ContainerName,
        to: &ContainerName,
    ) -> Result<Arc<Container>> {
        self.replace_container_if(from, to, |_| Ok(())).await
    }

    /// The same, unless `may_drop` refuses the container that is there by then. A damaged one is
    /// dropped in any case.
    pub async fn replace_container_if<F>(
        &self,
        from: &ContainerName,
        to: &ContainerName,
        may_drop: F,
    ) -> Result<Arc<Container>>
    where
        F: Fn(&Container) -> Result<()> + Send + Sync + 'static,
    {
        self.rename(from, to, Some(Arc::new(may_drop))).await
    }

    async fn rename(
        &self,
        from: &ContainerName,
        to: &ContainerName,
        may_drop: Option<MayDrop>,
    ) -> Result<Arc<Container>> {
        if from == to {
            return Err(Error::AlreadyExists(format!("container '{to}'")));
        }
        let (to, feed) = (to.clone(), self.take_storage_id().await?);
        self.alter(from, move |transaction, mut draft| {
            let (to, may_drop) = (to.clone(), may_drop.clone());
            Box::pin(async move {
                refuse_while_relocating(&draft.definition)?;
                match (transaction.get(&key::catalog(&to)).await?, may_drop) {
                    (None, _) => {}
                    (Some(stored), Some(may_drop)) => {
                        drop_in(transaction, &to, &stored, may_drop.as_ref()).await?;
                    }
                    (Some(_), None) => {
                        return Err(Error::AlreadyExists(format!("container '{to}'")));
                    }
                }
                let shared = shared_in(transaction, &to).await?;
                if let (Some(shared), None) = (shared, draft.definition.provisioned)
                    && draft.name.database != to.database
                {
                    join(transaction, &to, shared).await?;
                }
                draft.definition.shared = shared;
                if draft.name.database != to.database {
                    let inherited = inherited(transaction, &to).await?;
                    inherited.apply_to(&mut draft.definition, feed);
                }
                draft.name = to;
                Ok(draft)
            })
        })
        .await
    }

    /// Replaces the front end's schema of a container by the result of `edit`. One statement, so
    /// concurrent changes are not lost.
    pub async fn alter_schema<F>(&self, name: &ContainerName, edit: F) -> Result<Arc<Container>>
    where
        F: Fn(&Bytes) -> Result<Bytes> + Send + Sync + 'static,
    {
        let feed = self.take_storage_id().await?;
        self.alter(name, move |transaction, mut draft| {
            let edited = edit(&draft.definition.schema);
            Box::pin(async move {
                // The target of a relocation has a schema of its own, which must not be outdated.
                refuse_while_relocating(&draft.definition)?;
                draft.definition.schema = edited?;
                let definition = (&mut draft.definition, feed);
                meet_schema(transaction, &draft.name, definition).await?;
                Ok(draft)
            })
        })
        .await
    }

    /// Changes an existing container.
    pub(crate) async fn alter<F>(&self, name: &ContainerName, edit: F) -> Result<Arc<Container>>
    where
        F: for<'a> Fn(&'a mut Transaction, Draft) -> BoxFuture<'a, Result<Draft>>
            + Send
            + Sync
            + 'static,
    {
        self.alter_subject(Subject::Name(name.clone()), edit).await
    }

    /// Changes the container that owns a storage, whatever its present name.
    pub(crate) async fn alter_owner<F>(&self, storage: StorageId, edit: F) -> Result<Arc<Container>>
    where
        F: for<'a> Fn(&'a mut Transaction, Draft) -> BoxFuture<'a, Result<Draft>>
            + Send
            + Sync
            + 'static,
    {
        self.alter_subject(Subject::OwnerOf(storage), edit).await
    }

    async fn alter_subject<F>(&self, subject: Subject, edit: F) -> Result<Arc<Container>>
    where
        F: for<'a> Fn(&'a mut Transaction, Draft) -> BoxFuture<'a, Result<Draft>>
            + Send
            + Sync
            + 'static,
    {
        let missing = subject.to_string();
        let edit = Arc::new(edit);
        let altered = self.change_catalog(subject, move |transaction, existing| {
            let edit = Arc::clone(&edit);
            let missing = missing.clone();
            Box::pin(async move {
                let existing = existing.ok_or(Error::NotFound(missing))?;
                edit(transaction, Draft::of(&existing)).await.map(Some)
            })
        });
        altered
            .await?
            .ok_or_else(|| Error::Internal("an altered container is missing".into()))
    }

    /// Runs one change of the catalog to its end, also if the caller is dropped: a commit whose
    /// result never reached the cache would leave it wrong for good.
    async fn change_catalog<F>(&self, subject: Subject, edit: F) -> Result<Option<Arc<Container>>>
    where
        F: for<'a> Fn(
                &'a mut Transaction,
                Option<Arc<Container>>,
            ) -> BoxFuture<'a, Result<Option<Draft>>>
            + Send
            + Sync
            + 'static,
    {
        let edit = Arc::new(edit);
        self.write_catalog(subject, move |transaction, name| {
            let edit = Arc::clone(&edit);
            Box::pin(async move {
                let catalog = Arc::clone(transaction.store.catalog());
                let snapshot = transaction.snapshot.as_ref();
                let existing = catalog.load(snapshot, &name).await?;
                let draft = edit(transaction, existing.clone()).await?;
                write_change(transaction, existing.as_deref(), draft)
            })
        })
        .await
    }

    /// Commits what `write` buffers as one change of the catalog, and caches the result.
    pub(crate) async fn write_catalog<F>(
        &self,
        subject: Subject,
        write: F,
    ) -> Result<Option<Arc<Container>>>
    where
        F: for<'a> Fn(&'a mut Transaction, ContainerName) -> BoxFuture<'a, Result<Option<Draft>>>
            + Send
            + Sync
            + 'static,
    {
        let store = self.clone();
        let change = crate::deadline::spawn("definition", async move {
            let mut attempt = 0;
            loop {
                let change = store.catalog().begin_change();
                let mut transaction = store.begin().await?;
                refuse_other_format(&mut transaction).await?;
                let snapshot = transaction.snapshot.as_ref();
                let name = subject.name(store.catalog(), snapshot).await?;
                let draft = write(&mut transaction, name.clone()).await?;
                match transaction.commit().await {
                    Ok(committed) => {
                        let now =
                            draft.map(|draft| store.catalog().container(draft, committed.version));
                        change.settle(committed.version, &name, now.clone());
                        store.wake_background();
                        return Ok(now);
                    }
                    Err(Error::Conflict) => store.pause_before_retry(&mut attempt).await?,
                    Err(error) => return Err(error),
                }
            }
        });
        change
            .await
            .map_err(|error| Error::Internal(error.to_string()))?
    }
}

/// Refuses to change the catalog after a newer server has changed the format of the data while this
/// one runs.
async fn refuse_other_format(transaction: &mut Transaction) -> Result<()> {
    let key = key::system_key(key::system::FORMAT, &[]);
    let stored = transaction.get(&key).await?;
    transaction.writes.guard(key);
    check_format(stored.as_deref().unwrap_or_default())
}

/// Judges a container that is about to be dropped.
type MayDrop = Arc<dyn Fn(&Container) -> Result<()> + Send + Sync>;

/// Buffers the drop of a container, also of a damaged one.
async fn drop_in(
    transaction: &mut Transaction,
    name: &ContainerName,
    stored: &Bytes,
    may_drop: &(dyn Fn(&Container) -> Result<()> + Send + Sync),
) -> Result<()> {
    let catalog = Arc::clone(transaction.store.catalog());
    match catalog.load(transaction.snapshot.as_ref(), name).await {
        Err(Error::Corrupt(_)) => damage::forget(transaction, name, stored).await,
        Err(error) => Err(error),
        Ok(existing) => {
            existing.as_deref().map_or(Ok(()), may_drop)?;
            write_change(transaction, existing.as_deref(), None).map(|_| ())
        }
    }
}

/// Buffers the change from `existing` to `draft`; no draft means a drop.
pub(crate) fn write_change(
    transaction: &mut Transaction,
    existing: Option<&Container>,
    draft: Option<Draft>,
) -> Result<Option<Draft>> {
    let Some(mut draft) = draft else {
        if let Some(existing) = existing {
            transaction.note_definition(Some(existing), None)?;
            let writes = &mut transaction.writes;
            writes.delete(key::catalog(&existing.name));
            writes.announce(key::definition_version(existing.storage()));
            forget_storage(transaction, existing);
            if let Some(shadow) = &existing.shadow {
                forget_target(transaction, shadow);
            }
        }
        return Ok(None);
    };
    draft.definition.version = existing.map_or(0, |e| e.definition.version) + 1;
    draft.definition.relocation = draft.target.as_ref().map(|(target, _)| target.storage);
    transaction.note_definition(existing, Some(&mut draft))?;
    check_readable(transaction, existing, &draft)?;
    if let Some(existing) = existing {
        if existing.name != draft.name {
            transaction.writes.delete(key::catalog(&existing.name));
        }
        if existing.storage() != draft.definition.storage {
            forget_storage(transaction, existing);
        }
        write_target(transaction, existing.shadow.as_deref(), &draft)?;
    } else {
        write_target(transaction, None, &draft)?;
    }
    let definition = &draft.definition;
    let version = encode_version(definition.version, &draft.name);
    let writes = &mut transaction.writes;
    writes.put(key::catalog(&draft.name), definition.encode()?);
    writes.put(key::definition_version(definition.storage), version);
    // Other servers have it cached under its old storage.
    let storage = existing.map_or(definition.storage, Container::storage);
    writes.announce(key::definition_version(storage));
    let stored = existing.filter(|e| e.storage() == definition.storage);
    let stored = stored.map(|existing| &existing.partitions);
    write_partitions(transaction, definition.storage, stored, &draft.partitions)?;
    Ok(Some(draft))
}

/// Reads back the definitions of a draft from the bytes that will be stored. A schema that does not
/// change is not checked again, so that a container which cannot be read any more can still be
/// split or renamed.
fn check_readable(
    transaction: &Transaction,
    existing: Option<&Container>,
    draft: &Draft,
) -> Result<()> {
    let model = transaction.store.catalog().model(&draft.name.api);
    let target = draft.target.as_ref().map(|(target, _)| target);
    let shadow = existing.and_then(Container::relocation);
    let existing = existing.map(|existing| &existing.definition);
    for (definition, before) in [(Some(&draft.definition), existing), (target, shadow)] {
        let Some(definition) = definition else {
            continue;
        };
        let read = Definition::decode(&definition.encode()?)?;
        if read != *definition {
            let lost = format!("the definition of '{}' does not read back", draft.name);
            return Err(Error::Internal(lost));
        }
        if before.is_none_or(|before| before.schema != definition.schema) {
            model.check_definition(&read)?;
        }
    }
    Ok(())
}

/// Refuses a change that a relocation under way would undo or not survive.
pub(crate) fn refuse_while_relocating(definition: &Definition) -> Result<()> {
    if definition.relocation.is_some() {
        return Err(Error::Rejected(
            "the container is being moved; try again when that is done".into(),
        ));
    }
    Ok(())
}

/// Ends the jobs of a container whose data is left behind: without items every split is done, and
/// every index complete.
async fn end_jobs(transaction: &mut Transaction, draft: &mut Draft) -> Result<()> {
    for job in Job::all(transaction).await? {
        if job.storage == draft.definition.storage {
            transaction.writes.delete(Job::key(job.id));
        }
    }
    let partitions: Vec<_> = draft.partitions.iter().map(|p| p.id).collect();
    draft.partitions.abandon(&partitions);
    for index in &mut draft.definition.indexes {
        index.state = IndexState::Ready;
    }
    Ok(())
}
