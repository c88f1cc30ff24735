//! Reads partitions and rows in order, and hands the rows that are there to whoever asked.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Container;
use tessera_core::continuation::Continuation;
use tessera_core::hash::murmur3;
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::transaction::Transaction;

use super::keys::{BEHIND_ROWS, RECORD_KEY, row_key};
use super::line::{Lens, Line, has_values};
use crate::error::{CqlError, ErrorKind, Result};
use crate::row::{Deletion, KeyRange, PartitionRecord, StoredRow};

/// Items that one step of a scan looks at, at most.
pub(super) const STEP: usize = 500;

/// What to do after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    /// No more rows of this partition.
    NextPartition,
    Stop,
}

/// Where a row is.
pub(super) struct Place<'p> {
    pub(super) partition: &'p Bytes,
    /// Its row key; that of the partition's record if the row is all that the partition has.
    pub(super) row: &'p Bytes,
}

/// Takes the rows that are found.
pub(super) trait Sink: Send {
    fn take(&mut self, place: &Place<'_>, line: &Line<'_>) -> Result<Flow>;
}

/// Reads one table in one transaction.
pub(super) struct Reader<'a> {
    pub(super) transaction: &'a mut Transaction,
    pub(super) container: Arc<Container>,
    pub(super) lens: Lens<'a>,
    /// Whether a partition without rows gives its static columns.
    pub(super) shows_statics: bool,
    /// How many rows are wanted at most, as far as that is known.
    pub(super) most: usize,
}

/// A partition that is being read.
#[derive(Default)]
struct Current {
    key: Bytes,
    record: PartitionRecord,
    /// Whether it has given rows already, or is known to have some.
    has_rows: bool,
    /// Whether no more of it is wanted.
    is_done: bool,
}

/// Rows of one partition.
pub(super) struct Slice<'s> {
    pub(super) key: &'s Bytes,
    /// Ranges of encoded clustering keys, in order.
    pub(super) ranges: &'s [KeyRange],
    /// Whether each range begins with the whole key of a row, and so is that row.
    pub(super) is_whole: bool,
    pub(super) is_reversed: bool,
    /// The row key behind which it goes on.
    pub(super) after: Option<&'s Bytes>,
}

impl<'s> Slice<'s> {
    /// All rows of a partition, behind this one if there is one.
    pub(super) fn whole(key: &'s Bytes, after: Option<&'s Bytes>) -> Self {
        const ALL: &[KeyRange] = &[KeyRange {
            start: Vec::new(),
            end: None,
        }];
        Self {
            key,
            ranges: ALL,
            is_whole: false,
            is_reversed: false,
            after,
        }
    }
}

impl Reader<'_> {
    /// Reads rows of one partition.
    pub(super) async fn partition(
        &mut self,
        slice: &Slice<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Flow> {
        let token = murmur3::token(slice.key);
        if slice.is_whole {
            return self.whole_keys(token, slice, sink).await;
        }
        let mut current = Current {
            key: slice.key.clone(),
            record: self.record(token, slice.key).await?,
            has_rows: slice.after.is_some(),
            is_done: false,
        };
        let mut ranges: Vec<&KeyRange> = slice.ranges.iter().collect();
        if slice.is_reversed {
            ranges.reverse();
        }
        for range in ranges {
            let Some(span) = span_of(token, slice, range) else {
                continue;
            };
            let flow = self
                .rows(&span, slice.is_reversed, &mut current, sink)
                .await?;
            match flow {
                Flow::More => {}
                Flow::NextPartition | Flow::Stop => return Ok(flow),
            }
        }
        self.finish(&current, sink)
    }

    /// Reads rows of which the whole keys are known.
    async fn whole_keys(
        &mut self,
        token: i64,
        slice: &Slice<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Flow> {
        let mut rows: Vec<Bytes> = slice
            .ranges
            .iter()
            .map(|range| row_key(&range.start))
            .collect();
        if slice.is_reversed {
            rows.reverse();
        }
        for row in rows {
            let is_given = slice
                .after
                .is_some_and(|after| row == *after || (row < *after) != slice.is_reversed);
            if is_given {
                continue;
            }
            match self.one_row(token, slice.key, row, sink).await? {
                Flow::More => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::More)
    }

    pub(super) async fn one_row(
        &mut self,
        token: i64,
        key: &Bytes,
        row: Bytes,
        sink: &mut dyn Sink,
    ) -> Result<Flow> {
        let locator = Locator::row(token, key.clone(), row);
        let (record, item) = if self.lens.table.clustering().next().is_none() {
            // The only row of a partition has nobody to share a record with.
            let item = self.transaction.read(&self.container, &locator).await?;
            (None, item)
        } else {
            let locators = [Locator::row(token, key.clone(), RECORD_KEY), locator];
            let items = self
                .transaction
                .read_together(&self.container, &locators)
                .await?;
            let mut items = items.into_iter();
            (items.next().flatten(), items.next().flatten())
        };
        let mut current = Current {
            key: key.clone(),
            record: record
                .as_ref()
                .map(record_of)
                .transpose()?
                .unwrap_or_default(),
            ..Current::default()
        };
        match item {
            None => self.finish(&current, sink),
            Some(item) => self.take(&item, &mut current, sink),
        }
    }

    async fn record(&mut self, token: i64, key: &Bytes) -> Result<PartitionRecord> {
        let locator = Locator::row(token, key.clone(), RECORD_KEY);
        let item = self.transaction.read(&self.container, &locator).await?;
        Ok(item
            .as_ref()
            .map(record_of)
            .transpose()?
            .unwrap_or_default())
    }

    async fn rows(
        &mut self,
        span: &Span,
        is_reversed: bool,
        current: &mut Current,
        sink: &mut dyn Sink,
    ) -> Result<Flow> {
        let mut continuation = None;
        loop {
            let request = PageRequest {
                reverse: is_reversed,
                max_items: self.most.clamp(1, STEP),
                continuation: continuation.take(),
                ..PageRequest::default()
            };
            let page = self
                .transaction
                .scan(&self.container, span, &request)
                .await?;
            for item in &page.items {
                match self.take(item, current, sink)? {
                    Flow::More => {}
                    flow => return Ok(flow),
                }
            }
            match page.continuation {
                None => return Ok(Flow::More),
                next => continuation = next,
            }
        }
    }

    /// Hands on a row, if it is there.
    fn take(&self, item: &Item, current: &mut Current, sink: &mut dyn Sink) -> Result<Flow> {
        let stored = StoredRow::decode(&item.body).ok_or_else(damaged)?;
        let row = &item.locator.row_key;
        let clustering = row.get(1..).unwrap_or_default();
        let deletion = current
            .record
            .deletion
            .max(current.record.ranges.deletion(clustering));
        let line = self
            .lens
            .row(&current.key, &stored, &current.record, deletion);
        let Some(line) = line else {
            return Ok(Flow::More);
        };
        current.has_rows = true;
        let place = Place {
            partition: &current.key,
            row,
        };
        sink.take(&place, &line)
    }

    /// Gives the static columns of a partition that turned out to have no rows.
    fn finish(&self, current: &Current, sink: &mut dyn Sink) -> Result<Flow> {
        let statics = &current.record.statics;
        let deletion = current.record.deletion;
        let is_wanted = self.shows_statics && !current.has_rows && !current.is_done;
        if !is_wanted || !has_values(self.lens.table, statics, deletion, self.lens.now) {
            return Ok(Flow::More);
        }
        let line = self.lens.statics(&current.key, &current.record);
        let place = Place {
            partition: &current.key,
            row: &Bytes::from_static(RECORD_KEY),
        };
        sink.take(&place, &line)
    }

    /// Reads all rows of all partitions whose tokens lie between these two, both included.
    pub(super) async fn tokens(
        &mut self,
        (first, last): (i64, i64),
        after: Option<(&Bytes, &Bytes)>,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let mut current = Current::default();
        let mut start = None;
        let mut first = first;
        if let Some((partition, row)) = after {
            let token = murmur3::token(partition);
            first = first.max(token);
            let is_whole = row == BEHIND_ROWS || row == RECORD_KEY;
            current = Current {
                key: partition.clone(),
                record: self.record(token, partition).await?,
                has_rows: true,
                is_done: is_whole,
            };
            let behind = if is_whole {
                Bytes::from_static(BEHIND_ROWS)
            } else {
                row.clone()
            };
            let locator = Locator::row(token, partition.clone(), behind);
            start = Some(Continuation::after(&self.container, &locator));
        }
        if first > last {
            return Ok(());
        }
        let span = Span::Tokens(first, last);
        loop {
            let request = PageRequest {
                max_items: self.most.clamp(2, STEP),
                continuation: start.take(),
                ..PageRequest::default()
            };
            let page = self
                .transaction
                .scan(&self.container, &span, &request)
                .await?;
            for item in &page.items {
                if self.next_item(item, &mut current, sink)? == Flow::Stop {
                    return Ok(());
                }
            }
            match page.continuation {
                None => break,
                Some(next) => {
                    let is_inside = page
                        .items
                        .last()
                        .is_some_and(|item| item.locator.partition_key == current.key);
                    start = Some(if current.is_done && is_inside {
                        let token = murmur3::token(&current.key);
                        let behind = Locator::row(token, current.key.clone(), BEHIND_ROWS);
                        Continuation::after(&self.container, &behind)
                    } else {
                        next
                    });
                }
            }
        }
        self.finish(&current, sink)?;
        Ok(())
    }

    fn next_item(&self, item: &Item, current: &mut Current, sink: &mut dyn Sink) -> Result<Flow> {
        let locator = &item.locator;
        if locator.partition_key != current.key {
            let flow = self.finish(current, sink)?;
            if flow == Flow::Stop {
                return Ok(flow);
            }
            *current = Current {
                key: locator.partition_key.clone(),
                ..Current::default()
            };
        }
        if locator.row_key == RECORD_KEY {
            current.record = record_of(item)?;
            return Ok(Flow::More);
        }
        if current.is_done {
            return Ok(Flow::More);
        }
        let flow = self.take(item, current, sink)?;
        current.is_done = flow == Flow::NextPartition;
        Ok(flow)
    }
}

pub(super) fn damaged() -> CqlError {
    CqlError::new(ErrorKind::Server, "A stored row is damaged")
}

pub(super) fn record_of(item: &Item) -> Result<PartitionRecord> {
    PartitionRecord::decode(&item.body).ok_or_else(damaged)
}

/// The items of a range of one partition that are still to be read; none if there are none.
fn span_of(token: i64, slice: &Slice<'_>, range: &KeyRange) -> Option<Span> {
    let mut from = Bound::Included(row_key(&range.start));
    let mut to = match &range.end {
        Some(end) => Bound::Excluded(row_key(end)),
        None => Bound::Excluded(Bytes::from_static(BEHIND_ROWS)),
    };
    if let Some(after) = slice.after {
        let clustering = after.get(1..).unwrap_or_default();
        let is_in = range.contains(clustering);
        let is_before = clustering < range.start.as_slice();
        match (is_in, slice.is_reversed) {
            (true, false) => from = Bound::Excluded(after.clone()),
            (true, true) => to = Bound::Excluded(after.clone()),
            // Before the range nothing of it was read in order; behind it, all.
            (false, false) if !is_before => return None,
            (false, true) if is_before => return None,
            (false, _) => {}
        }
    }
    Some(Span::Rows {
        token,
        partition_key: slice.key.clone(),
        from,
        to,
    })
}

/// What deletes the row with this encoded clustering key.
pub(super) fn deletion_of(record: &PartitionRecord, clustering: &[u8]) -> Deletion {
    record.deletion.max(record.ranges.deletion(clustering))
}
