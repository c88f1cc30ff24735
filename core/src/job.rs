//! Jobs: long work on a container that runs beside reads and writes and survives a crash.
//!
//! A job is a record in the store, written by the same transaction that changed the container's
//! definition to begin it, and removed by the one that ends it. The owner of its lease works on it
//! in small transactions, each of which saves the progress. After a crash the next owner continues
//! from there.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::catalog::Draft;
use crate::definition::UnknownFields;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key::{self, IndexId, PartitionId, StorageId, system};
use crate::name::ContainerName;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::Walk;

/// How long an owner may be silent before another one takes over.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Number of a job.
pub type JobId = u64;

/// One job and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The name of the container when the job began.
    pub container: ContainerName,
    /// The storage it works on, by which it finds its container. A container that was dropped or
    /// truncated meanwhile ends the job.
    pub storage: StorageId,
    /// Its task.
    pub task: Task,
    /// Items done so far.
    pub done: u64,
    /// Number of items at the start, for display.
    pub total: u64,
    owner: u64,
    lease_until_ms: u64,
    /// The last item key that was worked on.
    #[serde(default)]
    position: Vec<u8>,
    #[serde(flatten)]
    unknown: UnknownFields,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Hands physical partitions over to their heirs: a split or a merge.
    Repartition {
        /// The partitions to be replaced.
        parents: Vec<PartitionId>,
    },
    /// Adds the items from before to a new index.
    BuildIndex {
        /// The index.
        index: IndexId,
    },
    /// Copies all items to another storage, placed anew.
    Relocate,
}

impl Job {
    pub(crate) fn new(store: &Store, id: JobId, draft: &Draft, task: Task) -> Self {
        Self {
            id,
            container: draft.name.clone(),
            storage: draft.definition.storage,
            task,
            done: 0,
            total: 0,
            owner: store.instance(),
            lease_until_ms: store.clock().now_ms() + lease_ms(),
            position: Vec::new(),
            unknown: UnknownFields::default(),
        }
    }

    pub(crate) fn key(id: JobId) -> Bytes {
        key::system_key(system::JOB, &id.to_be_bytes())
    }

    /// Stores the job with a fresh lease.
    pub(crate) fn save(&mut self, transaction: &mut Transaction) -> Result<()> {
        self.lease_until_ms = transaction.now_ms + lease_ms();
        let value = serde_json::to_vec(self).map_err(|error| Error::Internal(error.to_string()))?;
        transaction.writes.put(Self::key(self.id), value.into());
        Ok(())
    }

    /// The job as stored, if this process still owns it.
    pub(crate) async fn load_own(transaction: &Transaction, id: JobId) -> Result<Self> {
        let stored = transaction.get(&Self::key(id)).await?;
        let job = decode(&stored.ok_or_else(|| Error::NotFound(format!("job {id}")))?)?;
        if job.owner == transaction.store.instance() {
            Ok(job)
        } else {
            Err(Error::Unavailable(format!(
                "job {id} was taken over by another server"
            )))
        }
    }

    /// All jobs under way. One that a newer server wrote, for a task unknown to this one, is left
    /// to that server.
    pub(crate) async fn all(transaction: &Transaction) -> Result<Vec<Self>> {
        let mut jobs = Vec::new();
        let mut walk = Walk::new(transaction, Scan::new(key::system_range(system::JOB)));
        while let Some(page) = walk.next().await? {
            for (_, value) in page {
                match decode(&value) {
                    Ok(job) => jobs.push(job),
                    Err(error) => tracing::warn!(%error, "skipping a job that cannot be read"),
                }
            }
        }
        Ok(jobs)
    }

    /// Renews the lease during a step that takes longer than it.
    pub(crate) async fn renew(&self, store: &Store) -> Result<()> {
        let mut transaction = store.begin().await?;
        Self::load_own(&transaction, self.id)
            .await?
            .save(&mut transaction)?;
        match transaction.commit().await {
            // Changed by this process or taken over: the next read tells.
            Ok(_) | Err(Error::Conflict) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next page of items.
    pub(crate) fn next_page(&self, max_items: usize) -> Scan {
        let mut scan = Scan::new(key::items(self.storage)).in_passing();
        scan.max_rows = max_items;
        if self.position.is_empty() {
            return scan;
        }
        scan.after(&Bytes::copy_from_slice(&self.position))
    }

    /// Records that everything up to `last` is done.
    pub(crate) fn advance(&mut self, last: &[u8], items: usize) {
        self.position = last.to_vec();
        self.done += items as u64;
    }

    fn is_free(&self, store: &Store, now_ms: u64) -> bool {
        let owner_is_gone = !store.engine().capabilities().shared && self.owner != store.instance();
        owner_is_gone || self.lease_until_ms < now_ms
    }
}

impl Store {
    /// All jobs in progress. One that cannot be read is skipped: its container stays as it is, and
    /// the other jobs continue.
    pub async fn jobs(&self) -> Result<Vec<Job>> {
        Job::all(&*self.begin().await?).await
    }

    /// The relocation of a container that is under way, if there is one.
    pub async fn relocation_of(&self, name: &ContainerName) -> Result<Option<JobId>> {
        let jobs = self.jobs().await?;
        let mut moving = jobs.iter().filter(|job| job.task == Task::Relocate);
        let job = moving.find(|job| job.container == *name);
        Ok(job.map(|job| job.id))
    }

    /// Takes over the jobs whose owner is gone. They are still to be run.
    pub(crate) async fn take_over_jobs(&self) -> Result<Vec<JobId>> {
        let mut taken = Vec::new();
        for job in self.jobs().await? {
            let running = self.running_jobs().contains(&job.id);
            if !running
                && job.is_free(self, self.clock().now_ms())
                && self.take_over(job.id).await?
            {
                tracing::info!(job = job.id, container = %job.container, "resuming a job");
                taken.push(job.id);
            }
        }
        Ok(taken)
    }

    /// Works on a job that was taken over, in the background.
    pub(crate) async fn run_resumed(self, id: JobId) {
        match self.run_job(id).await {
            Ok(()) => tracing::info!(job = id, "resumed job is done"),
            Err(error) => tracing::warn!(job = id, %error, "resumed job ended"),
        }
    }

    /// Works on a job that this process began to its end, also if the caller goes away.
    pub async fn run_job(&self, id: JobId) -> Result<()> {
        let running = Running::begin(self, id)?;
        let run = crate::deadline::spawn("job", async move {
            let store = &running.store;
            let transaction = store.begin().await?;
            let job = Job::load_own(&transaction, id).await?;
            drop(transaction);
            match job.task.clone() {
                Task::Repartition { parents } => store.finish_repartition(&job, &parents).await,
                Task::BuildIndex { index } => store.run_index_build(&job, index).await,
                Task::Relocate => store.run_relocation(&job).await,
            }
        });
        run.await
            .map_err(|error| Error::Internal(error.to_string()))?
    }

    async fn take_over(&self, id: JobId) -> Result<bool> {
        let mut transaction = self.begin().await?;
        let Some(stored) = transaction.get(&Job::key(id)).await? else {
            return Ok(false);
        };
        let mut job = decode(&stored)?;
        if !job.is_free(self, transaction.now_ms) {
            return Ok(false);
        }
        job.owner = self.instance();
        job.save(&mut transaction)?;
        match transaction.commit().await {
            Ok(_) => Ok(true),
            Err(Error::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Records that this process works on a job, so that it does not take it over from itself.
struct Running {
    store: Store,
    id: JobId,
}

impl Running {
    fn begin(store: &Store, id: JobId) -> Result<Self> {
        if !store.running_jobs().insert(id) {
            return Err(Error::Rejected(format!(
                "job {id} is already being worked on"
            )));
        }
        let store = store.clone();
        Ok(Self { store, id })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.store.running_jobs().remove(&self.id);
    }
}

fn decode(stored: &[u8]) -> Result<Job> {
    serde_json::from_slice(stored).map_err(|error| Error::Corrupt(format!("a job: {error}")))
}

fn lease_ms() -> u64 {
    u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX)
}
