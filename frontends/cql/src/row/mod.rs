//! What is written of a partition, and how writes in any order end in the same rows.
//!
//! A write is a small row or record; merging puts two together. Merging asks for no
//! clock and no order: it is commutative, associative and idempotent, because each part keeps the
//! largest of its writes in one total order. What is visible at a time is told when it is read.

mod cell;
mod columns;
#[cfg(test)]
mod partition;
#[cfg(test)]
mod permutation;
mod ranges;
mod record;
mod stored;

pub(crate) use cell::{Cell, Deletion, Liveness};
pub(crate) use columns::Columns;
#[cfg(test)]
pub(crate) use partition::Partition;
pub(crate) use ranges::{KeyRange, Ranges};
pub(crate) use record::{Content, Row};
pub(crate) use stored::{PartitionRecord, StoredRow};
