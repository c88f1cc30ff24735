//! The largest logical partitions of a container, found among the tallies of all of them.
//!
//! There may be millions of tallies, and consoles ask every other second. So a result that took
//! long is reused for a while, in proportion to the time it took.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{LISTED_KEYS, LargeKey};
use crate::container::Container;
use crate::engine::Scan;
use crate::error::Result;
use crate::key;
use crate::statistics;
use crate::transaction::Transaction;
use crate::walk::Walk;
use crate::write_set::Tally;

/// A result that takes less time is not reused.
const QUICK: Duration = Duration::from_millis(20);
/// The part of the time that may be spent on this: one in this many.
const PART_OF_TIME: u32 = 20;

/// A result and its time.
#[derive(Debug, Default)]
pub(crate) struct LargestKeys {
    known: Mutex<Option<Known>>,
}

#[derive(Debug)]
struct Known {
    largest: Vec<Largest>,
    at: Instant,
    took: Duration,
}

#[derive(Clone, Debug)]
struct Largest {
    token: i64,
    partition_key: Vec<u8>,
    tally: Tally,
}

impl LargestKeys {
    /// The largest logical partitions of `container`, the largest first.
    pub(super) async fn of(
        &self,
        transaction: &Transaction,
        container: &Container,
    ) -> Result<Vec<LargeKey>> {
        // Requests that come during a search wait for its result.
        let mut known = self.known.lock().await;
        let at = Instant::now();
        if !known.as_ref().is_some_and(|known| known.is_good(at)) {
            let largest = look(transaction, container).await?;
            let took = at.elapsed();
            *known = Some(Known { largest, at, took });
        }
        let largest = known.iter().flat_map(|known| &known.largest);
        let key = |found: &Largest| LargeKey {
            key: container.key_text(&found.partition_key),
            partition: container.partitions.locate(found.token).id,
            tally: found.tally,
        };
        Ok(largest.map(key).collect())
    }
}

impl Known {
    fn is_good(&self, now: Instant) -> bool {
        self.took >= QUICK && now.duration_since(self.at) < self.took * PART_OF_TIME
    }
}

async fn look(transaction: &Transaction, container: &Container) -> Result<Vec<Largest>> {
    let mut largest = BinaryHeap::new();
    let tallies = key::logical_tallies(container.storage());
    let mut walk = Walk::new(transaction, Scan::new(tallies).in_passing());
    while let Some(page) = walk.next().await? {
        for (key, value) in page {
            let Ok(tally) = statistics::decode(Some(&value)) else {
                continue;
            };
            largest.push(Reverse((tally.bytes, tally.items, key)));
            if largest.len() > LISTED_KEYS {
                largest.pop();
            }
        }
    }
    let sorted = largest.into_sorted_vec();
    let keys = sorted.into_iter().filter(|Reverse((bytes, ..))| *bytes > 0);
    let keys = keys.filter_map(|Reverse((bytes, items, stored))| {
        let (token, partition_key) = key::parse_logical_tally(&stored)?;
        Some(Largest {
            token,
            partition_key,
            tally: Tally { items, bytes },
        })
    });
    Ok(keys.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_is_good_for_longer() {
        let at = Instant::now();
        for (took, later, expected) in [(19, 0, false), (100, 1_999, true), (100, 2_000, false)] {
            let known = Known {
                largest: Vec::new(),
                at,
                took: Duration::from_millis(took),
            };
            let now = at + Duration::from_millis(later);
            assert_eq!(known.is_good(now), expected, "{took} {later}");
        }
    }
}
