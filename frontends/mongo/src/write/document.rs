//! A document to store: checked, with its `_id` first.

use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, cstr};
use bson::spec::ElementType;
use bson::{Bson, RawDocument};
use bytes::Bytes;
use tessera_mongo_language::error::{Code, Error, Result, bad_value};

/// The most bytes of a document.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// The most levels of documents and arrays in one another.
const MAX_DEPTH: usize = 200;

/// A document that may be stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewDocument {
    pub(crate) id: Bson,
    /// The bytes to store, `_id` first.
    pub(crate) body: Bytes,
}

impl NewDocument {
    /// Checks a document that a client sent to be inserted. It gets an `_id` if it has none, and
    /// the time `now` where its own fields hold an empty timestamp.
    pub(crate) fn insert(sent: &RawDocument, now: bson::Timestamp) -> Result<Self> {
        check_size(sent.as_bytes().len())?;
        let mut shape = Shape::default();
        for (position, element) in sent.iter_elements().enumerate() {
            let element = element.map_err(|_| not_bson())?;
            let value = element.value().map_err(|_| not_bson())?;
            check_value(value, 1)?;
            shape.note(position, element.key().as_str(), value)?;
        }
        match &shape.id {
            Some((0, id)) if !shape.empty_timestamps => Ok(Self {
                id: Bson::try_from(*id).map_err(|_| not_bson())?,
                body: Bytes::copy_from_slice(sent.as_bytes()),
            }),
            _ => rewrite(sent, shape.id, now),
        }
    }

    /// Checks a document that an update made.
    pub(crate) fn updated(document: &bson::Document) -> Result<Self> {
        let id = document
            .get("_id")
            .ok_or_else(|| bad_value("the document has no _id"))?;
        check_id(id.element_type())?;
        let first = document.keys().next().is_some_and(|name| name == "_id");
        let encoded = if first {
            crate::batch::encode(document)?
        } else {
            let mut ordered = bson::Document::new();
            ordered.insert("_id", id.clone());
            ordered.extend(document.clone());
            crate::batch::encode(&ordered)?
        };
        check_size(encoded.len())?;
        check_depth(document, 1)?;
        Ok(Self {
            id: id.clone(),
            body: encoded.into(),
        })
    }
}

/// What the first look at a document's own fields finds.
#[derive(Default)]
struct Shape<'a> {
    id: Option<(usize, RawBsonRef<'a>)>,
    empty_timestamps: bool,
}

impl<'a> Shape<'a> {
    fn note(&mut self, position: usize, name: &str, value: RawBsonRef<'a>) -> Result<()> {
        if name == "_id" {
            if self.id.is_some() {
                return Err(bad_value("can't have multiple _id fields in one document"));
            }
            check_id(value.element_type())?;
            if let RawBsonRef::Document(inner) = value {
                check_id_fields(inner)?;
            }
            self.id = Some((position, value));
        } else if is_empty_timestamp(value) {
            self.empty_timestamps = true;
        }
        Ok(())
    }
}

/// The document again, with its `_id` first and its empty timestamps filled.
fn rewrite(
    sent: &RawDocument,
    id: Option<(usize, RawBsonRef<'_>)>,
    now: bson::Timestamp,
) -> Result<NewDocument> {
    let id = match id {
        Some((_, id)) => Bson::try_from(id).map_err(|_| not_bson())?,
        None => Bson::ObjectId(ObjectId::new()),
    };
    let mut body = bson::RawDocumentBuf::new();
    let raw = bson::RawBson::try_from(id.clone()).map_err(|_| not_bson())?;
    body.append(cstr!("_id"), raw);
    for element in sent.iter_elements() {
        let element = element.map_err(|_| not_bson())?;
        let value = element.value().map_err(|_| not_bson())?;
        if element.key().as_str() == "_id" {
            continue;
        }
        if is_empty_timestamp(value) {
            body.append(element.key(), now);
        } else {
            body.append(element.key(), value);
        }
    }
    let body = body.into_bytes();
    check_size(body.len())?;
    Ok(NewDocument {
        id,
        body: body.into(),
    })
}

fn is_empty_timestamp(value: RawBsonRef<'_>) -> bool {
    matches!(value, RawBsonRef::Timestamp(t) if t.time == 0 && t.increment == 0)
}

pub(crate) fn check_size(bytes: usize) -> Result<()> {
    if bytes > MAX_DOCUMENT_BYTES {
        return Err(Error::new(
            Code::BSON_OBJECT_TOO_LARGE,
            format!(
                "object to insert too large. size in bytes: {bytes}, max size: {MAX_DOCUMENT_BYTES}"
            ),
        ));
    }
    Ok(())
}

fn check_id(kind: ElementType) -> Result<()> {
    let refused = match kind {
        ElementType::Array => "array",
        ElementType::Undefined => "undefined",
        ElementType::RegularExpression => "regex",
        _ => return Ok(()),
    };
    Err(Error::new(
        Code::INVALID_ID_FIELD,
        format!("The '_id' value cannot be of type {refused}"),
    ))
}

fn check_id_fields(id: &RawDocument) -> Result<()> {
    for element in id.iter_elements() {
        let element = element.map_err(|_| not_bson())?;
        let name = element.key().as_str();
        if name.starts_with('$') {
            return Err(Error::new(
                Code::DOLLAR_PREFIXED_FIELD_NAME,
                format!(
                    "_id fields may not contain '$'-prefixed fields: {name} is not valid for \
                     storage."
                ),
            ));
        }
    }
    Ok(())
}

/// Reads a value to its last byte, so that whatever is stored can be read again.
fn check_value(value: RawBsonRef<'_>, depth: usize) -> Result<()> {
    let inner = match value {
        RawBsonRef::Document(inner) => inner,
        RawBsonRef::Array(inner) => {
            RawDocument::from_bytes(inner.as_bytes()).map_err(|_| not_bson())?
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => code.scope,
        _ => return Ok(()),
    };
    if depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    for element in inner.iter_elements() {
        let element = element.map_err(|_| not_bson())?;
        check_value(element.value().map_err(|_| not_bson())?, depth + 1)?;
    }
    Ok(())
}

fn check_depth(document: &bson::Document, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    document
        .values()
        .try_for_each(|value| check_value_depth(value, depth))
}

fn check_value_depth(value: &Bson, depth: usize) -> Result<()> {
    match value {
        Bson::Document(inner) => check_depth(inner, depth + 1),
        Bson::Array(_) if depth >= MAX_DEPTH => Err(too_deep()),
        Bson::Array(inner) => inner
            .iter()
            .try_for_each(|value| check_value_depth(value, depth + 1)),
        _ => Ok(()),
    }
}

fn too_deep() -> Error {
    let message = format!("the document has more than {MAX_DEPTH} levels");
    Error::new(Code::OVERFLOW, message)
}

fn not_bson() -> Error {
    Error::new(Code::INVALID_BSON, "the document is not valid BSON")
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawDocumentBuf, doc};

    use super::*;

    const NOW: bson::Timestamp = bson::Timestamp {
        time: 9,
        increment: 1,
    };

    fn insert(document: &Document) -> Result<NewDocument> {
        NewDocument::insert(&RawDocumentBuf::try_from(document).unwrap(), NOW)
    }

    fn stored(document: Document) -> Document {
        let new = insert(&document).unwrap();
        Document::from_reader(new.body.as_ref()).unwrap()
    }

    #[test]
    fn the_id_comes_first() {
        assert_eq!(stored(doc! { "_id": 1, "a": 2 }), doc! { "_id": 1, "a": 2 });
        let moved = stored(doc! { "a": 2, "_id": 1 });
        assert_eq!(moved.keys().collect::<Vec<_>>(), ["_id", "a"]);
        let made = stored(doc! { "a": 2 });
        assert!(matches!(made.get("_id"), Some(Bson::ObjectId(_))));
    }

    #[test]
    fn empty_timestamps_of_the_document_itself_get_the_time() {
        let empty = bson::Timestamp {
            time: 0,
            increment: 0,
        };
        let found = stored(doc! { "_id": 1, "t": empty, "d": { "t": empty } });
        assert_eq!(found, doc! { "_id": 1, "t": NOW, "d": { "t": empty } });
    }

    #[test]
    fn what_cannot_be_stored_has_its_code() {
        let mut deep = doc! {};
        for _ in 0..MAX_DEPTH + 1 {
            deep = doc! { "a": deep };
        }
        for (document, code) in [
            (doc! { "_id": [1] }, 53),
            (doc! { "_id": { "$a": 1 } }, 52),
            (deep, 15),
            (doc! { "a": "x".repeat(MAX_DOCUMENT_BYTES) }, 10_334),
        ] {
            assert_eq!(insert(&document).unwrap_err().code, Code(code));
        }
    }
}
