//! Transactions of several statements: a transaction of the core that a session keeps between its
//! commands. A statement outside of one runs in a transaction of its own.
//!
//! Any error of a statement aborts its transaction. A commit is recorded by the transaction itself
//! beside its session's retryable writes, so that `commitTransaction` can be retried: after a lost
//! reply, after a restart, or if the engine lost the outcome.

mod failures;
mod reader;
mod slot;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tessera_core::definition::{NewContainer, NewIndex};
use tessera_core::engine::BoxFuture;
use tessera_core::feed::record::Annotation;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::{Container, Error as CoreError, Transaction};
use tessera_mongo_language::error::Code;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::collection::{Collection, Namespace};
use crate::concern::Level;
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::logical::SessionKey;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::snapshot::At;
use crate::transaction::failures::{
    TRANSIENT, committed, elsewhere, expired, none_such, too_old, unknown,
};
use crate::transaction::slot::{Open, Slot, State};
use crate::write::retry::{self, Numbered};

pub(crate) use reader::Reader;

/// How long a transaction may stay open, unless a client sets it.
const LIFETIME_SECONDS: u64 = 60;
/// Beyond so many sessions those whose transaction is over are forgotten.
const MAX_KEPT: usize = 10_000;
/// How often a transaction's first statement begins anew after it came too late for its snapshot.
const MAX_FRESH_STARTS: u32 = 10;

/// The transactions of all sessions.
pub(crate) struct Transactions {
    by_session: DashMap<SessionKey, Arc<Mutex<Slot>>, ahash::RandomState>,
    lifetime_seconds: AtomicU64,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            by_session: DashMap::default(),
            lifetime_seconds: AtomicU64::new(LIFETIME_SECONDS),
        }
    }
}

/// Where a statement runs.
pub(crate) enum Scope {
    /// In a transaction of its own.
    Alone,
    /// At a moment that is kept, where nothing can be written.
    At(At),
    /// As part of its session's transaction.
    Joined(Joined),
}

/// A session's transaction while one of its statements runs.
pub(crate) struct Joined {
    slot: OwnedMutexGuard<Slot>,
    /// Whether nothing of the transaction was done or answered yet, so that it may begin anew.
    untouched: bool,
    /// Whether the statement has gone well; otherwise the transaction ends with it.
    succeeded: bool,
}

impl Transactions {
    /// The scope in which a command runs.
    pub(crate) async fn scope(&self, service: &Service, request: &Request<'_>) -> Result<Scope> {
        if !request.in_transaction() {
            if let Some(numbered) = Numbered::of(request) {
                self.overtake(numbered).await;
            }
            return Ok(Scope::Alone);
        }
        let numbered = numbered(request)?;
        let starts = request.generic.start_transaction == Some(true);
        check_concerns(request, starts)?;
        let data = &service.data;
        let concern = request.generic.read_concern.as_ref();
        let at = match concern.and_then(|concern| concern.at_cluster_time) {
            Some(time) => Some(data.snapshots.at(service, Some(time)).await?),
            None => None,
        };
        let slot = if starts {
            self.start(data, numbered, at.as_ref()).await?
        } else {
            self.open(data, numbered).await?
        };
        Ok(Scope::Joined(Joined {
            // One that asked for its moment cannot have a later one.
            untouched: starts && at.is_none(),
            slot,
            succeeded: false,
        }))
    }

    /// Ends the transaction that a session has left open before a write with a later number.
    async fn overtake(&self, numbered: Numbered) {
        let Some(slot) = self.find(numbered.session) else {
            return;
        };
        let mut slot = slot.lock_owned().await;
        if slot.number < numbered.number && matches!(slot.state, State::Open(_)) {
            slot.number = numbered.number;
            slot.state = State::Aborted;
        }
    }

    async fn start(
        &self,
        data: &Data,
        numbered: Numbered,
        at: Option<&At>,
    ) -> Result<OwnedMutexGuard<Slot>> {
        self.forget_old();
        retry::prepare(data).await?;
        let number = numbered.number;
        let slot = self.by_session.entry(numbered.session).or_default();
        let slot = Arc::clone(&slot);
        let timed = Arc::downgrade(&slot);
        let mut slot = slot.lock_owned().await;
        if number < slot.number {
            return Err(too_old(number, slot.number));
        }
        if number == slot.number {
            let message = format!("Cannot start transaction {number}: it has been started already");
            return Err(Failure::new(
                Code::CONFLICTING_OPERATION_IN_PROGRESS,
                message,
            ));
        }
        // Whatever the session had open before ends here.
        *slot = Slot::default();
        let lifetime = Duration::from_secs(self.lifetime_seconds());
        let transaction = match at {
            Some(at) => data.store.open_transaction_at(&at.moment, lifetime),
            None => data.store.open_transaction(lifetime).await?,
        };
        *slot = Slot::open(number, annotated(transaction, numbered), timed);
        Ok(slot)
    }

    async fn open(&self, data: &Data, numbered: Numbered) -> Result<OwnedMutexGuard<Slot>> {
        let number = numbered.number;
        let slot = self.find(numbered.session);
        let Some(slot) = slot else {
            return Err(elsewhere(data, numbered).await?);
        };
        let slot = slot.lock_owned().await;
        if number < slot.number {
            return Err(too_old(number, slot.number));
        }
        if number > slot.number {
            return Err(elsewhere(data, numbered).await?);
        }
        match slot.state {
            State::Open(_) | State::Unknown => Ok(slot),
            State::Aborted => Err(none_such(number)),
            State::Expired => Err(expired(number)),
            State::Committed => Err(committed(number)),
        }
    }

    fn find(&self, session: SessionKey) -> Option<Arc<Mutex<Slot>>> {
        self.by_session.get(&session).map(|slot| Arc::clone(&slot))
    }

    /// Commits a session's transaction. Asked again, it answers the same.
    pub(crate) async fn commit(
        &self,
        data: &Data,
        session: &mut Session,
        request: &Request<'_>,
    ) -> Result<()> {
        let numbered = numbered(request)?;
        let mut slot = match self.open(data, numbered).await {
            Err(failure) if failure.code() == Code::TRANSACTION_COMMITTED => return Ok(()),
            // Another server may be committing it right now, for a client that lost the answer.
            Err(failure)
                if failure.code() == Code::NO_SUCH_TRANSACTION
                    && data.store.engine().capabilities().shared =>
            {
                retry::prepare(data).await?;
                return resolve(data, numbered).await.1;
            }
            slot => slot?,
        };
        let (state, outcome) = match std::mem::replace(&mut slot.state, State::Aborted) {
            State::Open(open) => commit_open(data, session, (numbered, *open), request).await,
            State::Unknown => resolve(data, numbered).await,
            other => (other, Err(none_such(numbered.number))),
        };
        slot.state = state;
        outcome
    }

    /// Gives a session's transaction up.
    pub(crate) async fn abort(&self, data: &Data, request: &Request<'_>) -> Result<()> {
        let mut slot = self.open(data, numbered(request)?).await?;
        slot.state = State::Aborted;
        Ok(())
    }

    /// Ends whatever a session has open, because the session ends.
    pub(crate) fn end_session(&self, key: SessionKey) {
        if let Some((_, slot)) = self.by_session.remove(&key)
            && let Ok(mut slot) = slot.try_lock()
        {
            slot.state = State::Aborted;
        }
    }

    /// How long a transaction may stay open.
    pub(crate) fn lifetime_seconds(&self) -> u64 {
        self.lifetime_seconds.load(Ordering::Relaxed)
    }

    /// Sets how long transactions that begin from now on may stay open.
    pub(crate) fn set_lifetime_seconds(&self, seconds: u64) {
        self.lifetime_seconds
            .store(seconds.max(1), Ordering::Relaxed);
    }

    #[cfg(test)]
    /// How many transactions are open.
    pub(crate) fn count_open(&self) -> usize {
        let is_open = |slot: &Arc<Mutex<Slot>>| {
            // One that is locked is running a statement.
            slot.try_lock()
                .map_or(true, |slot| matches!(slot.state, State::Open(_)))
        };
        self.by_session
            .iter()
            .filter(|entry| is_open(entry.value()))
            .count()
    }

    fn forget_old(&self) {
        if self.by_session.len() < MAX_KEPT {
            return;
        }
        self.by_session
            .retain(|_, slot| slot.try_lock().map_or(true, |slot| slot.is_worth_keeping()));
    }
}

/// The transaction, whose changes are told with its session and number.
fn annotated(mut transaction: Box<Transaction>, numbered: Numbered) -> Box<Transaction> {
    let SessionKey { id, owner } = numbered.session;
    transaction.annotate(Some(Annotation {
        session: [&id.0[..], &owner.0[..]].concat().into(),
        transaction: u64::try_from(numbered.number).ok(),
        statement: 0,
    }));
    transaction
}

/// The session and number of a command of a transaction.
fn numbered(request: &Request<'_>) -> Result<Numbered> {
    let generic = &request.generic;
    match (
        generic.session(),
        generic.transaction_number,
        generic.autocommit,
    ) {
        (Some(session), Some(number), Some(false)) => Ok(Numbered { session, number }),
        _ => {
            let message = format!("{} must be run within a transaction", request.name());
            Err(Failure::new(Code::COMMAND_FAILED, message))
        }
    }
}

/// Refuses concerns where a transaction cannot have them: a read concern belongs to its first
/// statement, a write concern to its end.
fn check_concerns(request: &Request<'_>, starts: bool) -> Result<()> {
    let refuse = |message: &str| Err(Failure::new(Code::INVALID_OPTIONS, message));
    let generic = &request.generic;
    if generic.write_concern.is_some() {
        return refuse("writeConcern is not allowed within a multi-statement transaction");
    }
    let Some(concern) = &generic.read_concern else {
        return Ok(());
    };
    if !starts {
        return refuse("Only the first command in a transaction may specify a readConcern");
    }
    match concern.level {
        None | Some(Level::Local | Level::Majority | Level::Snapshot) => Ok(()),
        Some(_) => refuse(
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in \
             order to run in a transaction",
        ),
    }
}

/// Commits with a record of it.
async fn commit_open(
    data: &Data,
    session: &mut Session,
    (numbered, mut open): (Numbered, Open),
    request: &Request<'_>,
) -> (State, Result<()>) {
    if request
        .generic
        .write_concern
        .as_ref()
        .is_some_and(|concern| concern.journal)
    {
        open.transaction.demand_sync();
    }
    // One that only reads has nothing that could be lost or done twice; only another server that
    // is asked again would not know how it ended.
    if !open.transaction.is_read_only() || data.store.engine().capabilities().shared {
        let recorded = retry::record_commit(data, &mut open.transaction, numbered).await;
        if let Err(failure) = recorded {
            return (State::Aborted, Err(failure.labelled(TRANSIENT)));
        }
    }
    match open.transaction.commit().await {
        Ok(committed) => {
            session.spent(&committed.meter);
            (State::Committed, Ok(()))
        }
        Err(CoreError::OutcomeUnknown) => (State::Unknown, Err(unknown())),
        Err(error) => (
            State::Aborted,
            Err(Failure::from(error).labelled(TRANSIENT)),
        ),
    }
}

/// Finds out how a commit ended whose answer was lost. If there is no record of it, one is made
/// that keeps it from being applied later.
async fn resolve(data: &Data, numbered: Numbered) -> (State, Result<()>) {
    match retry::fence(data, numbered).await {
        Ok(true) => (State::Committed, Ok(())),
        Ok(false) => (State::Aborted, Err(none_such(numbered.number))),
        Err(_) => (State::Unknown, Err(unknown())),
    }
}

impl Scope {
    /// A transaction to read in.
    pub(crate) async fn reader(&mut self, data: &Data) -> Result<Reader<'_>> {
        match self {
            Self::Alone => Ok(Reader::Own(data.store.begin().await?)),
            Self::At(at) => Ok(Reader::Own(data.store.read_at(&at.moment))),
            Self::Joined(joined) => Ok(Reader::Shared(joined.transaction()?)),
        }
    }

    /// Runs a statement that writes. Alone it is repeated after conflicts and committed; as part of
    /// a transaction it runs once, or again while it is the first and came too late. `items` are
    /// those it is known to change.
    pub(crate) async fn write<T, F>(
        &mut self,
        data: &Data,
        session: &mut Session,
        items: &[(&ContainerName, &Locator)],
        statement: F,
    ) -> Result<T>
    where
        F: for<'a> Fn(&'a mut Transaction) -> BoxFuture<'a, Result<T>> + Send + Sync,
        T: Send,
    {
        match self {
            Self::Alone | Self::At(_) => {
                let outcome = data.store.run(items, statement).await?;
                session.spent(&outcome.meter);
                Ok(outcome.value)
            }
            Self::Joined(joined) => joined.write(&statement).await,
        }
    }

    /// Creates a container, in the session's transaction if there is one.
    pub(crate) async fn create_container(
        &mut self,
        data: &Data,
        name: &ContainerName,
        new: &NewContainer,
    ) -> tessera_core::Result<Arc<Container>> {
        match self {
            Self::Alone | Self::At(_) => data.store.create_container(name, new).await,
            Self::Joined(joined) => match joined.transaction() {
                Ok(transaction) => transaction.create_container(name, new).await,
                Err(_) => Err(CoreError::Conflict),
            },
        }
    }

    /// Adds indexes to a collection that the session's transaction has created and not filled yet.
    pub(crate) async fn add_indexes(
        &mut self,
        namespace: &Namespace,
        added: &[(String, bool)],
        collection: &Collection,
    ) -> Result<()> {
        let Self::Joined(joined) = self else {
            return Err(Failure::new(
                Code::INTERNAL_ERROR,
                "there is no transaction",
            ));
        };
        let added = added.iter().map(|(name, unique)| NewIndex {
            name: name.clone(),
            unique: *unique,
        });
        let added: Vec<NewIndex> = added.collect();
        let (name, schema) = (&namespace.container, collection.encode()?);
        let transaction = joined.transaction()?;
        match transaction.create_indexes(name, &added, schema).await {
            Ok(_) => Ok(()),
            Err(CoreError::Rejected(_)) => {
                let message = format!(
                    "Cannot create new indexes on existing collection {namespace} in a \
                     multi-document transaction."
                );
                let code = Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION;
                Err(Failure::new(code, message))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The moment that it reads, if that is kept for others.
    pub(crate) fn at(&self) -> Option<&At> {
        match self {
            Self::At(at) => Some(at),
            Self::Alone | Self::Joined(_) => None,
        }
    }

    pub(crate) fn is_joined(&self) -> bool {
        matches!(self, Self::Joined(_))
    }

    /// Lends the session's transaction to what reads in it from several places; none if the
    /// statement runs alone. It must be taken back.
    pub(crate) async fn lend(&mut self, data: &Data) -> Result<Option<Arc<Mutex<Transaction>>>> {
        let Self::Joined(joined) = self else {
            return Ok(None);
        };
        let placeholder = data.store.begin().await?;
        let lent = std::mem::replace(joined.transaction()?, *placeholder);
        Ok(Some(Arc::new(Mutex::new(lent))))
    }

    /// Takes the transaction back that was lent. If somebody still holds it, it is lost.
    pub(crate) fn take_back(&mut self, lent: Arc<Mutex<Transaction>>) -> Result<()> {
        if let Self::Joined(joined) = self {
            let lent = Arc::into_inner(lent).ok_or_else(|| {
                Failure::new(Code::INTERNAL_ERROR, "a transaction is still in use")
            })?;
            *joined.transaction()? = lent.into_inner();
        }
        Ok(())
    }

    /// Notes that the statement has gone well: its transaction stays open.
    pub(crate) fn succeed(&mut self) {
        if let Self::Joined(joined) = self {
            joined.succeeded = true;
        }
    }
}

impl Joined {
    fn transaction(&mut self) -> Result<&mut Transaction> {
        let number = self.slot.number;
        match &mut self.slot.state {
            State::Open(open) => Ok(&mut open.transaction),
            State::Expired => Err(expired(number)),
            State::Unknown | State::Committed | State::Aborted => Err(none_such(number)),
        }
    }

    async fn write<T, F>(&mut self, statement: &F) -> Result<T>
    where
        F: for<'a> Fn(&'a mut Transaction) -> BoxFuture<'a, Result<T>> + Send + Sync,
    {
        let mut fresh_starts = 0;
        loop {
            let (untouched, number) = (self.untouched, self.slot.number);
            let transaction = self.transaction()?;
            let failure = match statement(transaction).await {
                Ok(value) => {
                    self.untouched = false;
                    return Ok(value);
                }
                Err(failure) => failure,
            };
            if failure.code() != Code::WRITE_CONFLICT {
                return Err(failure);
            }
            if transaction
                .deadline()
                .is_some_and(|end| end <= tokio::time::Instant::now())
            {
                return Err(expired(number));
            }
            fresh_starts += 1;
            if !untouched || transaction.is_blocked() || fresh_starts > MAX_FRESH_STARTS {
                return Err(failure);
            }
            // Nobody has seen anything of it: it may as well begin after what came between.
            transaction.refresh().await?;
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if !self.succeeded && matches!(self.slot.state, State::Open(_)) {
            self.slot.state = State::Aborted;
        }
    }
}
