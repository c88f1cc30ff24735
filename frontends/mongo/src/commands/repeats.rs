//! Repeated fields. A document in memory has each field once, so repeated fields are handled before
//! one is made: a query means both, and an update that changes one field twice is refused.

use std::collections::HashSet;

use bson::{Bson, Document, RawArray, RawBsonRef, RawDocument};
use tessera_mongo_language::error::{Code, Error, failed_to_parse};

use crate::commands::asked;
use crate::failure::Result;
use crate::wire::document::elements;

const LOGICAL: &[&str] = &["$and", "$or", "$nor"];
/// What a field is compared with, and no operator on it.
const REFERENCE: &[&str] = &["$ref", "$id", "$db"];

/// The first name that a document has twice.
fn twice(document: &RawDocument) -> Option<&str> {
    const FEW: usize = 8;
    let mut few: [&str; FEW] = [""; FEW];
    let mut all = HashSet::new();
    for (position, (name, _)) in elements(document).enumerate() {
        let seen = few.get(..position.min(FEW)).unwrap_or_default();
        if seen.contains(&name) || all.contains(name) {
            return Some(name);
        }
        match few.get_mut(position) {
            Some(place) => *place = name,
            None => {
                all.insert(name);
            }
        }
    }
    None
}

/// A query, in which what is said twice is two conditions.
pub(crate) fn query(raw: &RawDocument) -> Result<Document> {
    match repeats(raw) {
        false => asked::owned(raw),
        true => conditions(raw),
    }
}

fn documents(array: &RawArray) -> impl Iterator<Item = &RawDocument> {
    array.into_iter().flatten().filter_map(|value| match value {
        RawBsonRef::Document(document) => Some(document),
        _ => None,
    })
}

/// Whether a document holds operators on a field, rather than being compared with it.
fn has_operators(document: &RawDocument) -> bool {
    let first = elements(document).next().map(|(name, _)| name);
    first.is_some_and(|name| name.starts_with('$') && !REFERENCE.contains(&name))
}

/// Whether the operand of `$elemMatch` is a query on documents, rather than operators on values.
fn is_query(operand: &RawDocument) -> bool {
    const OF_QUERIES: &[&str] = &["$expr", "$where", "$text", "$comment", "$jsonSchema"];
    let first = elements(operand).next().map(|(name, _)| name);
    first.is_none_or(|name| LOGICAL.contains(&name) || OF_QUERIES.contains(&name))
        || !has_operators(operand)
}

fn repeats(query: &RawDocument) -> bool {
    let within = |(name, value): (&str, RawBsonRef<'_>)| match value {
        RawBsonRef::Array(queries) if LOGICAL.contains(&name) => documents(queries).any(repeats),
        RawBsonRef::Document(operators) if !name.starts_with('$') && has_operators(operators) => {
            operators_repeat(operators)
        }
        _ => false,
    };
    twice(query).is_some() || elements(query).any(within)
}

fn operators_repeat(operators: &RawDocument) -> bool {
    let within = |(name, value): (&str, RawBsonRef<'_>)| match value {
        RawBsonRef::Document(operand) if name == "$elemMatch" && is_query(operand) => {
            repeats(operand)
        }
        RawBsonRef::Document(operand) => {
            matches!(name, "$elemMatch" | "$not") && operators_repeat(operand)
        }
        _ => false,
    };
    twice(operators).is_some() || elements(operators).any(within)
}

/// A query with every condition once: those that would be lost stand in an `$and`.
fn conditions(raw: &RawDocument) -> Result<Document> {
    let (mut query, mut more) = (Document::new(), Vec::new());
    for (name, value) in elements(raw) {
        let values = match value {
            RawBsonRef::Array(queries) if LOGICAL.contains(&name) => vec![alternatives(queries)?],
            RawBsonRef::Document(operators)
                if !name.starts_with('$') && has_operators(operators) =>
            {
                let each = conditions_of_field(operators)?.into_iter();
                each.map(Bson::Document).collect()
            }
            other => vec![asked::value(other)?],
        };
        for value in values {
            if query.contains_key(name) {
                more.push(Bson::Document(Document::from_iter([(
                    name.to_owned(),
                    value,
                )])));
            } else {
                query.insert(name, value);
            }
        }
    }
    if !more.is_empty() {
        match query.get_mut("$and") {
            Some(Bson::Array(all)) => all.append(&mut more),
            // Whatever is wrong with it is told of as such.
            Some(_) => {}
            None => {
                query.insert("$and", more);
            }
        }
    }
    Ok(query)
}

/// The queries of an `$and` and its like.
fn alternatives(queries: &RawArray) -> Result<Bson> {
    let mut read = Vec::new();
    for value in queries {
        read.push(match value? {
            RawBsonRef::Document(query) => Bson::Document(self::query(query)?),
            other => asked::value(other)?,
        });
    }
    Ok(Bson::Array(read))
}

/// The operators on a field, in as many documents as one of them is there.
fn conditions_of_field(operators: &RawDocument) -> Result<Vec<Document>> {
    let mut conditions = vec![Document::new()];
    for (name, value) in elements(operators) {
        let value = match value {
            RawBsonRef::Document(operand) if name == "$elemMatch" && is_query(operand) => {
                Bson::Document(query(operand)?)
            }
            RawBsonRef::Document(operand)
                if matches!(name, "$elemMatch" | "$not") && operators_repeat(operand) =>
            {
                let message = format!("an operator is given twice within {name}");
                return Err(failed_to_parse(message).into());
            }
            other => asked::value(other)?,
        };
        match conditions
            .iter_mut()
            .find(|known| !known.contains_key(name))
        {
            Some(condition) => {
                condition.insert(name, value);
            }
            None => conditions.push(Document::from_iter([(name.to_owned(), value)])),
        }
    }
    Ok(conditions)
}

/// What an update does, each operator once.
pub(crate) fn update(raw: RawBsonRef<'_>) -> Result<Bson> {
    match raw {
        RawBsonRef::Document(operators) if has_operators(operators) => {
            modifiers(operators).map(Bson::Document)
        }
        RawBsonRef::Array(stages) => self::stages(stages).map(Bson::Array),
        other => asked::value(other),
    }
}

fn modifiers(operators: &RawDocument) -> Result<Document> {
    for (_, fields) in elements(operators) {
        if let RawBsonRef::Document(fields) = fields
            && let Some(path) = twice(fields)
        {
            return Err(conflict(path));
        }
    }
    if twice(operators).is_none() {
        return asked::owned(operators);
    }
    let mut update = Document::new();
    for (name, value) in elements(operators) {
        let value = asked::value(value)?;
        match (update.get_mut(name), value) {
            (Some(Bson::Document(known)), Bson::Document(more)) => {
                if let Some(path) = more.keys().find(|path| known.contains_key(*path)) {
                    return Err(conflict(path));
                }
                known.extend(more);
            }
            (_, value) => {
                update.insert(name, value);
            }
        }
    }
    Ok(update)
}

fn conflict(path: &str) -> crate::failure::Failure {
    let message = format!("Updating the path '{path}' would create a conflict at '{path}'");
    Error::new(Code::CONFLICTING_UPDATE_OPERATORS, message).into()
}

/// An order, in which no field stands twice.
pub(crate) fn order(raw: &RawDocument) -> Result<Document> {
    match twice(raw) {
        None => asked::owned(raw),
        Some(field) => {
            let message = format!("$sort key must not have duplicate fields (field: {field})");
            // Known by number alone.
            Err(Error::new(Code(7_472_500), message).into())
        }
    }
}

/// What is shown of documents, where each field is named once.
pub(crate) fn projection(raw: &RawDocument) -> Result<Document> {
    match twice(raw) {
        None => asked::owned(raw),
        Some(field) => {
            let message = format!("Path collision at {field}");
            // Known by number alone.
            Err(Error::new(Code(31_250), message).into())
        }
    }
}

/// The stages of a pipeline.
pub(crate) fn stages(raw: &RawArray) -> Result<Vec<Bson>> {
    let mut stages = Vec::new();
    for stage in raw {
        stages.push(match stage? {
            RawBsonRef::Document(stage) => Bson::Document(self::stage(stage)?),
            other => asked::value(other)?,
        });
    }
    Ok(stages)
}

/// One stage, with those of pipelines in it.
fn stage(raw: &RawDocument) -> Result<Document> {
    let mut stage = Document::new();
    for (name, argument) in elements(raw) {
        let argument = match (name, argument) {
            ("$match", RawBsonRef::Document(query)) => self::query(query)?.into(),
            ("$sort", RawBsonRef::Document(order)) => self::order(order)?.into(),
            ("$project" | "$unset", RawBsonRef::Document(shown)) => projection(shown)?.into(),
            (
                "$lookup" | "$unionWith" | "$facet" | "$graphLookup" | "$geoNear",
                RawBsonRef::Document(options),
            ) => with_queries(name, options)?.into(),
            (_, other) => asked::value(other)?,
        };
        stage.insert(name, argument);
    }
    Ok(stage)
}

/// The options of a stage that has pipelines or queries in it.
fn with_queries(stage: &str, options: &RawDocument) -> Result<Document> {
    let mut read = Document::new();
    for (name, value) in elements(options) {
        let value = match (name, value) {
            ("pipeline", RawBsonRef::Array(stages)) => self::stages(stages)?.into(),
            (_, RawBsonRef::Array(stages)) if stage == "$facet" => self::stages(stages)?.into(),
            ("restrictSearchWithMatch" | "query", RawBsonRef::Document(query)) => {
                self::query(query)?.into()
            }
            (_, other) => asked::value(other)?,
        };
        read.insert(name, value);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, doc};

    use super::*;

    /// A document with these fields, some of them more than once.
    fn raw(fields: &[(&str, Bson)]) -> RawDocumentBuf {
        let mut raw = RawDocumentBuf::new();
        for (name, value) in fields {
            let name: &bson::raw::CStr = (*name).try_into().unwrap();
            raw.append(name, bson::RawBson::try_from(value.clone()).unwrap());
        }
        raw
    }

    fn of(value: Document) -> Bson {
        value.into()
    }

    #[test]
    fn conditions_said_twice_are_both_meant() {
        let inner = |name: &str, value: &RawDocumentBuf| {
            let mut outer = RawDocumentBuf::new();
            let name: &bson::raw::CStr = name.try_into().unwrap();
            outer.append(name, value.clone());
            outer
        };
        let ab = raw(&[("a", 1.into()), ("b", 2.into()), ("a", 3.into())]);
        let range = raw(&[("$gt", 1.into()), ("$lt", 9.into()), ("$gt", 5.into())]);
        for (sent, expected) in [
            (raw(&[("a", 1.into())]), doc! { "a": 1 }),
            (ab.clone(), doc! { "a": 1, "b": 2, "$and": [{ "a": 3 }] }),
            (
                raw(&[("a", 1.into()), ("a", 2.into()), ("a", 3.into())]),
                doc! { "a": 1, "$and": [{ "a": 2 }, { "a": 3 }] },
            ),
            (
                inner("a", &range),
                doc! { "a": { "$gt": 1, "$lt": 9 }, "$and": [{ "a": { "$gt": 5 } }] },
            ),
            (
                inner("a", &inner("$elemMatch", &ab)),
                doc! { "a": { "$elemMatch": { "a": 1, "b": 2, "$and": [{ "a": 3 }] } } },
            ),
            (
                raw(&[
                    ("$or", vec![of(doc! { "a": 1 })].into()),
                    ("$or", vec![of(doc! { "b": 1 })].into()),
                ]),
                doc! { "$or": [{ "a": 1 }], "$and": [{ "$or": [{ "b": 1 }] }] },
            ),
            (
                raw(&[
                    ("$and", vec![of(doc! { "a": 1 })].into()),
                    ("$and", vec![of(doc! { "b": 1 })].into()),
                    ("c", 1.into()),
                    ("c", 2.into()),
                ]),
                doc! { "$and": [{ "a": 1 }, { "$and": [{ "b": 1 }] }, { "c": 2 }], "c": 1 },
            ),
            (
                raw(&[
                    ("a", of(doc! { "$regex": "x", "$options": "i" })),
                    ("a", of(doc! { "$regex": "y" })),
                ]),
                doc! {
                    "a": { "$regex": "x", "$options": "i" },
                    "$and": [{ "a": { "$regex": "y" } }],
                },
            ),
            (
                raw(&[
                    ("$expr", of(doc! { "$eq": [1, 1] })),
                    ("$expr", false.into()),
                ]),
                doc! { "$expr": { "$eq": [1, 1] }, "$and": [{ "$expr": false }] },
            ),
            (
                // A value to compare with, and no query.
                inner("a", &raw(&[("b", 1.into()), ("$gt", 2.into())])),
                doc! { "a": { "b": 1, "$gt": 2 } },
            ),
        ] {
            assert_eq!(query(&sent).unwrap(), expected);
        }
        for name in ["$not", "$elemMatch"] {
            let refused = query(&inner("a", &inner(name, &range)));
            assert_eq!(refused.unwrap_err().code(), Code::FAILED_TO_PARSE, "{name}");
        }
    }

    #[test]
    fn names_are_found_again_wherever_they_stand() {
        for count in 1..40 {
            let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
            let mut fields: Vec<(&str, Bson)> = names
                .iter()
                .map(|name| (name.as_str(), Bson::from(1)))
                .collect();
            assert_eq!(twice(&raw(&fields)), None);
            for again in &names {
                fields.push((again, 2.into()));
                assert_eq!(twice(&raw(&fields)), Some(again.as_str()));
                fields.pop();
            }
        }
    }

    #[test]
    fn updates_do_all_that_they_say_or_nothing() {
        let sent = |fields: &[(&str, Bson)]| update(RawBsonRef::Document(&raw(fields)));
        let both = sent(&[
            ("$set", of(doc! { "a": 1 })),
            ("$inc", of(doc! { "c": 1 })),
            ("$set", of(doc! { "b": 2 })),
        ]);
        let expected = doc! { "$set": { "a": 1, "b": 2 }, "$inc": { "c": 1 } };
        assert_eq!(both.unwrap(), Bson::from(expected));
        let refused = sent(&[("$set", of(doc! { "a": 1 })), ("$set", of(doc! { "a": 2 }))]);
        let code = Code::CONFLICTING_UPDATE_OPERATORS;
        assert_eq!(refused.unwrap_err().code(), code);
        let mut within = RawDocumentBuf::new();
        within.append(
            bson::raw::cstr!("$set"),
            raw(&[("a", 1.into()), ("a", 2.into())]),
        );
        let refused = update(RawBsonRef::Document(&within));
        assert_eq!(refused.unwrap_err().code(), code);
        assert_eq!(
            sent(&[("a", 1.into())]).unwrap(),
            Bson::from(doc! { "a": 1 })
        );
    }

    #[test]
    fn orders_and_projections_name_a_field_once() {
        let both = raw(&[("a", 1.into()), ("a", Bson::Int32(-1))]);
        assert_eq!(order(&both).unwrap_err().code(), Code(7_472_500));
        assert_eq!(projection(&both).unwrap_err().code(), Code(31_250));
        let good = raw(&[("a", 1.into()), ("b", 1.into())]);
        assert_eq!(order(&good).unwrap(), doc! { "a": 1, "b": 1 });
    }
}
