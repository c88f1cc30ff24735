//! Strings: pieces of them by bytes and by code points, searches, case and trimming.

use std::borrow::Cow;
use std::collections::HashSet;

use ahash::RandomState;
use bson::Bson;
use memchr::memmem;
use tessera_core::deadline::{self, Held};

use super::date::format::{iso, short};
use super::operator::{Form, Named, Operator, optional, required, take};
use super::substring;
use super::{Call, Frame, MAX_TEXT, Value, fail, is_nullish, null, some};
use crate::compare::type_name;
use crate::error::Result;
use crate::number::{Decimal, Number};

const TRIM: Named = Named {
    fields: &[required("input", 50695), optional("chars")],
    not_object: 50696,
    unknown: 50694,
};

const REPLACE: Named = Named {
    fields: &[
        required("input", 51749),
        required("find", 51748),
        required("replacement", 51747),
    ],
    not_object: 51751,
    unknown: 51750,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$concat", Form::Any, concat),
    Operator::values("$indexOfBytes", Form::Between(2, 4), index_of_bytes),
    Operator::values("$indexOfCP", Form::Between(2, 4), index_of_code_points),
    Operator::lazy("$ltrim", Form::Named(&TRIM), |call, frame| {
        trim(call, frame, (true, false))
    }),
    Operator::values("$replaceAll", Form::Named(&REPLACE), |v, _| {
        replace("$replaceAll", v, |input, find, with| {
            input.replace(find, with)
        })
    }),
    Operator::values("$replaceOne", Form::Named(&REPLACE), |v, _| {
        replace("$replaceOne", v, |input, find, with| {
            input.replacen(find, with, 1)
        })
    }),
    Operator::lazy("$rtrim", Form::Named(&TRIM), |call, frame| {
        trim(call, frame, (false, true))
    }),
    Operator::values("$split", Form::Exactly(2), split),
    Operator::values("$strLenBytes", Form::Exactly(1), |values, _| {
        length("$strLenBytes", values, 34473, str::len)
    }),
    Operator::values("$strLenCP", Form::Exactly(1), |values, _| {
        length("$strLenCP", values, 34471, |text| text.chars().count())
    }),
    Operator::values("$strcasecmp", Form::Exactly(2), strcasecmp),
    Operator::values("$substr", Form::Exactly(3), |v, _| {
        substring::of_bytes("$substr", v)
    }),
    Operator::values("$substrBytes", Form::Exactly(3), |v, _| {
        substring::of_bytes("$substrBytes", v)
    }),
    Operator::values("$substrCP", Form::Exactly(3), substring::of_code_points),
    Operator::values("$toLower", Form::Exactly(1), |values, _| {
        let [value] = take(values);
        some(coerce(value.as_deref())?.to_ascii_lowercase())
    }),
    Operator::values("$toUpper", Form::Exactly(1), |values, _| {
        let [value] = take(values);
        some(coerce(value.as_deref())?.to_ascii_uppercase())
    }),
    Operator::lazy("$trim", Form::Named(&TRIM), |call, frame| {
        trim(call, frame, (true, true))
    }),
];

/// A value as text, the way operators of text take numbers and dates; missing and null are empty.
pub(super) fn coerce(value: Option<&Bson>) -> Result<Cow<'_, str>> {
    let owned = match value {
        None | Some(Bson::Null | Bson::Undefined) => return Ok(Cow::Borrowed("")),
        Some(Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text)) => {
            return Ok(Cow::Borrowed(text));
        }
        Some(Bson::DateTime(date)) => iso(date.timestamp_millis())?,
        Some(Bson::Timestamp(timestamp)) => {
            format!(
                "{}:{}",
                short(i64::from(timestamp.time) * 1000),
                timestamp.increment
            )
        }
        Some(Bson::Double(double)) => format_double(*double),
        Some(Bson::Int32(int)) => int.to_string(),
        Some(Bson::Int64(int)) => int.to_string(),
        Some(Bson::Decimal128(decimal)) => Decimal::from_bson(*decimal).to_string(),
        Some(other) => {
            let found = type_name(other);
            return fail(
                16007,
                format!("can't convert from BSON type {found} to String"),
            );
        }
    };
    Ok(Cow::Owned(owned))
}

/// A double with up to six significant digits, and an exponent where the plain form would be long.
fn format_double(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let scientific = format!("{value:.5e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let shorten = |digits: &str| match digits.contains('.') {
        true => digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => digits.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return shorten(&format!("{value:.decimals$}"));
    }
    with_exponent(&shorten(mantissa), exponent)
}

fn with_exponent(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A double with as few digits as tell it from all others.
pub(super) fn shortest_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse().unwrap_or(0) {
        -4..16 => format!("{value}"),
        exponent => with_exponent(mantissa, exponent),
    }
}

fn concat<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let mut text = String::new();
    for value in &values {
        deadline::step(1)?;
        match value.as_deref() {
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(Bson::String(piece)) => text.push_str(piece),
            Some(other) => {
                let found = type_name(other);
                return fail(16702, format!("$concat only supports strings, not {found}"));
            }
        }
    }
    some(text)
}

fn length<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    not_string: i32,
    measure: impl Fn(&str) -> usize,
) -> Result<Value<'a>> {
    let [value] = take(values);
    match value.as_deref() {
        Some(Bson::String(text)) => some(count(measure(text))),
        other => {
            let found = other.map_or("missing", type_name);
            fail(
                not_string,
                format!("{name} requires a string argument, found: {found}"),
            )
        }
    }
}

/// A length or position as BSON has it; documents are too small for more than 31 bits.
pub(super) fn count(value: usize) -> Bson {
    Bson::Int32(i32::try_from(value).unwrap_or(i32::MAX))
}

fn strcasecmp<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [left, right] = take(values);
    let left = coerce(left.as_deref())?.to_ascii_uppercase();
    let right = coerce(right.as_deref())?.to_ascii_uppercase();
    some(left.cmp(&right) as i32)
}

fn split<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [text, separator] = take(values);
    if is_nullish(text.as_deref()) || is_nullish(separator.as_deref()) {
        return null();
    }
    let Some(Bson::String(text)) = text.as_deref() else {
        return fail(40085, "$split requires a string as a first argument");
    };
    let Some(Bson::String(separator)) = separator.as_deref() else {
        return fail(10503900, "$split requires a string as a second argument");
    };
    if separator.is_empty() {
        return fail(40087, "$split requires a non-empty separator");
    }
    search_steps(text)?;
    let count = memmem::find_iter(text.as_bytes(), separator).count() + 1;
    let mut held = Held::new();
    held.add(text.len() + count.saturating_mul(size_of::<Bson>()))?;
    deadline::step(count / 4)?;
    let pieces = text.split(separator.as_str()).map(Bson::from);
    some(pieces.collect::<Vec<_>>())
}

fn replace<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    replace: fn(&str, &str, &str) -> String,
) -> Result<Value<'a>> {
    let mut texts = Vec::with_capacity(3);
    for (value, (what, code)) in values.iter().zip([
        ("input", 10503904),
        ("find", 10503901),
        ("replacement", 10503902),
    ]) {
        match value.as_deref() {
            Some(Bson::String(text)) => texts.push(text.as_str()),
            None | Some(Bson::Null | Bson::Undefined) => {}
            Some(_) => return fail(code, format!("{name} requires that '{what}' be a string")),
        }
    }
    match texts.as_slice() {
        [input, find, with] => {
            search_steps(input)?;
            let times = input.len() / find.len().max(1) + 1;
            let mut held = Held::new();
            // What is too long for a document is not even made.
            if times.saturating_mul(with.len()) >= MAX_TEXT {
                let found = memmem::find_iter(input.as_bytes(), find).count();
                held.add(input.len() + found.saturating_mul(with.len()))?;
            }
            some(replace(input, find, with))
        }
        _ => null(),
    }
}

fn trim<'a>(call: &'a Call, frame: &Frame<'a>, (left, right): (bool, bool)) -> Result<Value<'a>> {
    let name = call.operator.name;
    let input = call.evaluate_argument(0, frame)?;
    let text = match input.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(Bson::String(text)) => text,
        Some(_) => return fail(50699, format!("{name} requires its input to be a string")),
    };
    let characters = call.evaluate_argument(1, frame)?;
    let chosen = match characters.as_deref() {
        _ if call.argument(1).is_absent() => None,
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(Bson::String(characters)) => Some(characters),
        Some(_) => return fail(50700, format!("{name} requires 'chars' to be a string")),
    };
    let chosen = chosen.map(|chosen| Characters::of(chosen)).transpose()?;
    deadline::step(text.len() / TRIMMED_IN_STEP)?;
    let is_trimmed = |c: char| match &chosen {
        Some(chosen) => chosen.has(c),
        None => is_blank(c),
    };
    let text = if left {
        text.trim_start_matches(is_trimmed)
    } else {
        text
    };
    some(if right {
        text.trim_end_matches(is_trimmed)
    } else {
        text
    })
}

/// How many bytes of a text are trimmed in a step.
const TRIMMED_IN_STEP: usize = 16;

/// Characters to look others up among.
enum Characters<'a> {
    /// So few that they are gone through.
    Few(&'a str),
    Many(HashSet<char, RandomState>),
}

impl<'a> Characters<'a> {
    fn of(text: &'a str) -> Result<Self> {
        if text.len() <= TRIMMED_IN_STEP {
            return Ok(Self::Few(text));
        }
        deadline::step(text.len() / TRIMMED_IN_STEP)?;
        Ok(Self::Many(text.chars().collect()))
    }

    fn has(&self, c: char) -> bool {
        match self {
            Self::Few(text) => text.contains(c),
            Self::Many(set) => set.contains(&c),
        }
    }
}

/// What is trimmed by default: blanks of Unicode, and the null character.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\0' | '\t'..='\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}'
    )
}

/// A position that an operator is given: not negative, and of 32 bits.
fn position(name: &str, value: Option<&Bson>) -> Result<usize> {
    let Some(position) = value
        .and_then(Number::from_bson)
        .and_then(Number::as_i32_exact)
    else {
        return fail(40096, format!("{name} requires an integral index"));
    };
    match usize::try_from(position) {
        Ok(position) => Ok(position),
        Err(_) => fail(
            40097,
            format!("{name} requires a nonnegative index, found: {position}"),
        ),
    }
}

/// The text, what is sought in it, and from where to where.
struct Search<'v> {
    text: &'v str,
    sought: &'v str,
    start: usize,
    end: Option<usize>,
}

fn search<'v>(
    name: &str,
    values: &'v [Value<'_>],
    (text_code, sought_code): (i32, i32),
) -> Result<Option<Search<'v>>> {
    let at = |index: usize| values.get(index).and_then(|value| value.as_deref());
    if is_nullish(at(0)) {
        return Ok(None);
    }
    let Some(Bson::String(text)) = at(0) else {
        return fail(
            text_code,
            format!("{name} requires a string as the first argument"),
        );
    };
    let Some(Bson::String(sought)) = at(1) else {
        return fail(
            sought_code,
            format!("{name} requires a string as the second argument"),
        );
    };
    let start = if values.len() > 2 {
        position(name, at(2))?
    } else {
        0
    };
    let end = if values.len() > 3 {
        Some(position(name, at(3))?)
    } else {
        None
    };
    Ok(Some(Search {
        text,
        sought,
        start,
        end,
    }))
}

fn index_of_bytes<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let Some(search) = search("$indexOfBytes", &values, (40091, 40092))? else {
        return null();
    };
    search_steps(search.text)?;
    let text = search.text.as_bytes();
    let end = search.end.unwrap_or(text.len()).min(text.len());
    let Some(part) = text.get(search.start..end) else {
        return some(-1);
    };
    some(
        find(part, search.sought.as_bytes()).map_or(Bson::Int32(-1), |at| count(search.start + at)),
    )
}

/// Where bytes occur within others. Not by text: an index may cut a character in two.
fn find(text: &[u8], sought: &[u8]) -> Option<usize> {
    memmem::find(text, sought)
}

/// Counts the steps of going through a text once.
fn search_steps(text: &str) -> Result<()> {
    Ok(deadline::step(text.len() / 256)?)
}

fn index_of_code_points<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let Some(search) = search("$indexOfCP", &values, (40093, 40094))? else {
        return null();
    };
    let length = search.text.chars().count();
    let end = search.end.unwrap_or(length).min(length);
    if search.text.is_empty() && search.sought.is_empty() && end >= search.start {
        return some(0);
    }
    if search.start >= end {
        return some(-1);
    }
    search_steps(search.text)?;
    // What is sought begins and ends between characters, so that bytes find it there alone.
    let from = search.text.char_indices().nth(search.start);
    let rest = from.and_then(|(at, _)| search.text.get(at..));
    let found = rest.and_then(|rest| {
        let at = find(rest.as_bytes(), search.sought.as_bytes())?;
        let before = rest.get(..at)?.chars().count();
        Some(search.start + before).filter(|index| *index < end)
    });
    some(found.map_or(Bson::Int32(-1), count))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, bson};

    use crate::expression::tests::{fails, gives};

    #[test]
    fn takes_pieces() {
        gives([
            (bson!({ "$concat": ["a", "$s"] }), bson!("atext")),
            (bson!({ "$concat": ["a", "$none"] }), bson!(null)),
            (bson!({ "$substr": ["$s", 1, 2] }), bson!("ex")),
            (bson!({ "$substrBytes": ["$s", 1, -1] }), bson!("ext")),
            (bson!({ "$substrBytes": ["$s", 9, 1] }), bson!("")),
            (bson!({ "$substrCP": ["häuser", 1, 2] }), bson!("äu")),
            (bson!({ "$substr": [12345, 0, 2] }), bson!("12")),
            (
                bson!({ "$substr": [Bson::DateTime(DateTime::from_millis(0)), 0, 4] }),
                bson!("1970"),
            ),
            (
                bson!({ "$split": ["a-b--c", "-"] }),
                bson!(["a", "b", "", "c"]),
            ),
            (bson!({ "$split": [null, "-"] }), bson!(null)),
            (bson!({ "$strLenBytes": "ä" }), bson!(2)),
            (bson!({ "$strLenCP": "ä" }), bson!(1)),
        ]);
        fails([
            (bson!({ "$concat": [1] }), 16702),
            (bson!({ "$substr": ["ä", 1, 1] }), 28656),
            (bson!({ "$substr": ["ä", 0, 1] }), 28657),
            (bson!({ "$substr": ["a", -1, 1] }), 50752),
            (bson!({ "$substr": ["a", "x", 1] }), 16034),
            (bson!({ "$substr": ["a", 1, "x"] }), 16035),
            (bson!({ "$substr": [[], 1, 1] }), 16007),
            (bson!({ "$substrCP": ["a", "x", 1] }), 34450),
            (bson!({ "$substrCP": ["a", 1.5, 1] }), 34451),
            (bson!({ "$substrCP": ["a", 0, "x"] }), 34452),
            (bson!({ "$substrCP": ["a", 0, 1.5] }), 34453),
            (bson!({ "$substrCP": ["a", 0, -1] }), 34454),
            (bson!({ "$substrCP": ["a", -1, 1] }), 34455),
            (bson!({ "$split": [1, "a"] }), 40085),
            (bson!({ "$split": ["a", 1] }), 10503900),
            (bson!({ "$split": ["a", ""] }), 40087),
            (bson!({ "$strLenBytes": null }), 34473),
            (bson!({ "$strLenCP": 1 }), 34471),
        ]);
    }

    #[test]
    fn searches_and_replaces() {
        gives([
            (bson!({ "$indexOfBytes": ["häuser", "u"] }), bson!(3)),
            (bson!({ "$indexOfCP": ["häuser", "u"] }), bson!(2)),
            (bson!({ "$indexOfCP": ["aXaX", "X", 2] }), bson!(3)),
            (bson!({ "$indexOfBytes": ["aXaX", "X", 2, 3] }), bson!(-1)),
            (bson!({ "$indexOfBytes": [null, "X"] }), bson!(null)),
            (
                bson!({ "$replaceOne": { "input": "aba", "find": "a", "replacement": "x" } }),
                bson!("xba"),
            ),
            (
                bson!({ "$replaceAll": { "input": "aba", "find": "a", "replacement": "x" } }),
                bson!("xbx"),
            ),
            (
                bson!({ "$replaceAll": { "input": null, "find": "a", "replacement": "x" } }),
                bson!(null),
            ),
        ]);
        fails([
            (bson!({ "$indexOfBytes": [1, "a"] }), 40091),
            (bson!({ "$indexOfBytes": ["a", 1] }), 40092),
            (bson!({ "$indexOfCP": [1, "a"] }), 40093),
            (bson!({ "$indexOfCP": ["a", 1] }), 40094),
            (bson!({ "$indexOfCP": ["a", "a", 1.5] }), 40096),
            (bson!({ "$indexOfCP": ["a", "a", -1] }), 40097),
            (bson!({ "$indexOfCP": ["a"] }), 28667),
            (bson!({ "$replaceOne": 1 }), 51751),
            (bson!({ "$replaceOne": { "x": 1 } }), 51750),
            (
                bson!({ "$replaceOne": { "find": "a", "replacement": "x" } }),
                51749,
            ),
            (
                bson!({ "$replaceOne": { "input": 1, "find": "a", "replacement": "x" } }),
                10503904,
            ),
            (
                bson!({ "$replaceOne": { "input": "a", "find": 1, "replacement": "x" } }),
                10503901,
            ),
            (
                bson!({ "$replaceAll": { "input": "a", "find": "a", "replacement": 1 } }),
                10503902,
            ),
        ]);
    }

    #[test]
    fn changes_case_and_trims() {
        gives([
            (bson!({ "$toLower": "ABCÄ" }), bson!("abcÄ")),
            (bson!({ "$toUpper": "$none" }), bson!("")),
            (bson!({ "$toUpper": 1.5 }), bson!("1.5")),
            (bson!({ "$strcasecmp": ["aBc", "Abd"] }), bson!(-1)),
            (bson!({ "$strcasecmp": ["a", "A"] }), bson!(0)),
            (bson!({ "$trim": { "input": " \u{2003}a " } }), bson!("a")),
            (
                bson!({ "$ltrim": { "input": "xyaxy", "chars": "yx" } }),
                bson!("axy"),
            ),
            (
                bson!({ "$rtrim": { "input": "xyaxy", "chars": "yx" } }),
                bson!("xya"),
            ),
            (
                bson!({ "$trim": { "input": "a", "chars": null } }),
                bson!(null),
            ),
        ]);
        fails([
            (bson!({ "$toLower": [[1]] }), 16007),
            (bson!({ "$trim": 1 }), 50696),
            (bson!({ "$trim": { "x": 1 } }), 50694),
            (bson!({ "$trim": {} }), 50695),
            (bson!({ "$trim": { "input": 1 } }), 50699),
            (bson!({ "$trim": { "input": "a", "chars": 1 } }), 50700),
        ]);
    }

    #[test]
    fn prints_doubles() {
        for (value, brief, shortest) in [
            (1.0, "1", "1"),
            (0.1, "0.1", "0.1"),
            (-1.5, "-1.5", "-1.5"),
            (1e16, "1e+16", "1e+16"),
            (1_234_567.0, "1.23457e+06", "1234567"),
            (999_999.5, "1e+06", "999999.5"),
            (1e-5, "1e-05", "1e-05"),
            (0.0001, "0.0001", "0.0001"),
            (-0.0, "-0", "-0"),
            (f64::INFINITY, "inf", "Infinity"),
            (f64::NAN, "nan", "NaN"),
        ] {
            assert_eq!(super::format_double(value), brief);
            assert_eq!(super::shortest_double(value), shortest);
        }
    }
}
