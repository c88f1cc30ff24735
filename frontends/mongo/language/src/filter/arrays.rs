//! `$all`, `$elemMatch` and `$size`.

use bson::{Bson, Document};

use super::operators;
use super::parse::{Operand, Parser, is_operator_document};
use super::{Comparison, Node, Test};
use crate::error::{Result, bad_value};
use crate::number::Number;
use crate::path::Path;
use crate::regex::Regex;

/// As many equalities; of nothing, what no document meets.
pub(super) fn all(parser: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let Bson::Array(members) = operand.value else {
        return Err(bad_value("$all needs an array"));
    };
    if members.is_empty() {
        return Ok(Some(Node::AlwaysFalse));
    }
    let of_elements = members.first().and_then(element_condition).is_some();
    let nodes = members
        .iter()
        .map(|member| {
            if !of_elements {
                return equality(operand.path, member);
            }
            let Some(condition) = element_condition(member) else {
                return Err(bad_value("$all/$elemMatch has to be consistent"));
            };
            element_condition_node(parser, operand.path, condition)
        })
        .collect::<Result<_>>()?;
    Ok(Some(Node::And(nodes)))
}

fn equality(path: &Path, member: &Bson) -> Result<Node> {
    let test = match member {
        Bson::RegularExpression(regex) => Test::Regex(Regex::from_bson(regex)?),
        Bson::Document(document) if begins_with_field_operator(document) => {
            return Err(bad_value("no $ expressions in $all"));
        }
        Bson::Undefined => return Err(bad_value("cannot compare to undefined")),
        value => Test::Compare {
            op: Comparison::Equal,
            value: value.clone(),
        },
    };
    Ok(Node::field(path, test))
}

fn begins_with_field_operator(document: &Document) -> bool {
    document
        .keys()
        .next()
        .is_some_and(|name| operators::on_fields(name).is_some())
}

/// What follows if a member of `$all` is an `$elemMatch`.
fn element_condition(member: &Bson) -> Option<&Bson> {
    let (name, condition) = member.as_document()?.iter().next()?;
    (name == "$elemMatch").then_some(condition)
}

pub(super) fn element_match(parser: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    element_condition_node(parser, operand.path, operand.value).map(Some)
}

/// Operators test the element itself; anything else are conditions on the fields of elements.
fn element_condition_node(parser: Parser<'_>, path: &Path, condition: &Bson) -> Result<Node> {
    let Bson::Document(condition) = condition else {
        return Err(bad_value("$elemMatch needs an Object"));
    };
    let parser = parser.within_elements();
    let first = condition.keys().next();
    let on_values = is_operator_document(condition, true)
        && first.is_some_and(|name| operators::on_documents(name).is_none());
    let test = if on_values {
        Test::Element(parser.operators(&Path::itself(), condition)?)
    } else {
        Test::Document(Box::new(parser.document(condition)?))
    };
    Ok(Node::field(path, test))
}

pub(super) fn size(_: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let size = Number::from_bson(operand.value)
        .and_then(|number| number.as_i64_exact())
        .and_then(|size| i32::try_from(size).ok())
        .and_then(|size| usize::try_from(size).ok());
    let Some(size) = size else {
        let given = operand.value;
        let message = format!("Failed to parse $size. Expected a non-negative integer: {given}");
        return Err(bad_value(message));
    };
    Ok(Some(Node::field(operand.path, Test::Size(size))))
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Regex, cstr, doc};

    use super::super::testing::{check, refuse};

    #[test]
    fn wants_all_members() {
        let regex = Regex {
            pattern: cstr!("^a").into(),
            options: cstr!("").into(),
        };
        check([
            (doc! {"a": {"$all": [1, 2]}}, doc! {"a": [2, 3, 1]}, true),
            (doc! {"a": {"$all": [1, 2]}}, doc! {"a": [1]}, false),
            (doc! {"a": {"$all": [1]}}, doc! {"a": 1}, true),
            (doc! {"a": {"$all": []}}, doc! {"a": []}, false),
            (doc! {"a": {"$all": [[1, 2]]}}, doc! {"a": [1, 2]}, true),
            (
                doc! {"a": {"$all": [regex, "b"]}},
                doc! {"a": ["abc", "b"]},
                true,
            ),
            (doc! {"a": {"$all": [Bson::Null]}}, doc! {}, true),
            (
                doc! {"a": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"x": 2}}]}},
                doc! {"a": [{"x": 1}, {"x": 2}]},
                true,
            ),
        ]);
        refuse([
            (doc! {"a": {"$all": 1}}, 2),
            (doc! {"a": {"$all": [{"$gt": 1}]}}, 2),
            (doc! {"a": {"$all": [{"$elemMatch": {"x": 1}}, 1]}}, 2),
            (doc! {"a": {"$all": [1, {"$elemMatch": {"x": 1}}]}}, 2),
        ]);
    }

    #[test]
    fn wants_one_element_that_meets_everything() {
        let both = doc! {"a": {"$elemMatch": {"x": 1, "y": 2}}};
        let range = doc! {"a": {"$elemMatch": {"$gt": 3, "$lt": 6}}};
        check([
            (both.clone(), doc! {"a": [{"x": 1, "y": 2}]}, true),
            (both.clone(), doc! {"a": [{"x": 1}, {"y": 2}]}, false),
            (both, doc! {"a": {"x": 1, "y": 2}}, false),
            (range.clone(), doc! {"a": [1, 5]}, true),
            (range.clone(), doc! {"a": [1, 9]}, false),
            (range.clone(), doc! {"a": 5}, false),
            (range, doc! {"a": [[5]]}, false),
            (doc! {"a": {"$elemMatch": {}}}, doc! {"a": [{}]}, true),
            (doc! {"a": {"$elemMatch": {}}}, doc! {"a": [1]}, false),
            (
                doc! {"a": {"$elemMatch": {"0": 7}}},
                doc! {"a": [[7]]},
                true,
            ),
            (
                doc! {"a": {"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}},
                doc! {"a": [{"y": 1}]},
                true,
            ),
            (
                doc! {"a": {"$elemMatch": {"$elemMatch": {"$gt": 5}}}},
                doc! {"a": [[1], [9]]},
                true,
            ),
            (
                doc! {"a": {"$elemMatch": {"$nin": [1]}}},
                doc! {"a": [1, 2]},
                true,
            ),
            (
                doc! {"a": {"$elemMatch": {"$not": {"$gt": 5}}}},
                doc! {"a": [9]},
                false,
            ),
            (
                doc! {"a.b": {"$elemMatch": {"$gt": 5}}},
                doc! {"a": [{"b": [1]}, {"b": [9]}]},
                true,
            ),
        ]);
        refuse([
            (doc! {"a": {"$elemMatch": 1}}, 2),
            (doc! {"a": {"$elemMatch": [1]}}, 2),
            (doc! {"$elemMatch": {"a": 1}}, 2),
            (doc! {"a": {"$elemMatch": {"$expr": true}}}, 2),
            (doc! {"a": {"$elemMatch": {"$where": "1"}}}, 2),
            (doc! {"a": {"$elemMatch": {"$sampleRate": 0.5}}}, 2),
        ]);
    }

    #[test]
    fn counts_elements() {
        check([
            (doc! {"a": {"$size": 2}}, doc! {"a": [1, 2]}, true),
            (doc! {"a": {"$size": 2.0}}, doc! {"a": [1]}, false),
            (doc! {"a": {"$size": -0.0}}, doc! {"a": []}, true),
            (doc! {"a": {"$size": 1}}, doc! {"a": 1}, false),
            (doc! {"a": {"$size": 0}}, doc! {}, false),
            (doc! {"a": {"$size": 1}}, doc! {"a": [[1], 2]}, false),
            (doc! {"a.b": {"$size": 1}}, doc! {"a": [{"b": [1]}]}, true),
        ]);
        for bad in [
            Bson::Int32(-1),
            Bson::Double(1.5),
            Bson::Double(f64::NAN),
            Bson::Int64(i64::MAX),
            Bson::String("1".into()),
            Bson::Boolean(true),
            Bson::Null,
            Bson::Document(doc! {"$gt": 1}),
        ] {
            refuse([(doc! {"a": {"$size": bad}}, 2)]);
        }
    }
}
