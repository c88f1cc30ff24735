//! Refuses values that are too long for an index that Cassandra would keep of them.

use bytes::Bytes;

use super::keys::key_components;
use super::nearest::check_vector;
use crate::error::{CqlError, Result, refuse};
use crate::row::{Content, Row};
use crate::schema::{Column, Index, Table};
use crate::statement::IndexTargetKind;
use crate::types::{DataType, vector_floats};

/// Where Cassandra's keys end, and those of its indexes before.
const LIMIT: usize = 65_535;

/// Checks the key columns of a row that is written.
pub(super) fn check_keys(table: &Table, partition: &[u8], clustering: &[Bytes]) -> Result<()> {
    for (index, column) in indexes(table) {
        let mut keys = table.partition_key();
        if let Some(place) = keys.position(|key| key.name == column.name) {
            let count = table.partition_key().count();
            let components = key_components(partition, count);
            check(table, index, components.get(place).map_or(0, |it| it.len()))?;
        }
        let mut keys = table.clustering();
        if let Some(place) = keys.position(|key| key.name == column.name) {
            check(table, index, clustering.get(place).map_or(0, Bytes::len))?;
        }
    }
    Ok(())
}

/// Checks the cells of a row that is written.
pub(super) fn check_row(table: &Table, row: &Row) -> Result<()> {
    for (index, column) in indexes(table) {
        match row.columns.get(column.number) {
            None => {}
            Some(Content::Simple(cell)) => match (&cell.value, &column.data_type) {
                (Some(vector), DataType::Vector { .. }) if index.is_storage_attached() => {
                    let vector = vector_floats(vector, &column.data_type)?;
                    check_vector(index.similarity(), &vector)?;
                }
                (value, _) => check(table, index, value.as_ref().map_or(0, Bytes::len))?,
            },
            Some(Content::Complex { cells, .. }) => {
                for (path, cell) in cells.iter().filter(|(_, cell)| cell.value.is_some()) {
                    let value = cell.value.as_ref().map_or(0, Bytes::len);
                    let length = match index.kind {
                        IndexTargetKind::Keys => path.len(),
                        IndexTargetKind::Entries => path.len() + value,
                        // The values of a set are its keys.
                        _ if value == 0 => path.len(),
                        _ => value,
                    };
                    check(table, index, length)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks a value that is looked up.
pub(super) fn check_wanted(value: &[u8]) -> Result<()> {
    if value.len() > LIMIT {
        return refuse("Index expression values may not be larger than 64K");
    }
    Ok(())
}

fn indexes(table: &Table) -> impl Iterator<Item = (&Index, &Column)> {
    let indexes = table.indexes.iter();
    indexes.filter_map(|index| Some((index, table.column(&index.column)?)))
}

fn check(table: &Table, index: &Index, length: usize) -> Result<()> {
    if length < LIMIT {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "Cannot index value of size {length} for index {} on {}({}) (maximum allowed size={LIMIT})",
        index.name,
        table.full_name(),
        index.column
    )))
}
