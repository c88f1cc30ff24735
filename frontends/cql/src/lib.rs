//! The Cassandra front end: cqlsh and the drivers over the CQL native protocol.
//!
//! Bytes go through `wire`, statements through `parser` into `statement`, values through `types`;
//! `schema` holds what is defined and prints it. All of these are pure: no socket, no store.
#![expect(
    dead_code,
    unused_imports,
    reason = "connections and statements, which use it, come next"
)]

mod catalog;
mod error;
mod execute;
mod failure;
mod functions;
mod parser;
mod plan;
mod row;
mod schema;
mod service;
mod statement;
mod system;
mod types;
mod wire;

pub use service::CqlConfig;

/// The name of this API in the core's catalog.
pub const API: &str = "cql";
