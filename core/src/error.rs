//! The few errors a front end must tell apart. Each front end turns them into its protocol's own
//! codes in one exhaustive `match`, so a variant is added only where some protocol answers it
//! differently.

use std::time::Duration;

use crate::budget::Shortage;
use crate::deadline::Interruption;
use crate::engine::EngineError;
use crate::memory_budget::OutOfMemory;

/// What the core answers.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the core could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A container, index or job that is not there.
    #[error("{0} does not exist")]
    NotFound(String),
    /// A container, index or item that is already there.
    #[error("{0} already exists")]
    AlreadyExists(String),
    /// Another item holds this value of a unique index.
    #[error("another item has the same value in the unique index '{index}'")]
    DuplicateValue {
        /// Name of the index.
        index: String,
    },
    /// The item does not fit its container: a front end's own rule, in its own words.
    #[error("{0}")]
    Rejected(String),
    /// Another transaction changed what this one read or wrote. Run again, it may succeed.
    #[error("the transaction conflicts with another one; try it again")]
    Conflict,
    /// The engine lost its answer: the commit may or may not have been applied.
    #[error("it is not known whether the commit was applied")]
    OutcomeUnknown,
    /// A key, item or transaction beyond a limit.
    #[error("{what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// Its size in bytes.
        size: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// A logical partition has no room for more.
    #[error("the partition key reached the maximum size of {}", size_text(*limit))]
    PartitionFull {
        /// The most bytes that it may hold.
        limit: i64,
    },
    /// A continuation that was not made by this container, or is no longer valid.
    #[error("the continuation is not valid: {0}")]
    InvalidContinuation(&'static str),
    /// What follows a position of a change feed is not there any more, or never was.
    #[error("the change feed cannot be resumed: {0}")]
    HistoryLost(&'static str),
    /// The partition's request units of this second are used up.
    #[error(
        "the request rate is too large: {shortage}; try again in {} ms",
        retry_after.as_millis()
    )]
    Throttled {
        /// When the next attempt may pass.
        retry_after: Duration,
        /// Whether the request has already waited for its turn.
        waited: bool,
        /// Why nothing is left.
        shortage: Box<Shortage>,
    },
    /// No memory is left for it.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The engine cannot be reached right now.
    #[error("{0}")]
    Unavailable(String),
    /// The engine stopped taking writes to protect its data.
    #[error("{0}")]
    ReadOnly(String),
    /// The operation was ended: its deadline passed, or its client is gone.
    #[error(transparent)]
    Interrupted(#[from] Interruption),
    /// Stored bytes are not what was written.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// A bug.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Whether the engine itself failed, so that any further request would fail as well.
    pub fn is_of_engine(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::ReadOnly(_) | Self::OutcomeUnknown
        )
    }
}

/// A limit in readable form: in the largest unit of which it is a whole number.
fn size_text(bytes: i64) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    let whole = units
        .iter()
        .find(|(shift, _)| bytes > 0 && bytes % (1 << shift) == 0);
    match whole {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// The error of a statement: the core's, or a front end's own that can hold it.
pub trait StatementError: From<Error> + Send {
    /// Whether the statement may succeed if it is run again.
    fn is_conflict(&self) -> bool;
}

impl StatementError for Error {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict)
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Unavailable(_) => Self::Unavailable(error.to_string()),
            EngineError::ReadOnly(_) => Self::ReadOnly(error.to_string()),
            EngineError::Corrupt(cause) => Self::Corrupt(cause),
            EngineError::TooLarge { what, size, limit } => Self::TooLarge { what, size, limit },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_said_as_people_set_them() {
        for (limit, expected) in [
            (20 << 30, "20 GB"),
            (3 << 20, "3 MB"),
            (1_500, "1500 bytes"),
        ] {
            let message = Error::PartitionFull { limit }.to_string();
            assert!(
                message.ends_with(&format!("maximum size of {expected}")),
                "{message}"
            );
        }
    }
}
