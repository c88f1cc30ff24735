//! What the durable engine owes after a crash: every acknowledged commit, whole, and one clear
//! sentence where it cannot start.
//!
//! `TESSERA_CRASH_ROUNDS` sets how often the writing process is killed (10 if unset).

#[cfg(test)]
#[path = "crash/damage.rs"]
mod damage;
#[cfg(test)]
#[path = "crash/feed.rs"]
mod feed;
#[cfg(test)]
#[path = "crash/full_disk.rs"]
mod full_disk;
#[cfg(test)]
#[path = "crash/kill.rs"]
mod kill;
#[cfg(test)]
#[path = "crash/large_values.rs"]
mod large_values;
#[cfg(test)]
#[path = "crash/log_cut.rs"]
mod log_cut;
#[cfg(test)]
#[path = "crash/store.rs"]
mod store;
#[cfg(test)]
#[path = "crash/support.rs"]
mod support;
#[cfg(test)]
#[path = "crash/sync_order.rs"]
mod sync_order;
