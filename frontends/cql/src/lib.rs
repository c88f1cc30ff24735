//! The Cassandra front end: cqlsh and the drivers over the CQL native protocol.
//!
//! Bytes go through `wire`, statements through `parser` into `statement`, values through `types`;
//! `schema` holds what is defined and prints it. All of these are pure: no socket, no store.
#![expect(
    dead_code,
    unused_imports,
    reason = "connections and statements, which use it, come next"
)]

mod error;
mod functions;
mod parser;
mod row;
mod schema;
mod statement;
mod types;
mod wire;
