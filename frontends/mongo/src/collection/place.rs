//! Placement of documents: unsharded ones in a single logical partition by `_id`, sharded ones in
//! that of their shard key, capped ones in insertion order.

use bson::raw::RawBsonRef;
use bson::{Bson, RawDocument};
use bytes::Bytes;
use tessera_core::encoding::put_u64;
use tessera_core::locator::Locator;
use tessera_core::reading::Span;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error, Result};
use tessera_mongo_language::{hash, key};

use crate::collection::{Collection, ShardKey};

/// The token of every document that is not sharded.
const UNSHARDED_TOKEN: i64 = 0;

/// Where a document with this `_id` lies in a collection without options.
pub(crate) fn usual(id: &Bson) -> Locator {
    let row_key = key::encode(id, &Collation::default());
    Locator::row(UNSHARDED_TOKEN, Bytes::new(), row_key)
}

impl Collection {
    /// The row key of an `_id` where documents are found by it.
    pub(crate) fn row_key(&self, id: &Bson) -> Bytes {
        key::encode(id, &self.collation).into()
    }

    /// Where the document with this `_id` lies in a collection that is ordered by it.
    pub(crate) fn locate_id(&self, id: &Bson) -> Locator {
        Locator::row(UNSHARDED_TOKEN, Bytes::new(), self.row_key(id))
    }

    /// Where a new document goes; `sequence` is its place in time, which capped ones are kept by.
    pub(crate) fn locate(&self, id: &Bson, body: &RawDocument, sequence: u64) -> Result<Locator> {
        if let Some(shard_key) = &self.shard_key {
            let (token, partition_key) = shard_key.place(body)?;
            return Ok(Locator::row(token, partition_key, self.row_key(id)));
        }
        if self.capped.is_some() {
            let mut row_key = Vec::with_capacity(8);
            put_u64(&mut row_key, sequence);
            return Ok(Locator::row(UNSHARDED_TOKEN, Bytes::new(), row_key));
        }
        Ok(self.locate_id(id))
    }

    /// The rows of an unsharded collection whose row keys lie within bounds.
    pub(crate) fn rows(from: std::ops::Bound<Bytes>, to: std::ops::Bound<Bytes>) -> Span {
        Span::Rows {
            token: UNSHARDED_TOKEN,
            partition_key: Bytes::new(),
            from,
            to,
        }
    }
}

impl ShardKey {
    /// The token and partition key of a document: [`Code::SHARD_KEY_NOT_FOUND`] if it lacks a
    /// field.
    pub(crate) fn place(&self, body: &RawDocument) -> Result<(i64, Bytes)> {
        let values = self.paths.iter().map(|path| {
            let value = value_at(body, path)?;
            value.ok_or_else(|| {
                Error::new(
                    Code::SHARD_KEY_NOT_FOUND,
                    format!("document does not contain shard key field '{path}'"),
                )
            })
        });
        let values: Vec<Bson> = values.collect::<Result<_>>()?;
        Ok(self.place_values(&values))
    }

    /// The token and partition key of these values, one for each field.
    pub(crate) fn place_values(&self, values: &[Bson]) -> (i64, Bytes) {
        let mut partition_key = Vec::new();
        for value in values {
            partition_key.extend_from_slice(&key::encode(value, &Collation::default()));
        }
        (hash::hash_fields(values), partition_key.into())
    }
}

/// The value at a dotted path that leads through documents alone.
pub(crate) fn value_at(body: &RawDocument, path: &str) -> Result<Option<Bson>> {
    let damaged = |_| Error::new(Code::BAD_VALUE, "the document is not valid BSON");
    let mut current = body;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let Some(value) = current.get(part).map_err(damaged)? else {
            return Ok(None);
        };
        match (value, parts.peek()) {
            (RawBsonRef::Array(_), _) => {
                let message = format!("the shard key field '{path}' leads to an array");
                return Err(Error::new(Code::SHARD_KEY_NOT_FOUND, message));
            }
            (RawBsonRef::Document(inner), Some(_)) => current = inner,
            (_, Some(_)) => return Ok(None),
            (RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined, None) => {
                let message = format!("the shard key field '{path}' has a type that is not placed");
                return Err(Error::new(Code::SHARD_KEY_NOT_FOUND, message));
            }
            (value, None) => return Bson::try_from(value).map(Some).map_err(damaged),
        }
    }
    Ok(None)
}
