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

#[cfg(test)]
mod tests {
    use bson::doc;
    use tessera_core::feed::record::ChangeKind;
    use tessera_core::locator::Locator;

    use super::*;
    use crate::batch::encode;

    #[test]
    fn documents_are_shown_with_what_names_them() {
        let schema = Collection::new(doc! {}).unwrap().encode().unwrap();
        let locator = Locator::row(0, "", "");
        let body = Bytes::from(encode(&doc! { "_id": 5_i64, "a": { "b": [1.0] } }).unwrap());
        let payload = Payload {
            key: doc! { "_id": 5_i64 },
            description: Some(doc! { "updatedFields": { "a": 1 } }),
        };
        let payload = payload.encode().unwrap();
        let seen = Seen {
            kind: ChangeKind::Insert,
            locator: &locator,
            version: 1,
            wall_ms: 1,
            payload: None,
            before: None,
            after: Some(&body),
        };
        let key = r#"{"_id":{"$numberLong":"5"}}"#;
        let item = r#"{"_id":{"$numberLong":"5"},"a":{"b":[1.0]}}"#;
        let inserted = show(&schema, &seen).unwrap();
        assert_eq!(
            (inserted.key.as_str(), inserted.item.as_deref()),
            (key, Some(item))
        );
        let update = Seen {
            kind: ChangeKind::Update,
            payload: Some(&payload),
            before: Some(&body),
            after: None,
            ..seen
        };
        let updated = show(&schema, &update).unwrap();
        assert_eq!((updated.key.as_str(), updated.item), (key, None));
        assert_eq!(updated.before.as_deref(), Some(item));
        assert_eq!(
            updated.update.as_deref(),
            Some(r#"{"updatedFields":{"a":1}}"#)
        );
        let damaged = Bytes::from_static(b"\x05\0\0\0\x01");
        let damaged = Seen {
            after: Some(&damaged),
            ..seen
        };
        assert!(show(&schema, &damaged).is_err());
    }
}
