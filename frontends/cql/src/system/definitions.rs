//! `system_schema` and `system_virtual_schema`: everything that is defined, as rows.

use tessera_core::engine::BoxFuture;

use super::{Cell, Cells, Row, Source, SystemTable, empty, is_virtual};
use crate::catalog::{KeyspaceEntry, Relation};
use crate::error::Result;
use crate::schema::{Column, ColumnKind, Table};
use crate::statement::Direction;

/// The options that tables and views share.
macro_rules! options {
    () => {
        "allow_auto_snapshot boolean, bloom_filter_fp_chance double, \
         caching frozen<map<text, text>>, comment text, compaction frozen<map<text, text>>, \
         compression frozen<map<text, text>>, memtable text, crc_check_chance double, \
         dclocal_read_repair_chance double, default_time_to_live int, \
         extensions frozen<map<text, blob>>, gc_grace_seconds int, incremental_backups boolean, \
         id uuid, max_index_interval int, memtable_flush_period_in_ms int, \
         min_index_interval int, read_repair_chance double, speculative_retry text, \
         additional_write_policy text, cdc boolean, read_repair text, "
    };
}

const COLUMNS: &str = "keyspace_name text, table_name text, column_name text, \
                       clustering_order text, column_name_bytes blob, kind text, position int, \
                       type text, PRIMARY KEY (keyspace_name, table_name, column_name)";

pub(super) const TABLES: &[SystemTable] = &[
    SystemTable {
        name: "keyspaces",
        comment: "keyspace definitions",
        columns: "keyspace_name text PRIMARY KEY, durable_writes boolean, \
                  replication frozen<map<text, text>>",
        rows: |source| each_keyspace(source, keyspace),
    },
    SystemTable {
        name: "tables",
        comment: "table definitions",
        columns: concat!(
            "keyspace_name text, table_name text, flags frozen<set<text>>, ",
            options!(),
            "PRIMARY KEY (keyspace_name, table_name)"
        ),
        rows: |source| each_keyspace(source, tables),
    },
    SystemTable {
        name: "columns",
        comment: "column definitions",
        columns: COLUMNS,
        rows: |source| each_keyspace(source, columns),
    },
    SystemTable {
        name: "views",
        comment: "view definitions",
        columns: concat!(
            "keyspace_name text, view_name text, base_table_id uuid, base_table_name text, \
             where_clause text, include_all_columns boolean, ",
            options!(),
            "PRIMARY KEY (keyspace_name, view_name)"
        ),
        rows: |source| each_keyspace(source, views),
    },
    SystemTable {
        name: "indexes",
        comment: "secondary index definitions",
        columns: "keyspace_name text, table_name text, index_name text, kind text, \
                  options frozen<map<text, text>>, \
                  PRIMARY KEY (keyspace_name, table_name, index_name)",
        rows: |source| each_keyspace(source, indexes),
    },
    SystemTable {
        name: "types",
        comment: "user defined type definitions",
        columns: "keyspace_name text, type_name text, field_names frozen<list<text>>, \
                  field_types frozen<list<text>>, PRIMARY KEY (keyspace_name, type_name)",
        rows: |source| each_keyspace(source, types),
    },
    SystemTable {
        name: "dropped_columns",
        comment: "dropped column registry",
        columns: "keyspace_name text, table_name text, column_name text, dropped_time timestamp, \
                  kind text, type text, PRIMARY KEY (keyspace_name, table_name, column_name)",
        rows: |source| each_keyspace(source, dropped_columns),
    },
    empty(
        "column_masks",
        "column dynamic data masks",
        "keyspace_name text, table_name text, column_name text, function_keyspace text, \
         function_name text, function_argument_types frozen<list<text>>, \
         function_argument_values frozen<list<text>>, \
         function_argument_nulls frozen<list<boolean>>, \
         PRIMARY KEY (keyspace_name, table_name, column_name)",
    ),
    empty(
        "triggers",
        "trigger definitions",
        "keyspace_name text, table_name text, trigger_name text, \
         options frozen<map<text, text>>, PRIMARY KEY (keyspace_name, table_name, trigger_name)",
    ),
    empty(
        "functions",
        "user defined function definitions",
        "keyspace_name text, function_name text, argument_types frozen<list<text>>, \
         argument_names frozen<list<text>>, body text, language text, return_type text, \
         called_on_null_input boolean, \
         PRIMARY KEY (keyspace_name, function_name, argument_types)",
    ),
    empty(
        "aggregates",
        "user defined aggregate definitions",
        "keyspace_name text, aggregate_name text, argument_types frozen<list<text>>, \
         final_func text, initcond text, return_type text, state_func text, state_type text, \
         PRIMARY KEY (keyspace_name, aggregate_name, argument_types)",
    ),
];

pub(super) const VIRTUAL_TABLES: &[SystemTable] = &[
    SystemTable {
        name: "keyspaces",
        comment: "virtual keyspace definitions",
        columns: "keyspace_name text PRIMARY KEY",
        rows: |source| each_virtual_keyspace(source, keyspace),
    },
    SystemTable {
        name: "tables",
        comment: "virtual table definitions",
        columns: "keyspace_name text, table_name text, comment text, \
                  PRIMARY KEY (keyspace_name, table_name)",
        rows: |source| each_virtual_keyspace(source, tables),
    },
    SystemTable {
        name: "columns",
        comment: "virtual column definitions",
        columns: COLUMNS,
        rows: |source| each_virtual_keyspace(source, columns),
    },
];

/// What gives the rows of one keyspace.
type OfKeyspace = fn(&KeyspaceEntry, &Table) -> Vec<Row>;

fn each_keyspace<'a>(source: &'a Source<'a>, rows: OfKeyspace) -> BoxFuture<'a, Result<Vec<Row>>> {
    collect(source, rows, false)
}

fn each_virtual_keyspace<'a>(
    source: &'a Source<'a>,
    rows: OfKeyspace,
) -> BoxFuture<'a, Result<Vec<Row>>> {
    collect(source, rows, true)
}

fn collect<'a>(
    source: &'a Source<'a>,
    rows: OfKeyspace,
    wants_virtual: bool,
) -> BoxFuture<'a, Result<Vec<Row>>> {
    Box::pin(async move {
        let entries = source.catalog.keyspaces();
        let wanted = entries.filter(|entry| is_virtual(&entry.keyspace.name) == wants_virtual);
        Ok(wanted.flat_map(|entry| rows(entry, source.table)).collect())
    })
}

const STRATEGIES: &str = "org.apache.cassandra.locator";

fn keyspace(entry: &KeyspaceEntry, of: &Table) -> Vec<Row> {
    let keyspace = &entry.keyspace;
    let replication = keyspace.replication.iter().map(|(key, value)| {
        let full = (key == "class").then(|| format!("{STRATEGIES}.{value}"));
        (key.clone(), full.unwrap_or_else(|| value.clone()))
    });
    let row = Cells::of(of)
        .with("keyspace_name", &keyspace.name)
        .with("durable_writes", keyspace.durable_writes)
        .with("replication", Cell::map(replication));
    vec![row.row()]
}

fn tables(entry: &KeyspaceEntry, of: &Table) -> Vec<Row> {
    let rows = entry.tables().map(|relation| {
        let table = &relation.table;
        // Without the word, drivers take it for one in compact storage.
        let flags: &[&str] = if table.is_counter() {
            &["compound", "counter"]
        } else {
            &["compound"]
        };
        with_options(Cells::of(of), table)
            .with("table_name", &table.name)
            .with("flags", Cell::list(flags))
            .row()
    });
    rows.collect()
}

fn views(entry: &KeyspaceEntry, of: &Table) -> Vec<Row> {
    let rows = entry.views().map(|view| {
        let base = entry.relation(&view.base);
        let base_id = base.map(|base| bytes::Bytes::copy_from_slice(&base.table.id));
        with_options(Cells::of(of), &view.table)
            .with("view_name", &view.table.name)
            .with("base_table_id", base_id)
            .with("base_table_name", &view.base)
            .with("where_clause", &view.where_clause)
            .with("include_all_columns", view.includes_all)
            .row()
    });
    rows.collect()
}

fn with_options<'t>(cells: Cells<'t>, table: &Table) -> Cells<'t> {
    let options = &table.options;
    let nothing: [(&str, &str); 0] = [];
    cells
        .with("keyspace_name", &table.keyspace)
        .with("allow_auto_snapshot", options.allow_auto_snapshot)
        .with("bloom_filter_fp_chance", options.bloom_filter_fp_chance())
        .with("caching", Cell::map(&options.caching))
        .with("comment", &options.comment)
        .with("compaction", Cell::map(&options.compaction))
        .with("compression", Cell::map(&options.compression))
        .with("memtable", option_text(&options.memtable, "default"))
        .with("crc_check_chance", options.crc_check_chance)
        .with("dclocal_read_repair_chance", 0.0)
        .with("default_time_to_live", options.default_time_to_live)
        .with("extensions", Cell::map(nothing))
        .with("gc_grace_seconds", options.gc_grace_seconds)
        .with("incremental_backups", options.incremental_backups)
        .with("id", table.id)
        .with("max_index_interval", options.max_index_interval)
        .with(
            "memtable_flush_period_in_ms",
            options.memtable_flush_period_in_ms,
        )
        .with("min_index_interval", options.min_index_interval)
        .with("read_repair_chance", 0.0)
        .with("speculative_retry", &options.speculative_retry)
        .with("additional_write_policy", &options.additional_write_policy)
        .with("cdc", options.cdc)
        .with("read_repair", &options.read_repair)
}

/// The text, or null where it says nothing.
fn option_text(text: &str, usual: &str) -> Option<bytes::Bytes> {
    (text != usual).then(|| bytes::Bytes::copy_from_slice(text.as_bytes()))
}

fn columns(entry: &KeyspaceEntry, of: &Table) -> Vec<Row> {
    entry
        .relations()
        .flat_map(|relation| columns_of(relation, of))
        .collect()
}

fn columns_of(relation: &Relation, of: &Table) -> Vec<Row> {
    let table = &relation.table;
    let key_length = table.partition_key().count();
    let rows = table.columns.iter().enumerate().map(|(number, column)| {
        let position = match column.kind {
            ColumnKind::PartitionKey => i32::try_from(number).unwrap_or(i32::MAX),
            ColumnKind::Clustering(_) => i32::try_from(number - key_length).unwrap_or(i32::MAX),
            ColumnKind::Static | ColumnKind::Regular => -1,
        };
        let order = match column.kind {
            ColumnKind::Clustering(Direction::Ascending) => "asc",
            ColumnKind::Clustering(Direction::Descending) => "desc",
            _ => "none",
        };
        Cells::of(of)
            .with("keyspace_name", &table.keyspace)
            .with("table_name", &table.name)
            .with("column_name", &column.name)
            .with("clustering_order", order)
            .with("column_name_bytes", column.name.as_bytes())
            .with("kind", kind(column))
            .with("position", position)
            .with("type", &column.data_type.to_string())
            .row()
    });
    rows.collect()
}

fn kind(column: &Column) -> &'static str {
    match column.kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering(_) => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    }
}

fn dropped_columns(entry: &KeyspaceEntry, of: &Table) -> Vec<Row> {
    let mut rows = Vec::new();
    for relation in entry.tables() {
        for (column, dropped_us) in &relation.table.dropped {
            let row = Cells::of(of)
                .with("keyspace_name", &relation.table.keyspace)
                .with("table_name", &relation.table.name)
                .with("column_name", &column.name)
                .with("dropped_time", dropped_us / 1_000)
                .with("kind", kind(column))
                .with("type", &column.data_type.freeze().to_string());
            rows.push(row.row());
        }
    }
    rows
}

fn indexes(entry: &KeyspaceEntry, of: &Table) -> Vec<Row> {
    let mut rows = Vec::new();
    for relation in entry.tables() {
        for index in &relation.table.indexes {
            let mut options = index.options.clone();
            options.push(("target".to_owned(), index.target()));
            if let Some(class) = &index.class {
                options.push(("class_name".to_owned(), class.clone()));
            }
            let kind = if index.class.is_some() {
                "CUSTOM"
            } else {
                "COMPOSITES"
            };
            let row = Cells::of(of)
                .with("keyspace_name", &relation.table.keyspace)
                .with("table_name", &relation.table.name)
                .with("index_name", &index.name)
                .with("kind", kind)
                .with("options", Cell::map(options));
            rows.push(row.row());
        }
    }
    rows
}

fn types(entry: &KeyspaceEntry, of: &Table) -> Vec<Row> {
    let rows = entry.types.values().map(|user_type| {
        let names = user_type.fields.iter().map(|(name, _)| name);
        let types = user_type
            .fields
            .iter()
            .map(|(_, data_type)| data_type.to_string());
        Cells::of(of)
            .with("keyspace_name", &user_type.keyspace)
            .with("type_name", &user_type.name)
            .with("field_names", Cell::list(names))
            .with("field_types", Cell::list(types))
            .row()
    });
    rows.collect()
}
