//! The order of values: that of clustering columns, of sets, of keys of maps and of conditions.
//!
//! Values are what [`validate`](fn@super::validate) lets through. No bytes sort before all others.

use std::cmp::Ordering;

use num_bigint::BigInt;
use tessera_core::deadline;

use super::{
    DataType, Decimal, Native, list_elements, map_entries, tuple_components, uuid, vector_elements,
};

/// How many bytes are compared in a step.
const BYTES_IN_STEP: usize = 64;

/// Which of two values of one type comes first.
pub(crate) fn compare(data_type: &DataType, left: &[u8], right: &[u8]) -> Ordering {
    deadline::note(1 + left.len().min(right.len()) / BYTES_IN_STEP);
    if left.is_empty() || right.is_empty() {
        return right.is_empty().cmp(&left.is_empty());
    }
    match data_type {
        DataType::Native(native) => compare_native(*native, left, right),
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            let elements = |bytes| list_elements(bytes, "list").unwrap_or_default();
            compare_all(element, &elements(left), &elements(right))
        }
        DataType::Map { key, value, .. } => {
            let left = map_entries(left).unwrap_or_default();
            let right = map_entries(right).unwrap_or_default();
            for ((left_key, left_value), (right_key, right_value)) in left.iter().zip(&right) {
                let order = compare(key, left_key, right_key)
                    .then_with(|| compare(value, left_value, right_value));
                if order.is_ne() {
                    return order;
                }
            }
            left.len().cmp(&right.len())
        }
        DataType::Tuple(_) | DataType::User { .. } => compare_tuples(data_type, left, right),
        DataType::Vector { element, .. } => {
            let elements = |bytes| vector_elements(bytes, data_type).unwrap_or_default();
            compare_all(element, &elements(left), &elements(right))
        }
    }
}

fn compare_all(element: &DataType, left: &[&[u8]], right: &[&[u8]]) -> Ordering {
    let mut orders = left
        .iter()
        .zip(right)
        .map(|(left, right)| compare(element, left, right));
    let first = orders.find(|order| order.is_ne());
    first.unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Nulls come first, and components that are missing are null.
fn compare_tuples(data_type: &DataType, left: &[u8], right: &[u8]) -> Ordering {
    let components = |bytes| tuple_components(bytes, data_type).unwrap_or_default();
    let (left, right) = (components(left), components(right));
    for (index, inner) in data_type.inner().into_iter().enumerate() {
        let at =
            |components: &[Option<&'_ [u8]>]| components.get(index).is_some_and(Option::is_some);
        let order = match (
            left.get(index).copied().flatten(),
            right.get(index).copied().flatten(),
        ) {
            (Some(left), Some(right)) => compare(inner, left, right),
            _ => at(&left).cmp(&at(&right)),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn compare_native(native: Native, left: &[u8], right: &[u8]) -> Ordering {
    match native {
        Native::Ascii
        | Native::Blob
        | Native::Date
        | Native::Duration
        | Native::Inet
        | Native::Text
        | Native::Time => left.cmp(right),
        Native::Bigint | Native::Counter | Native::Timestamp => {
            by(left, right, i64::from_be_bytes, Ord::cmp)
        }
        Native::Int => by(left, right, i32::from_be_bytes, Ord::cmp),
        Native::Smallint => by(left, right, i16::from_be_bytes, Ord::cmp),
        Native::Tinyint => by(left, right, i8::from_be_bytes, Ord::cmp),
        Native::Boolean => by(left, right, |[byte]: [u8; 1]| byte != 0, Ord::cmp),
        Native::Double => by(left, right, f64::from_be_bytes, |left, right| {
            canonical(*left).total_cmp(&canonical(*right))
        }),
        Native::Float => by(left, right, f32::from_be_bytes, |left, right| {
            canonical(f64::from(*left)).total_cmp(&canonical(f64::from(*right)))
        }),
        Native::Uuid => by(
            left,
            right,
            |bytes| bytes,
            |left, right| uuid::compare(*left, *right),
        ),
        Native::Timeuuid => by(left, right, uuid::time_order, Ord::cmp),
        Native::Varint => {
            BigInt::from_signed_bytes_be(left).cmp(&BigInt::from_signed_bytes_be(right))
        }
        Native::Decimal => match (Decimal::decode(left), Decimal::decode(right)) {
            (Ok(left), Ok(right)) => left.compare(&right),
            _ => left.cmp(right),
        },
    }
}

/// All numbers that are none are one, and sort last.
pub(super) fn canonical(number: f64) -> f64 {
    if number.is_nan() { f64::NAN } else { number }
}

/// Compares what the bytes stand for; as bytes, if their length is wrong.
fn by<const N: usize, T>(
    left: &[u8],
    right: &[u8],
    decode: impl Fn([u8; N]) -> T,
    order: impl Fn(&T, &T) -> Ordering,
) -> Ordering {
    match (left.try_into(), right.try_into()) {
        (Ok(left_bytes), Ok(right_bytes)) => order(&decode(left_bytes), &decode(right_bytes)),
        _ => left.cmp(right),
    }
}
