//! Rows that are computed, in the order in which stored ones would come.

use bytes::Bytes;
use tessera_core::hash::murmur3;

use super::keys::{partition_key, put_clustering};
use crate::schema::Table;
use crate::system;

/// A computed row and its keys.
pub(super) struct KeyedRow {
    pub(super) partition: Bytes,
    pub(super) clustering: Vec<u8>,
    pub(super) cells: system::Row,
}

/// Rows with their keys.
pub(super) fn keyed(table: &Table, rows: Vec<system::Row>) -> Vec<KeyedRow> {
    let keys = table.partition_key().count();
    rows.into_iter()
        .map(|cells| {
            let bytes = |cell: &Option<Bytes>| cell.clone().unwrap_or_default();
            let components: Vec<Bytes> = cells.iter().take(keys).map(bytes).collect();
            let mut clustering = Vec::new();
            for (cell, column) in cells.iter().skip(keys).zip(table.clustering()) {
                put_clustering(&mut clustering, column, &bytes(cell));
            }
            KeyedRow {
                partition: partition_key(&components).into(),
                clustering,
                cells,
            }
        })
        .collect()
}

/// The rows of these partitions in their order, or of all by token; within each by its key.
pub(super) fn ordered(
    mut rows: Vec<KeyedRow>,
    keys: Option<&[Bytes]>,
    is_reversed: bool,
) -> Vec<KeyedRow> {
    let rank = |row: &KeyedRow| match keys {
        Some(keys) => keys
            .iter()
            .position(|key| *key == row.partition)
            .map(|place| i64::try_from(place).unwrap_or(i64::MAX)),
        None => Some(murmur3::token(&row.partition)),
    };
    rows.retain(|row| rank(row).is_some());
    rows.sort_by(|left, right| {
        let within = left.clustering.cmp(&right.clustering);
        let within = if is_reversed {
            within.reverse()
        } else {
            within
        };
        rank(left)
            .cmp(&rank(right))
            .then_with(|| left.partition.cmp(&right.partition))
            .then(within)
    });
    rows
}
