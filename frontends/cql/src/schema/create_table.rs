//! CREATE TABLE: the table that a statement defines, or why it cannot be.

use std::collections::HashSet;

use tessera_core::deadline;

use super::resolve::resolve_type;
use super::{Column, ColumnKind, Table, TableOptions, Types, check_name};
use crate::error::{Result, refuse};
use crate::statement::{CreateTable, Direction, PrimaryKey};
use crate::types::{DataType, Native};

pub(super) const NO_MASKS: &str = "Cannot mask columns because dynamic data masking is not \
     enabled, and this server has no setting that enables it";

/// The table. The keyspace is that of the statement or of the session, and exists.
pub(crate) fn create_table(
    create: &CreateTable,
    keyspace: &str,
    types: &Types,
    id: [u8; 16],
) -> Result<Table> {
    let name = &create.name.name;
    let key = match create.primary_keys.as_slice() {
        [key] => key,
        [] => {
            return refuse(format!(
                "No PRIMARY KEY specifed for table '{name}' (exactly one required)"
            ));
        }
        _ => {
            return refuse(format!(
                "Multiple PRIMARY KEY specified for table '{name}' (exactly one required)"
            ));
        }
    };
    check_name("Table", name)?;
    if create.is_compact {
        return refuse("COMPACT STORAGE tables are not allowed starting with version 4.0");
    }
    if create.columns.iter().any(|column| column.mask.is_some()) {
        return refuse(NO_MASKS);
    }
    let options = TableOptions::default().with(&create.properties)?;
    let columns = columns(create, keyspace, types)?;
    check_key(create, key, &columns)?;
    check_clustering_order(&create.clustering_order, &key.clustering, name)?;
    let columns = with_kinds(columns, key, &create.clustering_order);
    check_others(&columns, key, &options)?;
    Ok(Table {
        keyspace: keyspace.to_owned(),
        name: name.clone(),
        id,
        columns,
        options,
        indexes: Vec::new(),
        dropped: Vec::new(),
    })
}

/// Steps for each column of a definition: its type may be large.
const COLUMN_STEPS: usize = 10;

/// The columns, static or regular, in the order of the text.
fn columns(create: &CreateTable, keyspace: &str, types: &Types) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::with_capacity(create.columns.len());
    let mut seen = HashSet::with_capacity(create.columns.len());
    for definition in &create.columns {
        deadline::step(COLUMN_STEPS)?;
        let name = definition.name.clone();
        if !seen.insert(&definition.name) {
            let table = &create.name.name;
            return refuse(format!(
                "Duplicate column '{name}' declaration for table '{table}'"
            ));
        }
        let data_type = resolve_type(&definition.data_type, keyspace, types)?;
        check_nested(&data_type)?;
        let kind = if definition.is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        };
        columns.push(Column {
            name,
            number: u32::try_from(columns.len()).unwrap_or(u32::MAX),
            kind,
            data_type,
        });
    }
    Ok(columns)
}

pub(super) fn check_nested(data_type: &DataType) -> Result<()> {
    if let DataType::User {
        definition,
        frozen: false,
    } = data_type
        && definition
            .fields
            .iter()
            .any(|(_, field)| field.is_multi_cell())
    {
        return refuse("Non-frozen UDTs with nested non-frozen collections are not supported");
    }
    Ok(())
}

fn check_key(create: &CreateTable, key: &PrimaryKey, columns: &[Column]) -> Result<()> {
    let table = &create.name.name;
    let mut seen: Vec<&String> = Vec::new();
    for name in key.partition.iter().chain(&key.clustering) {
        deadline::step(columns.len())?;
        let Some(column) = columns.iter().find(|column| column.name == *name) else {
            return refuse(format!(
                "Unknown column '{name}' referenced in PRIMARY KEY for table '{table}'"
            ));
        };
        if seen.contains(&name) {
            return refuse(format!(
                "Duplicate column '{name}' in PRIMARY KEY clause for table '{table}'"
            ));
        }
        seen.push(name);
        check_key_type(name, &column.data_type, "")?;
        if column.kind == ColumnKind::Static {
            return refuse(format!(
                "Static column '{name}' cannot be part of the PRIMARY KEY"
            ));
        }
    }
    Ok(())
}

/// Refuses types that keys cannot have. Views put the type in quotes.
pub(super) fn check_key_type(name: &str, data_type: &DataType, quote: &str) -> Result<()> {
    if data_type.is_multi_cell() {
        let what = if data_type.is_collection() {
            "collection"
        } else {
            "user-defined"
        };
        return refuse(format!(
            "Invalid non-frozen {what} type {quote}{data_type}{quote} for PRIMARY KEY column \
             '{name}'"
        ));
    }
    if data_type.is_counter() {
        return refuse(format!(
            "counter type is not supported for PRIMARY KEY column '{name}'"
        ));
    }
    if data_type.any(&|inner| *inner == DataType::Native(Native::Duration)) {
        return refuse(format!(
            "duration type is not supported for PRIMARY KEY column '{name}'"
        ));
    }
    Ok(())
}

fn check_clustering_order(
    order: &[(String, Direction)],
    clustering: &[String],
    table: &str,
) -> Result<()> {
    for (index, (name, _)) in order.iter().enumerate() {
        deadline::step(order.len() + clustering.len())?;
        if order.iter().take(index).any(|(earlier, _)| earlier == name) {
            return refuse(format!(
                "Duplicate column '{name}' in CLUSTERING ORDER BY clause for table '{table}'"
            ));
        }
    }
    let strangers: Vec<&str> = order
        .iter()
        .filter(|(name, _)| !clustering.contains(name))
        .map(|(name, _)| name.as_str())
        .collect();
    if !strangers.is_empty() {
        return refuse(format!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are \
             not clustering columns",
            strangers.join(", ")
        ));
    }
    for ((name, _), expected) in order.iter().zip(clustering) {
        if name == expected {
            continue;
        }
        let is_later = order.iter().any(|(other, _)| other == expected);
        return refuse(if is_later {
            format!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the \
                 clustering columns ({expected} must appear before {name})"
            )
        } else {
            format!("Missing CLUSTERING ORDER for column {expected}")
        });
    }
    Ok(())
}

/// The columns with what they are to the table, in their order.
fn with_kinds(
    columns: Vec<Column>,
    key: &PrimaryKey,
    order: &[(String, Direction)],
) -> Vec<Column> {
    let direction = |name: &String| {
        let found = order.iter().find(|(other, _)| other == name);
        found.map_or(Direction::Ascending, |(_, direction)| *direction)
    };
    let kinds = key
        .partition
        .iter()
        .map(|name| (name, ColumnKind::PartitionKey));
    let clustering = key
        .clustering
        .iter()
        .map(|name| (name, ColumnKind::Clustering(direction(name))));
    let mut rest = columns;
    let mut sorted = Vec::with_capacity(rest.len());
    for (name, kind) in kinds.chain(clustering) {
        if let Some(place) = rest.iter().position(|column| column.name == *name) {
            let column = rest.remove(place);
            sorted.push(Column { kind, ..column });
        }
    }
    sorted.append(&mut rest);
    Table::sort_columns(&mut sorted);
    sorted
}

fn check_others(columns: &[Column], key: &PrimaryKey, options: &TableOptions) -> Result<()> {
    let has_static = columns
        .iter()
        .any(|column| column.kind == ColumnKind::Static);
    if key.clustering.is_empty() && has_static {
        return refuse(
            "Static columns are only useful (and thus allowed) if the table has at least one \
             clustering column",
        );
    }
    let mut others = columns.iter().filter(|column| !column.is_key());
    if !columns.iter().any(|column| column.data_type.is_counter()) {
        return Ok(());
    }
    if others.any(|column| !column.data_type.is_counter()) {
        return refuse("Cannot mix counter and non counter columns in the same table");
    }
    if options.default_time_to_live > 0 {
        return refuse("Cannot set default_time_to_live on a table with counters");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::schema::testing::table;
    use crate::schema::{ColumnKind, TableOptions};
    use crate::statement::Direction;

    #[test]
    fn columns_have_their_order() {
        let table = table(
            "CREATE TABLE t (z int, s2 int static, y int, c2 int, b int, p2 int, s1 int static, \
             p1 int, c1 int, PRIMARY KEY ((p2, p1), c2, c1)) WITH CLUSTERING ORDER BY (c2 DESC)",
        )
        .unwrap();
        let names: Vec<&str> = table
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(names, ["p2", "p1", "c2", "c1", "s1", "s2", "b", "y", "z"]);
        let clustering: Vec<ColumnKind> = table.clustering().map(|column| column.kind).collect();
        let [down, up] = [Direction::Descending, Direction::Ascending];
        assert_eq!(
            clustering,
            [ColumnKind::Clustering(down), ColumnKind::Clustering(up)]
        );
        assert_eq!(table.options, TableOptions::default());
        assert!(!table.is_counter());
    }

    #[test]
    fn what_cannot_be_is_refused_in_the_words_of_cassandra() {
        for (columns, words) in [
            (
                "a int",
                "No PRIMARY KEY specifed for table 't' (exactly one required)",
            ),
            (
                "a int PRIMARY KEY, b int PRIMARY KEY",
                "Multiple PRIMARY KEY specified for table 't' (exactly one required)",
            ),
            (
                "a int, a int, PRIMARY KEY (a)",
                "Duplicate column 'a' declaration for table 't'",
            ),
            (
                "a int, PRIMARY KEY (b)",
                "Unknown column 'b' referenced in PRIMARY KEY for table 't'",
            ),
            (
                "a int, PRIMARY KEY (a, a)",
                "Duplicate column 'a' in PRIMARY KEY clause for table 't'",
            ),
            (
                "a list<int> PRIMARY KEY",
                "Invalid non-frozen collection type list<int> for PRIMARY KEY column 'a'",
            ),
            (
                "a u PRIMARY KEY",
                "Invalid non-frozen user-defined type u for PRIMARY KEY column 'a'",
            ),
            (
                "a counter PRIMARY KEY",
                "counter type is not supported for PRIMARY KEY column 'a'",
            ),
            (
                "a duration PRIMARY KEY",
                "duration type is not supported for PRIMARY KEY column 'a'",
            ),
            (
                "a frozen<list<duration>> PRIMARY KEY",
                "duration type is not supported for PRIMARY KEY column 'a'",
            ),
            (
                "a int, b int static, PRIMARY KEY (a, b)",
                "Static column 'b' cannot be part of the PRIMARY KEY",
            ),
            (
                "a int PRIMARY KEY, b int static",
                "Static columns are only useful (and thus allowed) if the table has at least one \
                 clustering column",
            ),
            (
                "a int PRIMARY KEY, b counter, c int",
                "Cannot mix counter and non counter columns in the same table",
            ),
            ("a int PRIMARY KEY, b x", "Unknown type ks.x"),
        ] {
            let error = table(&format!("CREATE TABLE t ({columns})")).unwrap_err();
            assert_eq!(error.message, words, "{columns}");
        }
    }

    #[test]
    fn what_cannot_be_an_order_is_refused() {
        for (order, words) in [
            (
                "(d ASC)",
                "Only clustering key columns can be defined in CLUSTERING ORDER directive: \
                [d] are not clustering columns",
            ),
            ("(c ASC)", "Missing CLUSTERING ORDER for column b"),
            (
                "(c ASC, b ASC)",
                "The order of columns in the CLUSTERING ORDER directive must match \
                that of the clustering columns (b must appear before c)",
            ),
            (
                "(b ASC, b ASC)",
                "Duplicate column 'b' in CLUSTERING ORDER BY clause for table 't'",
            ),
        ] {
            let text = format!(
                "CREATE TABLE t (a int, b int, c int, d int, PRIMARY KEY (a, b, c)) \
                 WITH CLUSTERING ORDER BY {order}"
            );
            assert_eq!(table(&text).unwrap_err().message, words);
        }
        let counter = "CREATE TABLE t (a int PRIMARY KEY, b counter) WITH default_time_to_live = 5";
        let words = "Cannot set default_time_to_live on a table with counters";
        assert_eq!(table(counter).unwrap_err().message, words);
    }
}
