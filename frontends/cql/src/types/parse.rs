//! Values from text: what a constant in a statement, or a string in JSON, stands for.

use num_bigint::BigInt;

use super::decimal::{MOST_DIGITS, check_length};
use super::{Decimal, Duration, Native, calendar, inet, uuid};
use crate::error::{CqlError, Result};

/// The value of this type that a text stands for, in Cassandra's words if it stands for none. An
/// empty text is an empty value for the types that have one.
pub(crate) fn parse_native(native: Native, text: &str) -> Result<Vec<u8>> {
    let has_empty = !matches!(
        native,
        Native::Boolean | Native::Date | Native::Time | Native::Duration
    );
    if text.is_empty() && has_empty {
        return Ok(Vec::new());
    }
    let unable = |what: &str| CqlError::invalid(format!("Unable to make {what} from '{text}'"));
    let calendar = |words: String| CqlError::invalid(words);
    Ok(match native {
        Native::Text => text.as_bytes().to_vec(),
        Native::Ascii if text.is_ascii() => text.as_bytes().to_vec(),
        Native::Ascii => {
            let message = format!("Invalid ASCII character in string literal: {text}");
            return Err(CqlError::invalid(message));
        }
        Native::Blob => parse_hex(text)
            .ok_or_else(|| CqlError::invalid(format!("cannot parse '{text}' as hex bytes")))?,
        Native::Boolean => vec![u8::from(
            parse_boolean(text).ok_or_else(|| unable("boolean"))?,
        )],
        Native::Tinyint => integer::<i8>(text)
            .ok_or_else(|| unable("byte"))?
            .to_be_bytes()
            .into(),
        Native::Smallint => integer::<i16>(text)
            .ok_or_else(|| unable("short"))?
            .to_be_bytes()
            .into(),
        Native::Int => integer::<i32>(text)
            .ok_or_else(|| unable("int"))?
            .to_be_bytes()
            .into(),
        Native::Bigint | Native::Counter => integer::<i64>(text)
            .ok_or_else(|| unable("long"))?
            .to_be_bytes()
            .into(),
        Native::Varint => {
            check_length(text.len() <= MOST_DIGITS)?;
            integer::<BigInt>(text)
                .ok_or_else(|| CqlError::invalid(format!("unable to make int from '{text}'")))?
                .to_signed_bytes_be()
        }
        Native::Decimal => Decimal::parse(text)?.encode(),
        Native::Double => real::<f64>(text)
            .ok_or_else(|| unable("double"))?
            .to_be_bytes()
            .into(),
        Native::Float => real::<f32>(text)
            .ok_or_else(|| unable("float"))?
            .to_be_bytes()
            .into(),
        Native::Date => calendar::parse_date(text)
            .map_err(calendar)?
            .to_be_bytes()
            .into(),
        Native::Time => calendar::parse_time(text)
            .map_err(calendar)?
            .to_be_bytes()
            .into(),
        Native::Timestamp => calendar::parse_timestamp(text)
            .map_err(calendar)?
            .to_be_bytes()
            .into(),
        Native::Duration => Duration::parse(text)?.encode(),
        Native::Inet => inet::parse(text).ok_or_else(|| unable("inet address"))?,
        Native::Uuid => uuid::parse(text).ok_or_else(|| unable("UUID"))?.into(),
        Native::Timeuuid => parse_timeuuid(text)?,
    })
}

fn parse_timeuuid(text: &str) -> Result<Vec<u8>> {
    let unknown = || CqlError::invalid(format!("Unknown timeuuid representation: {text}"));
    let id = uuid::parse(text).ok_or_else(unknown)?;
    if uuid::version(id) == 1 {
        return Ok(id.into());
    }
    Err(CqlError::invalid("TimeUUID supports only version 1 UUIDs"))
}

fn parse_boolean(text: &str) -> Option<bool> {
    if text.is_empty() || text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        text.eq_ignore_ascii_case("true").then_some(true)
    }
}

/// Digits in pairs.
fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

/// A whole number, with a sign or without.
fn integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// A number with a point or an exponent, or one of the three words that Java knows.
fn real<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_word = matches!(text, "NaN" | "Infinity" | "+Infinity" | "-Infinity");
    let is_number = text
        .bytes()
        .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    text.parse().ok().filter(|_| is_word || is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(native: Native, text: &str) -> Vec<u8> {
        parse_native(native, text).unwrap()
    }

    #[test]
    fn texts_become_values() {
        for (native, text, expected) in [
            (Native::Int, "-1", &[0xff; 4][..]),
            (Native::Int, "", &[]),
            (Native::Tinyint, "127", &[0x7f]),
            (Native::Smallint, "-2", &[0xff, 0xfe]),
            (Native::Bigint, "1", &[0, 0, 0, 0, 0, 0, 0, 1]),
            (Native::Varint, "128", &[0, 0x80]),
            (Native::Varint, "-129", &[0xff, 0x7f]),
            (Native::Decimal, "1.50", &[0, 0, 0, 2, 0, 0x96]),
            (Native::Double, "1.5", &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
            (Native::Float, "-Infinity", &[0xff, 0x80, 0, 0]),
            (Native::Boolean, "TRUE", &[1]),
            (Native::Boolean, "", &[0]),
            (Native::Blob, "80fF", &[0x80, 0xff]),
            (Native::Inet, "127.0.0.1", &[127, 0, 0, 1]),
            (Native::Date, "2024-01-01", &[0x80, 0, 0x4d, 0x0b]),
            (
                Native::Timestamp,
                "2024-01-01",
                &[0, 0, 1, 0x8c, 0xc2, 0x51, 0xf4, 0],
            ),
            (Native::Duration, "1mo", &[2, 0, 0]),
            (Native::Text, "é", &[0xc3, 0xa9]),
        ] {
            assert_eq!(bytes(native, text), expected, "{native:?} {text}");
        }
    }

    #[test]
    fn texts_that_stand_for_nothing_are_refused() {
        for (native, text, words) in [
            (
                Native::Int,
                "2147483648",
                "Unable to make int from '2147483648'",
            ),
            (Native::Int, "1.0", "Unable to make int from '1.0'"),
            (Native::Tinyint, "128", "Unable to make byte from '128'"),
            (Native::Smallint, "x", "Unable to make short from 'x'"),
            (Native::Bigint, "x", "Unable to make long from 'x'"),
            (Native::Varint, "1_0", "unable to make int from '1_0'"),
            (Native::Decimal, "x", "unable to make BigDecimal from 'x'"),
            (Native::Double, "inf", "Unable to make double from 'inf'"),
            (Native::Float, "nan", "Unable to make float from 'nan'"),
            (Native::Boolean, "yes", "Unable to make boolean from 'yes'"),
            (Native::Blob, "abc", "cannot parse 'abc' as hex bytes"),
            (
                Native::Inet,
                "localhost",
                "Unable to make inet address from 'localhost'",
            ),
            (Native::Uuid, "x", "Unable to make UUID from 'x'"),
            (Native::Timeuuid, "x", "Unknown timeuuid representation: x"),
            (
                Native::Timeuuid,
                "f47ac10b-58cc-4372-a567-0e02b2c3d479",
                "TimeUUID supports only version 1 UUIDs",
            ),
            (Native::Duration, "x", "Unable to convert 'x' to a duration"),
        ] {
            assert_eq!(parse_native(native, text).unwrap_err().message, words);
        }
        assert!(parse_native(Native::Ascii, "é").is_err());
    }
}
