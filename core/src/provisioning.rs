//! Provisioned throughput: its range, and setting it for a container.

use serde::{Deserialize, Serialize};

use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::name::ContainerName;
use crate::partition_map::{Partition, middle};
use crate::sharing::join;
use crate::store::Store;
use crate::throughput::partitions_for;

/// The most that one container may have.
const MAX_UNITS: u32 = 1_000_000;

/// Request units per second, and how they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throughput {
    /// A fixed amount.
    Manual(u32),
    /// Autoscale up to this maximum. All of it is available at once; only the bill differs.
    Autoscale(u32),
}

impl Throughput {
    /// The smallest amount, and the step from one amount to the next.
    const MANUAL: (u32, u32) = (400, 100);
    const AUTOSCALE: (u32, u32) = (1_000, 1_000);

    /// This many request units per second, if the amount is allowed.
    pub fn manual(units: u32) -> Result<Self> {
        check("throughput", units, Self::MANUAL).map(|()| Self::Manual(units))
    }

    /// Up to this many request units per second, if the amount is allowed.
    pub fn autoscale(units: u32) -> Result<Self> {
        check("autoscale throughput", units, Self::AUTOSCALE).map(|()| Self::Autoscale(units))
    }

    /// The largest amount in a second.
    pub fn units(self) -> u32 {
        match self {
            Self::Manual(units) | Self::Autoscale(units) => units,
        }
    }

    /// A container's own throughput.
    pub fn of(definition: &Definition) -> Option<Self> {
        let kind = match definition.autoscale {
            true => Self::Autoscale,
            false => Self::Manual,
        };
        definition.provisioned.map(kind)
    }
}

fn check(what: &str, units: u32, (least, step): (u32, u32)) -> Result<()> {
    if (least..=MAX_UNITS).contains(&units) && units.is_multiple_of(step) {
        return Ok(());
    }
    Err(Error::Rejected(format!(
        "{what} of {units} RU/s: it must be a multiple of {step} from {least} to {MAX_UNITS}"
    )))
}

impl Store {
    /// Gives a container this throughput, or takes away its limit. It gets the physical partitions
    /// that this needs by splitting the widest ones; it never loses any. The partitions are split
    /// first: if there cannot be enough of them, the throughput is not changed.
    pub async fn provision(
        &self,
        name: &ContainerName,
        throughput: Option<Throughput>,
    ) -> Result<()> {
        let units = throughput.map(Throughput::units);
        self.split_into(name, partitions_for(units)).await?;
        let altered = self.alter(name, move |transaction, mut draft| {
            Box::pin(async move {
                if let (Some(shared), None) = (draft.definition.shared, throughput)
                    && draft.definition.provisioned.is_some()
                {
                    join(transaction, &draft.name, shared).await?;
                }
                draft.definition.provisioned = throughput.map(Throughput::units);
                draft.definition.autoscale = matches!(throughput, Some(Throughput::Autoscale(_)));
                Ok(draft)
            })
        });
        altered.await?;
        self.split_for_throughput(name).await
    }

    /// Splits the widest partitions of a container until its throughput has those it needs.
    pub(crate) async fn split_for_throughput(&self, name: &ContainerName) -> Result<()> {
        let container = self.begin().await?.container(name).await?;
        let needed = container.definition.partitions_needed();
        self.split_into(name, needed).await
    }

    /// Splits the widest partitions of a container until there are this many.
    async fn split_into(&self, name: &ContainerName, needed: u32) -> Result<()> {
        loop {
            let container = self.begin().await?.container(name).await?;
            let partitions = &container.partitions;
            if partitions.count() >= usize::try_from(needed).unwrap_or(usize::MAX) {
                return Ok(());
            }
            // A partition that is being split or merged already is skipped, if others can be split.
            let rank = |partition: &&Partition| {
                let width = partition.last.abs_diff(partition.first);
                (partition.heirs.is_empty(), width)
            };
            let widest = partitions
                .iter()
                .max_by_key(rank)
                .ok_or_else(|| Error::Internal("a container has no partition".into()))?;
            let at = middle(widest.first, widest.last);
            self.split_partition(name, widest.id, Some(at)).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_checked() {
        for (units, manual, autoscale) in [
            (0, false, false),
            (399, false, false),
            (400, true, false),
            (450, false, false),
            (1_000, true, true),
            (1_100, true, false),
            (1_000_000, true, true),
            (1_001_000, false, false),
        ] {
            assert_eq!(Throughput::manual(units).is_ok(), manual, "{units}");
            assert_eq!(Throughput::autoscale(units).is_ok(), autoscale, "{units}");
        }
    }
}
