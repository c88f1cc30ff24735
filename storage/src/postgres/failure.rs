//! What an error of the driver means for the engine.

use std::fmt;

use tessera_core::engine::EngineError;
use tokio_postgres::Error;

use super::address::chain;

/// What went wrong, by the reaction to it.
#[derive(Debug)]
pub(super) enum Failure {
    /// Somebody else changed the same; nothing was done.
    Conflict,
    /// The connection is gone, or of no more use. What was sent last may have been done.
    Lost(String),
    /// Nothing came in time. What was sent last may have been done, or may still be.
    Silent(String),
    /// The database has no more connections to give; those that are open go on.
    Crowded(String),
    /// Anything else; nothing was done.
    Engine(EngineError),
}

impl Failure {
    pub(super) fn of(error: &Error) -> Self {
        let text = chain(error);
        let Some(code) = error.code() else {
            return Self::Lost(text);
        };
        match code.code() {
            // Serialization failure, deadlock, a key that exists already, a lock not granted in
            // time, and a connection that was taken for dead.
            "40001" | "40P01" | "23505" | "55P03" | "22012" => Self::Conflict,
            // Completion unknown, shutdowns, timeouts of sessions, and a server that became a
            // standby.
            "40003" | "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25006" => Self::Lost(text),
            code if code.starts_with("08") => Self::Lost(text),
            "53300" => Self::Crowded(text),
            "53100" => Self::Engine(EngineError::ReadOnly(text)),
            "XX001" | "XX002" => Self::Engine(EngineError::Corrupt(text)),
            _ => Self::Engine(EngineError::Unavailable(text)),
        }
    }

    /// For work that changes nothing.
    pub(super) fn into_engine_error(self) -> EngineError {
        match self {
            Self::Engine(error) => error,
            Self::Conflict | Self::Lost(_) | Self::Silent(_) | Self::Crowded(_) => {
                EngineError::Unavailable(self.to_string())
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => f.write_str("the database asks to begin again"),
            Self::Lost(text) | Self::Silent(text) | Self::Crowded(text) => f.write_str(text),
            Self::Engine(error) => fmt::Display::fmt(error, f),
        }
    }
}

/// The same, of an error in work that changes nothing.
pub(super) fn engine_error(error: &Error) -> EngineError {
    Failure::of(error).into_engine_error()
}
