//! Starts the `tessera` binary the way a user does and talks to it from outside.
//!
//! This crate depends on no other crate of the workspace: what it knows of the server is its
//! command line, its banner, its exit code and the bytes on its sockets. A test does
//!
//! ```no_run
//! # fn main() -> Result<(), tessera_conformance::Error> {
//! use tessera_conformance::{Server, http};
//!
//! let server = Server::start(&["--memory"])?;
//! let health = http::get(server.console(), "/health")?;
//! assert_eq!(health.status, 200);
//! server.stop()
//! # }
//! ```

pub mod binary;
pub mod cases;
pub mod check;
pub mod clients;
mod error;
pub mod fixtures;
pub mod http;
pub mod ledger;
pub mod made_up;
mod output;
pub mod packages;
pub mod peers;
mod postgres;
mod process;
pub mod relay;
pub mod reports;
pub mod runner;
mod server;
pub mod suites;

pub use error::Error;
pub use postgres::Postgres;
pub use process::Process;
pub use server::Server;
