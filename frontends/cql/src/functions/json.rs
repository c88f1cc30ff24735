//! `to_json` and `from_json`, and the values in the text of INSERT JSON.

use std::borrow::Cow;
use std::collections::HashMap;

use tessera_core::deadline;

use super::json_value::Json;
use super::{Call, Pattern, Returns, Row};
use crate::error::{CqlError, ErrorKind, Result, refuse};
use crate::types::{
    DataType, Native, UserType, compare, parse_native, serialize_list, serialize_map,
    serialize_tuple, serialize_vector, to_json,
};

/// How many bytes of a text are read in a step, and steps for each value in it.
const BYTES_IN_STEP: usize = 8;
const VALUE_STEPS: usize = 2;

pub(super) const ROWS: &[Row] = &[Row {
    name: "to_json",
    legacy: "tojson",
    overloads: &[(&[Pattern::Any], Returns::Native(Native::Text))],
    takes_null: true,
    evaluate: json_of,
}];

fn json_of(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let (Some(value), Some(data_type)) = (call.arguments.first(), call.types.first()) else {
        return Ok(None);
    };
    let text = match value {
        None => "null".to_owned(),
        Some(value) => {
            deadline::step(value.len() / BYTES_IN_STEP)?;
            to_json(data_type, value)?
        }
    };
    Ok(Some(text.into_bytes()))
}

/// The value of this type that a text of JSON stands for; none for null.
pub(crate) fn from_json(data_type: &DataType, text: &str) -> Result<Option<Vec<u8>>> {
    deadline::step(text.len() / BYTES_IN_STEP)?;
    let Some(json) = Json::parse(text) else {
        return Err(failed(&format!("Could not decode JSON string '{text}'")));
    };
    value(data_type, &json).map_err(|error| failed(&error.message))
}

/// What a call of `from_json` fails with, which is not the statement's own mistake.
fn failed(why: &str) -> CqlError {
    let kind = ErrorKind::FunctionFailure {
        keyspace: "system".to_owned(),
        function: "from_json".to_owned(),
        argument_types: vec!["text".to_owned()],
    };
    CqlError::new(
        kind,
        format!("execution of 'system.from_json[text]' failed: {why}"),
    )
}

/// What a text of JSON says of columns, by name; each is a value of the type that `type_of` tells.
/// None for null.
pub(crate) fn json_columns<'t>(
    text: &str,
    type_of: impl Fn(&str) -> Option<&'t DataType>,
) -> Result<Vec<(String, Option<Vec<u8>>)>> {
    deadline::step(text.len() / BYTES_IN_STEP)?;
    let json = Json::parse(text);
    if json == Some(Json::Null) {
        return refuse("Got null for INSERT JSON values");
    }
    let Some(Json::Object(entries)) = json else {
        return Err(CqlError::invalid(format!(
            "Could not decode JSON string as a map: it is no object. (String was: {text})"
        )));
    };
    let mut columns = Vec::with_capacity(entries.len());
    for (name, json) in entries {
        let name = column_name(&name);
        let Some(data_type) = type_of(&name) else {
            return Err(CqlError::invalid(format!(
                "JSON values map contains unrecognized column: {name}"
            )));
        };
        let value = value(data_type, &json).map_err(|error| {
            CqlError::invalid(format!(
                "Error decoding JSON value for {name}: {}",
                error.message
            ))
        })?;
        columns.push((name, value));
    }
    Ok(columns)
}

/// A name in quotes keeps its capitals.
fn column_name(name: &str) -> String {
    match name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'))
    {
        Some(exact) => exact.to_owned(),
        None => name.to_lowercase(),
    }
}

fn value(data_type: &DataType, json: &Json) -> Result<Option<Vec<u8>>> {
    deadline::step(VALUE_STEPS)?;
    if *json == Json::Null {
        return Ok(None);
    }
    Ok(Some(match data_type {
        DataType::Native(native) => native_value(*native, json)?,
        DataType::List { element, .. } => serialize_list(&elements(element, json, "list")?),
        DataType::Set { element, .. } => {
            let mut elements = elements(element, json, "list (representing a set)")?;
            deadline::sort_by(&mut elements, |left, right| compare(element, left, right))?;
            elements.dedup();
            serialize_list(&elements)
        }
        DataType::Vector { element, dimension } => {
            let elements = elements(element, json, "list")?;
            let dimension = usize::try_from(*dimension).unwrap_or(usize::MAX);
            if elements.len() != dimension {
                return refuse(format!(
                    "Required {dimension} elements, but saw {}",
                    elements.len()
                ));
            }
            serialize_vector(element, &elements)
        }
        DataType::Map { key, value, .. } => map_value(key, value, json)?,
        DataType::Tuple(types) => tuple_value(types, json)?,
        DataType::User { definition, .. } => user_value(definition, json)?,
    }))
}

fn expected<T>(what: &str, json: &Json) -> Result<T> {
    refuse(format!(
        "Expected {what}, but got a {}: {json}",
        json.kind()
    ))
}

/// A text may hold a list or an object, as keys of maps do: what it holds, or else the value
/// itself.
fn unpacked(json: &Json) -> Cow<'_, Json> {
    let inner = match json {
        Json::String(text) => Json::parse(text),
        _ => None,
    };
    inner.map_or(Cow::Borrowed(json), Cow::Owned)
}

fn elements(element: &DataType, json: &Json, what: &str) -> Result<Vec<Vec<u8>>> {
    let unpacked = unpacked(json);
    let Json::List(values) = &*unpacked else {
        return expected(&format!("a {what}"), json);
    };
    let mut elements = Vec::with_capacity(values.len());
    for json in values {
        match value(element, json)? {
            Some(bytes) => elements.push(bytes),
            None => return refuse("Invalid null element in list"),
        }
    }
    Ok(elements)
}

fn map_value(key: &DataType, value_type: &DataType, json: &Json) -> Result<Vec<u8>> {
    let unpacked = unpacked(json);
    let Json::Object(entries) = &*unpacked else {
        return expected("a map", json);
    };
    let mut pairs = Vec::with_capacity(entries.len());
    // Of values with the same key the last one counts.
    let mut places = HashMap::with_capacity(entries.len());
    for (place, (name, json)) in entries.iter().enumerate() {
        let key_bytes = value(key, &Json::String(name.clone()))?;
        let (Some(key_bytes), Some(bytes)) = (key_bytes, value(value_type, json)?) else {
            return refuse("Invalid null value in map");
        };
        places.insert(key_bytes.clone(), place);
        pairs.push((key_bytes, bytes));
    }
    let mut place = 0..;
    pairs.retain(|(key, _)| places.get(key).copied() == place.next());
    deadline::sort_by(&mut pairs, |(left, _), (right, _)| {
        compare(key, left, right)
    })?;
    Ok(serialize_map(&pairs))
}

fn tuple_value(types: &[DataType], json: &Json) -> Result<Vec<u8>> {
    let unpacked = unpacked(json);
    let Json::List(values) = &*unpacked else {
        return expected("a list representation of a tuple", json);
    };
    if values.len() > types.len() {
        return refuse(format!(
            "Tuple contains extra items (expected {}): {json}",
            types.len()
        ));
    }
    if values.len() < types.len() {
        return refuse(format!(
            "Tuple is missing items (expected {}): {json}",
            types.len()
        ));
    }
    let components: Result<Vec<Option<Vec<u8>>>> = types
        .iter()
        .zip(values)
        .map(|(inner, json)| value(inner, json))
        .collect();
    Ok(serialize_tuple(&components?))
}

fn user_value(definition: &UserType, json: &Json) -> Result<Vec<u8>> {
    let unpacked = unpacked(json);
    let Json::Object(entries) = &*unpacked else {
        return expected("a map", json);
    };
    let mut components: Vec<Option<Vec<u8>>> = vec![None; definition.fields.len()];
    for (name, json) in entries {
        let name = column_name(name);
        let mut fields = definition.fields.iter().zip(&mut components);
        let Some(((_, inner), component)) = fields.find(|((field, _), _)| *field == name) else {
            return refuse(format!(
                "Unknown field '{name}' in value of user defined type {}",
                definition.name
            ));
        };
        *component = value(inner, json)?;
    }
    Ok(serialize_tuple(&components))
}

fn native_value(native: Native, json: &Json) -> Result<Vec<u8>> {
    use Native::{
        Ascii, Bigint, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Float, Inet, Int,
        Smallint, Text, Time, Timestamp, Timeuuid, Tinyint, Uuid, Varint,
    };
    let what = match native {
        Ascii => "an ASCII string",
        Text => "a UTF-8 string",
        Blob => "a hex string starting with '0x'",
        Boolean => "a boolean value",
        Tinyint => "a byte value",
        Smallint => "a short value",
        Int => "an int value",
        Bigint | Counter => "a bigint value",
        Varint => "a varint value",
        Float => "a float value",
        Double => "a double value",
        Decimal => "a value convertible to decimal",
        Date => "a string representation of a date value",
        Time => "a string representation of a time value",
        Timestamp => "a long or a datestring representation of a timestamp value",
        Duration => "a string representation of a duration",
        Inet => "a string representation of an inet value",
        Uuid => "a string representation of a uuid",
        Timeuuid => "a string representation of a timeuuid",
    };
    let is_number = matches!(
        native,
        Tinyint | Smallint | Int | Bigint | Counter | Varint | Float | Double | Decimal
    );
    let text = match json {
        Json::String(text) => text,
        Json::Number(text) if is_number => text,
        Json::Number(text) if native == Timestamp && !text.contains(['.', 'e', 'E']) => text,
        Json::Boolean(value) if native == Boolean => return Ok(vec![u8::from(*value)]),
        _ => return expected(what, json),
    };
    let text = match (native, text.strip_prefix("0x")) {
        (Blob, Some(hex)) => hex,
        (Blob, None) => return expected(what, json),
        _ => text.as_str(),
    };
    if text.is_empty() && matches!(native, Varint | Decimal) {
        let name = native.name();
        return refuse(format!(
            "Value '' is not a valid representation of a {name} value"
        ));
    }
    if matches!(json, Json::Number(_)) && parse_native(native, text).is_err() {
        return refuse(format!(
            "Expected {what}, but got a {}: {text}",
            json.kind()
        ));
    }
    parse_native(native, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::to_literal;

    fn literal(data_type: &DataType, text: &str) -> String {
        match from_json(data_type, text) {
            Ok(None) => "null".to_owned(),
            Ok(Some(bytes)) => to_literal(data_type, &bytes).unwrap(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn every_shape_is_read() {
        let pair = DataType::Tuple(vec![Native::Int.into(), Native::Text.into()]);
        for (data_type, text, expected) in [
            (Native::Int.into(), "5", "5"),
            (Native::Int.into(), "\"5\"", "5"),
            (
                Native::Decimal.into(),
                "1.2345678901234567890123",
                "1.2345678901234567890123",
            ),
            (Native::Text.into(), "\"a\"", "'a'"),
            (
                Native::Text.into(),
                "5",
                "Expected a UTF-8 string, but got a Integer: 5",
            ),
            (
                Native::Int.into(),
                "1.5",
                "Expected an int value, but got a Double: 1.5",
            ),
            (Native::Blob.into(), "\"0x0a\"", "0x0a"),
            (Native::Boolean.into(), "true", "true"),
            (
                Native::Timestamp.into(),
                "1000",
                "'1970-01-01T00:00:01.000Z'",
            ),
            (DataType::set(Native::Int), "[3, 1, 3]", "{1, 3}"),
            (
                DataType::list(Native::Int),
                "[3, null]",
                "Invalid null element in list",
            ),
            (
                DataType::map(Native::Int, Native::Text),
                "{\"2\": \"b\"}",
                "{2: 'b'}",
            ),
            (
                DataType::map(DataType::list(Native::Int).freeze(), Native::Int),
                "{\"[1, 2]\": 3}",
                "{[1, 2]: 3}",
            ),
            (pair.clone(), "[1, null]", "(1, null)"),
            (pair, "[1]", "Tuple is missing items (expected 2): [1]"),
            (Native::Int.into(), "null", "null"),
            (Native::Int.into(), "{", "Could not decode JSON string '{'"),
        ] {
            let given = literal(&data_type, text);
            let why = given.strip_prefix("execution of 'system.from_json[text]' failed: ");
            assert_eq!(why.unwrap_or(&given), expected, "{data_type} {text}");
        }
    }

    #[test]
    fn columns_are_found_by_name() {
        let int = DataType::from(Native::Int);
        let read = |text: &str| {
            json_columns(text, |name| matches!(name, "a" | "B").then_some(&int))
                .map_err(|error| error.message)
        };
        let columns = read(r#"{"A": 1, "\"B\"": null}"#).unwrap();
        assert_eq!(columns[0], ("a".to_owned(), Some(vec![0, 0, 0, 1])));
        assert_eq!(columns[1], ("B".to_owned(), None));
        let unknown = "JSON values map contains unrecognized column: c";
        assert_eq!(read(r#"{"c": 1}"#), Err(unknown.to_owned()));
        assert!(
            read("[1]")
                .unwrap_err()
                .starts_with("Could not decode JSON string as a map")
        );
        let wrong =
            "Error decoding JSON value for a: Expected an int value, but got a Boolean: true";
        assert_eq!(read(r#"{"a": true}"#), Err(wrong.to_owned()));
    }
}
