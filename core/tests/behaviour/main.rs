//! How the core behaves, on the memory engine: one file for each part of it.

#![cfg(test)]

mod background;
mod catalog;
mod convoys;
mod damage;
mod expiry;
mod feed;
mod feed_changes;
mod feed_schemas;
mod feed_scopes;
mod indexes;
mod insight;
mod interception;
mod interleavings;
mod items;
mod limits;
mod open_transactions;
mod partitions;
mod poison;
mod relocation;
mod support;
mod survey;
mod throttling;
mod unfinished;
