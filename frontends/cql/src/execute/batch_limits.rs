//! How large a batch is, as Cassandra counts it, and what that is refused or warned of.
//!
//! Batches of one partition may have any size: they are one write there, as here.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::change::Target;
use super::write::{Rows, Write};
use crate::error::{Result, refuse};
use crate::row::{Cell, Content, Deletion, Row};
use crate::schema::Table;
use crate::statement::BatchType;
use crate::types::DataType;

/// From when on batches are warned of or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Bytes beyond which a batch of several partitions is warned of.
    pub warned_bytes: usize,
    /// Bytes beyond which it is refused.
    pub refused_bytes: usize,
    /// Partitions beyond which a batch that is not logged is warned of.
    pub warned_partitions: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            warned_bytes: 5 << 10,
            refused_bytes: 50 << 10,
            warned_partitions: 10,
        }
    }
}

/// Refuses a batch that is too large; answers what is to be warned of.
pub(super) fn check(
    kind: BatchType,
    writes: &[Write],
    limits: &BatchLimits,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let is_logged = kind == BatchType::Logged;
    let forgets = |write: &&Write| write.table().options.gc_grace_seconds == 0;
    let forgetful = tables(writes.iter().filter(forgets));
    if is_logged && !forgetful.is_empty() {
        warnings.push(format!(
            "Executing a LOGGED BATCH on table{} {}, configured with a gc_grace_seconds of 0. The \
             gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low \
             on tables involved in an atomic batch might cause batchlog entries to expire before \
             being replayed.",
            plural(&forgetful),
            shown(&forgetful)
        ));
    }
    let keys = writes.iter().flat_map(|write| {
        let keyspace = &write.table().keyspace;
        write.keys.iter().map(move |(_, key)| (keyspace, key))
    });
    let mutations: BTreeSet<_> = keys.collect();
    if mutations.len() < 2 {
        return Ok(warnings);
    }
    let names = tables(writes.iter());
    let size = data_size(writes);
    if size > limits.refused_bytes {
        return refuse("Batch too large");
    }
    if size > limits.warned_bytes {
        let (names, limit) = (shown(&names), limits.warned_bytes);
        warnings.push(format!(
            "Batch for {names} is of size {size}, exceeding specified threshold of {limit} by {}.",
            size - limit
        ));
    }
    let partitions: BTreeSet<&Bytes> = mutations.iter().map(|(_, key)| *key).collect();
    if !is_logged && partitions.len() > limits.warned_partitions {
        warnings.push(format!(
            "Unlogged batch covering {} partitions detected against table{} {}. You should use a \
             logged batch for atomicity, or asynchronous writes for performance.",
            partitions.len(),
            plural(&names),
            shown(&names)
        ));
    }
    Ok(warnings)
}

fn tables<'w>(writes: impl Iterator<Item = &'w Write>) -> BTreeSet<String> {
    writes.map(|write| write.table().full_name()).collect()
}

fn plural(names: &BTreeSet<String>) -> &'static str {
    if names.len() == 1 { "" } else { "s" }
}

fn shown(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("[{}]", names.join(", "))
}

/// What a batch writes into one partition of a table.
struct Update<'w> {
    table: &'w Table,
    statics: Row,
    /// By row key, with the bytes of their clustering columns.
    rows: BTreeMap<Bytes, (usize, Row)>,
    ranges: usize,
}

/// The bytes of all that a batch writes, without its keys.
fn data_size(writes: &[Write]) -> usize {
    let mut updates: BTreeMap<([u8; 16], &Bytes), Update<'_>> = BTreeMap::new();
    for write in writes {
        for (_, key) in &write.keys {
            let update = updates.entry((write.table().id, key));
            let update = update.or_insert_with(|| Update::of(write.table()));
            update.add(write);
        }
    }
    updates.values().map(Update::size).sum()
}

impl<'w> Update<'w> {
    fn of(table: &'w Table) -> Self {
        Self {
            table,
            statics: Row::default(),
            rows: BTreeMap::new(),
            ranges: 0,
        }
    }

    fn add(&mut self, write: &Write) {
        let statics = std::mem::take(&mut self.statics);
        self.statics = statics.merge(written(write, true));
        match &write.rows {
            Rows::Each(rows) => {
                for (clustering, key) in rows {
                    let length = clustering.iter().map(Bytes::len).sum();
                    let (_, row) = self.rows.remove(key).unwrap_or_default();
                    let row = row.merge(written(write, false));
                    self.rows.insert(key.clone(), (length, row));
                }
            }
            Rows::Ranges(ranges) => {
                let ends = ranges.iter().map(|range| {
                    range.start.len() + range.end.as_ref().map_or(0, Vec::len) + RANGE_BYTES
                });
                self.ranges += ends.sum::<usize>();
            }
            Rows::Shared | Rows::Everything => {}
        }
    }

    fn size(&self) -> usize {
        let rows = self.rows.values();
        let rows = rows.map(|(clustering, row)| clustering + row_size(self.table, row));
        PARTITION_BYTES + row_size(self.table, &self.statics) + self.ranges + rows.sum::<usize>()
    }
}

/// What a statement writes into a row of which nothing is known.
fn written(write: &Write, is_shared: bool) -> Row {
    let row = if is_shared {
        Row::default()
    } else {
        write.new_row()
    };
    let mut target = Target::new(None, Deletion::NONE, write.stamp, row);
    // What cannot be written without what is there has no size yet, and is refused later.
    write.change(&mut target, is_shared).ok();
    target.written
}

/// The time of a partition's deletion, which is counted also where there is none.
const PARTITION_BYTES: usize = 8;
/// The times of a deleted range.
const RANGE_BYTES: usize = 12;
/// A row's time and its deletion, likewise.
const ROW_BYTES: usize = 8 + 13;
/// When a row or a cell ends: its time to live, and the second.
const ENDING_BYTES: usize = 4 + 8;
/// The deletion of a whole collection.
const COLLECTION_BYTES: usize = 12;
/// A cell's time, time to live and end.
const CELL_BYTES: usize = 8 + ENDING_BYTES;
/// What Cassandra tells the elements of a list apart by.
const UUID_BYTES: usize = 16;

fn row_size(table: &Table, row: &Row) -> usize {
    let is_list = |number: u32| {
        let column = table.columns.iter().find(|column| column.number == number);
        column.is_some_and(|column| matches!(column.data_type, DataType::List { .. }))
    };
    let ends = row.liveness.is_some_and(|liveness| liveness.ends.is_some());
    let columns = row.columns.iter().map(|(number, content)| match content {
        Content::Simple(cell) => cell_size(0, cell),
        Content::Complex { cells, .. } => {
            let is_list = is_list(number);
            let path_size = |path: &Vec<u8>| if is_list { UUID_BYTES } else { path.len() };
            let cells = cells
                .iter()
                .map(|(path, cell)| cell_size(path_size(path), cell));
            COLLECTION_BYTES + cells.sum::<usize>()
        }
    });
    ROW_BYTES + if ends { ENDING_BYTES } else { 0 } + columns.sum::<usize>()
}

fn cell_size(path: usize, cell: &Cell) -> usize {
    CELL_BYTES + path + cell.value.as_ref().map_or(0, Bytes::len)
}
