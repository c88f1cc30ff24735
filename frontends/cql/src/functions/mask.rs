//! Functions that hide values: all of them, their inside, or behind a hash.

use md5::{Digest as _, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::{Call, Pattern, Returns, Row};
use crate::error::{CqlError, Result};
use crate::types::{DataType, Native, parse_native, serialize_tuple, serialize_vector};

const TEXT: Pattern = Pattern::Native(Native::Text);
const INT: Pattern = Pattern::Native(Native::Int);
const PARTS: &[(&[Pattern], Returns)] = &[
    (&[TEXT, INT, INT], Returns::Native(Native::Text)),
    (&[TEXT, INT, INT, TEXT], Returns::Native(Native::Text)),
];

pub(super) const ROWS: &[Row] = &[
    row("mask_null", &[(&[Pattern::Any], Returns::First)], null),
    row(
        "mask_default",
        &[(&[Pattern::Any], Returns::First)],
        default,
    ),
    row(
        "mask_replace",
        &[(&[Pattern::Any, Pattern::First], Returns::First)],
        replace,
    ),
    row("mask_inner", PARTS, inner),
    row("mask_outer", PARTS, outer),
    row(
        "mask_hash",
        &[
            (&[Pattern::Any], Returns::Native(Native::Blob)),
            (&[Pattern::Any, TEXT], Returns::Native(Native::Blob)),
        ],
        hash,
    ),
];

const fn row(
    name: &'static str,
    overloads: &'static [(&'static [Pattern], Returns)],
    evaluate: super::Evaluate,
) -> Row {
    Row {
        name,
        legacy: name,
        overloads,
        takes_null: true,
        evaluate,
    }
}

fn null(_: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(None)
}

fn default(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    masked(call.result).map(Some)
}

/// The same value for all values of a type.
fn masked(data_type: &DataType) -> Result<Vec<u8>> {
    Ok(match data_type {
        DataType::Native(native) => match native {
            Native::Ascii | Native::Text => b"****".to_vec(),
            Native::Blob => Vec::new(),
            Native::Boolean => vec![0],
            Native::Inet => parse_native(*native, "0.0.0.0")?,
            Native::Uuid | Native::Timeuuid => {
                let version = if *native == Native::Timeuuid {
                    '1'
                } else {
                    '0'
                };
                let text = format!("00000000-0000-{version}000-0000-000000000000");
                parse_native(*native, &text)?
            }
            Native::Date => parse_native(*native, "1970-01-01")?,
            Native::Duration => parse_native(*native, "0s")?,
            _ => parse_native(*native, "0")?,
        },
        DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. } => vec![0; 4],
        DataType::Tuple(_) | DataType::User { .. } => {
            let inner: Result<Vec<Option<Vec<u8>>>> = data_type
                .inner()
                .into_iter()
                .map(|inner| masked(inner).map(Some))
                .collect();
            serialize_tuple(&inner?)
        }
        DataType::Vector { element, dimension } => {
            let masked = masked(element)?;
            let count = usize::try_from(*dimension).unwrap_or(0);
            serialize_vector(element, &vec![masked; count])
        }
    })
}

fn replace(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let replacement = call.arguments.get(1).and_then(Option::as_ref);
    Ok(replacement.map(|value| value.to_vec()))
}

fn inner(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    parts(call, |index, begin, end| index >= begin && index < end)
}

fn outer(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    parts(call, |index, begin, end| index < begin || index >= end)
}

/// Hides the characters of a text that `is_hidden` tells, of those between the first and the last.
fn parts(call: &Call<'_>, is_hidden: fn(usize, usize, usize) -> bool) -> Result<Option<Vec<u8>>> {
    let Some(Some(text)) = call.arguments.first() else {
        return Ok(None);
    };
    let count = |index: usize| {
        let count = call.fixed(index).map_or(0, i32::from_be_bytes);
        usize::try_from(count).unwrap_or(0)
    };
    let padding = match call.arguments.get(3).and_then(Option::as_ref) {
        None => '*',
        Some(padding) => {
            let padding = String::from_utf8_lossy(padding);
            let mut characters = padding.chars();
            match (characters.next(), characters.next()) {
                (Some(only), None) => only,
                _ => {
                    return Err(CqlError::invalid(format!(
                        "The padding argument for function mask_inner should be \
                         single-character, but '{padding}' has {} characters.",
                        padding.chars().count()
                    )));
                }
            }
        }
    };
    let text = String::from_utf8_lossy(text);
    let end = text.chars().count().saturating_sub(count(2));
    let begin = count(1);
    let hidden: String = text
        .chars()
        .enumerate()
        .map(|(index, character)| match is_hidden(index, begin, end) {
            true => padding,
            false => character,
        })
        .collect();
    Ok(Some(hidden.into_bytes()))
}

fn hash(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(Some(value)) = call.arguments.first() else {
        return Ok(None);
    };
    let algorithm = match call.arguments.get(1) {
        Some(Some(name)) => String::from_utf8_lossy(name).to_uppercase(),
        _ => "SHA-256".to_owned(),
    };
    Ok(Some(match algorithm.as_str() {
        "MD5" => Md5::digest(value).to_vec(),
        "SHA-224" => Sha224::digest(value).to_vec(),
        "SHA-256" => Sha256::digest(value).to_vec(),
        "SHA-384" => Sha384::digest(value).to_vec(),
        "SHA-512" => Sha512::digest(value).to_vec(),
        other => {
            return Err(CqlError::invalid(format!(
                "Hash algorithm not found: {other}"
            )));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::called;
    use super::*;

    #[test]
    fn values_are_hidden() {
        let text = |text| (DataType::Native(Native::Text), text);
        let int = |text| (DataType::Native(Native::Int), text);
        for (name, arguments, expected) in [
            ("mask_null", vec![int("5")], "null"),
            ("mask_default", vec![text("secret")], "'****'"),
            ("mask_default", vec![int("5")], "0"),
            (
                "mask_default",
                vec![(DataType::list(Native::Int), "[1]")],
                "[]",
            ),
            ("mask_replace", vec![int("5"), int("-1")], "-1"),
            (
                "mask_inner",
                vec![text("abcdef"), int("1"), int("2")],
                "'a***ef'",
            ),
            (
                "mask_outer",
                vec![text("abcdef"), int("1"), int("2")],
                "'*bcd**'",
            ),
            (
                "mask_inner",
                vec![text("abc"), int("null"), int("1"), text("#")],
                "'##c'",
            ),
            ("mask_inner", vec![text("null"), int("1"), int("1")], "null"),
            (
                "mask_hash",
                vec![text("abc"), text("MD5")],
                "0x900150983cd24fb0d6963f7d28e17f72",
            ),
            (
                "mask_hash",
                vec![text("abc"), text("x")],
                "Hash algorithm not found: X",
            ),
        ] {
            assert_eq!(called(name, &arguments), expected, "{name}");
        }
    }
}
