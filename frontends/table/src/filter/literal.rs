//! The constants of a filter: strings, numbers, and the typed forms `prefix'text'`.

use std::borrow::Cow;

use nom::Parser;
use nom::branch::alt;
use nom::bytes::complete::{is_not, tag};
use nom::character::complete::{char, digit1, one_of};
use nom::combinator::{consumed, map, opt, recognize, value};
use nom::multi::fold_many0;
use uuid::Uuid;

use super::mistake::{Parsed, refuse};
use crate::entity::{DateTime, Value};

/// `'text'`, in which a quote is written twice.
pub(super) fn string(input: &str) -> Parsed<'_, String> {
    let part = alt((is_not("'"), value("'", tag("''"))));
    let (rest, _) = char('\'').parse(input)?;
    let (rest, text) = fold_many0(part, String::new, |mut text: String, part| {
        text.push_str(part);
        text
    })
    .parse(rest)?;
    match rest.strip_prefix('\'') {
        Some(rest) => Ok((rest, text)),
        None => refuse(input, "the string has no closing quote"),
    }
}

/// `1` is an Int32, `1L` an Int64; `1.0`, `1e3`, `1D` and `-INF` are Doubles.
pub(super) fn number(input: &str) -> Parsed<'_, Value<'static>> {
    if let Some(rest) = input.strip_prefix("-INF") {
        return ends_word(input, rest, Value::Double(f64::NEG_INFINITY));
    }
    let Ok((rest, (text, tail, suffix))) = number_parts(input) else {
        return refuse(input, "a number is expected");
    };
    let number = match suffix {
        Some('L' | 'l') if tail.is_empty() => text.parse().ok().map(Value::Int64),
        Some('L' | 'l') => None,
        None if tail.is_empty() => text.parse().ok().map(Value::Int32),
        _ => text
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .map(Value::Double),
    };
    match (number, suffix) {
        (Some(number), _) => ends_word(input, rest, number),
        (None, Some('L' | 'l')) => refuse(input, "this is not an Int64"),
        (None, None) if tail.is_empty() => {
            refuse(input, "this is not an Int32; an Int64 ends in L")
        }
        (None, _) => refuse(input, "this is not a Double"),
    }
}

/// `prefix'text'`, of which `quoted` is the rest after the prefix. Prefixes have no case.
pub(super) fn typed<'t>(
    input: &'t str,
    prefix: &str,
    quoted: &'t str,
) -> Parsed<'t, Value<'static>> {
    let (rest, text) = string(quoted)?;
    let (value, mistake) = match prefix.to_ascii_lowercase().as_str() {
        "datetime" => (
            DateTime::parse(&text).map(Value::DateTime),
            "this is not a time such as datetime'2024-01-31T12:00:00Z'",
        ),
        "guid" => (literal_guid(&text).map(Value::Guid), "this is not a GUID"),
        "binary" | "x" => (
            literal_binary(&text).map(|bytes| Value::Binary(Cow::Owned(bytes))),
            "bytes are written as pairs of hexadecimal digits",
        ),
        _ => (
            None,
            "constants have no such type; there are datetime, guid, binary and X",
        ),
    };
    match value {
        Some(value) => Ok((rest, value)),
        None => refuse(input, mistake),
    }
}

/// A word that is a constant.
pub(super) fn word(word: &str) -> Option<Value<'static>> {
    match word {
        "NaN" => Some(Value::Double(f64::NAN)),
        "INF" => Some(Value::Double(f64::INFINITY)),
        _ if word.eq_ignore_ascii_case("true") => Some(Value::Boolean(true)),
        _ if word.eq_ignore_ascii_case("false") => Some(Value::Boolean(false)),
        _ => None,
    }
}

/// Whether a property name can begin with this character.
pub(super) fn begins_name(character: char) -> bool {
    continues_name(character) && !character.is_ascii_digit()
}

/// Whether a property name can continue with this character. Wider than what names of entities may
/// hold: a filter on a name that no entity has matches nothing.
pub(super) fn continues_name(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    !character.is_whitespace() && !character.is_control()
}

/// All of a number, its part after the whole digits, and its suffix.
fn number_parts(input: &str) -> Parsed<'_, (&str, &str, Option<char>)> {
    let whole = (opt(char('-')), digit1);
    let fraction = (char('.'), digit1);
    let exponent = (one_of("eE"), opt(one_of("+-")), digit1);
    let tail = recognize((opt(fraction), opt(exponent)));
    let text = consumed((whole, tail));
    map(
        (text, opt(one_of("LlDd"))),
        |((text, (_, tail)), suffix)| (text, tail, suffix),
    )
    .parse(input)
}

fn ends_word<'t>(
    input: &'t str,
    rest: &'t str,
    number: Value<'static>,
) -> Parsed<'t, Value<'static>> {
    if rest.starts_with(|next| continues_name(next) || next == '.') {
        return refuse(input, "this is not a number; a string stands in quotes");
    }
    Ok((rest, number))
}

fn literal_guid(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok()
}

fn literal_binary(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| match pair {
        [high, low] => {
            let high = char::from(*high).to_digit(16)?;
            let low = char::from(*low).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        }
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_number(text: &str, expected: Option<Value<'static>>) {
        let parsed = number(text).ok().map(|(_, number)| number);
        assert_eq!(parsed, expected, "{text}");
    }

    #[test]
    fn numbers_have_the_type_that_their_form_says() {
        for (text, expected) in [
            ("5", Value::Int32(5)),
            ("-2147483648", Value::Int32(i32::MIN)),
            ("5L", Value::Int64(5)),
            ("-9223372036854775808l", Value::Int64(i64::MIN)),
            ("54.321", Value::Double(54.321)),
            ("5d", Value::Double(5.0)),
            ("-1.5E+10", Value::Double(-1.5e10)),
            ("1e-3D", Value::Double(0.001)),
            ("-INF", Value::Double(f64::NEG_INFINITY)),
            ("5)", Value::Int32(5)),
        ] {
            check_number(text, Some(expected));
        }
        for text in [
            "2147483648",
            "9223372036854775808L",
            "1.0L",
            "1e999",
            "-",
            "5.",
            ".5",
            "5x",
            "1.2.3",
            "5LL",
            "-INFx",
            "5d62a508-f0f7-45bc-be10-4b192d7fed2d",
        ] {
            check_number(text, None);
        }
    }

    #[test]
    fn strings_double_their_quotes() {
        for (text, expected) in [
            ("''", Some(("", ""))),
            ("''''", Some(("", "'"))),
            ("'a''b' and", Some((" and", "a'b"))),
            ("'\"`ü'", Some(("", "\"`ü"))),
            ("'a", None),
            ("'a''", None),
        ] {
            let parsed = string(text).ok();
            let expected = expected.map(|(rest, text)| (rest, text.to_owned()));
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    fn typed_constants_are_read_by_their_prefix() {
        let guid = "11111111-2222-3333-4444-555555555555";
        for (prefix, text, expected) in [
            (
                "X",
                "'62ff'",
                Some(Value::Binary(Cow::Borrowed(&[0x62, 0xff]))),
            ),
            ("binary", "'0A'", Some(Value::Binary(Cow::Borrowed(&[10])))),
            ("binary", "''", Some(Value::Binary(Cow::Borrowed(&[])))),
            ("x", "'6'", None),
            ("x", "'6g'", None),
            ("x", "'+6'", None),
            ("x", "'üü'", None),
            ("GUID", "'x'", None),
            ("time", "'10:00'", None),
            (
                "guid",
                &format!("'{guid}'"),
                Some(Value::Guid(guid.parse().unwrap())),
            ),
        ] {
            let parsed = typed(text, prefix, text).ok().map(|(_, value)| value);
            assert_eq!(parsed, expected, "{prefix}{text}");
        }
    }

    #[test]
    fn times_count_in_steps_of_a_tenth_of_a_microsecond() {
        for (text, ticks) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01", Some(0)),
            ("1970-01-01T00:00:01", Some(10_000_000)),
            ("1970-01-01T00:00:00.0000001Z", Some(1)),
            ("1970-01-01T01:00:00.5+01:00", Some(5_000_000)),
            ("1969-12-31T23:59:59.9999999Z", Some(-1)),
            ("2024-02-30T00:00:00Z", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(
                DateTime::parse(text).map(|time| time.ticks),
                ticks,
                "{text}"
            );
        }
    }
}
