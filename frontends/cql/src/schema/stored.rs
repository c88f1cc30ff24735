//! Definitions as the catalog keeps them: JSON, with types in the words of CQL.
//!
//! User types are named, and found again among those of the keyspace, so that altering a type
//! touches no table.

use serde::{Deserialize, Serialize};

use super::resolve::resolve_type;
use super::{Column, ColumnKind, Index, Table, TableOptions, Types, View};
use crate::error::{CqlError, Result};
use crate::parser::parse_type;
use crate::statement::{Direction, IndexTargetKind};

#[derive(Serialize, Deserialize)]
struct StoredTable {
    keyspace: String,
    name: String,
    id: [u8; 16],
    columns: Vec<StoredColumn>,
    options: TableOptions,
    #[serde(default)]
    indexes: Vec<StoredIndex>,
    #[serde(default)]
    dropped: Vec<(StoredColumn, i64)>,
}

#[derive(Serialize, Deserialize)]
struct StoredColumn {
    name: String,
    kind: StoredKind,
    #[serde(rename = "type")]
    data_type: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    PartitionKey,
    Ascending,
    Descending,
    Static,
    Regular,
}

#[derive(Serialize, Deserialize)]
struct StoredIndex {
    name: String,
    column: String,
    target: StoredTarget,
    class: Option<String>,
    #[serde(default)]
    options: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredTarget {
    Simple,
    Values,
    Keys,
    Entries,
    Full,
}

#[derive(Serialize, Deserialize)]
struct StoredView {
    table: StoredTable,
    base: String,
    includes_all: bool,
    where_clause: String,
}

/// The bytes of a table.
pub(crate) fn encode_table(table: &Table) -> Result<Vec<u8>> {
    to_bytes(&store_table(table))
}

/// The table of these bytes, in a keyspace with these user types.
pub(crate) fn decode_table(bytes: &[u8], types: &Types) -> Result<Table> {
    load_table(from_bytes(bytes)?, types)
}

/// The bytes of a view.
pub(crate) fn encode_view(view: &View) -> Result<Vec<u8>> {
    to_bytes(&StoredView {
        table: store_table(&view.table),
        base: view.base.clone(),
        includes_all: view.includes_all,
        where_clause: view.where_clause.clone(),
    })
}

/// The view of these bytes.
pub(crate) fn decode_view(bytes: &[u8], types: &Types) -> Result<View> {
    let stored: StoredView = from_bytes(bytes)?;
    Ok(View {
        table: load_table(stored.table, types)?,
        base: stored.base,
        includes_all: stored.includes_all,
        where_clause: stored.where_clause,
    })
}

fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| damaged(&error.to_string()))
}

fn from_bytes<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| damaged(&error.to_string()))
}

fn damaged(why: &str) -> CqlError {
    CqlError::new(
        crate::error::ErrorKind::Server,
        format!("A stored definition is damaged: {why}"),
    )
}

fn store_table(table: &Table) -> StoredTable {
    let dropped = table
        .dropped
        .iter()
        .map(|(column, time)| (store_column(column), *time));
    StoredTable {
        keyspace: table.keyspace.clone(),
        name: table.name.clone(),
        id: table.id,
        columns: table.columns.iter().map(store_column).collect(),
        options: table.options.clone(),
        indexes: table.indexes.iter().map(store_index).collect(),
        dropped: dropped.collect(),
    }
}

fn load_table(stored: StoredTable, types: &Types) -> Result<Table> {
    let keyspace = stored.keyspace;
    let load = |column: StoredColumn| load_column(column, &keyspace, types);
    let columns: Result<Vec<Column>> = stored.columns.into_iter().map(load).collect();
    let dropped: Result<Vec<(Column, i64)>> = stored
        .dropped
        .into_iter()
        .map(|(column, time)| Ok((load(column)?, time)))
        .collect();
    Ok(Table {
        columns: columns?,
        dropped: dropped?,
        name: stored.name,
        id: stored.id,
        options: stored.options,
        indexes: stored.indexes.into_iter().map(load_index).collect(),
        keyspace,
    })
}

fn store_column(column: &Column) -> StoredColumn {
    let kind = match column.kind {
        ColumnKind::PartitionKey => StoredKind::PartitionKey,
        ColumnKind::Clustering(Direction::Ascending) => StoredKind::Ascending,
        ColumnKind::Clustering(Direction::Descending) => StoredKind::Descending,
        ColumnKind::Static => StoredKind::Static,
        ColumnKind::Regular => StoredKind::Regular,
    };
    StoredColumn {
        name: column.name.clone(),
        kind,
        data_type: column.data_type.to_string(),
    }
}

fn load_column(stored: StoredColumn, keyspace: &str, types: &Types) -> Result<Column> {
    let kind = match stored.kind {
        StoredKind::PartitionKey => ColumnKind::PartitionKey,
        StoredKind::Ascending => ColumnKind::Clustering(Direction::Ascending),
        StoredKind::Descending => ColumnKind::Clustering(Direction::Descending),
        StoredKind::Static => ColumnKind::Static,
        StoredKind::Regular => ColumnKind::Regular,
    };
    let raw = parse_type(&stored.data_type).map_err(|error| damaged(&error.message))?;
    let data_type = resolve_type(&raw, keyspace, types).map_err(|error| damaged(&error.message))?;
    Ok(Column {
        name: stored.name,
        kind,
        data_type,
    })
}

fn store_index(index: &Index) -> StoredIndex {
    StoredIndex {
        name: index.name.clone(),
        column: index.column.clone(),
        target: match index.kind {
            IndexTargetKind::Simple => StoredTarget::Simple,
            IndexTargetKind::Values => StoredTarget::Values,
            IndexTargetKind::Keys => StoredTarget::Keys,
            IndexTargetKind::Entries => StoredTarget::Entries,
            IndexTargetKind::Full => StoredTarget::Full,
        },
        class: index.class.clone(),
        options: index.options.clone(),
    }
}

fn load_index(stored: StoredIndex) -> Index {
    Index {
        name: stored.name,
        column: stored.column,
        kind: match stored.target {
            StoredTarget::Simple => IndexTargetKind::Simple,
            StoredTarget::Values => IndexTargetKind::Values,
            StoredTarget::Keys => IndexTargetKind::Keys,
            StoredTarget::Entries => IndexTargetKind::Entries,
            StoredTarget::Full => IndexTargetKind::Full,
        },
        class: stored.class,
        options: stored.options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::{keyspace_types, table, view};

    #[test]
    fn tables_come_back() {
        let mut original = table(
            "CREATE TABLE t (a int, b frozen<u>, \"C\" map<text, frozen<list<int>>>, n u, \
             s text static, v vector<float, 3>, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY \
             (b DESC) AND comment = 'x'",
        )
        .unwrap();
        original.dropped.push((original.columns[2].clone(), 7));
        original.indexes.push(Index {
            name: "i".to_owned(),
            column: "C".to_owned(),
            kind: IndexTargetKind::Keys,
            class: Some("sai".to_owned()),
            options: vec![("a".to_owned(), "b".to_owned())],
        });
        let bytes = encode_table(&original).unwrap();
        assert_eq!(decode_table(&bytes, &keyspace_types()), Ok(original));
        for end in 0..bytes.len() {
            assert!(decode_table(&bytes[..end], &keyspace_types()).is_err());
        }
        let lost = decode_table(&bytes, &Types::new()).unwrap_err();
        assert_eq!(
            lost.message,
            "A stored definition is damaged: Unknown type ks.u"
        );
    }

    #[test]
    fn views_come_back() {
        let original = view(
            "CREATE MATERIALIZED VIEW v AS SELECT a, b FROM t WHERE a IS NOT NULL \
             AND b IS NOT NULL PRIMARY KEY (b, a)",
        )
        .unwrap();
        let bytes = encode_view(&original).unwrap();
        assert_eq!(decode_view(&bytes, &keyspace_types()), Ok(original));
    }
}
