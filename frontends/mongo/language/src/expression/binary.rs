//! Binary data in conversions: as text in several formats, and as numbers in either order of bytes.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use bson::spec::BinarySubtype;
use bson::{Binary, Bson};

use super::convert::failure;
use super::fail;
use crate::compare::type_name;
use crate::error::Result;
use crate::number::Number;

/// How binary data is written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

impl Format {
    /// The format that an argument names; none for null.
    pub(super) fn from_value(value: Option<&Bson>) -> Result<Option<Self>> {
        let name = match value {
            None | Some(Bson::Null | Bson::Undefined) => return Ok(None),
            Some(Bson::String(name)) => name,
            Some(_) => return fail(4341114, "$convert requires that 'format' be a string"),
        };
        match name.as_str() {
            "auto" => Ok(Some(Self::Auto)),
            "base64" => Ok(Some(Self::Base64)),
            "base64url" => Ok(Some(Self::Base64Url)),
            "hex" => Ok(Some(Self::Hex)),
            "utf8" => Ok(Some(Self::Utf8)),
            "uuid" => Ok(Some(Self::Uuid)),
            _ => fail(
                4341125,
                format!("Invalid 'format' argument for $convert: {name}"),
            ),
        }
    }
}

/// The subtype that a number stands for.
pub(super) fn parse_subtype(value: &Bson) -> Result<BinarySubtype> {
    let Some(number) = Number::from_bson(value) else {
        let found = type_name(value);
        return fail(
            4341108,
            format!("$convert's 'subtype' must be a number, but is {found}"),
        );
    };
    let Some(code) = number.as_i32_exact() else {
        return fail(
            4341106,
            "In $convert, numeric 'subtype' argument is not an integer",
        );
    };
    match u8::try_from(code) {
        Ok(code @ (0..=6 | 8 | 9 | 128..)) => Ok(BinarySubtype::from(code)),
        _ => fail(
            4341107,
            format!("In $convert, 'subtype' is not a BinData type: {code}"),
        ),
    }
}

fn needed(format: Option<Format>, direction: &str) -> Result<Format> {
    match format {
        Some(format) => Ok(format),
        None => fail(
            4341115,
            format!("Format must be specified when converting {direction}"),
        ),
    }
}

pub(super) fn to_text(binary: &Binary, format: Option<Format>) -> Result<String> {
    let uuid = (binary.subtype == BinarySubtype::Uuid)
        .then(|| binary.bytes.as_slice().try_into().ok())
        .flatten()
        .map(uuid_text);
    match needed(format, "from 'binData' to 'string'")? {
        Format::Auto => Ok(uuid.unwrap_or_else(|| STANDARD.encode(payload(binary)))),
        Format::Base64 => Ok(STANDARD.encode(payload(binary))),
        Format::Base64Url => Ok(URL_SAFE_NO_PAD.encode(payload(binary))),
        Format::Hex => Ok(hex(&payload(binary)).to_uppercase()),
        Format::Utf8 => match String::from_utf8(binary.bytes.clone()) {
            Ok(text) => Ok(text),
            Err(_) => failure("BinData does not represent a valid UTF-8 string"),
        },
        Format::Uuid => match uuid {
            Some(uuid) => Ok(uuid),
            None => failure("BinData does not represent a valid UUID"),
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid_text(bytes: [u8; 16]) -> String {
    bson::Uuid::from_bytes(bytes).to_string()
}

pub(super) fn from_text(
    text: &str,
    subtype: BinarySubtype,
    format: Option<Format>,
) -> Result<Vec<u8>> {
    let format = needed(format, "from 'string' to 'binData'")?;
    if (format == Format::Uuid) != (subtype == BinarySubtype::Uuid) {
        return failure("Only the 'uuid' format is allowed with the UUID subtype");
    }
    let decoded = match format {
        Format::Base64 => STANDARD.decode(text).ok(),
        Format::Base64Url => URL_SAFE_NO_PAD
            .decode(text)
            .or_else(|_| URL_SAFE.decode(text))
            .ok(),
        Format::Hex => from_hex(text),
        Format::Utf8 => Some(text.as_bytes().to_vec()),
        Format::Uuid => parse_uuid(text),
        Format::Auto => None,
    };
    match decoded {
        Some(bytes) => Ok(bytes),
        None => failure(format!("Failed to parse BinData '{text}' in $convert")),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    pairs.iter().map(byte).collect()
}

/// Only the form with four dashes.
fn parse_uuid(text: &str) -> Option<Vec<u8>> {
    let dashed = text.len() == 36
        && [8, 13, 18, 23]
            .iter()
            .all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let uuid = bson::Uuid::parse_str(text).ok().filter(|_| dashed)?;
    Some(uuid.bytes().to_vec())
}

fn ordered<const N: usize>(bytes: &[u8], big_endian: bool) -> Option<[u8; N]> {
    let mut bytes: [u8; N] = bytes.try_into().ok()?;
    if big_endian {
        bytes.reverse();
    }
    Some(bytes)
}

/// The bytes of the data. The oldest subtype has its length before them once more.
fn payload(binary: &Binary) -> Cow<'_, [u8]> {
    if binary.subtype != BinarySubtype::BinaryOld {
        return Cow::Borrowed(&binary.bytes);
    }
    let length = u32::try_from(binary.bytes.len()).unwrap_or(u32::MAX);
    Cow::Owned([length.to_le_bytes().as_slice(), &binary.bytes].concat())
}

/// An integer of 1, 2, 4 or 8 bytes, but not of more than so many.
pub(super) fn to_number(binary: &Binary, big_endian: bool, most: usize) -> Result<i64> {
    let bytes = &payload(binary);
    let number = match bytes.len() {
        length if length > most => None,
        1 => ordered(bytes, big_endian).map(|bytes| i64::from(i8::from_le_bytes(bytes))),
        2 => ordered(bytes, big_endian).map(|bytes| i64::from(i16::from_le_bytes(bytes))),
        4 => ordered(bytes, big_endian).map(|bytes| i64::from(i32::from_le_bytes(bytes))),
        8 => ordered(bytes, big_endian).map(i64::from_le_bytes),
        _ => None,
    };
    match number {
        Some(number) => Ok(number),
        None => failure(format!("BinData of {} bytes is no number", bytes.len())),
    }
}

/// A floating-point number of 4 or 8 bytes.
pub(super) fn to_double(binary: &Binary, big_endian: bool) -> Result<f64> {
    let bytes = &payload(binary);
    let number = match bytes.len() {
        4 => ordered(bytes, big_endian).map(|bytes| f64::from(f32::from_le_bytes(bytes))),
        8 => ordered(bytes, big_endian).map(f64::from_le_bytes),
        _ => None,
    };
    match number {
        Some(number) => Ok(number),
        None => failure(format!("BinData of {} bytes is no double", bytes.len())),
    }
}

/// The bytes of a number, if it has a fixed number of them.
pub(super) fn from_number(value: &Bson, big_endian: bool) -> Option<Vec<u8>> {
    let mut bytes = match value {
        Bson::Int32(value) => value.to_le_bytes().to_vec(),
        Bson::Int64(value) => value.to_le_bytes().to_vec(),
        Bson::Double(value) => value.to_le_bytes().to_vec(),
        _ => return None,
    };
    if big_endian {
        bytes.reverse();
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, bson};

    use crate::expression::tests::{fails, gives};

    fn binary(bytes: &[u8]) -> Bson {
        Bson::Binary(Binary {
            subtype: BinarySubtype::Generic,
            bytes: bytes.to_vec(),
        })
    }

    #[test]
    fn converts_binary_data() {
        let uuid = Binary {
            subtype: BinarySubtype::Uuid,
            bytes: vec![0x11; 16],
        };
        gives([
            (
                bson!({ "$convert": { "input": "aGk=", "to": "binData", "format": "base64" } }),
                binary(b"hi"),
            ),
            (
                bson!({ "$convert": { "input": "6869", "to": "binData", "format": "hex" } }),
                binary(b"hi"),
            ),
            (
                bson!({ "$convert": { "input": binary(b"hi"), "to": "string", "format": "utf8" } }),
                bson!("hi"),
            ),
            (bson!({ "$toString": binary(b"hi") }), bson!("aGk=")),
            (
                bson!({ "$toUUID": "11111111-1111-1111-1111-111111111111" }),
                Bson::Binary(uuid.clone()),
            ),
            (
                bson!({ "$toString": Bson::Binary(uuid) }),
                bson!("11111111-1111-1111-1111-111111111111"),
            ),
            (
                bson!({ "$convert": { "input": 1, "to": "binData" } }),
                binary(&[1, 0, 0, 0]),
            ),
            (
                bson!({ "$convert": {
                    "input": binary(&[1, 0]), "to": "int", "byteOrder": "big",
                } }),
                bson!(256),
            ),
            (
                bson!({ "$convert": { "input": 1.0, "to": { "type": "binData", "subtype": 0 } } }),
                binary(&1.0_f64.to_le_bytes()),
            ),
        ]);
    }

    #[test]
    fn refuses_malformed_binary_data() {
        fails([
            (
                bson!({ "$convert": { "input": "aGk=", "to": "binData" } }),
                4341115,
            ),
            (
                bson!({ "$convert": { "input": "x", "to": "binData", "format": "hex" } }),
                241,
            ),
            (
                bson!({ "$convert": { "input": "x", "to": "binData", "format": "none" } }),
                4341125,
            ),
            (
                bson!({ "$convert": { "input": "x", "to": "binData", "format": 1 } }),
                4341114,
            ),
            (
                bson!({ "$convert": { "input": 1, "to": "binData", "byteOrder": 1 } }),
                9130001,
            ),
            (
                bson!({ "$convert": { "input": 1, "to": "binData", "byteOrder": "x" } }),
                9130002,
            ),
            (
                bson!({ "$convert": { "input": 1, "to": { "type": "binData", "subtype": 1.5 } } }),
                4341106,
            ),
            (
                bson!({ "$convert": { "input": 1, "to": { "type": "binData", "subtype": 100 } } }),
                4341107,
            ),
            (
                bson!({ "$convert": { "input": 1, "to": { "type": "binData", "subtype": "x" } } }),
                4341108,
            ),
            (bson!({ "$toUUID": "x" }), 241),
            (bson!({ "$toInt": binary(&[1, 2, 3]) }), 241),
        ]);
    }
}
