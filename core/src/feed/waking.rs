//! Waking those who wait at the end of a feed.
//!
//! Whoever waits holds nothing but a place here. A commit of this server wakes those whose feeds it
//! wrote to; other servers send a hint that names none, and all are woken; and hints may get lost,
//! so a wait on an engine that others share ends after a while by itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::definition::FeedId;
use super::position::Position;
use super::segments::SegmentTable;
use super::stamp::Stamp;

/// How long a wait goes on without a look where other servers write.
const SHARED_LOOK: Duration = Duration::from_millis(500);

/// That a feed is followed is noted once in this time.
const SEEN_MS: u64 = 60_000;

/// How long until the next look where something is there and not complete yet.
const UNSETTLED_LOOK: Duration = Duration::from_millis(20);

/// What the store keeps of its feeds in memory.
#[derive(Default)]
pub(crate) struct Feeds {
    waiting: Mutex<HashMap<FeedId, watch::Sender<()>>>,
    /// How many wait: nobody, for most stores at most times.
    count: AtomicUsize,
    tables: Mutex<HashMap<FeedId, Arc<SegmentTable>>>,
    past: Mutex<Option<(u64, Arc<[Stamp]>)>>,
    /// When it was noted last that a feed is followed.
    seen: Mutex<HashMap<FeedId, u64>>,
    consumers: Mutex<BTreeMap<u64, FeedConsumer>>,
    is_prepared: AtomicBool,
}

/// Somebody who follows a feed on this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedConsumer {
    /// Which feed.
    pub feed: FeedId,
    /// How it reads it, in the words of its front end.
    pub manner: &'static str,
    /// Since when: milliseconds since 1970.
    pub since_ms: u64,
    /// Up to where it has read; none if it has not begun.
    pub position: Option<Position>,
}

impl Feeds {
    /// Wakes those who wait for any of these.
    pub(crate) fn wake(&self, feeds: &[FeedId]) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let waiting = lock(&self.waiting);
        for feed in feeds {
            if let Some(sender) = waiting.get(feed) {
                sender.send_replace(());
            }
        }
    }

    /// Wakes all who wait.
    pub(crate) fn wake_all(&self) {
        for sender in lock(&self.waiting).values() {
            sender.send_replace(());
        }
    }

    fn subscribe(self: &Arc<Self>, feed: FeedId) -> Place {
        let mut waiting = lock(&self.waiting);
        let sender = waiting
            .entry(feed)
            .or_insert_with(|| watch::Sender::new(()));
        let receiver = Some(sender.subscribe());
        self.count.fetch_add(1, Ordering::AcqRel);
        Place {
            feeds: Arc::clone(self),
            feed,
            receiver,
        }
    }

    pub(crate) fn table(&self, feed: FeedId) -> Option<Arc<SegmentTable>> {
        lock(&self.tables).get(&feed).map(Arc::clone)
    }

    pub(crate) fn keep_table(&self, feed: FeedId, table: Arc<SegmentTable>) {
        lock(&self.tables).insert(feed, table);
    }

    pub(crate) fn forget_table(&self, feed: FeedId) {
        lock(&self.tables).remove(&feed);
        lock(&self.seen).remove(&feed);
    }

    /// Whether it is worth noting that a feed is followed.
    pub(crate) fn is_news(&self, feed: FeedId, now_ms: u64) -> bool {
        let mut seen = lock(&self.seen);
        let is_news = seen
            .get(&feed)
            .is_none_or(|last| last.abs_diff(now_ms) >= SEEN_MS);
        if is_news {
            seen.insert(feed, now_ms);
        }
        is_news
    }

    /// Those who follow feeds now, in the order in which they began.
    pub(crate) fn consumers(&self) -> Vec<FeedConsumer> {
        lock(&self.consumers).values().cloned().collect()
    }

    pub(crate) fn is_prepared(&self) -> bool {
        self.is_prepared.load(Ordering::Acquire)
    }

    pub(crate) fn set_prepared(&self) {
        self.is_prepared.store(true, Ordering::Release);
    }

    /// The ends of past epochs, as read in this one.
    pub(crate) fn past(&self, epoch: u64) -> Option<Arc<[Stamp]>> {
        let past = lock(&self.past);
        let known = past.as_ref().filter(|(known, _)| *known == epoch);
        known.map(|(_, past)| Arc::clone(past))
    }

    pub(crate) fn keep_past(&self, epoch: u64, past: Arc<[Stamp]>) {
        *lock(&self.past) = Some((epoch, past));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place among those who wait for a feed.
struct Place {
    feeds: Arc<Feeds>,
    feed: FeedId,
    receiver: Option<watch::Receiver<()>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.receiver = None;
        self.feeds.count.fetch_sub(1, Ordering::AcqRel);
        let mut waiting = lock(&self.feeds.waiting);
        let is_last = waiting
            .get(&self.feed)
            .is_some_and(|sender| sender.receiver_count() == 0);
        if is_last {
            waiting.remove(&self.feed);
        }
    }
}

impl Drop for FeedAlarm {
    fn drop(&mut self) {
        lock(&self.place.feeds.consumers).remove(&self.number);
    }
}

/// Hears that something was added to a feed. Made before the feed is read, so that nothing that
/// comes between reading and waiting is missed.
pub struct FeedAlarm {
    place: Place,
    is_shared: bool,
    /// Its number among those who follow feeds.
    number: u64,
}

impl FeedAlarm {
    pub(crate) fn new(feeds: &Arc<Feeds>, feed: FeedId, since_ms: u64, is_shared: bool) -> Self {
        let place = feeds.subscribe(feed);
        let mut consumers = lock(&feeds.consumers);
        let last = consumers.last_key_value().map_or(0, |(number, _)| *number);
        let consumer = FeedConsumer {
            feed,
            manner: "",
            since_ms,
            position: None,
        };
        consumers.insert(last + 1, consumer);
        Self {
            place,
            is_shared,
            number: last + 1,
        }
    }

    /// Tells monitors up to where this one has read, and how it reads.
    pub fn note(&self, manner: &'static str, position: Position) {
        if let Some(consumer) = lock(&self.place.feeds.consumers).get_mut(&self.number) {
            consumer.manner = manner;
            consumer.position = Some(position);
        }
    }

    /// Waits until something may have been added since the last wait, at most until `limit`.
    /// `is_pending` says that something was there already which was not complete. Answers whether
    /// it is worth a look.
    pub async fn wait(&mut self, is_pending: bool, limit: Instant) -> bool {
        let Some(receiver) = &mut self.place.receiver else {
            return true;
        };
        let look = match (is_pending, self.is_shared) {
            (true, _) => Some(UNSETTLED_LOOK),
            (false, true) => Some(SHARED_LOOK),
            (false, false) => None,
        };
        let look = look.map_or(limit, |look| limit.min(Instant::now() + look));
        let woken = tokio::time::timeout_at(look, receiver.changed()).await;
        woken.is_ok() || look < limit
    }
}
