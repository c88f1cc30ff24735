//! The model of entities for the core: their placement, and the index that keeps them in order.

use bytes::Bytes;
use tessera_core::definition::{Definition, IndexDefinition, NewIndex};
use tessera_core::feed::showing::{Seen, Shown};
use tessera_core::item::Item;
use tessera_core::key::IndexId;
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model, ScalarRef, hexadecimal};
use tessera_core::{Error, Result};

use crate::entity::{PARTITION_KEY, ROW_KEY, Value};
use crate::shown;
use crate::stored_entity::StoredEntity;
use crate::tables::TableRecord;

/// The name of this API in the catalog.
pub const API: &str = "table";

/// The one index of a table. Entities are placed by hash; here they stand by PartitionKey and,
/// because equal values are ordered by locator, within it by RowKey.
pub(crate) const KEY_ORDER: &str = "key_order";

/// The number that the only index of a table gets.
pub(crate) const KEY_ORDER_ID: IndexId = 1;

/// The indexes of a new table.
pub(crate) fn indexes() -> Vec<NewIndex> {
    vec![NewIndex::new(KEY_ORDER)]
}

/// Where the entity with these keys lies. Both are UTF-8, whose bytes sort as code points do.
pub(crate) fn locator(partition_key: &str, row_key: &str) -> Locator {
    // Two parts of one buffer, which copies of the locator share.
    let mut partition = Bytes::from([partition_key, row_key].concat());
    let row = partition.split_off(partition_key.len());
    Locator::murmur3(partition, row)
}

/// The model of entities.
pub struct TableModel;

impl Model for TableModel {
    fn index_entries(
        &self,
        _definition: &Definition,
        indexes: &[IndexDefinition],
        item: &Item,
    ) -> Result<Vec<IndexEntry>> {
        let entry = |index: &IndexDefinition| IndexEntry {
            index: index.id,
            value: item.locator.partition_key.clone(),
            covered: Bytes::new(),
        };
        Ok(indexes.iter().map(entry).collect())
    }

    fn relocate(&self, _target: &Definition, item: &Item) -> Result<Locator> {
        Ok(item.locator.clone())
    }

    fn check_definition(&self, definition: &Definition) -> Result<()> {
        TableRecord::read(&definition.schema).map(|_| ())
    }

    fn show(&self, _schema: &Bytes, seen: &Seen<'_>) -> Result<Option<Shown>> {
        shown::show(seen).map(Some)
    }

    fn counts_logical_partitions(&self, _definition: &Definition) -> bool {
        true
    }

    fn partition_key_fields(&self, _definition: &Definition) -> Vec<String> {
        vec![PARTITION_KEY.to_owned()]
    }

    fn describe(
        &self,
        _definition: &Definition,
        item: &Item,
        visit: &mut dyn FnMut(&str, ScalarRef<'_>),
    ) -> Result<bool> {
        describe(item, visit)?;
        Ok(true)
    }
}

/// Visits the keys and the properties of an entity.
fn describe(item: &Item, visit: &mut dyn FnMut(&str, ScalarRef<'_>)) -> Result<()> {
    let entity = StoredEntity::of(item);
    let entity = entity.ok_or_else(|| Error::Corrupt("an entity cannot be read".into()))?;
    let entity = entity.view();
    visit(PARTITION_KEY, ScalarRef::Text(entity.partition_key));
    visit(ROW_KEY, ScalarRef::Text(entity.row_key));
    for (name, value) in entity.properties.iter() {
        match value {
            Value::String(text) => visit(name, ScalarRef::Text(&text)),
            Value::Int32(number) => visit(name, ScalarRef::Integer(number.into())),
            Value::Int64(number) => visit(name, ScalarRef::Integer(number)),
            Value::Double(number) => visit(name, ScalarRef::Double(number)),
            Value::Boolean(truth) => visit(name, ScalarRef::Boolean(truth)),
            Value::DateTime(time) => visit(name, ScalarRef::Text(&time.trimmed().to_string())),
            Value::Guid(guid) => visit(name, ScalarRef::Text(&guid.to_string())),
            Value::Binary(bytes) => visit(name, ScalarRef::Text(&hexadecimal(&bytes))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::entity::{DateTime, encode};

    #[test]
    fn entities_are_described_by_their_keys_and_properties() {
        let property = |name: &str, value| (name.to_owned(), value);
        let body = encode(&[
            property("city", Value::String("Köln".into())),
            property("age", Value::Int32(7)),
            property("big", Value::Int64(-8)),
            property("rate", Value::Double(0.5)),
            property("is", Value::Boolean(true)),
            property(
                "at",
                Value::DateTime(DateTime::parse("2026-11-16T00:00:00Z").unwrap()),
            ),
            property("id", Value::Guid(Uuid::nil())),
            property("raw", Value::Binary((&[1, 255][..]).into())),
        ]);
        let item = Item {
            locator: locator("p", "r"),
            version: 0,
            expires_at_ms: None,
            body,
        };
        let mut told = Vec::new();
        let described = describe(&item, &mut |name, value| {
            told.push(format!("{name} {value:?}"));
        });
        described.unwrap();
        assert_eq!(
            told,
            [
                "PartitionKey Text(\"p\")",
                "RowKey Text(\"r\")",
                "city Text(\"Köln\")",
                "age Integer(7)",
                "big Integer(-8)",
                "rate Double(0.5)",
                "is Boolean(true)",
                "at Text(\"2026-11-16T00:00:00Z\")",
                "id Text(\"00000000-0000-0000-0000-000000000000\")",
                "raw Text(\"0x01ff\")",
            ]
        );
        let damaged = Item {
            body: Bytes::from_static(b"\xff"),
            ..item
        };
        assert!(describe(&damaged, &mut |_, _| ()).is_err());
    }
}
