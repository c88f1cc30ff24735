//! Reading a feed: bounded pages, each of a moment of its own. Nothing is held between them.
//!
//! A page merges the segments that overlap the tokens asked for, by stamp, up to where the engine
//! says that nothing is missing. What a segment could not give within its bounds ends the page for
//! all: nothing behind that is told before it.

use std::sync::Arc;

use super::control::{Control, decode_directory};
use super::definition::FeedId;
use super::position::Position;
use super::record::ChangeRecord;
use super::segments::{Segment, SegmentTable, Term};
use super::stamp::Stamp;
use super::{keys, registry, time};
use crate::engine::{Scan, Settled};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::throughput::Meter;
use crate::transaction::Transaction;

/// The least that is asked of one segment.
const LEAST_BYTES: usize = 64 << 10;

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct FeedRequest {
    /// Behind which position.
    pub after: Position,
    /// At most about so many entries.
    pub max_entries: usize,
    /// At most about so many bytes of them.
    pub max_bytes: usize,
    /// Only changes of items from one token to another, both included.
    pub tokens: (i64, i64),
}

impl FeedRequest {
    /// Everything behind a position, in pages of 1,000 entries or a MiB.
    pub fn after(after: Position) -> Self {
        Self {
            after,
            max_entries: 1_000,
            max_bytes: 1 << 20,
            tokens: (i64::MIN, i64::MAX),
        }
    }
}

/// One entry of a feed.
#[derive(Clone, Debug)]
pub struct FeedItem {
    /// Where it stands: whoever goes on behind it misses nothing and sees nothing twice.
    pub position: Position,
    /// The feed, where a scope was read.
    pub feed: FeedId,
    /// What the container was then; from then on, if it changed as a whole.
    pub term: Arc<Term>,
    /// What it was before it changed as a whole, if that is known.
    pub before: Option<Arc<Term>>,
    /// What happened.
    pub change: Change,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Change {
    /// An item changed.
    Item(Box<ChangeRecord>),
    /// The container changed.
    Container(Arc<Control>),
}

impl Change {
    /// When it happened, by the clock of the server that wrote it: milliseconds since 1970.
    pub fn wall_ms(&self) -> u64 {
        match self {
            Self::Item(record) => record.wall_ms,
            Self::Container(control) => control.wall_ms,
        }
    }
}

/// One page of a feed.
#[derive(Clone, Debug)]
pub struct FeedPage {
    /// What happened, in order.
    pub items: Vec<FeedItem>,
    /// Where to go on. Grows also if nothing happened.
    pub position: Position,
    /// Whether a bound ended the page, so that the next one is there at once.
    pub has_more: bool,
    /// Whether something was committed that is not complete yet.
    pub is_pending: bool,
    /// What it cost.
    pub meter: Meter,
}

fn history_lost(why: &'static str) -> Error {
    Error::HistoryLost(why)
}

/// Entries and up to where they are all there are.
#[derive(Default)]
struct Found {
    items: Vec<FeedItem>,
    /// Behind this, something was left out.
    cut: Option<Stamp>,
}

impl Store {
    /// One page of a feed, or of all feeds of a scope. [`Error::HistoryLost`] if what follows the
    /// position is not there any more.
    pub async fn read_feed(&self, feed: FeedId, request: &FeedRequest) -> Result<FeedPage> {
        let mut transaction = self.begin().await?;
        let settled = transaction.snapshot.settled().await?;
        let after = checked(&transaction, feed, request.after, settled).await?;
        let entry = registry::entry(&transaction, feed).await?;
        let entry = entry.ok_or_else(|| history_lost("this feed is not there any more"))?;
        let request = FeedRequest { after, ..*request };
        let mut found = Found::default();
        let mut through = settled.through;
        if entry.name.container.is_empty() {
            let touched = touched(&transaction, feed, &request, through).await?;
            through = touched.through;
            found.cut = touched.is_cut.then_some(through);
            for feed in touched.feeds() {
                read_one(&mut transaction, feed, &request, through, &mut found).await?;
            }
            found.items.retain(|item| touched.tells(item));
        } else {
            read_one(&mut transaction, feed, &request, through, &mut found).await?;
        }
        let is_pending = settled.through < settled.newest;
        let reached = reached(&transaction, through).await?;
        let bill = std::mem::take(&mut transaction.bill);
        drop(transaction);
        self.note_follower(feed).await?;
        Ok(found.into_page(&request, reached, is_pending, bill.settle()))
    }
}

impl Found {
    fn into_page(
        mut self,
        request: &FeedRequest,
        reached: Stamp,
        is_pending: bool,
        meter: Meter,
    ) -> FeedPage {
        let mut position = Position::at(reached).max(request.after);
        let mut has_more = false;
        if let Some(cut) = self.cut {
            self.items.retain(|item| item.position.stamp <= cut);
            position = Position::at(cut).max(request.after);
            has_more = true;
        }
        self.items.sort_by_key(|item| item.position);
        if self.items.len() > request.max_entries.max(1) {
            self.items.truncate(request.max_entries.max(1));
            has_more = true;
            position = self.items.last().map_or(position, |last| last.position);
        }
        // An event that stands behind the last entry of the cut has its stamp.
        let last = self.items.last().map(|last| last.position);
        FeedPage {
            position: last.map_or(position, |last| last.max(position)),
            items: self.items,
            has_more,
            is_pending,
            meter,
        }
    }

    fn cut_at(&mut self, stamp: Stamp) {
        self.cut = Some(self.cut.map_or(stamp, |cut| cut.min(stamp)));
    }
}

/// Up to where whoever has read everything to a stamp is told to have come.
///
/// A server that takes over for a lost one knows of its commits only by their entries. So where
/// that happens a position is that of an entry: of the last mark, if of nothing that was read.
async fn reached(transaction: &Transaction, through: Stamp) -> Result<Stamp> {
    if !transaction.store.engine().capabilities().shared {
        return Ok(through);
    }
    let mark = time::last_mark(transaction, through).await?;
    Ok(mark.map_or(Stamp::START, |mark| mark.stamp))
}

/// The position, if all that follows it is there.
async fn checked(
    transaction: &Transaction,
    feed: FeedId,
    position: Position,
    settled: Settled,
) -> Result<Position> {
    let floor = registry::floor(transaction, feed).await?;
    if position == Position::START {
        return Ok(Position::at(floor));
    }
    if position.stamp < floor {
        return Err(history_lost(
            "what follows the position is older than what feeds keep",
        ));
    }
    let epoch = settled.newest.epoch;
    if position.stamp.epoch == epoch {
        return match position.stamp <= settled.newest {
            true => Ok(position),
            false => Err(history_lost("the position is ahead of the data")),
        };
    }
    let store = &transaction.store;
    let past = match store.feeds().past(epoch) {
        Some(past) => past,
        None => {
            let past: Arc<[Stamp]> = store.engine().past_epochs().await?.into();
            store.feeds().keep_past(epoch, Arc::clone(&past));
            past
        }
    };
    let end = past.iter().find(|end| end.epoch == position.stamp.epoch);
    match end.is_some_and(|end| position.stamp <= *end) {
        true => Ok(position),
        false => Err(history_lost(
            "the position is of a history that was discarded",
        )),
    }
}

/// Which feeds of a scope have entries in which commits, and up to where that is known.
struct Touched {
    /// The ends of commits, and feeds: sorted. A container may have been elsewhere before or later.
    commits: Vec<(Stamp, FeedId)>,
    through: Stamp,
    is_cut: bool,
}

impl Touched {
    fn feeds(&self) -> Vec<FeedId> {
        let mut feeds: Vec<FeedId> = self.commits.iter().map(|(_, feed)| *feed).collect();
        feeds.sort_unstable();
        feeds.dedup();
        feeds
    }

    fn tells(&self, item: &FeedItem) -> bool {
        let stamps = [Some(item.position.stamp), item.position.displaced];
        let mut ends = stamps.into_iter().flatten().map(Stamp::end_of_commit);
        ends.any(|end| self.commits.binary_search(&(end, item.feed)).is_ok())
    }
}

async fn touched(
    transaction: &Transaction,
    scope: FeedId,
    request: &FeedRequest,
    through: Stamp,
) -> Result<Touched> {
    // The commit of the position itself may have more entries.
    let mut after = request.after.stamp;
    after.entry = 0;
    let mut scan = Scan::new(keys::between(&keys::directory(scope), after, through));
    scan.max_rows = request.max_entries.max(1);
    let page = transaction.scan_keys(&scan).await?;
    let damaged = || Error::Corrupt("a directory of the change feed".to_owned());
    let mut commits = Vec::new();
    let mut last = None;
    for (key, value) in &page.entries {
        let (_, _, stamp) = keys::parse(key).ok_or_else(damaged)?;
        let end = stamp.end_of_commit();
        last = Some(end);
        let feeds = decode_directory(value).ok_or_else(damaged)?;
        commits.extend(feeds.into_iter().map(|feed| (end, feed)));
    }
    commits.sort_unstable();
    let end = last.filter(|_| page.more).map(|last| last.min(through));
    Ok(Touched {
        commits,
        through: end.unwrap_or(through),
        is_cut: end.is_some(),
    })
}

/// Adds what one feed has behind the position.
async fn read_one(
    transaction: &mut Transaction,
    feed: FeedId,
    request: &FeedRequest,
    through: Stamp,
    found: &mut Found,
) -> Result<()> {
    let table = SegmentTable::read(transaction, feed, through).await?;
    admit(transaction, &table, request).await?;
    let (first, last) = request.tokens;
    let is_asked = |segment: &&Segment| {
        segment.first <= last && first <= segment.last && segment.goes_beyond(request.after.stamp)
    };
    let segments: Vec<&Segment> = table.segments.iter().filter(is_asked).collect();
    let bytes = (request.max_bytes / segments.len().max(1)).max(LEAST_BYTES);
    for segment in segments {
        let prefix = keys::of(feed, segment.id);
        let mut scan = Scan::new(keys::between(&prefix, request.after.stamp, through));
        (scan.max_rows, scan.max_bytes) = (request.max_entries.max(1), bytes);
        read_segment(transaction, (feed, segment), &scan, request.tokens, found).await?;
    }
    let events = table.events.iter();
    let due = events.filter(|it| it.position > request.after && it.position.stamp <= through);
    for placed in due {
        found.items.push(FeedItem {
            position: placed.position,
            feed,
            term: Arc::clone(&placed.term),
            before: placed.before.clone(),
            change: Change::Container(Arc::clone(&placed.control)),
        });
    }
    Ok(())
}

/// Asks the partitions that are read for throughput, if the container is still there.
async fn admit(
    transaction: &mut Transaction,
    table: &SegmentTable,
    request: &FeedRequest,
) -> Result<()> {
    let Some(term) = &table.term else {
        return Ok(());
    };
    let Ok(container) = transaction.container(&term.name).await else {
        return Ok(());
    };
    if container.has_throughput() {
        let (first, last) = request.tokens;
        for partition in container.partitions.overlapping(first, last) {
            transaction.admit_to(&container, partition).await?;
        }
    }
    Ok(())
}

async fn read_segment(
    transaction: &mut Transaction,
    (feed, segment): (FeedId, &Segment),
    scan: &Scan,
    (first, last): (i64, i64),
    found: &mut Found,
) -> Result<()> {
    let place = (segment.id.storage, segment.id.partition);
    let page = transaction.scan_keys(scan).await?;
    if page.entries.is_empty() {
        return Ok(());
    }
    transaction.bill.meter.queried(place);
    let mut end = None;
    for (key, value) in page.entries {
        let damaged = || Error::Corrupt("the key of a change".to_owned());
        let (_, _, stamp) = keys::parse(&key).ok_or_else(damaged)?;
        end = Some(stamp);
        transaction.bill.meter.examined(place, value.len());
        let record = ChangeRecord::decode(&value)?;
        if (first..=last).contains(&record.locator.token) {
            found.items.push(FeedItem {
                position: Position::at(stamp),
                feed,
                term: Arc::clone(&segment.term),
                before: None,
                change: Change::Item(Box::new(record)),
            });
        }
    }
    if let (true, Some(end)) = (page.more, end) {
        found.cut_at(end);
    }
    Ok(())
}
