//! A session's latest transaction: its number and its state.

use std::sync::Weak;
use std::time::{Duration, Instant};

use tessera_core::Transaction;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

/// How long the outcome of a transaction is remembered here. The record of its commit stays longer.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// The latest transaction of a session.
pub(crate) struct Slot {
    pub(crate) number: i64,
    pub(crate) state: State,
    since: Instant,
}

/// How a transaction stands.
pub(crate) enum State {
    Open(Box<Open>),
    /// The engine could not tell whether the commit was applied.
    Unknown,
    Committed,
    Aborted,
    /// Aborted because it was open for too long.
    Expired,
}

/// An open transaction.
pub(crate) struct Open {
    pub(crate) transaction: Box<Transaction>,
    _timer: Timer,
}

/// Ends an open transaction when its time is over, so that it does not pin its snapshot for good.
struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            number: i64::MIN,
            state: State::Aborted,
            since: Instant::now(),
        }
    }
}

impl Slot {
    /// A transaction that begins now; `slot` is where it will lie.
    pub(crate) fn open(
        number: i64,
        transaction: Box<Transaction>,
        slot: Weak<Mutex<Self>>,
    ) -> Self {
        let deadline = transaction
            .deadline()
            .unwrap_or_else(tokio::time::Instant::now);
        let timer = tokio::spawn(async move {
            tokio::time::sleep_until(deadline).await;
            let Some(slot) = slot.upgrade() else {
                return;
            };
            // Waits for a statement that is running just now.
            let mut slot = slot.lock().await;
            if slot.number == number && matches!(slot.state, State::Open(_)) {
                slot.state = State::Expired;
            }
        });
        let timer = Timer(timer.abort_handle());
        Self {
            number,
            state: State::Open(Box::new(Open {
                transaction,
                _timer: timer,
            })),
            since: Instant::now(),
        }
    }

    /// Whether somebody may still ask for it.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        matches!(self.state, State::Open(_) | State::Unknown) || self.since.elapsed() < REMEMBERED
    }
}
