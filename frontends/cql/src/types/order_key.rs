//! Values as bytes that sort like them: the clustering columns in row keys, and index values.
//!
//! Every encoding ends by itself, so that none is the beginning of another: columns can follow each
//! other, and inverting all bits reverses the order.
//!
//! ```text
//! text, blob, inet …   escaped and terminated
//! fixed length         00 if empty, else 01 and the bytes, signs flipped
//! varint, decimal      00 empty, 01 negative, 02 zero, 03 positive; then size and digits
//! list, set, map       00 if empty, else 01; 01 before each element; 00
//! tuple, user type     00 if empty, else 01; per component 00 if null, else 01 and the value
//! vector               00 if empty, else 01; the elements
//! ```

use num_bigint::{BigInt, Sign};
use tessera_core::encoding;

use super::compare::canonical;
use super::{
    DataType, Decimal, Native, list_elements, map_entries, tuple_components, uuid, vector_elements,
};

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
/// Before each field of a tuple, and behind the last one that is not null: in the order of what
/// they stand for.
const LAST_FIELD: u8 = 0;
const NULL_FIELD: u8 = 1;
const FIELD: u8 = 2;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;

/// Appends a value so that the smallest comes first. The value is one that
/// [`validate`](fn@super::validate) lets through.
pub(crate) fn put_ascending(out: &mut Vec<u8>, data_type: &DataType, value: &[u8]) {
    match data_type {
        DataType::Native(native) => put_native(out, *native, value),
        _ if value.is_empty() => out.push(ABSENT),
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            out.push(PRESENT);
            for bytes in list_elements(value, "list").unwrap_or_default() {
                out.push(PRESENT);
                put_ascending(out, element, bytes);
            }
            out.push(ABSENT);
        }
        DataType::Map {
            key, value: values, ..
        } => {
            out.push(PRESENT);
            for (key_bytes, value_bytes) in map_entries(value).unwrap_or_default() {
                out.push(PRESENT);
                put_ascending(out, key, key_bytes);
                put_ascending(out, values, value_bytes);
            }
            out.push(ABSENT);
        }
        DataType::Tuple(_) | DataType::User { .. } => {
            out.push(PRESENT);
            let mut components = tuple_components(value, data_type).unwrap_or_default();
            // A type may get more fields later: what lacks them is as if they were null.
            while components.last().is_some_and(Option::is_none) {
                components.pop();
            }
            for (component, inner) in components.into_iter().zip(data_type.inner()) {
                match component {
                    None => out.push(NULL_FIELD),
                    Some(bytes) => {
                        out.push(FIELD);
                        put_ascending(out, inner, bytes);
                    }
                }
            }
            out.push(LAST_FIELD);
        }
        DataType::Vector { element, .. } => {
            out.push(PRESENT);
            for bytes in vector_elements(value, data_type).unwrap_or_default() {
                put_ascending(out, element, bytes);
            }
        }
    }
}

/// Appends a value so that the largest comes first.
pub(crate) fn put_descending(out: &mut Vec<u8>, data_type: &DataType, value: &[u8]) {
    let start = out.len();
    put_ascending(out, data_type, value);
    encoding::invert(out.get_mut(start..).unwrap_or_default());
}

fn put_native(out: &mut Vec<u8>, native: Native, value: &[u8]) {
    match native {
        Native::Ascii | Native::Blob | Native::Duration | Native::Inet | Native::Text => {
            encoding::put_bytes(out, value);
        }
        _ if value.is_empty() => out.push(ABSENT),
        Native::Varint => put_varint(out, &BigInt::from_signed_bytes_be(value)),
        Native::Decimal => {
            if let Ok(decimal) = Decimal::decode(value) {
                put_decimal(out, &decimal);
            }
        }
        _ => {
            out.push(PRESENT);
            put_fixed(out, native, value);
        }
    }
}

fn put_fixed(out: &mut Vec<u8>, native: Native, value: &[u8]) {
    match native {
        Native::Bigint
        | Native::Counter
        | Native::Int
        | Native::Smallint
        | Native::Timestamp
        | Native::Tinyint => {
            let start = out.len();
            out.extend_from_slice(value);
            if let Some(first) = out.get_mut(start) {
                *first ^= 0x80;
            }
        }
        Native::Boolean => out.push(u8::from(value != [0])),
        Native::Float => {
            if let Ok(bytes) = value.try_into() {
                encoding::put_f64(out, canonical(f64::from(f32::from_be_bytes(bytes))));
            }
        }
        Native::Double => {
            if let Ok(bytes) = value.try_into() {
                encoding::put_f64(out, canonical(f64::from_be_bytes(bytes)));
            }
        }
        Native::Timeuuid => {
            if let Ok(bytes) = value.try_into() {
                out.extend_from_slice(&uuid::time_order(bytes));
            }
        }
        Native::Uuid => {
            if let Ok(bytes) = value.try_into() {
                let (version, rest) = uuid::version_order(bytes);
                out.push(version);
                out.extend_from_slice(&rest);
            }
        }
        _ => out.extend_from_slice(value),
    }
}

fn put_varint(out: &mut Vec<u8>, number: &BigInt) {
    let magnitude = number.magnitude().to_bytes_be();
    put_signed(out, number.sign(), |out| {
        encoding::put_u32(out, u32::try_from(magnitude.len()).unwrap_or(u32::MAX));
        out.extend_from_slice(&magnitude);
    });
}

fn put_decimal(out: &mut Vec<u8>, decimal: &Decimal) {
    let normal = decimal.normal();
    put_signed(out, normal.sign, |out| {
        encoding::put_i64(out, normal.exponent);
        encoding::put_bytes(out, &normal.digits);
    });
}

/// A sign and a size, which of negative numbers is inverted.
fn put_signed(out: &mut Vec<u8>, sign: Sign, put_size: impl FnOnce(&mut Vec<u8>)) {
    match sign {
        Sign::NoSign => out.push(ZERO),
        Sign::Plus => {
            out.push(POSITIVE);
            put_size(out);
        }
        Sign::Minus => {
            out.push(NEGATIVE);
            let start = out.len();
            put_size(out);
            encoding::invert(out.get_mut(start..).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use proptest::prelude::*;

    use super::*;
    use crate::types::testing::typed_values;
    use crate::types::{compare, validate};

    fn ascending(data_type: &DataType, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_ascending(&mut out, data_type, value);
        out
    }

    fn descending(data_type: &DataType, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_descending(&mut out, data_type, value);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The bytes sort as the values compare, in both directions, and none begins another.
        #[test]
        fn keys_sort_as_values_compare((data_type, values) in typed_values(2)) {
            let [left, right] = <[Vec<u8>; 2]>::try_from(values).unwrap();
            prop_assert_eq!(validate(&data_type, &left), Ok(()));
            let order = compare(&data_type, &left, &right);
            prop_assert_eq!(compare(&data_type, &right, &left), order.reverse());
            let (low, high) = (ascending(&data_type, &left), ascending(&data_type, &right));
            prop_assert_eq!(low.cmp(&high), order, "{} {:x?} {:x?}", data_type, left, right);
            let inverted = descending(&data_type, &left).cmp(&descending(&data_type, &right));
            prop_assert_eq!(inverted, order.reverse());
            if order.is_ne() {
                prop_assert!(!low.starts_with(&high) && !high.starts_with(&low));
            }
        }

        #[test]
        fn the_order_is_total((data_type, values) in typed_values(3)) {
            let [a, b, c] = <[Vec<u8>; 3]>::try_from(values).unwrap();
            let compare = |x: &[u8], y: &[u8]| compare(&data_type, x, y);
            prop_assert_eq!(compare(&a, &a), Ordering::Equal);
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }

        /// Columns follow each other: the first decides, then the second.
        #[test]
        fn columns_sort_one_after_the_other(
            (first, firsts) in typed_values(2),
            (second, seconds) in typed_values(2),
            is_descending: bool,
        ) {
            let key = |index: usize| {
                let mut out = Vec::new();
                if is_descending {
                    put_descending(&mut out, &first, &firsts[index]);
                } else {
                    put_ascending(&mut out, &first, &firsts[index]);
                }
                put_ascending(&mut out, &second, &seconds[index]);
                out
            };
            let by_first = compare(&first, &firsts[0], &firsts[1]);
            let by_first = if is_descending { by_first.reverse() } else { by_first };
            let order = by_first.then_with(|| compare(&second, &seconds[0], &seconds[1]));
            prop_assert_eq!(key(0).cmp(&key(1)), order);
        }
    }

    #[test]
    fn special_numbers_sort_where_java_sorts_them() {
        let sorted = [
            f64::NEG_INFINITY,
            -1.0,
            -0.0,
            0.0,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let double: DataType = Native::Double.into();
        for pair in sorted.windows(2) {
            let [left, right] = [pair[0].to_be_bytes(), pair[1].to_be_bytes()];
            assert_eq!(compare(&double, &left, &right), Ordering::Less, "{pair:?}");
            assert!(ascending(&double, &left) < ascending(&double, &right));
        }
        let nan = (-f64::NAN).to_be_bytes();
        assert_eq!(
            compare(&double, &nan, &f64::NAN.to_be_bytes()),
            Ordering::Equal
        );
        assert!(ascending(&double, &[]) < ascending(&double, &f64::NEG_INFINITY.to_be_bytes()));
    }
}
