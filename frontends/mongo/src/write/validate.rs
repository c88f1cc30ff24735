//! Validators: checks documents before they are stored.

use bson::Document;
use tessera_mongo_language::error::{Code, Result};

use crate::collection::Collection;

/// Checks a document that is about to be stored; `before` is what it replaces.
pub(crate) fn check(
    collection: &Collection,
    document: &Document,
    before: Option<&Document>,
) -> Result<()> {
    let Some(validator) = &collection.validator else {
        return Ok(());
    };
    let Err(failure) = validator.rules.check(document) else {
        return Ok(());
    };
    if failure.code != Code::DOCUMENT_VALIDATION_FAILURE {
        return Err(failure);
    }
    if let Some(before) = before
        && validator.moderate
        && validator.rules.check(before).is_err()
    {
        return Ok(());
    }
    if !validator.refuses {
        tracing::warn!(collection = %collection.uuid, "a document failed validation");
        return Ok(());
    }
    Err(failure)
}
