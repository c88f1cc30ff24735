//! Decoded collections, one for each version of a container's schema.

use std::sync::Arc;

use bytes::Bytes;
use dashmap::DashMap;
use tessera_core::definition::Definition;
use tessera_core::key::StorageId;
use tessera_mongo_language::error::Result;

use crate::collection::Collection;

/// So many are kept; beyond that all are forgotten, which costs one decoding each.
const MAX_KEPT: usize = 10_000;

/// Remembers the collection that a schema describes. A schema's bytes are shared by all holders of
/// one definition, so a decoded one is recognised by where its bytes lie; keeping them alive here
/// makes sure that no others lie there.
#[derive(Default)]
pub(crate) struct Collections {
    decoded: DashMap<StorageId, (Bytes, Arc<Collection>), ahash::RandomState>,
}

impl Collections {
    /// The collection that a definition describes.
    pub(crate) fn of(&self, definition: &Definition) -> Result<Arc<Collection>> {
        if let Some(known) = self.decoded.get(&definition.storage)
            && is_same(&known.0, &definition.schema)
        {
            return Ok(Arc::clone(&known.1));
        }
        let mut collection = Collection::decode(&definition.schema)?;
        let before = self.decoded.get(&definition.storage);
        let before = before.map(|known| Arc::clone(&known.1));
        collection.remember(definition, before.as_deref());
        let collection = Arc::new(collection);
        if self.decoded.len() >= MAX_KEPT {
            self.decoded.clear();
        }
        let kept = (definition.schema.clone(), Arc::clone(&collection));
        self.decoded.insert(definition.storage, kept);
        Ok(collection)
    }
}

fn is_same(a: &Bytes, b: &Bytes) -> bool {
    std::ptr::eq(a.as_ptr(), b.as_ptr()) && a.len() == b.len()
}
