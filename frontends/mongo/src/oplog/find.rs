//! `find` on the oplog: from a time on, backwards from its end, and followed as it grows.

use std::collections::VecDeque;
use std::sync::Arc;

use bson::{Document, Timestamp};
use tessera_core::deadline::{self, Interruption};
use tessera_core::engine::BoxFuture;
use tessera_core::memory_budget::{Grant, Purpose};
use tessera_core::{Store, Transaction};
use tessera_mongo_language::error::{Code, bad_value};
use tessera_mongo_language::size::document_footprint;

use crate::batch::{Batch, Turn, encode};
use crate::collection::Namespace;
use crate::commands::find::Delivery;
use crate::cursor::{Cursor, Rows};
use crate::data::Data;
use crate::execute::query::{Query, natural};
use crate::failure::{Failure, Result};
use crate::oplog::log::{Log, lower_bound};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// The database that the log is in.
const DATABASE: &str = "local";
/// The log.
const COLLECTION: &str = "oplog.rs";

/// Whether a command is about the log, which only a replica set has.
pub(crate) fn is_asked(service: &Service, database: &str, collection: &str) -> bool {
    service.config.replica_set.is_some() && database == DATABASE && collection == COLLECTION
}

/// The answer of a query on the log.
pub(crate) async fn answer(
    session: &Session,
    request: &Request<'_>,
    (query, delivery): (Query, Delivery),
) -> Result<Reply> {
    let service = session.service();
    let namespace = Namespace::new(DATABASE, COLLECTION)?;
    let is_reversed = natural(&query.sort_document)? == Some(true);
    if query.sort.is_some() {
        return Err(sorted());
    }
    if is_reversed && delivery.tail.is_some() {
        let message = "cannot use tailable option with a sort other than {$natural: 1}";
        return Err(bad_value(message).into());
    }
    let store = &service.store;
    let since = service.cluster_time.began();
    let limit = query
        .limit
        .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let skip = usize::try_from(query.skip).unwrap_or(usize::MAX);
    let query = Arc::new(query);
    let source = match is_reversed {
        true => Source::Held(backwards(store, &query, since).await?),
        false => {
            let time = lower_bound(&query.filter_document);
            Source::Log(Box::new(Log::from(store, time, since).await?))
        }
    };
    let mut rows = LogRows {
        query,
        source,
        skip,
        left: limit.unwrap_or(usize::MAX),
    };
    let mut batch = Batch::new(Turn::First);
    let done = rows.take(&mut batch, delivery.batch_size).await?;
    let stays = (delivery.tail.is_some() || !done) && !delivery.single_batch;
    let id = if stays {
        let cursor = Cursor {
            namespace: namespace.to_string(),
            rows: Box::new(rows),
            owner: request.generic.owner,
            needs: session.needed.clone(),
            session: request.session(),
            transaction: None,
            never_expires: delivery.never_expires,
            tail: delivery.tail,
            at: None,
        };
        service.data.cursors.keep(cursor, request)?
    } else {
        0
    };
    Ok(batch.reply(id, &namespace.to_string())?.into())
}

fn sorted() -> Failure {
    let message = "the oplog is read in its own order: sort by {$natural: 1} or {$natural: -1}";
    Failure::new(Code::COMMAND_NOT_SUPPORTED, message)
}

/// The last entries that match, the last one first: looked for from the end, in steps that double.
async fn backwards(store: &Store, query: &Query, since: Timestamp) -> Result<Held> {
    let wanted = query.limit.map_or(usize::MAX, |limit| {
        let wanted = query.skip.saturating_add(limit);
        usize::try_from(wanted).unwrap_or(usize::MAX)
    });
    let earliest = lower_bound(&query.filter_document);
    let now = u32::try_from(store.clock().now_ms() / 1_000).unwrap_or(u32::MAX);
    let mut seconds = 16_u32;
    loop {
        let from = Timestamp {
            time: now.saturating_sub(seconds),
            increment: 0,
        };
        let later = |bound: Timestamp| (bound.time, bound.increment) >= (from.time, 0);
        let is_all = from.time == 0 || earliest.is_some_and(later);
        let time = if is_all { earliest } else { Some(from) };
        let mut log = Log::from(store, time, since).await?;
        let is_all = is_all || log.has_beginning();
        let mut found = Held::new();
        while let Some(entry) = log.next().await? {
            deadline::pause().await;
            if query.filter.matches_with_position(&entry)?.is_some() {
                found.add(entry, wanted)?;
            }
        }
        if is_all || found.entries.len() >= wanted {
            return Ok(found);
        }
        seconds = seconds.saturating_mul(8);
    }
}

/// Entries that are still to come.
struct LogRows {
    query: Arc<Query>,
    source: Source,
    skip: usize,
    left: usize,
}

enum Source {
    Log(Box<Log>),
    /// Found already.
    Held(Held),
}

/// Entries in the order in which they are answered, the last one of the log first.
struct Held {
    entries: VecDeque<Document>,
    /// What they take.
    bytes: usize,
    memory: Grant,
}

impl Held {
    fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            memory: Grant::new(Purpose::Cursors, 0),
        }
    }

    /// Adds the next entry of the log, and keeps the last `wanted` ones.
    fn add(&mut self, entry: Document, wanted: usize) -> Result<()> {
        self.bytes += document_footprint(&entry);
        deadline::cover(&mut self.memory, self.bytes).map_err(Interruption::Memory)?;
        self.entries.push_front(entry);
        if self.entries.len() > wanted
            && let Some(first) = self.entries.pop_back()
        {
            self.bytes -= document_footprint(&first);
        }
        Ok(())
    }
}

impl Source {
    async fn next(&mut self) -> Result<Option<Document>> {
        match self {
            Self::Log(log) => log.next().await,
            Self::Held(found) => Ok(found.entries.pop_front()),
        }
    }

    fn put_back(&mut self, entry: Document) {
        match self {
            Self::Log(log) => log.put_back(entry),
            Self::Held(found) => found.entries.push_front(entry),
        }
    }
}

impl LogRows {
    /// Adds the next entries to a batch; answers whether there are no more for now.
    async fn take(&mut self, batch: &mut Batch, max: usize) -> Result<bool> {
        while batch.len() < max {
            if self.left == 0 {
                return Ok(true);
            }
            let Some(entry) = self.source.next().await? else {
                return Ok(true);
            };
            deadline::pause().await;
            let Some(position) = self.query.filter.matches_with_position(&entry)? else {
                continue;
            };
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            let shown = match &self.query.projection {
                Some(projection) => encode(&projection.apply(entry.clone(), position)?)?,
                None => encode(&entry)?,
            };
            if !batch.has_room(shown.len())? {
                self.source.put_back(entry);
                return Ok(false);
            }
            batch.push_raw(&shown);
            self.left -= 1;
        }
        Ok(self.left == 0)
    }
}

impl Rows for LogRows {
    fn fill<'a>(
        &'a mut self,
        _data: &'a Data,
        _transaction: &'a mut Transaction,
        batch: &'a mut Batch,
        max: usize,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.take(batch, max))
    }

    fn wait(&mut self, until: tokio::time::Instant) -> Option<BoxFuture<'_, ()>> {
        match &mut self.source {
            Source::Log(log) => Some(Box::pin(log.wait(until))),
            Source::Held(_) => None,
        }
    }
}
