//! Options of stages: which there are, and which types they have.

use bson::{Bson, Document};

use crate::compare::type_name;
use crate::error::Result;
use crate::expression::fail;
use crate::number::Number;

/// Refuses options that the stage does not have.
pub(super) fn known(stage: &str, options: &Document, names: &[&str]) -> Result<()> {
    match options.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => fail(
            40415,
            format!("BSON field '{stage}.{name}' is an unknown field."),
        ),
        None => Ok(()),
    }
}

/// An option that must be there.
pub(super) fn required<'a>(stage: &str, options: &'a Document, name: &str) -> Result<&'a Bson> {
    match options.get(name) {
        Some(value) => Ok(value),
        None => fail(
            40414,
            format!("BSON field '{stage}.{name}' is missing but a required field"),
        ),
    }
}

/// An option of the wrong type.
pub(super) fn wrong_type<T>(stage: &str, name: &str, value: &Bson) -> Result<T> {
    let found = type_name(value);
    fail(
        14,
        format!("BSON field '{stage}.{name}' is the wrong type '{found}'"),
    )
}

/// A text that must be there.
pub(super) fn text<'a>(stage: &str, options: &'a Document, name: &str) -> Result<&'a str> {
    match required(stage, options, name)? {
        Bson::String(text) => Ok(text),
        other => wrong_type(stage, name, other),
    }
}

/// A count as `$skip` and `$limit` take it: not negative, and whole.
pub(super) fn count(stage: &str, value: &Bson, code: i32) -> Result<u64> {
    let number = Number::from_bson(value).and_then(Number::as_i64_exact);
    match number.map(u64::try_from) {
        Some(Ok(count)) => Ok(count),
        Some(Err(_)) => fail(
            code,
            format!("invalid argument to {stage} stage: Expected a non-negative number"),
        ),
        None => fail(
            code,
            format!("invalid argument to {stage} stage: Expected an integer"),
        ),
    }
}
