//! The handling of a bulk write that runs out of throughput. The reply always says what was done:
//!
//! - Nothing was done: the command fails, with the labels that make drivers send it again.
//! - Something was done: the server waits for the rest itself, for at most [`LONGEST_WAIT`] in all
//!   and no longer than the command may take.
//! - That is not enough, and the client has numbered its write and backs off when it is told to:
//!   the command fails with those labels too, and says in `n` what was done. Sent again, it does
//!   not repeat that.
//! - Any other client gets `n` and a write error for each statement that was not done, and for one
//!   of many documents that was done in part: nothing that drivers would send again by themselves.
//! - In a transaction the command fails, and nothing of the transaction is done.
//!
//! `$merge` has no reply to put this into: once it has written anything, it fails without the label
//! that makes drivers send it again, and says how much that was. `$out` and `findAndModify` do all
//! or nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::failure::{Failure, REQUEST_RATE_TOO_LARGE};
use crate::request::Request;
use crate::session::Session;

/// How long a command that was done in part waits for throughput to go on, in all.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// What must be left of a command's time when it goes on, to answer in.
const MARGIN: Duration = Duration::from_millis(50);

/// How a command goes on after it was refused throughput.
pub(crate) struct Throttle {
    /// Whether the client sends again what was done in part, and may.
    resends: bool,
    /// Whether something was done that stays.
    has_begun: bool,
    left: Duration,
    /// When the client wants its answer.
    deadline: Option<Instant>,
}

impl Throttle {
    pub(crate) fn of(session: &Session, request: &Request<'_>) -> Self {
        let limit = request.generic.max_time;
        Self {
            resends: session.understands_overload && request.is_retryable_write(),
            has_begun: false,
            left: LONGEST_WAIT,
            deadline: limit.map(|limit| Instant::now() + limit),
        }
    }

    /// Whether the client sends again what was done in part, and may.
    pub(crate) fn resends(&self) -> bool {
        self.resends
    }

    /// Something was done that stays.
    pub(crate) fn begin(&mut self) {
        self.has_begun = true;
    }

    /// After a statement was refused although something was done: waits until it may be tried
    /// again. Not if it was refused for another reason, or that takes too long.
    pub(crate) async fn wait(&mut self, failure: &Failure) -> bool {
        // Others have waited already, for as long as the server is set to.
        let is_refused = self.has_begun && failure.code() == REQUEST_RATE_TOO_LARGE;
        let Some(wait) = failure.retry_after.filter(|_| is_refused) else {
            return false;
        };
        let until = Instant::now() + wait;
        let is_late = |deadline: Instant| until + MARGIN > deadline;
        if wait > self.left || self.deadline.is_some_and(is_late) {
            return false;
        }
        self.left -= wait;
        // Boxed: few commands wait.
        Box::pin(tokio::time::sleep_until(until)).await;
        true
    }
}
