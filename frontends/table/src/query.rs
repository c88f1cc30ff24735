//! Reading many entities: the pieces of the key space that a filter leaves, read in order until the
//! page is full.
//!
//! A page ends with the thousandth entity, with the bytes or the time that one answer may take, or
//! with the data. The next page begins after the last key that was examined, so pages are
//! consistent whatever is written between them.

use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tessera_core::Store;
use tessera_core::container::Container;
use tessera_core::continuation::Continuation;
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::memory_budget::{Grant, Purpose};
use tessera_core::name::ContainerName;
use tessera_core::reading::{IndexSpan, PageRequest, Span};
use tessera_core::throughput::Charge;
use tessera_core::transaction::Transaction;

use crate::error::{Code, Result};
use crate::filter::{Bounds, Expression, Piece, matches};
use crate::model::{KEY_ORDER_ID, locator};
use crate::stored_entity::StoredEntity;

/// The most entities in one page, where the service has a limit.
pub(crate) const MAX_ENTITIES: usize = 1_000;
/// The most bytes of stored entities in one page.
const MAX_BYTES: usize = 4 << 20;
/// The copies of entities in memory: as stored, in the answer, and while that grows.
const COPIES: usize = 3;
/// The memory of an entity beside its bytes.
const ITEM_BYTES: usize = 256;
/// Bytes of a page that are covered by the memory guaranteed to its connection.
const GUARANTEED: u32 = 64 << 10;
/// How long the search for one page may take.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Entities examined between two checks of the clock.
const STEP: usize = 1_000;

/// The query.
pub(crate) struct EntityQuery {
    pub(crate) container: ContainerName,
    pub(crate) filter: Option<Expression>,
    /// The pieces to read, in order, from the continuation on.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) max_entities: usize,
    /// Whether the whole table is read in the order of the hash, as Cosmos does.
    pub(crate) unsorted: bool,
    /// The continuation of an unsorted query.
    pub(crate) after: Option<Locator>,
}

/// One page of entities.
pub(crate) struct EntityPage {
    pub(crate) items: Vec<Item>,
    /// The last key examined, if there may be more behind it.
    pub(crate) continuation: Option<Locator>,
    pub(crate) charge: Charge,
    /// Their memory, and that of the answer.
    pub(crate) granted: Grant,
}

impl EntityQuery {
    /// Reads one page.
    pub(crate) async fn run(&self, store: &Store) -> Result<EntityPage> {
        let mut transaction = store.begin().await?;
        let container = transaction.container(&self.container).await?;
        if self.max_entities == 0 {
            return Ok(EntityPage {
                items: Vec::new(),
                continuation: None,
                charge: Charge::default(),
                granted: nothing_granted(),
            });
        }
        let mut search = Search {
            query: self,
            transaction,
            container,
            found: Vec::new(),
            bytes: 0,
            examined: 0,
            last: None,
            granted: nothing_granted(),
            is_short: false,
            deadline: Instant::now() + MAX_TIME,
        };
        let mut complete = true;
        let mut pieces = self.pieces.iter().peekable();
        while let Some(piece) = pieces.next() {
            let read = search.read_piece(piece).await;
            complete =
                read.map_err(|refusal| refusal.costing(search.transaction.meter().charge()))?;
            if !complete || (search.is_over() && pieces.peek().is_some()) {
                complete = false;
                break;
            }
        }
        Ok(EntityPage {
            charge: search.transaction.meter().charge(),
            continuation: search.last.filter(|_| !complete),
            items: search.found,
            granted: search.granted,
        })
    }
}

struct Search<'a> {
    query: &'a EntityQuery,
    transaction: Box<Transaction>,
    container: Arc<Container>,
    found: Vec<Item>,
    bytes: usize,
    /// Entities examined.
    examined: usize,
    /// The last key examined.
    last: Option<Locator>,
    granted: Grant,
    /// Whether there is no memory for more.
    is_short: bool,
    deadline: Instant,
}

impl Search<'_> {
    /// Reads one piece; returns whether it was read to its end.
    async fn read_piece(&mut self, piece: &Piece) -> Result<bool> {
        match piece {
            Piece::Point {
                partition_key,
                row_key,
            } => {
                let locator = locator(partition_key, row_key);
                let item = self.transaction.read(&self.container, &locator).await?;
                self.last = Some(locator);
                self.take(item)?;
                Ok(true)
            }
            Piece::Rows {
                partition_key,
                rows,
            } => {
                let Locator {
                    token,
                    partition_key,
                    ..
                } = locator(partition_key, "");
                let span = Span::Rows {
                    token,
                    partition_key,
                    from: bytes_bound(&rows.from),
                    to: bytes_bound(&rows.to),
                };
                self.scan(&span, None).await
            }
            Piece::Partitions(_) if self.query.unsorted => {
                let after = self.query.after.as_ref();
                let start = after.map(|after| Continuation::after(&self.container, after));
                self.scan(&Span::All, start).await
            }
            Piece::Partitions(partitions) => self.scan_in_key_order(partitions).await,
        }
    }

    async fn scan(&mut self, span: &Span, start: Option<Continuation>) -> Result<bool> {
        let mut continuation = start;
        loop {
            let request = self.next_request(continuation.take());
            let scan = self.transaction.scan(&self.container, span, &request);
            let page = scan.await?;
            for item in page.items {
                if self.has_enough() {
                    return Ok(false);
                }
                self.last = Some(item.locator.clone());
                self.take(Some(item))?;
            }
            match page.continuation {
                None => return Ok(true),
                Some(_) if self.is_over() => return Ok(false),
                next => continuation = next,
            }
        }
    }

    async fn scan_in_key_order(&mut self, partitions: &Bounds) -> Result<bool> {
        let span = IndexSpan {
            index: KEY_ORDER_ID,
            from: bytes_bound(&partitions.from),
            to: bytes_bound(&partitions.to),
        };
        let mut continuation = None;
        loop {
            let request = self.next_request(continuation.take());
            let scan = self
                .transaction
                .scan_index(&self.container, &span, &request);
            let page = scan.await?;
            let locators: Vec<Locator> = page.hits.into_iter().map(|hit| hit.locator).collect();
            let items = self
                .transaction
                .read_many(&self.container, &locators)
                .await?;
            for (locator, item) in locators.into_iter().zip(items) {
                if self.has_enough() {
                    return Ok(false);
                }
                self.last = Some(locator);
                self.take(item)?;
            }
            match page.continuation {
                None => return Ok(true),
                Some(_) if self.is_over() => return Ok(false),
                next => continuation = next,
            }
        }
    }

    fn next_request(&self, continuation: Option<Continuation>) -> PageRequest {
        let missing = self.query.max_entities.saturating_sub(self.found.len());
        PageRequest {
            reverse: false,
            // As many as are missing, or as many as were examined so far.
            max_items: missing.max(self.examined).clamp(1, STEP),
            max_bytes: MAX_BYTES.saturating_sub(self.bytes).max(1),
            continuation,
        }
    }

    fn take(&mut self, item: Option<Item>) -> Result<()> {
        let Some(mut item) = item else {
            return Ok(());
        };
        self.examined += 1;
        let entity = StoredEntity::of(&item).ok_or(Code::InternalError)?;
        if self
            .query
            .filter
            .as_ref()
            .is_none_or(|filter| matches(filter, &entity))
        {
            if self.query.filter.is_some() {
                // Otherwise one entity would keep the whole page that was read with it.
                item.body = Bytes::copy_from_slice(&item.body);
            }
            self.bytes += item.counted_bytes();
            let bytes = COPIES * (self.bytes + ITEM_BYTES * self.found.len());
            match self.granted.cover(self.transaction.memory(), bytes) {
                Ok(()) => {}
                Err(_) if !self.found.is_empty() => self.is_short = true,
                Err(refused) => return Err(tessera_core::Error::from(refused).into()),
            }
            self.found.push(item);
        }
        Ok(())
    }

    /// Whether the page is full.
    fn has_enough(&self) -> bool {
        self.is_short || self.found.len() >= self.query.max_entities || self.bytes >= MAX_BYTES
    }

    /// Whether the page ends here, full or not.
    fn is_over(&self) -> bool {
        self.has_enough() || Instant::now() >= self.deadline
    }
}

fn nothing_granted() -> Grant {
    Grant::new(Purpose::Replies, GUARANTEED)
}

fn bytes_bound(bound: &Bound<String>) -> Bound<Bytes> {
    bound
        .as_ref()
        .map(|text| Bytes::copy_from_slice(text.as_bytes()))
}
