//! How the records of one candidate lie on the physical partitions, and what throughput that
//! leaves.

use tessera_core::partition_map::PartitionMap;

use crate::profile::Arrival;
use crate::sequence::Sequence;
use crate::tally::{Tally, share};

/// A window holds this many records for each partition, so that chance alone makes none look hot.
const WINDOW_RECORDS_PER_PARTITION: u64 = 2_000;

/// Records by physical partition.
pub(crate) struct Spread {
    partitions: PartitionMap,
    /// By number of partition.
    tallies: Vec<Tally>,
    /// None if nobody knows in which order records come.
    window: Option<Window>,
    sequence: Option<Sequence>,
}

impl Spread {
    pub(crate) fn new(partitions: &PartitionMap, arrival: Arrival) -> Self {
        let numbers = partitions.iter().map(|partition| partition.id as usize + 1);
        let length = numbers.max().unwrap_or(0);
        let in_order = arrival == Arrival::InOrder;
        Self {
            partitions: partitions.clone(),
            tallies: vec![Tally::default(); length],
            window: in_order.then(|| {
                let records = partitions.count() as u64 * WINDOW_RECORDS_PER_PARTITION;
                Window::new(length, records)
            }),
            sequence: in_order.then(|| Sequence::new(length)),
        }
    }

    /// The physical partition that holds `token`.
    pub(crate) fn partition_of(&self, token: i64) -> usize {
        self.partitions.locate(token).id as usize
    }

    pub(crate) fn add(&mut self, token: i64, record: Tally) {
        let partition = self.partition_of(token);
        if let Some(tally) = self.tallies.get_mut(partition) {
            tally.add(record);
        }
        if let Some(window) = &mut self.window {
            window.add(partition, record.charge.milli_units());
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.add(token, partition);
        }
    }

    /// The partitions by first token: number and what lies there.
    pub(crate) fn partitions(&self) -> Vec<(u32, Tally)> {
        let tally = |id: u32| self.tallies.get(id as usize).copied().unwrap_or_default();
        let ids = self.partitions.iter().map(|partition| partition.id);
        ids.map(|id| (id, tally(id))).collect()
    }

    /// What part of all request units the hottest partition gets.
    pub(crate) fn hottest_share(&self) -> f64 {
        hottest_share(self.tallies.iter().map(|tally| tally.charge.milli_units()))
    }

    /// The same among records that stand near each other in the file, on average; if keys arrive in
    /// order, among those of one moment. None if the file is too short to tell. `parts` are what
    /// the keys have of all records.
    pub(crate) fn hottest_share_nearby(&self, parts: impl Iterator<Item = f64>) -> Option<f64> {
        let nearby = self.window.as_ref().and_then(Window::average_peak);
        let sequence = self.sequence.as_ref();
        let at_once = sequence.and_then(|sequence| sequence.hottest_share(parts));
        match (nearby, at_once) {
            (Some(nearby), Some(at_once)) => Some(nearby.max(at_once)),
            (nearby, at_once) => nearby.or(at_once),
        }
    }
}

/// Total RU/s at which the hottest partition has used up its even share of the budget.
pub(crate) fn throttles_at(partition_budget: f64, hottest_share: f64) -> f64 {
    if hottest_share <= 0.0 {
        return f64::INFINITY;
    }
    partition_budget / hottest_share
}

fn hottest_share(charges: impl Iterator<Item = u64> + Clone) -> f64 {
    let total = charges.clone().sum();
    share(charges.max().unwrap_or(0), total)
}

/// Looks at a file in stretches: a key can be even over all records and yet send those of one
/// moment to one partition, as a date does.
struct Window {
    length: u64,
    filled: u64,
    /// Request units by partition, in thousandths.
    charges: Vec<u64>,
    peaks: f64,
    windows: u32,
}

impl Window {
    fn new(partitions: usize, length: u64) -> Self {
        Self {
            length,
            filled: 0,
            charges: vec![0; partitions],
            peaks: 0.0,
            windows: 0,
        }
    }

    fn add(&mut self, partition: usize, charge: u64) {
        if let Some(sum) = self.charges.get_mut(partition) {
            *sum += charge;
        }
        self.filled += 1;
        if self.filled == self.length {
            self.peaks += hottest_share(self.charges.iter().copied());
            self.windows += 1;
            self.filled = 0;
            self.charges.fill(0);
        }
    }

    fn average_peak(&self) -> Option<f64> {
        (self.windows > 1).then(|| self.peaks / f64::from(self.windows))
    }
}

#[cfg(test)]
mod tests {
    use tessera_core::hash::murmur3;

    use super::*;

    fn spread(partitions: u32, keys: impl Iterator<Item = u64>) -> Spread {
        let mut spread = Spread::new(&PartitionMap::equal(partitions), Arrival::InOrder);
        for key in keys {
            spread.add(murmur3::token(&key.to_be_bytes()), Tally::of_record(100));
        }
        spread
    }

    /// Of so many keys with as many records each.
    fn nearby(spread: &Spread, keys: usize) -> Option<f64> {
        spread.hottest_share_nearby(std::iter::repeat_n(1.0 / keys as f64, keys))
    }

    #[test]
    fn one_key_uses_one_partition() {
        let spread = spread(4, std::iter::repeat_n(1, 100));
        assert_eq!(spread.hottest_share(), 1.0);
        let filled = spread
            .partitions()
            .into_iter()
            .filter(|(_, tally)| tally.records > 0);
        let filled: Vec<_> = filled.map(|(id, tally)| (id, tally.records)).collect();
        // The token of 1 lies in the last quarter of the ring.
        assert_eq!(filled, [(3, 100)]);
    }

    #[test]
    fn many_keys_use_all_alike() {
        let spread = spread(4, 0..40_000);
        let share = spread.hottest_share();
        assert!((0.25..0.26).contains(&share), "{share}");
        let nearby = nearby(&spread, 40_000).unwrap();
        assert!((0.25..0.27).contains(&nearby), "{nearby}");
    }

    #[test]
    fn keys_that_come_one_after_the_other_are_hot_one_after_the_other() {
        // Two keys fill a window.
        let keys = (0..100).flat_map(|key| std::iter::repeat_n(key, 4_000));
        let spread = spread(4, keys);
        assert!(spread.hottest_share() < 0.4, "{}", spread.hottest_share());
        let nearby = nearby(&spread, 100).unwrap();
        assert!(nearby >= 0.99, "{nearby}");
    }

    #[test]
    fn a_short_file_says_nothing_of_its_order() {
        assert_eq!(nearby(&spread(4, 0..15_999), 15_999), None);
        assert!(nearby(&spread(4, 0..16_000), 16_000).is_some());
        let mut unknown = Spread::new(&PartitionMap::equal(4), Arrival::Unknown);
        (0..16_000).for_each(|token| unknown.add(token, Tally::of_record(100)));
        assert_eq!(nearby(&unknown, 16_000), None);
    }

    #[test]
    fn throttling_begins_when_the_hottest_partition_is_full() {
        for (budget, share, expected) in [
            (10_000.0, 0.25, 40_000.0),
            (10_000.0, 0.5, 20_000.0),
            (10_000.0, 1.0, 10_000.0),
            (100.0, 0.4, 250.0),
            (100.0, 0.0, f64::INFINITY),
        ] {
            assert_eq!(throttles_at(budget, share), expected, "{share}");
        }
    }
}
