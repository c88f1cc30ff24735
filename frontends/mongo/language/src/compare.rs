//! The order of BSON values across all types.

use std::cmp::Ordering;

use bson::{Binary, Bson, DbPointer, Document, RawDocumentBuf};
use tessera_core::deadline;

use crate::{collation::Collation, number::Number};

/// How many elements are compared in a step, if only until they differ.
const ELEMENTS_IN_STEP: usize = 16;

/// The order of two values: by their types first, then by value. Numbers of all types compare with
/// each other, strings with symbols.
pub fn compare(a: &Bson, b: &Bson, collation: &Collation) -> Ordering {
    deadline::note(1);
    type_order(a)
        .cmp(&type_order(b))
        .then_with(|| compare_same_type(a, b, collation))
}

/// Whether two values are the same in that order.
pub fn equal(a: &Bson, b: &Bson, collation: &Collation) -> bool {
    compare(a, b, collation) == Ordering::Equal
}

/// Whether two values are stored as the same bytes: of the same type, with the fields in the same
/// order.
pub fn identical(a: &Bson, b: &Bson) -> bool {
    match (a, b) {
        (Bson::Double(a), Bson::Double(b)) => a.to_bits() == b.to_bits(),
        (Bson::Array(a), Bson::Array(b)) => {
            deadline::note(1 + a.len().min(b.len()) / ELEMENTS_IN_STEP);
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| identical(a, b))
        }
        (Bson::Document(a), Bson::Document(b)) => identical_documents(a, b),
        (Bson::JavaScriptCodeWithScope(a), Bson::JavaScriptCodeWithScope(b)) => {
            a.code == b.code && identical_documents(&a.scope, &b.scope)
        }
        _ => a == b,
    }
}

/// Whether two documents are stored as the same bytes.
pub fn identical_documents(a: &Document, b: &Document) -> bool {
    deadline::note(1 + a.len().min(b.len()) / ELEMENTS_IN_STEP);
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|((a_name, a), (b_name, b))| a_name == b_name && identical(a, b))
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
        deadline::note(1);
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

/// A value as BSON writes it, without type and name. Empty if it cannot be written, which happens
/// only to documents beyond two gigabytes.
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

#[cfg(test)]
pub(crate) mod tests {
    use bson::{
        DateTime, JavaScriptCodeWithScope, Regex, Timestamp, bson, doc, oid::ObjectId,
        spec::BinarySubtype,
    };

    use super::*;

    /// A database pointer, which can only be had from bytes.
    pub(crate) fn db_pointer(namespace: &str, id: [u8; 12]) -> Bson {
        let length = i32::try_from(namespace.len() + 1).unwrap();
        let mut value = length.to_le_bytes().to_vec();
        value.extend_from_slice(namespace.as_bytes());
        value.push(0);
        value.extend_from_slice(&id);
        let total = i32::try_from(value.len() + 7).unwrap();
        let bytes = [&total.to_le_bytes(), &[0x0c, 0][..], &value, &[0]].concat();
        let mut document = Document::from_reader(bytes.as_slice()).unwrap();
        document.remove("").unwrap()
    }

    fn binary(subtype: BinarySubtype, bytes: &[u8]) -> Bson {
        Bson::Binary(Binary {
            subtype,
            bytes: bytes.to_vec(),
        })
    }

    pub(crate) fn regex(pattern: &str, options: &str) -> Bson {
        Bson::RegularExpression(Regex {
            pattern: pattern.to_owned().try_into().unwrap(),
            options: options.to_owned().try_into().unwrap(),
        })
    }

    fn scoped(code: &str, scope: Document) -> Bson {
        let code = code.to_owned();
        Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
    }

    fn timestamp(time: u32, increment: u32) -> Bson {
        Bson::Timestamp(Timestamp { time, increment })
    }

    /// One row for each place in the order; the values of a row are equal.
    fn ascending() -> Vec<Vec<Bson>> {
        vec![
            vec![Bson::MinKey],
            vec![Bson::Undefined],
            vec![Bson::Null],
            vec![bson!(f64::NAN)],
            vec![bson!(-1), bson!(-1.0)],
            vec![
                bson!(2),
                bson!(2_i64),
                Bson::Decimal128("2.0".parse().unwrap()),
            ],
            vec![bson!("")],
            vec![bson!("B"), Bson::Symbol("B".to_owned())],
            vec![bson!("a")],
            vec![bson!("a\0")],
            vec![bson!("aa")],
            vec![bson!({})],
            // The type of the first field comes before its name.
            vec![bson!({ "b": 1 }), bson!({ "b": 1.0 })],
            vec![bson!({ "b": 1, "a": 1 })],
            vec![bson!({ "c": 0 })],
            vec![bson!({ "a": "x" })],
            vec![bson!([])],
            vec![bson!([1])],
            vec![bson!([1, 1])],
            vec![bson!([2])],
            vec![bson!(["a"])],
            vec![binary(BinarySubtype::Generic, &[9])],
            vec![binary(BinarySubtype::Generic, &[1, 2])],
            vec![binary(BinarySubtype::Uuid, &[0, 0])],
            vec![Bson::ObjectId(ObjectId::from_bytes([1; 12]))],
            vec![Bson::ObjectId(ObjectId::from_bytes([2; 12]))],
            vec![bson!(false)],
            vec![bson!(true)],
            vec![Bson::DateTime(DateTime::from_millis(-5))],
            vec![Bson::DateTime(DateTime::from_millis(5))],
            vec![timestamp(1, 2)],
            vec![timestamp(2, 1)],
            vec![timestamp(u32::MAX, 0)],
            vec![regex("a", "")],
            vec![regex("a", "i")],
            vec![regex("b", "")],
            vec![db_pointer("z", [9; 12])],
            vec![db_pointer("aa", [1; 12])],
            vec![db_pointer("aa", [2; 12])],
            vec![Bson::JavaScriptCode("a".to_owned())],
            vec![Bson::JavaScriptCode("b".to_owned())],
            vec![scoped("a", doc! { "x": 2 })],
            vec![scoped("b", doc! { "x": 1 })],
            vec![Bson::MaxKey],
        ]
    }

    #[test]
    fn values_of_all_types_have_a_place() {
        let rows = ascending();
        let simple = Collation::default();
        for (a_rank, a_row) in rows.iter().enumerate() {
            for (b_rank, b_row) in rows.iter().enumerate() {
                for (a, b) in a_row.iter().flat_map(|a| b_row.iter().map(move |b| (a, b))) {
                    assert_eq!(compare(a, b, &simple), a_rank.cmp(&b_rank), "{a} {b}");
                    assert_eq!(equal(a, b, &simple), a_rank == b_rank, "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn collations_reach_into_values_but_not_into_names_and_code() {
        let insensitive = Collation::parse(&doc! { "locale": "en", "strength": 1 }).unwrap();
        for (a, b, expected) in [
            (bson!("a"), bson!("A"), true),
            (bson!(["a"]), bson!(["A"]), true),
            (bson!({ "x": "a" }), bson!({ "x": "A" }), true),
            (bson!({ "x": 1 }), bson!({ "X": 1 }), false),
            (
                scoped("", doc! { "x": "a" }),
                scoped("", doc! { "x": "A" }),
                false,
            ),
        ] {
            assert_eq!(equal(&a, &b, &insensitive), expected, "{a} {b}");
        }
    }

    #[test]
    fn identical_values_have_the_same_bytes() {
        for (a, b, expected) in [
            (bson!(1), bson!(1), true),
            (bson!(1), bson!(1.0), false),
            (bson!(0.0), bson!(-0.0), false),
            (bson!(f64::NAN), bson!(f64::NAN), true),
            (bson!([f64::NAN]), bson!([f64::NAN]), true),
            (bson!({ "a": 1, "b": 2 }), bson!({ "a": 1, "b": 2 }), true),
            (bson!({ "a": 1, "b": 2 }), bson!({ "b": 2, "a": 1 }), false),
            (
                scoped("", doc! { "x": 1 }),
                scoped("", doc! { "x": 1.0 }),
                false,
            ),
            (bson!("a"), Bson::Symbol("a".to_owned()), false),
        ] {
            assert_eq!(identical(&a, &b), expected, "{a} {b}");
        }
    }

    #[test]
    fn ordered_values_are_keys_of_sets() {
        let set: std::collections::BTreeSet<_> = [bson!(1), bson!(1.0), bson!("1"), bson!(1_i64)]
            .into_iter()
            .map(OrderedBson)
            .collect();
        assert_eq!(set.len(), 2);
    }
}
