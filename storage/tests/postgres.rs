//! What is particular to the PostgreSQL engine: round trips, lost answers, silence, refusals, long
//! keys, failover.
#![cfg(test)]

#[path = "postgres/cluster.rs"]
mod cluster;
#[path = "postgres/copying.rs"]
mod copying;
#[path = "postgres/failover.rs"]
mod failover;
#[path = "postgres/feed_failover.rs"]
mod feed_failover;
#[path = "postgres/guards.rs"]
mod guards;
#[path = "postgres/housekeeping.rs"]
mod housekeeping;
#[path = "postgres/hung.rs"]
mod hung;
#[path = "postgres/keys.rs"]
mod keys;
#[path = "postgres/log.rs"]
mod log;
#[path = "postgres/migration.rs"]
mod migration;
#[path = "postgres/proxy.rs"]
mod proxy;
#[path = "postgres/refusals.rs"]
mod refusals;
#[path = "postgres/starvation.rs"]
mod starvation;
#[path = "postgres/two_servers.rs"]
mod two_servers;
#[path = "postgres/wire.rs"]
mod wire;

use bytes::Bytes;
use tessera_core::write_set::WriteSet;

fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

fn writes(change: impl FnOnce(&mut WriteSet)) -> WriteSet {
    let mut writes = WriteSet::default();
    change(&mut writes);
    writes
}

fn put(key: &str, value: &str) -> WriteSet {
    writes(|set| set.put(bytes(key), bytes(value)))
}
