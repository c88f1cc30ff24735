//! Execution: reads what a plan names, applies the filter, the sort and the projection.

pub(crate) mod computed;
pub(crate) mod partial;
pub(crate) mod query;
pub(crate) mod scanner;
pub(crate) mod tailing;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use bson::Document;
use bytes::Bytes;
use tessera_core::Transaction;
use tessera_core::container::Container;
use tessera_core::deadline::{self, Interruption};
use tessera_core::engine::BoxFuture;
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::memory_budget::{Grant, Purpose};
use tessera_mongo_language::error::{Code, Error};
use tessera_mongo_language::size::document_footprint;
use tessera_mongo_language::sort::SortKey;
use tokio::time::Instant;

use crate::batch::{Batch, encode};
use crate::collection::Namespace;
use crate::cursor::Rows;
use crate::data::Data;
use crate::execute::partial::Looked;
use crate::execute::query::Query;
use crate::execute::scanner::{Counts, Found, Scanner};
use crate::execute::tailing::Tailing;
use crate::failure::Result;
use crate::index::keys;
use crate::plan::{Access, Plan};

/// The most documents looked at in one step.
const MAX_PAGE: usize = 1_000;
/// Steps of looking at a document, whatever the filter does with it.
const ROW_STEPS: usize = 4;
/// How many bytes of a stored document are read in a step.
const BYTES_IN_STEP: usize = 64;
/// The most bytes that a query may sort without `allowDiskUse`.
const SORT_BYTES: usize = 100 * 1024 * 1024;
/// The most bytes that a query may sort with `allowDiskUse`; in memory too, nothing is spilled.
const SORT_BYTES_WITH_DISK: usize = 1024 * 1024 * 1024;

/// What a row takes beside its document: its place, its key, and what it sorts by.
const ROW_BYTES: usize = 512;
/// So much of what a query keeps needs no grant.
const GUARANTEED: u32 = 4 << 10;

/// One answer, before its projection.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What is stored; none if the answer was made from an index entry.
    pub(crate) item: Option<Item>,
    /// The document, if it was made from an index entry.
    pub(crate) document: Option<Document>,
    /// Where in an array the filter matched.
    pub(crate) position: Option<usize>,
}

impl Row {
    /// The document itself.
    pub(crate) fn into_document(self) -> Result<Document> {
        match (self.document, self.item) {
            (Some(document), _) => Ok(document),
            (None, Some(item)) => decode(&item.body),
            (None, None) => Ok(Document::new()),
        }
    }

    fn bytes(&self) -> usize {
        self.item.as_ref().map_or(64, |item| item.body.len())
    }

    /// What it takes in memory.
    pub(crate) fn footprint(&self) -> usize {
        let item = self.item.as_ref().map_or(0, |item| item.body.len());
        ROW_BYTES + item + self.document.as_ref().map_or(0, document_footprint)
    }

    /// The same in memory of its own, and not in that of the page that it was read with.
    fn apart(mut self) -> Self {
        if let Some(item) = &mut self.item {
            item.body = Bytes::copy_from_slice(&item.body);
        }
        self
    }
}

/// What rows take. A copy of rows shares their bytes and takes nothing.
#[derive(Debug)]
struct Taken(Grant);

impl Taken {
    fn nothing() -> Self {
        Self(Grant::new(Purpose::Cursors, GUARANTEED))
    }
}

impl Clone for Taken {
    fn clone(&self) -> Self {
        Self::nothing()
    }
}

/// A query that is being answered.
#[derive(Clone)]
pub(crate) struct Execution {
    pub(crate) query: Arc<Query>,
    plan: Plan,
    scanner: Scanner,
    /// Answers that were found and not given yet.
    ready: VecDeque<Row>,
    /// Whether all answers are in `ready`.
    is_complete: bool,
    to_skip: u64,
    left: Option<u64>,
    page: usize,
    last: Option<Locator>,
    /// What `ready` takes.
    kept: Taken,
}

impl Execution {
    pub(crate) fn new(query: Arc<Query>, plan: Plan) -> Self {
        plan.access.count();
        Self {
            scanner: Scanner::new(plan.access.clone()),
            to_skip: query.skip,
            left: query.limit,
            plan,
            query,
            ready: VecDeque::new(),
            is_complete: false,
            page: 0,
            last: None,
            kept: Taken::nothing(),
        }
    }

    /// What was looked at so far.
    pub(crate) fn counts(&self) -> Counts {
        self.scanner.counts
    }

    /// The next answer.
    pub(crate) async fn next(
        &mut self,
        transaction: &mut Transaction,
        container: &Container,
        wanted: usize,
    ) -> Result<Option<Row>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        loop {
            while let Some(row) = self.ready.pop_front() {
                if self.to_skip > 0 {
                    self.to_skip -= 1;
                    continue;
                }
                if let Some(left) = &mut self.left {
                    *left -= 1;
                }
                return Ok(Some(row));
            }
            if self.is_complete {
                return Ok(None);
            }
            if self.plan.is_sorted || self.query.sort.is_none() {
                self.read_page(transaction, container, wanted).await?;
            } else {
                self.sort_all(transaction, container).await?;
            }
        }
    }

    /// Whether the next answer is at hand already.
    fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether all answers that were asked for are given.
    pub(crate) fn is_limited(&self) -> bool {
        self.left == Some(0)
    }

    /// Whether no answers can come any more.
    pub(crate) fn is_done(&self) -> bool {
        self.left == Some(0) || (self.is_complete && self.ready.is_empty())
    }

    /// Lets a query that reached the end of its collection go on with what comes in later.
    pub(crate) fn reopen(&mut self, container: &Container) {
        if let Some(last) = self.last.clone().filter(|_| self.is_complete) {
            self.scanner.resume_after(container, &last);
            self.is_complete = false;
        }
    }

    /// The last document looked at.
    pub(crate) fn last(&self) -> Option<&Locator> {
        self.last.as_ref()
    }

    async fn read_page(
        &mut self,
        transaction: &mut Transaction,
        container: &Container,
        wanted: usize,
    ) -> Result<()> {
        let still = self.left.map_or(wanted, |left| wanted.min(clamp(left)));
        let still = still.saturating_add(clamp(self.to_skip));
        // Pages grow while a filter lets little through.
        self.page = self.page.saturating_mul(2).max(still).clamp(1, MAX_PAGE);
        let found = self.scanner.page(transaction, container, self.page).await?;
        // What is kept of a page keeps all of it.
        let bytes = found.iter().map(Found::bytes).sum();
        self.kept.0.shrink(0);
        let covered = self.kept.0.cover(transaction.memory(), bytes);
        covered.map_err(Interruption::Memory)?;
        for found in found {
            if let Found::Item(item) = &found {
                self.last = Some(item.locator.clone());
            }
            if let Some(row) = examine(&self.query, found)? {
                self.ready.push_back(row);
            }
            // Reading from memory never waits: others who run here get their turn.
            deadline::pause().await;
        }
        self.is_complete = self.scanner.is_done();
        Ok(())
    }

    /// Reads everything and puts it in order; of a query with a limit only so many are kept.
    async fn sort_all(
        &mut self,
        transaction: &mut Transaction,
        container: &Container,
    ) -> Result<()> {
        let query = Arc::clone(&self.query);
        let Some(pattern) = &query.sort else {
            return Ok(());
        };
        let looked_at = Looked::by_sort(pattern);
        let kept = query
            .limit
            .map(|limit| clamp(limit.saturating_add(query.skip)));
        let mut rows: Vec<(SortKey, Row)> = Vec::new();
        let mut bytes = 0usize;
        let mut granted = Grant::new(Purpose::Sorts, GUARANTEED);
        while !self.scanner.is_done() {
            for found in self.scanner.page(transaction, container, MAX_PAGE).await? {
                let Some(row) = examine(&query, found)? else {
                    continue;
                };
                let document = match (&row.document, &row.item) {
                    (Some(document), _) => Cow::Borrowed(document),
                    (None, Some(item)) => Cow::Owned(looked_at.of(&item.body)?),
                    (None, None) => continue,
                };
                let key = pattern.key(&document)?;
                bytes += row.footprint();
                rows.push((key, row.apart()));
                deadline::pause().await;
            }
            if kept.is_some_and(|kept| rows.len() >= kept.saturating_mul(2).max(MAX_PAGE)) {
                deadline::sort_by(&mut rows, |a, b| pattern.compare_keys(&a.0, &b.0))?;
                rows.truncate(kept.unwrap_or(usize::MAX));
                bytes = rows.iter().map(|(_, row)| row.footprint()).sum();
            }
            check_sort_bytes(&query, bytes)?;
            let covered = granted.cover(transaction.memory(), bytes);
            covered.map_err(|refused| sort_exceeds(&refused.to_string()))?;
        }
        deadline::sort_by(&mut rows, |a, b| pattern.compare_keys(&a.0, &b.0))?;
        self.ready = rows.into_iter().map(|(_, row)| row).collect();
        self.kept = Taken(granted);
        self.is_complete = true;
        Ok(())
    }

    /// Whether answers are given as they are stored.
    fn is_plain(&self) -> bool {
        let query = &self.query;
        query.projection.is_none() && !query.show_record_id && !query.return_key
    }

    /// Makes room for this answer and those that were found with it, if it is known how long they
    /// will be.
    fn announce(&self, next: &Row, batch: &mut Batch, most: usize) {
        if self.is_plain() {
            let ready = self.ready.iter().take(most.saturating_sub(1));
            let documents = 1 + ready.len();
            batch.expect(
                documents,
                next.bytes() + ready.map(Row::bytes).sum::<usize>(),
            );
        }
    }

    /// The bytes of an answer in the form that was asked for.
    pub(crate) fn finish(&self, row: Row) -> Result<Bytes> {
        match row.item {
            Some(item) if self.is_plain() => Ok(item.body),
            _ => Ok(encode(&self.finish_document(row)?)?.into()),
        }
    }

    /// An answer in the form that was asked for.
    pub(crate) fn finish_document(&self, row: Row) -> Result<Document> {
        let query = &self.query;
        let record = row.item.as_ref().map(|item| item.version);
        let position = row.position;
        let mut document = row.into_document()?;
        let wants_key = query.return_key || !query.index_key_fields.is_empty();
        let key = wants_key.then(|| self.key_of(&document));
        if let Some(key) = key.clone().filter(|_| query.return_key) {
            document = key;
        } else if let Some(projection) = &query.projection {
            document = projection.apply(document, position)?;
        }
        if let Some(key) = key.filter(|key| !key.is_empty()) {
            for field in &query.index_key_fields {
                document.insert(field.clone(), key.clone());
            }
        }
        if let Some(record) = record.filter(|_| query.show_record_id) {
            document.insert("$recordId", i64::try_from(record).unwrap_or(i64::MAX));
        }
        Ok(document)
    }

    /// The fields of the index that was used.
    fn key_of(&self, document: &Document) -> Document {
        let spec = match &self.plan.access {
            Access::Index(index) => &index.spec,
            Access::Rows(rows) => &rows.spec,
            Access::Point(_) => {
                let id = document.get("_id").cloned();
                return id.map(|id| ("_id".to_owned(), id)).into_iter().collect();
            }
            Access::Nothing | Access::Scan(_) | Access::Union(_) => return Document::new(),
        };
        keys::first_key(spec, document).unwrap_or_default()
    }
}

/// Whether a document matches, and what is known of it then.
fn examine(query: &Query, found: Found) -> Result<Option<Row>> {
    deadline::step(ROW_STEPS)?;
    let (item, document) = match found {
        Found::Covered(document) => (None, Some(document)),
        Found::Item(item) => (Some(item), None),
    };
    if query.matches_all() {
        return Ok(Some(Row {
            item,
            document,
            position: None,
        }));
    }
    // What is read of a stored document for the filter is not all of it.
    let looked_at = match (&document, &item) {
        (Some(document), _) => Cow::Borrowed(document),
        (None, Some(item)) => Cow::Owned(query.filter_looks_at.of(&item.body)?),
        (None, None) => return Ok(None),
    };
    let position = if query.needs_position {
        match query.filter.matches_with_position(&looked_at)? {
            None => return Ok(None),
            Some(position) => position,
        }
    } else if query.filter.matches(&looked_at)? {
        None
    } else {
        return Ok(None);
    };
    Ok(Some(Row {
        item,
        document,
        position,
    }))
}

/// A stored document.
pub(crate) fn decode(body: &[u8]) -> Result<Document> {
    deadline::step(body.len() / BYTES_IN_STEP)?;
    Ok(Document::from_reader(body).map_err(|_| damaged())?)
}

/// The error for a stored document that cannot be read.
pub(crate) fn damaged() -> Error {
    Error::new(Code::INTERNAL_ERROR, "a stored document is damaged")
}

fn check_sort_bytes(query: &Query, bytes: usize) -> Result<()> {
    let most = if query.allow_disk_use {
        SORT_BYTES_WITH_DISK
    } else {
        SORT_BYTES
    };
    if bytes <= most {
        return Ok(());
    }
    Err(sort_exceeds(&format!("a sort may take {most} bytes")).into())
}

fn sort_exceeds(why: &str) -> Error {
    let message = format!(
        "Executor error during find command: Sort exceeded memory limit, but did not opt in to \
         external sorting: {why}"
    );
    Error::new(
        Code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
        message,
    )
}

fn clamp(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The answers of a `find`, batch by batch.
pub(crate) struct FindRows {
    pub(crate) namespace: Namespace,
    pub(crate) execution: Execution,
    /// An answer that had no room in the batch before.
    pub(crate) held_back: Option<Bytes>,
    /// How it goes on at the end, if it does.
    pub(crate) tailing: Option<Tailing>,
}

impl Rows for FindRows {
    fn prepare<'a>(&'a mut self, data: &'a Data) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(tailing) = &mut self.tailing {
                tailing.listen(data, &self.namespace.container).await;
            }
        })
    }

    fn wait(&mut self, until: Instant) -> Option<BoxFuture<'_, ()>> {
        let alarm = self.tailing.as_mut()?.alarm()?;
        Some(Box::pin(async move {
            alarm.wait(false, until).await;
        }))
    }

    fn fill<'a>(
        &'a mut self,
        _data: &'a Data,
        transaction: &'a mut Transaction,
        batch: &'a mut Batch,
        max: usize,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let container = transaction.container(&self.namespace.container).await?;
            if self.tailing.is_some() {
                self.execution.reopen(&container);
            }
            while batch.len() < max {
                let next = match self.held_back.take() {
                    Some(held_back) => held_back,
                    None => {
                        let wanted = max - batch.len();
                        let had_some = self.execution.has_ready();
                        let next = self.execution.next(transaction, &container, wanted).await?;
                        let Some(row) = next else {
                            return Ok(true);
                        };
                        if !had_some {
                            self.execution.announce(&row, batch, wanted);
                        }
                        self.execution.finish(row)?
                    }
                };
                deadline::pause().await;
                if !batch.has_room(next.len())? {
                    self.held_back = Some(next);
                    return Ok(false);
                }
                batch.push_raw(&next);
            }
            // Whether more is to come is found out when it is asked for.
            Ok(self.execution.is_limited() && self.held_back.is_none())
        })
    }
}
