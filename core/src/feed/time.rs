//! The time of a feed: a function of stamps and clock marks, the same on every server.
//!
//! While a feed is on, one server appends a mark with the time now and then. The time of a stamp is
//! that of the last mark before it, in whole seconds, and how many versions it is behind that: so
//! times grow with stamps, whatever the clocks of the servers say.

use super::keys;
use super::position::Position;
use super::stamp::Stamp;
use crate::encoding::take_u64;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::transaction::Transaction;

/// Marks follow each other in this time while there are commits.
const BUSY_MS: u64 = 1_000;
/// And in this while there are none.
const IDLE_MS: u64 = 10_000;

/// A moment in the time of a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeedTime {
    /// Seconds since 1970.
    pub seconds: u64,
    /// Which moment of that second.
    pub increment: u32,
}

/// One mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) stamp: Stamp,
    pub(crate) wall_ms: u64,
}

/// Tells the times of the stamps between two others.
#[derive(Clone, Debug, Default)]
pub struct FeedClock {
    /// By stamp.
    marks: Vec<Mark>,
}

impl FeedClock {
    /// The time of a stamp.
    pub fn time_of(&self, stamp: Stamp) -> FeedTime {
        let before = self.marks.partition_point(|mark| mark.stamp <= stamp);
        let Some(mark) = before.checked_sub(1).and_then(|at| self.marks.get(at)) else {
            let increment = u32::try_from(stamp.version).unwrap_or(u32::MAX);
            return FeedTime {
                seconds: 0,
                increment,
            };
        };
        let versions = match mark.stamp.epoch == stamp.epoch {
            true => stamp
                .version
                .saturating_sub(mark.stamp.version)
                .saturating_add(1),
            // Behind all that the epoch before can have had.
            false => stamp.version.saturating_add(1 << 31),
        };
        FeedTime {
            seconds: mark.wall_ms / 1_000,
            increment: u32::try_from(versions).unwrap_or(u32::MAX),
        }
    }
}

impl Store {
    /// What tells the times of the stamps from one to another.
    pub async fn feed_clock(&self, first: Stamp, last: Stamp) -> Result<FeedClock> {
        let transaction = self.begin().await?;
        let mut marks: Vec<Mark> = last_mark(&transaction, first).await?.into_iter().collect();
        let mut scan = Scan::new(keys::between(&keys::clock(), first, last));
        loop {
            let page = transaction.scan_keys(&scan).await?;
            for (key, value) in &page.entries {
                marks.push(parse(key, value)?);
            }
            match page.entries.last() {
                Some((last, _)) if page.more => scan = scan.after(last),
                _ => return Ok(FeedClock { marks }),
            }
        }
    }

    /// The position that all stamps of this time or later are behind.
    pub async fn position_at(&self, time: FeedTime) -> Result<Position> {
        let transaction = self.begin().await?;
        let newest = transaction.snapshot.settled().await?.newest;
        let Some(mark) = mark_at(&transaction, time.seconds * 1_000 + 999).await? else {
            return Ok(Position::START);
        };
        if mark.wall_ms / 1_000 == time.seconds {
            let versions = u64::from(time.increment).saturating_sub(1);
            let version = mark.stamp.version.saturating_add(versions);
            let before = Stamp::end_of(mark.stamp.epoch, version.saturating_sub(1));
            return Ok(Position::at(before.min(newest)));
        }
        // That second had no mark: what follows belongs to the one before, until the next mark.
        let next = next_mark(&transaction, mark.stamp).await?;
        let end = next.map_or(newest, |next| {
            Stamp::end_of(next.stamp.epoch, next.stamp.version - 1)
        });
        Ok(Position::at(end))
    }

    /// Appends a mark if it is time. Called by one server while any feed is on.
    pub(crate) async fn mark_feed_clock(&self) -> Result<()> {
        let mut transaction = self.begin().await?;
        let settled = transaction.snapshot.settled().await?;
        let now_ms = transaction.now_ms;
        let all = Stamp::end_of(u64::MAX, u64::MAX);
        let last = last_mark(&transaction, all).await?;
        if let Some(last) = last {
            let is_idle = last.stamp.is_same_version(settled.newest);
            let pause = if is_idle { IDLE_MS } else { BUSY_MS };
            // The clock may have been set back.
            let passed = now_ms.checked_sub(last.wall_ms).unwrap_or(pause);
            if passed < pause {
                return Ok(());
            }
        }
        let wall_ms = now_ms.max(last.map_or(0, |last| last.wall_ms + BUSY_MS));
        let wall = bytes::Bytes::copy_from_slice(&wall_ms.to_be_bytes());
        transaction.writes.append(keys::clock(), wall);
        transaction.commit().await.map(drop)
    }
}

/// The last mark at or before a stamp.
pub(crate) async fn last_mark(transaction: &Transaction, through: Stamp) -> Result<Option<Mark>> {
    let mut scan = Scan::new(keys::between(&keys::clock(), Stamp::START, through));
    (scan.reverse, scan.max_rows) = (true, 1);
    one(transaction, &scan).await
}

async fn next_mark(transaction: &Transaction, after: Stamp) -> Result<Option<Mark>> {
    let all = Stamp::end_of(u64::MAX, u64::MAX);
    let mut scan = Scan::new(keys::between(&keys::clock(), after, all));
    scan.max_rows = 1;
    one(transaction, &scan).await
}

/// The last mark that is not later than a time.
pub(crate) async fn mark_at(transaction: &Transaction, wall_ms: u64) -> Result<Option<Mark>> {
    let all = Stamp::end_of(u64::MAX, u64::MAX);
    let mut scan = Scan::new(keys::between(&keys::clock(), Stamp::START, all));
    scan.reverse = true;
    loop {
        let page = transaction.scan_keys(&scan).await?;
        for (key, value) in &page.entries {
            let mark = parse(key, value)?;
            if mark.wall_ms <= wall_ms {
                return Ok(Some(mark));
            }
        }
        match page.entries.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => return Ok(None),
        }
    }
}

async fn one(transaction: &Transaction, scan: &Scan) -> Result<Option<Mark>> {
    let page = transaction.scan_keys(scan).await?;
    let first = page.entries.first();
    first.map(|(key, value)| parse(key, value)).transpose()
}

fn parse(key: &[u8], value: &[u8]) -> Result<Mark> {
    let damaged = || Error::Corrupt("a clock mark".to_owned());
    let (_, _, stamp) = keys::parse(key).ok_or_else(damaged)?;
    let wall_ms = take_u64(&mut &*value).ok_or_else(damaged)?;
    Ok(Mark { stamp, wall_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_with_stamps() {
        let at = |epoch, version| Stamp::end_of(epoch, version);
        let mark = |epoch, version, wall_ms| Mark {
            stamp: at(epoch, version),
            wall_ms,
        };
        let clock = FeedClock {
            marks: vec![mark(1, 10, 5_000), mark(1, 20, 6_900), mark(2, 3, 9_000)],
        };
        let stamps = [
            (1, 5),
            (1, 10),
            (1, 19),
            (1, 20),
            (1, 90),
            (2, 1),
            (2, 2),
            (2, 3),
            (2, 4),
        ];
        let times: Vec<FeedTime> = stamps
            .iter()
            .map(|(e, v)| clock.time_of(at(*e, *v)))
            .collect();
        assert!(times.is_sorted_by(|one, other| one < other), "{times:?}");
        assert_eq!(
            times[1],
            FeedTime {
                seconds: 5,
                increment: 1
            }
        );
        assert_eq!(
            times[4],
            FeedTime {
                seconds: 6,
                increment: 71
            }
        );
    }
}
