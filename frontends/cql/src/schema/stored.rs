//! Definitions as the catalog keeps them: JSON, with types in the words of CQL.
//!
//! A relation brings the user types that its columns use, so that its bytes alone say what its rows
//! are: altering a type writes them again, and whoever works with older bytes can tell.
//!
//! What is written is read back at once and must be the same: a definition that could not be read
//! is refused by the statement that makes it. Reading knows no limit that making does not have.

use serde::{Deserialize, Serialize};

use super::resolve::resolve_stored;
use super::stored_types::{StoredType, load_types, store_types};
use super::{Column, ColumnKind, Index, Table, TableOptions, Types, View};
use crate::error::{CqlError, Result, refuse};
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
    number: u32,
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
    #[serde(default)]
    is_analyzed: bool,
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
    base: String,
    includes_all: bool,
    where_clause: String,
}

#[derive(Serialize, Deserialize)]
struct StoredRelation {
    /// What the columns use, each after those that it uses itself.
    types: Vec<StoredType>,
    table: StoredTable,
    /// What makes it a view.
    #[serde(default)]
    view: Option<StoredView>,
    /// The views of it.
    #[serde(default)]
    views: Vec<String>,
}

/// A table or a view, as its container holds it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Relation {
    /// A table, and the names of the views that follow it.
    Table(Table, Vec<String>),
    View(View),
}

impl Relation {
    pub(crate) fn table(&self) -> &Table {
        match self {
            Self::Table(table, _) => table,
            Self::View(view) => &view.table,
        }
    }

    /// The bytes of it, which are known to be read back as the same.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let bytes = self.write()?;
        check_kept(&self.table().full_name(), &bytes, || {
            Ok(Self::decode(&bytes)? == *self)
        })?;
        Ok(bytes)
    }

    fn write(&self) -> Result<Vec<u8>> {
        let table = self.table();
        let used = table
            .columns
            .iter()
            .chain(table.dropped.iter().map(|(column, _)| column));
        let (view, views) = match self {
            Self::Table(_, views) => (None, views.clone()),
            Self::View(view) => {
                let stored = StoredView {
                    base: view.base.clone(),
                    includes_all: view.includes_all,
                    where_clause: view.where_clause.clone(),
                };
                (Some(stored), Vec::new())
            }
        };
        to_bytes(&StoredRelation {
            types: store_types(used.map(|column| &column.data_type)),
            table: store_table(table),
            view,
            views,
        })
    }

    /// What these bytes are.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let stored: StoredRelation = from_bytes(bytes)?;
        let types = load_types(&stored.table.keyspace, stored.types)?;
        let table = load_table(stored.table, &types)?;
        Ok(match stored.view {
            None => Self::Table(table, stored.views),
            Some(view) => Self::View(View {
                table,
                base: view.base,
                includes_all: view.includes_all,
                where_clause: view.where_clause,
            }),
        })
    }
}

pub(super) fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| damaged(&error.to_string()))
}

pub(super) fn from_bytes<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| damaged(&error.to_string()))
}

/// How many bytes a definition may take: all are kept in memory, and read again with each change.
const BYTES_LIMIT: usize = 4 << 20;

/// Refuses bytes that would not be read back as what they were made of.
pub(super) fn check_kept(
    name: &str,
    bytes: &[u8],
    is_same: impl FnOnce() -> Result<bool>,
) -> Result<()> {
    if bytes.len() > BYTES_LIMIT {
        return refuse(format!(
            "The definition of {name} is too large: it may take at most {BYTES_LIMIT} bytes"
        ));
    }
    let why = match is_same() {
        Ok(true) => return Ok(()),
        Ok(false) => "it would be read back as another one".to_owned(),
        Err(error) => error.message,
    };
    refuse(format!("The definition of {name} cannot be kept: {why}"))
}

pub(super) fn damaged(why: &str) -> CqlError {
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
        number: column.number,
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
    let data_type =
        resolve_stored(&raw, keyspace, types).map_err(|error| damaged(&error.message))?;
    Ok(Column {
        name: stored.name,
        number: stored.number,
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
        is_analyzed: index.is_analyzed,
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
        is_analyzed: stored.is_analyzed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::testing::{table, view};

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
            is_analyzed: true,
        });
        let original = Relation::Table(original, vec!["v".to_owned()]);
        let bytes = original.encode().unwrap();
        assert_eq!(Relation::decode(&bytes), Ok(original));
        for end in 0..bytes.len() {
            assert!(Relation::decode(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn a_lost_type_is_damage() {
        let original = table("CREATE TABLE t (a int PRIMARY KEY, b u)").unwrap();
        let text = String::from_utf8(Relation::Table(original, Vec::new()).encode().unwrap());
        let damaged = text.unwrap().replace("\"name\":\"u\"", "\"name\":\"w\"");
        let lost = Relation::decode(damaged.as_bytes()).unwrap_err();
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
        let original = Relation::View(original);
        let bytes = original.encode().unwrap();
        assert_eq!(Relation::decode(&bytes), Ok(original));
    }
}
