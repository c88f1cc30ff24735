//! Size limits of partitions: those of their API, unless a setting overrides them.
//!
//! A physical partition beyond its limit is split (`crate::sizing`). A logical one cannot be, so
//! writes that would make it larger are refused. Its exact size is a tally that is read only where
//! the physical partition holds so much that the logical one may be full; how much that is, is
//! known without reading.

use crate::container::Container;
use crate::error::{Error, Result};
use crate::key;
use crate::locator::Locator;
use crate::model::Model;
use crate::transaction::Transaction;

/// The name of the partition key in [`Error::TooLarge`].
pub const PARTITION_KEY: &str = "partition key";

/// Limits of partitions of all APIs. None means the limit of each API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a physical partition before it is split.
    pub physical_bytes: Option<i64>,
    /// The most bytes of a logical partition.
    pub logical_bytes: Option<i64>,
    /// The most bytes of a partition key.
    pub partition_key_bytes: Option<usize>,
    /// The most containers that share the throughput of a database.
    pub shared_containers: Option<usize>,
}

impl Limits {
    /// These, and the API's own for the others.
    pub(crate) fn of(self, model: &dyn Model) -> ContainerLimits {
        ContainerLimits {
            physical_bytes: self.physical_bytes.unwrap_or(model.max_partition_bytes()),
            logical_bytes: self.logical_bytes.or(model.max_logical_bytes()),
            partition_key_bytes: self.partition_key_bytes,
        }
    }
}

/// The limits of one container's partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerLimits {
    pub(crate) physical_bytes: i64,
    pub(crate) logical_bytes: Option<i64>,
    partition_key_bytes: Option<usize>,
}

impl Transaction {
    /// Refuses an item at `locator` that makes its logical partition larger by `growth` bytes, if
    /// there is no room for it, or its key is too long.
    pub(crate) async fn check_room(
        &self,
        container: &Container,
        locator: &Locator,
        growth: i64,
    ) -> Result<()> {
        let limits = &container.limits;
        let size = locator.partition_key.len();
        if let Some(limit) = limits.partition_key_bytes.filter(|limit| size > *limit) {
            let what = PARTITION_KEY;
            return Err(Error::TooLarge { what, size, limit });
        }
        let Some(limit) = limits.logical_bytes else {
            return Ok(());
        };
        if growth <= 0 || !container.definition.counts_logical_partitions {
            return Ok(());
        }
        let (storage, partition) = container.place(locator.token);
        let held = match container.heat.bytes(partition) {
            Some(held) => held,
            None => {
                let tally = key::physical_tally(storage, partition);
                let tally = self.tally_at(&tally).await?;
                container.heat.begin_bytes(partition, tally.bytes)
            }
        };
        if held.saturating_add(growth) <= limit {
            return Ok(());
        }
        let logical = key::logical_tally(storage, locator.token, &locator.partition_key);
        let buffered = self.writes.tallies().get(&logical).copied();
        let stored = self.tally_at(&logical).await?;
        let bytes = stored.plus(buffered.unwrap_or_default()).bytes;
        if bytes.saturating_add(growth) <= limit {
            return Ok(());
        }
        Err(Error::PartitionFull { limit })
    }
}
