//! The container that the records are imagined in: physical partitions, throughput, growth.

use tessera_core::partition_map::PartitionMap;
use tessera_core::throughput::{PARTITION_MAX_RUS, partitions_for};

/// What is assumed if nothing is said: partitions enough to see a spread.
const DEFAULT_PARTITIONS: u32 = 4;

/// More than that no container has.
const MAX_PARTITIONS: u32 = 10_000;

/// More than that nothing grows.
const MAX_GROWTH: f64 = 1e9;

/// What the user said of the container.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    partitions: Option<u32>,
    throughput: Option<u32>,
    /// How many times today's data there will be.
    growth: f64,
}

impl Wish {
    /// What was said, if it makes sense.
    pub fn new(
        partitions: Option<u32>,
        throughput: Option<u32>,
        growth: Option<f64>,
    ) -> Result<Self, String> {
        let most = MAX_PARTITIONS.saturating_mul(PARTITION_MAX_RUS);
        if partitions.is_some_and(|count| !(1..=MAX_PARTITIONS).contains(&count)) {
            return Err(format!("a container has 1 to {MAX_PARTITIONS} partitions"));
        }
        if throughput.is_some_and(|units| !(1..=most).contains(&units)) {
            return Err(format!("a container has 1 to {most} RU/s"));
        }
        let growth = growth.unwrap_or(1.0);
        if !(growth > 0.0 && growth <= MAX_GROWTH) {
            return Err("growth is a factor above 0 and up to a billion".to_owned());
        }
        Ok(Self {
            partitions,
            throughput,
            growth,
        })
    }
}

/// A container with its budget.
pub(crate) struct Layout {
    pub(crate) partitions: PartitionMap,
    /// RU/s of all partitions together.
    pub(crate) throughput: u32,
    pub(crate) growth: f64,
}

impl Layout {
    /// The container that was wished for: equal partitions.
    pub(crate) fn of(wish: Wish) -> Result<Self, String> {
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
    pub(crate) fn of_stored(
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

    pub(crate) fn count(&self) -> usize {
        self.partitions.count()
    }

    /// The even share of each partition, in RU/s.
    pub(crate) fn partition_budget(&self) -> f64 {
        f64::from(self.throughput) / self.count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(partitions: Option<u32>, throughput: Option<u32>) -> Result<(usize, u32), String> {
        let wish = Wish::new(partitions, throughput, None)?;
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
        assert!(layout(Some(0), None).is_err() && layout(Some(10_001), None).is_err());
        assert!(layout(None, Some(0)).is_err() && layout(None, Some(100_000_001)).is_err());
        for (growth, is_sensible) in [(0.5, true), (1e9, true), (0.0, false), (f64::NAN, false)] {
            assert_eq!(
                Wish::new(None, None, Some(growth)).is_ok(),
                is_sensible,
                "{growth}"
            );
        }
    }
}
