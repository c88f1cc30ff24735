//! Values as JSON, as `SELECT JSON` and `toJson` give them.

use std::fmt::Write;

use super::format::native_text;
use super::{
    DataType, Native, list_elements, map_entries, timestamp_text, tuple_components, vector_elements,
};
use crate::error::Result;

/// A value of this type as JSON.
pub(crate) fn to_json(data_type: &DataType, value: &[u8]) -> Result<String> {
    Ok(match data_type {
        DataType::Native(native) => native_json(*native, value),
        DataType::List { element, .. } => list_json(element, list_elements(value, "list")?)?,
        DataType::Set { element, .. } => list_json(element, list_elements(value, "set")?)?,
        DataType::Vector { element, .. } => list_json(element, vector_elements(value, data_type)?)?,
        DataType::Map {
            key, value: values, ..
        } => {
            let entry = |(key_bytes, value_bytes)| -> Result<String> {
                let (key, value) = (to_json(key, key_bytes)?, to_json(values, value_bytes)?);
                // Keys of objects are strings, whatever they were.
                let key = if key.starts_with('"') {
                    key
                } else {
                    json_string(&key)
                };
                Ok(format!("{key}: {value}"))
            };
            let entries: Result<Vec<String>> = map_entries(value)?.into_iter().map(entry).collect();
            format!("{{{}}}", entries?.join(", "))
        }
        DataType::Tuple(types) => {
            let components = tuple_components(value, data_type)?;
            let component =
                |(index, inner)| or_null(inner, components.get(index).copied().flatten());
            let texts: Result<Vec<String>> = types.iter().enumerate().map(component).collect();
            format!("[{}]", texts?.join(", "))
        }
        DataType::User { definition, .. } => {
            let components = tuple_components(value, data_type)?;
            let field = |(index, (name, inner)): (usize, &(String, DataType))| -> Result<String> {
                let value = or_null(inner, components.get(index).copied().flatten())?;
                Ok(format!("{}: {value}", column_json(name)))
            };
            let fields: Result<Vec<String>> =
                definition.fields.iter().enumerate().map(field).collect();
            format!("{{{}}}", fields?.join(", "))
        }
    })
}

/// The name of a column or a field as a key: one with capitals is quoted inside, too.
pub(crate) fn column_json(name: &str) -> String {
    if name == name.to_lowercase() {
        json_string(name)
    } else {
        json_string(&format!("\"{name}\""))
    }
}

fn or_null(data_type: &DataType, value: Option<&[u8]>) -> Result<String> {
    value.map_or_else(|| Ok("null".to_owned()), |value| to_json(data_type, value))
}

fn list_json(element: &DataType, elements: Vec<&[u8]>) -> Result<String> {
    let texts: Result<Vec<String>> = elements
        .into_iter()
        .map(|bytes| to_json(element, bytes))
        .collect();
    Ok(format!("[{}]", texts?.join(", ")))
}

fn native_json(native: Native, value: &[u8]) -> String {
    let text = native_text(native, value);
    match native {
        Native::Ascii | Native::Text => json_string(&text),
        Native::Blob => format!("\"0x{text}\""),
        _ if value.is_empty() => "\"\"".to_owned(),
        // JSON has no such numbers.
        Native::Double | Native::Float if text.ends_with(['N', 'y']) => "null".to_owned(),
        Native::Bigint
        | Native::Boolean
        | Native::Counter
        | Native::Decimal
        | Native::Double
        | Native::Float
        | Native::Int
        | Native::Smallint
        | Native::Tinyint
        | Native::Varint => text,
        Native::Timestamp => {
            let millis = value.try_into().map_or(0, i64::from_be_bytes);
            format!("\"{}\"", timestamp_text(millis, ' '))
        }
        Native::Date
        | Native::Duration
        | Native::Inet
        | Native::Time
        | Native::Timeuuid
        | Native::Uuid => format!("\"{text}\""),
    }
}

/// A text as a string of JSON.
pub(super) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                let written = write!(out, "\\u{:04X}", u32::from(control));
                debug_assert!(written.is_ok(), "texts can always grow");
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::testing::typed_values;
    use crate::types::{UserType, parse_native, serialize_map, serialize_tuple};

    #[test]
    fn values_are_written_as_cassandra_writes_them() {
        let json = |native: Native, text: &str| {
            to_json(&native.into(), &parse_native(native, text).unwrap()).unwrap()
        };
        for (native, text, written) in [
            (Native::Text, "a\"\\\n\u{1}é", "\"a\\\"\\\\\\n\\u0001é\""),
            (Native::Blob, "CAFE", "\"0xcafe\""),
            (Native::Int, "-7", "-7"),
            (Native::Int, "", "\"\""),
            (Native::Double, "NaN", "null"),
            (Native::Double, "-Infinity", "null"),
            (Native::Float, "1.5", "1.5"),
            (Native::Decimal, "1.10", "1.10"),
            (Native::Boolean, "true", "true"),
            (Native::Timestamp, "0", "\"1970-01-01 00:00:00.000Z\""),
            (Native::Date, "2024-02-29", "\"2024-02-29\""),
            (Native::Time, "1:02:03", "\"01:02:03.000000000\""),
            (Native::Duration, "1y2mo", "\"1y2mo\""),
            (Native::Inet, "127.0.0.1", "\"127.0.0.1\""),
        ] {
            assert_eq!(json(native, text), written);
        }
        let map = DataType::map(Native::Int, Native::Int);
        let value = serialize_map(&[([0, 0, 0, 1], [0, 0, 0, 2])]);
        assert_eq!(to_json(&map, &value).unwrap(), "{\"1\": 2}");
        let fields = vec![
            ("Aa".to_owned(), Native::Int.into()),
            ("b".to_owned(), Native::Int.into()),
        ];
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
        let value = serialize_tuple(&[Some([0, 0, 0, 1])]);
        assert_eq!(
            to_json(&user, &value).unwrap(),
            "{\"\\\"Aa\\\"\": 1, \"b\": null}"
        );
    }

    proptest! {
        #[test]
        fn every_value_is_json((data_type, values) in typed_values(1)) {
            let text = to_json(&data_type, &values[0]).unwrap();
            let parsed = serde_json::from_str::<serde_json::Value>(&text);
            prop_assert!(parsed.is_ok() || text.contains('E'), "{} {}", data_type, text);
        }
    }
}
