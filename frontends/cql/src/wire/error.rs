//! What is wrong with bytes from a client.

use tessera_core::memory_budget::OutOfMemory;

use crate::error::{CqlError, ErrorKind};

/// A malformed message. All but the last are answered as protocol errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the message ends too early: {needed} more bytes are needed")]
    Truncated { needed: usize },
    #[error("{0} bytes follow the end of the message")]
    Trailing(usize),
    #[error("Invalid {what}: {number}")]
    Unknown { what: &'static str, number: i64 },
    #[error("Invalid value '{name}' for {what}")]
    UnknownName { what: &'static str, name: String },
    #[error("Cannot decode string as UTF8")]
    NotUtf8,
    #[error("Invalid length: {0}")]
    NegativeLength(i64),
    #[error("Invalid value for envelope header body length field: {0}")]
    NegativeBodyLength(i32),
    #[error("Invalid or unsupported protocol version ({0}); supported versions are ({list})",
        list = super::version::LIST)]
    UnsupportedVersion(u8),
    #[error("{0}")]
    NotAllowed(&'static str),
    #[error("Out of bound timestamp, must be in [{least}, {most}] (got {0})",
        least = i64::MIN + 1, most = i64::MAX)]
    TimestampOutOfBounds(i64),
    #[error("Compressed body is damaged: {0}")]
    Compression(String),
    #[error("{0} checksum mismatch")]
    Checksum(&'static str),
    /// Answered as invalid, as Cassandra does.
    #[error("Request is too big: length {length} exceeds maximum allowed length {limit}.")]
    TooLarge { length: u64, limit: u64 },
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

impl From<WireError> for CqlError {
    fn from(error: WireError) -> Self {
        let message = error.to_string();
        match error {
            WireError::TooLarge { .. } => Self::invalid(message),
            WireError::OutOfMemory(_) => Self::new(ErrorKind::Overloaded, message),
            _ => Self::protocol(message),
        }
    }
}
