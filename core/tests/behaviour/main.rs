//! How the core behaves, on the memory engine: one file for each part of it.

mod catalog;
mod expiry;
mod indexes;
mod items;
mod partitions;
mod relocation;
mod support;
