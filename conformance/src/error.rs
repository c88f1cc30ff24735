//! What can go wrong between a test and the server it drives.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::http;

/// Why a server could not be built, started, reached or stopped.
///
/// Messages carry what the server printed: the test's report is all that a reader of CI has.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The binary is where neither `TESSERA_BINARY` nor the test's own folder says.
    #[error("no tessera binary at {}", .0.display())]
    NoBinary(PathBuf),
    /// `cargo build` of the binary failed; its messages are on standard error.
    #[error("building tessera failed: {0}")]
    Build(ExitStatus),
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted, with the file or address it concerned.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The server ended before it listened.
    #[error("tessera ended before it was ready: {status}\n{output}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Everything that it printed.
        output: String,
    },
    /// The server did not listen, or did not end, in time.
    #[error("tessera was not {state} after {waited:?}\n{output}")]
    Late {
        /// `ready` or `stopped`.
        state: &'static str,
        /// How long the test waited.
        waited: Duration,
        /// Everything that it printed so far.
        output: String,
    },
    /// The server ended with something else than exit code 0 after SIGTERM.
    #[error("tessera ended with {status} after SIGTERM\n{output}")]
    Unclean {
        /// How it ended.
        status: ExitStatus,
        /// Everything that it printed.
        output: String,
    },
    /// A client, or what installs one, failed.
    #[error("{command}: {status}\n{output}")]
    Client {
        /// What ran.
        command: String,
        /// How it ended, or that it did not.
        status: String,
        /// What it printed.
        output: String,
    },
    /// The server runs without a front end that is needed.
    #[error("nothing serves {front_end}\n{output}")]
    NoListener {
        /// Its name.
        front_end: String,
        /// Everything that the server printed.
        output: String,
    },
    /// A ledger is not what one should be.
    #[error("the ledger of {suite}: {reason}")]
    Ledger {
        /// Which one.
        suite: &'static str,
        /// What is wrong in it.
        reason: String,
    },
    /// What came back is no HTTP response.
    #[error("not an HTTP response: {0:?}")]
    NotHttp(String),
    /// `/health` did not say that the server is well and where it listens.
    #[error("unexpected /health: {0:?}")]
    NotHealthy(http::Response),
}

impl Error {
    /// Turns an I/O error into one that says what was attempted.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
