//! The filter of a partial index: the operators that it may have, and the queries that the index
//! can answer.

use bson::{Bson, Document};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, Error, Result};
use tessera_mongo_language::filter::{Filter, Place};

use crate::index::check::cannot_create;

/// Operators of a partial filter's fields.
const FIELD_OPERATORS: &[&str] = &[
    "$eq", "$exists", "$gt", "$gte", "$lt", "$lte", "$type", "$in",
];

/// Reads the filter of a partial index.
pub(super) fn parse(document: &Document, collation: &Collation) -> Result<Filter> {
    let context = crate::context::constant(collation);
    let filter = Filter::parse_in(document, &context, Place::PartialIndex)?;
    check(document)?;
    Ok(filter)
}

fn check(document: &Document) -> Result<()> {
    for (name, value) in document {
        match (name.as_str(), value) {
            ("$and" | "$or", Bson::Array(clauses)) => {
                for clause in clauses {
                    if let Bson::Document(clause) = clause {
                        check(clause)?;
                    }
                }
            }
            ("$expr", _) => {
                let message = "$expr is not allowed in a partialFilterExpression";
                return Err(Error::new(Code::QUERY_FEATURE_NOT_ALLOWED, message));
            }
            (operator, _) if operator.starts_with('$') => return Err(unsupported(operator)),
            (_, Bson::Document(operators)) => check_operators(operators)?,
            (_, Bson::RegularExpression(_)) => return Err(unsupported("$regex")),
            _ => {}
        }
    }
    Ok(())
}

fn check_operators(operators: &Document) -> Result<()> {
    for (operator, operand) in operators {
        if !operator.starts_with('$') {
            return Ok(());
        }
        if !FIELD_OPERATORS.contains(&operator.as_str()) {
            return Err(unsupported(operator));
        }
        let falsy = match operand {
            Bson::Boolean(flag) => !flag,
            other => super::check::number(other) == Some(0.0),
        };
        if operator == "$exists" && falsy {
            return Err(unsupported("$exists: false"));
        }
    }
    Ok(())
}

fn unsupported(what: &str) -> Error {
    cannot_create(format!("unsupported expression in partial index: {what}"))
}
