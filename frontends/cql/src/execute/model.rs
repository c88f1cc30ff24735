//! What the core must know of rows: where they lie, and what secondary indexes hold of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tessera_core::definition::{Definition, IndexDefinition};
use tessera_core::feed::record::ChangeKind;
use tessera_core::feed::showing::{Seen, Shown};
use tessera_core::item::Item;
use tessera_core::key::StorageId;
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model, ScalarRef, bounded_value, hexadecimal};
use tessera_core::{Error, Result};

use super::keys::{RECORD_KEY, key_components};
use super::line::{has_values, is_visible, value_of};
use super::shown;
use crate::error::CqlError;
use crate::row::{Deletion, PartitionRecord, Row, StoredRow};
use crate::schema::{Column, ColumnKind, Index, Relation, Table};
use crate::statement::{IndexTargetKind, quoted};
use crate::types::to_literal;
use crate::types::{DataType, Native, list_elements, map_entries, native_text, put_ascending};

/// Before all times: nothing has ended yet. Who reads an index asks the rows themselves.
const BEFORE_ALL: i64 = i64::MIN;

/// A table as its bytes say it is.
type Known = (Bytes, Arc<Table>);

/// The model of rows.
#[derive(Default)]
pub struct CqlModel {
    /// The tables that were met, so that their bytes are read once.
    tables: Mutex<HashMap<StorageId, Known>>,
    /// The one whose changes were shown last: it may be as it was once, or gone.
    shown: Mutex<Option<Known>>,
}

impl CqlModel {
    fn table(&self, definition: &Definition) -> Result<Arc<Table>> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((schema, table)) = tables.get(&definition.storage)
            && *schema == definition.schema
        {
            return Ok(Arc::clone(table));
        }
        let relation =
            Relation::decode(&definition.schema).map_err(|error| Error::Corrupt(error.message))?;
        let table = Arc::new(relation.table().clone());
        let known = (definition.schema.clone(), Arc::clone(&table));
        tables.insert(definition.storage, known);
        Ok(table)
    }

    fn table_of(&self, schema: &Bytes) -> Result<Arc<Table>> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, table)) = shown.as_ref().filter(|(known, _)| known == schema) {
            return Ok(Arc::clone(table));
        }
        let relation = Relation::decode(schema).map_err(|error| Error::Corrupt(error.message))?;
        let table = Arc::new(relation.table().clone());
        *shown = Some((schema.clone(), Arc::clone(&table)));
        Ok(table)
    }
}

impl Model for CqlModel {
    fn index_entries(
        &self,
        definition: &Definition,
        indexes: &[IndexDefinition],
        item: &Item,
    ) -> Result<Vec<IndexEntry>> {
        let table = self.table(definition)?;
        let mut entries = Vec::new();
        for core_index in indexes {
            let index = table
                .indexes
                .iter()
                .find(|index| index.name == core_index.name);
            let Some((index, column)) =
                index.and_then(|index| Some((index, table.column(&index.column)?)))
            else {
                continue;
            };
            for value in values(&table, column, index, item)? {
                entries.push(IndexEntry {
                    index: core_index.id,
                    value: bounded_value(value.into()),
                    covered: Bytes::new(),
                });
            }
        }
        Ok(entries)
    }

    fn relocate(&self, _target: &Definition, item: &Item) -> Result<Locator> {
        Ok(item.locator.clone())
    }

    fn without_index(&self, schema: &Bytes, index: &str) -> Result<Bytes> {
        let damaged = |error: CqlError| Error::Corrupt(error.message);
        let mut relation = Relation::decode(schema).map_err(damaged)?;
        if let Relation::Table(table, _) = &mut relation {
            table.indexes.retain(|known| known.name != index);
        }
        Ok(relation.encode().map_err(damaged)?.into())
    }

    fn change(
        &self,
        _definition: &Definition,
        _kind: ChangeKind,
        old: Option<&Item>,
        _new: Option<&Item>,
    ) -> Result<Bytes> {
        old.map_or_else(|| Ok(Bytes::new()), shown::removal)
    }

    fn show(&self, schema: &Bytes, seen: &Seen<'_>) -> Result<Option<Shown>> {
        let table = self.table_of(schema)?;
        shown::show(&table, seen)
    }

    /// Less than that of other APIs, as in Cosmos DB.
    fn max_partition_bytes(&self) -> i64 {
        30 << 30
    }

    fn partition_key_text(&self, definition: &Definition, partition_key: &[u8]) -> String {
        let text = self.table(definition).ok().and_then(|table| {
            let columns: Vec<&Column> = table.partition_key().collect();
            let values = key_components(partition_key, columns.len());
            let parts = columns.iter().zip(values).map(|(column, value)| {
                let value = to_literal(&column.data_type, value).ok()?;
                Some(format!("{} = {value}", quoted(&column.name)))
            });
            Some(parts.collect::<Option<Vec<String>>>()?.join(" AND "))
        });
        text.unwrap_or_else(|| hexadecimal(partition_key))
    }

    fn counts_logical_partitions(&self, definition: &Definition) -> bool {
        self.table(definition).is_ok()
    }

    fn partition_key_fields(&self, definition: &Definition) -> Vec<String> {
        let table = self.table(definition).ok();
        table.map_or_else(Vec::new, |table| {
            table.partition_key().map(|key| key.name.clone()).collect()
        })
    }

    fn describe(
        &self,
        definition: &Definition,
        item: &Item,
        visit: &mut dyn FnMut(&str, ScalarRef<'_>),
    ) -> Result<bool> {
        if item.locator.row_key == RECORD_KEY {
            return Ok(false);
        }
        let table = self.table(definition)?;
        let stored = StoredRow::decode(&item.body).ok_or_else(damaged)?;
        if !is_visible(&table, &stored.row, Deletion::NONE, BEFORE_ALL) {
            return Ok(false);
        }
        let components = key_components(&item.locator.partition_key, table.partition_key().count());
        let clustering = stored.clustering.iter().map(|value| &**value);
        let keys = components.into_iter().chain(clustering);
        for (column, value) in table.columns.iter().zip(keys) {
            tell(column, value, visit);
        }
        let own = Deletion::NONE.max(stored.row.deletion);
        for column in table.columns.iter().filter(|column| !column.is_key()) {
            if let Some(value) = value_of(&table, column, &stored.row, own, BEFORE_ALL) {
                tell(column, &value, visit);
            }
        }
        Ok(true)
    }
}

/// Tells a value if its type has texts: collections and what is made of parts are no scalars.
fn tell(column: &Column, value: &[u8], visit: &mut dyn FnMut(&str, ScalarRef<'_>)) {
    let DataType::Native(native) = &column.data_type else {
        return;
    };
    let text = native_text(*native, value);
    let scalar = match native {
        Native::Boolean => ScalarRef::Boolean(value == [1]),
        Native::Bigint | Native::Counter | Native::Int | Native::Smallint | Native::Tinyint => text
            .parse()
            .map_or(ScalarRef::Text(&text), ScalarRef::Integer),
        Native::Double | Native::Float => text
            .parse()
            .map_or(ScalarRef::Text(&text), ScalarRef::Double),
        _ => ScalarRef::Text(&text),
    };
    visit(&column.name, scalar);
}

fn damaged() -> Error {
    Error::Corrupt("a row cannot be read".into())
}

/// The values that an index has of an item.
fn values(table: &Table, column: &Column, index: &Index, item: &Item) -> Result<Vec<Vec<u8>>> {
    if item.locator.row_key == RECORD_KEY {
        let record = PartitionRecord::decode(&item.body).ok_or_else(damaged)?;
        if column.kind == ColumnKind::PartitionKey {
            return Ok(of_partition(table, column, index, (&record, item)));
        }
        if column.kind != ColumnKind::Static {
            return Ok(Vec::new());
        }
        return Ok(of_cells(
            table,
            column,
            index,
            &record.statics,
            record.deletion,
        ));
    }
    if column.kind == ColumnKind::Static {
        return Ok(Vec::new());
    }
    let stored = StoredRow::decode(&item.body).ok_or_else(damaged)?;
    let keys = table.partition_key().count();
    let place = table
        .columns
        .iter()
        .position(|other| other.name == column.name);
    let place = place.unwrap_or(usize::MAX);
    if !column.is_key() {
        return Ok(of_cells(table, column, index, &stored.row, Deletion::NONE));
    }
    if !is_visible(table, &stored.row, Deletion::NONE, BEFORE_ALL) {
        return Ok(Vec::new());
    }
    let components = key_components(&item.locator.partition_key, keys);
    let value = match components.get(place) {
        Some(component) => Some(*component),
        None => stored.clustering.get(place - keys).map(|value| &**value),
    };
    Ok(value.map_or_else(Vec::new, |value| of_value(column, index, value)))
}

/// The value of a column of the partition key, if the partition has static cells: it may be all
/// that there is of the partition.
fn of_partition(
    table: &Table,
    column: &Column,
    index: &Index,
    (record, item): (&PartitionRecord, &Item),
) -> Vec<Vec<u8>> {
    if !has_values(table, &record.statics, record.deletion, BEFORE_ALL) {
        return Vec::new();
    }
    let mut keys = table.partition_key();
    let place = keys.position(|key| key.name == column.name);
    let components = key_components(&item.locator.partition_key, table.partition_key().count());
    let value = place.and_then(|place| components.get(place).copied());
    value.map_or_else(Vec::new, |value| of_value(column, index, value))
}

fn of_cells(
    table: &Table,
    column: &Column,
    index: &Index,
    row: &Row,
    deletion: Deletion,
) -> Vec<Vec<u8>> {
    let value = value_of(table, column, row, deletion.max(row.deletion), BEFORE_ALL);
    value.map_or_else(Vec::new, |value| of_value(column, index, &value))
}

fn of_value(column: &Column, index: &Index, value: &[u8]) -> Vec<Vec<u8>> {
    let one = |first: &[u8], second: &[u8]| index_value(column, index, first, second);
    match (index.kind, &column.data_type) {
        // The nearest are found by comparing, so that nobody would look these up.
        (_, DataType::Vector { .. }) if index.is_storage_attached() => Vec::new(),
        (IndexTargetKind::Simple | IndexTargetKind::Full, _) => vec![one(value, &[])],
        (_, DataType::Map { .. }) => {
            let entries = map_entries(value).unwrap_or_default().into_iter();
            entries
                .map(|(key, value)| match index.kind {
                    IndexTargetKind::Keys => one(key, &[]),
                    IndexTargetKind::Entries => one(key, value),
                    _ => one(value, &[]),
                })
                .collect()
        }
        _ => {
            let elements = list_elements(value, "list").unwrap_or_default().into_iter();
            elements.map(|element| one(element, &[])).collect()
        }
    }
}

/// A value as an index holds it: of entries, the key and then the value.
pub(super) fn index_value(column: &Column, index: &Index, first: &[u8], second: &[u8]) -> Vec<u8> {
    let analysis = index.analysis().filter(|_| index.is_analyzed);
    let first = match analysis {
        Some(analysis) => analysis.apply(first),
        None => Cow::Borrowed(first),
    };
    let first = first.as_ref();
    let mut out = Vec::new();
    match (index.kind, &column.data_type) {
        (IndexTargetKind::Keys, DataType::Map { key, .. }) => put_ascending(&mut out, key, first),
        (IndexTargetKind::Entries, DataType::Map { key, value, .. }) => {
            put_ascending(&mut out, key, first);
            put_ascending(&mut out, value, second);
        }
        (IndexTargetKind::Values, DataType::Map { value, .. }) => {
            put_ascending(&mut out, value, first);
        }
        (
            IndexTargetKind::Values,
            DataType::List { element, .. } | DataType::Set { element, .. },
        ) => put_ascending(&mut out, element, first),
        (_, data_type) => put_ascending(&mut out, data_type, first),
    }
    out
}

#[cfg(test)]
mod tests {
    use tessera_core::name::ContainerName;

    use crate::API;
    use crate::execute::tests::with;

    #[tokio::test]
    async fn partition_keys_are_named_as_a_condition_would_name_them() {
        let tester = with(&[
            "CREATE TABLE t (tenant text, \"Day\" date, n int, PRIMARY KEY ((tenant, \"Day\"), n))",
            "INSERT INTO t (tenant, \"Day\", n) VALUES ('it''s', '2026-11-16', 1)",
        ])
        .await;
        let name = ContainerName::new(API, "k", "t");
        let insight = tester.service.store.insight(&name).await.unwrap();
        let hottest = insight.hot_keys.first().unwrap();
        assert_eq!(hottest.key, "tenant = 'it''s' AND \"Day\" = '2026-11-16'");
        assert_eq!(insight.max_partition_bytes, 30 << 30);
    }
    #[tokio::test]
    async fn rows_are_described_by_their_columns() {
        let tester = with(&[
            "CREATE TABLE t (tenant text, day date, n int, s text STATIC, price double, at \
             timestamp, ok boolean, tags set<text>, big varint, PRIMARY KEY ((tenant, day), n))",
            "INSERT INTO t (tenant, day, s) VALUES ('a', '2026-11-16', 'one for all')",
            "INSERT INTO t (tenant, day, n, price, at, ok, tags, big) VALUES ('a', '2026-11-16', \
             1, 1.5, 0, true, {'x'}, 123456789012345678901)",
            "INSERT INTO t (tenant, day, n) VALUES ('a', '2026-11-16', 2)",
            "DELETE FROM t WHERE tenant = 'a' AND day = '2026-11-16' AND n = 2",
        ])
        .await;
        let name = ContainerName::new(API, "k", "t");
        let mut survey = tester.service.store.survey(&name).await.unwrap();
        assert_eq!(survey.container().key_fields(), ["tenant", "day"]);
        let mut rows = Vec::new();
        while let Some(items) = survey.next().await.unwrap() {
            for item in &items {
                let mut told = Vec::new();
                let is_row = survey.container().describe(item, &mut |name, value| {
                    told.push(format!("{name} {value:?}"));
                });
                if is_row.unwrap() {
                    told.sort();
                    rows.push(told.join(", "));
                }
            }
        }
        assert_eq!(
            rows,
            [
                "at Text(\"1970-01-01T00:00:00.000Z\"), big Text(\"123456789012345678901\"), \
              day Text(\"2026-11-16\"), n Integer(1), ok Boolean(true), price Double(1.5), \
              tenant Text(\"a\")"
            ]
        );
    }
}
