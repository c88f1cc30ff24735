//! The keys with the most request units, in bounded memory.
//!
//! A table of counters. When it is full, every counter pays the median of what all have left, and
//! those that cannot are forgotten: at least half of them. So a forgotten key never had more than
//! the sum of those payments, and each payment was made by half a table: that sum is at most
//! 2 / capacity of everything. A key that stays is counted exactly from the moment it came.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tessera_core::throughput::Charge;

use crate::key::Key;
use crate::tally::Tally;

/// Keys up to this number are counted exactly, all of them.
pub(crate) const CAPACITY: usize = 24_576;

/// Counts keys.
pub(crate) struct Frequent {
    capacity: usize,
    counters: HashMap<u64, Counter>,
    /// The most that a key without a counter can have had, in thousandths.
    forgotten: u64,
}

/// One key that is counted.
pub(crate) struct Counter {
    pub(crate) name: Box<str>,
    /// Where on the ring it lies.
    pub(crate) token: i64,
    /// What was seen of it since it has a counter.
    pub(crate) tally: Tally,
    /// The most that was missed before, when it had none.
    pub(crate) missed: Charge,
    /// What it has left to pay with, in thousandths.
    credit: u64,
}

impl Counter {
    /// The most that the key can have.
    pub(crate) fn most(&self) -> Tally {
        let mut most = Tally::at_most(self.missed);
        most.add(self.tally);
        most
    }
}

impl Frequent {
    pub(crate) fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    fn with_capacity(capacity: usize) -> Self {
        Self {
            capacity,
            counters: HashMap::new(),
            forgotten: 0,
        }
    }

    /// Counts one record of the key.
    pub(crate) fn add(&mut self, key: Key, record: Tally, name: impl FnOnce() -> Box<str>) {
        let credit = record.charge.milli_units();
        match self.counters.entry(key.identity) {
            Entry::Occupied(mut entry) => {
                let counter = entry.get_mut();
                counter.tally.add(record);
                counter.credit += credit;
            }
            Entry::Vacant(entry) => {
                entry.insert(Counter {
                    name: name(),
                    token: key.token,
                    tally: record,
                    missed: Charge::from_milli_units(self.forgotten),
                    credit,
                });
            }
        }
        if self.counters.len() > self.capacity {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let mut credits: Vec<u64> = self.counters.values().map(|key| key.credit).collect();
        let middle = credits.len() / 2;
        let (_, &mut median, _) = credits.select_nth_unstable(middle);
        self.forgotten += median;
        self.counters.retain(|_, counter| {
            counter.credit = counter.credit.saturating_sub(median);
            counter.credit > 0
        });
    }

    /// How many keys there are, if all of them were counted.
    pub(crate) fn exact_count(&self) -> Option<usize> {
        (self.forgotten == 0).then_some(self.counters.len())
    }

    /// How many records were seen of each key that is counted.
    pub(crate) fn records(&self) -> impl Iterator<Item = u64> + '_ {
        self.counters.values().map(|counter| counter.tally.records)
    }

    /// No key has more than this.
    pub(crate) fn most_of_any(&self) -> Tally {
        let forgotten = Tally::at_most(Charge::from_milli_units(self.forgotten));
        self.counters
            .values()
            .map(Counter::most)
            .fold(forgotten, Tally::max)
    }

    /// The first `count` keys by what was seen of them, the most first.
    pub(crate) fn top(&self, count: usize, by: impl Fn(&Tally) -> u64) -> Vec<&Counter> {
        let mut counters: Vec<&Counter> = self.counters.values().collect();
        counters.sort_unstable_by(|a, b| {
            let order = by(&b.tally).cmp(&by(&a.tally));
            order.then_with(|| a.name.cmp(&b.name))
        });
        counters.truncate(count);
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(capacity: usize, keys: impl Iterator<Item = u64>) -> (Frequent, HashMap<u64, u64>) {
        let mut frequent = Frequent::with_capacity(capacity);
        let mut truth = HashMap::new();
        for number in keys {
            let key = Key::stored(0, &number.to_be_bytes());
            frequent.add(key, Tally::of_record(100), || number.to_string().into());
            *truth.entry(number).or_default() += 1;
        }
        (frequent, truth)
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let (frequent, _) = count(100, (0..1_000).map(|n| n % 100));
        assert_eq!(frequent.exact_count(), Some(100));
        assert_eq!(frequent.most_of_any().records, 10);
        let top = frequent.top(2, |tally| tally.records);
        let top: Vec<_> = top
            .iter()
            .map(|key| (&*key.name, key.tally.records))
            .collect();
        assert_eq!(top, [("0", 10), ("1", 10)]);
    }

    #[test]
    fn what_is_missed_stays_within_the_bound() {
        // A mixing multiplication makes an order without a pattern; squares make some keys hot.
        let keys = (0..200_000u64).map(|n| {
            let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            (random * random) >> 33
        });
        let (capacity, records) = (500, 200_000);
        let (frequent, truth) = count(capacity, keys);
        assert!(truth.len() > 10 * capacity, "{}", truth.len());
        assert_eq!(frequent.exact_count(), None);
        let each = Tally::of_record(100).charge.milli_units();
        let bound = 2 * records * each / capacity as u64;
        assert!(frequent.forgotten <= bound);
        for (key, &count) in &truth {
            let identity = Key::stored(0, &key.to_be_bytes()).identity;
            let Some(counter) = frequent.counters.get(&identity) else {
                assert!(count * each <= frequent.forgotten, "{key}");
                continue;
            };
            let seen = counter.tally.charge.milli_units();
            assert!(seen <= count * each, "{key}");
            assert!(count * each <= seen + counter.missed.milli_units(), "{key}");
        }
        assert_eq!(&*frequent.top(1, |tally| tally.records)[0].name, "0");
    }

    #[test]
    fn keys_that_never_return_leave_little_behind() {
        let (frequent, _) = count(1_000, 0..100_000);
        assert!(frequent.counters.len() <= 1_000);
        let missed = frequent.most_of_any().records;
        assert!(missed <= 2 * 100_000 / 1_000 + 1, "{missed}");
    }
}
