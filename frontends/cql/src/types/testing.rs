//! Types and values of them for property tests.

use proptest::prelude::*;

use super::{
    DataType, Decimal, Duration, Native, UserType, compare, serialize_list, serialize_map,
    serialize_tuple, serialize_vector,
};

/// A type, and so many values of it.
pub(super) fn typed_values(count: usize) -> impl Strategy<Value = (DataType, Vec<Vec<u8>>)> {
    data_type().prop_flat_map(move |data_type| {
        let values = prop::collection::vec(value(&data_type), count);
        (Just(data_type), values)
    })
}

pub(super) fn data_type() -> impl Strategy<Value = DataType> {
    let native = prop::sample::select(Native::ALL).prop_map(DataType::Native);
    native.prop_recursive(2, 8, 3, |inner| {
        let fields = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            inner
                .clone()
                .prop_map(|element| DataType::list(element).freeze()),
            inner
                .clone()
                .prop_map(|element| DataType::set(element).freeze()),
            (inner.clone(), inner.clone()).prop_map(|(k, v)| DataType::map(k, v).freeze()),
            fields.clone().prop_map(DataType::Tuple),
            (inner, 1u32..3).prop_map(|(element, dimension)| {
                DataType::Vector {
                    element: Box::new(element),
                    dimension,
                }
            }),
            fields.prop_map(|types| {
                let fields = (0..).map(|n: i32| format!("f{n}")).zip(types).collect();
                let (keyspace, name) = ("ks".to_owned(), "u".to_owned());
                let definition = Box::new(UserType {
                    keyspace,
                    name,
                    fields,
                });
                DataType::User {
                    definition,
                    frozen: true,
                }
            }),
        ]
    })
}

pub(super) fn value(data_type: &DataType) -> BoxedStrategy<Vec<u8>> {
    match data_type {
        DataType::Native(native) => native_value(*native),
        DataType::List { element, .. } => prop::collection::vec(value(element), 0..4)
            .prop_map(|elements| serialize_list(&elements))
            .boxed(),
        DataType::Set { element, .. } => {
            let order = element.clone();
            prop::collection::vec(value(element), 0..4)
                .prop_map(move |mut elements| {
                    elements.sort_by(|left, right| compare(&order, left, right));
                    elements.dedup_by(|left, right| compare(&order, left, right).is_eq());
                    serialize_list(&elements)
                })
                .boxed()
        }
        DataType::Map {
            key, value: values, ..
        } => {
            let order = key.clone();
            prop::collection::vec((value(key), value(values)), 0..3)
                .prop_map(move |mut entries| {
                    entries.sort_by(|left, right| compare(&order, &left.0, &right.0));
                    entries.dedup_by(|left, right| compare(&order, &left.0, &right.0).is_eq());
                    serialize_map(&entries)
                })
                .boxed()
        }
        DataType::Tuple(_) | DataType::User { .. } => {
            let inner = data_type.inner();
            let components: Vec<_> = inner
                .iter()
                .map(|inner| prop::option::of(value(inner)))
                .collect();
            (components, 0..=inner.len())
                .prop_map(|(components, length)| serialize_tuple(&components[..length]))
                .boxed()
        }
        DataType::Vector { element, dimension } => {
            let dimension = usize::try_from(*dimension).unwrap();
            let of = element.clone();
            prop::collection::vec(whole_value(element), dimension)
                .prop_map(move |elements| serialize_vector(&of, &elements))
                .boxed()
        }
    }
}

/// A value that is not empty: what a vector with elements of a fixed length needs.
fn whole_value(data_type: &DataType) -> BoxedStrategy<Vec<u8>> {
    match data_type.fixed_length() {
        Some(length) => value(data_type)
            .prop_filter("empty", move |value| value.len() == length)
            .boxed(),
        None => value(data_type)
            .prop_filter("empty", |value| !value.is_empty())
            .boxed(),
    }
}

fn or_empty(strategy: impl Strategy<Value = Vec<u8>> + 'static) -> BoxedStrategy<Vec<u8>> {
    prop_oneof![9 => strategy, 1 => Just(Vec::new())].boxed()
}

fn number(least: i64, most: i64) -> impl Strategy<Value = i64> {
    prop_oneof![
        prop::sample::select(vec![0, 1, -1, 127, -128, 255, 256, least, most]),
        least..=most
    ]
}

fn native_value(native: Native) -> BoxedStrategy<Vec<u8>> {
    let bytes = || prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x7f, 0xff]), 0..5);
    match native {
        Native::Ascii => "[a-c]{0,3}".prop_map(String::into_bytes).boxed(),
        Native::Text => "[a-cé日]{0,3}".prop_map(String::into_bytes).boxed(),
        Native::Blob => bytes().boxed(),
        Native::Boolean => or_empty(any::<bool>().prop_map(|value| vec![u8::from(value)])),
        Native::Tinyint => or_empty(any::<i8>().prop_map(|n| n.to_be_bytes().to_vec())),
        Native::Smallint => or_empty(any::<i16>().prop_map(|n| n.to_be_bytes().to_vec())),
        Native::Int => or_empty(any::<i32>().prop_map(|n| n.to_be_bytes().to_vec())),
        Native::Bigint | Native::Counter | Native::Timestamp => {
            or_empty(number(i64::MIN, i64::MAX).prop_map(|n| n.to_be_bytes().to_vec()))
        }
        Native::Date => any::<u32>().prop_map(|n| n.to_be_bytes().to_vec()).boxed(),
        Native::Time => number(0, 86_399_999_999_999)
            .prop_filter("negative", |n| *n >= 0)
            .prop_map(|n| n.to_be_bytes().to_vec())
            .boxed(),
        Native::Float => or_empty(any::<f32>().prop_map(|n| n.to_be_bytes().to_vec())),
        Native::Double => or_empty(any::<f64>().prop_map(|n| n.to_be_bytes().to_vec())),
        Native::Varint => or_empty(
            prop_oneof![any::<i128>(), -300i128..300]
                .prop_map(|n| num_bigint::BigInt::from(n).to_signed_bytes_be()),
        ),
        Native::Decimal => or_empty((prop_oneof![any::<i64>(), -20i64..20], -3..3i32).prop_map(
            |(unscaled, scale)| {
                let unscaled = num_bigint::BigInt::from(unscaled);
                Decimal { unscaled, scale }.encode()
            },
        )),
        Native::Uuid => or_empty((any::<[u8; 16]>(), 1u8..5).prop_map(of_version)),
        Native::Timeuuid => or_empty((any::<[u8; 16]>(), Just(1)).prop_map(of_version)),
        Native::Inet => prop_oneof![
            Just(Vec::new()),
            any::<[u8; 4]>().prop_map(|bytes| bytes.to_vec()),
            any::<[u8; 16]>().prop_map(|bytes| bytes.to_vec()),
        ]
        .boxed(),
        Native::Duration => (0..100i32, 0..100i32, 0..1000i64)
            .prop_map(|(months, days, nanoseconds)| {
                Duration {
                    months,
                    days,
                    nanoseconds,
                }
                .encode()
            })
            .boxed(),
    }
}

fn of_version((mut bytes, version): ([u8; 16], u8)) -> Vec<u8> {
    bytes[6] = version << 4 | bytes[6] & 0xf;
    bytes.to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Bytes that nobody checked cost no panic, and those that pass can be used for everything.
    #[test]
    fn random_bytes_never_panic(
        data_type in data_type(),
        bytes in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 4, 0x7f, 0xff]), 0..40),
        other in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let is_valid = super::validate(&data_type, &bytes).is_ok();
        let mut key = Vec::new();
        super::put_ascending(&mut key, &data_type, &bytes);
        super::put_descending(&mut key, &data_type, &other);
        let order = compare(&data_type, &bytes, &other);
        prop_assert_eq!(compare(&data_type, &other, &bytes), order.reverse());
        prop_assert!(!is_valid || super::to_literal(&data_type, &bytes).is_ok());
        prop_assert!(!is_valid || super::to_json(&data_type, &bytes).is_ok());
    }

    #[test]
    fn random_texts_never_panic(text in ".{0,30}", native in prop::sample::select(Native::ALL)) {
        if let Ok(value) = super::parse_native(native, &text) {
            prop_assert_eq!(super::validate(&native.into(), &value), Ok(()));
        }
    }

    #[test]
    fn texts_like_times_never_panic(text in "[-+0-9:.TZPYMDWyhmsuµ ]{0,25}") {
        for native in [Native::Date, Native::Time, Native::Timestamp, Native::Duration] {
            if let Ok(value) = super::parse_native(native, &text) {
                prop_assert_eq!(super::validate(&native.into(), &value), Ok(()));
            }
        }
    }
}
