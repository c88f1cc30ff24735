//! The error of a command: the language's error with labels and further fields of the reply, and
//! the one place where the core's errors become MongoDB's codes.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use bson::{Bson, Document};
use tessera_core::budget::Shortage;
use tessera_core::deadline::Interruption;
use tessera_core::error::StatementError;
use tessera_mongo_language::error::{Code, Error};

use crate::model::refusal_of;

/// What commands answer.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Cosmos DB's code for a request beyond the provisioned throughput. MongoDB itself has none.
pub(crate) const REQUEST_RATE_TOO_LARGE: Code = Code(16500);

/// A failed command. Failures are rare, so that they may cost an allocation and results stay small.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure(Box<Parts>);

/// What a failure is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parts {
    pub(crate) error: Error,
    /// Labels that the place of failure knows. The dispatcher adds those that follow from the code.
    pub(crate) labels: Vec<&'static str>,
    /// Fields of the reply beside the code, as `keyPattern` of a duplicate key.
    pub(crate) fields: Document,
    /// When a throttled request may come again.
    pub(crate) retry_after: Option<Duration>,
    /// Whether something was done that would be done again if the request came again.
    pub(crate) is_half_done: bool,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Error::new(code, message).into()
    }

    /// The language's error in it; what only replies carry is lost.
    pub(crate) fn into_error(self) -> Error {
        self.0.error
    }

    /// The same with one more field in the reply.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Bson>) -> Self {
        self.fields.insert(field, value);
        self
    }

    /// The same with one more label.
    pub(crate) fn labelled(mut self, label: &'static str) -> Self {
        if !self.labels.contains(&label) {
            self.labels.push(label);
        }
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.error.code
    }

    /// Whether it is for want of throughput, and so not for what the request asks.
    pub(crate) fn is_throttled(&self) -> bool {
        self.retry_after.is_some()
    }

    /// The same, saying that it came after `count` documents were written.
    pub(crate) fn after_writing(mut self, count: u64) -> Self {
        let text = format!("; {count} documents were written before");
        self.error.message.push_str(&text);
        self
    }
}

impl Deref for Failure {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(Box::new(Parts {
            error,
            labels: Vec::new(),
            fields: Document::new(),
            retry_after: None,
            is_half_done: false,
        }))
    }
}

impl From<Interruption> for Failure {
    fn from(interruption: Interruption) -> Self {
        Error::from(interruption).into()
    }
}

impl From<tessera_core::Error> for Failure {
    /// A command that knows what was missing or taken answers that itself, in MongoDB's words; this
    /// is what is left.
    fn from(error: tessera_core::Error) -> Self {
        use tessera_core::Error as Core;

        let message = error.to_string();
        let code = match error {
            Core::NotFound(_) => Code::NAMESPACE_NOT_FOUND,
            Core::AlreadyExists(_) => Code::NAMESPACE_EXISTS,
            Core::DuplicateValue { .. } => Code::DUPLICATE_KEY,
            Core::Rejected(text) => return refusal_of(&text).into(),
            Core::Conflict => Code::WRITE_CONFLICT,
            // The commit may have been applied: a driver that runs a retryable write again gets the
            // answer of the first, which is what this code makes it do.
            Core::OutcomeUnknown => Code::NETWORK_TIMEOUT,
            Core::TooLarge { .. } | Core::PartitionFull { .. } => Code::BSON_OBJECT_TOO_LARGE,
            Core::InvalidContinuation(_) => Code::CURSOR_NOT_FOUND,
            Core::HistoryLost(_) => Code::CHANGE_STREAM_HISTORY_LOST,
            Core::Throttled {
                retry_after,
                waited,
                shortage,
            } => {
                let mut failure = match waited {
                    true => {
                        let message = "Request timed out. Retries due to rate limiting: True.";
                        Self::new(Code::MAX_TIME_MS_EXPIRED, message)
                    }
                    false => throttled(retry_after, &shortage),
                };
                failure.retry_after = Some(retry_after);
                return failure;
            }
            Core::OutOfMemory(_) => Code::EXCEEDED_MEMORY_LIMIT,
            // As mongos says of a shard: drivers try again, and do not take this server for one
            // that is going away.
            Core::Unavailable(_) => Code::HOST_UNREACHABLE,
            // Not as a server that lost its primacy: drivers would stop reading from it too.
            Core::ReadOnly(_) => Code::OUT_OF_DISK_SPACE,
            Core::Interrupted(interruption) => return interruption.into(),
            Core::Corrupt(_) | Core::Internal(_) => {
                tracing::error!(%message, "internal error in a command");
                Code::INTERNAL_ERROR
            }
        };
        Self::new(code, message)
    }
}

/// Says it as Cosmos DB does; clients read the wait from the message.
fn throttled(retry_after: Duration, shortage: &Shortage) -> Failure {
    let message = format!(
        "Error=16500, RetryAfterMs={}, Details='The request rate is too large: {shortage}. Please \
         retry after the time given.'",
        retry_after.as_millis()
    );
    Failure::new(REQUEST_RATE_TOO_LARGE, message)
}

impl StatementError for Failure {
    fn is_conflict(&self) -> bool {
        self.code() == Code::WRITE_CONFLICT
    }
}

/// Bytes that were checked when they arrived and still cannot be read.
impl From<bson::error::Error> for Failure {
    fn from(error: bson::error::Error) -> Self {
        Self::new(Code::INVALID_BSON, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tessera_core::Error as Core;

    use super::*;

    #[test]
    fn errors_of_the_core_have_codes_that_drivers_understand() {
        for (error, code) in [
            (Core::Conflict, 112),
            (Core::NotFound("x".into()), 26),
            (Core::AlreadyExists("x".into()), 48),
            (Core::DuplicateValue { index: "i".into() }, 11000),
            (Core::OutcomeUnknown, 89),
            (Core::Unavailable("x".into()), 6),
            (Core::ReadOnly("x".into()), 14031),
            (Core::HistoryLost("x"), 286),
            (Core::Internal("x".into()), 1),
            (
                Core::Throttled {
                    retry_after: Duration::from_secs(1),
                    waited: true,
                    shortage: Box::default(),
                },
                50,
            ),
        ] {
            assert_eq!(Failure::from(error.clone()).code(), Code(code), "{error}");
        }
    }

    #[test]
    fn throttling_says_when_to_come_back() {
        let retry_after = Duration::from_millis(1_500);
        let failure = Failure::from(Core::Throttled {
            retry_after,
            waited: false,
            shortage: Box::default(),
        });
        assert!(failure.is_throttled());
        assert_eq!(failure.code(), REQUEST_RATE_TOO_LARGE);
        assert_eq!(failure.retry_after, Some(retry_after));
        assert!(failure.error.message.contains("RetryAfterMs=1500"));
    }

    #[test]
    fn only_conflicts_are_worth_another_attempt() {
        assert!(Failure::from(Core::Conflict).is_conflict());
        assert!(!Failure::from(Core::OutcomeUnknown).is_conflict());
    }
}
