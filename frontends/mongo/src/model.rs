//! The model of documents for the core: their keys in indexes, and their placement by a resharding.

use bson::{Bson, Document, RawBsonRef, RawDocument};
use bytes::Bytes;
use tessera_core::deadline;
use tessera_core::definition::{Definition, IndexDefinition};
use tessera_core::feed::definition::Images;
use tessera_core::feed::record::ChangeKind;
use tessera_core::feed::showing::{Seen, Shown};
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::model::{IndexEntry, Model, ScalarRef, hexadecimal};
use tessera_core::{Error, Result};
use tessera_mongo_language::error::{Code, Error as Refusal};
use tessera_mongo_language::key_text;

use crate::change_stream::{payload, shown};
use crate::collection::{Collection, Collections};
use crate::index::keys;

/// A byte of a document is as much work for its indexes as so many bytes are to be read.
const INDEXING_WORK: usize = 2;

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
        deadline::apart(item.body.len() * INDEXING_WORK, || {
            entries(&collection, indexes, item)
        })
    }

    fn without_index(&self, schema: &Bytes, index: &str) -> Result<Bytes> {
        let mut collection = Collection::decode(schema).map_err(rejected)?;
        collection.indexes.retain(|known| known.name != index);
        collection.encode().map_err(rejected)
    }

    fn check_definition(&self, definition: &Definition) -> Result<()> {
        let read = Collection::decode(&definition.schema);
        read.map(|_| ()).map_err(rejected)
    }

    fn images(&self, schema: &Bytes) -> Result<Images> {
        let collection = Collection::decode(schema).map_err(rejected)?;
        Ok(match collection.keeps_images() {
            true => Images::BOTH,
            false => Images::default(),
        })
    }

    fn change(
        &self,
        definition: &Definition,
        kind: ChangeKind,
        old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<Bytes> {
        let collection = self.collections.of(definition).map_err(rejected)?;
        let body = |item: Option<&'_ Item>| item.map(|item| item.body.clone());
        let (old, new) = (body(old), body(new));
        payload::of_change(&collection, kind, (old.as_deref(), new.as_deref()))
    }

    fn show(&self, schema: &Bytes, seen: &Seen<'_>) -> Result<Option<Shown>> {
        shown::show(schema, seen).map(Some)
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

    fn counts_logical_partitions(&self, definition: &Definition) -> bool {
        !self.partition_key_fields(definition).is_empty()
    }

    fn partition_key_fields(&self, definition: &Definition) -> Vec<String> {
        let collection = self.collections.of(definition).ok();
        let shard_key = collection.as_ref().and_then(|it| it.shard_key.as_ref());
        shard_key.map_or_else(Vec::new, |key| {
            key.paths.iter().map(ToString::to_string).collect()
        })
    }

    fn describe(
        &self,
        _definition: &Definition,
        item: &Item,
        visit: &mut dyn FnMut(&str, ScalarRef<'_>),
    ) -> Result<bool> {
        let document = RawDocument::from_bytes(&item.body).map_err(|_| damaged())?;
        describe(document, &mut String::new(), visit)?;
        Ok(true)
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

/// What the indexes of a collection hold of a document.
fn entries(
    collection: &Collection,
    indexes: &[IndexDefinition],
    item: &Item,
) -> Result<Vec<IndexEntry>> {
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

/// Tells the scalars of a document, whose own path is `path`. No shard key reaches into arrays.
fn describe(
    document: &RawDocument,
    path: &mut String,
    visit: &mut dyn FnMut(&str, ScalarRef<'_>),
) -> Result<()> {
    let outer = path.len();
    for field in document {
        let (name, value) = field.map_err(|_| damaged())?;
        path.truncate(outer);
        if outer > 0 {
            path.push('.');
        }
        path.push_str(name.as_str());
        match value {
            RawBsonRef::Document(inner) => describe(inner, path, visit)?,
            RawBsonRef::Array(_) | RawBsonRef::Null | RawBsonRef::Undefined => {}
            RawBsonRef::Boolean(truth) => visit(path, ScalarRef::Boolean(truth)),
            RawBsonRef::Int32(number) => visit(path, ScalarRef::Integer(number.into())),
            RawBsonRef::Int64(number) => visit(path, ScalarRef::Integer(number)),
            RawBsonRef::Double(number) => visit(path, ScalarRef::Double(number)),
            RawBsonRef::String(text) => visit(path, ScalarRef::Text(text)),
            RawBsonRef::ObjectId(id) => visit(path, ScalarRef::Text(&id.to_hex())),
            RawBsonRef::DateTime(time) => {
                let text = time.try_to_rfc3339_string();
                let text = text.unwrap_or_else(|_| time.timestamp_millis().to_string());
                visit(path, ScalarRef::Text(&text));
            }
            RawBsonRef::Binary(binary) => visit(path, ScalarRef::Text(&hexadecimal(binary.bytes))),
            other => visit(
                path,
                ScalarRef::Text(&Bson::try_from(other).map_err(|_| damaged())?.to_string()),
            ),
        }
    }
    path.truncate(outer);
    Ok(())
}

/// A document from its bytes.
pub(crate) fn decode(body: &[u8]) -> Result<Document> {
    Document::from_reader(body).map_err(|_| damaged())
}

/// The error for a body that is no document.
pub(crate) fn damaged() -> Error {
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
    use bson::oid::ObjectId;
    use bson::spec::BinarySubtype;
    use bson::{Timestamp, doc};

    use super::*;

    #[test]
    fn documents_are_described_by_their_paths() {
        let document = doc! {
            "_id": ObjectId::from_bytes([7; 12]),
            "name": "Ada",
            "at": { "city": "Köln", "deep": { "n": 7_i64 } },
            "tags": ["a"],
            "none": null,
            "age": 36,
            "rate": 0.5,
            "is": true,
            "day": bson::DateTime::from_millis(0),
            "bin": bson::Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 255] },
            "ts": Timestamp { time: 1, increment: 2 },
        };
        let mut told = Vec::new();
        let mut tell = |path: &str, value: ScalarRef<'_>| told.push(format!("{path} {value:?}"));
        let body = document.to_vec().unwrap();
        let document = RawDocument::from_bytes(&body).unwrap();
        describe(document, &mut String::new(), &mut tell).unwrap();
        assert_eq!(
            told,
            [
                "_id Text(\"070707070707070707070707\")",
                "name Text(\"Ada\")",
                "at.city Text(\"Köln\")",
                "at.deep.n Integer(7)",
                "age Integer(36)",
                "rate Double(0.5)",
                "is Boolean(true)",
                "day Text(\"1970-01-01T00:00:00Z\")",
                "bin Text(\"0x01ff\")",
                "ts Text(\"Timestamp(1, 2)\")",
            ]
        );
    }

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
