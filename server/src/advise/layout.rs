//! The container that the records are imagined in: physical partitions, throughput, growth.

use tessera_core::partition_map::PartitionMap;
use tessera_core::throughput::{PARTITION_MAX_RUS, partitions_for};

/// What is assumed if nothing is said: partitions enough to see a spread.
const DEFAULT_PARTITIONS: u32 = 4;

/// More than that no container has.
pub(super) const MAX_PARTITIONS: u32 = 10_000;

/// What the user said of the container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) partitions: Option<u32>,
    pub(super) throughput: Option<u32>,
    /// How many times today's data there will be.
    pub(super) growth: f64,
}

/// A container with its budget.
pub(super) struct Layout {
    pub(super) partitions: PartitionMap,
    /// RU/s of all partitions together.
    pub(super) throughput: u32,
    pub(super) growth: f64,
}

impl Layout {
    /// The container that was wished for: equal partitions.
    pub(super) fn of(wish: Wish) -> Result<Self, String> {
        let partitions = match (wish.partitions, wish.throughput) {
            (Some(partitions), _) => partitions,
            (None, Some(throughput)) => partitions_for(Some(throughput)),
            (None, None) => DEFAULT_PARTITIONS,
        };
        let most = partitions.saturating_mul(PARTITION_MAX_RUS);
        let throughput = wish.throughput.unwrap_or(most);
        if throughput > most {
            return Err(format!(
                "{partitions} partitions provide at most {most} RU/s; {throughput} RU/s need {}",
                partitions_for(Some(throughput))
            ));
        }
        Ok(Self {
            partitions: PartitionMap::equal(partitions),
            throughput,
            growth: wish.growth,
        })
    }

    /// A container that exists, unless something else was wished for.
    pub(super) fn of_stored(
        wish: Wish,
        partitions: &PartitionMap,
        provisioned: Option<u32>,
    ) -> Result<Self, String> {
        if wish.partitions.is_some() || wish.throughput.is_some() {
            return Self::of(wish);
        }
        let count = u32::try_from(partitions.count()).unwrap_or(u32::MAX);
        Ok(Self {
            partitions: partitions.clone(),
            throughput: provisioned.unwrap_or_else(|| count.saturating_mul(PARTITION_MAX_RUS)),
            growth: wish.growth,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.partitions.count()
    }

    /// The even share of each partition, in RU/s.
    pub(super) fn partition_budget(&self) -> f64 {
        f64::from(self.throughput) / self.count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(partitions: Option<u32>, throughput: Option<u32>) -> Result<(usize, u32), String> {
        let wish = Wish {
            partitions,
            throughput,
            growth: 1.0,
        };
        Layout::of(wish).map(|layout| (layout.count(), layout.throughput))
    }

    #[test]
    fn partitions_follow_from_throughput_and_throughput_from_partitions() {
        assert_eq!(layout(None, None), Ok((4, 40_000)));
        assert_eq!(layout(None, Some(30_001)), Ok((4, 30_001)));
        assert_eq!(layout(None, Some(400)), Ok((1, 400)));
        assert_eq!(layout(Some(5), None), Ok((5, 50_000)));
        assert_eq!(layout(Some(5), Some(20_000)), Ok((5, 20_000)));
        let error = layout(Some(2), Some(30_000)).unwrap_err();
        assert!(error.contains("need 3"), "{error}");
    }
}
