//! The signals that stop the server, and the one that reloads it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, caught from the creation of this value on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self {
            terminate,
            interrupt,
        })
    }

    /// Waits for the next signal and names it.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends the process at the next signal.
    pub(crate) fn exit_on_next(mut self) {
        tokio::spawn(async move {
            let signal = self.next().await;
            tracing::warn!(signal, "second signal: stopping at once");
            std::process::exit(SECOND_SIGNAL_EXIT);
        });
    }
}

/// SIGHUP, which would end the process if it were not caught.
pub(crate) struct Hangups(Signal);

impl Hangups {
    pub(crate) fn install() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            // No further signal will come.
            std::future::pending().await
        }
    }
}

/// The exit code that shells report for a process ended by SIGINT.
const SECOND_SIGNAL_EXIT: i32 = 130;
