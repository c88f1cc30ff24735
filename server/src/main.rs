//! The `tessera` program.
//!
//! `cli` finds the command, `settings` what it runs with. `serve` opens the data, then the front
//! ends of the table in `front_ends`, each behind a `listener`; `control` lets other commands reach
//! a running server. Only this crate opens sockets.

mod advise;
mod backup;
mod banner;
mod cli;
mod control;
mod copy;
mod error;
mod front_ends;
mod listener;
mod open_files;
mod output;
mod places;
mod private_files;
mod serve;
mod settings;
mod signals;
mod storage;
mod telemetry;
mod timed_stream;
mod tls;

use std::process::ExitCode;
use std::time::Instant;

/// Write sets are made on one thread and freed on another, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    cli::run(Instant::now())
}
