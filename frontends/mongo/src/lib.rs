//! The MongoDB front end: mongosh and the drivers over their wire protocol.
//!
//! Bytes become a message (`wire`), a message a `request::Request`; the dispatcher finds its row in
//! the table of commands, checks who asks and how, and runs it; a `reply::Reply` becomes bytes
//! again. Only `connection` touches the socket.

mod access;
mod batch;
#[cfg(test)]
mod client;
mod collection;
mod command;
mod commands;
mod concern;
mod context;
mod cursor;
mod data;
mod dispatch;
mod execute;
mod failure;
mod fields;
mod index;
mod listing;
mod logical;
mod model;
mod plan;
mod reply;
mod request;
mod service;
mod session;
mod sharding;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transaction;
mod wire;
mod write;

pub use model::MongoModel;
pub use service::MongoConfig;

/// The name of this API in the core's catalog.
pub const API: &str = "mongo";
