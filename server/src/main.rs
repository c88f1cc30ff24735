//! The `tessera` program.
//!
//! `cli` finds the command, `settings` its settings. `serve` opens the data, then the front ends of
//! the table in `front_ends`, each behind a `listener`; `control` lets other commands reach a
//! running server. Only this crate opens sockets.

mod advise;
mod allocator;
mod backup;
mod banner;
mod cli;
mod control;
mod copy;
mod error;
mod front_ends;
mod health;
mod http_client;
mod lingering;
mod listener;
mod notify;
mod open_files;
mod output;
mod places;
mod private_files;
mod program;
mod serve;
mod settings;
mod signals;
mod storage;
mod telemetry;
mod timed_stream;
mod tls;

use std::process::ExitCode;
use std::time::Instant;

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    cli::run(Instant::now())
}
