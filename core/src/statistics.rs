//! Exact statistics: items and bytes of each physical partition, counted by the writes themselves.

use bytes::Bytes;

use crate::container::Container;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key::{self, PartitionId};
use crate::transaction::Transaction;
use crate::write_set::Tally;

/// The statistics of one physical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionStatistics {
    /// Its number.
    pub partition: PartitionId,
    /// Its first token.
    pub first: i64,
    /// Its last token, included.
    pub last: i64,
    /// Items and bytes in it, expired items included until they are removed.
    pub tally: Tally,
}

impl Transaction {
    /// The statistics of each physical partition of a container, by first token.
    pub async fn statistics(&self, container: &Container) -> Result<Vec<PartitionStatistics>> {
        let partitions: Vec<_> = container.partitions.iter().collect();
        let keys: Vec<Bytes> = partitions
            .iter()
            .map(|partition| key::physical_tally(container.storage(), partition.id))
            .collect();
        let tallies = self.snapshot.multi_get(&keys).await?;
        let rows = partitions
            .into_iter()
            .zip(tallies)
            .map(|(partition, tally)| {
                Ok(PartitionStatistics {
                    partition: partition.id,
                    first: partition.first,
                    last: partition.last,
                    tally: decode(tally.as_ref())?,
                })
            });
        rows.collect()
    }

    /// The tally of one logical partition. Zero where they are not counted.
    pub async fn logical_statistics(
        &self,
        container: &Container,
        token: i64,
        partition_key: &[u8],
    ) -> Result<Tally> {
        self.tally_at(&key::logical_tally(
            container.storage(),
            token,
            partition_key,
        ))
        .await
    }

    /// The approximate number of logical partitions with tokens from `first` to `last`, and their
    /// sum. Exact for up to 1,000; more are estimated from the first of them, because hashes spread
    /// keys evenly. None where they are not counted.
    pub async fn estimate_logical(
        &self,
        container: &Container,
        first: i64,
        last: i64,
    ) -> Result<Tally> {
        let range = key::logical_tallies_between(container.storage(), first, last);
        let page = self.scan_keys(&Scan::new(range)).await?;
        let (mut sum, mut reached) = (Tally::default(), last);
        for (key, value) in &page.entries {
            let tally = decode(Some(value))?;
            if tally.items > 0 {
                sum.items += 1;
                sum.bytes += tally.bytes;
            }
            if page.more {
                reached = key::parse_logical_tally(key).map_or(last, |(token, _)| token);
            }
        }
        let tokens = |last: i64| i128::from(last) - i128::from(first) + 1;
        let scaled = |number: i64| {
            let scaled = i128::from(number) * tokens(last) / tokens(reached).max(1);
            i64::try_from(scaled).unwrap_or(i64::MAX)
        };
        Ok(Tally {
            items: scaled(sum.items),
            bytes: scaled(sum.bytes),
        })
    }

    pub(crate) async fn tally_at(&self, key: &[u8]) -> Result<Tally> {
        decode(self.snapshot.get(key).await?.as_ref())
    }
}

pub(crate) fn decode(stored: Option<&Bytes>) -> Result<Tally> {
    stored.map_or(Ok(Tally::default()), |stored| {
        Tally::decode(stored).ok_or_else(unreadable)
    })
}

pub(crate) fn unreadable() -> Error {
    Error::Corrupt("a tally cannot be read".into())
}
