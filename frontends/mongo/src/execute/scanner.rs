//! Reads what a plan's access names, page by page, and counts what it examines. A scanner holds no
//! snapshot: it keeps its position, and continues there in another transaction.

use std::collections::HashSet;
use std::ops::Bound;

use bson::Document;
use tessera_core::Transaction;
use tessera_core::container::Container;
use tessera_core::continuation::Continuation;
use tessera_core::engine::BoxFuture;
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::reading::{IndexHit, IndexSpan, PageRequest, Span};
use tessera_mongo_language::size::document_footprint;

use crate::collection::Collection;
use crate::failure::Result;
use crate::index::keys;
use crate::plan::bounds::ByteRange;
use crate::plan::{Access, IndexAccess};

/// The most bytes of one page.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) keys: u64,
    pub(crate) documents: u64,
}

/// What a scanner finds.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// A document as it is stored.
    Item(Item),
    /// The fields of a document that its index entry holds.
    Covered(Document),
}

impl Found {
    /// What it takes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        const EACH: usize = 256;
        EACH + match self {
            Self::Item(item) => item.body.len(),
            Self::Covered(document) => document_footprint(document),
        }
    }
}

/// Goes through the documents of an access.
#[derive(Clone)]
pub(crate) struct Scanner {
    access: Access,
    /// Which range or which part of a union is being read.
    part: usize,
    continuation: Option<Continuation>,
    inner: Option<Box<Self>>,
    seen: Option<HashSet<Locator>>,
    is_done: bool,
    pub(crate) counts: Counts,
}

impl Scanner {
    pub(crate) fn new(access: Access) -> Self {
        let seen = access.repeats().then(HashSet::new);
        let is_done = match &access {
            Access::Nothing => true,
            Access::Index(index) => index.ranges.is_empty(),
            Access::Rows(rows) => rows.ranges.is_empty(),
            Access::Union(parts) => parts.is_empty(),
            Access::Point(_) | Access::Scan(_) => false,
        };
        Self {
            access,
            part: 0,
            continuation: None,
            inner: None,
            seen,
            is_done,
            counts: Counts::default(),
        }
    }

    /// Whether there is nothing more to read.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Goes on behind the last document of a scan that reached its end, for those who wait for
    /// more.
    pub(crate) fn resume_after(&mut self, container: &Container, last: &Locator) {
        self.continuation = Some(Continuation::after(container, last));
        self.is_done = false;
    }

    /// The next documents: at most `max` are looked at, and none need be found.
    pub(crate) async fn page(
        &mut self,
        transaction: &mut Transaction,
        container: &Container,
        max: usize,
    ) -> Result<Vec<Found>> {
        match &self.access {
            Access::Nothing => {
                self.is_done = true;
                Ok(Vec::new())
            }
            Access::Point(point) => {
                self.is_done = true;
                self.counts.keys += 1;
                let item = transaction.read(container, &point.locator).await?;
                self.counts.documents += u64::from(item.is_some());
                Ok(item.map(Found::Item).into_iter().collect())
            }
            Access::Scan(scan) => {
                let (span, reverse) = (scan.span.clone(), scan.reverse);
                self.scan(transaction, container, &span, (reverse, max))
                    .await
            }
            Access::Rows(rows) => {
                let (count, reverse) = (rows.ranges.len(), rows.reverse);
                let range = nth(&rows.ranges, self.part, reverse);
                let span = range.map(row_span).unwrap_or(Span::All);
                self.is_done = false;
                let found = self
                    .scan(transaction, container, &span, (reverse, max))
                    .await?;
                self.counts.keys += found.len() as u64;
                self.advance(count);
                Ok(found)
            }
            Access::Index(index) => {
                let index = index.clone();
                self.index_page(transaction, container, &index, max).await
            }
            Access::Union(parts) => {
                let parts = parts.clone();
                self.union_page(transaction, container, &parts, max).await
            }
        }
    }

    /// Goes on to the next range if the one being read is at its end.
    fn advance(&mut self, parts: usize) {
        if self.continuation.is_none() {
            self.part += 1;
        }
        self.is_done = self.part >= parts;
    }

    async fn scan(
        &mut self,
        transaction: &mut Transaction,
        container: &Container,
        span: &Span,
        (reverse, max): (bool, usize),
    ) -> Result<Vec<Found>> {
        let request = self.request(reverse, max);
        let page = transaction.scan(container, span, &request).await?;
        self.continuation = page.continuation;
        self.is_done = self.continuation.is_none();
        self.counts.documents += page.items.len() as u64;
        Ok(page.items.into_iter().map(Found::Item).collect())
    }

    fn request(&mut self, reverse: bool, max: usize) -> PageRequest {
        PageRequest {
            reverse,
            max_items: max,
            max_bytes: MAX_PAGE_BYTES,
            continuation: self.continuation.take(),
        }
    }

    async fn index_page(
        &mut self,
        transaction: &mut Transaction,
        container: &Container,
        index: &IndexAccess,
        max: usize,
    ) -> Result<Vec<Found>> {
        let Some(range) = nth(&index.ranges, self.part, index.reverse) else {
            self.is_done = true;
            return Ok(Vec::new());
        };
        let span = IndexSpan {
            index: index.index,
            from: Bound::Included(range.from.clone()),
            to: range.to.clone().map_or(Bound::Unbounded, Bound::Excluded),
        };
        let request = self.request(index.reverse, max);
        let page = transaction.scan_index(container, &span, &request).await?;
        self.continuation = page.continuation;
        self.counts.keys += page.hits.len() as u64;
        self.advance(index.ranges.len());
        let mut hits = page.hits;
        if let Some(seen) = &mut self.seen {
            hits.retain(|hit| seen.insert(hit.locator.clone()));
        }
        self.fetch(transaction, container, index, hits).await
    }

    /// The documents of index entries, or what the entries hold of them.
    async fn fetch(
        &mut self,
        transaction: &mut Transaction,
        container: &Container,
        index: &IndexAccess,
        hits: Vec<IndexHit>,
    ) -> Result<Vec<Found>> {
        let held = |hit: &IndexHit| {
            let held = index
                .covered
                .then(|| keys::uncovered(&index.spec, &hit.covered));
            held.flatten()
        };
        let held: Vec<Option<Document>> = hits.iter().map(held).collect();
        let missing = hits.iter().zip(&held).filter(|(_, held)| held.is_none());
        let locators: Vec<Locator> = missing.map(|(hit, _)| hit.locator.clone()).collect();
        self.counts.documents += locators.len() as u64;
        let items = transaction.read_many(container, &locators).await?;
        let mut items = items.into_iter();
        let found = held.into_iter().filter_map(|held| match held {
            Some(document) => Some(Found::Covered(document)),
            None => items.next().flatten().map(Found::Item),
        });
        Ok(found.collect())
    }

    fn union_page<'a>(
        &'a mut self,
        transaction: &'a mut Transaction,
        container: &'a Container,
        parts: &'a [Access],
        max: usize,
    ) -> BoxFuture<'a, Result<Vec<Found>>> {
        Box::pin(async move {
            let Some(part) = parts.get(self.part) else {
                self.is_done = true;
                return Ok(Vec::new());
            };
            let inner = self
                .inner
                .get_or_insert_with(|| Box::new(Self::new(part.clone())));
            let mut found = inner.page(transaction, container, max).await?;
            let counts = std::mem::take(&mut inner.counts);
            let part_done = inner.is_done;
            self.counts.keys += counts.keys;
            self.counts.documents += counts.documents;
            if part_done {
                self.inner = None;
                self.part += 1;
                self.is_done = self.part >= parts.len();
            }
            if let Some(seen) = &mut self.seen {
                found.retain(|found| match found {
                    Found::Item(item) => seen.insert(item.locator.clone()),
                    Found::Covered(_) => true,
                });
            }
            Ok(found)
        })
    }
}

/// The n-th range in the direction of reading.
fn nth(ranges: &[ByteRange], part: usize, reverse: bool) -> Option<&ByteRange> {
    if reverse {
        ranges
            .len()
            .checked_sub(part + 1)
            .and_then(|position| ranges.get(position))
    } else {
        ranges.get(part)
    }
}

fn row_span(range: &ByteRange) -> Span {
    let from = Bound::Included(range.from.clone());
    let to = range.to.clone().map_or(Bound::Unbounded, Bound::Excluded);
    Collection::rows(from, to)
}
