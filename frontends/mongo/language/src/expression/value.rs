//! What operators do with values: keeping them, counting their memory; null and missing ones.

use std::borrow::Cow;

use bson::Bson;
use tessera_core::deadline::Held;

use super::Value;
use crate::error::{Code, Error, Result};
use crate::number::Number;
use crate::size::{copy, footprint};

/// A value of its own, whose memory is counted before it is copied.
pub(crate) fn kept(value: Cow<'_, Bson>, held: &mut Held) -> Result<Bson> {
    held.add(footprint(&value))?;
    Ok(value.into_owned())
}

/// A value of its own; copying it is counted as the work that it is.
pub(crate) fn own(value: Cow<'_, Bson>) -> Bson {
    match value {
        Cow::Borrowed(value) => copy(value),
        Cow::Owned(value) => value,
    }
}

/// The same with null where the value is missing, as arrays need it.
pub(crate) fn kept_or_null(value: Value<'_>, held: &mut Held) -> Result<Bson> {
    value.map_or(Ok(Bson::Null), |value| kept(value, held))
}

/// Counts the memory of a value that is kept as it is: what is borrowed takes none.
pub(crate) fn count_owned(value: &Value<'_>, held: &mut Held) -> Result<()> {
    match value {
        Some(Cow::Owned(value)) => Ok(held.add(footprint(value))?),
        Some(Cow::Borrowed(_)) | None => Ok(()),
    }
}

/// An error of an expression; most have a number of their own and no name.
pub(crate) fn fail<T>(code: i32, message: impl Into<String>) -> Result<T> {
    Err(Error::new(Code(code), message))
}

/// A value that is there.
pub(crate) fn some<'a>(value: impl Into<Bson>) -> Result<Value<'a>> {
    Ok(Some(Cow::Owned(value.into())))
}

pub(crate) fn null<'a>() -> Result<Value<'a>> {
    some(Bson::Null)
}

/// The value, with null where it is missing, as arrays need it.
pub(crate) fn or_null(value: Value<'_>) -> Bson {
    value.map_or(Bson::Null, own)
}

/// Missing, null and undefined, which most operators answer with null.
pub(crate) fn is_nullish(value: Option<&Bson>) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

/// Whether a value counts as true: all but false, null, undefined and zero.
pub(crate) fn is_truthy(value: &Bson) -> bool {
    match value {
        Bson::Boolean(value) => *value,
        Bson::Null | Bson::Undefined => false,
        _ => Number::from_bson(value).is_none_or(|number| !number.is_zero()),
    }
}
