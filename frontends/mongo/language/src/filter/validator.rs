//! Validators of collections: a filter that every document must match, and the explanation in the
//! error.
//!
//! The explanation walks the filter as it was written, so that it can quote it. Each clause is
//! tried by itself; `inverted` clauses are those that should not have held.

use std::convert::Infallible;
use std::ops::ControlFlow;

use bson::{Bson, Document, doc};

use super::{Filter, Place, Schema, is_operator_document};
use crate::compare::type_name;
use crate::error::{Code, Error, Result};
use crate::expression::variables::Context;
use crate::path::{LeafArray, Path, visit};

/// How many values a reason quotes.
const MAX_CONSIDERED: usize = 10;

/// The validator of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Validator {
    source: Document,
    filter: Filter,
    context: Context,
}

impl Validator {
    /// Parses a validator.
    pub fn parse(source: &Document, context: &Context) -> Result<Self> {
        let filter = Filter::parse_in(source, context, Place::Validator)?;
        Ok(Self {
            source: source.clone(),
            filter,
            context: context.clone(),
        })
    }

    /// The validator as it was written.
    pub fn source(&self) -> &Document {
        &self.source
    }

    /// Refuses a document that does not meet the filter: code 121 with `errInfo`.
    pub fn check(&self, document: &Document) -> Result<()> {
        if self.filter.matches(document)? {
            return Ok(());
        }
        let explain = Explain {
            context: &self.context,
            document,
        };
        let mut details = Document::new();
        if let Some(id) = document.get("_id") {
            details.insert("failingDocumentId", id.clone());
        }
        details.insert("details", explain.conditions(&self.source, false)?);
        let message = "Document failed validation";
        let mut error = Error::new(Code::DOCUMENT_VALIDATION_FAILURE, message);
        error.details = Some(details);
        Err(error)
    }
}

struct Explain<'a> {
    context: &'a Context,
    document: &'a Document,
}

impl Explain<'_> {
    fn holds(&self, clause: &Document) -> Result<bool> {
        Filter::parse_in(clause, self.context, Place::Validator)?.matches(self.document)
    }

    /// Conditions that should all have held, or, inverted, should not have.
    fn conditions(&self, conditions: &Document, inverted: bool) -> Result<Document> {
        let clauses = clauses(conditions);
        if let [only] = clauses.as_slice() {
            return self.clause(only, inverted);
        }
        let faults = self.faults(&clauses, inverted)?;
        let mut details = doc! {"operatorName": "$and"};
        details.insert(clauses_key(inverted), faults);
        Ok(details)
    }

    /// Of several clauses those that did not hold, or, inverted, those that did.
    fn faults(&self, clauses: &[Document], inverted: bool) -> Result<Vec<Document>> {
        let mut faults = Vec::new();
        for (clause, index) in clauses.iter().zip(0_i32..) {
            if self.holds(clause)? == inverted {
                let details = self.conditions(clause, inverted)?;
                faults.push(doc! {"index": index, "details": details});
            }
        }
        Ok(faults)
    }

    fn clause(&self, clause: &Document, inverted: bool) -> Result<Document> {
        let Some((name, value)) = clause.iter().next() else {
            return Ok(Document::new());
        };
        match (name.as_str(), value) {
            ("$and" | "$or", Bson::Array(clauses)) => self.logical(name, clauses, inverted),
            ("$nor", Bson::Array(clauses)) => self.logical(name, clauses, !inverted),
            ("$jsonSchema", _) if inverted => {
                Ok(doc! {"operatorName": name, "reason": "schema matched"})
            }
            ("$jsonSchema", Bson::Document(schema)) => {
                Schema::parse(schema)?.explain(self.document)
            }
            ("$expr", _) => {
                let reason = reason("$expr", inverted);
                Ok(doc! {
                    "operatorName": name,
                    "specifiedAs": clause.clone(),
                    "reason": reason,
                    "expressionResult": inverted,
                })
            }
            (operator, _) if operator.starts_with('$') => {
                let reason = reason("$alwaysFalse", inverted);
                Ok(doc! {"operatorName": name, "specifiedAs": clause.clone(), "reason": reason})
            }
            (path, Bson::Document(operators)) if is_operator_document(operators, false) => {
                self.operator(path, operators, clause, inverted)
            }
            (path, Bson::RegularExpression(_)) => Ok(self.fault(
                &Site {
                    path,
                    operator: "$regex",
                    clause,
                },
                inverted,
            )),
            (path, _) => Ok(self.fault(
                &Site {
                    path,
                    operator: "$eq",
                    clause,
                },
                inverted,
            )),
        }
    }

    fn logical(&self, name: &str, clauses: &[Bson], inverted: bool) -> Result<Document> {
        let clauses: Vec<_> = clauses
            .iter()
            .filter_map(Bson::as_document)
            .cloned()
            .collect();
        let mut details = doc! {"operatorName": name};
        details.insert(clauses_key(inverted), self.faults(&clauses, inverted)?);
        Ok(details)
    }

    /// The operator that a path is given; there is one, but for the options of a pattern.
    fn operator(
        &self,
        path: &str,
        operators: &Document,
        clause: &Document,
        inverted: bool,
    ) -> Result<Document> {
        let (name, value) = match operators.iter().find(|(name, _)| *name != "$options") {
            Some((name, value)) => (name.as_str(), value),
            None => return Ok(Document::new()),
        };
        match (name, value) {
            ("$not", Bson::Document(inner)) => {
                let inner = doc! {path: inner.clone()};
                let details = self.conditions(&inner, !inverted)?;
                Ok(doc! {"operatorName": name, "details": details})
            }
            ("$not", value) => {
                let inner = doc! {path: value.clone()};
                let details = self.conditions(&inner, !inverted)?;
                Ok(doc! {"operatorName": name, "details": details})
            }
            ("$exists", _) => {
                let exists = self.holds(&doc! {path: {"$exists": true}})?;
                Ok(doc! {
                    "operatorName": name,
                    "specifiedAs": clause.clone(),
                    "reason": reason("$exists", exists),
                })
            }
            ("$ne" | "$nin", _) => Ok(self.fault(
                &Site {
                    path,
                    operator: name,
                    clause,
                },
                !inverted,
            )),
            _ => Ok(self.fault(
                &Site {
                    path,
                    operator: name,
                    clause,
                },
                inverted,
            )),
        }
    }

    /// Why the values at a path did not pass, or, inverted, did.
    fn fault(&self, site: &Site<'_>, inverted: bool) -> Document {
        let mut details = doc! {"operatorName": site.operator, "specifiedAs": site.clause.clone()};
        let values = self.considered(site);
        let expected = expected_types(site.operator);
        let fits = |value: &Bson| expected.is_empty() || expected.contains(&type_name(value));
        let mistyped = !inverted && !values.iter().copied().any(fits);
        if values.is_empty() && !inverted {
            details.insert("reason", "field was missing");
            return details;
        }
        details.insert(
            "reason",
            if mistyped {
                "type did not match"
            } else {
                reason(site.operator, inverted)
            },
        );
        if mistyped && !expected.is_empty() {
            insert_one_or_many(&mut details, "expectedType", expected);
        }
        if mistyped || site.operator == "$type" {
            let mut types: Vec<_> = values.iter().copied().map(type_name).collect();
            types.sort_unstable();
            types.dedup();
            insert_one_or_many(&mut details, "consideredType", &types);
        }
        insert_values(&mut details, &values);
        details
    }

    fn considered(&self, site: &Site<'_>) -> Vec<&Bson> {
        let leaf = match site.operator {
            "$size" | "$all" | "$elemMatch" => LeafArray::Whole,
            _ => LeafArray::Traverse,
        };
        let mut values = Vec::new();
        let path = Path::parse(site.path);
        let ControlFlow::Continue(()) =
            visit::<Infallible>(self.document, &path, leaf, &mut |value, _| {
                values.extend(value);
                ControlFlow::Continue(())
            });
        values
    }
}

/// An operator at its path, and the clause it stands in.
struct Site<'a> {
    path: &'a str,
    operator: &'a str,
    clause: &'a Document,
}

/// The conditions one by one: each operator of a path is a clause, with the options of its pattern.
fn clauses(conditions: &Document) -> Vec<Document> {
    let mut all = Vec::new();
    for (name, value) in conditions {
        match value {
            Bson::Document(operators)
                if !name.starts_with('$') && is_operator_document(operators, false) =>
            {
                for (operator, value) in operators {
                    let mut one = doc! {operator: value.clone()};
                    match (operator.as_str(), operators.get("$options")) {
                        ("$options", _) => continue,
                        ("$regex", Some(options)) => {
                            one.insert("$options", options.clone());
                        }
                        _ => {}
                    }
                    all.push(doc! {name: one});
                }
            }
            _ if name == "$comment" => {}
            value => all.push(doc! {name: value.clone()}),
        }
    }
    all
}

fn clauses_key(inverted: bool) -> &'static str {
    if inverted {
        "clausesSatisfied"
    } else {
        "clausesNotSatisfied"
    }
}

/// Why something did not hold, and why it did.
fn reason(operator: &str, inverted: bool) -> &'static str {
    let (normal, contrary) = match operator {
        "$exists" => ("path does not exist", "path does exist"),
        "$expr" => ("expression did not match", "expression did match"),
        "$in" | "$nin" => (
            "no matching value found in array",
            "matching value found in array",
        ),
        "$type" => ("type did not match", "type did match"),
        "$regex" => (
            "regular expression did not match",
            "regular expression did match",
        ),
        "$size" => (
            "array length was not equal to given size",
            "array length was equal to given size",
        ),
        "$all" => (
            "array did not contain all specified values",
            "array did contain all specified values",
        ),
        "$elemMatch" => (
            "array did not satisfy the child predicate",
            "array did satisfy the child predicate",
        ),
        "$mod" => (
            "$mod did not evaluate to expected remainder",
            "$mod did evaluate to expected remainder",
        ),
        "$alwaysFalse" => (
            "expression always evaluates to false",
            "expression always evaluates to true",
        ),
        bits if bits.starts_with("$bits") => (
            "bitwise operator failed to match",
            "bitwise operator matched successfully",
        ),
        _ => ("comparison failed", "comparison succeeded"),
    };
    if inverted { contrary } else { normal }
}

/// The types an operator looks at, if not all.
fn expected_types(operator: &str) -> &'static [&'static str] {
    match operator {
        "$size" | "$elemMatch" => &["array"],
        "$mod" => &["decimal", "double", "int", "long"],
        "$regex" => &["regex", "string", "symbol"],
        bits if bits.starts_with("$bits") => &["binData", "decimal", "double", "int", "long"],
        _ => &[],
    }
}

fn insert_one_or_many(details: &mut Document, name: &str, values: &[&str]) {
    match values {
        [only] => details.insert(name, *only),
        many => details.insert(format!("{name}s"), many.to_vec()),
    };
}

fn insert_values(details: &mut Document, values: &[&Bson]) {
    match values {
        [only] => details.insert("consideredValue", *only),
        many => {
            let quoted: Vec<_> = many
                .iter()
                .take(MAX_CONSIDERED)
                .map(|value| (*value).clone())
                .collect();
            details.insert("consideredValues", quoted)
        }
    };
    if values.len() > MAX_CONSIDERED {
        details.insert("consideredValuesTruncated", true);
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::Validator;
    use crate::expression::variables::Context;

    fn details(validator: &Document, document: &Document) -> Document {
        let validator = Validator::parse(validator, &Context::default()).unwrap();
        let error = validator.check(document).unwrap_err();
        assert_eq!(error.code.0, 121);
        let mut info = error.details.unwrap();
        info.remove("details")
            .unwrap()
            .as_document()
            .unwrap()
            .clone()
    }

    #[test]
    fn accepts_what_meets_the_filter() {
        let validator = Validator::parse(&doc! {"a": {"$gt": 1}}, &Context::default()).unwrap();
        assert_eq!(validator.check(&doc! {"_id": 1, "a": 2}), Ok(()));
        let error = validator.check(&doc! {"_id": 7, "a": 1}).unwrap_err();
        assert_eq!(
            error.details.unwrap().get_i32("failingDocumentId").unwrap(),
            7
        );
    }

    #[test]
    fn quotes_the_clause_that_failed() {
        for (validator, document, expected) in [
            (
                doc! {"a": 1},
                doc! {"a": 2},
                doc! {
                    "operatorName": "$eq",
                    "specifiedAs": {"a": 1},
                    "reason": "comparison failed",
                    "consideredValue": 2,
                },
            ),
            (
                doc! {"a": {"$gt": 5}},
                doc! {"a": [1, 2]},
                doc! {
                    "operatorName": "$gt",
                    "specifiedAs": {"a": {"$gt": 5}},
                    "reason": "comparison failed",
                    "consideredValues": [1, 2, [1, 2]],
                },
            ),
            (
                doc! {"a": {"$lt": 5}},
                doc! {},
                doc! {
                    "operatorName": "$lt",
                    "specifiedAs": {"a": {"$lt": 5}},
                    "reason": "field was missing",
                },
            ),
            (
                doc! {"a": {"$size": 2}},
                doc! {"a": 1},
                doc! {
                    "operatorName": "$size",
                    "specifiedAs": {"a": {"$size": 2}},
                    "reason": "type did not match",
                    "expectedType": "array",
                    "consideredType": "int",
                    "consideredValue": 1,
                },
            ),
        ] {
            assert_eq!(details(&validator, &document), expected, "{validator}");
        }
    }

    #[test]
    fn quotes_the_clause_that_should_have_failed() {
        for (validator, document, expected) in [
            (
                doc! {"a": {"$ne": 1}},
                doc! {"a": 1},
                doc! {
                    "operatorName": "$ne",
                    "specifiedAs": {"a": {"$ne": 1}},
                    "reason": "comparison succeeded",
                    "consideredValue": 1,
                },
            ),
            (
                doc! {"a": {"$exists": false}},
                doc! {"a": 1},
                doc! {
                    "operatorName": "$exists",
                    "specifiedAs": {"a": {"$exists": false}},
                    "reason": "path does exist",
                },
            ),
            (
                doc! {"a": {"$not": {"$type": "int"}}},
                doc! {"a": 1},
                doc! {
                    "operatorName": "$not",
                    "details": {
                        "operatorName": "$type",
                        "specifiedAs": {"a": {"$type": "int"}},
                        "reason": "type did match",
                        "consideredType": "int",
                        "consideredValue": 1,
                    },
                },
            ),
            (
                doc! {"$expr": {"$eq": ["$a", 1]}},
                doc! {"a": 2},
                doc! {
                    "operatorName": "$expr",
                    "specifiedAs": {"$expr": {"$eq": ["$a", 1]}},
                    "reason": "expression did not match",
                    "expressionResult": false,
                },
            ),
        ] {
            assert_eq!(details(&validator, &document), expected, "{validator}");
        }
    }

    #[test]
    fn tells_which_clauses_failed() {
        let low = doc! {
            "operatorName": "$lt",
            "specifiedAs": {"a": {"$lt": 5}},
            "reason": "comparison failed",
            "consideredValue": 9,
        };
        for (validator, expected) in [
            (
                doc! {"a": {"$gt": 1, "$lt": 5}},
                doc! {
                    "operatorName": "$and",
                    "clausesNotSatisfied": [{"index": 1, "details": low.clone()}],
                },
            ),
            (
                doc! {"$or": [{"a": {"$lt": 5}}]},
                doc! {"operatorName": "$or", "clausesNotSatisfied": [{"index": 0, "details": low}]},
            ),
            (
                doc! {"$nor": [{"$jsonSchema": {}}]},
                doc! {
                    "operatorName": "$nor",
                    "clausesSatisfied": [
                        {
                            "index": 0,
                            "details": {"operatorName": "$jsonSchema", "reason": "schema matched"},
                        },
                    ],
                },
            ),
        ] {
            assert_eq!(details(&validator, &doc! {"a": 9}), expected, "{validator}");
        }
    }
}
