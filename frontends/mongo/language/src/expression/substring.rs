//! Parts of texts by place: `$substr`, `$substrBytes` and `$substrCP`.

use super::arithmetic::to_i64;
use super::operator::take;
use super::string::coerce;
use super::{Frame, Value, fail, some};
use crate::error::Result;
use crate::number::Number;

pub(super) fn of_bytes<'a>(name: &str, values: Vec<Value<'a>>) -> Result<Value<'a>> {
    let [text, start, length] = take(values);
    let text = coerce(text.as_deref())?;
    let number = |value: &Value<'a>, code: i32| match value.as_deref() {
        Some(value) if Number::from_bson(value).is_some() => Ok(value.clone()),
        _ => fail(code, format!("{name}: index and length must be numeric")),
    };
    let (start, length) = (number(&start, 16034)?, number(&length, 16035)?);
    let Ok(start) = usize::try_from(to_i64(&start)?) else {
        return fail(
            50752,
            format!("{name}: starting index must be non-negative"),
        );
    };
    // A negative length means all the rest.
    let length = usize::try_from(to_i64(&length)?).unwrap_or(usize::MAX);
    let end = start.saturating_add(length);
    if start < text.len() && !text.is_char_boundary(start) {
        return fail(
            28656,
            format!("{name}: starting index is a UTF-8 continuation byte"),
        );
    }
    if end < text.len() && !text.is_char_boundary(end) {
        return fail(
            28657,
            format!("{name}: ending index is in the middle of a character"),
        );
    }
    some(text.get(start..end.min(text.len())).unwrap_or_default())
}

pub(super) fn of_code_points<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [text, start, length] = take(values);
    let text = coerce(text.as_deref())?;
    let number = |value: &Value<'a>, not_number: i32, not_integer: i32| {
        let Some(number) = value.as_deref().and_then(Number::from_bson) else {
            return fail(not_number, "$substrCP: index and length must be numeric");
        };
        match number.as_i32_exact() {
            Some(value) => Ok(value),
            None => fail(
                not_integer,
                "$substrCP: index and length must be 32-bit integers",
            ),
        }
    };
    let start = number(&start, 34450, 34451)?;
    let length = number(&length, 34452, 34453)?;
    let Ok(length) = usize::try_from(length) else {
        return fail(34454, "$substrCP: length must be a nonnegative integer.");
    };
    let Ok(start) = usize::try_from(start) else {
        return fail(
            34455,
            "$substrCP: the starting index must be nonnegative integer.",
        );
    };
    some(text.chars().skip(start).take(length).collect::<String>())
}
