//! Reads the rows that an index finds.

use std::ops::RangeInclusive;

use bytes::Bytes;
use tessera_core::continuation::Continuation;
use tessera_core::locator::Locator;
use tessera_core::reading::{IndexSpan, PageRequest};

use super::keys::RECORD_KEY;
use super::line::Line;
use super::reader::{Flow, Place, Reader, STEP, Sink, Slice};
use crate::error::Result;

/// What is looked up in an index.
pub(super) struct LookedUp<'a> {
    pub(super) span: &'a IndexSpan,
    /// Whether the index is of a column of the partition key.
    pub(super) is_of_key: bool,
    /// Where the partitions must lie that are wanted.
    pub(super) tokens: &'a RangeInclusive<i64>,
}

/// Notes whether there is any row.
struct Probe {
    has_rows: bool,
}

impl Sink for Probe {
    fn take(&mut self, place: &Place<'_>, _: &Line<'_>) -> Result<Flow> {
        self.has_rows = place.row != RECORD_KEY;
        Ok(Flow::Stop)
    }
}

/// Takes the rows that an index finds, and remembers where its pages begin.
pub(super) trait IndexSink: Send {
    fn begin_page(&mut self, start: Option<&Continuation>);
    fn rows(&mut self) -> &mut dyn Sink;
}

impl Reader<'_> {
    /// Reads the rows that an index has under one value. `start` is where a page of the index
    /// began; rows up to `after` were given before.
    pub(super) async fn indexed(
        &mut self,
        looked_up: &LookedUp<'_>,
        start: Option<Continuation>,
        after: Option<(&Bytes, &Bytes)>,
        sink: &mut dyn IndexSink,
    ) -> Result<()> {
        let after = after.map(|(partition, row)| Locator::murmur3(partition.clone(), row.clone()));
        let mut continuation = start;
        loop {
            sink.begin_page(continuation.as_ref());
            let request = PageRequest {
                max_items: self.most.clamp(1, STEP),
                continuation: continuation.take(),
                ..PageRequest::default()
            };
            let page = self
                .transaction
                .scan_index(&self.container, looked_up.span, &request)
                .await?;
            for hit in page.hits {
                if !looked_up.tokens.contains(&hit.locator.token) {
                    continue;
                }
                let is_record = hit.locator.row_key == RECORD_KEY;
                let is_static = is_record && !looked_up.is_of_key;
                let mut behind = None;
                if let Some(after) = &after {
                    let is_same = after.partition_key == hit.locator.partition_key;
                    if is_static && is_same {
                        behind = Some(&after.row_key);
                    } else if hit.locator <= *after {
                        continue;
                    }
                }
                let key = &hit.locator.partition_key;
                let token = hit.locator.token;
                // Rows are found by their own entries, and the partition only without any.
                if is_record && !is_static && self.has_rows(key).await? {
                    continue;
                }
                let flow = if is_record {
                    let slice = Slice::whole(key, behind);
                    self.partition(&slice, sink.rows()).await?
                } else {
                    let row = hit.locator.row_key.clone();
                    self.one_row(token, key, row, sink.rows()).await?
                };
                if flow == Flow::Stop {
                    return Ok(());
                }
            }
            match page.continuation {
                None => return Ok(()),
                next => continuation = next,
            }
        }
    }

    /// Whether a partition has any rows.
    async fn has_rows(&mut self, key: &Bytes) -> Result<bool> {
        let mut probe = Probe { has_rows: false };
        self.partition(&Slice::whole(key, None), &mut probe).await?;
        Ok(probe.has_rows)
    }
}
