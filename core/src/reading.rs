//! Reading items: by locator, by range of the container's order, by index.
//!
//! Each method counts what it examines; charges follow from that. Expired items are examined and
//! not returned, so a page may hold fewer items than were examined, even none, and still have a
//! continuation.

use std::ops::Bound;

use bytes::Bytes;

use crate::container::Container;
use crate::continuation::Continuation;
use crate::deadline::{ITEM_STEPS, examine, step};
use crate::definition::IndexState;
use crate::engine::{KeyRange, Page, Scan};
use crate::error::{Error, Result};
use crate::item::Item;
use crate::key::{self, IndexId, PartitionId};
use crate::locator::Locator;
use crate::ranges::{first_token, index_range, item_range, last_token_before, token_of};
use crate::throughput::Charge;
use crate::transaction::Transaction;
use crate::walk;

/// Which items a scan visits.
#[derive(Clone, Debug)]
pub enum Span {
    /// All of the container.
    All,
    /// All whose token lies from the first to the second, both included.
    Tokens(i64, i64),
    /// One logical partition with its header.
    Partition {
        /// Its token.
        token: i64,
        /// Its key.
        partition_key: Bytes,
    },
    /// The rows of one logical partition whose row keys lie within bounds.
    Rows {
        /// The partition's token.
        token: i64,
        /// The partition's key.
        partition_key: Bytes,
        /// First row key.
        from: Bound<Bytes>,
        /// Last row key.
        to: Bound<Bytes>,
    },
}

impl Span {
    /// Token and key of the logical partition that it stays within, if it does.
    fn logical_partition(&self) -> Option<(i64, &[u8])> {
        match self {
            Self::All | Self::Tokens(..) => None,
            Self::Partition {
                token,
                partition_key,
            }
            | Self::Rows {
                token,
                partition_key,
                ..
            } => Some((*token, partition_key)),
        }
    }
}

/// Bounds and direction of one page.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// From the end to the start.
    pub reverse: bool,
    /// At most this many items are examined.
    pub max_items: usize,
    /// Stop after the item that brings the page to this many bytes.
    pub max_bytes: usize,
    /// Where the page before ended.
    pub continuation: Option<Continuation>,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self {
            reverse: false,
            max_items: 100,
            max_bytes: 4 << 20,
            continuation: None,
        }
    }
}

/// One page of items.
#[derive(Clone, Debug)]
pub struct ItemPage {
    /// Visible items, in scan order.
    pub items: Vec<Item>,
    /// Where the next page begins; none at the end.
    pub continuation: Option<Continuation>,
}

/// Which entries of an index a scan visits: values within bounds.
#[derive(Clone, Debug)]
pub struct IndexSpan {
    /// Which index.
    pub index: IndexId,
    /// First value.
    pub from: Bound<Bytes>,
    /// Last value.
    pub to: Bound<Bytes>,
}

impl IndexSpan {
    /// All entries with one value.
    pub fn equal(index: IndexId, value: impl Into<Bytes>) -> Self {
        let value = value.into();
        Self {
            index,
            from: Bound::Included(value.clone()),
            to: Bound::Included(value),
        }
    }
}

/// One entry of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexHit {
    /// The indexed value.
    pub value: Bytes,
    /// The item that has it.
    pub locator: Locator,
    /// What the front end chose to keep in the entry.
    pub covered: Bytes,
}

/// One page of index entries.
#[derive(Clone, Debug)]
pub struct IndexPage {
    /// Entries in scan order. Their items may have expired: reading them tells.
    pub hits: Vec<IndexHit>,
    /// Where the next page begins; none at the end.
    pub continuation: Option<Continuation>,
}

/// The entry at a locator, read by a write that depends on it: one read gives both the visible item
/// and the stored one to replace, which may have expired.
#[derive(Clone, Debug)]
pub struct Entry {
    stored: Option<Item>,
    is_visible: bool,
}

impl Entry {
    /// The item, unless there is none or it has expired.
    pub fn visible(&self) -> Option<&Item> {
        self.stored.as_ref().filter(|_| self.is_visible)
    }

    pub(crate) fn stored(&self) -> Option<&Item> {
        self.stored.as_ref()
    }
}

impl Transaction {
    /// The entry at `locator`, for [`Transaction::put`]. It costs as much as [`Transaction::read`].
    pub async fn look(&mut self, container: &Container, locator: &Locator) -> Result<Entry> {
        self.admit(container, locator.token).await?;
        let stored = self.stored(container, locator).await?;
        let is_visible = stored
            .as_ref()
            .is_some_and(|item| !item.is_expired(self.now_ms));
        let entry = Entry { stored, is_visible };
        let bytes = entry.visible().map_or(0, Item::counted_bytes);
        self.count_point_read(container, locator, bytes);
        Ok(entry)
    }

    /// The item at `locator`, unless there is none or it has expired.
    pub async fn read(&mut self, container: &Container, locator: &Locator) -> Result<Option<Item>> {
        examine(1).await?;
        self.admit(container, locator.token).await?;
        let item = self.stored(container, locator).await?;
        Ok(self.count_read(container, locator, item))
    }

    /// The items at many locators, in their order. One round trip to the engine.
    pub async fn read_many(
        &mut self,
        container: &Container,
        locators: &[Locator],
    ) -> Result<Vec<Option<Item>>> {
        examine(locators.len()).await?;
        for locator in locators {
            self.admit(container, locator.token).await?;
        }
        let items = self.stored_many(container, locators).await?;
        let counted = locators.iter().zip(items);
        Ok(counted
            .map(|(locator, item)| self.count_read(container, locator, item))
            .collect())
    }

    /// The items of one logical partition that form one record of the front end, in their order:
    /// one round trip, and charged as one item of all their bytes.
    pub async fn read_together(
        &mut self,
        container: &Container,
        locators: &[Locator],
    ) -> Result<Vec<Option<Item>>> {
        let Some(first) = locators.first() else {
            return Ok(Vec::new());
        };
        examine(locators.len()).await?;
        self.admit(container, first.token).await?;
        let mut items = self.stored_many(container, locators).await?;
        for item in &mut items {
            item.take_if(|item| item.is_expired(self.now_ms));
        }
        let bytes = items.iter().flatten().map(Item::counted_bytes).sum();
        self.count_point_read(container, first, bytes);
        Ok(items)
    }

    async fn stored_many(
        &self,
        container: &Container,
        locators: &[Locator],
    ) -> Result<Vec<Option<Item>>> {
        let keys: Vec<Bytes> = locators
            .iter()
            .map(|locator| container.item_key(locator))
            .collect();
        let values = if self.writes.is_empty() {
            self.snapshot.multi_get(&keys).await?
        } else {
            let mut values = Vec::with_capacity(keys.len());
            for key in &keys {
                values.push(self.get(key).await?);
            }
            values
        };
        let stored = locators.iter().zip(values).map(|(locator, value)| {
            value
                .map(|value| decode(locator.clone(), value))
                .transpose()
        });
        stored.collect()
    }

    /// One page of items in the container's order.
    pub async fn scan(
        &mut self,
        container: &Container,
        span: &Span,
        page: &PageRequest,
    ) -> Result<ItemPage> {
        let range = item_range(container, span);
        if let Some(token) = first_token(&range, page) {
            self.admit(container, token).await?;
        }
        self.tick();
        let (scan, found) = self.scan_page(container, range, page).await?;
        let queried = self.count_partitions_visited(container, &scan, &found);
        let continuation = continuation(container, page.reverse, &found);
        let mut items = Vec::with_capacity(found.entries.len());
        let mut charged = queried;
        for (key, value) in found.entries {
            let item = walk::item(&key, value)?;
            let place = container.place(item.locator.token);
            let charge = self.bill.meter.examined(place, item.counted_bytes());
            self.heat(container, place.1, charge);
            charged += charge;
            if !item.is_expired(self.now_ms) {
                items.push(item);
            }
        }
        // The charge of a query within one logical partition is that partition's alone.
        if let Some((token, key)) = span.logical_partition() {
            self.warm_key(container, token, key, charged);
        }
        Ok(ItemPage {
            items,
            continuation,
        })
    }

    /// One page of index entries, ordered by value, then by locator. A query by index asks every
    /// partition of the container, and its first page is charged so.
    pub async fn scan_index(
        &mut self,
        container: &Container,
        span: &IndexSpan,
        page: &PageRequest,
    ) -> Result<IndexPage> {
        let index = container.definition.index_by_id(span.index);
        if index.is_none_or(|index| index.state != IndexState::Ready) {
            return Err(Error::NotFound(format!("a complete index {}", span.index)));
        }
        for partition in container.partitions.iter() {
            self.admit_to(container, partition).await?;
        }
        self.tick();
        let range = index_range(container, span);
        let (_, found) = self.scan_page(container, range, page).await?;
        if page.continuation.is_none() {
            for partition in container.partitions.iter() {
                self.count_queried(container, partition.id);
            }
        }
        let continuation = continuation(container, page.reverse, &found);
        let mut hits = Vec::with_capacity(found.entries.len());
        for (key, covered) in found.entries {
            let entry = key::parse_index_entry(&key);
            let (_, value, locator) = entry.ok_or_else(|| damaged("an index entry"))?;
            let place = container.place(locator.token);
            let charge = self.bill.meter.examined(place, value.len() + covered.len());
            self.heat(container, place.1, charge);
            hits.push(IndexHit {
                value,
                locator,
                covered,
            });
        }
        Ok(IndexPage { hits, continuation })
    }

    /// The item at `locator`, expired or not, uncounted.
    pub(crate) async fn stored(
        &self,
        container: &Container,
        locator: &Locator,
    ) -> Result<Option<Item>> {
        let value = self.get(&container.item_key(locator)).await?;
        value
            .map(|value| decode(locator.clone(), value))
            .transpose()
    }

    fn count_read(
        &mut self,
        container: &Container,
        locator: &Locator,
        item: Option<Item>,
    ) -> Option<Item> {
        let visible = item.filter(|item| !item.is_expired(self.now_ms));
        let bytes = visible.as_ref().map_or(0, Item::counted_bytes);
        self.count_point_read(container, locator, bytes);
        visible
    }

    fn count_point_read(&mut self, container: &Container, locator: &Locator, bytes: usize) {
        let place = container.place(locator.token);
        let charge = self.bill.meter.point_read(place, bytes);
        self.warm(container, place.1, locator, charge);
    }

    async fn scan_page(
        &self,
        container: &Container,
        range: KeyRange,
        page: &PageRequest,
    ) -> Result<(Scan, Page)> {
        let mut scan = Scan {
            range,
            reverse: page.reverse,
            max_rows: page.max_items.max(1),
            max_bytes: page.max_bytes,
            keys_only: false,
            in_passing: false,
        };
        if let Some(continuation) = &page.continuation {
            scan = resumed(container, &scan, continuation)?;
        }
        if scan.range.is_empty() {
            return Ok((scan, Page::default()));
        }
        examine(1).await?;
        let found = self.scan_keys(&scan).await?;
        step(found.entries.len().saturating_mul(ITEM_STEPS))?;
        Ok((scan, found))
    }

    /// Charges each physical partition between where a page of items began and where it ended.
    fn count_partitions_visited(
        &mut self,
        container: &Container,
        scan: &Scan,
        found: &Page,
    ) -> Charge {
        let range = &scan.range;
        let mut first = token_of(&range.start).unwrap_or(i64::MIN);
        let end = range.end.as_deref().and_then(last_token_before);
        let mut last = end.unwrap_or(i64::MAX);
        if let (true, Some((key, _))) = (found.more, found.entries.last()) {
            let reached = token_of(key).unwrap_or(last);
            *(if scan.reverse { &mut first } else { &mut last }) = reached;
        }
        let visited = container.partitions.overlapping(first, last);
        let queried = visited.map(|partition| self.count_queried(container, partition.id));
        queried.sum()
    }

    fn count_queried(&mut self, container: &Container, partition: PartitionId) -> Charge {
        let charge = self.bill.meter.queried((container.storage(), partition));
        self.heat(container, partition, charge);
        charge
    }
}

fn decode(locator: Locator, value: Bytes) -> Result<Item> {
    Item::decode_value(locator, value).ok_or_else(|| damaged("an item"))
}

fn damaged(what: &str) -> Error {
    Error::Corrupt(format!("{what} cannot be read"))
}

/// The scan from which a page goes on. A token comes from a client, so it may only name a place
/// within what the scan visits anyway.
fn resumed(container: &Container, scan: &Scan, continuation: &Continuation) -> Result<Scan> {
    let refused = if continuation.storage != container.storage() {
        "the container was replaced since"
    } else if continuation.reverse != scan.reverse {
        "it belongs to the other direction"
    } else if !scan.range.contains(&continuation.last_key) {
        "it belongs to another query"
    } else {
        return Ok(scan.after(&continuation.last_key));
    };
    Err(Error::InvalidContinuation(refused))
}

fn continuation(container: &Container, reverse: bool, found: &Page) -> Option<Continuation> {
    let (last_key, _) = found.entries.last().filter(|_| found.more)?;
    Some(Continuation {
        storage: container.storage(),
        reverse,
        last_key: last_key.clone(),
    })
}
