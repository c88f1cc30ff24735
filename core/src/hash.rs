//! Partition key → token: where on the ring a logical partition lies.
//!
//! Two hashes, each exactly as the system computes it whose clients will check: Cassandra's Murmur3
//! for CQL and Table, MongoDB's hashed value for sharded collections.

pub mod mongo;
pub mod murmur3;
