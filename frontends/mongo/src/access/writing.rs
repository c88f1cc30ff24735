//! The privileges that writing commands need on their collection.

use bson::RawDocument;

use super::{Action, Need};
use crate::failure::Result;
use crate::request::{Request, is_on};
use crate::wire::document::elements;

/// These actions on the collection that the command names, and one more if it is to write what the
/// collection's validator refuses.
pub(crate) fn needs(request: &Request<'_>, actions: &[Action]) -> Result<Vec<Need>> {
    let (database, collection) = (request.database, request.collection()?);
    let bypasses = request.is_on("bypassDocumentValidation");
    let bypass = bypasses.then_some(&Action::BypassDocumentValidation);
    let actions = actions.iter().chain(bypass);
    let needs = actions.map(|action| Need::on_collection(*action, database, collection));
    Ok(needs.collect())
}

/// Whether a statement inserts what it does not find.
pub(crate) fn upserts(statement: &RawDocument) -> bool {
    elements(statement).any(|(name, value)| name == "upsert" && is_on(value))
}
