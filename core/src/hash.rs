//! Partition key → token: where on the ring a logical partition lies.
//!
//! Two hashes, each exactly that of the system whose clients compute it too: Cassandra's Murmur3
//! for CQL and Table, MongoDB's hashed value for sharded collections.

pub mod mongo;
pub mod murmur3;
