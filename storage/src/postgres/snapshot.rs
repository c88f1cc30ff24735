//! Reading: a transaction of the database that begins with the first read.
//!
//! BEGIN travels in front of the first read, so a snapshot that reads once costs one round trip;
//! its end is sent when the snapshot is dropped, and nobody waits for it. A snapshot that has not
//! read yet holds no connection and no moment.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tessera_core::engine::{
    Answer, BoxFuture, CommitOutcome, EngineError, EngineResult, KeyRange, Page, Scan, Settled,
    Snapshot,
};
use tessera_core::key;
use tessera_core::recent_commits::{Comparison, compare};
use tessera_core::write_set::{Tally, WriteSet};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::Shared;
use super::commit;
use super::failure::{Failure, engine_error};
use super::log;
use super::page::{self, byte_limit, draft, is_long, row_limit};
use super::pipeline::Pipeline;
use super::pool::Lease;
use super::statements::{ScanKind, Statements};
use super::stored_key::{HEAD_BYTES, StoredKey, beyond_all, bound};

/// Connections may have died unnoticed, several of them when the database was restarted.
const ATTEMPTS: usize = 4;

/// A snapshot that is kept for longer is compared with the newest data and committed there: the
/// rows of `guard` that it would lock stand for other containers too, and the longer it is kept the
/// surer it is that one of those changed meanwhile.
const AGING: Duration = Duration::from_millis(500);

/// How many keys a snapshot remembers having seen, which makes its commit cheaper.
const MAX_SEEN: usize = 1_000;

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// All data as of the first read.
pub(super) struct PostgresSnapshot {
    shared: Arc<Shared>,
    version: u64,
    /// Whether it is kept while a client thinks.
    is_kept: bool,
    lease: tokio::sync::Mutex<Option<Arc<Lease>>>,
    seen: Mutex<Seen>,
}

/// Which keys were read, and whether they were there.
#[derive(Default)]
pub(super) struct Seen(HashMap<Bytes, bool>);

impl Seen {
    pub(super) fn is_present(&self, key: &[u8]) -> Option<bool> {
        self.0.get(key).copied()
    }

    /// A tally is not noted: it is in several rows, of which some may be newer than the snapshot.
    fn note(&mut self, key: Bytes, value: Option<&Bytes>) {
        let may_be_tally = value.is_some_and(|value| value.len() == Tally::ENCODED_LEN);
        if self.0.len() < MAX_SEEN && !may_be_tally {
            self.0.insert(key, value.is_some());
        }
    }
}

impl PostgresSnapshot {
    pub(super) fn new(shared: Arc<Shared>, version: u64, is_kept: bool) -> Self {
        Self {
            shared,
            version,
            is_kept,
            lease: tokio::sync::Mutex::new(None),
            seen: Mutex::default(),
        }
    }

    async fn query(
        &self,
        statement: impl Fn(&Statements) -> &Statement + Sync,
        parameters: Parameters<'_>,
    ) -> EngineResult<Vec<Row>> {
        self.shared.pool.check_open()?;
        let mut lease = self.lease.lock().await;
        if let Some(begun) = lease.as_ref() {
            let begun = Arc::clone(begun);
            // Reads of one snapshot need not wait for each other.
            drop(lease);
            let rows = begun.client.query(statement(&begun.statements), parameters);
            let rows = begun.answer(rows).await;
            return rows.map_err(Failure::into_engine_error);
        }
        let mut attempt = 1;
        loop {
            let fresh = match self.is_kept {
                true => self.shared.pool.lease_to_keep().await?,
                false => self.shared.pool.lease().await?,
            };
            match self
                .begin(&fresh, statement(&fresh.statements), parameters)
                .await
            {
                Ok(rows) => {
                    *lease = Some(Arc::new(fresh));
                    return Ok(rows);
                }
                // Nothing was read yet, so any moment is as good.
                Err(Failure::Lost(_)) if attempt < ATTEMPTS => {
                    fresh.give_up();
                    attempt += 1;
                }
                Err(failure) => return Err(failure.into_engine_error()),
            }
        }
    }

    /// Begins the transaction and reads, in one round trip.
    async fn begin(
        &self,
        lease: &Lease,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let begin = self.shared.pool.flavour().begin();
        lease.set_in_transaction(true);
        let mut pipeline = Pipeline::new();
        pipeline.push(async { lease.client.batch_execute(begin).await.map(|()| Vec::new()) });
        pipeline.push(lease.client.query(statement, parameters));
        let mut rows = Vec::new();
        for answer in lease.wait(pipeline.run()).await? {
            rows = answer.map_err(|error| Failure::of(&error))?;
        }
        Ok(rows)
    }

    /// How far the log is complete, and then the moment: in this order, so that the moment shows
    /// all of that.
    async fn begin_settled(&self) -> EngineResult<Settled> {
        self.shared.pool.check_open()?;
        let mut lease = self.lease.lock().await;
        if lease.is_some() {
            let cause = "the snapshot has begun, and can no longer tell how far it is complete";
            return Err(EngineError::Unavailable(cause.to_owned()));
        }
        let mut attempt = 1;
        loop {
            let fresh = self.shared.pool.lease().await?;
            match self.settle(&fresh).await {
                Ok(settled) => {
                    *lease = Some(Arc::new(fresh));
                    return Ok(settled);
                }
                Err(Failure::Lost(_)) if attempt < ATTEMPTS => {
                    fresh.give_up();
                    attempt += 1;
                }
                Err(failure) => return Err(failure.into_engine_error()),
            }
        }
    }

    async fn settle(&self, lease: &Lease) -> Result<Settled, Failure> {
        let (Some(log), Some(epoch)) = (&lease.statements.log, lease.epoch) else {
            let cause = "change feeds need PostgreSQL itself, or another engine".to_owned();
            return Err(Failure::Engine(EngineError::Unavailable(cause)));
        };
        let begin = format!("{}; SELECT 1", self.shared.pool.flavour().begin());
        lease.set_in_transaction(true);
        let mut pipeline = Pipeline::new();
        pipeline.push(lease.client.query(&log.settled, &[]));
        pipeline.push(async {
            lease
                .client
                .batch_execute(&begin)
                .await
                .map(|()| Vec::new())
        });
        let answers = lease.wait(pipeline.run()).await?;
        let answers: Result<Vec<Vec<Row>>, _> = answers.into_iter().collect();
        let answers = answers.map_err(|error| Failure::of(&error))?;
        let row = answers.first().and_then(|rows| rows.first());
        let lost = || Failure::Lost("the database did not say what is settled".to_owned());
        log::settled(row.ok_or_else(lost)?, epoch).map_err(|error| Failure::of(&error))
    }

    /// Whether these writes are better committed at a newer moment.
    async fn is_aging(&self, writes: &WriteSet) -> bool {
        let is_old = |lease: &Arc<Lease>| lease.age() >= AGING;
        let changes = !writes.is_empty();
        self.is_kept && changes && self.lease.lock().await.as_ref().is_some_and(is_old)
    }

    fn note(&self, key: Bytes, value: Option<&Bytes>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.note(key, value);
    }

    async fn read(&self, key: &[u8]) -> EngineResult<Option<Bytes>> {
        let stored = StoredKey::new(key);
        let beyond = stored.beyond_marks();
        let is_log = key::is_log(key);
        let rows = self
            .query(
                |statements| match &statements.log {
                    Some(log) if is_log => &log.get,
                    _ => &statements.get,
                },
                &[&stored.head, &stored.mark, &beyond],
            )
            .await?;
        let value = page::value(&rows, 0).map_err(|error| engine_error(&error))?;
        self.note(Bytes::copy_from_slice(key), value.as_ref());
        Ok(value)
    }

    async fn read_many(&self, keys: &[Bytes]) -> EngineResult<Vec<Option<Bytes>>> {
        if keys.is_empty() {
            self.shared.pool.check_open()?;
            return Ok(Vec::new());
        }
        if keys.iter().any(|key| key::is_log(key)) {
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                values.push(self.read(key).await?);
            }
            return Ok(values);
        }
        let stored: Vec<StoredKey<'_>> = keys.iter().map(|key| StoredKey::new(key)).collect();
        let heads: Vec<&[u8]> = stored.iter().map(|key| key.head).collect();
        let marks: Vec<&[u8]> = stored.iter().map(|key| key.mark.as_slice()).collect();
        let rows = self
            .query(|statements| &statements.multi_get, &[&heads, &marks])
            .await?;
        let values = page::values(&rows, keys.len()).map_err(|error| engine_error(&error))?;
        for (key, value) in keys.iter().zip(&values) {
            self.note(key.clone(), value.as_ref());
        }
        Ok(values)
    }

    async fn read_page(&self, scan: &Scan) -> EngineResult<Page> {
        if scan.range.is_empty() {
            self.shared.pool.check_open()?;
            return Ok(Page::default());
        }
        let mut kind = ScanKind {
            reverse: scan.reverse,
            keys_only: scan.keys_only,
            whole_keys: has_long_bound(&scan.range),
            with_log: may_hold_log(&scan.range),
        };
        let mut rows = self.rows(scan, kind).await?;
        if !kind.whole_keys {
            let damaged = |error| engine_error(&error);
            for row in &rows {
                kind.whole_keys |= is_long(row).map_err(damaged)?;
            }
            if kind.whole_keys {
                rows = self.rows(scan, kind).await?;
            }
        }
        let mut draft = draft(&rows, scan).map_err(|error| engine_error(&error))?;
        if draft.has_part_of_tally {
            for (key, value) in &mut draft.page.entries {
                *value = self.read(key).await?.unwrap_or_default();
            }
        }
        if !scan.keys_only {
            for (key, value) in &draft.page.entries {
                self.note(key.clone(), Some(value));
            }
        }
        Ok(draft.page)
    }

    async fn rows(&self, scan: &Scan, kind: ScanKind) -> EngineResult<Vec<Row>> {
        let beyond_all = beyond_all();
        let (start, start_tail) = bound(&scan.range.start);
        let (end, end_tail) = match &scan.range.end {
            Some(end) => bound(end),
            None => (beyond_all.as_slice(), &[][..]),
        };
        let rows = i64::try_from(row_limit(scan)).unwrap_or(i64::MAX);
        let bytes = i64::try_from(byte_limit(scan)).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> = &[&start, &start_tail, &end, &end_tail, &rows, &bytes];
        self.query(|statements| statements.scan(kind), parameters)
            .await
    }
}

/// Whether entries of the log may be in a range.
fn may_hold_log(range: &KeyRange) -> bool {
    let log = key::log();
    let begins_behind = log.end.is_some_and(|end| range.start >= end);
    let ends_before = range.end.as_ref().is_some_and(|end| *end <= log.start);
    !begins_behind && !ends_before
}

fn has_long_bound(range: &KeyRange) -> bool {
    let is_long = |key: &Bytes| key.len() > HEAD_BYTES;
    is_long(&range.start) || range.end.as_ref().is_some_and(is_long)
}

impl Snapshot for PostgresSnapshot {
    fn version(&self) -> u64 {
        self.version
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>> {
        Answer::later(self.read(key))
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        Box::pin(self.read_many(keys))
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        Box::pin(self.read_page(scan))
    }

    fn settled(&self) -> Answer<'_, EngineResult<Settled>> {
        Answer::later(self.begin_settled())
    }

    fn commit(
        self: Box<Self>,
        writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async move {
            if self.is_aging(&writes).await {
                let version = self.shared.version.load(Ordering::Acquire);
                let now = Box::new(Self::new(Arc::clone(&self.shared), version, false));
                match compare(self.as_ref(), now.as_ref(), &writes).await {
                    Ok(Comparison::Unchanged) => {
                        drop(self);
                        return now.commit(writes).await;
                    }
                    Ok(Comparison::Changed) => return Ok(CommitOutcome::Conflict),
                    // The commit where it began finds out what is wrong.
                    Ok(Comparison::Unknown) | Err(_) => {}
                }
            }
            let lease = self.lease.into_inner();
            let lease = match lease.map(Arc::try_unwrap) {
                None => None,
                Some(Ok(lease)) => Some(lease),
                // Reads borrow the snapshot, so none can be left.
                Some(Err(_)) => {
                    let cause = "a read of the snapshot is still under way".to_owned();
                    return Err(EngineError::Unavailable(cause));
                }
            };
            let seen = self.seen.into_inner();
            let seen = seen.unwrap_or_else(PoisonError::into_inner);
            commit::commit(&self.shared, lease, &seen, &writes).await
        })
    }
}
