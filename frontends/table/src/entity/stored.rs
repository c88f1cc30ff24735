//! The stored form of an entity's properties.
//!
//! ```text
//! format: u8 = 1
//! each property: type: u8, name length: varint, name: UTF-8, value
//!   text, binary     length: varint, bytes
//!   numbers, times   4 or 8 bytes, little-endian
//!   boolean          u8 = 0 or 1
//!   guid             16 bytes, in the order of its text
//! ```
//!
//! The keys and the time of the entity are not in it: the store has them.

use std::borrow::Cow;

use bytes::Bytes;
use uuid::Uuid;

use super::{DateTime, Value};

const FORMAT: u8 = 1;

const STRING: u8 = 1;
const INT32: u8 = 2;
const INT64: u8 = 3;
const DOUBLE: u8 = 4;
const BOOLEAN: u8 = 5;
const DATE_TIME: u8 = 6;
const GUID: u8 = 7;
const BINARY: u8 = 8;

/// The stored form of these properties, in their order.
pub(crate) fn encode(properties: &[(String, Value<'_>)]) -> Bytes {
    let sizes = properties.iter().map(|(name, value)| room(name, value));
    let mut out = Vec::with_capacity(1 + sizes.sum::<usize>());
    out.push(FORMAT);
    for (name, value) in properties {
        put_property(&mut out, name, value);
    }
    out.into()
}

/// The stored form after a merge: a property that changes keeps its place, new ones follow, the
/// rest stays. None if the old form is damaged.
pub(crate) fn merge(old: &[u8], changes: &[(String, Value<'_>)]) -> Option<Bytes> {
    let stored = Stored::new(old)?;
    let sizes = changes.iter().map(|(name, value)| room(name, value));
    let mut out = Vec::with_capacity(old.len() + sizes.sum::<usize>());
    out.push(FORMAT);
    for (name, value) in stored.iter() {
        let change = changes.iter().find(|change| change.0 == name);
        put_property(&mut out, name, change.map_or(&value, |change| &change.1));
    }
    for (name, value) in changes {
        if stored.get(name).is_none() {
            put_property(&mut out, name, value);
        }
    }
    Some(out.into())
}

/// Stored properties, checked once and then read in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored<'a> {
    properties: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Reads the stored form; none if it is damaged or of another format.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let properties = bytes.strip_prefix(&[FORMAT])?;
        let mut rest = properties;
        while !rest.is_empty() {
            take_property(&mut rest)?;
        }
        Some(Self { properties })
    }

    /// The bytes of the stored form.
    pub(crate) fn byte_size(self) -> usize {
        self.properties.len()
    }

    /// The properties in their order.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let mut rest = self.properties;
        std::iter::from_fn(move || take_property(&mut rest))
    }

    /// One property.
    pub(crate) fn get(self, name: &str) -> Option<Value<'a>> {
        let mut properties = self.iter();
        let (_, value) = properties.find(|property| property.0 == name)?;
        Some(value)
    }
}

/// More than a property needs, or as much.
fn room(name: &str, value: &Value<'_>) -> usize {
    let value = match value {
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => size_of::<Uuid>(),
    };
    16 + name.len() + value
}

fn put_property(out: &mut Vec<u8>, name: &str, value: &Value<'_>) {
    let mut put = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        put_bytes(out, name.as_bytes());
        if matches!(tag, STRING | BINARY) {
            put_bytes(out, bytes);
        } else {
            out.extend_from_slice(bytes);
        }
    };
    match value {
        Value::String(text) => put(STRING, text.as_bytes()),
        Value::Int32(value) => put(INT32, &value.to_le_bytes()),
        Value::Int64(value) => put(INT64, &value.to_le_bytes()),
        Value::Double(value) => put(DOUBLE, &value.to_le_bytes()),
        Value::Boolean(value) => put(BOOLEAN, &[u8::from(*value)]),
        Value::DateTime(value) => put(DATE_TIME, &value.ticks.to_le_bytes()),
        Value::Guid(value) => put(GUID, value.as_bytes()),
        Value::Binary(bytes) => put(BINARY, bytes),
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut length = bytes.len();
    while length > 0x7f {
        let [low, ..] = length.to_le_bytes();
        out.push(low | 0x80);
        length >>= 7;
    }
    let [last, ..] = length.to_le_bytes();
    out.push(last);
    out.extend_from_slice(bytes);
}

fn take_property<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, Value<'a>)> {
    let [tag] = take(rest)?;
    let name = str::from_utf8(take_bytes(rest)?).ok()?;
    let value = match tag {
        STRING => Value::String(Cow::Borrowed(long_text(take_bytes(rest)?)?)),
        INT32 => Value::Int32(i32::from_le_bytes(take(rest)?)),
        INT64 => Value::Int64(i64::from_le_bytes(take(rest)?)),
        DOUBLE => Value::Double(f64::from_le_bytes(take(rest)?)),
        BOOLEAN => match take(rest)? {
            [0] => Value::Boolean(false),
            [1] => Value::Boolean(true),
            _ => return None,
        },
        DATE_TIME => Value::DateTime(DateTime {
            ticks: i64::from_le_bytes(take(rest)?),
        }),
        GUID => Value::Guid(Uuid::from_bytes(take(rest)?)),
        BINARY => Value::Binary(Cow::Borrowed(take_bytes(rest)?)),
        _ => return None,
    };
    Some((name, value))
}

/// Text that may be long: it is checked many bytes at a time.
fn long_text(bytes: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(bytes).ok()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*taken)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let [byte] = take(rest)?;
        let bits = usize::from(byte & 0x7f);
        length |= bits << shift;
        if byte & 0x80 == 0 {
            let (taken, tail) = rest.split_at_checked(length)?;
            *rest = tail;
            return Some(taken);
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any value of any type.
    pub(crate) fn any_value() -> impl Strategy<Value = Value<'static>> {
        prop_oneof![
            any::<String>().prop_map(|text| Value::String(text.into())),
            any::<i32>().prop_map(Value::Int32),
            any::<i64>().prop_map(Value::Int64),
            any::<f64>().prop_map(Value::Double),
            Just(Value::Double(f64::INFINITY)),
            Just(Value::Double(f64::NEG_INFINITY)),
            any::<bool>().prop_map(Value::Boolean),
            (-116_444_736_000_000_000..=2_534_023_007_999_999_999_i64)
                .prop_map(|ticks| Value::DateTime(DateTime { ticks })),
            any::<u128>().prop_map(|bits| Value::Guid(Uuid::from_u128(bits))),
            any::<Vec<u8>>().prop_map(|bytes| Value::Binary(bytes.into())),
        ]
    }

    /// A few properties with names that differ.
    pub(crate) fn any_properties() -> impl Strategy<Value = Vec<(String, Value<'static>)>> {
        proptest::collection::btree_map("[A-O_][A-Za-z0-9_\u{e4}]{0,4}", any_value(), 0..12)
            .prop_map(|properties| properties.into_iter().collect())
    }

    fn decoded(bytes: &[u8]) -> Vec<(String, Value<'static>)> {
        let stored = Stored::new(bytes).unwrap();
        stored
            .iter()
            .map(|(name, value)| (name.to_owned(), value.into_owned()))
            .collect()
    }

    fn property(name: &str, value: i32) -> (String, Value<'static>) {
        (name.to_owned(), Value::Int32(value))
    }

    #[test]
    fn the_form_is_fixed() {
        let properties = [
            ("a".to_owned(), Value::String("hi".into())),
            property("b", 258),
            ("c".to_owned(), Value::Boolean(true)),
        ];
        let expected = b"\x01\x01\x01a\x02hi\x02\x01b\x02\x01\x00\x00\x05\x01c\x01";
        assert_eq!(&encode(&properties)[..], expected);
    }

    #[test]
    fn long_values_keep_their_length() {
        for length in [0, 127, 128, 16_383, 16_384, 65_536] {
            let properties = [("a".to_owned(), Value::String("x".repeat(length).into()))];
            assert_eq!(decoded(&encode(&properties)), properties, "{length}");
        }
    }

    #[test]
    fn finds_one_property() {
        let bytes = encode(&[property("a", 1), property("b", 2)]);
        let stored = Stored::new(&bytes).unwrap();
        assert_eq!(stored.get("b"), Some(Value::Int32(2)));
        assert_eq!(stored.get("B"), None);
    }

    #[test]
    fn a_merge_changes_in_place_and_appends() {
        let old = encode(&[property("a", 1), property("b", 2), property("c", 3)]);
        let merged = merge(&old, &[property("d", 4), property("b", 20)]).unwrap();
        let expected = [
            property("a", 1),
            property("b", 20),
            property("c", 3),
            property("d", 4),
        ];
        assert_eq!(decoded(&merged), expected);
        assert_eq!(merge(b"", &[property("a", 1)]), None);
    }

    #[test]
    fn damage_is_refused() {
        for bytes in [
            &b""[..],
            b"\x02",
            b"\x01\x09\x01a\x00",
            b"\x01\x05\x01a\x02",
            b"\x01\x01\x01\xff\x00",
            b"\x01\x01\x01a\x01\xff",
            b"\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(Stored::new(bytes).is_none(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn properties_read_back(properties in any_properties()) {
            let bytes = encode(&properties);
            prop_assert_eq!(decoded(&bytes), properties);
        }

        #[test]
        fn a_merge_is_the_old_under_the_new(old in any_properties(), new in any_properties()) {
            let merged = merge(&encode(&old), &new).unwrap();
            let mut expected = old;
            for (name, value) in new {
                match expected.iter_mut().find(|property| property.0 == name) {
                    Some(property) => property.1 = value,
                    None => expected.push((name, value)),
                }
            }
            prop_assert_eq!(decoded(&merged), expected);
        }

        #[test]
        fn damaged_bytes_are_read_or_refused(mut bytes: Vec<u8>) {
            bytes.insert(0, FORMAT);
            if let Some(stored) = Stored::new(&bytes) {
                prop_assert!(stored.iter().count() <= bytes.len());
            }
        }
    }
}
