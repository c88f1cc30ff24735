//! The errors of statements: a refusal of the service, or an error of the core, which is converted
//! to one here.

use tessera_core::Error;
use tessera_core::deadline::Interruption;
use tessera_core::error::StatementError;
use tessera_core::limits::PARTITION_KEY;

use crate::error::{Code, ServiceError};

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(ServiceError),
    Core(Error),
}

impl Failure {
    /// The refusal that this is, changed by `change`; a conflict stays one, and is tried again.
    #[must_use]
    pub(crate) fn map(self, change: impl FnOnce(ServiceError) -> ServiceError) -> Self {
        match self {
            Self::Core(Error::Conflict) => self,
            failure => Self::Refused(change(failure.into())),
        }
    }
}

impl From<ServiceError> for Failure {
    fn from(refusal: ServiceError) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self::Refused(code.into())
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

impl From<Failure> for ServiceError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refusal) => refusal,
            Failure::Core(error) => error.into(),
        }
    }
}

impl From<Interruption> for ServiceError {
    fn from(interruption: Interruption) -> Self {
        let code = match interruption {
            Interruption::TimeLimit => Code::OperationTimedOut,
            Interruption::Memory(_)
            | Interruption::Cancelled
            | Interruption::Shutdown
            | Interruption::Crowded => Code::ServerBusy,
        };
        code.because(interruption)
    }
}

impl From<Interruption> for Failure {
    fn from(interruption: Interruption) -> Self {
        Self::Refused(interruption.into())
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::NotFound(_) => return Code::TableNotFound.into(),
            Error::AlreadyExists(_) => return Code::EntityAlreadyExists.into(),
            Error::Rejected(_) | Error::InvalidContinuation(_) | Error::HistoryLost(_) => {
                Code::InvalidInput
            }
            Error::TooLarge {
                what: PARTITION_KEY,
                ..
            } => Code::PropertyValueTooLarge,
            Error::TooLarge { .. } => Code::EntityTooLarge,
            Error::PartitionFull { .. } => Code::Forbidden,
            Error::OutcomeUnknown => Code::OperationTimedOut,
            Error::Throttled { retry_after, .. } => {
                let mut busy = Self::from(Code::TooManyRequests);
                busy.retry_after_ms = u64::try_from(retry_after.as_millis()).ok();
                return busy;
            }
            Error::Interrupted(interruption) => return (*interruption).into(),
            Error::Conflict
            | Error::OutOfMemory(_)
            | Error::Unavailable(_)
            | Error::ReadOnly(_) => Code::ServerBusy,
            Error::DuplicateValue { .. } | Error::Corrupt(_) | Error::Internal(_) => {
                tracing::error!(%error, "a request failed");
                Code::InternalError
            }
        };
        code.because(error)
    }
}
