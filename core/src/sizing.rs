//! Splits of physical partitions that have grown too large.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::background::FullLook;
use crate::catalog::decode_version;
use crate::engine::{KeyRange, Scan};
use crate::error::{Error, Result};
use crate::key::{self, PartitionId, StorageId};
use crate::name::ContainerName;
use crate::partition_map::PartitionRecord;
use crate::statistics;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::Walk;

/// Containers whose sizes are read at one moment.
const STEP_CONTAINERS: usize = 100;

/// Remembers when sizes were last looked at.
#[derive(Default)]
pub(crate) struct Sizer {
    look: FullLook,
}

impl Sizer {
    /// Splits partitions that are too large, if a check is due.
    pub(crate) async fn split_large(&mut self, store: &Store) -> Result<()> {
        if self.look.is_due() {
            store.split_large_partitions().await?;
        }
        Ok(())
    }

    /// Records the sizes of containers in use here, if a check is due.
    pub(crate) async fn look_at_own(&mut self, store: &Store) -> Result<()> {
        if self.look.is_due() {
            store.note_sizes_in_use().await?;
        }
        Ok(())
    }
}

impl Store {
    /// Splits each physical partition that holds more than its API allows, once. One that holds a
    /// single logical partition cannot be split, and stays.
    pub async fn split_large_partitions(&self) -> Result<()> {
        for (name, partition) in self.large_partitions().await? {
            match self.split_partition(&name, partition, None).await {
                Ok(heirs) => {
                    tracing::info!(container = %name, partition, ?heirs, "split by size");
                }
                Err(Error::Rejected(reason)) => {
                    tracing::warn!(container = %name, partition, reason, "cannot be split");
                }
                // It was split or dropped meanwhile.
                Err(Error::NotFound(_) | Error::Conflict) => {}
                Err(error) if error.is_of_engine() => return Err(error),
                Err(error) => {
                    tracing::warn!(container = %name, partition, %error, "not split by size");
                }
            }
        }
        Ok(())
    }

    /// All that are too large, found by their tallies alone: looking a container up would keep it
    /// in memory, and most are not in use. Each page is read at a snapshot of its own, so that no
    /// snapshot is held during a walk over many containers.
    async fn large_partitions(&self) -> Result<Vec<(ContainerName, PartitionId)>> {
        let mut large = Vec::new();
        let mut scan = Scan::new(key::definition_versions());
        loop {
            let transaction = self.begin().await?;
            let page = transaction.scan_keys(&scan).await?;
            let owners = page.entries.iter().filter_map(|(key, value)| {
                let storage = key::parse_definition_version(key)?;
                let (_, name) = decode_version(value)?;
                Some((storage, name))
            });
            let owners: BTreeMap<StorageId, ContainerName> = owners.collect();
            for (place, bytes) in sizes(&transaction, &owners).await? {
                let Some(name) = owners.get(&place.0) else {
                    continue;
                };
                self.catalog().note_bytes(name, place, bytes);
                if bytes > self.catalog().limits(&name.api).physical_bytes {
                    large.push((name.clone(), place.1));
                }
            }
            match page.entries.last() {
                Some((last, _)) if page.more => scan = scan.after(last),
                _ => return Ok(large),
            }
        }
    }

    /// Records the sizes of the partitions of all containers in memory.
    async fn note_sizes_in_use(&self) -> Result<()> {
        let in_use = self.catalog().in_memory();
        for containers in in_use.chunks(STEP_CONTAINERS) {
            let transaction = self.begin().await?;
            for container in containers {
                let statistics = match transaction.statistics(container).await {
                    Ok(statistics) => statistics,
                    Err(error) if error.is_of_engine() => return Err(error),
                    Err(_unreadable) => continue,
                };
                for row in statistics {
                    container.heat.note_bytes(row.partition, row.tally.bytes);
                }
            }
        }
        Ok(())
    }
}

/// How many bytes each partition of these storages holds, in as few reads as there are pages of
/// partitions.
async fn sizes(
    transaction: &Transaction,
    owners: &BTreeMap<StorageId, ContainerName>,
) -> Result<Vec<((StorageId, PartitionId), i64)>> {
    let (Some((first, _)), Some((last, _))) = (owners.first_key_value(), owners.last_key_value())
    else {
        return Ok(Vec::new());
    };
    let range = KeyRange {
        start: key::partitions(*first).start,
        end: key::partitions(*last).end,
    };
    let mut sizes = Vec::new();
    let mut walk = Walk::new(transaction, Scan::new(range));
    while let Some(page) = walk.next().await? {
        let mut places = Vec::with_capacity(page.len());
        // An unreadable entry belongs to a container that reports the damage when it is used.
        for (key, value) in page {
            let storage = key::parse_partition_storage(&key);
            let record = serde_json::from_slice::<PartitionRecord>(&value);
            places.extend(storage.zip(record.ok().map(|record| record.id)));
        }
        let keys: Vec<Bytes> = places
            .iter()
            .map(|(storage, partition)| key::physical_tally(*storage, *partition))
            .collect();
        let tallies = transaction.snapshot.multi_get(&keys).await?;
        for (place, tally) in places.into_iter().zip(tallies) {
            let tally = statistics::decode(tally.as_ref());
            sizes.extend(tally.ok().map(|tally| (place, tally.bytes)));
        }
    }
    Ok(sizes)
}
