//! Letting go of what is older than feeds are kept, and of feeds that nobody follows.
//!
//! What is gone is said first: a floor that readers check, and then the entries below it are
//! removed. So nobody ever misses something without hearing of it.

use std::time::Duration;

use super::definition::{FeedDefinition, FeedId};
use super::keys;
use super::policy::forget_policy;
use super::position::Position;
use super::registry::{self, FeedEntry};
use super::segments::SegmentTable;
use super::stamp::Stamp;
use super::time::{self, Mark};
use crate::engine::{KeyRange, Scan};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::transaction::Transaction;

/// How feeds are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedOptions {
    /// Whether every container has a feed, for those who resume from before anybody followed.
    pub always: bool,
    /// For how long entries are kept where nothing else was said.
    pub retention: Duration,
    /// How many bytes one feed may have at most, roughly.
    pub max_bytes: u64,
}

impl Default for FeedOptions {
    fn default() -> Self {
        Self {
            always: false,
            retention: Duration::from_hours(24),
            max_bytes: 64 << 30,
        }
    }
}

/// Entries of a segment that are older than the floor are removed when this much time has passed
/// since the last time: a range that is deleted leaves a mark that reads step over.
const TRIM_PAUSE_MS: u64 = 60 * 60 * 1_000;

/// Tends the feeds of a store, round after round.
#[derive(Default)]
pub(crate) struct Tender {
    trimmed_ms: u64,
}

impl Tender {
    /// One round: a clock mark, floors, and what is to be removed. Answers whether there are feeds.
    pub(crate) async fn tend(&mut self, store: &Store) -> Result<bool> {
        let transaction = store.begin().await?;
        let feeds = registry::entries(&transaction).await?;
        if feeds.is_empty() {
            return Ok(false);
        }
        drop(transaction);
        store.mark_feed_clock().await?;
        let now_ms = store.clock().now_ms();
        if now_ms.saturating_sub(self.trimmed_ms) < TRIM_PAUSE_MS.min(store.retention_ms(None) / 8)
        {
            return Ok(true);
        }
        self.trimmed_ms = now_ms;
        store.trim_feeds(&feeds).await?;
        Ok(true)
    }
}

impl Store {
    /// Does now what is done now and then: a clock mark, and letting go of what is old.
    pub async fn tend_feeds_now(&self) -> Result<()> {
        Tender::default().tend(self).await.map(drop)
    }

    pub(super) fn retention_ms(&self, entry: Option<&FeedEntry>) -> u64 {
        let asked = entry.and_then(|entry| entry.retention_ms);
        let retention = self.feed_options().retention.as_millis();
        asked.unwrap_or(u64::try_from(retention).unwrap_or(u64::MAX))
    }

    /// Removes what is older than feeds are kept, ends those that nobody follows, and forgets those
    /// that ended long ago.
    pub(crate) async fn trim_feeds(&self, feeds: &[(FeedId, FeedEntry)]) -> Result<()> {
        let now_ms = self.clock().now_ms();
        let mut oldest_ms = now_ms;
        for (feed, entry) in feeds {
            let horizon_ms = now_ms.saturating_sub(self.retention_ms(Some(entry)));
            oldest_ms = oldest_ms.min(horizon_ms);
            if entry.ended_ms.is_some_and(|ended| ended < horizon_ms) {
                self.forget_feed(*feed).await?;
                continue;
            }
            self.raise_floor(*feed, horizon_ms).await?;
            if entry.ended_ms.is_none() && !self.feed_options().always {
                self.end_unless_followed(*feed, entry, horizon_ms).await?;
            }
        }
        self.trim_clock(oldest_ms).await?;
        self.engine().tend_log(oldest_ms).await?;
        Ok(())
    }

    async fn raise_floor(&self, feed: FeedId, horizon_ms: u64) -> Result<()> {
        let size = self.engine().approximate_size(&keys::all_of(feed)).await?;
        let is_too_large = size > self.feed_options().max_bytes;
        let mut transaction = self.begin().await?;
        let settled = transaction.snapshot.settled().await?;
        let floor = registry::floor(&transaction, feed).await?;
        let mut mark = time::mark_at(&transaction, horizon_ms).await?;
        if is_too_large {
            mark = halfway(&transaction, floor, transaction.now_ms)
                .await?
                .or(mark);
        }
        let Some(raised) = mark.map(|mark| mark.stamp).filter(|raised| *raised > floor) else {
            return Ok(());
        };
        let raised = raised.min(settled.through);
        let table = SegmentTable::read(&transaction, feed, settled.through).await?;
        registry::set_floor(&mut transaction, feed, raised);
        transaction.commit().await?;
        if self.engine().capabilities().keeps_log_by_time && !is_too_large {
            return Ok(());
        }
        let segments = table.segments.iter();
        let begun = segments.filter(|segment| segment.goes_beyond(floor));
        let mut prefixes: Vec<_> = begun.map(|segment| keys::of(feed, segment.id)).collect();
        prefixes.push(keys::directory(feed));
        for prefix in prefixes {
            self.remove_range(keys::between(&prefix, Stamp::START, raised))
                .await?;
        }
        Ok(())
    }

    /// Removes a range of which nobody reads any more.
    async fn remove_range(&self, range: KeyRange) -> Result<()> {
        let mut any = Scan::new(range.clone());
        (any.keys_only, any.max_rows) = (true, 1);
        if self
            .begin()
            .await?
            .scan_keys(&any)
            .await?
            .entries
            .is_empty()
        {
            return Ok(());
        }
        let removed = self.run(&[], move |transaction| {
            transaction.writes.delete_range(range.clone());
            Box::pin(async { Ok::<_, Error>(()) })
        });
        removed.await.map(drop)
    }

    async fn forget_feed(&self, feed: FeedId) -> Result<()> {
        self.remove_range(keys::all_of(feed)).await?;
        self.feeds().forget_table(feed);
        let forgotten = self.run(&[], move |transaction| {
            registry::forget(transaction, feed);
            Box::pin(async { Ok::<_, Error>(()) })
        });
        forgotten.await.map(drop)
    }

    /// Turns a feed off that nobody has followed for as long as it is kept.
    async fn end_unless_followed(
        &self,
        feed: FeedId,
        entry: &FeedEntry,
        horizon_ms: u64,
    ) -> Result<()> {
        let transaction = self.begin().await?;
        let seen_ms = registry::seen_ms(&transaction, feed).await?;
        drop(transaction);
        let Some(seen_ms) = seen_ms else {
            // Inherited, or from before: counted from now on.
            let now_ms = self.clock().now_ms();
            let noted = self.run(&[], move |transaction| {
                registry::set_seen(transaction, feed, now_ms);
                Box::pin(async { Ok::<_, Error>(()) })
            });
            return noted.await.map(drop);
        };
        if seen_ms >= horizon_ms {
            return Ok(());
        }
        match entry.name.container.is_empty() {
            true => self.end_scope(feed, entry).await,
            false => self.end_feed(feed, entry).await,
        }
    }

    async fn end_feed(&self, feed: FeedId, entry: &FeedEntry) -> Result<()> {
        let container = match self.begin().await?.container(&entry.name).await {
            Ok(container) => container,
            Err(Error::NotFound(_) | Error::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let own = container.definition.feed.as_ref();
        if own.is_none_or(|own| own.number != feed || own.is_needed()) {
            return Ok(());
        }
        let ended = self.alter(&entry.name, move |_, mut draft| {
            let definition = &mut draft.definition;
            // Whoever follows the scope follows this too.
            let ends = |own: &&mut FeedDefinition| own.number == feed && !own.is_needed();
            if definition.feed.as_mut().filter(ends).is_some() {
                definition.feed = None;
            }
            Box::pin(async move { Ok(draft) })
        });
        match ended.await {
            Ok(_) | Err(Error::NotFound(_) | Error::Corrupt(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn end_scope(&self, scope: FeedId, entry: &FeedEntry) -> Result<()> {
        let name = entry.name.clone();
        let mut ended = entry.clone();
        ended.ended_ms = Some(self.clock().now_ms());
        let noted = self.run(&[], move |transaction| {
            forget_policy(transaction, &name);
            let saved = ended.save(transaction, scope);
            Box::pin(async move { saved })
        });
        noted.await?;
        let name = &entry.name;
        let database = Some(name.database.as_str()).filter(|database| !database.is_empty());
        for name in self.list_containers(&name.api, database).await? {
            let left = self.alter(&name, move |_, mut draft| {
                if let Some(feed) = &mut draft.definition.feed {
                    feed.scopes.retain(|followed| *followed != scope);
                }
                Box::pin(async move { Ok(draft) })
            });
            match left.await {
                Ok(_) | Err(Error::NotFound(_) | Error::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes marks that no floor needs any more, but the last of them.
    async fn trim_clock(&self, oldest_ms: u64) -> Result<()> {
        let transaction = self.begin().await?;
        let mark = time::mark_at(&transaction, oldest_ms).await?;
        drop(transaction);
        let Some(Mark { stamp, .. }) = mark else {
            return Ok(());
        };
        let before = Stamp::end_of(stamp.epoch, stamp.version.saturating_sub(1));
        self.remove_range(keys::between(&keys::clock(), Stamp::START, before))
            .await
    }

    /// Where a feed begins now: what is older is gone.
    pub async fn feed_floor(&self, feed: FeedId) -> Result<Position> {
        let transaction = self.begin().await?;
        registry::floor(&transaction, feed).await.map(Position::at)
    }
}

/// A mark in the middle of what a feed has.
async fn halfway(transaction: &Transaction, floor: Stamp, now_ms: u64) -> Result<Option<Mark>> {
    let first = time::last_mark(transaction, floor).await?;
    let first_ms = first.map_or(0, |first| first.wall_ms);
    time::mark_at(transaction, first_ms + now_ms.saturating_sub(first_ms) / 2).await
}
