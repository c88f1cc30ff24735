//! Sharding: placing a collection's documents by the hash of their shard key.
//!
//! A sharded collection is a container whose logical partitions are the values of its shard key.
//! What MongoDB calls a shard is here a physical partition: a range of hashes with a size and a
//! share of the throughput, split and merged by the core. Ranged keys (`{ a: 1 }`) are accepted
//! too, and placed by their hash like all others; the reply says so.

mod chunks;
mod cluster;
mod collections;
pub(crate) mod config;
mod consistency;
mod insight;
mod key;
mod layout;
mod place;
mod progress;
pub(crate) mod rows;
pub(crate) mod statistics;
#[cfg(test)]
mod tests;

pub(crate) use chunks::COMMANDS as CHUNK_COMMANDS;
pub(crate) use cluster::COMMANDS as CLUSTER_COMMANDS;
pub(crate) use collections::COMMANDS as COLLECTION_COMMANDS;
pub(crate) use consistency::COMMANDS as CONSISTENCY_COMMANDS;
pub(crate) use insight::COMMANDS as INSIGHT_COMMANDS;
pub(crate) use key::{check_unique_index, check_unmoved};
pub(crate) use layout::{FIRST_SHARD, explain_shards, shard_name};
pub(crate) use place::shard_by_hash;
pub(crate) use progress::operations;
