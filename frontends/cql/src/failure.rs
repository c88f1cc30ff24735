//! Why a statement failed: refused in the words of CQL, or by an error of the core.
//!
//! Inside the core's transactions both must be told apart, because conflicts run again.

use tessera_core::Error;
use tessera_core::deadline::Interruption;
use tessera_core::error::StatementError;

use crate::error::{Answers, CqlError, ErrorKind};
use crate::wire::{Consistency, WriteType};

/// What statements fail with while they run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    Refused(CqlError),
    Core(Error),
    /// The definition in force is not the one that the statement was planned with: plan it again.
    Stale,
}

impl From<CqlError> for Failure {
    fn from(error: CqlError) -> Self {
        Self::Refused(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl StatementError for Failure {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Core(Error::Conflict))
    }
}

impl From<Failure> for CqlError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(error) => error,
            Failure::Core(error) => error.into(),
            Failure::Stale => Self::new(
                ErrorKind::Server,
                "The definition of the table kept changing; try again",
            ),
        }
    }
}

/// One replica was asked, and did not answer.
const NO_ANSWER: Answers = Answers {
    consistency: Consistency::One,
    received: 0,
    required: 1,
};

impl From<Interruption> for CqlError {
    fn from(interruption: Interruption) -> Self {
        let kind = match interruption {
            Interruption::TimeLimit => ErrorKind::ReadTimeout {
                answers: NO_ANSWER,
                data_present: false,
            },
            // Another server may do it, and this one later.
            Interruption::Crowded | Interruption::Shutdown | Interruption::Memory(_) => {
                ErrorKind::Overloaded
            }
            // Nobody reads it.
            Interruption::Cancelled => ErrorKind::Server,
        };
        Self::new(kind, interruption.to_string())
    }
}

impl From<Interruption> for Failure {
    fn from(interruption: Interruption) -> Self {
        Self::Refused(interruption.into())
    }
}

impl From<Error> for CqlError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::NotFound(_)
            | Error::AlreadyExists(_)
            | Error::DuplicateValue { .. }
            | Error::Rejected(_)
            | Error::TooLarge { .. }
            | Error::PartitionFull { .. }
            | Error::InvalidContinuation(_)
            | Error::HistoryLost(_) => Self::invalid(message),
            Error::Conflict => Self::new(
                ErrorKind::WriteTimeout {
                    answers: NO_ANSWER,
                    write_type: WriteType::Cas,
                    contentions: u16::MAX,
                },
                message,
            ),
            Error::OutcomeUnknown => Self::new(
                ErrorKind::WriteTimeout {
                    answers: NO_ANSWER,
                    write_type: WriteType::Simple,
                    contentions: 0,
                },
                message,
            ),
            Error::Throttled { retry_after, .. } => {
                let wait = retry_after.as_millis();
                Self::new(
                    ErrorKind::Overloaded,
                    format!("Request rate is large: RetryAfterMs={wait}"),
                )
            }
            Error::OutOfMemory(_) => Self::new(ErrorKind::Overloaded, message),
            Error::Unavailable(_) | Error::ReadOnly(_) => Self::new(
                ErrorKind::Unavailable {
                    consistency: Consistency::One,
                    required: 1,
                    alive: 0,
                },
                message,
            ),
            Error::Interrupted(interruption) => interruption.into(),
            Error::Corrupt(_) | Error::Internal(_) => {
                tracing::error!(cause = message, "a statement failed");
                Self::new(ErrorKind::Server, message)
            }
        }
    }
}
