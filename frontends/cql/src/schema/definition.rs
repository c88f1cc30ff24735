//! Definitions as values.

use std::collections::BTreeMap;

use super::TableOptions;
use crate::error::{CqlError, Result};
use crate::statement::{Direction, IndexTargetKind, quoted};
use crate::types::{Analysis, DataType, UserType};

/// The user types of a keyspace, by name.
pub(crate) type Types = BTreeMap<String, UserType>;

/// A keyspace, without what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keyspace {
    pub(crate) name: String,
    /// The class first, by its short name.
    pub(crate) replication: Vec<(String, String)>,
    pub(crate) durable_writes: bool,
}

/// What a column is to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    PartitionKey,
    Clustering(Direction),
    Static,
    Regular,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Tells its cells in rows: never another column's in its table, and the same in views of it.
    /// One that was dropped and is added again has its number again.
    pub(crate) number: u32,
    pub(crate) kind: ColumnKind,
    pub(crate) data_type: DataType,
}

/// A table, or the rows of a view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) keyspace: String,
    pub(crate) name: String,
    pub(crate) id: [u8; 16],
    /// In the order of `SELECT *`: the partition key and the clustering columns in their own order,
    /// then static ones and the others, each by name.
    pub(crate) columns: Vec<Column>,
    pub(crate) options: TableOptions,
    pub(crate) indexes: Vec<Index>,
    /// Columns that were dropped, and when in microseconds: older cells stay invisible.
    pub(crate) dropped: Vec<(Column, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) column: String,
    pub(crate) kind: IndexTargetKind,
    /// The class of a custom index.
    pub(crate) class: Option<String>,
    pub(crate) options: Vec<(String, String)>,
    /// Whether texts are in it as its options say. Indexes of before have them as they were
    /// written, whatever their options say, and are asked so until they are made again.
    pub(crate) is_analyzed: bool,
}

/// A materialized view: a table that follows another one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    pub(crate) table: Table,
    pub(crate) base: String,
    pub(crate) includes_all: bool,
    /// The relations as text.
    pub(crate) where_clause: String,
}

impl Table {
    /// Puts columns in the order that they have everywhere.
    pub(super) fn sort_columns(columns: &mut [Column]) {
        let rank = |column: &Column| match column.kind {
            ColumnKind::PartitionKey => 0,
            ColumnKind::Clustering(_) => 1,
            ColumnKind::Static => 2,
            ColumnKind::Regular => 3,
        };
        columns.sort_by(|left, right| {
            let by_name = || {
                if rank(left) >= 2 {
                    left.name.cmp(&right.name)
                } else {
                    std::cmp::Ordering::Equal
                }
            };
            rank(left).cmp(&rank(right)).then_with(by_name)
        });
    }

    /// What an index makes of the texts of this part of a column.
    pub(crate) fn analysis(&self, column: &str, kind: IndexTargetKind) -> Option<Analysis> {
        let mut indexes = self.indexes.iter();
        indexes.find_map(|index| {
            let is_it = index.is_analyzed && index.kind == kind && index.column == column;
            is_it.then(|| index.analysis()).flatten()
        })
    }

    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub(crate) fn partition_key(&self) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(|column| column.kind == ColumnKind::PartitionKey)
    }

    pub(crate) fn clustering(&self) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(|column| matches!(column.kind, ColumnKind::Clustering(_)))
    }

    /// The number for a column that is added.
    pub(super) fn number_for(&self, name: &str) -> u32 {
        let dropped = || self.dropped.iter().map(|(column, _)| column);
        let same = dropped().find(|column| column.name == name);
        let all = self.columns.iter().chain(dropped());
        let next = || all.map(|column| column.number + 1).max().unwrap_or(0);
        same.map_or_else(next, |column| column.number)
    }

    pub(crate) fn is_counter(&self) -> bool {
        self.columns
            .iter()
            .any(|column| column.data_type.is_counter())
    }

    /// `keyspace.name`, quoted where it must be.
    pub(crate) fn full_name(&self) -> String {
        format!("{}.{}", quoted(&self.keyspace), quoted(&self.name))
    }
}

impl Column {
    pub(crate) fn is_key(&self) -> bool {
        matches!(
            self.kind,
            ColumnKind::PartitionKey | ColumnKind::Clustering(_)
        )
    }
}

impl Index {
    /// The target as the schema's tables hold it.
    pub(crate) fn target(&self) -> String {
        let column = quoted(&self.column);
        match self.kind {
            IndexTargetKind::Simple => column.into_owned(),
            IndexTargetKind::Values => format!("values({column})"),
            IndexTargetKind::Keys => format!("keys({column})"),
            IndexTargetKind::Entries => format!("entries({column})"),
            IndexTargetKind::Full => format!("full({column})"),
        }
    }
}

const NAME_LIMIT: usize = 48;

/// Refuses names that no keyspace or table may have. `what` is `Keyspace` or `Table`.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(is_good) {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "{what} name must not be empty, more than {NAME_LIMIT} characters long, or contain \
         non-alphanumeric-underscore characters (got '{name}')"
    )))
}
