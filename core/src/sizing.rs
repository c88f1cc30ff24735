//! Physical partitions that have grown too large are split without anybody asking.

use crate::background::FullLook;
use crate::error::{Error, Result};
use crate::key::PartitionId;
use crate::name::ContainerName;
use crate::store::Store;

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
        for name in self.all_containers().await? {
            for partition in self.large_partitions(&name).await? {
                match self.split_partition(&name, partition, None).await {
                    Ok(heirs) => {
                        tracing::info!(container = %name, partition, ?heirs, "split by size");
                    }
                    Err(Error::Rejected(reason)) => {
                        tracing::warn!(container = %name, partition, reason, "cannot be split");
                    }
                    // Somebody else has split or dropped it meanwhile.
                    Err(Error::NotFound(_) | Error::Conflict) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    async fn large_partitions(&self, name: &ContainerName) -> Result<Vec<PartitionId>> {
        let mut transaction = self.begin().await?;
        let container = match transaction.container(name).await {
            Ok(container) => container,
            Err(Error::NotFound(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let limit = container.max_partition_bytes();
        let statistics = transaction.statistics(&container).await?;
        let large = statistics
            .iter()
            .filter(|partition| partition.tally.bytes > limit);
        Ok(large.map(|partition| partition.partition).collect())
    }
}
