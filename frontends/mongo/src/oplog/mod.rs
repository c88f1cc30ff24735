//! `local.oplog.rs`: the change feed of all collections as MongoDB's members and their followers
//! read it. There is one where the server presents a replica set.
//!
//! It is computed on each read and stored nowhere: [`log`] reads the feed and numbers its entries,
//! [`entry`] makes documents of them, [`find`] answers queries. The way back is
//! `commands/apply_ops.rs`, which does what entries say.

pub(crate) mod diff;
mod entry;
pub(crate) mod find;
mod log;
