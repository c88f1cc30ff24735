//! The partitioned core of Tessera: everything the front ends share, and no protocol, disk or
//! socket.
//!
//! A [`store::Store`] sits on an [`engine::Engine`]. A [`transaction::Transaction`] reads and
//! writes [`item::Item`]s of [`container::Container`]s; items are found by [`locator::Locator`]:
//! token, partition key, row key. A container's [`partition_map::PartitionMap`] says which physical
//! partition holds which tokens; splitting one only changes that map. Every operation is counted,
//! and [`throughput::Meter`] turns the counts into request units. Where the core must interpret a
//! body, it calls the front end's [`model::Model`]. All keys are listed in [`key`].
//!
//! `examples/embed.rs` uses it without a server.

mod allotment;
pub mod background;
pub mod budget;
pub mod catalog;
pub mod clock;
pub mod container;
pub mod continuation;
mod convoy;
mod creation;
mod damage;
mod database;
pub mod deadline;
pub mod definition;
pub mod encoding;
pub mod engine;
pub mod error;
mod expiry;
pub mod feed;
pub mod hash;
pub mod insight;
mod intent;
pub mod item;
pub mod job;
pub mod key;
pub mod key_map;
mod latch;
mod layout_change;
mod lease;
pub mod limits;
pub mod locator;
pub mod memory;
pub mod memory_budget;
mod misfit;
pub mod model;
pub mod moment;
pub mod name;
mod orphan;
mod overlay;
pub mod partition_map;
pub mod provisioning;
mod ranges;
pub mod reading;
mod reaper;
pub mod rebuild;
pub mod recent_commits;
mod schema_change;
mod sequence;
pub mod sharing;
mod sizing;
pub mod split;
pub mod statistics;
pub mod store;
pub mod survey;
pub mod throughput;
pub mod transaction;
mod upgrade;
mod verify;
mod walk;
pub mod write_set;
mod writing;

pub use container::Container;
pub use error::{Error, Result};
pub use store::Store;
pub use transaction::Transaction;
