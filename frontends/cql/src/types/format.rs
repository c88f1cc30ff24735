//! Values as text: constants that a statement can repeat.

use num_bigint::BigInt;

use super::{DataType, list_elements, map_entries, tuple_components, vector_elements};
use super::{Decimal, Duration, Native, date_text, inet, time_text, timestamp_text, uuid};
use crate::error::Result;
use crate::statement::quoted;

/// A value of this type as CQL reads it back; `null` if it is empty and its type's texts cannot be.
pub(crate) fn to_literal(data_type: &DataType, value: &[u8]) -> Result<String> {
    Ok(match data_type {
        DataType::Native(native) => native_literal(*native, value),
        DataType::List { element, .. } => {
            format!("[{}]", all(element, list_elements(value, "list")?)?)
        }
        DataType::Set { element, .. } => {
            format!("{{{}}}", all(element, list_elements(value, "set")?)?)
        }
        DataType::Vector { element, .. } => {
            format!("[{}]", all(element, vector_elements(value, data_type)?)?)
        }
        DataType::Map {
            key, value: values, ..
        } => {
            let entry = |(key_bytes, value_bytes)| -> Result<String> {
                let (key, value) = (
                    to_literal(key, key_bytes)?,
                    to_literal(values, value_bytes)?,
                );
                Ok(format!("{key}: {value}"))
            };
            let entries: Result<Vec<String>> = map_entries(value)?.into_iter().map(entry).collect();
            format!("{{{}}}", entries?.join(", "))
        }
        DataType::Tuple(types) => {
            let components = tuple_components(value, data_type)?.into_iter().zip(types);
            let texts: Result<Vec<String>> = components
                .map(|(component, inner)| or_null(inner, component))
                .collect();
            format!("({})", texts?.join(", "))
        }
        DataType::User { definition, .. } => {
            let components = tuple_components(value, data_type)?.into_iter();
            let field = |(component, (name, inner)): (_, &(String, DataType))| -> Result<String> {
                Ok(format!("{}: {}", quoted(name), or_null(inner, component)?))
            };
            let fields: Result<Vec<String>> =
                components.zip(&definition.fields).map(field).collect();
            format!("{{{}}}", fields?.join(", "))
        }
    })
}

fn or_null(data_type: &DataType, value: Option<&[u8]>) -> Result<String> {
    value.map_or_else(
        || Ok("null".to_owned()),
        |value| to_literal(data_type, value),
    )
}

fn all(element: &DataType, elements: Vec<&[u8]>) -> Result<String> {
    let texts: Result<Vec<String>> = elements
        .into_iter()
        .map(|bytes| to_literal(element, bytes))
        .collect();
    Ok(texts?.join(", "))
}

fn native_literal(native: Native, value: &[u8]) -> String {
    let text = native_text(native, value);
    match native {
        Native::Ascii | Native::Text => format!("'{}'", text.replace('\'', "''")),
        Native::Blob => format!("0x{text}"),
        _ if value.is_empty() => "null".to_owned(),
        Native::Date | Native::Inet | Native::Time | Native::Timestamp => format!("'{text}'"),
        _ => text,
    }
}

/// A value as text without quotes. Empty if the value is.
pub(crate) fn native_text(native: Native, value: &[u8]) -> String {
    match native {
        Native::Ascii | Native::Text => String::from_utf8_lossy(value).into_owned(),
        Native::Blob => value.iter().map(|byte| format!("{byte:02x}")).collect(),
        _ if value.is_empty() => String::new(),
        Native::Boolean => (value != [0]).to_string(),
        Native::Bigint
        | Native::Counter
        | Native::Int
        | Native::Smallint
        | Native::Tinyint
        | Native::Varint => BigInt::from_signed_bytes_be(value).to_string(),
        Native::Decimal => Decimal::decode(value).map_or_else(|_| String::new(), |d| d.to_string()),
        Native::Double => fixed(value, |bytes| double_text(f64::from_be_bytes(bytes))),
        Native::Float => fixed(value, |bytes| float_text(f32::from_be_bytes(bytes))),
        Native::Date => fixed(value, |bytes| date_text(u32::from_be_bytes(bytes))),
        Native::Time => fixed(value, |bytes| time_text(i64::from_be_bytes(bytes))),
        Native::Timestamp => fixed(value, |bytes| {
            timestamp_text(i64::from_be_bytes(bytes), 'T')
        }),
        Native::Duration => {
            Duration::decode(value).map_or_else(|_| String::new(), |duration| duration.to_string())
        }
        Native::Inet => inet::text(value),
        Native::Timeuuid | Native::Uuid => fixed(value, uuid::text),
    }
}

fn fixed<const N: usize>(value: &[u8], text: impl FnOnce([u8; N]) -> String) -> String {
    value.try_into().map_or_else(|_| String::new(), text)
}

fn double_text(number: f64) -> String {
    java_text(number, &format!("{number:e}"))
}

fn float_text(number: f32) -> String {
    java_text(f64::from(number), &format!("{number:e}"))
}

/// A number as Java writes it: plain from a thousandth up to ten million, with a digit after the
/// point at least. `scientific` has the shortest digits that tell the number from its neighbours.
fn java_text(number: f64, scientific: &str) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    let is_plain = number == 0.0 || (-3..7).contains(&exponent);
    if !is_plain {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        let rest = if rest.is_empty() { "0" } else { rest };
        return format!("{sign}{first}.{rest}E{exponent}");
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("{sign}0.{zeros}{digits}");
    };
    let padded = format!("{digits:0<whole$}");
    let (before, after) = padded.split_at_checked(whole).unwrap_or((&padded, ""));
    let before = if before.is_empty() { "0" } else { before };
    let after = if after.is_empty() { "0" } else { after };
    format!("{sign}{before}.{after}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::parse_native;
    use crate::types::testing::value;

    #[test]
    fn numbers_are_written_as_java_writes_them() {
        for (number, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (123.456, "123.456"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (10_000_000.0, "1.0E7"),
            (1.5e300, "1.5E300"),
            (-2.0, "-2.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_text(number), text);
        }
        assert_eq!(float_text(0.1), "0.1");
        assert_eq!(float_text(1e10), "1.0E10");
    }

    #[test]
    fn values_are_written_as_constants() {
        let literal = |native: Native, text: &str| {
            to_literal(&native.into(), &parse_native(native, text).unwrap()).unwrap()
        };
        for (native, text, written) in [
            (Native::Text, "it's", "'it''s'"),
            (Native::Text, "", "''"),
            (Native::Blob, "", "0x"),
            (Native::Blob, "FF", "0xff"),
            (Native::Int, "", "null"),
            (
                Native::Varint,
                "-123456789012345678901234567890",
                "-123456789012345678901234567890",
            ),
            (Native::Timestamp, "0", "'1970-01-01T00:00:00.000Z'"),
            (Native::Date, "2024-02-29", "'2024-02-29'"),
            (Native::Time, "1:02:03", "'01:02:03.000000000'"),
            (Native::Inet, "::1", "'0:0:0:0:0:0:0:1'"),
            (Native::Boolean, "true", "true"),
            (Native::Duration, "1h", "1h"),
        ] {
            assert_eq!(literal(native, text), written);
        }
    }

    #[test]
    fn nested_values_are_written() {
        use crate::types::{UserType, serialize_list, serialize_map, serialize_tuple};
        let one = [0, 0, 0, 1];
        let list = DataType::list(Native::Int);
        assert_eq!(
            to_literal(&list, &serialize_list(&[one, one])).unwrap(),
            "[1, 1]"
        );
        let map = DataType::map(Native::Text, list.freeze());
        let entries = [(b"k", serialize_list(&[one]))];
        assert_eq!(
            to_literal(&map, &serialize_map(&entries)).unwrap(),
            "{'k': [1]}"
        );
        let fields = vec![("A".to_owned(), Native::Int.into()), ("b".to_owned(), map)];
        let (keyspace, name) = ("ks".to_owned(), "u".to_owned());
        let definition = Box::new(UserType {
            keyspace,
            name,
            fields,
        });
        let user = DataType::User {
            definition,
            frozen: true,
        };
        let value = serialize_tuple(&[Some(&one[..]), None]);
        assert_eq!(to_literal(&user, &value).unwrap(), "{\"A\": 1, b: null}");
        let tuple = DataType::Tuple(vec![Native::Int.into(), Native::Int.into()]);
        assert_eq!(
            to_literal(&tuple, &serialize_tuple(&[None::<&[u8]>])).unwrap(),
            "(null)"
        );
    }

    proptest! {
        /// What is written is read back as the same bytes.
        #[test]
        fn texts_of_native_values_come_back(
            (native, value) in prop::sample::select(Native::ALL)
                .prop_flat_map(|native| (Just(native), value(&native.into())))
        ) {
            let text = native_text(native, &value);
            let is_nan = text == "NaN";
            let is_zero_duration = native == Native::Duration && text.is_empty();
            let is_far = native == Native::Timestamp && value.len() == 8;
            let is_odd = native == Native::Boolean && value.is_empty()
                || native == Native::Inet && value.len() == 16;
            // Java's text of a zero with a scale loses the scale.
            let is_zero = native == Native::Decimal && !text.contains(|c| ('1'..='9').contains(&c));
            if !is_nan && !is_zero_duration && !is_far && !is_odd && !is_zero {
                prop_assert_eq!(parse_native(native, &text), Ok(value), "{}", text);
            }
        }
    }
}
