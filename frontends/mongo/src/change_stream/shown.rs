//! Documents and their changes as extended JSON, for feeds that are read over HTTP.

use bson::{Document, RawDocument, RawDocumentBuf};
use bytes::Bytes;
use tessera_core::Result;
use tessera_core::feed::showing::{Seen, Shown};
use tessera_mongo_language::extended_json::write_document;

use crate::change_stream::key;
use crate::change_stream::payload::Payload;
use crate::collection::Collection;
use crate::model::{damaged, rejected};

/// A document or a change of one.
pub(crate) fn show(schema: &Bytes, seen: &Seen<'_>) -> Result<Shown> {
    let mut shown = Shown {
        item: seen.after.map(json).transpose()?,
        before: seen.before.map(json).transpose()?,
        ..Shown::default()
    };
    match seen.payload {
        Some(payload) => {
            let payload = Payload::decode(payload).map_err(rejected)?;
            shown.key = json_of(&payload.key)?;
            shown.update = payload.description.as_ref().map(json_of).transpose()?;
        }
        None => {
            let collection = Collection::decode(schema).map_err(rejected)?;
            let body = seen.after.or(seen.before).ok_or_else(damaged)?;
            let body = RawDocument::from_bytes(body).map_err(|_| damaged())?;
            shown.key = json_of(&key::of(&collection, body).map_err(rejected)?)?;
        }
    }
    Ok(shown)
}

fn json(body: &Bytes) -> Result<String> {
    written(RawDocument::from_bytes(body).map_err(|_| damaged())?)
}

fn json_of(document: &Document) -> Result<String> {
    written(&RawDocumentBuf::try_from(document).map_err(|_| damaged())?)
}

fn written(document: &RawDocument) -> Result<String> {
    let mut out = String::new();
    write_document(document, &mut out).map_err(|_| damaged())?;
    Ok(out)
}
