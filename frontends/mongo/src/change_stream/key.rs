//! The key of a document in an event: its shard key and its `_id`.

use bson::{Bson, Document, RawDocument};
use tessera_mongo_language::error::Result;

use crate::collection::Collection;
use crate::collection::place::value_at;

/// The fields that name a document for good.
pub(crate) fn of(collection: &Collection, body: &RawDocument) -> Result<Document> {
    let paths = collection.shard_key.iter().flat_map(|key| &key.paths);
    let mut key = Document::new();
    for path in paths {
        if let Some(value) = value_at(body, path)? {
            key.insert(path.clone(), value);
        }
    }
    if !key.contains_key("_id") {
        key.insert("_id", value_at(body, "_id")?.unwrap_or(Bson::Null));
    }
    Ok(key)
}
