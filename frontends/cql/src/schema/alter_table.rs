//! ALTER TABLE: the table that a statement makes of another, and its views with it.

use tessera_core::deadline;

use super::create_table::{NO_MASKS, check_nested};
use super::create_view::{clause_of, relations_of};
use super::{Column, ColumnKind, Table, Types, View, resolve_type};
use crate::error::{CqlError, Result, refuse};
use crate::statement::{AlterTableAction, ColumnDefinition, Relation};
use crate::types::DataType;

/// A table and its views, as a statement leaves them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlteredTable {
    pub(crate) table: Table,
    pub(crate) views: Vec<View>,
}

/// What the statement makes of it. `now_us` is when columns are dropped if nothing else is said.
pub(crate) fn alter_table(
    before: AlteredTable,
    action: &AlterTableAction,
    types: &Types,
    now_us: i64,
) -> Result<AlteredTable> {
    let mut altered = before;
    match action {
        AlterTableAction::Add {
            if_not_exists,
            columns,
        } => {
            for column in columns {
                deadline::step(altered.table.columns.len())?;
                altered.add(column, *if_not_exists, types)?;
            }
        }
        AlterTableAction::Drop {
            if_exists,
            columns,
            timestamp,
        } => {
            for column in columns {
                deadline::step(altered.table.columns.len())?;
                altered.drop(column, *if_exists, timestamp.unwrap_or(now_us))?;
            }
        }
        AlterTableAction::Rename { if_exists, pairs } => {
            for (from, to) in pairs {
                deadline::step(altered.table.columns.len())?;
                altered.rename(from, to, *if_exists)?;
            }
        }
        AlterTableAction::AlterType { .. } => {
            return refuse("Altering column types is no longer supported");
        }
        AlterTableAction::AlterMask { mask, .. } => {
            if mask.is_some() {
                return refuse(NO_MASKS);
            }
        }
        AlterTableAction::DropCompactStorage => {
            return refuse("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
        }
        AlterTableAction::With(properties) => {
            let options = altered.table.options.clone().with(properties)?;
            if altered.table.is_counter() && options.default_time_to_live > 0 {
                return refuse("Cannot set default_time_to_live on a table with counters");
            }
            if !altered.views.is_empty() && options.gc_grace_seconds == 0 {
                return refuse(
                    "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, \
                     since this value is used to TTL undelivered updates. Setting \
                     gc_grace_seconds too low might cause undelivered updates to expire before \
                     being replayed.",
                );
            }
            altered.table.options = options;
        }
    }
    Ok(altered)
}

impl AlteredTable {
    fn add(
        &mut self,
        definition: &ColumnDefinition,
        if_not_exists: bool,
        types: &Types,
    ) -> Result<()> {
        let name = &definition.name;
        if definition.mask.is_some() {
            return refuse(NO_MASKS);
        }
        let data_type = resolve_type(&definition.data_type, &self.table.keyspace, types)?;
        if self.table.column(name).is_some() {
            if if_not_exists {
                return Ok(());
            }
            return refuse(format!("Column with name '{name}' already exists"));
        }
        if definition.is_static && self.table.clustering().next().is_none() {
            return refuse(
                "Static columns are only useful (and thus allowed) if the table has at least one \
                 clustering column",
            );
        }
        check_nested(&data_type)
            .map_err(|error| CqlError::invalid(format!("{} for column {name}", error.message)))?;
        self.check_counters(name, &data_type)?;
        let kind = if definition.is_static {
            ColumnKind::Static
        } else {
            ColumnKind::Regular
        };
        let column = Column {
            name: name.clone(),
            number: self.table.number_for(name),
            kind,
            data_type,
        };
        self.check_again(&column)?;
        if kind == ColumnKind::Regular {
            for view in self.views.iter_mut().filter(|view| view.includes_all) {
                put(&mut view.table, column.clone());
            }
        }
        put(&mut self.table, column);
        Ok(())
    }

    fn check_counters(&self, name: &str, data_type: &DataType) -> Result<()> {
        // A table is of counters or of none as long as it is there, also when they are dropped.
        let dropped = self.table.dropped.iter().map(|(column, _)| column);
        let columns = self.table.columns.iter().filter(|column| !column.is_key());
        let mut others = columns.chain(dropped);
        let is_counter = others.next().map(|other| other.data_type.is_counter());
        if is_counter.is_none_or(|is_counter| is_counter == data_type.is_counter()) {
            return Ok(());
        }
        let (column, kind) = match data_type.is_counter() {
            true => ("counter", "non counter"),
            false => ("non counter", "counter"),
        };
        let table = self.table.full_name();
        Err(CqlError::configuration(format!(
            "{table}: Cannot have a {column} column (\"{name}\") in a {kind} table"
        )))
    }

    /// A column that was dropped may only come back as it was.
    fn check_again(&self, column: &Column) -> Result<()> {
        let mut dropped = self.table.dropped.iter().rev();
        let Some((dropped, _)) = dropped.find(|(dropped, _)| dropped.name == column.name) else {
            return Ok(());
        };
        let name = &column.name;
        let is_same = |left: &DataType, right: &DataType| {
            let bare = |data_type: &DataType| data_type.without_user_types().freeze();
            bare(left) == bare(right) && left.is_multi_cell() == right.is_multi_cell()
        };
        if !is_same(&dropped.data_type, &column.data_type) {
            return refuse(format!(
                "Cannot re-add previously dropped column '{name}' of type {}, incompatible with \
                 previous type {}",
                column.data_type, dropped.data_type
            ));
        }
        let word = |kind: ColumnKind| match kind {
            ColumnKind::Static => "STATIC",
            _ => "REGULAR",
        };
        if dropped.kind != column.kind {
            return refuse(format!(
                "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with \
                 previous kind {}",
                word(column.kind),
                word(dropped.kind)
            ));
        }
        if self.table.is_counter() {
            return refuse(format!(
                "Cannot re-add previously dropped counter column {name}"
            ));
        }
        Ok(())
    }

    fn drop(&mut self, name: &str, if_exists: bool, dropped_us: i64) -> Result<()> {
        let Some(column) = self.table.column(name) else {
            if if_exists {
                return Ok(());
            }
            let table = self.table.full_name();
            return refuse(format!("Column {name} was not found in table '{table}'"));
        };
        if column.is_key() {
            return refuse(format!("Cannot drop PRIMARY KEY column {name}"));
        }
        if matches!(column.data_type, DataType::User { frozen: false, .. }) {
            let data_type = &column.data_type;
            return refuse(format!(
                "Cannot drop non-frozen column {name} of user type {data_type}"
            ));
        }
        let indexes = self.indexes_on(name);
        if !indexes.is_empty() {
            return refuse(format!(
                "Cannot drop column {name} because it has dependent secondary indexes ({indexes})"
            ));
        }
        if !self.views.is_empty() {
            let table = &self.table.name;
            return refuse(format!(
                "Cannot drop column {name} on base table {table} with materialized views"
            ));
        }
        // Its type must be known as long as the table is there, and its user types need not be.
        let column = Column {
            data_type: column.data_type.without_user_types(),
            ..column.clone()
        };
        self.table.columns.retain(|other| other.name != name);
        self.table.dropped.retain(|(other, _)| other.name != name);
        self.table.dropped.push((column, dropped_us));
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, if_exists: bool) -> Result<()> {
        let table = self.table.full_name();
        let Some(column) = self.table.column(from) else {
            if if_exists {
                return Ok(());
            }
            return refuse(format!("Column {from} was not found in table {table}"));
        };
        if !column.is_key() {
            return refuse(format!("Cannot rename non PRIMARY KEY column {from}"));
        }
        if self.table.column(to).is_some() {
            return refuse(format!(
                "Cannot rename column {from} to {to} in table '{table}'; another column with that \
                 name already exists"
            ));
        }
        let indexes = self.indexes_on(from);
        if !indexes.is_empty() {
            return refuse(format!(
                "Can't rename column {from} because it has dependent secondary indexes ({indexes})"
            ));
        }
        for view in &mut self.views {
            rename_in(&mut view.table, from, to);
            view.where_clause = renamed_clause(&view.where_clause, from, to)?;
        }
        rename_in(&mut self.table, from, to);
        Ok(())
    }

    /// The names of the indexes on a column.
    fn indexes_on(&self, column: &str) -> String {
        let indexes = self.table.indexes.iter();
        let names = indexes.filter(|index| index.column == column);
        let names: Vec<&str> = names.map(|index| index.name.as_str()).collect();
        names.join(", ")
    }
}

fn put(table: &mut Table, column: Column) {
    table.columns.push(column);
    Table::sort_columns(&mut table.columns);
}

fn rename_in(table: &mut Table, from: &str, to: &str) {
    for column in &mut table.columns {
        if column.name == from {
            to.clone_into(&mut column.name);
        }
    }
}

/// The relations of a view, with another name for a column.
fn renamed_clause(clause: &str, from: &str, to: &str) -> Result<String> {
    let mut relations = relations_of(clause)?;
    for relation in &mut relations {
        for column in columns_of(relation) {
            if column == from {
                to.clone_into(column);
            }
        }
    }
    clause_of(&relations)
}

fn columns_of(relation: &mut Relation) -> Vec<&mut String> {
    match relation {
        Relation::IsNotNull(column)
        | Relation::Compare { column, .. }
        | Relation::CompareElement { column, .. }
        | Relation::In { column, .. }
        | Relation::Contains { column, .. }
        | Relation::Like { column, .. } => vec![column],
        Relation::CompareTuple { columns, .. }
        | Relation::InTuples { columns, .. }
        | Relation::Token { columns, .. } => columns.iter_mut().collect(),
        Relation::IndexExpression { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;
    use crate::schema::testing::{keyspace_types, table, view};
    use crate::statement::Statement;

    fn altered(before: AlteredTable, text: &str) -> Result<AlteredTable> {
        let Statement::AlterTable(alter) = parse(text)?.statement else {
            panic!("{text}")
        };
        alter_table(before, &alter.action, &keyspace_types(), 7)
    }

    fn plain() -> AlteredTable {
        let text = "CREATE TABLE t (p int, c int, v int, w text, n u, PRIMARY KEY (p, c))";
        AlteredTable {
            table: table(text).unwrap(),
            views: Vec::new(),
        }
    }

    fn viewed() -> AlteredTable {
        let view = view(
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a IS NOT NULL AND b > 3 \
             PRIMARY KEY (b, a)",
        );
        let text = "CREATE TABLE t (a int, b int, c int, d int, e int, PRIMARY KEY (a, b))";
        AlteredTable {
            table: table(text).unwrap(),
            views: vec![view.unwrap()],
        }
    }

    fn names(table: &Table) -> String {
        let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        names.join(" ")
    }

    #[test]
    fn nothing_is_masked() {
        for action in [
            "ADD x text MASKED WITH DEFAULT",
            "ADD (x int, y text MASKED WITH mask_inner(1, null))",
            "ADD IF NOT EXISTS v int MASKED WITH DEFAULT",
            "ALTER w MASKED WITH DEFAULT",
        ] {
            let refused = altered(plain(), &format!("ALTER TABLE t {action}"));
            assert_eq!(refused.unwrap_err().message, NO_MASKS, "{action}");
        }
    }

    #[test]
    fn columns_come_and_go() {
        let added = altered(plain(), "ALTER TABLE t ADD (a list<int>, s int static)").unwrap();
        assert_eq!(names(&added.table), "p c s a n v w");
        let numbers: Vec<u32> = added.table.columns.iter().map(|c| c.number).collect();
        assert_eq!(numbers, [0, 1, 6, 5, 4, 2, 3]);
        let dropped = altered(added, "ALTER TABLE t DROP a USING TIMESTAMP 5").unwrap();
        assert_eq!(names(&dropped.table), "p c s n v w");
        assert_eq!(dropped.table.dropped[0].1, 5);
        let again = altered(dropped, "ALTER TABLE t ADD a list<int>").unwrap();
        assert_eq!(again.table.column("a").unwrap().number, 5);
        let same = altered(plain(), "ALTER TABLE t ADD IF NOT EXISTS v int").unwrap();
        assert_eq!(same, plain());
        let same = altered(plain(), "ALTER TABLE t DROP IF EXISTS x").unwrap();
        assert_eq!(same, plain());
    }

    #[test]
    fn views_follow() {
        let added = altered(viewed(), "ALTER TABLE t ADD f int").unwrap();
        assert_eq!(names(&added.views[0].table), "b a c d e f");
        assert_eq!(added.views[0].table.column("f").unwrap().number, 5);
        let renamed = altered(viewed(), "ALTER TABLE t RENAME b TO \"B\"").unwrap();
        assert_eq!(names(&renamed.table), "a B c d e");
        assert_eq!(names(&renamed.views[0].table), "B a c d e");
        assert_eq!(renamed.views[0].where_clause, "a IS NOT NULL AND \"B\" > 3");
    }

    #[test]
    fn options_change() {
        let with = altered(plain(), "ALTER TABLE t WITH comment = 'x'").unwrap();
        assert_eq!(with.table.options.comment, "x");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, words) in [
            (
                "ALTER TABLE t ADD v text",
                "Column with name 'v' already exists",
            ),
            (
                "ALTER TABLE t ADD x counter",
                "ks.t: Cannot have a counter column (\"x\") in a non counter table",
            ),
            ("ALTER TABLE t DROP p", "Cannot drop PRIMARY KEY column p"),
            (
                "ALTER TABLE t DROP x",
                "Column x was not found in table 'ks.t'",
            ),
            (
                "ALTER TABLE t DROP n",
                "Cannot drop non-frozen column n of user type u",
            ),
            (
                "ALTER TABLE t RENAME v TO x",
                "Cannot rename non PRIMARY KEY column v",
            ),
            (
                "ALTER TABLE t RENAME p TO c",
                "Cannot rename column p to c in table 'ks.t'; another column with that name \
                 already exists",
            ),
            (
                "ALTER TABLE t ALTER v TYPE text",
                "Altering column types is no longer supported",
            ),
        ] {
            assert_eq!(altered(plain(), text).unwrap_err().message, words, "{text}");
        }
        let words = "Cannot drop column c on base table t with materialized views";
        let refused = altered(viewed(), "ALTER TABLE t DROP c").unwrap_err();
        assert_eq!(refused.message, words);
        let dropped = altered(plain(), "ALTER TABLE t DROP v").unwrap();
        let refused = altered(dropped, "ALTER TABLE t ADD v text").unwrap_err();
        assert_eq!(
            refused.message,
            "Cannot re-add previously dropped column 'v' of type text, incompatible with previous \
             type int"
        );
    }
}
