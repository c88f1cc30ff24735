//! How deep values may nest: each stage of a pipeline may put what the one before made into more
//! documents and arrays, and going through a value takes more of the stack with each level.

use bson::{Bson, Document};
use tessera_core::deadline;

use crate::error::Result;
use crate::expression::fail;

/// Deeper than what can be stored, as a value may be on its way to something else, and not so deep
/// that going through it takes all of the stack.
const MAX_DEPTH: usize = 400;

/// How many elements are looked at in a step.
const ELEMENTS_IN_STEP: usize = 16;

/// Whether a value nests no deeper than others can go through it.
pub(crate) fn is_shallow(value: &Bson) -> bool {
    nests_within(value, MAX_DEPTH)
}

/// Refuses a document that a stage made without an expression, if it nests deeper than that.
pub(crate) fn check_document(document: &Document) -> Result<()> {
    if fields_nest_within(document, MAX_DEPTH) {
        return Ok(());
    }
    fail(15, "a document of the pipeline is nested too deeply")
}

fn nests_within(value: &Bson, depth: usize) -> bool {
    match value {
        Bson::Array(_) | Bson::Document(_) if depth == 0 => false,
        Bson::Array(items) => {
            deadline::note(1 + items.len() / ELEMENTS_IN_STEP);
            items.iter().all(|item| nests_within(item, depth - 1))
        }
        Bson::Document(document) => fields_nest_within(document, depth - 1),
        _ => true,
    }
}

fn fields_nest_within(document: &Document, depth: usize) -> bool {
    deadline::note(1 + document.len() / ELEMENTS_IN_STEP);
    document.values().all(|item| nests_within(item, depth))
}
