//! Reading the oplog: pages of the feed as entries with their times.
//!
//! A time names one entry, so that a follower can go on behind it. The feed's own times name
//! versions of the engine, which commits share; the increment is that of the feed times
//! [`ENTRIES`], and which entry of the version it is. So a log is always read from the first entry
//! of a version on.

use std::collections::VecDeque;

use bson::{Bson, Document, Timestamp};
use tessera_core::Store;
use tessera_core::feed::definition::FeedId;
use tessera_core::feed::policy::{FeedScope, FeedWish};
use tessera_core::feed::position::Position;
use tessera_core::feed::reader::{Change, FeedItem, FeedRequest};
use tessera_core::feed::record::Annotation;
use tessera_core::feed::time::{FeedClock, FeedTime};
use tessera_core::feed::waking::FeedAlarm;
use tokio::time::Instant;

use crate::API;
use crate::change_stream::transaction_of;
use crate::failure::Result;
use crate::oplog::entry::{self, Operation};

/// How many entries of one version have times of their own.
const ENTRIES: u32 = 4_096;

/// Entries of the feed that are read at once.
const PAGE: usize = 512;

/// What the first entry says.
const BEGINNING: &str = "the log begins";

/// A log that is read from some time on.
pub(super) struct Log {
    store: Store,
    feed: FeedId,
    position: Position,
    /// Entries of the last page that were not taken.
    ready: VecDeque<Document>,
    /// What a transaction has done so far.
    open: Option<Open>,
    /// The version of the last entry, and how many entries it had.
    numbered: (FeedTime, u32),
    /// Whether the first entry of all is still to come, and what time it has if there is no other.
    begins: Option<Timestamp>,
    alarm: Option<FeedAlarm>,
    is_pending: bool,
    has_more: bool,
}

/// Operations of one transaction, which are one entry.
struct Open {
    note: Annotation,
    time: FeedTime,
    wall_ms: u64,
    operations: Vec<Operation>,
}

/// The feed of everything, which is turned on if it is not.
pub(super) async fn feed(store: &Store) -> Result<FeedId> {
    let scope = FeedScope::Api(API.to_owned());
    match store.feed_of(&scope).await? {
        Some(feed) => Ok(feed),
        None => Ok(store.follow(&scope, &FeedWish::default()).await?.feed),
    }
}

/// Whether the log has nothing up to a position.
async fn is_first(
    store: &Store,
    feed: FeedId,
    (floor, asked): (Position, Position),
) -> Result<bool> {
    let mut request = FeedRequest::after(floor);
    request.max_entries = 1;
    let page = store.read_feed(feed, &request).await?;
    let first = page.items.first().map(|first| first.position);
    Ok(first.unwrap_or(page.position) > asked)
}

impl Log {
    /// The log from this time on, or from its beginning. `since` is when the server began, which is
    /// what an empty log begins with.
    pub(super) async fn from(
        store: &Store,
        time: Option<Timestamp>,
        since: Timestamp,
    ) -> Result<Self> {
        let feed = feed(store).await?;
        let floor = store.feed_floor(feed).await?;
        let asked = match time {
            Some(time) => position_at(store, time).await?,
            None => Position::START,
        };
        let is_first = asked <= floor || is_first(store, feed, (floor, asked)).await?;
        Ok(Self {
            store: store.clone(),
            feed,
            position: asked.max(floor),
            ready: VecDeque::new(),
            open: None,
            numbered: (FeedTime::default(), 0),
            begins: is_first.then_some(since),
            alarm: None,
            is_pending: false,
            has_more: true,
        })
    }

    /// The next entry; none if there is no more for now.
    pub(super) async fn next(&mut self) -> Result<Option<Document>> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            if !self.has_more {
                // Looked for once each time that it is asked for.
                self.has_more = true;
                return Ok(None);
            }
            self.read().await?;
        }
    }

    /// Whether it is read from its first entry on.
    pub(super) fn has_beginning(&self) -> bool {
        self.begins.is_some()
    }

    /// Puts an entry back that had no room.
    pub(super) fn put_back(&mut self, entry: Document) {
        self.ready.push_front(entry);
    }

    async fn read(&mut self) -> Result<()> {
        // Made before reading, so that nothing that comes in between is missed.
        if self.alarm.is_none() {
            self.alarm = Some(self.store.feed_alarm(self.feed));
        }
        let mut request = FeedRequest::after(self.position);
        request.max_entries = PAGE;
        let page = self.store.read_feed(self.feed, &request).await?;
        let clock = match (page.items.first(), page.items.last()) {
            (Some(first), Some(last)) => {
                let (first, last) = (first.position.stamp, last.position.stamp);
                self.store.feed_clock(first, last).await?
            }
            _ => FeedClock::default(),
        };
        self.begin(page.items.first(), &clock);
        for item in &page.items {
            self.accept(item, &clock)?;
        }
        if !page.has_more {
            self.close();
        }
        self.position = page.position;
        self.is_pending = page.is_pending;
        self.has_more = page.has_more;
        Ok(())
    }

    /// Adds the entry that every log begins with.
    fn begin(&mut self, first: Option<&FeedItem>, clock: &FeedClock) {
        let Some(since) = self.begins.take() else {
            return;
        };
        let (time, wall_ms) = match first {
            Some(first) => {
                let time = clock.time_of(first.position.stamp);
                (timestamp(time, 0), first.change.wall_ms())
            }
            None => (since, u64::from(since.time) * 1_000),
        };
        let entry = entry::at(entry::nothing(BEGINNING), time, wall_ms);
        self.ready.push_back(entry);
    }

    fn accept(&mut self, item: &FeedItem, clock: &FeedClock) -> Result<()> {
        let time = clock.time_of(item.position.stamp);
        let wall_ms = item.change.wall_ms();
        let operations = entry::of(item)?;
        let note = match &item.change {
            Change::Item(record) => record.note.as_ref(),
            Change::Container(_) => None,
        };
        let note = note.filter(|note| note.transaction.is_some());
        let goes_on = self
            .open
            .as_ref()
            .is_some_and(|open| Some(&open.note) == note && open.time == time);
        if !goes_on {
            self.close();
        }
        match note {
            Some(note) => {
                let open = self.open.get_or_insert_with(|| Open {
                    note: note.clone(),
                    time,
                    wall_ms,
                    operations: Vec::new(),
                });
                open.operations.extend(operations);
            }
            None => {
                for operation in operations {
                    self.add(operation, time, wall_ms);
                }
            }
        }
        Ok(())
    }

    /// Ends the transaction whose operations were collected.
    fn close(&mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        if open.operations.is_empty() {
            return;
        }
        let mut together = entry::together(open.operations);
        if let Some((session, number)) = transaction_of(&open.note) {
            together.insert("lsid", session);
            together.insert("txnNumber", number);
        }
        self.add(together, open.time, open.wall_ms);
    }

    fn add(&mut self, operation: Operation, time: FeedTime, wall_ms: u64) {
        let (last, count) = self.numbered;
        let count = if last == time { count + 1 } else { 1 };
        self.numbered = (time, count);
        let entry = entry::at(operation, timestamp(time, count), wall_ms);
        self.ready.push_back(entry);
    }

    /// Waits until there may be more.
    pub(super) async fn wait(&mut self, until: Instant) {
        let is_pending = self.is_pending;
        match self.alarm.as_mut() {
            Some(alarm) => {
                alarm.wait(is_pending, until).await;
            }
            None => tokio::time::sleep_until(until).await,
        }
    }
}

/// The time of an entry: which one of the version that the feed's time names.
fn timestamp(time: FeedTime, number: u32) -> Timestamp {
    let number = number.min(ENTRIES - 1);
    Timestamp {
        time: u32::try_from(time.seconds).unwrap_or(u32::MAX),
        increment: time
            .increment
            .saturating_mul(ENTRIES)
            .saturating_add(number),
    }
}

/// Where to read from to see all entries of this time or later.
async fn position_at(store: &Store, time: Timestamp) -> Result<Position> {
    let time = FeedTime {
        seconds: u64::from(time.time),
        increment: time.increment / ENTRIES,
    };
    Ok(store.position_at(time).await?)
}

/// The times that a filter leaves: those from this one on.
pub(super) fn lower_bound(filter: &Document) -> Option<Timestamp> {
    let bound = |value: &Bson| match value {
        Bson::Timestamp(time) => Some(*time),
        Bson::Document(operators) => ["$gt", "$gte", "$eq"]
            .into_iter()
            .filter_map(|operator| operators.get_timestamp(operator).ok())
            .max_by_key(|time| (time.time, time.increment)),
        _ => None,
    };
    let own = filter.get("ts").and_then(bound);
    let parts = filter.get_array("$and").ok();
    let parts = parts.into_iter().flatten().filter_map(Bson::as_document);
    let bounds = parts.filter_map(lower_bound).chain(own);
    bounds.max_by_key(|time| (time.time, time.increment))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn times_grow_with_entries_and_versions() {
        let at = |seconds, increment, number| timestamp(FeedTime { seconds, increment }, number);
        let times = [
            at(5, 1, 0),
            at(5, 1, 1),
            at(5, 1, 4_000),
            at(5, 1, 9_000),
            at(5, 2, 0),
            at(6, 1, 0),
        ];
        let plain = times.map(|time| (time.time, time.increment));
        assert!(plain.is_sorted_by(|a, b| a < b), "{plain:?}");
    }

    #[test]
    fn filters_say_from_when_on() {
        let time = |increment| Timestamp { time: 9, increment };
        for (filter, expected) in [
            (doc! {}, None),
            (doc! { "ts": time(1) }, Some(time(1))),
            (doc! { "ts": { "$gte": time(2) } }, Some(time(2))),
            (
                doc! { "ts": { "$gt": time(2), "$lte": time(7) } },
                Some(time(2)),
            ),
            (doc! { "ts": { "$lte": time(7) } }, None),
            (doc! { "ts": { "$gte": 5 } }, None),
            (doc! { "$or": [{ "ts": time(1) }] }, None),
            (
                doc! { "$and": [{ "ts": { "$gt": time(3) } }, { "ts": { "$gt": time(2) } }] },
                Some(time(3)),
            ),
        ] {
            assert_eq!(lower_bound(&filter), expected, "{filter}");
        }
    }
}
