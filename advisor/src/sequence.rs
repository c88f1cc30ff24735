//! Whether keys arrive in order: a date is even over a year, and yet all records of one moment have
//! the same. How many records stand between two of the same key does not matter then, so this does
//! not look at stretches of the file but from each record to the few before it.
//!
//! A record whose key is among those few recurs. In shuffled records some do so by chance, the more
//! the fewer keys there are; what goes beyond that is due to the order.

/// So many records before each are looked at.
const NEAR: usize = 8;
/// Records of one moment, by which it is told how they lie on the partitions.
const MOMENT: usize = 16;
/// With a larger part of the records that recur by their order, keys arrive in order.
const ORDERLY: f64 = 0.7;
/// Where so many recur by chance there are too few keys to tell.
const TOO_FEW_KEYS: f64 = 0.9;

/// What the order of the records says of one candidate.
pub(crate) struct Sequence {
    /// The keys of the records before, by their tokens.
    before: [i64; NEAR],
    records: usize,
    recurring: u64,
    /// Records of the moment that runs, by partition.
    moment: Vec<u32>,
    /// Sum of the largest part that one partition had of each moment.
    peaks: f64,
    moments: u32,
}

impl Sequence {
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            before: [0; NEAR],
            records: 0,
            recurring: 0,
            moment: vec![0; partitions],
            peaks: 0.0,
            moments: 0,
        }
    }

    /// The next record, whose key has this token and lies on this partition.
    pub(crate) fn add(&mut self, token: i64, partition: usize) {
        let known = self.records.min(NEAR);
        let recurs = self.before.iter().take(known).any(|it| *it == token);
        self.recurring += u64::from(recurs);
        if let Some(place) = self.before.get_mut(self.records % NEAR) {
            *place = token;
        }
        self.records += 1;
        if let Some(count) = self.moment.get_mut(partition) {
            *count += 1;
        }
        if self.records.is_multiple_of(MOMENT) {
            let most = self.moment.iter().max().copied().unwrap_or(0);
            self.peaks += f64::from(most) / MOMENT as f64;
            self.moments += 1;
            self.moment.fill(0);
        }
    }

    /// What part of the records of one moment the hottest partition gets, if keys arrive in order.
    /// `parts` are what the keys have of all records.
    pub(crate) fn hottest_share(&self, parts: impl Iterator<Item = f64>) -> Option<f64> {
        let by_chance: f64 = parts
            .map(|part| part * (1.0 - (1.0 - part).powf(NEAR as f64)))
            .sum();
        if self.moments == 0 || by_chance > TOO_FEW_KEYS {
            return None;
        }
        let recurring = self.recurring as f64 / self.records as f64;
        let by_order = (recurring - by_chance) / (1.0 - by_chance);
        (by_order >= ORDERLY).then(|| self.peaks / f64::from(self.moments))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tessera_core::hash::murmur3;
    use tessera_core::partition_map::PartitionMap;

    use super::*;

    const RECORDS: u64 = 20_000;
    const PARTITIONS: u32 = 3;

    fn measure(keys: impl Iterator<Item = String>) -> Option<f64> {
        let map = PartitionMap::equal(PARTITIONS);
        let mut sequence = Sequence::new(PARTITIONS as usize);
        let mut counts: HashMap<String, u64> = HashMap::new();
        for key in keys {
            let token = murmur3::token(key.as_bytes());
            sequence.add(token, map.locate(token).id as usize);
            *counts.entry(key).or_default() += 1;
        }
        let all = sequence.records as f64;
        let parts = counts.into_values();
        sequence.hottest_share(parts.map(|count| count as f64 / all))
    }

    /// A number below `below` that follows from `seed` and from nothing that can be seen.
    fn noise(seed: u64, below: u64) -> u64 {
        murmur3::token(&seed.to_be_bytes()).unsigned_abs() % below
    }

    /// How people write the `number`th of values that come one after the other.
    const FORMS: [fn(u64) -> String; 5] = [
        |number| format!("2026-{:02}-{:02}", number / 28 % 12 + 1, number % 28 + 1),
        |number| format!("2026-01-{:02}T{:02}:00:00Z", number / 24 + 1, number % 24),
        |number| number.to_string(),
        |number| format!("{number:024x}"),
        |number| format!("week {number}"),
    ];

    #[test]
    fn values_in_order_are_noticed_however_many_there_are() {
        for distinct in [10, 30, 100, 300, 336, 1_000, 4_000] {
            for (form, write) in FORMS.iter().enumerate() {
                if form == 0 && distinct > 336 {
                    continue;
                }
                let value = |record: u64| write(record * distinct / RECORDS);
                let what = (distinct, form);
                let orders: [(&str, Option<f64>); 4] = [
                    ("in order", measure((0..RECORDS).map(value))),
                    ("reversed", measure((0..RECORDS).rev().map(value))),
                    (
                        "a tenth late",
                        measure((0..RECORDS).map(|record| match noise(record, 10) {
                            0 => value(noise(record + 1, RECORDS)),
                            _ => value(record),
                        })),
                    ),
                    (
                        "by turns a little late",
                        measure(
                            (0..RECORDS)
                                .map(|record| value(record.saturating_sub(noise(record, 3)))),
                        ),
                    ),
                ];
                for (order, share) in orders {
                    let share = share.unwrap_or_else(|| panic!("{what:?} {order}"));
                    assert!(share > 0.5, "{what:?} {order}: {share}");
                }
            }
        }
        // One day after the other: all of a moment goes to one partition.
        let days = measure((0..RECORDS).map(|record| FORMS[0](record / 170)));
        assert!(days.is_some_and(|share| share > 0.95), "{days:?}");
    }

    #[test]
    fn shuffled_values_are_not() {
        for distinct in [10, 30, 100, 300, 1_000, 5_000, RECORDS] {
            for (form, write) in FORMS.iter().enumerate() {
                let shuffled = (0..RECORDS).map(|record| write(noise(record, distinct)));
                assert_eq!(measure(shuffled), None, "{distinct} {form}");
            }
        }
        // One of many has half of all, or a few have most.
        for hot in [2, 3, 5] {
            let skewed = (0..RECORDS).map(|record| match noise(record, hot) {
                0 => "hot".to_owned(),
                _ => noise(record + 1, 1_000).to_string(),
            });
            assert_eq!(measure(skewed), None, "{hot}");
        }
        let in_turn = (0..RECORDS).map(|record| (record % 1_000).to_string());
        assert_eq!(measure(in_turn), None);
        // Each has its own: whatever its order, it lies anywhere.
        let unique = (0..RECORDS).map(|record| record.to_string());
        assert_eq!(measure(unique), None);
        // A few records of each come together, and more of them later.
        let visits = (0..RECORDS).map(|record| noise(record / 3, 2_000).to_string());
        assert_eq!(measure(visits), None);
        assert_eq!(measure(std::iter::empty()), None);
        assert_eq!(measure(std::iter::repeat_n("one".to_owned(), 100)), None);
    }
}
