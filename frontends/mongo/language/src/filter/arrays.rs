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
