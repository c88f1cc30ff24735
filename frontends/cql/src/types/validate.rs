//! Whether bytes are a value of a type, and Cassandra's words if they are not.

use super::decimal::{MOST_BYTES, check_length};
use super::{
    DataType, Duration, Native, list_elements, map_entries, tuple_components, uuid, vector_elements,
};
use crate::error::{CqlError, Result};

/// Refuses bytes that are no value of this type.
pub(crate) fn validate(data_type: &DataType, bytes: &[u8]) -> Result<()> {
    match data_type {
        DataType::Native(native) => validate_native(*native, bytes),
        DataType::List { element, .. } => validate_all(element, list_elements(bytes, "list")?),
        DataType::Set { element, .. } => validate_all(element, list_elements(bytes, "set")?),
        DataType::Map { key, value, .. } => {
            for (key_bytes, value_bytes) in map_entries(bytes)? {
                validate(key, key_bytes)?;
                validate(value, value_bytes)?;
            }
            Ok(())
        }
        DataType::Tuple(_) | DataType::User { .. } => {
            let components = tuple_components(bytes, data_type)?;
            for (component, inner) in components.into_iter().zip(data_type.inner()) {
                if let Some(component) = component {
                    validate(inner, component)?;
                }
            }
            Ok(())
        }
        DataType::Vector { element, .. } => {
            validate_all(element, vector_elements(bytes, data_type)?)
        }
    }
}

fn validate_all(element: &DataType, elements: Vec<&[u8]>) -> Result<()> {
    elements
        .into_iter()
        .try_for_each(|bytes| validate(element, bytes))
}

fn validate_native(native: Native, bytes: &[u8]) -> Result<()> {
    let length = bytes.len();
    let expected = |is_right: bool, words: &str| {
        if is_right {
            return Ok(());
        }
        Err(CqlError::invalid(format!("{words} ({length})")))
    };
    match native {
        Native::Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
            None => Ok(()),
            Some(byte) => {
                let byte = byte.cast_signed();
                Err(CqlError::invalid(format!("Invalid byte for ascii: {byte}")))
            }
        },
        Native::Text => match str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(CqlError::invalid("String didn't validate.")),
        },
        Native::Blob => Ok(()),
        Native::Varint => check_length(length <= MOST_BYTES),
        Native::Boolean => expected(length <= 1, "Expected 1 or 0 byte value"),
        Native::Tinyint => expected(length <= 1, "Expected 1 byte for a tinyint"),
        Native::Smallint => expected(matches!(length, 0 | 2), "Expected 2 bytes for a smallint"),
        Native::Int => expected(matches!(length, 0 | 4), "Expected 4 or 0 byte int"),
        Native::Bigint | Native::Counter => {
            expected(matches!(length, 0 | 8), "Expected 8 or 0 byte long")
        }
        Native::Float => expected(
            matches!(length, 0 | 4),
            "Expected 4 or 0 byte value for a float",
        ),
        Native::Double => expected(
            matches!(length, 0 | 8),
            "Expected 8 or 0 byte value for a double",
        ),
        Native::Decimal => {
            expected(length == 0 || length >= 4, "Expected 0 or at least 4 bytes")?;
            check_length(length <= MOST_BYTES + 4)
        }
        Native::Timestamp => expected(
            matches!(length, 0 | 8),
            "Expected 8 or 0 byte long for date",
        ),
        Native::Date => expected(length == 4, "Expected 4 byte long for date"),
        Native::Time => expected(length == 8, "Expected 8 byte long for time"),
        Native::Uuid => expected(matches!(length, 0 | 16), "UUID should be 16 or 0 bytes"),
        Native::Timeuuid => {
            expected(matches!(length, 0 | 16), "UUID should be 16 or 0 bytes")?;
            validate_version(bytes)
        }
        Native::Inet if matches!(length, 0 | 4 | 16) => Ok(()),
        Native::Inet => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Err(CqlError::invalid(format!(
                "Expected 4 or 16 byte inetaddress; got {hex}"
            )))
        }
        Native::Duration => {
            expected(length >= 3, "Expected at least 3 bytes for a duration")?;
            Duration::decode(bytes).map(|_| ())
        }
    }
}

fn validate_version(bytes: &[u8]) -> Result<()> {
    match <[u8; 16]>::try_from(bytes) {
        Ok(id) if uuid::version(id) != 1 => {
            let version = uuid::version(id);
            Err(CqlError::invalid(format!(
                "Invalid version for TimeUUID type: 0x{version:x}"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{serialize_list, serialize_map, serialize_tuple, serialize_vector};

    fn message(data_type: impl Into<DataType>, bytes: &[u8]) -> String {
        validate(&data_type.into(), bytes)
            .err()
            .map_or(String::new(), |error| error.message)
    }

    #[test]
    fn lengths_are_refused_in_the_words_of_cassandra() {
        for (native, bytes, words) in [
            (Native::Ascii, &b"a\x80"[..], "Invalid byte for ascii: -128"),
            (Native::Text, b"\xff", "String didn't validate."),
            (Native::Int, b"123", "Expected 4 or 0 byte int (3)"),
            (Native::Int, b"", ""),
            (Native::Bigint, b"1234", "Expected 8 or 0 byte long (4)"),
            (
                Native::Smallint,
                b"1",
                "Expected 2 bytes for a smallint (1)",
            ),
            (Native::Tinyint, b"12", "Expected 1 byte for a tinyint (2)"),
            (Native::Boolean, b"12", "Expected 1 or 0 byte value (2)"),
            (
                Native::Float,
                b"1",
                "Expected 4 or 0 byte value for a float (1)",
            ),
            (
                Native::Double,
                b"1",
                "Expected 8 or 0 byte value for a double (1)",
            ),
            (
                Native::Decimal,
                b"123",
                "Expected 0 or at least 4 bytes (3)",
            ),
            (
                Native::Timestamp,
                b"1",
                "Expected 8 or 0 byte long for date (1)",
            ),
            (Native::Date, b"", "Expected 4 byte long for date (0)"),
            (Native::Time, b"", "Expected 8 byte long for time (0)"),
            (Native::Uuid, b"1", "UUID should be 16 or 0 bytes (1)"),
            (
                Native::Timeuuid,
                &[0x40; 16],
                "Invalid version for TimeUUID type: 0x4",
            ),
            (
                Native::Inet,
                b"\x01",
                "Expected 4 or 16 byte inetaddress; got 01",
            ),
            (
                Native::Duration,
                b"\x01",
                "Expected at least 3 bytes for a duration (1)",
            ),
            (Native::Varint, b"", ""),
            (Native::Blob, b"\xff", ""),
        ] {
            assert_eq!(message(native, bytes), words, "{native:?}");
        }
    }

    #[test]
    fn what_is_inside_is_checked_too() {
        let int: DataType = Native::Int.into();
        let list = DataType::list(Native::Int);
        assert_eq!(
            message(list.clone(), &serialize_list(&[[0; 4], [1; 4]])),
            ""
        );
        assert_eq!(
            message(list.clone(), b""),
            "Not enough bytes to read a list"
        );
        assert_eq!(
            message(list.clone(), &[0xff; 4]),
            "Not enough bytes to read a list"
        );
        assert_eq!(
            message(list.clone(), &[0x7f; 4]),
            "Not enough bytes to read a list"
        );
        assert_eq!(
            message(list.clone(), &serialize_list(&[b"x"])),
            "Expected 4 or 0 byte int (1)"
        );
        let mut long = serialize_list(&[[0; 4]]);
        long.push(0);
        assert_eq!(
            message(list, &long),
            "Unexpected extraneous bytes after list value"
        );
        let map = DataType::map(Native::Int, Native::Text);
        assert_eq!(message(map.clone(), &serialize_map(&[([0; 4], b"a")])), "");
        let bad = serialize_map(&[([0; 4], b"\xff")]);
        assert_eq!(message(map, &bad), "String didn't validate.");
        let tuple = DataType::Tuple(vec![int.clone(), int.clone()]);
        assert_eq!(
            message(tuple.clone(), &serialize_tuple(&[Some([0; 4])])),
            ""
        );
        assert_eq!(
            message(tuple.clone(), &serialize_tuple(&[None, Some([0; 4])])),
            ""
        );
        assert_eq!(
            message(tuple.clone(), &serialize_tuple(&[Some([0; 4]); 3])),
            "Expected 2 values for frozen<tuple<int, int>> column, but got more"
        );
        assert_eq!(
            message(tuple, &[0, 0]),
            "Not enough bytes to read 0th component"
        );
        let vector = DataType::Vector {
            element: Box::new(int.clone()),
            dimension: 2,
        };
        assert_eq!(
            message(vector.clone(), &serialize_vector(&int, &[[0; 4]; 2])),
            ""
        );
        assert_eq!(message(vector.clone(), &[]), "Invalid empty vector value");
        assert_eq!(
            message(vector.clone(), &[0; 7]),
            "Not enough bytes to read a vector<int, 2>"
        );
        let extra = "Unexpected 1 extraneous bytes after vector<int, 2> value";
        assert_eq!(message(vector, &[0; 9]), extra);
    }
}
