//! Cassandra's own keyspaces: tables whose rows are computed when they are read.
//!
//! Clients learn from them what the cluster is like and what is defined. One table of tables per
//! keyspace; a row of it is a name, columns in the words of CREATE TABLE, and a function that gives
//! the rows.

mod auth;
mod build;
mod clients;
mod cluster;
mod definitions;
mod distributed;
mod estimates;
mod traces;
mod views;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use md5::{Digest as _, Md5};
use tessera_core::engine::BoxFuture;

use crate::catalog::{Catalog, KeyspaceEntry, Place, Relation, mark_as_hash};
use crate::error::Result;
use crate::parser::parse;
use crate::schema::{Keyspace, Table, Types, create_table};
use crate::service::Service;
use crate::statement::{PropertyValue, Statement};

pub(crate) use build::{Cell, Cells, Row};
pub(crate) use cluster::{CQL_VERSION, PARTITIONER, tokens};

/// One keyspace of Cassandra's own.
struct SystemKeyspace {
    name: &'static str,
    replication: &'static [(&'static str, &'static str)],
    /// Whether Cassandra computes it, too; such ones are listed apart.
    is_virtual: bool,
    tables: &'static [SystemTable],
}

/// One table of it.
struct SystemTable {
    name: &'static str,
    comment: &'static str,
    /// What stands between the parentheses of CREATE TABLE.
    columns: &'static str,
    rows: Rows,
}

/// Gives the rows of a table.
type Rows = for<'a> fn(&'a Source<'a>) -> BoxFuture<'a, Result<Vec<Row>>>;

/// What rows are computed from.
struct Source<'a> {
    service: &'a Service,
    catalog: &'a Catalog,
    table: &'a Table,
}

const LOCAL: &[(&str, &str)] = &[("class", "LocalStrategy")];
const SIMPLE: &[(&str, &str)] = &[("class", "SimpleStrategy"), ("replication_factor", "1")];

const KEYSPACES: &[SystemKeyspace] = &[
    SystemKeyspace {
        name: "system",
        replication: LOCAL,
        is_virtual: false,
        tables: cluster::TABLES,
    },
    SystemKeyspace {
        name: "system_auth",
        replication: SIMPLE,
        is_virtual: false,
        tables: auth::TABLES,
    },
    SystemKeyspace {
        name: "system_distributed",
        replication: SIMPLE,
        is_virtual: false,
        tables: distributed::TABLES,
    },
    SystemKeyspace {
        name: "system_schema",
        replication: LOCAL,
        is_virtual: false,
        tables: definitions::TABLES,
    },
    SystemKeyspace {
        name: "system_traces",
        replication: SIMPLE,
        is_virtual: false,
        tables: traces::TABLES,
    },
    SystemKeyspace {
        name: "system_views",
        replication: LOCAL,
        is_virtual: true,
        tables: views::TABLES,
    },
    SystemKeyspace {
        name: "system_virtual_schema",
        replication: LOCAL,
        is_virtual: true,
        tables: definitions::VIRTUAL_TABLES,
    },
];

/// The rows of one of these tables, with a cell for each of its columns, in their order.
pub(crate) async fn rows(service: &Service, keyspace: &str, name: &str) -> Result<Vec<Row>> {
    let catalog = service.catalog().await?;
    let relation = catalog
        .find(keyspace)
        .and_then(|entry| entry.relation(name));
    let (Some(relation), Some(system)) = (relation, find(keyspace, name)) else {
        return Ok(Vec::new());
    };
    let source = Source {
        service,
        catalog: &catalog,
        table: &relation.table,
    };
    (system.rows)(&source).await
}

fn find(keyspace: &str, name: &str) -> Option<&'static SystemTable> {
    let keyspace = KEYSPACES.iter().find(|entry| entry.name == keyspace)?;
    keyspace.tables.iter().find(|table| table.name == name)
}

/// Whether Cassandra computes this keyspace, too.
pub(crate) fn is_virtual(keyspace: &str) -> bool {
    KEYSPACES
        .iter()
        .any(|entry| entry.name == keyspace && entry.is_virtual)
}

/// All of these keyspaces, for the catalog.
pub(crate) fn keyspaces() -> BTreeMap<String, Arc<KeyspaceEntry>> {
    static ENTRIES: LazyLock<BTreeMap<String, Arc<KeyspaceEntry>>> =
        LazyLock::new(|| KEYSPACES.iter().filter_map(entry).collect());
    ENTRIES.clone()
}

fn entry(system: &SystemKeyspace) -> Option<(String, Arc<KeyspaceEntry>)> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let keyspace = Keyspace {
        name: system.name.to_owned(),
        replication: system.replication.iter().map(owned).collect(),
        durable_writes: true,
    };
    let mut relations = BTreeMap::new();
    for table in system.tables {
        // A test makes sure that each of them can be read.
        let table = define(system.name, table).ok()?;
        let relation = Relation {
            table: Arc::new(table),
            place: Place::Computed,
            view: None,
            views: Vec::new(),
        };
        relations.insert(relation.table.name.clone(), Arc::new(relation));
    }
    let entry = KeyspaceEntry::system(keyspace, relations);
    Some((system.name.to_owned(), Arc::new(entry)))
}

fn define(keyspace: &str, system: &SystemTable) -> Result<Table> {
    let text = format!("CREATE TABLE \"{}\" ({})", system.name, system.columns);
    let parsed = parse(&text)?;
    let Statement::CreateTable(mut create) = parsed.statement else {
        return Err(crate::error::CqlError::syntax(text));
    };
    let comment = PropertyValue::Text(system.comment.to_owned());
    create.properties.push(("comment".to_owned(), comment));
    let id = id_of(keyspace, system.name);
    create_table(&create, keyspace, &Types::new(), id)
}

/// The id that this table has everywhere.
fn id_of(keyspace: &str, name: &str) -> [u8; 16] {
    let mut id: [u8; 16] = Md5::digest(format!("{keyspace}{name}")).into();
    mark_as_hash(&mut id);
    id
}

/// A table that stays empty here.
const fn empty(name: &'static str, comment: &'static str, columns: &'static str) -> SystemTable {
    SystemTable {
        name,
        comment,
        columns,
        rows: |_| Box::pin(async { Ok(Vec::new()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_defined() {
        let entries = keyspaces();
        for keyspace in KEYSPACES {
            let entry = &entries[keyspace.name];
            assert!(entry.is_system());
            for table in keyspace.tables {
                let defined = entry.relation(table.name);
                assert!(
                    defined.is_some(),
                    "{}",
                    define(keyspace.name, table).unwrap_err().message
                );
            }
        }
        assert!(is_virtual("system_virtual_schema") && !is_virtual("system"));
    }

    #[test]
    fn ids_are_those_of_cassandra() {
        let id = crate::types::uuid_text(id_of("system", "local"));
        assert_eq!(id, "7ad54392-bcdd-35a6-8417-4e047860b377");
    }
}
