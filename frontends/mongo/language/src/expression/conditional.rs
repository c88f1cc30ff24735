//! `$cond`, `$ifNull` and `$switch`: only the branch taken is evaluated.

use bson::{Bson, Document};

use super::operator::{Field, Fold, Form, Named, Operator, positional, required};
use super::{Call, Frame, Node, ParseContext, Value, fail, is_nullish, is_truthy};
use crate::collation::Collation;
use crate::error::Result;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy("$cond", Form::Special(parse_cond), cond),
    Operator::lazy("$ifNull", Form::Special(parse_if_null), if_null),
    Operator {
        fold: Fold::Own(fold_switch),
        ..Operator::lazy("$switch", Form::Special(parse_switch), switch)
    },
];

const COND: Named = Named {
    fields: &[
        required("if", 17080),
        required("then", 17081),
        required("else", 17082),
    ],
    not_object: 16020,
    unknown: 17083,
};

fn parse_cond(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    if matches!(argument, Bson::Document(_)) {
        return Ok(operator.call(operator.named(&COND, argument, context)?));
    }
    let arguments = positional(argument, context)?;
    match arguments.len() {
        3 => Ok(operator.call(arguments)),
        count => {
            let message = format!("Expression $cond takes exactly 3 arguments. {count} passed in.");
            fail(16020, message)
        }
    }
}

fn cond<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let condition = call
        .evaluate_argument(0, frame)?
        .as_deref()
        .is_some_and(is_truthy);
    call.evaluate_argument(if condition { 1 } else { 2 }, frame)
}

fn parse_if_null(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let arguments = positional(argument, context)?;
    match arguments.len() {
        0 | 1 => fail(1257300, "$ifNull needs at least two arguments"),
        _ => Ok(operator.call(arguments)),
    }
}

fn if_null<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let mut last = None;
    for argument in &call.arguments {
        last = argument.evaluate(frame)?;
        if !is_nullish(last.as_deref()) {
            break;
        }
    }
    Ok(last)
}

/// The arguments are the cases, each before what it gives, and at last the default.
fn parse_switch(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let Bson::Document(document) = argument else {
        return fail(40060, "$switch requires an object as an argument");
    };
    let mut arguments = Vec::new();
    let mut default = Node::Absent;
    for (name, value) in document {
        match (name.as_str(), value) {
            ("branches", Bson::Array(branches)) => {
                for branch in branches {
                    arguments.extend(parse_branch(branch, context)?);
                }
            }
            ("branches", _) => return fail(40061, "$switch expected an array for 'branches'"),
            ("default", value) => default = Node::parse(value, context)?,
            _ => return fail(40067, format!("$switch found an unknown argument: {name}")),
        }
    }
    if arguments.is_empty() {
        return fail(40068, "$switch requires at least one branch");
    }
    arguments.push(default);
    Ok(operator.call(arguments))
}

fn parse_branch(branch: &Bson, context: &ParseContext<'_>) -> Result<[Node; 2]> {
    let Bson::Document(branch) = branch else {
        return fail(40062, "$switch expected each branch to be an object");
    };
    if let Some(name) = branch
        .keys()
        .find(|name| !matches!(name.as_str(), "case" | "then"))
    {
        return fail(
            40063,
            format!("$switch found an unknown argument to a branch: {name}"),
        );
    }
    let part = |field: &Field, branch: &Document| match (branch.get(field.name), field.missing) {
        (Some(value), _) => Node::parse(value, context),
        (None, Some(code)) => fail(
            code,
            format!("$switch requires each branch to have '{}'", field.name),
        ),
        (None, None) => Ok(Node::Absent),
    };
    Ok([
        part(&required("case", 40064), branch)?,
        part(&required("then", 40065), branch)?,
    ])
}

fn switch<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let (branches, default) = call.arguments.as_chunks::<2>();
    for [case, then] in branches {
        if case.evaluate(frame)?.as_deref().is_some_and(is_truthy) {
            return then.evaluate(frame);
        }
    }
    match default {
        [Node::Absent] | [] => no_branch(),
        [default, ..] => default.evaluate(frame),
    }
}

fn no_branch<T>() -> Result<T> {
    fail(
        40069,
        "$switch could not find a matching branch, and no default was specified",
    )
}

/// Cases that are never taken go, and a case that is always taken ends the branches: neither their
/// constants nor those of later branches are evaluated.
fn fold_switch(call: Call, collation: &Collation) -> Result<Node> {
    let mut kept = Vec::with_capacity(call.arguments.len());
    let mut arguments = call.arguments.into_iter();
    let mut default = arguments
        .next_back()
        .unwrap_or(Node::Absent)
        .fold(collation)?;
    while let (Some(case), Some(then)) = (arguments.next(), arguments.next()) {
        match case.fold(collation)? {
            Node::Constant(value) if value.as_ref().is_some_and(is_truthy) => {
                default = then.fold(collation)?;
                break;
            }
            Node::Constant(_) => {}
            case => kept.extend([case, then.fold(collation)?]),
        }
    }
    match (kept.is_empty(), default) {
        (true, Node::Absent) => no_branch(),
        (true, default) => Ok(default),
        (false, default) => {
            kept.push(default);
            Ok(call.operator.call(kept))
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::tests::{fails, gives};

    #[test]
    fn chooses() {
        gives([
            (bson!({ "$cond": ["$t", "$a", "$b"] }), bson!(1)),
            (
                bson!({ "$cond": { "if": "$none", "then": "$a", "else": "$b" } }),
                bson!(2.5),
            ),
            (bson!({ "$ifNull": ["$none", "$n", "$a"] }), bson!(1)),
            (bson!({ "$ifNull": ["$none", "$n"] }), bson!(null)),
            (
                bson!({ "$switch": { "branches": [
                    { "case": "$none", "then": 1 }, { "case": "$t", "then": 2 },
                ] } }),
                bson!(2),
            ),
            (
                bson!({ "$switch": { "branches": [{ "case": "$n", "then": 1 }], "default": 3 } }),
                bson!(3),
            ),
            // What comes after a case that always holds is not even evaluated ahead of time.
            (
                bson!({ "$switch": { "branches": [
                    { "case": true, "then": 1 }, { "case": { "$switch": {
                        "branches": [{ "case": false, "then": 1 }] } }, "then": 2 },
                ] } }),
                bson!(1),
            ),
        ]);
    }

    #[test]
    fn refuses_malformed_choices() {
        fails([
            (bson!({ "$cond": [1, 2] }), 16020),
            (
                bson!({ "$cond": { "if": 1, "then": 1, "else": 1, "x": 1 } }),
                17083,
            ),
            (bson!({ "$cond": { "then": 1, "else": 1 } }), 17080),
            (bson!({ "$cond": { "if": 1, "else": 1 } }), 17081),
            (bson!({ "$cond": { "if": 1, "then": 1 } }), 17082),
            (bson!({ "$ifNull": [1] }), 1257300),
            (bson!({ "$switch": 1 }), 40060),
            (bson!({ "$switch": { "branches": 1 } }), 40061),
            (bson!({ "$switch": { "branches": [1] } }), 40062),
            (bson!({ "$switch": { "branches": [{ "x": 1 }] } }), 40063),
            (bson!({ "$switch": { "branches": [{ "then": 1 }] } }), 40064),
            (bson!({ "$switch": { "branches": [{ "case": 1 }] } }), 40065),
            (bson!({ "$switch": { "x": 1 } }), 40067),
            (bson!({ "$switch": { "branches": [] } }), 40068),
            (
                bson!({ "$switch": { "branches": [{ "case": "$n", "then": 1 }] } }),
                40069,
            ),
        ]);
    }
}
