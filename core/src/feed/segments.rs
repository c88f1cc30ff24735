//! The segments of a feed, as its controls tell: which tokens each has, and when it began and
//! ended.

use std::sync::Arc;

use bytes::Bytes;

use super::control::{Control, SegmentId};
use super::definition::FeedId;
use super::keys;
use super::position::Position;
use super::stamp::Stamp;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::name::ContainerName;
use crate::transaction::Transaction;

/// What a container was during some segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its name.
    pub name: ContainerName,
    /// The front end's schema.
    pub schema: Bytes,
    /// Indexes of the schema that were still being built.
    pub building: Vec<String>,
}

/// One segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) term: Arc<Term>,
    /// The stamp of the control that closed it, and its last entry.
    pub(crate) closed: Option<(Stamp, Stamp)>,
}

impl Segment {
    /// Whether there may be entries behind a stamp.
    pub(crate) fn goes_beyond(&self, stamp: Stamp) -> bool {
        self.closed.is_none_or(|(_, end)| end > stamp)
    }
}

/// A control with its place in the feed.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) position: Position,
    pub(crate) control: Arc<Control>,
    /// What the container was before, and from then on.
    pub(crate) before: Option<Arc<Term>>,
    pub(crate) term: Arc<Term>,
}

/// The segments and events of a feed up to some stamp.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentTable {
    /// Up to where the controls are in here, for good.
    through: Stamp,
    pub(crate) segments: Vec<Segment>,
    /// The controls with their place in the feed, which may be behind their own stamp: a segment is
    /// closed behind its last entry.
    pub(crate) events: Vec<Placed>,
    /// How the container is now, or was last.
    pub(crate) term: Option<Arc<Term>>,
}

impl SegmentTable {
    /// The table of a feed as a transaction sees it. What is certain is kept for the next time.
    pub(crate) async fn read(
        transaction: &Transaction,
        feed: FeedId,
        settled: Stamp,
    ) -> Result<Arc<Self>> {
        let feeds = transaction.store.feeds();
        let known = feeds.table(feed).unwrap_or_default();
        let controls = controls(transaction, feed, known.through).await?;
        if controls.is_empty() {
            return Ok(known);
        }
        let mut table = Self::clone(&known);
        let certain = controls
            .iter()
            .filter(|(stamp, _)| *stamp <= settled)
            .count();
        let mut controls = controls.into_iter();
        for (stamp, control) in controls.by_ref().take(certain) {
            table.apply(transaction, feed, stamp, control).await?;
            table.through = stamp;
        }
        if certain > 0 {
            feeds.keep_table(feed, Arc::new(table.clone()));
        }
        for (stamp, control) in controls {
            table.apply(transaction, feed, stamp, control).await?;
        }
        Ok(Arc::new(table))
    }

    async fn apply(
        &mut self,
        transaction: &Transaction,
        feed: FeedId,
        stamp: Stamp,
        control: Control,
    ) -> Result<()> {
        let mut place = Position::at(stamp);
        for segment in &mut self.segments {
            if segment.closed.is_none() && control.closes.contains(&segment.id) {
                // All its entries are visible with the commit that closes it, also those with
                // larger stamps: so its last one is its end.
                let last = last_entry(transaction, feed, segment.id).await?;
                let end = last.unwrap_or(Stamp::START);
                segment.closed = Some((stamp, end));
                if end > place.stamp {
                    place.stamp = end;
                    place.displaced = Some(stamp);
                }
            }
        }
        let term = Arc::new(Term {
            name: control.name.clone(),
            schema: Bytes::copy_from_slice(&control.schema),
            building: control.building.clone(),
        });
        let before = self.term.take();
        let is_same = before.as_ref().is_some_and(|known| *known == term);
        let term = match before.clone().filter(|_| is_same) {
            Some(known) => known,
            None => term,
        };
        self.segments
            .extend(control.opens.iter().map(|opening| Segment {
                id: opening.segment,
                first: opening.first,
                last: opening.last,
                term: Arc::clone(&term),
                closed: None,
            }));
        self.term = Some(Arc::clone(&term));
        self.events.push(Placed {
            position: place,
            control: Arc::new(control),
            before,
            term,
        });
        Ok(())
    }
}

/// The controls behind a stamp, oldest first.
async fn controls(
    transaction: &Transaction,
    feed: FeedId,
    after: Stamp,
) -> Result<Vec<(Stamp, Control)>> {
    let all = Stamp::end_of(u64::MAX, u64::MAX);
    let mut scan = Scan::new(keys::between(&keys::control(feed), after, all));
    let mut found = Vec::new();
    loop {
        let page = transaction.scan_keys(&scan).await?;
        for (key, value) in &page.entries {
            let damaged = || Error::Corrupt("the key of a control".to_owned());
            let (_, _, stamp) = keys::parse(key).ok_or_else(damaged)?;
            found.push((stamp, Control::decode(value)?));
        }
        match page.entries.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => return Ok(found),
        }
    }
}

async fn last_entry(
    transaction: &Transaction,
    feed: FeedId,
    segment: SegmentId,
) -> Result<Option<Stamp>> {
    let all = Stamp::end_of(u64::MAX, u64::MAX);
    let range = keys::between(&keys::of(feed, segment), Stamp::START, all);
    let mut scan = Scan::new(range);
    (scan.reverse, scan.keys_only, scan.max_rows) = (true, true, 1);
    let page = transaction.scan_keys(&scan).await?;
    let last = page.entries.first().and_then(|(key, _)| keys::parse(key));
    Ok(last.map(|(_, _, stamp)| stamp))
}
