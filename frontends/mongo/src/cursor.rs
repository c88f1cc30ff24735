//! Open cursors: the state of a query between two batches, found by number, bounded, and removed
//! after a time without use.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use rand::Rng as _;
use tessera_core::Transaction;
use tessera_core::engine::BoxFuture;
use tessera_core::memory_budget::{Grant, MemoryBudget, Purpose};
use tessera_mongo_language::error::Code;

use crate::access::Need;
use crate::batch::Batch;
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::logical::{Owner, SessionKey};
use crate::request::Request;
use crate::snapshot::At;

/// How long a cursor waits for its client, in milliseconds, unless a client sets it.
const IDLE_MS: u64 = 10 * 60 * 1_000;
/// How many cursors may be open.
const MAX_OPEN: usize = 100_000;
/// Every so many new cursors those that nobody asked for are looked for.
const SWEEP_EVERY: u64 = 64;

/// What a cursor takes, whatever it reads.
const ENTRY_BYTES: usize = 4 << 10;
/// What a request takes when it is parsed, times its length.
const PARSED: usize = 16;

/// The rows of a query that are still to come.
pub(crate) trait Rows: Send {
    /// Adds the next documents to a batch, at most `max` and as many as have room; answers whether
    /// there are no more.
    fn fill<'a>(
        &'a mut self,
        data: &'a Data,
        transaction: &'a mut Transaction,
        batch: &'a mut Batch,
        max: usize,
    ) -> BoxFuture<'a, Result<bool>>;

    /// What must be so before a batch is read that may wait for documents.
    fn prepare<'a>(&'a mut self, _data: &'a Data) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// Waits until there may be more to read; none if nothing tells of that.
    fn wait(&mut self, _until: tokio::time::Instant) -> Option<BoxFuture<'_, ()>> {
        None
    }
}

/// A query between two batches.
pub(crate) struct Cursor {
    pub(crate) namespace: String,
    pub(crate) rows: Box<dyn Rows>,
    /// Who opened it: it is theirs alone.
    pub(crate) owner: Owner,
    /// What its command needed of them, and each batch needs again: roles may be revoked meanwhile.
    pub(crate) needs: Vec<Need>,
    pub(crate) session: Option<SessionKey>,
    /// The number of the transaction that it belongs to.
    pub(crate) transaction: Option<i64>,
    pub(crate) never_expires: bool,
    pub(crate) tail: Option<Tail>,
    /// The moment that all of it reads, if not that of each batch.
    pub(crate) at: Option<At>,
}

/// How a cursor behaves at the end of what there is: it stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Whether a reply waits for something to come.
    pub(crate) waits: bool,
    /// Whether it may come to an end, as a change stream does, or begins again where it was.
    pub(crate) ends: bool,
}

/// All open cursors.
pub(crate) struct Cursors {
    memory: MemoryBudget,
    open: DashMap<i64, Entry>,
    opened: AtomicU64,
    idle_ms: AtomicU64,
}

impl Cursors {
    /// None yet, of which each takes a part of this memory.
    pub(crate) fn new(memory: MemoryBudget) -> Self {
        Self {
            memory,
            open: DashMap::new(),
            opened: AtomicU64::new(0),
            idle_ms: AtomicU64::new(IDLE_MS),
        }
    }
}

struct Entry {
    /// What it takes, but for what its rows say themselves.
    _grant: Grant,
    namespace: String,
    owner: Owner,
    session: Option<SessionKey>,
    /// None while a batch is being read from it. Only its holder looks inside.
    cursor: Mutex<Option<Cursor>>,
    is_in_use: bool,
    last_used: Instant,
    never_expires: bool,
}

impl Cursors {
    /// Keeps a cursor, and gives it a number. What it asks is kept with it.
    pub(crate) fn keep(&self, cursor: Cursor, request: &Request<'_>) -> Result<i64> {
        if self
            .opened
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(SWEEP_EVERY)
        {
            self.sweep();
        }
        if self.open.len() >= MAX_OPEN {
            let message = format!("there are {MAX_OPEN} open cursors already");
            return Err(Failure::new(Code::EXCEEDED_MEMORY_LIMIT, message));
        }
        let bytes = ENTRY_BYTES + PARSED * request.body.as_bytes().len();
        let grant = self.memory.grant(Purpose::Cursors, bytes);
        let mut entry = Some(Entry {
            _grant: grant.map_err(tessera_core::Error::from)?,
            namespace: cursor.namespace.clone(),
            owner: cursor.owner,
            session: cursor.session,
            never_expires: cursor.never_expires,
            cursor: Mutex::new(Some(cursor)),
            is_in_use: false,
            last_used: Instant::now(),
        });
        loop {
            let id = rand::rng().random_range(1..i64::MAX);
            if let dashmap::Entry::Vacant(place) = self.open.entry(id)
                && let Some(entry) = entry.take()
            {
                place.insert(entry);
                return Ok(id);
            }
        }
    }

    /// Takes a cursor of this owner to read its next batch; it must be given back or it is gone.
    pub(crate) fn take(&self, id: i64, namespace: &str, owner: Owner) -> Result<Cursor> {
        let mut entry = self.open.get_mut(&id).ok_or_else(|| not_found(id))?;
        if entry.is_expired(self.idle()) {
            drop(entry);
            self.open.remove(&id);
            return Err(not_found(id));
        }
        if entry.owner != owner {
            return Err(of_another(id));
        }
        if entry.namespace != namespace {
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different \
                 namespace {}",
                entry.namespace
            );
            return Err(Failure::new(Code::UNAUTHORIZED, message));
        }
        let cursor = entry.cursor.get_mut().ok().and_then(Option::take);
        entry.is_in_use = true;
        cursor.ok_or_else(|| {
            let message = format!("cursor id {id} is already in use");
            Failure::new(Code(12_051), message)
        })
    }

    /// Gives a cursor back after a batch; one that was killed meanwhile is dropped.
    pub(crate) fn give_back(&self, id: i64, cursor: Cursor) {
        if let Some(mut entry) = self.open.get_mut(&id) {
            entry.cursor = Mutex::new(Some(cursor));
            entry.is_in_use = false;
            entry.last_used = Instant::now();
        }
    }

    /// Who opened a cursor; none if it is not there.
    pub(crate) fn owner(&self, id: i64) -> Option<Owner> {
        self.open.get(&id).map(|entry| entry.owner)
    }

    /// Forgets a cursor; answers whether there was one.
    pub(crate) fn kill(&self, id: i64) -> bool {
        let killed = self.open.remove(&id);
        killed.is_some_and(|(_, entry)| !entry.is_expired(self.idle()))
    }

    /// Forgets a cursor that is at its end.
    pub(crate) fn close(&self, id: i64) {
        self.open.remove(&id);
    }

    /// Forgets the cursors of a session.
    pub(crate) fn end_session(&self, session: SessionKey) {
        self.open.retain(|_, entry| entry.session != Some(session));
    }

    /// Forgets the cursors that nobody asked for in a long time.
    pub(crate) fn sweep(&self) {
        let idle = self.idle();
        self.open.retain(|_, entry| !entry.is_expired(idle));
    }

    fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms.load(Ordering::Relaxed))
    }

    /// Sets how long cursors wait for their clients.
    pub(crate) fn set_idle_ms(&self, idle_ms: u64) {
        self.idle_ms.store(idle_ms.max(1), Ordering::Relaxed);
    }
}

impl Entry {
    fn is_expired(&self, idle: Duration) -> bool {
        !self.never_expires && !self.is_in_use && self.last_used.elapsed() > idle
    }
}

/// The error for a cursor that somebody else has opened.
pub(crate) fn of_another(id: i64) -> Failure {
    let message = format!("cursor id {id} was not created by the authenticated user");
    Failure::new(Code::UNAUTHORIZED, message)
}

/// The error for a cursor that is not there (any more).
pub(crate) fn not_found(id: i64) -> Failure {
    Failure::new(Code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}
