//! Everything that is counted of one candidate while the records go by.

use tessera_core::partition_map::PartitionMap;

use crate::cardinality::{Cardinality, STANDARD_ERROR};
use crate::frequent::Frequent;
use crate::key::Key;
use crate::report::Distinct;
use crate::spread::Spread;
use crate::tally::Tally;

/// Whether the order in which records are seen says anything of when they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// They may come as they stand in their file.
    InOrder,
    /// A container keeps them by hash.
    Unknown,
}

/// What one candidate does with the records.
pub(crate) struct Profile {
    pub(crate) total: Tally,
    pub(crate) missing: u64,
    pub(crate) longest_key: usize,
    pub(crate) frequent: Frequent,
    pub(crate) spread: Spread,
    cardinality: Cardinality,
}

impl Profile {
    pub(crate) fn new(partitions: &PartitionMap, arrival: Arrival) -> Self {
        Self {
            total: Tally::default(),
            missing: 0,
            longest_key: 0,
            frequent: Frequent::new(),
            spread: Spread::new(partitions, arrival),
            cardinality: Cardinality::new(),
        }
    }

    /// Counts one record under its key. Records without a value share a key, as they do in a
    /// container.
    pub(crate) fn add(&mut self, key: Key, record: Tally, name: impl FnOnce() -> Box<str>) {
        self.total.add(record);
        self.missing += u64::from(!key.is_whole);
        self.longest_key = self.longest_key.max(key.bytes);
        self.cardinality.insert(key.identity);
        self.frequent.add(key, record, name);
        self.spread.add(key.token, record);
    }

    /// What part of all request units the hottest partition gets among records that come together.
    pub(crate) fn hottest_share_nearby(&self) -> Option<f64> {
        let all = self.total.records.max(1) as f64;
        let counts = self.frequent.records();
        let parts = counts.map(|records| records as f64 / all);
        self.spread.hottest_share_nearby(parts)
    }

    /// How many keys there are.
    pub(crate) fn distinct(&self) -> Distinct {
        match self.frequent.exact_count() {
            Some(count) => Distinct {
                count: count as u64,
                is_exact: true,
                standard_error: 0.0,
            },
            None => Distinct {
                count: rounded(self.cardinality.estimate()).min(self.total.records),
                is_exact: false,
                standard_error: STANDARD_ERROR,
            },
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate is not negative, and saturates"
)]
fn rounded(estimate: f64) -> u64 {
    estimate.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frequent::CAPACITY;

    fn profile(records: u64, key_of: impl Fn(u64) -> u64) -> Profile {
        let mut profile = Profile::new(&PartitionMap::equal(2), Arrival::InOrder);
        for record in 0..records {
            let key = Key::stored(0, &key_of(record).to_be_bytes());
            profile.add(key, Tally::of_record(10), || "x".into());
        }
        profile
    }

    #[test]
    fn keys_are_counted_exactly_while_they_are_few() {
        let few = profile(2 * CAPACITY as u64, |record| record % CAPACITY as u64);
        let distinct = few.distinct();
        assert_eq!((distinct.count, distinct.is_exact), (CAPACITY as u64, true));
        assert_eq!(few.total.records, 2 * CAPACITY as u64);

        let many = profile(100_000, |record| record / 2).distinct();
        assert!(!many.is_exact);
        assert!(many.count.abs_diff(50_000) < 2_000, "{}", many.count);
        assert!(profile(30_000, |record| record).distinct().count <= 30_000);
    }
}
