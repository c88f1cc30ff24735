//! Cells, and what decides between two writes of one.

use std::cmp::Reverse;

use bytes::Bytes;

/// One value of one column, or of one element of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Microseconds; the larger wins.
    pub(crate) timestamp: i64,
    /// None: the cell was deleted.
    pub(crate) value: Option<Bytes>,
    /// The second from which the value is not there any more; for a deleted cell, when it was.
    pub(crate) ends: Option<i64>,
    /// The seconds that it was to live, which `ttl()` tells.
    pub(crate) time_to_live: Option<i32>,
}

impl Cell {
    /// A value that stays.
    pub(crate) fn live(timestamp: i64, value: impl Into<Bytes>) -> Self {
        let value = Some(value.into());
        Self {
            timestamp,
            value,
            ends: None,
            time_to_live: None,
        }
    }

    /// A value that lives so many seconds from `now` on.
    pub(crate) fn expiring(
        timestamp: i64,
        value: impl Into<Bytes>,
        time_to_live: i32,
        now: i64,
    ) -> Self {
        let ends = Some(now.saturating_add(i64::from(time_to_live)));
        Self {
            ends,
            time_to_live: Some(time_to_live),
            ..Self::live(timestamp, value)
        }
    }

    /// A deletion at this second.
    pub(crate) fn deleted(timestamp: i64, now: i64) -> Self {
        Self {
            timestamp,
            value: None,
            ends: Some(now),
            time_to_live: None,
        }
    }

    /// The one that counts. At one timestamp a deletion beats a value, a value that ends beats one
    /// that stays, the one that ends later beats the other, and at last the larger bytes win.
    #[must_use]
    pub(crate) fn merge(self, other: Self) -> Self {
        if self.rank() >= other.rank() {
            self
        } else {
            other
        }
    }

    fn rank(&self) -> impl Ord {
        (
            self.timestamp,
            self.ends.is_some(),
            self.value.is_none(),
            self.ends,
            Reverse(self.time_to_live),
            self.value.as_deref(),
        )
    }

    /// The value at this second, unless something deleted it.
    pub(crate) fn visible(&self, deletion: Deletion, now: i64) -> Option<&[u8]> {
        let value = self.value.as_deref()?;
        let is_over = self.ends.is_some_and(|ends| ends <= now);
        (self.timestamp > deletion.timestamp && !is_over).then_some(value)
    }

    /// A counter after an increment: deleted ones begin anew. The sum wraps, as Cassandra's does.
    #[must_use]
    pub(crate) fn increment(before: Option<&[u8]>, delta: i64, timestamp: i64) -> Self {
        let count = before
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, i64::from_be_bytes);
        let count = count.wrapping_add(delta).to_be_bytes();
        Self::live(timestamp, Bytes::copy_from_slice(&count))
    }
}

/// Deletes what is not newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deletion {
    pub(crate) timestamp: i64,
    /// The second at which it was made: when it may be forgotten depends on it.
    pub(crate) at: i64,
}

impl Deletion {
    /// Deletes nothing.
    pub(crate) const NONE: Self = Self {
        timestamp: i64::MIN,
        at: i64::MIN,
    };
}

impl Default for Deletion {
    fn default() -> Self {
        Self::NONE
    }
}

/// That a row was inserted: it is there although all its cells are null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Liveness {
    pub(crate) timestamp: i64,
    /// The second from which it does not count; one that ends beats one that stays.
    pub(crate) ends: Option<i64>,
}

impl Liveness {
    pub(crate) fn is_visible(self, deletion: Deletion, now: i64) -> bool {
        self.timestamp > deletion.timestamp && self.ends.is_none_or(|ends| ends > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_cell_is_kept() {
        let old = Cell::live(1, &b"z"[..]);
        let new = Cell::live(2, &b"a"[..]);
        let ending = Cell::expiring(2, &b"b"[..], 10, 100);
        let later = Cell::expiring(2, &b"b"[..], 20, 100);
        let deleted = Cell::deleted(2, 50);
        let sorted = [old, new, Cell::live(2, &b"c"[..]), ending, later, deleted];
        for (index, low) in sorted.iter().enumerate() {
            for high in sorted.iter().skip(index) {
                assert_eq!(&low.clone().merge(high.clone()), high);
                assert_eq!(&high.clone().merge(low.clone()), high);
            }
        }
    }

    #[test]
    fn deletions_and_time_hide_values() {
        let cell = Cell::expiring(5, &b"v"[..], 10, 100);
        let at = |timestamp| Deletion { timestamp, at: 0 };
        assert_eq!(cell.visible(Deletion::NONE, 109), Some(&b"v"[..]));
        assert_eq!(cell.visible(Deletion::NONE, 110), None);
        assert_eq!(cell.visible(at(4), 100), Some(&b"v"[..]));
        assert_eq!(cell.visible(at(5), 100), None);
        assert_eq!(Cell::deleted(5, 0).visible(Deletion::NONE, 0), None);
    }

    #[test]
    fn counters_count() {
        let once = Cell::increment(None, 5, 1);
        let twice = Cell::increment(once.value.as_deref(), -7, 2);
        assert_eq!(twice.value, Some((-2i64).to_be_bytes().to_vec().into()));
        let most = i64::MAX.to_be_bytes();
        let wrapped = Cell::increment(Some(&most), 1, 3);
        assert_eq!(wrapped.value, Some(i64::MIN.to_be_bytes().to_vec().into()));
    }
}
