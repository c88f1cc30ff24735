//! The memcomparable form of BSON values, as indexes and row keys store them.
//!
//! A tag in the order of types, then the value such that its bytes sort as [`compare`] orders
//! values. Values that are equal have the same bytes, whatever their types: 1, 1.0 and
//! NumberDecimal("1.00"). No encoding is a prefix of another, so that they may follow each other in
//! a key, or be inverted for a descending one. What was encoded cannot be told from the bytes.
//!
//! [`compare`]: crate::compare::compare

use bson::{Bson, Document};
use tessera_core::deadline;
use tessera_core::encoding::{invert, put_bytes, put_i64, put_u32, put_u64};

use self::tag::{
    ARRAY, BEYOND, BINARY, CODE, CODE_WITH_SCOPE, DATE, DOCUMENT, EXACT, FALSE, MAX_KEY, MIN_KEY,
    NAN, NEGATIVE, NULL, OBJECT_ID, POINTER, POSITIVE, REGULAR_EXPRESSION, STRING, TIMESTAMP, TRUE,
    UNDEFINED, ZERO,
};
use crate::{
    collation::Collation,
    compare::{type_order, value_bytes},
    number::{Decimal, Number},
};

/// Ends a document or an array: below all tags, so that the one that ends first sorts first.
const END: u8 = 0x00;

/// Tags, in the order of types. Numbers have several: those that are their whole encoding, and the
/// sign.
pub(crate) mod tag {
    pub(crate) const MIN_KEY: u8 = 0x04;
    pub(crate) const UNDEFINED: u8 = 0x08;
    pub(crate) const NULL: u8 = 0x0c;
    pub(crate) const NAN: u8 = 0x10;
    pub(crate) const NEGATIVE: u8 = 0x14;
    pub(crate) const ZERO: u8 = 0x18;
    pub(crate) const POSITIVE: u8 = 0x1c;
    pub(crate) const STRING: u8 = 0x20;
    pub(crate) const DOCUMENT: u8 = 0x24;
    pub(crate) const ARRAY: u8 = 0x28;
    pub(crate) const BINARY: u8 = 0x2c;
    pub(crate) const OBJECT_ID: u8 = 0x30;
    pub(crate) const FALSE: u8 = 0x34;
    pub(crate) const TRUE: u8 = 0x38;
    pub(crate) const DATE: u8 = 0x3c;
    pub(crate) const TIMESTAMP: u8 = 0x40;
    pub(crate) const REGULAR_EXPRESSION: u8 = 0x44;
    pub(crate) const POINTER: u8 = 0x48;
    pub(crate) const CODE: u8 = 0x4c;
    pub(crate) const CODE_WITH_SCOPE: u8 = 0x50;
    pub(crate) const MAX_KEY: u8 = 0xf0;

    /// After the bits of a double: the number is that double.
    pub(crate) const EXACT: u8 = 0;
    /// After the bits of a double: the number lies beyond it, and before the next; its digits
    /// follow.
    pub(crate) const BEYOND: u8 = 1;
}

/// What is added to the power of ten of a number's first digit, so that it is not negative.
const POWER_BIAS: i32 = 1 << 14;

/// The bytes of a value.
pub fn encode(value: &Bson, collation: &Collation) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    encode_into(&mut out, value, collation);
    out
}

/// Appends the bytes of a value.
pub fn encode_into(out: &mut Vec<u8>, value: &Bson, collation: &Collation) {
    deadline::note(1);
    if let Some(number) = Number::from_bson(value) {
        return put_number(out, number);
    }
    match value {
        Bson::MinKey => out.push(MIN_KEY),
        Bson::Undefined => out.push(UNDEFINED),
        Bson::Boolean(false) => out.push(FALSE),
        Bson::Boolean(true) => out.push(TRUE),
        Bson::MaxKey => out.push(MAX_KEY),
        Bson::String(text) | Bson::Symbol(text) => {
            out.push(STRING);
            put_text(out, text, collation);
        }
        Bson::Document(document) => {
            out.push(DOCUMENT);
            put_document(out, document, collation);
        }
        Bson::Array(values) => {
            out.push(ARRAY);
            for value in values {
                encode_into(out, value, collation);
            }
            out.push(END);
        }
        Bson::Binary(binary) => {
            out.push(BINARY);
            put_length(out, &binary.bytes);
            out.push(binary.subtype.into());
            out.extend_from_slice(&binary.bytes);
        }
        Bson::ObjectId(id) => {
            out.push(OBJECT_ID);
            out.extend_from_slice(&id.bytes());
        }
        Bson::DateTime(date) => {
            out.push(DATE);
            put_i64(out, date.timestamp_millis());
        }
        Bson::Timestamp(timestamp) => {
            out.push(TIMESTAMP);
            put_u32(out, timestamp.time);
            put_u32(out, timestamp.increment);
        }
        _ => put_rare(out, value),
    }
}

/// Null, and the types that hardly anybody indexes. The numbers were met before.
fn put_rare(out: &mut Vec<u8>, value: &Bson) {
    match value {
        Bson::RegularExpression(expression) => {
            out.push(REGULAR_EXPRESSION);
            put_bytes(out, expression.pattern.as_str().as_bytes());
            put_bytes(out, expression.options.as_str().as_bytes());
        }
        Bson::DbPointer(_) => {
            out.push(POINTER);
            let bytes = value_bytes(value);
            put_length(out, &bytes);
            out.extend_from_slice(&bytes);
        }
        Bson::JavaScriptCode(code) => {
            out.push(CODE);
            put_bytes(out, code.as_bytes());
        }
        Bson::JavaScriptCodeWithScope(code) => {
            out.push(CODE_WITH_SCOPE);
            put_bytes(out, code.code.as_bytes());
            put_document(out, &code.scope, &Collation::default());
        }
        _ => out.push(NULL),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str, collation: &Collation) {
    if collation.is_simple() {
        put_bytes(out, text.as_bytes());
    } else {
        put_bytes(out, &collation.sort_key(text));
    }
}

/// Fields compare by type, name and value: so the type comes before the name.
fn put_document(out: &mut Vec<u8>, document: &Document, collation: &Collation) {
    for (name, value) in document {
        out.push(type_order(value) + 1);
        put_bytes(out, name.as_bytes());
        encode_into(out, value, collation);
    }
    out.push(END);
}

fn put_length(out: &mut Vec<u8>, bytes: &[u8]) {
    // BSON counts in 31 bits.
    put_u32(out, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
}

/// A number is written as the double next to it towards zero, and its own digits only if it is not
/// that double.
fn put_number(out: &mut Vec<u8>, number: Number) {
    if number.is_nan() {
        return out.push(NAN);
    }
    if number.is_zero() {
        return out.push(ZERO);
    }
    let (double, exact) = match number {
        Number::Int32(value) => (f64::from(value), true),
        Number::Double(value) => (value, true),
        Number::Int64(value) => towards_zero(value),
        Number::Decimal(value) => value.to_f64_towards_zero(),
    };
    let negative = double.is_sign_negative();
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    put_u64(out, double.abs().to_bits());
    if exact {
        out.push(EXACT);
    } else {
        out.push(BEYOND);
        put_digits(out, number.to_decimal());
    }
    if negative && let Some(magnitude) = out.get_mut(start..) {
        invert(magnitude);
    }
}

/// The double next to an integer towards zero, and whether it is the same number.
fn towards_zero(value: i64) -> (f64, bool) {
    let number = Number::Int64(value);
    let nearest = number.to_f64();
    let order = Number::Double(nearest).compare(number);
    let beyond = if value < 0 {
        order.is_lt()
    } else {
        order.is_gt()
    };
    if beyond {
        (nearest.abs().next_down().copysign(nearest), false)
    } else {
        (nearest, order.is_eq())
    }
}

fn put_digits(out: &mut Vec<u8>, number: Decimal) {
    let (coefficient, power) = number.normalized();
    put_u32(out, (power + POWER_BIAS).unsigned_abs());
    out.extend_from_slice(&coefficient.to_be_bytes());
}

#[cfg(test)]
pub(crate) mod tests {
    use bson::{
        Binary, DateTime, JavaScriptCodeWithScope, Timestamp, doc, oid::ObjectId,
        spec::BinarySubtype,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::compare::{
        compare,
        tests::{db_pointer, regex},
    };

    fn number() -> impl Strategy<Value = Bson> {
        let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
        prop_oneof![
            any::<i32>().prop_map(Bson::Int32),
            any::<i64>().prop_map(Bson::Int64),
            any::<f64>().prop_map(Bson::Double),
            any::<u128>().prop_map(|bits| {
                Bson::Decimal128(bson::Decimal128::from_bytes(bits.to_le_bytes()))
            }),
            // Decimals next to doubles and integers, where an inexact comparison would err.
            any::<i64>().prop_map(move |value| decimal(&value.to_string())),
            (any::<f64>(), 0_usize..33).prop_filter_map("finite", move |(value, digits)| {
                let text = format!("{value:.digits$e}").to_uppercase();
                value.is_finite().then(|| decimal(&text))
            }),
            (-40_i32..40, -3_i32..3)
                .prop_map(move |(value, power)| { decimal(&format!("{value}E{power:+}")) }),
            (-40_i64..40).prop_map(Bson::Int64),
            (-80_i32..80).prop_map(|value| Bson::Double(f64::from(value) / 2.0)),
            prop::sample::select(vec![
                Bson::Double(0.0),
                Bson::Double(-0.0),
                Bson::Double(f64::NAN),
                Bson::Double(f64::INFINITY),
                Bson::Double(f64::NEG_INFINITY),
                Bson::Double(f64::MAX),
                Bson::Double(5e-324),
                Bson::Int64(i64::MAX),
                Bson::Int64(i64::MIN),
                Bson::Int64((1 << 53) + 1),
                Bson::Double(9_007_199_254_740_992.0),
                Bson::Double(9_223_372_036_854_775_808.0),
                decimal("9223372036854775807.5"),
                decimal("-9223372036854775808"),
                decimal("-0"),
                decimal("0E+6111"),
                decimal("NaN"),
                decimal("Infinity"),
                decimal("-Infinity"),
                decimal("1E-6176"),
                decimal("-1E-400"),
                decimal("1E+6000"),
                decimal("9.999999999999999999999999999999999E+6144"),
            ]),
        ]
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-cA-C\u{0}é ]{0,4}",
            "[0-9a]{0,4}",
            "[あアァー]{0,3}",
            ".{0,6}"
        ]
    }

    fn scalar() -> impl Strategy<Value = Bson> {
        let subtypes = prop::sample::select(vec![BinarySubtype::Generic, BinarySubtype::Uuid]);
        prop_oneof![
            5 => number(),
            3 => text().prop_map(Bson::String),
            1 => text().prop_map(Bson::Symbol),
            1 => prop::sample::select(vec![
                Bson::MinKey,
                Bson::MaxKey,
                Bson::Undefined,
                Bson::Null,
                Bson::Boolean(false),
                Bson::Boolean(true),
            ]),
            1 => (subtypes, prop::collection::vec(0_u8..3, 0..4))
                .prop_map(|(subtype, bytes)| Bson::Binary(Binary { subtype, bytes })),
            1 => any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
            1 => any::<i64>().prop_map(|date| Bson::DateTime(DateTime::from_millis(date))),
            1 => any::<(u32, u32)>()
                .prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
            1 => ("[a-c]{0,3}", "[im]{0,1}").prop_map(|(text, options)| regex(&text, &options)),
            1 => any::<[u8; 12]>().prop_map(|id| db_pointer("a.b", id)),
            1 => text().prop_map(Bson::JavaScriptCode),
        ]
    }

    fn fields(values: impl Strategy<Value = Bson>) -> impl Strategy<Value = Document> {
        prop::collection::vec(("[a-b]{0,2}", values), 0..4).prop_map(Document::from_iter)
    }

    /// Any value.
    pub(crate) fn value() -> impl Strategy<Value = Bson> {
        scalar().prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
                fields(inner.clone()).prop_map(Bson::Document),
                (text(), fields(inner)).prop_map(|(code, scope)| {
                    Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
                }),
            ]
        })
    }

    fn check(a: &Bson, b: &Bson, collation: &Collation) {
        let (a_key, b_key) = (encode(a, collation), encode(b, collation));
        let order = compare(a, b, collation);
        assert_eq!(a_key.cmp(&b_key), order, "{a:?} {b:?}");
        assert_eq!(compare(b, a, collation), order.reverse(), "{a:?} {b:?}");
        if order.is_ne() {
            assert!(!a_key.starts_with(&b_key), "{a:?} {b:?}");
            assert!(!b_key.starts_with(&a_key), "{a:?} {b:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn keys_sort_as_values_compare((a, b) in (value(), value())) {
            check(&a, &b, &Collation::default());
        }

        #[test]
        fn keys_sort_as_numbers_compare((a, b) in (number(), number())) {
            check(&a, &b, &Collation::default());
        }

        #[test]
        fn keys_sort_as_a_collation_compares((a, b) in (text(), text())) {
            let options = [
                doc! { "locale": "fr_CA", "strength": 2 },
                doc! { "locale": "en", "strength": 1, "caseLevel": true },
                doc! { "locale": "sv", "caseFirst": "upper", "numericOrdering": true },
                doc! { "locale": "ja", "strength": 4, "alternate": "shifted" },
                doc! { "locale": "de@collation=phonebook", "strength": 5 },
            ];
            for options in &options {
                let collation = Collation::parse(options).unwrap();
                check(&Bson::String(a.clone()), &Bson::String(b.clone()), &collation);
            }
        }
    }

    #[test]
    fn equal_numbers_of_all_types_have_one_key() {
        let one = encode(&Bson::Int32(1), &Collation::default());
        for same in [
            Bson::Int64(1),
            Bson::Double(1.0),
            Bson::Decimal128("1.00".parse().unwrap()),
        ] {
            assert_eq!(encode(&same, &Collation::default()), one);
        }
    }

    #[test]
    fn keys_of_stored_data_stay_as_they_are() {
        // Changing one of these would lose the data that was stored with it.
        for (value, expected) in [
            (Bson::Null, "0c"),
            (Bson::Int32(0), "18"),
            (Bson::Int32(1), "1c3ff000000000000000"),
            (Bson::Int32(-1), "14c00fffffffffffffff"),
            (Bson::String("a\0".to_owned()), "206100ff0000"),
            (bson::bson!([true, {}]), "28382400 00"),
            (bson::bson!({ "a": "b" }), "24106100002062000000"),
            (
                Bson::Int64((1 << 53) + 1),
                "1c4340000000000000010000400f0001bc16d674ec800de0b6b3a7640000",
            ),
        ] {
            let key = encode(&value, &Collation::default());
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected.replace(' ', ""), "{value:?}");
        }
    }
}
