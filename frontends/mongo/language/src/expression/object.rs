//! Fields of objects by name: `$getField`, `$setField`, `$unsetField`. Names may be anything.

use std::borrow::Cow;

use bson::{Bson, Document};

use super::operator::{Form, Named, Operator, required};
use super::path::FieldPath;
use super::{Call, Frame, Node, ParseContext, Value, fail, is_nullish, null, own, some};
use crate::compare::type_name;
use crate::error::Result;
use crate::size::take_field;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy("$getField", Form::Special(parse_get), get_field),
    Operator::lazy("$setField", Form::Special(parse_set), set_field),
    Operator::lazy("$unsetField", Form::Special(parse_unset), set_field),
];

const GET: Named = Named {
    fields: &[required("field", 3041702), required("input", 3041703)],
    not_object: 3041701,
    unknown: 3041701,
};

const SET: Named = Named {
    fields: &[
        required("field", 4161102),
        required("value", 4161103),
        required("input", 4161109),
    ],
    not_object: 4161100,
    unknown: 4161101,
};

const UNSET: Named = Named {
    fields: &[required("field", 4161102), required("input", 4161109)],
    not_object: 4161100,
    unknown: 4161101,
};

/// The name alone means a field of the document.
fn parse_get(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let is_expression = |document: &Document| {
        document
            .keys()
            .next()
            .is_some_and(|name| name.starts_with('$'))
    };
    match argument {
        Bson::Document(document) if !is_expression(document) => {
            Ok(operator.call(operator.named(&GET, argument, context)?))
        }
        field => {
            let current = FieldPath::parse("$$CURRENT", context)?;
            Ok(operator.call(vec![Node::parse(field, context)?, current]))
        }
    }
}

fn get_field<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let field = call.evaluate_argument(0, frame)?;
    let Some(Bson::String(name)) = field.as_deref() else {
        let found = field.as_deref().map_or("missing", type_name);
        return fail(
            3041704,
            format!("$getField requires 'field' to be a String, got {found}"),
        );
    };
    match call.evaluate_argument(1, frame)? {
        Some(Cow::Borrowed(Bson::Document(document))) => Ok(document.get(name).map(Cow::Borrowed)),
        Some(Cow::Owned(Bson::Document(mut document))) => Ok(document.remove(name).map(Cow::Owned)),
        Some(value) if is_nullish(Some(&value)) => null(),
        _ => Ok(None),
    }
}

fn parse_set(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    named_field(operator, operator.named(&SET, argument, context)?)
}

/// Removing a field is setting it to nothing.
fn parse_unset(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let mut arguments = operator.named(&UNSET, argument, context)?;
    arguments.insert(1, Node::Constant(None));
    named_field(operator, arguments)
}

/// The name must be written out: a text, and neither a path nor anything to evaluate.
fn named_field(operator: &'static Operator, arguments: Vec<Node>) -> Result<Node> {
    let name = operator.name;
    match arguments.first() {
        Some(Node::Path(_)) => fail(
            4161108,
            format!("{name} requires 'field' to be a constant, not a field path"),
        ),
        Some(Node::Constant(Some(Bson::String(field)))) if field.contains('\0') => fail(
            9534700,
            format!("{name}: field names cannot contain null bytes"),
        ),
        Some(Node::Constant(Some(Bson::String(_)))) => Ok(operator.call(arguments)),
        Some(Node::Constant(_)) => fail(
            4161107,
            format!("{name} requires 'field' to evaluate to type String"),
        ),
        _ => fail(
            4161106,
            format!("{name} requires 'field' to evaluate to a constant"),
        ),
    }
}

fn set_field<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let Node::Constant(Some(Bson::String(name))) = call.argument(0) else {
        return null();
    };
    let mut document = match call.evaluate_argument(2, frame)?.map(own) {
        Some(Bson::Document(document)) => document,
        value if is_nullish(value.as_ref()) => return null(),
        _ => {
            let message = "requires 'input' to evaluate to type Object";
            return fail(4161105, format!("{} {message}", call.operator.name));
        }
    };
    match call.evaluate_argument(1, frame)? {
        Some(value) => document.insert(name.clone(), own(value)),
        None => take_field(&mut document, name),
    };
    some(document)
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::tests::{fails, gives, is_missing};

    #[test]
    fn reaches_fields_by_any_name() {
        gives([
            (bson!({ "$getField": "a" }), bson!(1)),
            (bson!({ "$getField": { "$concat": ["a", ""] } }), bson!(1)),
            (
                bson!({ "$getField": { "field": "a.b", "input": { "$literal": { "a.b": 2 } } } }),
                bson!(2),
            ),
            (
                bson!({ "$getField": { "field": "a", "input": null } }),
                bson!(null),
            ),
            (
                bson!({ "$setField": {
                    "field": { "$literal": "$x.y" }, "input": {}, "value": 1,
                } }),
                bson!({ "$x.y": 1 }),
            ),
            (
                bson!({ "$setField": { "field": "x", "input": "$none", "value": 1 } }),
                bson!(null),
            ),
            (
                bson!({ "$unsetField": { "field": "x", "input": { "x": 1, "y": 2 } } }),
                bson!({ "y": 2 }),
            ),
        ]);
        is_missing([
            bson!({ "$getField": "none" }),
            bson!({ "$getField": { "field": "a", "input": 1 } }),
        ]);
    }

    #[test]
    fn refuses_malformed_fields() {
        fails([
            (bson!({ "$getField": { "x": 1 } }), 3041701),
            (bson!({ "$getField": { "input": {} } }), 3041702),
            (bson!({ "$getField": { "field": "a" } }), 3041703),
            (bson!({ "$getField": 1 }), 3041704),
            (bson!({ "$setField": 1 }), 4161100),
            (bson!({ "$setField": { "x": 1 } }), 4161101),
            (bson!({ "$setField": { "input": {}, "value": 1 } }), 4161102),
            (
                bson!({ "$setField": { "field": "a", "input": {} } }),
                4161103,
            ),
            (
                bson!({ "$setField": { "field": "a", "input": 1, "value": 1 } }),
                4161105,
            ),
            (
                bson!({ "$setField": {
                    "field": { "$concat": ["$s"] }, "input": {}, "value": 1,
                } }),
                4161106,
            ),
            (
                bson!({ "$setField": { "field": 1, "input": {}, "value": 1 } }),
                4161107,
            ),
            (
                bson!({ "$setField": { "field": "$a", "input": {}, "value": 1 } }),
                4161108,
            ),
            (
                bson!({ "$setField": { "field": "a", "value": 1 } }),
                4161109,
            ),
            (
                bson!({ "$unsetField": { "field": "a", "input": {}, "value": 1 } }),
                4161101,
            ),
        ]);
    }
}
