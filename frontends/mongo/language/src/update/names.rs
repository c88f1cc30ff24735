//! Which names and values documents may be stored with.

use bson::{Bson, Document};

use super::target::{MAX_DEPTH, too_deep};
use crate::{
    compare::type_name,
    error::{Code, Error, Result},
};

/// The fields of a reference to another document, which only come together.
const REFERENCE: &[&str] = &["$ref", "$id", "$db"];

/// Refuses a field of a document, or of its `_id`, whose name begins with a dollar sign.
pub(super) fn check_top_level(name: &str) -> Result<()> {
    if !name.starts_with('$') {
        return Ok(());
    }
    if REFERENCE.contains(&name) {
        let message = format!("Found {name} outside of a DBRef, which is invalid.");
        return Err(Error::new(Code::INVALID_DB_REF, message));
    }
    Err(Error::new(
        Code::DOLLAR_PREFIXED_FIELD_NAME,
        format!(
            "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of \
             an update's replacement document. Consider using an aggregation pipeline with \
             $replaceWith."
        ),
    ))
}

/// Refuses a document that is nested too deeply.
pub(super) fn check_depth(document: &Document) -> Result<()> {
    if document
        .iter()
        .any(|(_, value)| 1 + depth(value) > MAX_DEPTH)
    {
        return Err(too_deep());
    }
    Ok(())
}

/// Refuses a replacement that cannot be stored.
pub(super) fn check_replacement(document: &Document) -> Result<()> {
    for (name, value) in document {
        if name == "_id" {
            check_id(value)?;
        } else {
            check_top_level(name)?;
        }
    }
    Ok(())
}

/// Refuses what cannot be the `_id` of a document: arrays, regular expressions, undefined, and
/// documents with fields that begin with a dollar sign.
pub fn check_id(id: &Bson) -> Result<()> {
    match id {
        Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined => Err(Error::new(
            Code::INVALID_ID_FIELD,
            format!("The '_id' value cannot be of type {}", type_name(id)),
        )),
        Bson::Document(document) => document.keys().try_for_each(|name| {
            let reference = document.contains_key("$ref") && REFERENCE.contains(&name.as_str());
            if reference {
                Ok(())
            } else {
                check_top_level(name)
            }
        }),
        _ => Ok(()),
    }
}

/// How many levels lie within a value: none in a scalar.
pub(super) fn depth(value: &Bson) -> usize {
    let deepest = match value {
        Bson::Document(document) => document.iter().map(|(_, value)| depth(value)).max(),
        Bson::Array(elements) => elements.iter().map(depth).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}
