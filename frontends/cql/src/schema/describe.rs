//! Definitions as statements that repeat them, as DESCRIBE of Cassandra 5 prints them.

use super::{Column, ColumnKind, Index, Keyspace, Table, View};
use crate::statement::{Direction, quoted, quoted_type};
use crate::types::UserType;

const INDENT: &str = "    ";

/// `CREATE KEYSPACE …`, with an option that asks for throughput if it has some.
pub(crate) fn describe_keyspace(keyspace: &Keyspace, throughput: Option<(&str, u32)>) -> String {
    let throughput = throughput.map(|(option, units)| format!(" AND {option} = {units}"));
    let entries: Vec<String> = keyspace
        .replication
        .iter()
        .map(|(key, value)| format!("{}: {}", quote(key), quote(value)))
        .collect();
    format!(
        "CREATE KEYSPACE {} WITH replication = {{{}}}  AND durable_writes = {}{};",
        quoted(&keyspace.name),
        entries.join(", "),
        keyspace.durable_writes,
        throughput.unwrap_or_default()
    )
}

/// `CREATE TYPE …`.
pub(crate) fn describe_type(user_type: &UserType) -> String {
    let fields: Vec<String> = user_type
        .fields
        .iter()
        .map(|(name, data_type)| format!("{INDENT}{} {data_type}", quoted(name)))
        .collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quoted(&user_type.keyspace),
        quoted_type(&user_type.name),
        fields.join(",\n")
    )
}

/// `CREATE TABLE …`. With internals, the id and the columns that were dropped are told, too.
pub(crate) fn describe_table(table: &Table, with_internals: bool) -> String {
    let is_simple = table.partition_key().count() == 1 && table.clustering().next().is_none();
    let is_dropped = |name: &str| table.dropped.iter().any(|(column, _)| column.name == name);
    // As Cassandra keeps them: columns of many cells are behind the others of their kind.
    let is_many = |column: &Column| !column.is_key() && column.data_type.is_multi_cell();
    let is_static = |column: &Column| column.kind != ColumnKind::Regular;
    let mut columns: Vec<&Column> = table.columns.iter().collect();
    columns.sort_by_key(|column| (!is_static(column), is_many(column)));
    let mut members: Vec<String> = columns
        .into_iter()
        .filter(|column| !(with_internals && is_dropped(&column.name)))
        .map(|column| {
            let key = column.kind == ColumnKind::PartitionKey && is_simple;
            column_text(column) + if key { " PRIMARY KEY" } else { "" }
        })
        .collect();
    if with_internals {
        members.extend(table.dropped.iter().map(|(column, _)| column_text(column)));
    }
    if !is_simple {
        members.push(primary_key(table));
    }
    let members: Vec<String> = members
        .iter()
        .map(|member| format!("{INDENT}{member}"))
        .collect();
    let mut text = format!(
        "CREATE TABLE {} (\n{}\n) WITH {}",
        table.full_name(),
        members.join(",\n"),
        options(table, with_internals, false)
    );
    if with_internals {
        for (column, time) in &table.dropped {
            let (name, dropped) = (table.full_name(), quoted(&column.name));
            text += &format!("\nALTER TABLE {name} DROP {dropped} USING TIMESTAMP {time};");
            if let Some(again) = table.column(&column.name) {
                text += &format!("\nALTER TABLE {name} ADD {};", column_text(again));
            }
        }
    }
    text
}

/// `CREATE MATERIALIZED VIEW …`.
pub(crate) fn describe_view(view: &View, with_internals: bool) -> String {
    let columns: Vec<_> = view
        .table
        .columns
        .iter()
        .map(|column| quoted(&column.name))
        .collect();
    let selection = if view.includes_all {
        "*".to_owned()
    } else {
        columns.join(", ")
    };
    let lines = [
        format!("SELECT {selection}"),
        format!(
            "FROM {}.{}",
            quoted(&view.table.keyspace),
            quoted(&view.base)
        ),
        format!("WHERE {}", view.where_clause),
        primary_key(&view.table),
    ];
    let lines: Vec<String> = lines.iter().map(|line| format!("{INDENT}{line}")).collect();
    format!(
        "CREATE MATERIALIZED VIEW {} AS\n{}\n WITH {}",
        view.table.full_name(),
        lines.join("\n"),
        options(&view.table, with_internals, true)
    )
}

/// `CREATE INDEX …`.
pub(crate) fn describe_index(index: &Index, table: &Table) -> String {
    let custom = if index.class.is_some() { "CUSTOM " } else { "" };
    let mut text = format!(
        "CREATE {custom}INDEX {} ON {} ({})",
        quoted(&index.name),
        table.full_name(),
        index.target()
    );
    if let Some(class) = &index.class {
        text += &format!(" USING {}", quote(class));
    }
    if !index.options.is_empty() {
        let mut options = index.options.clone();
        options.sort();
        let options: Vec<String> = options
            .iter()
            .map(|(key, value)| format!("{}: {}", quote(key), quote(value)))
            .collect();
        text += &format!(" WITH OPTIONS = {{{}}}", options.join(", "));
    }
    text + ";"
}

fn column_text(column: &Column) -> String {
    let is_static = if column.kind == ColumnKind::Static {
        " static"
    } else {
        ""
    };
    format!("{} {}{is_static}", quoted(&column.name), column.data_type)
}

fn primary_key(table: &Table) -> String {
    let partition: Vec<_> = table
        .partition_key()
        .map(|column| quoted(&column.name))
        .collect();
    let partition = match partition.as_slice() {
        [one] => one.to_string(),
        several => format!("({})", several.join(", ")),
    };
    let clustering = table
        .clustering()
        .map(|column| format!(", {}", quoted(&column.name)));
    format!(
        "PRIMARY KEY ({partition}{})",
        clustering.collect::<String>()
    )
}

fn options(table: &Table, with_internals: bool, is_view: bool) -> String {
    let mut options = Vec::new();
    if with_internals {
        options.push(format!("ID = {}", crate::types::uuid_text(table.id)));
    }
    let order: Vec<String> = table
        .clustering()
        .map(|column| {
            let is_down = column.kind == ColumnKind::Clustering(Direction::Descending);
            format!(
                "{} {}",
                quoted(&column.name),
                if is_down { "DESC" } else { "ASC" }
            )
        })
        .collect();
    if !order.is_empty() {
        options.push(format!("CLUSTERING ORDER BY ({})", order.join(", ")));
    }
    options.extend(table.options.described(is_view));
    options.join(&format!("\n{INDENT}AND ")) + ";"
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;
    use crate::schema::testing::{keyspace_types, properties, table, view};
    use crate::schema::{create_index, create_table, keyspace_options};
    use crate::statement::Statement;

    const OPTIONS: &str = "additional_write_policy = '99p'
    AND allow_auto_snapshot = true
    AND bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND cdc = false
    AND comment = ''
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', \
     'max_threshold': '32', 'min_threshold': '4'}
    AND compression = {'chunk_length_in_kb': '16', \
     'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}
    AND memtable = 'default'
    AND crc_check_chance = 1.0
    AND default_time_to_live = 0
    AND extensions = {}
    AND gc_grace_seconds = 864000
    AND incremental_backups = true
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND read_repair = 'BLOCKING'
    AND speculative_retry = '99p';";

    fn expected_options() -> String {
        // The long lines above are broken for the eye.
        OPTIONS.replace(",      '", ", '").replace(",     '", ", '")
    }

    #[test]
    fn tables_are_printed_as_cassandra_prints_them() {
        let simple = table("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
        let text = describe_table(&simple, false);
        let head = "CREATE TABLE ks.t (\n    k int PRIMARY KEY,\n    v text\n) WITH ";
        assert_eq!(text, format!("{head}{}", expected_options()));

        let full = table(
            "CREATE TABLE \"T\" (a int, b text, \"C\" int, s int static, l list<int>, \
             PRIMARY KEY ((a, b), \"C\")) WITH CLUSTERING ORDER BY (\"C\" DESC) \
             AND comment = 'it''s'",
        )
        .unwrap();
        let text = describe_table(&full, false);
        let head = "CREATE TABLE ks.\"T\" (\n    a int,\n    b text,\n    \"C\" int,\n    \
                    s int static,\n    l list<int>,\n    PRIMARY KEY ((a, b), \"C\")\n) WITH \
                    CLUSTERING ORDER BY (\"C\" DESC)\n    AND additional_write_policy = '99p'";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("\n    AND comment = 'it''s'\n"));
    }

    #[test]
    fn internals_tell_id_and_dropped_columns() {
        let mut table = table("CREATE TABLE t (k int PRIMARY KEY, v text)").unwrap();
        let mut dropped = table.columns[1].clone();
        dropped.name = "old".to_owned();
        table.dropped.push((dropped, 5));
        let text = describe_table(&table, true);
        let id = "07070707-0707-0707-0707-070707070707";
        let middle = format!("    v text,\n    old text\n) WITH ID = {id}\n    AND ");
        assert!(text.contains(&middle), "{text}");
        assert!(text.ends_with("\nALTER TABLE ks.t DROP old USING TIMESTAMP 5;"));
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let original = table(
            "CREATE TABLE t (a int, b frozen<list<u2>>, c map<text, int>, d tuple<int, text>, \
             PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC) AND gc_grace_seconds = 7",
        );
        assert!(original.is_err(), "u2 is not defined");
        let original = table(
            "CREATE TABLE t (a int, b frozen<list<frozen<u>>>, c map<text, int>, \
             d tuple<int, text>, PRIMARY KEY (a, b)) WITH CLUSTERING ORDER BY (b DESC) \
             AND gc_grace_seconds = 7",
        )
        .unwrap();
        let text = describe_table(&original, false);
        let Statement::CreateTable(create) = parse(&text).unwrap().statement else {
            panic!()
        };
        let again = create_table(&create, "ks", &keyspace_types(), original.id).unwrap();
        assert_eq!(describe_table(&again, false), text);
        let shapes = |table: &Table| {
            let columns = table.columns.iter();
            let shapes = columns.map(|it| (it.name.clone(), it.kind, it.data_type.clone()));
            shapes.collect::<Vec<_>>()
        };
        assert_eq!(shapes(&again), shapes(&original));
    }

    #[test]
    fn the_others_are_printed() {
        let properties =
            properties("replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}");
        let keyspace = keyspace_options("Ks", None, &properties).unwrap();
        assert_eq!(
            describe_keyspace(&keyspace, None),
            "CREATE KEYSPACE \"Ks\" WITH replication = {'class': 'NetworkTopologyStrategy', \
             'datacenter1': '3'}  AND durable_writes = true;"
        );
        let types = keyspace_types();
        assert_eq!(
            describe_type(&types["u"]),
            "CREATE TYPE ks.u (\n    a int,\n    \"B\" text\n);"
        );
        let table = table("CREATE TABLE t (k int PRIMARY KEY, m map<text, int>)").unwrap();
        for text in [
            "CREATE INDEX i ON ks.t (keys(m));",
            "CREATE CUSTOM INDEX i ON ks.t (keys(m)) USING 'sai' WITH OPTIONS = {'ascii': \
             'true'};",
        ] {
            let Statement::CreateIndex(create) = parse(text).unwrap().statement else {
                panic!()
            };
            let index = create_index(&create, &table, &|_| false).unwrap().unwrap();
            assert_eq!(describe_index(&index, &table), text);
        }
    }

    #[test]
    fn views_are_printed() {
        let made = view(
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a IS NOT NULL AND b IS NOT NULL \
             PRIMARY KEY (b, a)",
        )
        .unwrap();
        let head = "CREATE MATERIALIZED VIEW ks.v AS\n    SELECT *\n    FROM ks.t\n    WHERE a IS \
                    NOT NULL AND b IS NOT NULL\n    PRIMARY KEY (b, a)\n WITH CLUSTERING ORDER BY \
                    (a ASC)\n    AND additional_write_policy";
        let text = describe_view(&made, false);
        assert!(text.starts_with(head), "{text}");
        assert!(!text.contains("default_time_to_live"));
    }
}
