//! What the core must know of entities: where they lie, and the index that keeps them in order.

use bytes::Bytes;
use tessera_core::Result;
use tessera_core::definition::{Definition, IndexDefinition, NewIndex};
use tessera_core::item::Item;
use tessera_core::key::IndexId;
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model};

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
    // Two parts of the same bytes: copies of the locator then share them.
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
}
