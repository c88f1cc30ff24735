//! Splits and index builds whose job is gone: resumed or aborted at the next start.
//!
//! Heirs and building indexes come with a job in one commit and go with it in another. Data of
//! earlier versions may hold them without one: a container that was renamed or truncated meanwhile
//! lost its job. Such a partition could never be split again, and such an index never be used.

use std::collections::BTreeSet;

use crate::catalog::Draft;
use crate::database::all_definitions;
use crate::definition::IndexState;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::job::{Job, JobId, Task};
use crate::key::{self, IndexId, PartitionId, StorageId};
use crate::partition_map::PartitionRecord;
use crate::rebuild::abandon;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::Walk;

impl Store {
    /// Heals all containers, and runs the jobs that this begins.
    pub(crate) async fn adopt_all_orphans(&self) -> Result<()> {
        for storage in self.unfinished().await? {
            match self.adopt_orphans(storage).await {
                Ok(jobs) => {
                    for job in jobs {
                        self.clone().run_resumed(job).await;
                    }
                }
                // Gone meanwhile.
                Err(Error::NotFound(_)) => {}
                Err(error) => tracing::warn!(storage, %error, "unfinished work stays as it is"),
            }
        }
        Ok(())
    }

    /// The storages with heirs or with an index that is being built.
    async fn unfinished(&self) -> Result<BTreeSet<StorageId>> {
        let transaction = self.begin().await?;
        let mut storages = BTreeSet::new();
        for (_, definition) in all_definitions(&transaction).await? {
            let mut indexes = definition.indexes.iter();
            if indexes.any(|index| index.state == IndexState::Building) {
                storages.insert(definition.storage);
            }
        }
        let mut walk = Walk::new(&transaction, Scan::new(key::all_partitions()));
        while let Some(page) = walk.next().await? {
            for (key, value) in page {
                let record = serde_json::from_slice::<PartitionRecord>(&value);
                if record.is_ok_and(|record| !record.heirs.is_empty()) {
                    storages.extend(key::parse_partition_storage(&key));
                }
            }
        }
        Ok(storages)
    }

    /// Heals one container; returns the jobs to run for it.
    async fn adopt_orphans(&self, storage: StorageId) -> Result<Vec<JobId>> {
        let mut transaction = self.begin().await?;
        let container = transaction.owner(storage).await?;
        let jobs = Job::all(&transaction).await?;
        let orphans = Orphans::of(&Draft::of(&container), &jobs);
        drop(transaction);
        if orphans.is_none() {
            return Ok(Vec::new());
        }
        let mut ids = Vec::new();
        for _ in &orphans.indexes {
            ids.push(self.take_job_id().await?);
        }
        let (store, new) = (self.clone(), ids.clone());
        let healed = self.alter_owner(storage, move |transaction, mut draft| {
            let (store, new) = (store.clone(), new.clone());
            Box::pin(async move {
                // Checked again in this transaction: another server may have been faster.
                let orphans = Orphans::of(&draft, &Job::all(transaction).await?);
                orphans.adopt(&store, transaction, &mut draft, &new)?;
                Ok(draft)
            })
        });
        match healed.await {
            Ok(container) => {
                tracing::info!(container = %container.name, "resumed a job whose record was lost");
                Ok(ids)
            }
            Err(Error::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// What has no job in one container.
struct Orphans {
    parents: Vec<PartitionId>,
    indexes: Vec<IndexId>,
}

impl Orphans {
    fn of(draft: &Draft, jobs: &[Job]) -> Self {
        let own = |job: &&Job| job.storage == draft.definition.storage;
        let tasks: Vec<&Task> = jobs.iter().filter(own).map(|job| &job.task).collect();
        let is_split = |id: PartitionId| {
            let mut tasks = tasks.iter();
            tasks.any(|task| matches!(task, Task::Repartition { parents } if parents.contains(&id)))
        };
        let is_built = |id: IndexId| {
            let mut tasks = tasks.iter();
            tasks.any(|task| matches!(task, Task::BuildIndex { index } if *index == id))
        };
        let parents = draft.partitions.iter();
        let parents = parents.filter(|it| !it.heirs.is_empty() && !is_split(it.id));
        let indexes = draft.definition.indexes.iter();
        let indexes = indexes.filter(|it| it.state == IndexState::Building && !is_built(it.id));
        Self {
            parents: parents.map(|partition| partition.id).collect(),
            indexes: indexes.map(|index| index.id).collect(),
        }
    }

    fn is_none(&self) -> bool {
        self.parents.is_empty() && self.indexes.is_empty()
    }

    /// Aborts splits, which loses no data, and starts index builds again.
    fn adopt(
        &self,
        store: &Store,
        transaction: &mut Transaction,
        draft: &mut Draft,
        jobs: &[JobId],
    ) -> Result<()> {
        abandon(transaction, draft, &self.parents);
        for (index, id) in self.indexes.iter().zip(jobs) {
            let task = Task::BuildIndex { index: *index };
            Job::new(store, *id, draft, task).save(transaction)?;
        }
        Ok(())
    }
}
