//! CREATE MATERIALIZED VIEW: the view that a statement defines on a table, or why it cannot be.

use tessera_core::deadline;

use super::create_table::check_key_type;
use super::{Column, ColumnKind, Table, TableOptions, View, check_name};
use crate::error::{CqlError, Result, refuse};
use crate::parser::parse;
use crate::statement::{
    CreateView, Direction, InValues, Relation, Selection, Selector, Statement, Term, quoted,
};

/// The view of this base table.
pub(crate) fn create_view(create: &CreateView, base: &Table, id: [u8; 16]) -> Result<View> {
    let name = &create.name.name;
    check_name("Table", name)?;
    if create.is_compact {
        return refuse("Cannot use 'COMPACT STORAGE' when defining a materialized view");
    }
    if base.is_counter() {
        return refuse("Materialized views are not supported on counter tables");
    }
    let selected = selected(create, base)?;
    let keys: Vec<&String> = create
        .primary_key
        .partition
        .iter()
        .chain(&create.primary_key.clustering)
        .collect();
    check_keys(&keys, base, name)?;
    check_relations(create, base, &keys)?;
    let options = TableOptions::default().with(&create.properties)?;
    if options.default_time_to_live > 0 {
        return refuse(
            "Cannot set default_time_to_live for a materialized view. Data in a materialized view \
             always expire at the same time than the corresponding data in the parent table.",
        );
    }
    let columns = columns(create, base, &selected)?;
    let table = Table {
        keyspace: base.keyspace.clone(),
        name: name.clone(),
        id,
        columns,
        options,
        indexes: Vec::new(),
        dropped: Vec::new(),
    };
    Ok(View {
        table,
        base: base.name.clone(),
        includes_all: create.selection == Selection::All,
        where_clause: clause_of(&create.relations)?,
    })
}

/// Relations as the text that a view keeps, which is known to be read back as the same.
pub(super) fn clause_of(relations: &[Relation]) -> Result<String> {
    let texts: Vec<String> = relations.iter().map(relation_text).collect();
    let clause = texts.join(" AND ");
    match relations_of(&clause) {
        Ok(read) if read == relations => Ok(clause),
        _ => refuse(format!(
            "The relations of the materialized view cannot be kept: {clause}"
        )),
    }
}

/// The relations of a view, from the text that it keeps.
pub(crate) fn relations_of(clause: &str) -> Result<Vec<Relation>> {
    let parsed = parse(&format!("SELECT * FROM t WHERE {clause} ALLOW FILTERING"))?;
    match parsed.statement {
        Statement::Select(select) => Ok(select.relations),
        _ => refuse("The definition of the materialized view is damaged"),
    }
}

/// The names of the columns that the view keeps.
fn selected<'b>(create: &CreateView, base: &'b Table) -> Result<Vec<&'b Column>> {
    let view = &create.name.name;
    let columns = match &create.selection {
        Selection::All => base.columns.iter().collect(),
        Selection::Some(selectors) => {
            let mut columns = Vec::with_capacity(selectors.len());
            for (selector, alias) in selectors {
                let Selector::Column(name) = selector else {
                    return refuse(format!(
                        "Can only select columns by name when defining a materialized view (got \
                         {selector})"
                    ));
                };
                if let Some(alias) = alias {
                    return refuse(format!(
                        "Cannot use aliases when defining a materialized view (got {name} AS \
                         {alias})"
                    ));
                }
                let unknown = || {
                    let (name, table) = (quoted(name), base.full_name());
                    CqlError::invalid(format!("Undefined column name {name} in table {table}"))
                };
                columns.push(base.column(name).ok_or_else(unknown)?);
            }
            columns
        }
    };
    match columns
        .iter()
        .find(|column| column.kind == ColumnKind::Static)
    {
        None => Ok(columns),
        Some(column) => refuse(format!(
            "Cannot include static column '{}' in materialized view '{view}'",
            column.name
        )),
    }
}

fn check_keys(keys: &[&String], base: &Table, view: &str) -> Result<()> {
    for (index, name) in keys.iter().enumerate() {
        deadline::step(index + base.columns.len())?;
        let Some(column) = base.column(name) else {
            return refuse(format!(
                "Unknown column '{name}' referenced in PRIMARY KEY for materialized view '{view}'"
            ));
        };
        if keys.iter().take(index).any(|earlier| earlier == name) {
            return refuse(format!(
                "Duplicate column '{name}' in PRIMARY KEY clause for materialized view '{view}'"
            ));
        }
        check_key_type(name, &column.data_type, "'")?;
    }
    let missing: Vec<&str> = base
        .columns
        .iter()
        .filter(|column| column.is_key() && !keys.contains(&&column.name))
        .map(|column| column.name.as_str())
        .collect();
    if !missing.is_empty() {
        return refuse(format!(
            "Cannot create materialized view '{view}' without primary key columns {} from base \
             table '{}'",
            missing.join(", "),
            base.name
        ));
    }
    let is_new = |name: &&&String| base.column(name).is_some_and(|column| !column.is_key());
    let new: Vec<&str> = keys
        .iter()
        .filter(is_new)
        .map(|name| name.as_str())
        .collect();
    if new.len() > 1 {
        return refuse(format!(
            "Cannot include more than one non-primary key column in materialized view primary key \
             (got {})",
            new.join(", ")
        ));
    }
    Ok(())
}

/// Every key must be restricted, and nothing else but by IS NOT NULL.
fn check_relations(create: &CreateView, base: &Table, keys: &[&String]) -> Result<()> {
    let mut restricted: Vec<&String> = Vec::new();
    for relation in &create.relations {
        let (columns, is_null_check): (Vec<&String>, bool) = match relation {
            Relation::IsNotNull(column) => (vec![column], true),
            Relation::Compare { column, .. }
            | Relation::CompareElement { column, .. }
            | Relation::In { column, .. }
            | Relation::Contains { column, .. }
            | Relation::Like { column, .. } => (vec![column], false),
            Relation::CompareTuple { columns, .. } | Relation::InTuples { columns, .. } => {
                (columns.iter().collect(), false)
            }
            Relation::Token { .. } => {
                return refuse("Cannot use token relation when defining a materialized view");
            }
            Relation::IndexExpression { .. } => {
                let view = &create.name.name;
                return refuse(format!(
                    "WHERE clause for materialized view '{view}' cannot contain custom index \
                     expressions"
                ));
            }
        };
        for column in columns {
            let found = base.column(column).ok_or_else(|| {
                let (name, table) = (quoted(column), base.full_name());
                CqlError::invalid(format!("Undefined column name {name} in table {table}"))
            })?;
            if !is_null_check && !found.is_key() && !keys.contains(&column) {
                return refuse(format!(
                    "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: \
                     {column} restricted illegally)"
                ));
            }
            restricted.push(column);
        }
    }
    let free: Vec<&str> = keys
        .iter()
        .filter(|key| !restricted.contains(key))
        .map(|key| key.as_str())
        .collect();
    if free.is_empty() {
        return Ok(());
    }
    refuse(format!(
        "Primary key columns {} must be restricted with 'IS NOT NULL' or otherwise",
        free.join(", ")
    ))
}

fn columns(create: &CreateView, base: &Table, selected: &[&Column]) -> Result<Vec<Column>> {
    let order = &create.clustering_order;
    let clustering = &create.primary_key.clustering;
    let named: Vec<&String> = order.iter().map(|(name, _)| name).collect();
    if !order.is_empty() && !named.iter().copied().eq(clustering) {
        return refuse(
            "Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive",
        );
    }
    let direction = |name: &String| {
        let found = order.iter().find(|(other, _)| other == name);
        match (found, base.column(name).map(|column| column.kind)) {
            (Some((_, direction)), _) => *direction,
            (None, Some(ColumnKind::Clustering(direction))) => direction,
            (None, _) => Direction::Ascending,
        }
    };
    let partition = create.primary_key.partition.iter();
    let keys = partition
        .map(|name| (name, ColumnKind::PartitionKey))
        .chain(
            clustering
                .iter()
                .map(|name| (name, ColumnKind::Clustering(direction(name)))),
        );
    let mut columns: Vec<Column> = keys
        .filter_map(|(name, kind)| {
            Some(Column {
                kind,
                ..base.column(name)?.clone()
            })
        })
        .collect();
    for column in selected {
        if !columns.iter().any(|key| key.name == column.name) {
            columns.push(Column {
                kind: ColumnKind::Regular,
                ..(*column).clone()
            });
        }
    }
    Table::sort_columns(&mut columns);
    Ok(columns)
}

/// A relation as Cassandra writes it in the definition of a view.
fn relation_text(relation: &Relation) -> String {
    let names = |columns: &[String]| {
        columns
            .iter()
            .map(|column| quoted(column))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let values = |values: &InValues| match values {
        InValues::Marker(_) => "?".to_owned(),
        InValues::Terms(terms) => Term::Tuple(terms.clone()).to_string(),
    };
    match relation {
        Relation::IsNotNull(column) => format!("{} IS NOT NULL", quoted(column)),
        Relation::Compare {
            column,
            comparator,
            value,
        } => {
            format!("{} {} {value}", quoted(column), comparator.symbol())
        }
        Relation::CompareElement {
            column,
            key,
            comparator,
            value,
        } => {
            format!("{}[{key}] {} {value}", quoted(column), comparator.symbol())
        }
        Relation::In {
            column,
            values: terms,
        } => {
            format!("{} IN {}", quoted(column), values(terms))
        }
        Relation::Contains {
            column,
            is_key,
            value,
        } => {
            let key = if *is_key { " KEY" } else { "" };
            format!("{} CONTAINS{key} {value}", quoted(column))
        }
        Relation::Like { column, pattern } => format!("{} LIKE {pattern}", quoted(column)),
        Relation::Token {
            columns,
            comparator,
            value,
        } => {
            format!("token({}) {} {value}", names(columns), comparator.symbol())
        }
        Relation::CompareTuple {
            columns,
            comparator,
            value,
        } => {
            format!("({}) {} {value}", names(columns), comparator.symbol())
        }
        Relation::InTuples {
            columns,
            values: terms,
        } => {
            format!("({}) IN {}", names(columns), values(terms))
        }
        Relation::IndexExpression { index, value } => format!("expr({}, {value})", quoted(index)),
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::testing::view;

    #[test]
    fn views_keep_the_columns_that_they_name() {
        let made = view(
            "CREATE MATERIALIZED VIEW v AS SELECT a, b, c FROM t WHERE a IS NOT NULL AND c > 5 \
             AND b IS NOT NULL PRIMARY KEY (c, b, a) WITH CLUSTERING ORDER BY (b DESC, a ASC)",
        )
        .unwrap();
        let names: Vec<&str> = made.table.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!(
            made.where_clause,
            "a IS NOT NULL AND c > 5 AND b IS NOT NULL"
        );
        assert!(!made.includes_all);
        assert_eq!(made.base, "t");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (rest, words) in [
            (
                "a, b FROM t WHERE a IS NOT NULL PRIMARY KEY (a)",
                "Cannot create materialized view 'v' without primary key columns b from base \
                 table 't'",
            ),
            (
                "* FROM t WHERE a IS NOT NULL AND b IS NOT NULL PRIMARY KEY (c, a, b)",
                "Primary key columns c must be restricted with 'IS NOT NULL' or otherwise",
            ),
            (
                "* FROM t WHERE a IS NOT NULL PRIMARY KEY (c, d, a, b)",
                "Cannot include more than one non-primary key column in materialized view primary \
                 key (got c, d)",
            ),
            (
                "* FROM t WHERE a IS NOT NULL AND b IS NOT NULL AND d = 5 PRIMARY KEY (b, a)",
                "Non-primary key columns can only be restricted with 'IS NOT NULL' (got: d \
                 restricted illegally)",
            ),
            (
                "a AS x FROM t WHERE a IS NOT NULL PRIMARY KEY (a, b)",
                "Cannot use aliases when defining a materialized view (got a AS x)",
            ),
            (
                "* FROM t PRIMARY KEY (a, a, b)",
                "Duplicate column 'a' in PRIMARY KEY clause for materialized view 'v'",
            ),
            (
                "* FROM t PRIMARY KEY (x)",
                "Unknown column 'x' referenced in PRIMARY KEY for materialized view 'v'",
            ),
        ] {
            let error = view(&format!("CREATE MATERIALIZED VIEW v AS SELECT {rest}")).unwrap_err();
            assert_eq!(error.message, words);
        }
    }
}
