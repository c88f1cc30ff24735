//! What the feed keeps of updates and removals of documents, beside what the core keeps of every
//! change: `{k: document key}`, and of updates `d`, what they changed.

use bson::{Bson, Document, RawDocument, doc};
use bytes::Bytes;
use tessera_core::Result as CoreResult;
use tessera_core::feed::record::ChangeKind;
use tessera_mongo_language::error::{Code, Error, Result};
use tessera_mongo_language::update::{Difference, Manner};

use crate::batch::encode;
use crate::change_stream::key;
use crate::collection::Collection;
use crate::model::{damaged, decode, rejected};

/// A change of a document, as the feed keeps it.
pub(crate) struct Payload {
    pub(crate) key: Document,
    /// The field `updateDescription`, as streams that show expanded events have it.
    pub(crate) description: Option<Document>,
}

impl Payload {
    pub(crate) fn encode(self) -> Result<Bytes> {
        let mut payload = doc! { "k": self.key };
        if let Some(description) = self.description {
            payload.insert("d", description);
        }
        Ok(encode(&payload)?.into())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || {
            let message = "an entry of the change feed is damaged";
            Error::new(Code::INTERNAL_ERROR, message)
        };
        let payload = Document::from_reader(bytes).map_err(|_| damaged())?;
        let mut description = None;
        let mut key = None;
        for (name, value) in payload {
            match (name.as_str(), value) {
                ("k", Bson::Document(found)) => key = Some(found),
                ("d", Bson::Document(found)) => description = Some(found),
                _ => return Err(damaged()),
            }
        }
        let key = key.ok_or_else(damaged)?;
        Ok(Self { key, description })
    }
}

/// What an update changed; none if streams show it as a replacement.
pub(crate) fn of_update(
    collection: &Collection,
    manner: &Manner,
    (before, after): (&Document, &Document),
    body: &RawDocument,
) -> Result<Option<Bytes>> {
    let difference = Difference::of(manner, before, after)?;
    let Some(difference) = difference else {
        return Ok(None);
    };
    let payload = Payload {
        key: key::of(collection, body)?,
        description: Some(difference.description()),
    };
    payload.encode().map(Some)
}

/// What the core asks of a change that no statement has described: the key of what it concerns.
pub(crate) fn of_change(
    collection: &Collection,
    kind: ChangeKind,
    (old, new): (Option<&[u8]>, Option<&[u8]>),
) -> CoreResult<Bytes> {
    let body = new.or(old).ok_or_else(damaged)?;
    let raw = RawDocument::from_bytes(body).map_err(|_| damaged())?;
    let described = match (kind, old, new) {
        (ChangeKind::Update, Some(old), Some(new)) => {
            let (old, new) = (decode(old)?, decode(new)?);
            of_update(collection, &Manner::Computed, (&old, &new), raw).map_err(rejected)?
        }
        _ => None,
    };
    match described {
        Some(described) => Ok(described),
        None => {
            let key = key::of(collection, raw).map_err(rejected)?;
            let payload = Payload {
                key,
                description: None,
            };
            payload.encode().map_err(rejected)
        }
    }
}
