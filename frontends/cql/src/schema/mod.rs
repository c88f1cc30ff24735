//! What is defined: keyspaces, tables, types, indexes and views.
//!
//! `definition` holds them, `resolve` and the files named after statements make them from
//! statements and refuse what cannot be, `stored` writes them for the catalog, `describe` prints
//! them as Cassandra 5 does.

mod alter_table;
mod alter_type;
mod compaction;
mod compression;
mod create_index;
mod create_table;
mod create_view;
mod definition;
mod describe;
#[cfg(test)]
pub(crate) mod generated;
mod keyspace_options;
mod options;
mod resolve;
mod storage_attached;
mod stored;
mod stored_types;
#[cfg(test)]
pub(crate) mod testing;
mod type_limits;

pub(crate) use alter_table::{AlteredTable, alter_table};
pub(crate) use alter_type::{alter_type, fields_with_type, uses, with_type};
pub(crate) use create_index::{check_durations, create_index};
pub(crate) use create_table::create_table;
pub(crate) use create_view::{create_view, relations_of};
pub(crate) use definition::{Column, ColumnKind, Index, Keyspace, Table, Types, View, check_name};
pub(crate) use describe::{
    describe_index, describe_keyspace, describe_table, describe_type, describe_view,
};
pub(crate) use keyspace_options::{DATA_CENTER, keyspace_options};
pub(crate) use options::TableOptions;
pub(crate) use resolve::{create_type, resolve_type};
pub(crate) use stored::Relation;
pub(crate) use stored_types::{KeyspaceDefinition, LostType};
pub(crate) use type_limits::check_with;
