//! The keys that cost most, counted in bounded memory by the Space-Saving algorithm.
//!
//! There are as many counters as fit. A key without one takes over the smallest and inherits its
//! count, which is then the most by which its own may be too high. So a key whose true share is
//! larger than one part in [`CAPACITY`] is always among the counters.

use smallvec::SmallVec;

/// Counters at most.
pub(super) const CAPACITY: usize = 8;

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) token: i64,
    /// Short keys, which are the rule, need no allocation.
    pub(super) key: SmallVec<[u8; 32]>,
    pub(super) weight: u64,
    /// The weight may be too high by this much.
    pub(super) error: u64,
}

#[derive(Debug, Default)]
pub(super) struct TopKeys {
    counts: Vec<Count>,
}

impl TopKeys {
    /// Adds `weight` to the count of `key`. Looks at each count once: every request comes here.
    pub(super) fn add(&mut self, token: i64, key: &[u8], weight: u64) {
        let (mut smallest, mut least) = (0, u64::MAX);
        for (position, count) in self.counts.iter_mut().enumerate() {
            if count.token == token && *count.key == *key {
                count.weight = count.weight.saturating_add(weight);
                return;
            }
            if count.weight < least {
                (smallest, least) = (position, count.weight);
            }
        }
        if self.counts.len() < CAPACITY {
            self.counts.push(Count {
                token,
                key: SmallVec::from_slice(key),
                weight,
                error: 0,
            });
        } else if let Some(count) = self.counts.get_mut(smallest) {
            count.token = token;
            count.key = SmallVec::from_slice(key);
            count.error = least;
            count.weight = least.saturating_add(weight);
        }
    }

    /// The counter here of the key that `other` counts.
    pub(super) fn find(&self, other: &Count) -> Option<&Count> {
        let same = |count: &&Count| count.token == other.token && count.key == other.key;
        self.counts.iter().find(same)
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
    }

    pub(super) fn counts(&self) -> &[Count] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_stays_among_many_others_within_its_error() {
        let mut keys = TopKeys::default();
        for number in 0..10_000_i64 {
            keys.add(number, &number.to_be_bytes(), 1);
            if number % 4 == 0 {
                keys.add(-1, b"hot", 1);
            }
        }
        assert_eq!(keys.counts().len(), CAPACITY);
        let hot = keys.counts().iter().find(|count| *count.key == *b"hot");
        let hot = hot.unwrap();
        let truth = 2_500;
        assert!(
            hot.weight >= truth && hot.weight - hot.error <= truth,
            "{hot:?}"
        );
        let largest = keys.counts().iter().max_by_key(|count| count.weight);
        assert_eq!(largest, Some(hot));
    }

    #[test]
    fn keys_that_share_a_token_are_counted_apart() {
        let mut keys = TopKeys::default();
        keys.add(7, b"a", 1);
        keys.add(7, b"b", 2);
        keys.add(7, b"a", 3);
        let weights: Vec<u64> = keys.counts().iter().map(|count| count.weight).collect();
        assert_eq!(weights, [4, 2]);
    }
}
