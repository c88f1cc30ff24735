//! What the core must know of documents: their keys in indexes, and where a resharding puts them.

use bson::{Document, RawDocument};
use bytes::Bytes;
use tessera_core::definition::{Definition, IndexDefinition};
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model, hexadecimal};
use tessera_core::{Error, Result};
use tessera_mongo_language::error::{Code, Error as Refusal};
use tessera_mongo_language::key_text;

use crate::collection::{Collection, Collections};
use crate::index::keys;

/// The model of documents.
#[derive(Default)]
pub struct MongoModel {
    collections: Collections,
}

impl Model for MongoModel {
    fn index_entries(
        &self,
        definition: &Definition,
        indexes: &[IndexDefinition],
        item: &Item,
    ) -> Result<Vec<IndexEntry>> {
        let collection = self.collections.of(definition).map_err(rejected)?;
        let document = decode(&item.body)?;
        let mut entries = Vec::with_capacity(indexes.len());
        for index in indexes {
            // An index that a failed build left in the schema alone is none.
            let Some(spec) = collection.core_index(&index.name) else {
                continue;
            };
            let found = keys::of(spec, &document).map_err(rejected)?;
            let entry = |value, covered| IndexEntry {
                index: index.id,
                value,
                covered,
            };
            for (value, covered) in found.entries {
                entries.push(entry(value, covered));
            }
            for position in found.multikey {
                let marker = keys::marker(position, &item.locator.row_key);
                entries.push(entry(marker, Bytes::new()));
            }
        }
        Ok(entries)
    }

    fn without_index(&self, schema: &Bytes, index: &str) -> Result<Bytes> {
        let mut collection = Collection::decode(schema).map_err(rejected)?;
        collection.indexes.retain(|known| known.name != index);
        collection.encode().map_err(rejected)
    }

    /// MongoDB has no such limit: a collection that is not sharded is one logical partition.
    fn max_logical_bytes(&self) -> Option<i64> {
        None
    }

    fn partition_key_text(&self, definition: &Definition, partition_key: &[u8]) -> String {
        let collection = self.collections.of(definition).ok();
        let shard_key = collection.as_ref().and_then(|it| it.shard_key.as_ref());
        let Some(shard_key) = shard_key else {
            return "all documents: not sharded".to_owned();
        };
        match key_text::values(partition_key) {
            Some(values) => {
                let fields = shard_key.paths.iter().zip(values);
                let fields = fields.map(|(path, value)| format!("{path}: {value}"));
                format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
            }
            None => hexadecimal(partition_key),
        }
    }

    fn relocate(&self, target: &Definition, item: &Item) -> Result<Locator> {
        let collection = self.collections.of(target).map_err(rejected)?;
        let body = RawDocument::from_bytes(&item.body).map_err(|_| damaged())?;
        let id = body
            .get("_id")
            .map_err(|_| damaged())?
            .ok_or_else(damaged)?;
        let id = id.try_into().map_err(|_| damaged())?;
        let sequence = item.version;
        collection.locate(&id, body, sequence).map_err(rejected)
    }
}

fn decode(body: &[u8]) -> Result<Document> {
    Document::from_reader(body).map_err(|_| damaged())
}

fn damaged() -> Error {
    Error::Corrupt("a document is not valid BSON".into())
}

/// Hands a refusal through the core, which keeps nothing of it but a text.
pub(crate) fn rejected(refusal: Refusal) -> Error {
    Error::Rejected(format!("[{}] {}", refusal.code.0, refusal.message))
}

/// The refusal that was handed through the core by [`rejected`].
pub(crate) fn refusal_of(rejection: &str) -> Refusal {
    let parsed = rejection.strip_prefix('[').and_then(|rest| {
        let (code, message) = rest.split_once("] ")?;
        Some(Refusal::new(Code(code.parse().ok()?), message))
    });
    parsed.unwrap_or_else(|| Refusal::new(Code::OPERATION_FAILED, rejection))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_come_back_from_the_core() {
        let refusal = Refusal::new(Code(171), "cannot index parallel arrays");
        let Error::Rejected(text) = rejected(refusal.clone()) else {
            panic!("not a rejection");
        };
        assert_eq!(refusal_of(&text), refusal);
        assert_eq!(refusal_of("the container is being moved").code, Code(96));
    }
}
