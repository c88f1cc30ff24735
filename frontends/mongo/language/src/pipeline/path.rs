//! Plain paths within a document, which go through documents and never through arrays.

use bson::{Bson, Document};

use crate::size::take_field;

/// What is at the path.
pub(super) fn get<'a>(document: &'a Document, path: &[String]) -> Option<&'a Bson> {
    let (field, rest) = path.split_first()?;
    let value = document.get(field)?;
    match (rest.is_empty(), value) {
        (true, value) => Some(value),
        (false, Bson::Document(inner)) => get(inner, rest),
        (false, _) => None,
    }
}

/// Sets what is at the path. What is in the way and no document becomes one.
pub(super) fn set(document: &mut Document, path: &[String], value: Bson) {
    let Some((field, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        document.insert(field.clone(), value);
        return;
    }
    if let Some(Bson::Document(inner)) = document.get_mut(field) {
        return set(inner, rest, value);
    }
    let mut inner = Document::new();
    set(&mut inner, rest, value);
    document.insert(field.clone(), inner);
}

/// Removes what is at the path.
pub(super) fn remove(document: &mut Document, path: &[String]) {
    let Some((field, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        take_field(document, field);
    } else if let Some(Bson::Document(inner)) = document.get_mut(field) {
        remove(inner, rest);
    }
}
