//! Why a command ended: one line for a person, and an exit code.

use std::io;
use std::process::ExitCode;

/// A failure of the program as a whole. Each text says what happened, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line or a setting is invalid.
    #[error("{0}")]
    Settings(String),
    /// The command failed.
    #[error("{0}")]
    Failed(String),
    /// Standard output is closed.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// 2 for wrong usage, 1 for the rest.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Settings(_) => ExitCode::from(2),
            Self::Failed(_) | Self::Output(_) => ExitCode::FAILURE,
        }
    }
}
