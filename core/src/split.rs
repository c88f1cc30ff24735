//! Splitting and merging physical partitions while reads and writes go on.
//!
//! No data moves: items lie in token order already, and the partition map only says where one
//! partition ends. The difficult part is to keep statistics exact while many transactions count
//! concurrently:
//!
//! 1. One change of the catalog names the heirs. From then on every writer counts into its
//!    partition's tally and into its heir's; writers with the old map conflict and retry.
//! 2. At a snapshot after that, the exact tally of each heir is found: for a merge as the sum of
//!    the parents' tallies, for a split by counting the items of the right half.
//! 3. A second change lets the heirs take over and adds to each heir's tally what it lacked at that
//!    snapshot. Additions commute, so writes that came after the snapshot are neither lost nor
//!    counted twice.
//!
//! A crash in between leaves a job that does 2 and 3 again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use bytes::Bytes;

use crate::catalog::Draft;
use crate::container::Container;
use crate::engine::{KeyRange, Scan};
use crate::error::{Error, Result};
use crate::job::{Job, JobId, LEASE, Task};
use crate::key::{self, PartitionId};
use crate::name::ContainerName;
use crate::partition_map::{Partition, middle};
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::{self, Walk};
use crate::write_set::Tally;
use crate::writing::tally_of;

impl Store {
    /// Splits a physical partition at a token, or where half of its bytes lie on either side.
    /// Returns the numbers of the left and the right half.
    pub async fn split_partition(
        &self,
        name: &ContainerName,
        id: PartitionId,
        at: Option<i64>,
    ) -> Result<(PartitionId, PartitionId)> {
        let begun = self.begin_split(name, id, at).await?;
        self.run_job(begun.job).await?;
        Ok((begun.first_heir, begun.first_heir + 1))
    }

    /// Merges a physical partition with its right neighbour. Returns the number of the merged one.
    pub async fn merge_partitions(
        &self,
        name: &ContainerName,
        id: PartitionId,
    ) -> Result<PartitionId> {
        let begun = self.begin_merge(name, id).await?;
        self.run_job(begun.job).await?;
        Ok(begun.first_heir)
    }

    /// Begins a split: the first step alone.
    pub async fn begin_split(
        &self,
        name: &ContainerName,
        id: PartitionId,
        at: Option<i64>,
    ) -> Result<Repartitioning> {
        let at = match at {
            Some(at) => at,
            None => self.halving_token(name, id).await?,
        };
        self.begin_repartition(name, move |draft, first_heir| {
            draft.definition.take_partition_id();
            draft
                .partitions
                .begin_split(id, at, (first_heir, first_heir + 1))?;
            Ok(vec![id])
        })
        .await
    }

    /// Begins a merge: the first step alone.
    pub async fn begin_merge(
        &self,
        name: &ContainerName,
        id: PartitionId,
    ) -> Result<Repartitioning> {
        self.begin_repartition(name, move |draft, first_heir| {
            let neighbour = draft.partitions.begin_merge(id, first_heir)?;
            Ok(vec![id, neighbour])
        })
        .await
    }

    /// Names heirs by `plan`, which gets the number of the first one and returns their parents.
    async fn begin_repartition<F>(&self, name: &ContainerName, plan: F) -> Result<Repartitioning>
    where
        F: Fn(&mut Draft, PartitionId) -> Result<Vec<PartitionId>> + Send + Sync + 'static,
    {
        let job = self.take_job_id().await?;
        let store = self.clone();
        let planned = Arc::new(AtomicU32::new(0));
        let first_heir = Arc::clone(&planned);
        self.alter(name, move |transaction, mut draft| {
            let first = draft.definition.take_partition_id();
            first_heir.store(first, Ordering::Relaxed);
            let begun = plan(&mut draft, first).and_then(|parents| {
                let task = Task::Repartition { parents };
                Job::new(&store, job, &draft, task).save(transaction)?;
                Ok(draft)
            });
            Box::pin(async move { begun })
        })
        .await?;
        let first_heir = planned.load(Ordering::Relaxed);
        Ok(Repartitioning { job, first_heir })
    }

    /// Steps 2 and 3.
    pub(crate) async fn finish_repartition(
        &self,
        job: &Job,
        parents: &[PartitionId],
    ) -> Result<()> {
        let mut transaction = self.begin().await?;
        let finished = match transaction.owner(job.storage).await {
            Ok(container) => {
                let counting = Counting {
                    store: self,
                    job,
                    transaction: &transaction,
                };
                let corrections = counting.corrections(&container, parents).await?;
                drop(transaction);
                self.hand_over(job, parents, corrections).await
            }
            Err(error) => Err(error),
        };
        match finished {
            // Dropped or truncated since, or finished by another server: nothing to do.
            Err(Error::NotFound(_)) => self.forget_job(job).await,
            other => other,
        }
    }

    /// Step 3.
    async fn hand_over(
        &self,
        job: &Job,
        parents: &[PartitionId],
        corrections: Vec<(PartitionId, Tally)>,
    ) -> Result<()> {
        let heirs: Vec<PartitionId> = corrections.iter().map(|(heir, _)| *heir).collect();
        let (id, storage, parents) = (job.id, job.storage, parents.to_vec());
        let (replaced, corrections) = (parents.clone(), Arc::new(corrections));
        self.alter_owner(storage, move |transaction, mut draft| {
            let (parents, corrections) = (parents.clone(), Arc::clone(&corrections));
            Box::pin(async move {
                Job::load_own(transaction, id).await?;
                draft.partitions.finish(&parents)?;
                let writes = &mut transaction.writes;
                for (heir, lacking) in corrections.iter() {
                    writes.add(key::physical_tally(storage, *heir), *lacking);
                }
                for parent in &parents {
                    writes.delete(key::physical_tally(storage, *parent));
                }
                writes.delete(Job::key(id));
                Ok(draft)
            })
        })
        .await?;
        self.budgets().hand_over(storage, &replaced, &heirs);
        Ok(())
    }

    /// Removes the record of a job that has nothing left to do.
    pub(crate) async fn forget_job(&self, job: &Job) -> Result<()> {
        let id = job.id;
        self.run(&[], move |transaction| {
            transaction.writes.delete(Job::key(id));
            Box::pin(async { Ok::<_, Error>(()) })
        })
        .await?;
        Ok(())
    }

    /// A token that leaves about half of the bytes of a partition on either side.
    async fn halving_token(&self, name: &ContainerName, id: PartitionId) -> Result<i64> {
        let mut transaction = self.begin().await?;
        let container = transaction.container(name).await?;
        let missing = || Error::NotFound(format!("partition {id} of container '{name}'"));
        let partition = container.partitions.get(id).ok_or_else(missing)?;
        let tally = transaction
            .tally_at(&key::physical_tally(container.storage(), id))
            .await?;
        if tally.bytes > MAX_SCANNED_BYTES {
            return self.halving_token_by_size(&container, partition).await;
        }
        let half = tally.bytes / 2;
        let mut passed = 0;
        let mut candidate = None;
        let range = key::items_between(container.storage(), partition.first, partition.last);
        let scan = Scan::new(range).in_passing();
        let mut walk = Walk::new(&transaction, scan);
        while let Some(entries) = walk.next().await? {
            for (key, value) in entries {
                let token = key::parse_item(&key).map(|locator| locator.token);
                if let Some(token) = token.filter(|token| *token > partition.first) {
                    candidate = Some(token);
                    if passed >= half {
                        return Ok(token);
                    }
                }
                passed += counted(&key, value).bytes;
            }
        }
        candidate.ok_or_else(|| {
            Error::Rejected(format!(
                "partition {id} of '{name}' holds at most one logical partition, \
                 which cannot be divided"
            ))
        })
    }

    /// The same by halving the range until its left part is as large as its right, as the engine
    /// estimates it. A logical partition larger than half ends on the right.
    async fn halving_token_by_size(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<i64> {
        let size = async |first: i64, last: i64| {
            let range = key::items_between(container.storage(), first, last);
            Ok::<u64, Error>(self.engine().approximate_size(&range).await?)
        };
        let half = size(partition.first, partition.last).await? / 2;
        // The token sought lies above `below` and is at most `at`.
        let (mut below, mut at) = (partition.first, partition.last);
        while below.checked_add(1).is_some_and(|next| next < at) {
            let between = middle(below, at);
            if size(partition.first, between - 1).await? <= half {
                below = between;
            } else {
                at = between;
            }
        }
        Ok(at)
    }
}

/// The contribution of an item to a tally. An unreadable item counts about what it did when it was
/// written, so that it does not block the split of its partition.
fn counted(key: &Bytes, value: Bytes) -> Tally {
    let size = key.len() + value.len();
    match walk::readable_item(key, value) {
        Some(item) => tally_of(Some(&item)),
        None => Tally {
            items: 1,
            bytes: i64::try_from(size).unwrap_or(i64::MAX),
        },
    }
}

/// Partitions up to this size are read to find their middle; of larger ones the engine's estimate
/// is good enough.
const MAX_SCANNED_BYTES: i64 = 64 << 20;

/// A split or merge that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repartitioning {
    /// The job that finishes it.
    pub job: JobId,
    /// The number of the merged partition, or of the left half; the right half has the next one.
    pub first_heir: PartitionId,
}

/// Finds exact tallies at one moment, for a job whose lease must not run out meanwhile.
struct Counting<'a> {
    store: &'a Store,
    job: &'a Job,
    transaction: &'a Transaction,
}

impl Counting<'_> {
    /// The missing part of each heir's tally.
    async fn corrections(
        &self,
        container: &Container,
        parents: &[PartitionId],
    ) -> Result<Vec<(PartitionId, Tally)>> {
        let storage = container.storage();
        let stored = |id| async move {
            self.transaction
                .tally_at(&key::physical_tally(storage, id))
                .await
        };
        let mut sum = Tally::default();
        let mut heirs = Vec::new();
        let mut last = i64::MIN;
        for id in parents {
            let lost = || Error::NotFound(format!("partition {id}"));
            let parent: &Partition = container.partitions.get(*id).ok_or_else(lost)?;
            sum = sum.plus(stored(*id).await?);
            last = parent.last;
            heirs.clone_from(&parent.heirs);
        }
        let mut corrections = Vec::new();
        // All heirs but the first are counted; the first one gets the rest of the parents' sum.
        for heir in heirs.iter().skip(1).rev() {
            let range = key::items_between(storage, heir.first, last);
            let exact = self.count(range).await?;
            corrections.push((heir.id, exact.minus(stored(heir.id).await?)));
            sum = sum.minus(exact);
            last = heir.first.saturating_sub(1);
        }
        if let Some(first) = heirs.first() {
            corrections.push((first.id, sum.minus(stored(first.id).await?)));
        }
        Ok(corrections)
    }

    async fn count(&self, range: KeyRange) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut renewed = Instant::now();
        let mut walk = Walk::new(self.transaction, Scan::new(range).in_passing());
        while let Some(entries) = walk.next().await? {
            for (key, value) in entries {
                tally = tally.plus(counted(&key, value));
            }
            if renewed.elapsed() > LEASE / 4 {
                self.job.renew(self.store).await?;
                renewed = Instant::now();
            }
        }
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::NewContainer;
    use crate::item::NewItem;
    use crate::locator::Locator;
    use crate::memory::MemoryEngine;
    use crate::store::StoreOptions;

    #[tokio::test]
    async fn the_middle_by_estimated_size_is_near_the_real_one() {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine, StoreOptions::default()).await.unwrap();
        let name = ContainerName::new("test", "db", "c");
        store
            .create_container(&name, &NewContainer::default())
            .await
            .unwrap();
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&name).await.unwrap();
        for number in 0..200 {
            // Most of the bytes lie at high tokens.
            let body = vec![0; if number > 150 { 500 } else { 10 }];
            let new = NewItem::new(Locator::row(number * 1_000, "p", ""), body);
            transaction.insert(&container, new).await.unwrap();
        }
        transaction.commit().await.unwrap();
        let partition = container.partitions.locate(0);
        let at = store
            .halving_token_by_size(&container, partition)
            .await
            .unwrap();
        assert!((165_000..=180_000).contains(&at), "{at}");
        store
            .split_partition(&name, partition.id, Some(at))
            .await
            .unwrap();
        assert_eq!(store.verify(&name).await.unwrap(), Vec::<String>::new());
    }
}
