//! The duplicate key error: the index that has the value already, and the value.

use bson::{Bson, Document};
use tessera_core::Error as CoreError;
use tessera_mongo_language::error::{Code, Error};

use crate::collection::Namespace;
use crate::execute::decode;
use crate::failure::Failure;
use crate::index::{IndexSpec, keys};
use crate::plan::interval::ShownDocument;
use crate::write::target::Target;

/// The failure of a write whose document the core refused.
pub(crate) fn failure(target: &Target, body: &[u8], error: CoreError) -> Failure {
    let spec = match &error {
        CoreError::AlreadyExists(_) => Some(&target.collection.id_index),
        CoreError::DuplicateValue { index } => target.collection.core_index(index),
        _ => None,
    };
    let Some(spec) = spec else {
        return error.into();
    };
    let document = decode(body).unwrap_or_default();
    let value = keys::first_key(spec, &document).unwrap_or_default();
    let mut failure = of_value(&target.namespace, spec, &value);
    if target.collection.is_clustered()
        && let Some(code) = value.get("_id").and_then(unreadable_record)
    {
        failure.error.code = code;
    }
    failure
}

/// MongoDB makes the message of such an error from the stored key of a clustered collection, and
/// fails with codes of their own on numbers that are none.
fn unreadable_record(id: &Bson) -> Option<Code> {
    let shown = match id {
        Bson::Double(number) => number.to_string(),
        Bson::Decimal128(number) => number.to_string(),
        _ => return None,
    };
    match shown.to_lowercase().trim_start_matches('-') {
        "nan" => Some(Code(50_819)),
        "inf" | "infinity" => Some(Code(50_826)),
        _ => None,
    }
}

/// The failure of two documents with one value of a unique index.
pub(crate) fn of_value(namespace: &Namespace, spec: &IndexSpec, value: &Document) -> Failure {
    let collation = if spec.collation.is_simple() {
        String::new()
    } else {
        format!(
            " collation: {}",
            ShownDocument(&spec.collation.to_document())
        )
    };
    let message = format!(
        "E11000 duplicate key error collection: {namespace} index: {}{collation} dup key: {}",
        spec.name,
        ShownDocument(value)
    );
    Failure::from(Error::new(Code::DUPLICATE_KEY, message))
        .with("keyPattern", spec.key.clone())
        .with("keyValue", value.clone())
}
