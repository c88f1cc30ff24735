//! The keys of a document in an index: one, or one for each element where arrays are met.
//!
//! A stored value is `01` and the encoded fields, each inverted where its order is descending. A
//! document that is expanded through an array has one more entry, `00`, the field's position and
//! the row key: a scan of those tells at any snapshot which fields of the index are multikey, and
//! it tells so again when the last such document is gone.

use bson::raw::cstr;
use bson::{Bson, Document, RawDocumentBuf};
use bytes::Bytes;
use tessera_core::encoding::invert;
use tessera_core::model::bounded_value;
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error, Result};
use tessera_mongo_language::{hash, key, path};

use crate::index::spec::{IndexSpec, Order};

/// Begins the entries that mark multikey fields.
pub(crate) const MARKER: u8 = 0x00;
/// Begins all other entries.
pub(crate) const VALUE: u8 = 0x01;

/// The most bytes that an entry keeps of the document's own values.
const MAX_COVERED_BYTES: usize = 1_024;

/// One key of a document: a value for each field of the index, none where the field is missing.
type Key = Vec<Option<Bson>>;

/// What an index holds of one document.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DocumentKeys {
    /// The stored values with what each covers, in no order.
    pub(crate) entries: Vec<(Bytes, Bytes)>,
    /// Positions of the fields that led through an array.
    pub(crate) multikey: Vec<u8>,
}

/// The keys of `document` in an index. None where the index leaves it out.
pub(crate) fn of(spec: &IndexSpec, document: &Document) -> Result<DocumentKeys> {
    if let Some(partial) = &spec.partial
        && !partial.filter.matches(document)?
    {
        return Ok(DocumentKeys::default());
    }
    if spec.wildcard.is_some() {
        return wildcard_keys(spec, document);
    }
    let (keys, multikey) = expanded(spec, document)?;
    let mut found = DocumentKeys::default();
    for key in keys {
        if spec.sparse && key.iter().all(Option::is_none) {
            continue;
        }
        let covered = if multikey.is_empty() && !spec.is_hashed() {
            covered(&key)
        } else {
            Bytes::new()
        };
        found.entries.push((encode(spec, &key)?, covered));
    }
    if !found.entries.is_empty() {
        found.multikey = multikey;
    }
    Ok(found)
}

/// The values of the first key of a document, by field, for messages.
pub(crate) fn first_key(spec: &IndexSpec, document: &Document) -> Option<Document> {
    let (keys, _) = expanded(spec, document).ok()?;
    let key = keys.into_iter().next()?;
    Some(named(spec, &key))
}

/// The values of that key of a document whose stored form is `value`, by field.
pub(crate) fn key_of_value(
    spec: &IndexSpec,
    document: &Document,
    value: &[u8],
) -> Option<Document> {
    let (keys, _) = expanded(spec, document).ok()?;
    let key = keys
        .into_iter()
        .find(|key| encode(spec, key).is_ok_and(|encoded| encoded == value))?;
    Some(named(spec, &key))
}

fn named(spec: &IndexSpec, key: &Key) -> Document {
    let fields = spec.fields.iter().zip(key);
    fields
        .map(|(field, value)| {
            let value = value.clone().unwrap_or(Bson::Null);
            (field.path.clone(), value)
        })
        .collect()
}

/// The marker entry of a multikey field for the document with this row key.
pub(crate) fn marker(position: u8, row_key: &[u8]) -> Bytes {
    let mut value = vec![MARKER, position];
    value.extend_from_slice(row_key);
    bounded_value(value.into())
}

/// Appends one field's value as the index orders it.
pub(crate) fn put_field(out: &mut Vec<u8>, value: &Bson, order: Order, collation: &Collation) {
    let mut encoded = match order {
        Order::Hashed => key::encode(&Bson::Int64(hash::hash(value)), &Collation::default()),
        Order::Ascending | Order::Descending => key::encode(value, collation),
    };
    if order.is_descending() {
        invert(&mut encoded);
    }
    out.extend_from_slice(&encoded);
}

fn encode(spec: &IndexSpec, key: &Key) -> Result<Bytes> {
    let mut out = vec![VALUE];
    for (field, value) in spec.fields.iter().zip(key) {
        let value = value.as_ref().unwrap_or(&Bson::Null);
        if field.order == Order::Hashed && matches!(value, Bson::Array(_)) {
            return Err(Error::new(
                Code(16_766),
                format!(
                    "hashed indexes do not currently support array values. Found array at path: {}",
                    field.path
                ),
            ));
        }
        put_field(&mut out, value, field.order, &spec.collation);
    }
    Ok(bounded_value(out.into()))
}

/// The values of a key as a document of fields without names, if it is short.
fn covered(key: &Key) -> Bytes {
    let mut values = RawDocumentBuf::new();
    for value in key {
        // Missing differs from null to a projection: an empty array of one can be no other value.
        let value = value.clone().unwrap_or(Bson::Undefined);
        match bson::RawBson::try_from(value) {
            Ok(value) => values.append(cstr!(""), value),
            Err(_) => return Bytes::new(),
        }
    }
    let bytes = values.into_bytes();
    if bytes.len() > MAX_COVERED_BYTES {
        return Bytes::new();
    }
    bytes.into()
}

/// The values that an entry covers, by field of the index; none if it covers nothing.
pub(crate) fn uncovered(spec: &IndexSpec, covered: &[u8]) -> Option<Document> {
    let values = bson::RawDocument::from_bytes(covered).ok()?;
    let mut fields = spec.fields.iter();
    let mut found = Document::new();
    for element in values.iter() {
        let (_, value) = element.ok()?;
        let field = fields.next()?;
        let value = Bson::try_from(value).ok()?;
        if value != Bson::Undefined {
            found.insert(field.path.clone(), value);
        }
    }
    Some(found)
}

fn wildcard_keys(spec: &IndexSpec, document: &Document) -> Result<DocumentKeys> {
    let mut found = DocumentKeys::default();
    let Some(wildcard) = &spec.wildcard else {
        return Ok(found);
    };
    let (keys, multikey) = expanded(spec, document)?;
    if !multikey.is_empty() {
        return Err(Error::new(
            Code(7_246_301),
            "the other fields of a compound wildcard index cannot be arrays",
        ));
    }
    let values = wildcard.values(document);
    let fixed = keys.first();
    // Documents without any of the wildcard's paths are found by the other fields all the same.
    let missing =
        (spec.fields.len() > 1 && values.entries.is_empty()).then_some((String::new(), None));
    let present = values
        .entries
        .iter()
        .map(|(path, value)| (path.clone(), Some(*value)));
    for (path, value) in present.chain(missing) {
        let mut out = vec![VALUE];
        for (position, field) in spec.fields.iter().enumerate() {
            if position == wildcard.position {
                let path = value.map_or(Bson::MinKey, |_| Bson::String(path.clone()));
                put_field(&mut out, &path, Order::Ascending, &Collation::default());
                put_field(
                    &mut out,
                    value.unwrap_or(&Bson::MinKey),
                    field.order,
                    &spec.collation,
                );
            } else {
                let value = fixed
                    .and_then(|key| key.get(position - usize::from(position > wildcard.position)));
                let value = value.and_then(Option::as_ref).unwrap_or(&Bson::Null);
                put_field(&mut out, value, field.order, &spec.collation);
            }
        }
        found
            .entries
            .push((bounded_value(out.into()), Bytes::new()));
    }
    if values.multikey {
        found
            .multikey
            .push(u8::try_from(wildcard.position).unwrap_or(u8::MAX));
    }
    Ok(found)
}

/// The keys of a document, and the positions of the fields that led through arrays.
fn expanded(spec: &IndexSpec, document: &Document) -> Result<(Vec<Key>, Vec<u8>)> {
    let found = path::keys(document, &spec.paths)?;
    let positions = found.multikey.iter().enumerate();
    let positions = positions.filter(|(_, multikey)| **multikey);
    let multikey = positions.filter_map(|(position, _)| u8::try_from(position).ok());
    Ok((found.entries, multikey.collect()))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn parallel_arrays_are_refused() {
        let asked = doc! { "key": { "a": 1, "b": 1 }, "name": "n" };
        let spec = IndexSpec::parse(&asked, &Collation::default()).unwrap();
        let error = of(&spec, &doc! { "a": [1], "b": [2] }).unwrap_err();
        assert_eq!(error.code, Code(171));
    }

    #[test]
    fn options_leave_documents_out() {
        let sparse = doc! { "key": { "a": 1, "b": 1 }, "name": "n", "sparse": true };
        let partial = doc! {
            "key": { "a": 1 }, "name": "n", "partialFilterExpression": { "a": { "$gt": 3 } },
        };
        let rows = [
            (sparse.clone(), doc! { "c": 1 }, 0),
            (sparse, doc! { "b": 1 }, 1),
            (partial.clone(), doc! { "a": 3 }, 0),
            (partial, doc! { "a": 4 }, 1),
        ];
        for (asked, document, expected) in rows {
            let spec = IndexSpec::parse(&asked, &Collation::default()).unwrap();
            assert_eq!(
                of(&spec, &document).unwrap().entries.len(),
                expected,
                "{document}"
            );
        }
    }

    #[test]
    fn entries_cover_values_of_documents_without_arrays() {
        let asked = doc! { "key": { "a": 1, "b": -1 }, "name": "n" };
        let spec = IndexSpec::parse(&asked, &Collation::default()).unwrap();
        let keys = of(&spec, &doc! { "a": 1.5 }).unwrap();
        assert_eq!(
            uncovered(&spec, &keys.entries[0].1),
            Some(doc! { "a": 1.5 })
        );
        let keys = of(&spec, &doc! { "a": [1.5] }).unwrap();
        assert_eq!(uncovered(&spec, &keys.entries[0].1), None);
        assert_eq!(keys.multikey, [0]);
    }
}
