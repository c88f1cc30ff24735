//! A stored entity, read in place.

use tessera_core::item::Item;

use crate::entity::{DateTime, EntityView, Stored, Value};
use crate::filter;

/// A stored entity.
pub(crate) struct StoredEntity<'a>(EntityView<'a>);

impl<'a> StoredEntity<'a> {
    /// Reads an item; none if it is damaged.
    pub(crate) fn of(item: &'a Item) -> Option<Self> {
        Some(Self(EntityView {
            partition_key: std::str::from_utf8(&item.locator.partition_key).ok()?,
            row_key: std::str::from_utf8(&item.locator.row_key).ok()?,
            timestamp: DateTime::from_version(item.version),
            properties: Stored::new(&item.body)?,
        }))
    }

    pub(crate) fn view(&self) -> &EntityView<'a> {
        &self.0
    }
}

impl filter::Properties for StoredEntity<'_> {
    fn get(&self, name: &str) -> Option<Value<'_>> {
        match name {
            "PartitionKey" => Some(Value::String(self.0.partition_key.into())),
            "RowKey" => Some(Value::String(self.0.row_key.into())),
            "Timestamp" => Some(Value::DateTime(self.0.timestamp)),
            _ => self.0.properties.get(name),
        }
    }
}
