//! The stored schema of a collection: options, identity, shard key and indexes, as one BSON
//! document.

use std::sync::Arc;

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use bytes::Bytes;
use tessera_core::container::Container;
use tessera_core::definition::{Definition, IndexState};
use tessera_core::key::IndexId;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error, Result};
use tessera_mongo_language::filter;

use crate::collection::options::IMAGES;
use crate::index::{Accesses, ID_INDEX, IndexSpec};
use crate::plan::filters::IndexFilters;

/// The name of the core's index that keeps `_id` unique where the row key is another one.
pub(crate) const CORE_ID_INDEX: &str = ID_INDEX;

/// The most bytes of a definition: it is a document, and has to fit into an answer.
const MAX_SCHEMA_BYTES: usize = 16 << 20;

/// A collection or view, as its schema says.
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    pub(crate) uuid: bson::Uuid,
    /// The options as listCollections shows them.
    pub(crate) options: Document,
    pub(crate) view: Option<View>,
    pub(crate) capped: Option<Capped>,
    pub(crate) collation: Collation,
    pub(crate) validator: Option<Validator>,
    pub(crate) shard_key: Option<ShardKey>,
    /// The index on `_id`, which always is.
    pub(crate) id_index: Arc<IndexSpec>,
    /// All other indexes. One that the core does not know is not there (any more).
    pub(crate) indexes: Vec<Arc<IndexSpec>>,
    /// How often `collMod` was run, for change streams to tell.
    pub(crate) modified: i64,
    /// Which indexes some queries may use.
    pub(crate) index_filters: Arc<IndexFilters>,
}

/// What a view reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// A collection or view of the same database.
    pub(crate) on: String,
    pub(crate) pipeline: Vec<Bson>,
}

/// The limits of a capped collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capped {
    pub(crate) size: i64,
    pub(crate) max: Option<i64>,
}

/// What documents must be like.
#[derive(Clone, Debug)]
pub(crate) struct Validator {
    pub(crate) rules: filter::Validator,
    /// Whether documents that do not fit already may stay so when they are updated.
    pub(crate) moderate: bool,
    /// Whether documents that do not fit are refused, or only noted.
    pub(crate) refuses: bool,
}

/// By which fields documents are placed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardKey {
    /// The key pattern as it was given.
    pub(crate) key: Document,
    pub(crate) paths: Vec<String>,
}

impl Collection {
    /// A collection without anything but these options, which were checked before.
    pub(crate) fn new(options: Document) -> Result<Self> {
        Self::assemble(bson::Uuid::new(), options, None, &[])
    }

    fn assemble(
        uuid: bson::Uuid,
        options: Document,
        shard_key: Option<Document>,
        indexes: &[Document],
    ) -> Result<Self> {
        let collation = match options.get_document("collation") {
            Ok(collation) => Collation::parse(collation)?,
            Err(_) => Collation::default(),
        };
        let view = options.get_str("viewOn").ok().map(|on| View {
            on: on.to_owned(),
            pipeline: options.get_array("pipeline").cloned().unwrap_or_default(),
        });
        let capped = options.get_bool("capped").unwrap_or(false).then(|| Capped {
            size: capped_size(whole(options.get("size")).unwrap_or(0)),
            max: whole(options.get("max")).filter(|max| *max > 0),
        });
        let mut id_index = IndexSpec::id_index(&collation);
        if let Ok(clustered) = options.get_document("clusteredIndex") {
            id_index.name = clustered.get_str("name").unwrap_or(ID_INDEX).to_owned();
            id_index.document = doc! {
                "v": 2, "key": { "_id": 1 }, "name": id_index.name.clone(), "unique": true,
                "clustered": true,
            };
        }
        Ok(Self {
            uuid,
            validator: Validator::read(&options, &collation)?,
            view,
            capped,
            shard_key: shard_key.map(ShardKey::new),
            id_index: Arc::new(id_index),
            indexes: stored_indexes(indexes)?,
            collation,
            options,
            modified: 0,
            index_filters: Arc::default(),
        })
    }

    /// The same collection with other options.
    pub(crate) fn with_options(&self, options: Document) -> Result<Self> {
        let shard_key = self
            .shard_key
            .as_ref()
            .map(|shard_key| shard_key.key.clone());
        let indexes: Vec<Document> = self.indexes.iter().map(|i| i.document.clone()).collect();
        let modified = self.modified;
        let changed = Self::assemble(self.uuid, options, shard_key, &indexes)?;
        Ok(Self {
            modified,
            ..changed
        })
    }

    /// Reads the schema of a container.
    pub(crate) fn decode(schema: &[u8]) -> Result<Self> {
        let damaged = || Error::new(Code::INTERNAL_ERROR, "a collection's schema is damaged");
        let stored = Document::from_reader(schema).map_err(|_| damaged())?;
        let uuid = match stored.get("uuid") {
            Some(Bson::Binary(binary)) => binary.to_uuid().map_err(|_| damaged())?,
            _ => return Err(damaged()),
        };
        let options = stored.get_document("options").map_err(|_| damaged())?;
        let shard_key = stored.get_document("shardKey").ok().cloned();
        let indexes = stored.get_array("indexes").map_err(|_| damaged())?;
        let indexes = indexes.iter().map(|index| match index {
            Bson::Document(index) => Ok(index.clone()),
            _ => Err(damaged()),
        });
        let indexes: Vec<Document> = indexes.collect::<Result<_>>()?;
        let modified = stored.get_i64("modified").unwrap_or(0);
        let read = Self::assemble(uuid, options.clone(), shard_key, &indexes)?;
        Ok(Self { modified, ..read })
    }

    /// The schema to store: read back from its bytes, and the same again when it is.
    pub(crate) fn encode(&self) -> Result<Bytes> {
        let encoded = self.to_bytes()?;
        if encoded.len() > MAX_SCHEMA_BYTES {
            let message = format!(
                "the definition of the collection with all its options and indexes has {} bytes, \
                 and may have {MAX_SCHEMA_BYTES}",
                encoded.len()
            );
            return Err(Error::new(Code::BSON_OBJECT_TOO_LARGE, message));
        }
        if Self::decode(&encoded)?.to_bytes()? != encoded {
            let message = "the definition of the collection would not read back as it is";
            return Err(Error::new(Code::INTERNAL_ERROR, message));
        }
        Ok(encoded)
    }

    fn to_bytes(&self) -> Result<Bytes> {
        let indexes = self
            .indexes
            .iter()
            .map(|index| Bson::Document(index.document.clone()));
        let mut stored = doc! {
            "uuid": self.uuid,
            "options": self.options.clone(),
            "indexes": indexes.collect::<Vec<_>>(),
        };
        if let Some(shard_key) = &self.shard_key {
            stored.insert("shardKey", shard_key.key.clone());
        }
        if self.modified != 0 {
            stored.insert("modified", self.modified);
        }
        let encoded = stored.to_vec();
        let encoded = encoded.map_err(|e| Error::new(Code::INTERNAL_ERROR, e.to_string()))?;
        Ok(encoded.into())
    }

    /// Whether documents are kept as they were before and after each change.
    pub(crate) fn keeps_images(&self) -> bool {
        let images = self.options.get_document(IMAGES);
        images.is_ok_and(|images| images.get_bool("enabled").unwrap_or(false))
    }

    /// Whether an index refuses new equal values before it becomes unique.
    pub(crate) fn prepares_unique(&self) -> bool {
        self.indexes.iter().any(|index| index.prepare_unique)
    }

    /// Whether items lie in the order of their `_id`.
    pub(crate) fn is_ordered_by_id(&self) -> bool {
        self.capped.is_none() && self.shard_key.is_none()
    }

    /// Whether it was made to lie in the order of its `_id`, which is then no index beside it.
    pub(crate) fn is_clustered(&self) -> bool {
        self.options.contains_key("clusteredIndex")
    }

    /// Whether a core index on `_id` is needed, because the row key alone does not find one.
    pub(crate) fn needs_id_index(&self) -> bool {
        !self.is_ordered_by_id()
    }

    /// Takes over what this process knows of the collection besides its schema: index filters, and
    /// how often indexes were used, unless they are others by now.
    pub(crate) fn remember(&mut self, definition: &Definition, before: Option<&Self>) {
        if let Some(before) = before {
            self.index_filters = Arc::clone(&before.index_filters);
        }
        for spec in self.indexes.iter_mut().chain([&mut self.id_index]) {
            let id = definition.index(&spec.name).map(|index| index.id);
            let known = before.and_then(|before| before.index(&spec.name));
            let known =
                known.filter(|known| known.accesses.index == id && known.hidden == spec.hidden);
            let accesses = match known {
                Some(known) => Arc::clone(&known.accesses),
                None => Arc::new(Accesses::new(id)),
            };
            Arc::make_mut(spec).accesses = accesses;
        }
    }

    /// The index of this name, `_id_` included.
    pub(crate) fn index(&self, name: &str) -> Option<&Arc<IndexSpec>> {
        self.all_indexes().find(|index| index.name == name)
    }

    pub(crate) fn all_indexes(&self) -> impl Iterator<Item = &Arc<IndexSpec>> {
        std::iter::once(&self.id_index).chain(&self.indexes)
    }

    /// The secondary indexes that are there, with their state.
    pub(crate) fn live_indexes<'a>(
        &'a self,
        definition: &'a Definition,
    ) -> impl Iterator<Item = (&'a Arc<IndexSpec>, IndexId, IndexState)> {
        self.indexes.iter().filter_map(|spec| {
            let index = definition.index(&spec.name)?;
            Some((spec, index.id, index.state))
        })
    }

    /// The index that the core knows by this name.
    pub(crate) fn core_index(&self, name: &str) -> Option<&Arc<IndexSpec>> {
        if name == CORE_ID_INDEX {
            return Some(&self.id_index);
        }
        self.indexes.iter().find(|index| index.name == name)
    }

    /// What listCollections shows besides the name.
    pub(crate) fn kind(&self) -> &'static str {
        if self.view.is_some() {
            "view"
        } else {
            "collection"
        }
    }

    pub(crate) fn uuid_bson(&self) -> Bson {
        Bson::Binary(Binary {
            subtype: BinarySubtype::Uuid,
            bytes: self.uuid.bytes().to_vec(),
        })
    }
}

impl ShardKey {
    pub(crate) fn new(key: Document) -> Self {
        let paths = key.keys().cloned().collect();
        Self { key, paths }
    }
}

impl Validator {
    fn read(options: &Document, collation: &Collation) -> Result<Option<Self>> {
        let Ok(document) = options.get_document("validator") else {
            return Ok(None);
        };
        let level = options.get_str("validationLevel").unwrap_or("strict");
        let action = options.get_str("validationAction").unwrap_or("error");
        if document.is_empty() || level == "off" {
            return Ok(None);
        }
        let context = crate::context::constant(collation);
        Ok(Some(Self {
            rules: filter::Validator::parse(document, &context)?,
            moderate: level == "moderate",
            refuses: action != "warn",
        }))
    }
}

/// The bytes that a capped collection really may have: at least 4 KiB, in steps of 256.
fn capped_size(asked: i64) -> i64 {
    const LEAST: i64 = 4_096;
    const STEP: i64 = 256;
    asked.max(LEAST).saturating_add(STEP - 1) / STEP * STEP
}

fn stored_indexes(stored: &[Document]) -> Result<Vec<Arc<IndexSpec>>> {
    stored
        .iter()
        .map(|index| IndexSpec::stored(index).map(Arc::new))
        .collect()
}

/// The id of the core's index on `_id`, where the collection has one.
pub(crate) fn core_id_index(container: &Container) -> Option<IndexId> {
    let index = container.definition.index(CORE_ID_INDEX);
    index
        .filter(|index| index.state == IndexState::Ready)
        .map(|index| index.id)
}

fn whole(value: Option<&Bson>) -> Option<i64> {
    match value? {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_read_back() {
        let options = doc! {
            "capped": true, "size": 4096, "max": 3i64,
            "validator": { "a": { "$gt": 1 } }, "validationAction": "warn",
        };
        let mut collection = Collection::new(options).unwrap();
        let spec = doc! { "key": { "a": 1 }, "name": "a_1", "unique": true };
        let spec = IndexSpec::parse(&spec, &Collation::default()).unwrap();
        collection.indexes.push(Arc::new(spec));
        collection.shard_key = Some(ShardKey::new(doc! { "a": "hashed" }));
        collection.modified = 3;
        let again = Collection::decode(&collection.encode().unwrap()).unwrap();
        assert_eq!(again.uuid, collection.uuid);
        assert_eq!(again.options, collection.options);
        assert_eq!(again.modified, 3);
        assert_eq!(
            again.capped,
            Some(Capped {
                size: 4096,
                max: Some(3)
            })
        );
        assert_eq!(again.shard_key, collection.shard_key);
        assert_eq!(again.indexes.len(), 1);
        assert!(again.indexes[0].unique);
        assert!(!again.validator.unwrap().refuses);
    }

    #[test]
    fn damaged_schemas_are_errors() {
        let encoded = Collection::new(doc! {}).unwrap().encode().unwrap();
        for length in 0..encoded.len() {
            assert!(Collection::decode(&encoded[..length]).is_err(), "{length}");
        }
    }
}
