//! The order of BSON values across all types.

use std::cmp::Ordering;

use bson::{Binary, Bson, DbPointer, Document, RawDocumentBuf};

use crate::{collation::Collation, number::Number};

/// The order of two values: by their types first, then by value. Numbers of all types compare with
/// each other, strings with symbols.
pub fn compare(a: &Bson, b: &Bson, collation: &Collation) -> Ordering {
    type_order(a)
        .cmp(&type_order(b))
        .then_with(|| compare_same_type(a, b, collation))
}

/// Whether two values are the same in that order.
pub fn equal(a: &Bson, b: &Bson, collation: &Collation) -> bool {
    compare(a, b, collation) == Ordering::Equal
}

/// The place of a value's type in the order of types.
pub fn type_order(value: &Bson) -> u8 {
    match value {
        Bson::MinKey => 0,
        Bson::Undefined => 1,
        Bson::Null => 5,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 10,
        Bson::String(_) | Bson::Symbol(_) => 15,
        Bson::Document(_) => 20,
        Bson::Array(_) => 25,
        Bson::Binary(_) => 30,
        Bson::ObjectId(_) => 35,
        Bson::Boolean(_) => 40,
        Bson::DateTime(_) => 45,
        Bson::Timestamp(_) => 47,
        Bson::RegularExpression(_) => 50,
        Bson::DbPointer(_) => 55,
        Bson::JavaScriptCode(_) => 60,
        Bson::JavaScriptCodeWithScope(_) => 65,
        Bson::MaxKey => 127,
    }
}

/// The name of a value's type, as `$type` prints it.
pub fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::MinKey => "minKey",
        Bson::Undefined => "undefined",
        Bson::Null => "null",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Double(_) => "double",
        Bson::Decimal128(_) => "decimal",
        Bson::String(_) => "string",
        Bson::Symbol(_) => "symbol",
        Bson::Document(_) => "object",
        Bson::Array(_) => "array",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::Boolean(_) => "bool",
        Bson::DateTime(_) => "date",
        Bson::Timestamp(_) => "timestamp",
        Bson::RegularExpression(_) => "regex",
        Bson::DbPointer(_) => "dbPointer",
        Bson::JavaScriptCode(_) => "javascript",
        Bson::JavaScriptCodeWithScope(_) => "javascriptWithScope",
        Bson::MaxKey => "maxKey",
    }
}

fn compare_same_type(a: &Bson, b: &Bson, collation: &Collation) -> Ordering {
    if let (Some(a), Some(b)) = (Number::from_bson(a), Number::from_bson(b)) {
        return a.compare(b);
    }
    match (a, b) {
        (Bson::String(a) | Bson::Symbol(a), Bson::String(b) | Bson::Symbol(b)) => {
            collation.compare(a, b)
        }
        (Bson::Document(a), Bson::Document(b)) => compare_documents(a, b, collation),
        (Bson::Array(a), Bson::Array(b)) => compare_arrays(a, b, collation),
        (Bson::Binary(a), Bson::Binary(b)) => compare_binary(a, b),
        (Bson::ObjectId(a), Bson::ObjectId(b)) => a.cmp(b),
        (Bson::Boolean(a), Bson::Boolean(b)) => a.cmp(b),
        (Bson::DateTime(a), Bson::DateTime(b)) => a.cmp(b),
        (Bson::Timestamp(a), Bson::Timestamp(b)) => {
            (a.time, a.increment).cmp(&(b.time, b.increment))
        }
        (Bson::RegularExpression(a), Bson::RegularExpression(b)) => {
            (a.pattern.as_str(), a.options.as_str()).cmp(&(b.pattern.as_str(), b.options.as_str()))
        }
        (Bson::DbPointer(a), Bson::DbPointer(b)) => compare_pointers(a, b),
        (Bson::JavaScriptCode(a), Bson::JavaScriptCode(b)) => a.cmp(b),
        (Bson::JavaScriptCodeWithScope(a), Bson::JavaScriptCodeWithScope(b)) => a
            .code
            .cmp(&b.code)
            // Collations do not reach into the scope of code.
            .then_with(|| compare_documents(&a.scope, &b.scope, &Collation::default())),
        _ => Ordering::Equal,
    }
}

/// Documents compare field by field: by the type of the value, then the name, then the value. The
/// one that ends first is less.
pub fn compare_documents(a: &Document, b: &Document, collation: &Collation) -> Ordering {
    for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(b) {
        let order = type_order(a_value)
            .cmp(&type_order(b_value))
            .then_with(|| a_name.cmp(b_name))
            .then_with(|| compare_same_type(a_value, b_value, collation));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn compare_arrays(a: &[Bson], b: &[Bson], collation: &Collation) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = compare(a, b, collation);
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// Binary data compares by length, subtype and content, in that order.
fn compare_binary(a: &Binary, b: &Binary) -> Ordering {
    a.bytes
        .len()
        .cmp(&b.bytes.len())
        .then_with(|| u8::from(a.subtype).cmp(&u8::from(b.subtype)))
        .then_with(|| a.bytes.cmp(&b.bytes))
}

/// Database pointers compare by length, then by their bytes.
fn compare_pointers(a: &DbPointer, b: &DbPointer) -> Ordering {
    let a = value_bytes(&Bson::DbPointer(a.clone()));
    let b = value_bytes(&Bson::DbPointer(b.clone()));
    a.len().cmp(&b.len()).then_with(|| a.cmp(&b))
}

/// A value as BSON writes it, without type and name. Empty if it cannot be written, which is only so
/// for documents beyond two gigabytes.
pub(crate) fn value_bytes(value: &Bson) -> Vec<u8> {
    // Length, type and an empty name come before the value, a terminator after it.
    const BEFORE: usize = 4 + 1 + 1;
    let document = Document::from_iter([(String::new(), value.clone())]);
    RawDocumentBuf::try_from(&document)
        .ok()
        .and_then(|raw| {
            let bytes = raw.as_bytes();
            bytes
                .get(BEFORE..bytes.len().saturating_sub(1))
                .map(<[u8]>::to_vec)
        })
        .unwrap_or_default()
}

/// A value as a key of ordered sets and maps, where numbers of different types may be the same key.
#[derive(Clone, Debug)]
pub struct OrderedBson(pub Bson);

impl Ord for OrderedBson {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0, &Collation::default())
    }
}

impl PartialOrd for OrderedBson {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedBson {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedBson {}
