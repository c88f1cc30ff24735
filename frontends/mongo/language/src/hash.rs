//! The hash of a BSON value, by which hashed indexes and hashed shard keys order documents.
//!
//! Every value has one; whether arrays, regular expressions and undefined may be hashed is the
//! caller's to decide.

use bson::{Bson, Document};
use tessera_core::deadline;
use tessera_core::hash::mongo::{ValueHasher, truncate};

use crate::{
    compare::{type_order, value_bytes},
    number::Number,
};

/// The canonical type of MinKey, the only one that is negative.
const MIN_KEY: i32 = -1;
/// The canonical type of undefined.
const UNDEFINED: i32 = 0;

/// How many elements, and how many bytes of a text, are hashed in a step.
const ELEMENTS_IN_STEP: usize = 2;
const BYTES_IN_STEP: usize = 256;

/// MongoDB's hashed value. A missing field is hashed as null.
pub fn hash(value: &Bson) -> i64 {
    seeded(value, 0)
}

/// The hashed value of several fields: each is hashed with the one before it as its seed.
pub fn hash_fields(values: &[Bson]) -> i64 {
    values
        .iter()
        .fold(0, |hash, value| seeded(value, low_half(hash)))
}

fn seeded(value: &Bson, seed: i32) -> i64 {
    let mut hasher = ValueHasher::new(seed);
    feed(&mut hasher, None, value);
    hasher.finish()
}

#[expect(clippy::cast_possible_truncation, reason = "seeds have 32 bits")]
fn low_half(hash: i64) -> i32 {
    hash as i32
}

fn feed(hasher: &mut ValueHasher, name: Option<&str>, value: &Bson) {
    match value {
        Bson::Double(value) => hasher.number(name, truncate(*value)),
        Bson::Int32(_) | Bson::Int64(_) | Bson::Decimal128(_) => {
            let number = Number::from_bson(value).map_or(0, Number::to_i64_saturating);
            hasher.number(name, number);
        }
        Bson::String(text) | Bson::Symbol(text) => {
            deadline::note(text.len() / BYTES_IN_STEP);
            hasher.string(name, text);
        }
        Bson::Null => hasher.null(name),
        Bson::Document(document) => {
            hasher.begin_document(name);
            feed_fields(hasher, document);
        }
        Bson::Array(values) => {
            deadline::note(1 + values.len() / ELEMENTS_IN_STEP);
            hasher.begin_array(name);
            for (position, value) in values.iter().enumerate() {
                feed(hasher, Some(&position.to_string()), value);
            }
            hasher.end();
        }
        Bson::JavaScriptCodeWithScope(code) => {
            let mut text = code.code.clone().into_bytes();
            text.push(0);
            hasher.element(name, type_order(value).into(), &text);
            feed_fields(hasher, &code.scope);
        }
        Bson::MinKey => hasher.element(name, MIN_KEY, &[]),
        Bson::Undefined => hasher.element(name, UNDEFINED, &[]),
        _ => hasher.element(name, type_order(value).into(), &value_bytes(value)),
    }
}

fn feed_fields(hasher: &mut ValueHasher, document: &Document) {
    deadline::note(1 + document.len() / ELEMENTS_IN_STEP);
    for (name, value) in document {
        feed(hasher, Some(name), value);
    }
    hasher.end();
}

#[cfg(test)]
mod tests {
    use bson::{
        Binary, DateTime, JavaScriptCodeWithScope, Timestamp, bson, doc, oid::ObjectId,
        spec::BinarySubtype,
    };

    use super::*;
    use crate::compare::tests::{db_pointer, regex};

    fn binary(subtype: BinarySubtype, bytes: &[u8]) -> Bson {
        Bson::Binary(Binary {
            subtype,
            bytes: bytes.to_vec(),
        })
    }

    fn pointer(namespace: &str) -> Bson {
        db_pointer(namespace, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0x10, 0x11, 0x12])
    }

    fn id(hex: &str) -> Bson {
        Bson::ObjectId(ObjectId::parse_str(hex).unwrap())
    }

    fn check(rows: &[(Bson, i64)]) {
        for (value, expected) in rows {
            assert_eq!(hash(value), *expected, "{value:?}");
        }
    }

    #[test]
    fn common_types_hash_as_in_mongodb() {
        check(&[
            (bson!(42), -944302157085130861),
            (bson!(42_i64), -944302157085130861),
            (bson!(42.123), -944302157085130861),
            (Bson::Decimal128("42".parse().unwrap()), -944302157085130861),
            (bson!(0), 4854801880128277513),
            (bson!(f64::NAN), 4854801880128277513),
            (
                Bson::Decimal128("NaN".parse().unwrap()),
                4854801880128277513,
            ),
            (bson!(-1.789), 1140205862565771219),
            (bson!(i32::MIN), 6165898260261354870),
            (bson!(f64::MAX), 921523596458303250),
            (
                Bson::Decimal128("1E+30".parse().unwrap()),
                921523596458303250,
            ),
            (bson!(f64::MIN), 4532067210535695462),
            (Bson::MinKey, 7961148599568647290),
            (Bson::MaxKey, 5504842513779440750),
            (Bson::Undefined, 40158834000849533),
            (Bson::Null, 2338878944348059895),
            (bson!("abc"), 8478485326885698097),
            (Bson::Symbol("abc".to_owned()), 8478485326885698097),
            (bson!({ "a": "abc", "b": 123_i64 }), 4771603801758380216),
            (bson!({}), 7980500913326740417),
            (bson!(["bar", "baz", "qux"]), -2938911267422831539),
            (bson!([]), 8849948234993459283),
        ]);
    }

    #[test]
    fn other_types_hash_as_in_mongodb() {
        let function = "func f() { return 1; }";
        let bytes: Vec<u8> = (0..16).collect();
        check(&[
            (
                binary(BinarySubtype::Generic, &[0, 1, 2, 3, 4, 6]),
                7252465090394235301,
            ),
            (
                binary(BinarySubtype::UserDefined(0x80), &[0, 1, 2, 3, 4, 6]),
                5736670452907618262,
            ),
            (binary(BinarySubtype::Uuid, &bytes), 6084661258071355978),
            (id("010203040506070809101112"), -5588663249627035708),
            (id("000000000000000000000000"), -4293118519463489418),
            (bson!(true), 6405873908747105701),
            (bson!(false), 6289544573401934092),
            (
                Bson::DateTime(DateTime::from_millis(0x5566_7788_1122_3344)),
                4476222765095560467,
            ),
            (
                Bson::Timestamp(Timestamp {
                    time: 0x5566_7788,
                    increment: 0x1122_3344,
                }),
                4873046866288452390,
            ),
            (regex("mongodb", ""), -7275792090268217043),
            (regex(".*", "i"), 7095855029187981886),
            (pointer("c"), 940175826736461384),
            (pointer("db.c"), 2426768198104018194),
            (
                Bson::JavaScriptCode(function.to_owned()),
                6861638109178014270,
            ),
            (
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                    code: function.to_owned(),
                    scope: doc! { "c": true },
                }),
                501342939894575968,
            ),
        ]);
    }

    #[test]
    fn several_fields_chain() {
        let (first, second) = (bson!(42), bson!("abc"));
        assert_eq!(hash_fields(std::slice::from_ref(&first)), hash(&first));
        let seed = low_half(hash(&first));
        assert_eq!(
            hash_fields(&[first.clone(), second.clone()]),
            seeded(&second, seed)
        );
        assert_ne!(
            hash_fields(&[first.clone(), second.clone()]),
            hash_fields(&[second, first])
        );
        assert_eq!(seeded(&bson!(42), 40513), 4302929669663179197);
    }
}
