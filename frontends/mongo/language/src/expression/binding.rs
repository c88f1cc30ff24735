//! Operators that bind variables: `$let`, `$map`, `$filter` and `$reduce`.

use std::borrow::Cow;

use bson::Bson;
use tessera_core::deadline::{self, Held};

use super::local::Local;
use super::operator::{Fold, Form, Named, Operator, optional, required};
use super::variables::validate_bound_name;
use super::{
    Call, Frame, Node, ParseContext, Value, count_owned, fail, is_truthy, kept, kept_or_null, null,
    own, some,
};
use crate::compare::type_name;
use crate::error::Result;
use crate::nesting::is_shallow;
use crate::number::Number;
use crate::size::footprint;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy("$filter", Form::Special(parse_filter), filter),
    Operator {
        fold: Fold::Never,
        ..Operator::lazy("$let", Form::Special(parse_let), let_)
    },
    Operator::lazy("$map", Form::Special(parse_map), map),
    Operator::lazy("$reduce", Form::Special(parse_reduce), reduce),
];

const LET: Named = Named {
    fields: &[required("vars", 16876), required("in", 16877)],
    not_object: 16874,
    unknown: 16875,
};

const MAP: Named = Named {
    fields: &[
        required("input", 16880),
        optional("as"),
        required("in", 16882),
    ],
    not_object: 16878,
    unknown: 16879,
};

const FILTER: Named = Named {
    fields: &[
        required("input", 28648),
        optional("as"),
        required("cond", 28650),
        optional("limit"),
    ],
    not_object: 28646,
    unknown: 28647,
};

const REDUCE: Named = Named {
    fields: &[
        required("input", 40077),
        required("initialValue", 40078),
        required("in", 40079),
    ],
    not_object: 40075,
    unknown: 40076,
};

fn parse_optional(value: Option<&Bson>, context: &ParseContext<'_>) -> Result<Node> {
    value.map_or(Ok(Node::Absent), |value| Node::parse(value, context))
}

/// Parses what is within the scope of some names.
fn parse_within(
    value: Option<&Bson>,
    names: &[String],
    context: &ParseContext<'_>,
) -> Result<Node> {
    let bound = context.bind(names);
    parse_optional(value, &context.within(&bound))
}

fn parse_let(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let fields = operator.fields(&LET, argument)?;
    if let Some(Some(Bson::Array(_))) = fields.first() {
        return fail(
            9,
            "'0' starts with an invalid character for a user variable name",
        );
    }
    let Some(Some(Bson::Document(variables))) = fields.first() else {
        return fail(10065, "invalid parameter: expected an object (vars)");
    };
    let mut names = Vec::with_capacity(variables.len());
    let mut arguments = Vec::with_capacity(variables.len() + 1);
    for (name, value) in variables {
        validate_bound_name(name)?;
        arguments.push(Node::parse(value, context)?);
        names.push(name.clone());
    }
    arguments.push(parse_within(
        fields.get(1).copied().flatten(),
        &names,
        context,
    )?);
    Ok(operator.binding(arguments, names))
}

fn let_<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let mut held = Held::new();
    let mut values = Vec::with_capacity(call.names.len());
    for (name, argument) in call.names.iter().zip(&call.arguments) {
        deadline::step(1)?;
        let value = argument.evaluate(frame)?;
        count_owned(&value, &mut held)?;
        values.push((name.as_str(), value));
    }
    let local = Local::several(values, frame.locals);
    let body = call.arguments.last().unwrap_or(&Node::Absent);
    Ok(body.evaluate(&frame.with(&local))?.map(own).map(Cow::Owned))
}

/// The name that `as` gives, or `this`.
fn element_name(value: Option<&Bson>) -> Result<String> {
    let name = match value {
        None => "this",
        Some(Bson::String(name)) => name,
        Some(_) => "",
    };
    validate_bound_name(name)?;
    Ok(name.to_owned())
}

fn parse_map(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let fields = operator.fields(&MAP, argument)?;
    let [input, name, body] = fields.as_slice() else {
        return Ok(Node::Absent);
    };
    let input = parse_optional(*input, context)?;
    let names = vec![element_name(*name)?];
    let body = parse_within(*body, &names, context)?;
    Ok(operator.binding(vec![input, body], names))
}

/// The elements of an array that may also be null, for which there are none.
fn elements<'v>(name: &str, value: &'v Value<'_>, code: i32) -> Result<Option<&'v [Bson]>> {
    match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => Ok(None),
        Some(Bson::Array(items)) => Ok(Some(items)),
        Some(other) => fail(
            code,
            format!("input to {name} must be an array not {}", type_name(other)),
        ),
    }
}

fn map<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let input = call.evaluate_argument(0, frame)?;
    let Some(items) = elements("$map", &input, 16883)? else {
        return null();
    };
    let mut held = Held::new();
    count_owned(&input, &mut held)?;
    let mut output = Vec::with_capacity(items.len());
    for item in items {
        deadline::step(1)?;
        let local = Local::one(call.name(0), Some(Cow::Borrowed(item)), frame.locals);
        let value = call.argument(1).evaluate(&frame.with(&local))?;
        output.push(kept_or_null(value, &mut held)?);
    }
    some(output)
}

fn parse_filter(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let fields = operator.fields(&FILTER, argument)?;
    let [input, name, condition, limit] = fields.as_slice() else {
        return Ok(Node::Absent);
    };
    let input = parse_optional(*input, context)?;
    let names = vec![element_name(*name)?];
    let condition = parse_within(*condition, &names, context)?;
    let limit = parse_optional(*limit, context)?;
    Ok(operator.binding(vec![input, condition, limit], names))
}

fn filter<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let input = call.evaluate_argument(0, frame)?;
    let Some(items) = elements("$filter", &input, 28651)? else {
        return null();
    };
    let limit = match call.evaluate_argument(2, frame)?.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => usize::MAX,
        Some(limit) => match Number::from_bson(limit).and_then(Number::as_i32_exact) {
            None => return fail(327391, "$filter: limit must be a 32-bit integral value"),
            Some(limit) if limit <= 0 => {
                return fail(
                    327392,
                    format!("$filter: limit must be greater than 0: {limit}"),
                );
            }
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        },
    };
    let mut held = Held::new();
    count_owned(&input, &mut held)?;
    let mut output = Vec::new();
    for item in items {
        deadline::step(1)?;
        let local = Local::one(call.name(0), Some(Cow::Borrowed(item)), frame.locals);
        let accepted = call.argument(1).evaluate(&frame.with(&local))?;
        if accepted.as_deref().is_some_and(is_truthy) {
            output.push(kept(Cow::Borrowed(item), &mut held)?);
            if output.len() == limit {
                break;
            }
        }
    }
    some(output)
}

fn parse_reduce(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let fields = operator.fields(&REDUCE, argument)?;
    let [input, initial, body] = fields.as_slice() else {
        return Ok(Node::Absent);
    };
    let names = vec!["this".to_owned(), "value".to_owned()];
    let arguments = vec![
        parse_optional(*input, context)?,
        parse_optional(*initial, context)?,
        parse_within(*body, &names, context)?,
    ];
    Ok(operator.binding(arguments, names))
}

fn reduce<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let input = call.evaluate_argument(0, frame)?;
    let Some(items) = elements("$reduce", &input, 40080)? else {
        return null();
    };
    let mut of_input = Held::new();
    count_owned(&input, &mut of_input)?;
    let mut value = call.evaluate_argument(1, frame)?.map(own);
    let mut of_value = Held::new();
    of_value.add(value.as_ref().map_or(0, footprint))?;
    for item in items {
        deadline::step(1)?;
        let so_far = value.as_ref().map(Cow::Borrowed);
        let so_far = Local::one("value", so_far, frame.locals);
        let this = Local::one("this", Some(Cow::Borrowed(item)), Some(&so_far));
        let next = call.argument(2).evaluate(&frame.with(&this))?.map(own);
        of_value.set(next.as_ref().map_or(0, footprint))?;
        if next.as_ref().is_some_and(|next| !is_shallow(next)) {
            return fail(
                15,
                "$reduce accumulated value exceeded max allowable BSON depth",
            );
        }
        value = next;
    }
    Ok(value.map(Cow::Owned))
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::tests::{fails, gives};

    #[test]
    fn binds_variables() {
        gives([
            (
                bson!({ "$let": {
                    "vars": { "x": "$a", "y": 2 }, "in": { "$add": ["$$x", "$$y"] },
                } }),
                bson!(3),
            ),
            (
                bson!({ "$let": { "vars": { "CURRENT": "$o" }, "in": "$x" } }),
                bson!(1),
            ),
            (
                bson!({ "$map": { "input": "$list", "in": { "$add": ["$$this", "$a"] } } }),
                bson!([4, 2, 3]),
            ),
            (
                bson!({ "$map": { "input": [1], "as": "i", "in": "$none" } }),
                bson!([null]),
            ),
            (bson!({ "$map": { "input": null, "in": 1 } }), bson!(null)),
            (
                bson!({ "$filter": { "input": "$list", "cond": { "$gt": ["$$this", 1] } } }),
                bson!([3, 2]),
            ),
            (
                bson!({ "$filter": { "input": "$list", "as": "i", "cond": true, "limit": 1 } }),
                bson!([3]),
            ),
            (
                bson!({ "$reduce": {
                    "input": "$list", "initialValue": 0, "in": { "$add": ["$$value", "$$this"] },
                } }),
                bson!(6),
            ),
            (
                bson!({ "$map": { "input": [[1, 2], [3]], "as": "row", "in": {
                    "$map": { "input": "$$row", "as": "x", "in": { "$add": ["$$x", {
                        "$size": "$$row" }] } },
                } } }),
                bson!([[3, 4], [4]]),
            ),
        ]);
    }

    #[test]
    fn refuses_malformed_bindings() {
        fails([
            (bson!({ "$let": 1 }), 16874),
            (bson!({ "$let": { "x": 1 } }), 16875),
            (bson!({ "$let": { "in": 1 } }), 16876),
            (bson!({ "$let": { "vars": {} } }), 16877),
            (bson!({ "$let": { "vars": 1, "in": 1 } }), 10065),
            (bson!({ "$let": { "vars": { "X": 1 }, "in": 1 } }), 9),
            (
                bson!({ "$let": { "vars": { "x": 1 }, "in": "$$y" } }),
                17276,
            ),
            (bson!({ "$map": 1 }), 16878),
            (bson!({ "$map": { "x": 1 } }), 16879),
            (bson!({ "$map": { "in": 1 } }), 16880),
            (bson!({ "$map": { "input": [] } }), 16882),
            (bson!({ "$map": { "input": 1, "in": 1 } }), 16883),
            (bson!({ "$map": { "input": [], "as": "A", "in": 1 } }), 9),
            (bson!({ "$filter": 1 }), 28646),
            (bson!({ "$filter": { "x": 1 } }), 28647),
            (bson!({ "$filter": { "cond": 1 } }), 28648),
            (bson!({ "$filter": { "input": [] } }), 28650),
            (bson!({ "$filter": { "input": 1, "cond": 1 } }), 28651),
            (
                bson!({ "$filter": { "input": [1], "cond": 1, "limit": 1.5 } }),
                327391,
            ),
            (
                bson!({ "$filter": { "input": [1], "cond": 1, "limit": 0 } }),
                327392,
            ),
            (bson!({ "$reduce": 1 }), 40075),
            (bson!({ "$reduce": { "x": 1 } }), 40076),
            (bson!({ "$reduce": { "initialValue": 1, "in": 1 } }), 40077),
            (bson!({ "$reduce": { "input": 1, "in": 1 } }), 40078),
            (
                bson!({ "$reduce": { "input": 1, "initialValue": 1 } }),
                40079,
            ),
            (
                bson!({ "$reduce": { "input": 1, "initialValue": 1, "in": 1 } }),
                40080,
            ),
        ]);
    }
}
