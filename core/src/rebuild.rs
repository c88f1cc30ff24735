//! Rebuilding a container beside its traffic: building an index, or moving all items to a new
//! storage.
//!
//! Both go the same way. One change of the catalog begins it: from then on writers maintain the new
//! index, or write to both storages. Then all items from before are added page by page; each page
//! guards the items it read, so that a concurrent change of one of them makes the page or the
//! change run again. At the end one change of the catalog switches over. An item that does not fit
//! (a second one with the same unique value, one without the new key) ends the rebuild and leaves
//! the container as it was. A write of such an item during a relocation is not refused: it leaves a
//! note with the storage being filled, and the relocation ends when it finds the note.

use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::Draft;
use crate::container::Container;
use crate::definition::{Definition, IndexDefinition, IndexState, NewIndex, RELOCATION_INDEX};
use crate::error::{Error, Result};
use crate::item::Item;
use crate::job::{Job, JobId, Task};
use crate::key::{self, IndexId, PartitionId, StorageId};
use crate::misfit::{Misfit, misfit_key};
use crate::model::Model;
use crate::name::ContainerName;
use crate::partition_map::PartitionMap;
use crate::reaper::reap_key;
use crate::schema_change::refuse_while_relocating;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk;
use crate::writing::relocated;

/// Items in one page of a rebuild: a concurrent writer waits for all of them. Pages that keep
/// conflicting are cut down to single items.
const PAGE_ITEMS: usize = 64;

/// The target of a relocation.
#[derive(Clone, Debug, Default)]
pub struct NewPlacement {
    /// The front end's schema from then on; it tells the model how to place items.
    pub schema: Bytes,
    /// Number of physical partitions to begin with.
    pub partitions: u32,
    /// Whether each logical partition is counted on its own; as before if none.
    pub counts_logical_partitions: Option<bool>,
    /// Indexes that it has only from then on. They are filled with it, so they need no building.
    pub new_indexes: Vec<NewIndex>,
    /// Names of indexes that it no longer has then.
    pub dropped_indexes: Vec<String>,
}

impl NewPlacement {
    /// What the container's definition will be in `storage`.
    fn target(&self, current: &Definition, storage: StorageId) -> Result<Definition> {
        let mut target = current.clone();
        target.storage = storage;
        // Its writes are recorded in the feed of the storage that is written first.
        target.feed = None;
        target.next_partition = self.partitions.max(target.partitions_needed());
        target.schema = self.schema.clone();
        if let Some(counts) = self.counts_logical_partitions {
            target.counts_logical_partitions = counts;
        }
        let dropped = &self.dropped_indexes;
        target
            .indexes
            .retain(|index| !dropped.contains(&index.name));
        for index in &self.new_indexes {
            if target.index(&index.name).is_some() {
                return Err(Error::AlreadyExists(format!("index '{}'", index.name)));
            }
            target.add_index(index, IndexState::Ready);
        }
        Ok(target)
    }
}

/// A front end's schema that replaces the one it was made from and no other, so that concurrent
/// changes are never lost.
#[derive(Clone, Debug)]
pub struct SchemaSwap {
    /// The schema that must still be in force; if it is not, the change is an [`Error::Conflict`].
    pub from: Bytes,
    /// The schema that replaces it.
    pub to: Bytes,
}

impl SchemaSwap {
    fn apply(&self, definition: &mut Definition) -> Result<()> {
        if definition.schema != self.from {
            return Err(Error::Conflict);
        }
        definition.schema = self.to.clone();
        Ok(())
    }
}

impl Store {
    /// Creates an index and waits until it is complete.
    pub async fn create_index(
        &self,
        name: &ContainerName,
        new: &NewIndex,
        schema: Option<SchemaSwap>,
    ) -> Result<Arc<Container>> {
        let id = self.begin_index(name, new, schema).await?;
        self.run_job(id).await?;
        self.begin().await?.container(name).await
    }

    /// Begins an index: writers maintain it from now on. `schema`, if given, takes effect with it.
    /// If it cannot be built, both are undone together: see [`Model::without_index`].
    ///
    /// [`Model::without_index`]: crate::model::Model::without_index
    pub async fn begin_index(
        &self,
        name: &ContainerName,
        new: &NewIndex,
        schema: Option<SchemaSwap>,
    ) -> Result<JobId> {
        let id = self.take_job_id().await?;
        let (store, new) = (self.clone(), new.clone());
        self.alter(name, move |transaction, mut draft| {
            let (store, new, schema) = (store.clone(), new.clone(), schema.clone());
            Box::pin(async move {
                if let Some(schema) = schema {
                    schema.apply(&mut draft.definition)?;
                }
                if draft.definition.index(&new.name).is_some() {
                    return Err(Error::AlreadyExists(format!("index '{}'", new.name)));
                }
                refuse_while_relocating(&draft.definition)?;
                let index = draft.definition.add_index(&new, IndexState::Building);
                let task = Task::BuildIndex { index };
                store.save_job(transaction, id, &draft, task).await?;
                Ok(draft)
            })
        })
        .await?;
        Ok(id)
    }

    /// Drops an index. Its entries are deleted in the background.
    pub async fn drop_index(
        &self,
        name: &ContainerName,
        index: &str,
        schema: Option<SchemaSwap>,
    ) -> Result<Arc<Container>> {
        let index = index.to_owned();
        self.alter(name, move |transaction, mut draft| {
            let swapped = schema
                .as_ref()
                .map_or(Ok(()), |schema| schema.apply(&mut draft.definition));
            let altered = swapped.and_then(|()| {
                let dropped = draft.definition.index(&index).map(|index| index.id);
                let missing = || Error::NotFound(format!("index '{index}'"));
                let id = dropped.ok_or_else(missing)?;
                refuse_while_relocating(&draft.definition)?;
                drop_index(transaction, &mut draft.definition, id);
                Ok(draft)
            });
            Box::pin(async move { altered })
        })
        .await
    }

    /// Lets a complete index take the place and the name of another one, whose entries are deleted
    /// in the background. `schema` takes effect with it.
    pub async fn replace_index(
        &self,
        name: &ContainerName,
        (old, new): (&str, &str),
        schema: SchemaSwap,
    ) -> Result<Arc<Container>> {
        let (old, new) = (old.to_owned(), new.to_owned());
        self.alter(name, move |transaction, mut draft| {
            let altered = schema.apply(&mut draft.definition).and_then(|()| {
                let definition = &mut draft.definition;
                refuse_while_relocating(definition)?;
                let missing = |index: &str| Error::NotFound(format!("index '{index}'"));
                let replaced = definition.index(&old).ok_or_else(|| missing(&old))?.id;
                drop_index(transaction, definition, replaced);
                let mut indexes = definition.indexes.iter_mut();
                let is_new =
                    |it: &&mut IndexDefinition| it.name == new && it.state == IndexState::Ready;
                indexes.find(is_new).ok_or_else(|| missing(&new))?.name = old.clone();
                Ok(draft)
            });
            Box::pin(async move { altered })
        })
        .await
    }

    /// Moves all items to a new storage, placed as the model says under the new schema, and waits
    /// until that is done.
    pub async fn relocate(
        &self,
        name: &ContainerName,
        placement: &NewPlacement,
    ) -> Result<Arc<Container>> {
        let id = self.begin_relocation(name, placement).await?;
        self.run_job(id).await?;
        self.begin().await?.container(name).await
    }

    /// Begins a relocation: writers write to both storages from now on.
    pub async fn begin_relocation(
        &self,
        name: &ContainerName,
        placement: &NewPlacement,
    ) -> Result<JobId> {
        let id = self.take_job_id().await?;
        let storage = self.take_storage_id().await?;
        let (store, placement) = (self.clone(), placement.clone());
        self.alter(name, move |transaction, mut draft| {
            let (store, placement) = (store.clone(), placement.clone());
            Box::pin(async move {
                refuse_while_relocating(&draft.definition)?;
                if draft
                    .definition
                    .indexes
                    .iter()
                    .any(|i| i.state == IndexState::Building)
                {
                    return Err(Error::Rejected(
                        "an index is being built; move the container when that is done".into(),
                    ));
                }
                let target = placement.target(&draft.definition, storage)?;
                let partitions = PartitionMap::equal(target.next_partition);
                store
                    .save_job(transaction, id, &draft, Task::Relocate)
                    .await?;
                draft.target = Some((target, partitions));
                Ok(draft)
            })
        })
        .await?;
        Ok(id)
    }

    async fn save_job(
        &self,
        transaction: &mut Transaction,
        id: JobId,
        draft: &Draft,
        task: Task,
    ) -> Result<()> {
        let mut job = Job::new(self, id, draft, task);
        let container = transaction.container(&draft.name).await?;
        let statistics = transaction.statistics(&container).await?;
        let items: i64 = statistics.iter().map(|row| row.tally.items).sum();
        job.total = u64::try_from(items).unwrap_or(0);
        job.save(transaction)
    }

    pub(crate) async fn run_index_build(&self, job: &Job, index: IndexId) -> Result<()> {
        let id = job.id;
        let built = self.copy_pages(job).await;
        let switched = match built {
            Ok(()) => self.alter_owner(job.storage, move |transaction, mut draft| {
                if let Some(index) = draft.definition.indexes.iter_mut().find(|i| i.id == index) {
                    index.state = IndexState::Ready;
                }
                transaction.writes.delete(Job::key(id));
                Box::pin(async move { Ok(draft) })
            }),
            Err(error) => return self.give_up(job, error).await,
        };
        switched.await.map(|_| ())
    }

    pub(crate) async fn run_relocation(&self, job: &Job) -> Result<()> {
        let moved = match self.copy_pages(job).await {
            Ok(()) => self.switch_over(job).await,
            Err(error) => Err(error),
        };
        match moved {
            Ok(()) => Ok(()),
            Err(error) => self.give_up(job, error).await,
        }
    }

    /// Lets the filled storage take the old one's place.
    async fn switch_over(&self, job: &Job) -> Result<()> {
        let id = job.id;
        let switched = self.alter_owner(job.storage, move |transaction, mut draft| {
            Box::pin(async move {
                Job::load_own(transaction, id).await?;
                let lost = || Error::NotFound("the new storage".into());
                let (target, partitions) = draft.target.take().ok_or_else(lost)?;
                check_fit(transaction, target.storage).await?;
                transaction.writes.delete(Job::key(id));
                let claims = reap_key(target.storage, Some(RELOCATION_INDEX));
                transaction.writes.put(claims, Bytes::new());
                // Throughput may have been provisioned meanwhile.
                draft.definition = Definition {
                    provisioned: draft.definition.provisioned,
                    autoscale: draft.definition.autoscale,
                    shared: draft.definition.shared,
                    feed: draft.definition.feed,
                    ..target
                };
                draft.partitions = partitions;
                Ok(draft)
            })
        });
        switched.await.map(|_| ())
    }

    /// Adds all items from before, page by page.
    async fn copy_pages(&self, job: &Job) -> Result<()> {
        let mut page_items = PAGE_ITEMS;
        let mut attempt = 0;
        loop {
            match self.copy_page(job.id, page_items).await {
                Ok(true) => {
                    attempt = 0;
                    page_items = (page_items * 2).min(PAGE_ITEMS);
                }
                Ok(false) => return Ok(()),
                Err(Error::Conflict) => {
                    page_items = (page_items / 2).max(1);
                    self.pause_before_retry(&mut attempt).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds one page of items; returns whether there are more.
    async fn copy_page(&self, id: JobId, max_items: usize) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let mut job = Job::load_own(&transaction, id).await?;
        let container = transaction.owner(job.storage).await?;
        transaction.guard_definition(&container);
        if let Some(target) = container.definition.relocation {
            check_fit(&mut transaction, target).await?;
        }
        let page = transaction.scan_keys(&job.next_page(max_items)).await?;
        if let Some((last, _)) = page.entries.last() {
            job.advance(last, page.entries.len());
        }
        for (key, value) in page.entries {
            let item = walk::item(&key, value)?;
            transaction.writes.guard(key);
            if !item.is_expired(transaction.now_ms) {
                add_item(&mut transaction, &container, &job.task, &item).await?;
            }
        }
        job.save(&mut transaction)?;
        transaction.commit().await?;
        Ok(page.more)
    }

    /// Ends a rebuild that cannot be completed, leaving the container as it was, and returns the
    /// reason.
    async fn give_up(&self, job: &Job, cause: Error) -> Result<()> {
        let (id, task) = (job.id, job.task.clone());
        let catalog = Arc::clone(self.catalog());
        let undone = match &cause {
            Error::NotFound(_) => self.forget_job(job).await,
            // The engine failed, not the rebuild: the next owner of the lease continues.
            cause if cause.is_of_engine() => Ok(()),
            Error::Conflict | Error::Throttled { .. } | Error::Internal(_) => Ok(()),
            _ => self
                .alter_owner(job.storage, move |transaction, mut draft| {
                    transaction.writes.delete(Job::key(id));
                    let undone = match &task {
                        Task::BuildIndex { index } => {
                            let model = catalog.model(&draft.name.api);
                            undo_index(transaction, &mut draft.definition, *index, &*model)
                        }
                        Task::Relocate => {
                            draft.target = None;
                            Ok(())
                        }
                        Task::Repartition { parents } => {
                            abandon(transaction, &mut draft, parents);
                            Ok(())
                        }
                    };
                    Box::pin(async move { undone.map(|()| draft) })
                })
                .await
                .map(|_| ()),
        };
        undone.and(Err(cause))
    }

    /// Aborts a running rebuild: the container stays as it was.
    pub async fn cancel_job(&self, id: JobId) -> Result<()> {
        let jobs = self.jobs().await?;
        let job = jobs.into_iter().find(|job| job.id == id);
        let job = job.ok_or_else(|| Error::NotFound(format!("job {id}")))?;
        let cancelled = Error::Rejected("it was cancelled".into());
        match self.give_up(&job, cancelled.clone()).await {
            Err(error) if error == cancelled => Ok(()),
            other => other,
        }
    }
}

/// Ends a relocation after a misfit was written.
async fn check_fit(transaction: &mut Transaction, target: StorageId) -> Result<()> {
    let key = misfit_key(target);
    let misfit = transaction.get(&key).await?;
    transaction.writes.guard(key);
    misfit.map_or(Ok(()), |misfit| Err(Misfit::decode(&misfit)))
}

async fn add_item(
    transaction: &mut Transaction,
    container: &Arc<Container>,
    task: &Task,
    item: &Item,
) -> Result<()> {
    match task {
        Task::BuildIndex { index } => {
            let definition = &container.definition;
            let building = definition.index_by_id(*index);
            let building = building.ok_or_else(|| Error::NotFound("the index".into()))?;
            let building = std::slice::from_ref(building);
            for entry in container.model.index_entries(definition, building, item)? {
                transaction
                    .add_index_entry(container, &entry, &item.locator)
                    .await?;
            }
            Ok(())
        }
        Task::Relocate => {
            let shadow = container.shadow.as_ref();
            let shadow = shadow.ok_or_else(|| Error::NotFound("the new storage".into()))?;
            let moved = relocated(shadow, item)?;
            transaction.place(shadow, &item.locator, &moved).await
        }
        Task::Repartition { .. } => Ok(()),
    }
}

/// Aborts a split or merge, and removes the tallies of the heirs.
pub(crate) fn abandon(transaction: &mut Transaction, draft: &mut Draft, parents: &[PartitionId]) {
    let parts = draft.partitions.iter();
    let abandoned = parts.filter(|partition| parents.contains(&partition.id));
    for heir in abandoned.flat_map(|partition| &partition.heirs) {
        let tally = key::physical_tally(draft.definition.storage, heir.id);
        transaction.writes.delete(tally);
    }
    draft.partitions.abandon(parents);
}

/// Removes an index that could not be built, also from the front end's schema.
fn undo_index(
    transaction: &mut Transaction,
    definition: &mut Definition,
    id: IndexId,
    model: &dyn Model,
) -> Result<()> {
    if let Some(index) = definition.index_by_id(id) {
        definition.schema = model.without_index(&definition.schema, &index.name)?;
    }
    drop_index(transaction, definition, id);
    Ok(())
}

fn drop_index(transaction: &mut Transaction, definition: &mut Definition, id: IndexId) {
    definition.indexes.retain(|index| index.id != id);
    transaction
        .writes
        .put(reap_key(definition.storage, Some(id)), Bytes::new());
}
