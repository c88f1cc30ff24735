//! Physical partitions that have grown too large are split without anybody asking.

use crate::background::FullLook;
use crate::database::all_definitions;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key::{self, PartitionId};
use crate::name::ContainerName;
use crate::statistics::{self, unreadable};
use crate::store::Store;
use crate::walk::Walk;

/// Remembers when sizes were last looked at.
#[derive(Default)]
pub(crate) struct Sizer {
    look: FullLook,
}

impl Sizer {
    /// Splits what is too large, if it is time to look again.
    pub(crate) async fn split_large(&mut self, store: &Store) -> Result<()> {
        if self.look.is_due() {
            store.split_large_partitions().await?;
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
                // Somebody else has split or dropped it meanwhile, or it cannot be read.
                Err(Error::NotFound(_) | Error::Conflict | Error::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// All that are too large, found by their tallies alone: looking a container up would keep it
    /// in memory, and most are not in use.
    async fn large_partitions(&self) -> Result<Vec<(ContainerName, PartitionId)>> {
        let transaction = self.begin().await?;
        let mut large = Vec::new();
        for (name, definition) in all_definitions(&transaction).await? {
            let limit = self.catalog().limits(&name.api).physical_bytes;
            let tallies = key::physical_tallies(definition.storage);
            let mut walk = Walk::new(&transaction, Scan::new(tallies));
            while let Some(page) = walk.next().await? {
                for (key, value) in page {
                    let partition = key::parse_physical_tally(&key).ok_or_else(unreadable)?;
                    let bytes = statistics::decode(Some(&value))?.bytes;
                    let place = (definition.storage, partition);
                    self.catalog().note_bytes(&name, place, bytes);
                    if bytes > limit {
                        large.push((name.clone(), partition));
                    }
                }
            }
        }
        Ok(large)
    }
}
