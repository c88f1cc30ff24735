//! Transactions of several statements: a transaction of the core that a session keeps between its
//! commands. A statement outside of one runs in a transaction of its own.
//!
//! Any error of a statement ends the transaction that it belongs to: nothing of it is ever seen.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dashmap::DashMap;
use tessera_core::Transaction;
use tessera_core::engine::BoxFuture;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_mongo_language::error::Code;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::logical::SessionId;
use crate::request::Request;
use crate::session::Session;

/// How long a transaction may stay open.
const LIFETIME: Duration = Duration::from_secs(60);
/// How long the outcome of a transaction is remembered for a client that asks again.
const REMEMBERED: Duration = Duration::from_secs(30 * 60);
/// Beyond so many sessions those that are over are forgotten.
const MAX_KEPT: usize = 10_000;

/// The transactions of all sessions.
#[derive(Default)]
pub(crate) struct Transactions {
    by_session: DashMap<SessionId, Arc<Mutex<Slot>>>,
}

/// The latest transaction of a session.
struct Slot {
    number: i64,
    state: State,
    since: Instant,
}

enum State {
    Open(Box<Transaction>),
    Committed,
    Aborted,
}

/// Where a statement runs.
pub(crate) enum Scope {
    /// In a transaction of its own.
    Alone,
    /// As part of its session's transaction.
    Joined(Joined),
}

/// A session's transaction while one of its statements runs.
pub(crate) struct Joined {
    slot: OwnedMutexGuard<Slot>,
    /// Whether the statement has gone well; otherwise the transaction ends with it.
    succeeded: bool,
}

/// The transaction that a read uses.
pub(crate) enum Reader<'a> {
    Own(Transaction),
    Shared(&'a mut Transaction),
}

impl Deref for Reader<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        match self {
            Self::Own(transaction) => transaction,
            Self::Shared(transaction) => transaction,
        }
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        match self {
            Self::Own(transaction) => transaction,
            Self::Shared(transaction) => transaction,
        }
    }
}

impl Transactions {
    /// The scope in which a command runs.
    pub(crate) async fn scope(&self, data: &Data, request: &Request<'_>) -> Result<Scope> {
        if !request.in_transaction() {
            return Ok(Scope::Alone);
        }
        let generic = &request.generic;
        let (Some(session), Some(number)) = (generic.session, generic.transaction_number) else {
            let message = "'autocommit' is for statements of a session's transaction";
            return Err(Failure::new(Code::INVALID_OPTIONS, message));
        };
        let slot = if generic.start_transaction == Some(true) {
            self.start(data, session, number).await?
        } else {
            self.open(session, number).await?
        };
        Ok(Scope::Joined(Joined {
            slot,
            succeeded: false,
        }))
    }

    async fn start(
        &self,
        data: &Data,
        session: SessionId,
        number: i64,
    ) -> Result<OwnedMutexGuard<Slot>> {
        self.forget_old();
        let fresh = || {
            Arc::new(Mutex::new(Slot {
                number: i64::MIN,
                state: State::Aborted,
                since: Instant::now(),
            }))
        };
        let slot = Arc::clone(&self.by_session.entry(session).or_insert_with(fresh));
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
        *slot = Slot {
            number,
            state: State::Open(Box::new(data.store.begin().await?)),
            since: Instant::now(),
        };
        Ok(slot)
    }

    async fn open(&self, session: SessionId, number: i64) -> Result<OwnedMutexGuard<Slot>> {
        let slot = self.by_session.get(&session).map(|slot| Arc::clone(&slot));
        let mut slot = slot.ok_or_else(|| none_such(number))?.lock_owned().await;
        if number < slot.number {
            return Err(too_old(number, slot.number));
        }
        if number > slot.number {
            return Err(none_such(number));
        }
        if slot.since.elapsed() > LIFETIME && matches!(slot.state, State::Open(_)) {
            slot.state = State::Aborted;
        }
        match slot.state {
            State::Open(_) => Ok(slot),
            State::Aborted => Err(none_such(number)),
            State::Committed => {
                let message =
                    format!("Transaction with {{ txnNumber: {number} }} has been committed.");
                Err(Failure::new(Code::TRANSACTION_COMMITTED, message))
            }
        }
    }

    /// Commits a session's transaction. Asked again, it answers the same.
    pub(crate) async fn commit(
        &self,
        session: &mut Session,
        id: SessionId,
        number: i64,
    ) -> Result<()> {
        let mut slot = match self.open(id, number).await {
            Err(failure) if failure.code() == Code::TRANSACTION_COMMITTED => return Ok(()),
            slot => slot?,
        };
        let State::Open(transaction) = std::mem::replace(&mut slot.state, State::Aborted) else {
            return Err(none_such(number));
        };
        let committed = transaction.commit().await?;
        session.spent(&committed.meter);
        slot.state = State::Committed;
        Ok(())
    }

    /// Gives a session's transaction up.
    pub(crate) async fn abort(&self, id: SessionId, number: i64) -> Result<()> {
        let mut slot = self.open(id, number).await?;
        slot.state = State::Aborted;
        Ok(())
    }

    /// Ends whatever a session has open, because the session ends.
    pub(crate) fn end_session(&self, id: SessionId) {
        self.by_session.remove(&id);
    }

    fn forget_old(&self) {
        if self.by_session.len() < MAX_KEPT {
            return;
        }
        self.by_session.retain(|_, slot| {
            slot.try_lock()
                .map_or(true, |slot| slot.since.elapsed() < REMEMBERED)
        });
    }
}

impl Scope {
    /// A transaction to read in.
    pub(crate) async fn reader(&mut self, data: &Data) -> Result<Reader<'_>> {
        match self {
            Self::Alone => Ok(Reader::Own(data.store.begin().await?)),
            Self::Joined(joined) => Ok(Reader::Shared(joined.transaction()?)),
        }
    }

    /// Runs a statement that writes. Alone it is repeated after conflicts and committed; as part of
    /// a transaction it runs once. `items` are those it is known to change.
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
            Self::Alone => {
                let outcome = data.store.run(items, statement).await?;
                session.spent(&outcome.meter);
                Ok(outcome.value)
            }
            Self::Joined(joined) => statement(joined.transaction()?).await,
        }
    }

    pub(crate) fn is_joined(&self) -> bool {
        matches!(self, Self::Joined(_))
    }

    /// Begins the session's transaction anew at this moment, if it has done nothing yet: it is to
    /// see what was created for it.
    pub(crate) async fn refresh(&mut self, data: &Data) -> Result<()> {
        if let Self::Joined(joined) = self {
            let transaction = joined.transaction()?;
            if !transaction.meter().partitions().is_empty() {
                let message =
                    "a collection cannot be created by a later statement of a transaction";
                return Err(Failure::new(
                    Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                    message,
                ));
            }
            *transaction = data.store.begin().await?;
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
            State::Open(transaction) => Ok(transaction),
            State::Committed | State::Aborted => Err(none_such(number)),
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if !self.succeeded {
            self.slot.state = State::Aborted;
        }
    }
}

fn none_such(number: i64) -> Failure {
    let message =
        format!("Given transaction number {number} does not match any in-progress transactions.");
    Failure::new(Code::NO_SUCH_TRANSACTION, message)
}

fn too_old(number: i64, latest: i64) -> Failure {
    let message = format!(
        "Cannot start transaction {number} on session because a newer transaction {latest} has \
         already started."
    );
    Failure::new(Code::TRANSACTION_TOO_OLD, message)
}
