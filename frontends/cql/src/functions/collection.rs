//! Functions of collections: their keys, values, size, smallest, largest, sum and mean.

use super::number::Number;
use super::{Call, Pattern, Returns, Row};
use crate::error::{CqlError, Result};
use crate::functions::aggregate::{mean, sum};
use crate::types::{DataType, Native, compare, list_elements, map_entries, serialize_list};

pub(super) const ROWS: &[Row] = &[
    row("map_keys", &[(&[Pattern::Map], Returns::KeySet)], map_keys),
    row(
        "map_values",
        &[(&[Pattern::Map], Returns::ValueList)],
        map_values,
    ),
    row(
        "collection_count",
        &[(&[Pattern::Collection], Returns::Native(Native::Int))],
        count,
    ),
    row("collection_min", ELEMENT, smallest),
    row("collection_max", ELEMENT, largest),
    row("collection_sum", NUMBER, total),
    row("collection_avg", NUMBER, average),
];

const ELEMENT: &[(&[Pattern], Returns)] = &[(&[Pattern::Collection], Returns::Element)];
const NUMBER: &[(&[Pattern], Returns)] = &[(&[Pattern::Numbers], Returns::Element)];

const fn row(
    name: &'static str,
    overloads: &'static [(&'static [Pattern], Returns)],
    evaluate: super::Evaluate,
) -> Row {
    Row {
        name,
        legacy: name,
        overloads,
        takes_null: false,
        evaluate,
    }
}

fn map_keys(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(bytes) = call.bytes(0) else {
        return Ok(None);
    };
    let keys: Vec<&[u8]> = map_entries(bytes)?
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    Ok(Some(serialize_list(&keys)))
}

fn map_values(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(bytes) = call.bytes(0) else {
        return Ok(None);
    };
    let entries = map_entries(bytes)?.into_iter();
    let values: Vec<&[u8]> = entries.map(|(_, value)| value).collect();
    Ok(Some(serialize_list(&values)))
}

/// The elements of a list or a set; of a map, its keys.
fn elements<'c>(call: &'c Call<'_>) -> Result<Option<Vec<&'c [u8]>>> {
    let Some(bytes) = call.bytes(0) else {
        return Ok(None);
    };
    Ok(Some(match call.types.first() {
        Some(DataType::Map { .. }) => map_entries(bytes)?
            .into_iter()
            .map(|(key, _)| key)
            .collect(),
        _ => list_elements(bytes, "list")?,
    }))
}

fn count(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let count = elements(call)?.map(|elements| i32::try_from(elements.len()).unwrap_or(i32::MAX));
    Ok(count.map(|count| count.to_be_bytes().to_vec()))
}

fn smallest(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let elements = elements(call)?.unwrap_or_default().into_iter();
    let smallest = elements.min_by(|left, right| compare(call.result, left, right));
    Ok(smallest.map(<[u8]>::to_vec))
}

fn largest(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let elements = elements(call)?.unwrap_or_default().into_iter();
    let largest = elements.max_by(|left, right| compare(call.result, left, right));
    Ok(largest.map(<[u8]>::to_vec))
}

fn numbers(call: &Call<'_>) -> Result<Option<(Native, Vec<Number>)>> {
    let (Some(elements), DataType::Native(native)) = (elements(call)?, call.result) else {
        return Ok(None);
    };
    let damaged = || CqlError::invalid("the elements are no numbers");
    let read = |bytes| Number::read(*native, bytes).ok_or_else(damaged);
    let numbers: Result<Vec<Number>> = elements.into_iter().map(read).collect();
    Ok(Some((*native, numbers?)))
}

fn total(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some((native, numbers)) = numbers(call)? else {
        return Ok(None);
    };
    Ok(sum(native, &numbers)?.map(|sum| sum.write()))
}

fn average(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some((native, numbers)) = numbers(call)? else {
        return Ok(None);
    };
    Ok(mean(native, &numbers)?.map(|mean| mean.write()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::called;
    use super::*;

    #[test]
    fn collections_are_taken_apart() {
        let map = || DataType::map(Native::Int, Native::Text);
        let list = || DataType::list(Native::Int);
        for (name, data_type, text, expected) in [
            ("map_keys", map(), "{\"1\": \"a\", \"2\": \"b\"}", "{1, 2}"),
            (
                "map_values",
                map(),
                "{\"1\": \"a\", \"2\": \"b\"}",
                "['a', 'b']",
            ),
            ("collection_count", map(), "{\"1\": \"a\"}", "1"),
            ("collection_count", list(), "[3, 3]", "2"),
            ("collection_min", list(), "[3, -1, 2]", "-1"),
            (
                "collection_max",
                DataType::set(Native::Int),
                "[3, -1, 2]",
                "3",
            ),
            ("collection_sum", list(), "[3, -1, 2]", "4"),
            ("collection_avg", list(), "[3, -1, 2]", "1"),
            ("collection_min", list(), "[]", "null"),
            ("map_keys", map(), "null", "null"),
        ] {
            assert_eq!(called(name, &[(data_type, text)]), expected, "{name}");
        }
        assert!(called("collection_sum", &[(map(), "{}")]).starts_with("Invalid call"));
    }
}
