//! Validators: whether a document may be stored.

use bson::{Bson, Document, doc};
use tessera_mongo_language::error::{Code, Error, Result};

use crate::collection::{Collection, Validator};

/// Checks a document that is about to be stored; `before` is what it replaces.
pub(crate) fn check(
    collection: &Collection,
    document: &Document,
    before: Option<&Document>,
) -> Result<()> {
    let Some(validator) = &collection.validator else {
        return Ok(());
    };
    if validator.filter.matches(document)? {
        return Ok(());
    }
    if let Some(before) = before
        && validator.moderate
        && !validator.filter.matches(before)?
    {
        return Ok(());
    }
    if !validator.refuses {
        tracing::warn!(collection = %collection.uuid, "a document failed validation");
        return Ok(());
    }
    Err(Error {
        code: Code::DOCUMENT_VALIDATION_FAILURE,
        message: "Document failed validation".to_owned(),
        details: Some(details(validator, document)),
    })
}

/// What the reply carries as `errInfo`.
fn details(validator: &Validator, document: &Document) -> Document {
    let id = document.get("_id").cloned().unwrap_or(Bson::Null);
    let schema = validator.document.get_document("$jsonSchema").ok();
    let details = match schema {
        Some(schema) => {
            let mut details = doc! { "operatorName": "$jsonSchema" };
            for name in ["title", "description"] {
                if let Some(text) = schema.get(name) {
                    details.insert(name, text.clone());
                }
            }
            details.insert("schemaRulesNotSatisfied", unsatisfied(schema, document));
            details
        }
        None => operator_details(&validator.document, document),
    };
    doc! { "failingDocumentId": id, "details": details }
}

/// The rule of a filter that failed; of several, all as they stand.
fn operator_details(filter: &Document, document: &Document) -> Document {
    let mut rules = filter.iter();
    let (Some((path, rule)), None) = (rules.next(), rules.next()) else {
        return doc! { "operatorName": "$and", "specifiedAs": filter.clone() };
    };
    let operator = match rule {
        Bson::Document(operators) => operators.keys().next().cloned(),
        _ => None,
    };
    let operator = operator
        .filter(|name| name.starts_with('$'))
        .unwrap_or("$eq".to_owned());
    let mut details = doc! { "operatorName": operator, "specifiedAs": filter.clone() };
    match document.get(path) {
        Some(value) => {
            details.insert("reason", "comparison failed");
            details.insert("consideredValue", value.clone());
        }
        None => {
            details.insert("reason", "field was missing");
        }
    }
    details
}

/// The rules of a schema's first level that do not hold, one by one.
fn unsatisfied(schema: &Document, document: &Document) -> Vec<Bson> {
    let holds = |part: &Document| {
        let filter = doc! { "$jsonSchema": part.clone() };
        let context = crate::context::constant(&Default::default());
        let filter = tessera_mongo_language::filter::Filter::parse(&filter, &context);
        filter.is_ok_and(|filter| filter.matches(document).unwrap_or(false))
    };
    let mut found = Vec::new();
    for (keyword, rule) in schema {
        let part: Document = [(keyword.clone(), rule.clone())].into_iter().collect();
        if matches!(keyword.as_str(), "title" | "description" | "$schema") || holds(&part) {
            continue;
        }
        let mut entry = doc! { "operatorName": keyword, "specifiedAs": part };
        match (keyword.as_str(), rule) {
            ("required", Bson::Array(names)) => {
                let missing = names.iter().filter(|name| {
                    name.as_str()
                        .is_some_and(|name| !document.contains_key(name))
                });
                entry.insert("missingProperties", missing.cloned().collect::<Vec<_>>());
            }
            ("properties", Bson::Document(properties)) => {
                let failed = properties.iter().filter_map(|(name, rules)| {
                    let part = doc! { "properties": { name: rules.clone() } };
                    (!holds(&part)).then(|| {
                        let mut failed = doc! { "propertyName": name };
                        if let Some(text) = rules.as_document().and_then(|r| r.get("description")) {
                            failed.insert("description", text.clone());
                        }
                        failed.insert("details", vec![doc! { "specifiedAs": rules.clone() }]);
                        Bson::Document(failed)
                    })
                });
                entry.remove("specifiedAs");
                entry.insert("propertiesNotSatisfied", failed.collect::<Vec<_>>());
            }
            _ => {}
        }
        found.push(Bson::Document(entry));
    }
    found
}
