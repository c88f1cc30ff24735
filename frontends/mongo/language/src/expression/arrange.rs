//! Arrays in order, and several arrays side by side.

use std::borrow::Cow;
use std::cmp::Ordering;

use bson::{Bson, Document};
use tessera_core::deadline::{self, Held};

use super::operator::{Named, Operator, optional, positional, required};
use super::{Call, Frame, Node, ParseContext, Value, fail, kept, null, or_null, own, some};
use crate::compare::{self};
use crate::error::Result;
use crate::number::Number;

const SORT: Named = Named {
    fields: &[required("input", 2942502), required("sortBy", 2942503)],
    not_object: 2942500,
    unknown: 2942501,
};

/// The order is written as in a sort of documents, or as a direction for the elements themselves.
pub(super) fn parse_sort(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let fields = operator.fields(&SORT, argument)?;
    let [Some(input), Some(order)] = fields.as_slice() else {
        return fail(2942502, "$sortArray requires 'input' and 'sortBy'");
    };
    let direction = |order: &Bson| {
        Number::from_bson(order)
            .and_then(Number::as_i64_exact)
            .filter(|d| matches!(d, 1 | -1))
    };
    match order {
        Bson::Document(pattern) => {
            sort_order(pattern)?;
        }
        order if Number::from_bson(order).is_none() => {
            return fail(2942507, "$sortArray: sortBy must be an object or a number");
        }
        order if direction(order).is_none() => {
            return fail(2942506, "$sortArray: sortBy must be 1 or -1");
        }
        _ => {}
    }
    let input = Node::parse(input, context)?;
    Ok(operator.call(vec![input, Node::Constant(Some((*order).clone()))]))
}

/// Paths and whether each is descending.
fn sort_order(pattern: &Document) -> Result<Vec<(Vec<&str>, bool)>> {
    let mut fields = Vec::with_capacity(pattern.len());
    for (path, direction) in pattern {
        let parts: Vec<&str> = path.split('.').collect();
        let direction = Number::from_bson(direction).and_then(Number::as_i64_exact);
        match direction {
            Some(direction @ (1 | -1)) if !parts.contains(&"") => {
                fields.push((parts, direction == -1));
            }
            _ => {
                return fail(
                    2942505,
                    format!("$sortArray: the order of '{path}' must be 1 or -1"),
                );
            }
        }
    }
    if fields.is_empty() {
        return fail(
            2942505,
            "$sortArray: the sort specification must not be empty",
        );
    }
    Ok(fields)
}

/// What is at a path; arrays are values like others, and what is missing counts as null.
fn plain<'v>(item: &'v Bson, path: &[&str]) -> &'v Bson {
    match path.split_first() {
        None => item,
        Some((first, rest)) => match item.as_document().and_then(|item| item.get(first)) {
            Some(value) => plain(value, rest),
            None => &Bson::Null,
        },
    }
}

pub(super) fn sort<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let mut items = match call.evaluate_argument(0, frame)?.map(own) {
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(Bson::Array(items)) => items,
        Some(_) => return fail(2942504, "The input argument to $sortArray must be an array"),
    };
    match call.evaluate_argument(1, frame)?.as_deref() {
        Some(Bson::Document(pattern)) => {
            let order = sort_order(pattern)?;
            deadline::sort_by(&mut items, |a, b| {
                let by = |(path, descending): &(Vec<&str>, bool)| {
                    let order = compare::compare(plain(a, path), plain(b, path), frame.collation);
                    if *descending { order.reverse() } else { order }
                };
                order
                    .iter()
                    .map(by)
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            })?;
        }
        direction => {
            let descending = direction
                .and_then(Number::from_bson)
                .is_some_and(|direction| direction.compare(Number::Int32(0)) == Ordering::Less);
            deadline::sort_by(&mut items, |a, b| {
                let order = compare::compare(a, b, frame.collation);
                if descending { order.reverse() } else { order }
            })?;
        }
    }
    some(items)
}

const ZIP: Named = Named {
    fields: &[
        required("inputs", 34465),
        optional("defaults"),
        optional("useLongestLength"),
    ],
    not_object: 34460,
    unknown: 34464,
};

/// The arguments are the inputs and as many defaults, absent where there are none; the name says
/// whether the longest input counts.
pub(super) fn parse_zip(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let fields = operator.fields(&ZIP, argument)?;
    let expressions = |field: Option<&Bson>, code: i32| match field {
        None => Ok(Vec::new()),
        Some(array @ Bson::Array(_)) => positional(array, context),
        Some(_) => fail(code, "$zip takes arrays of expressions"),
    };
    let at = |index: usize| fields.get(index).copied().flatten();
    let mut inputs = expressions(at(0), 34461)?;
    let defaults = expressions(at(1), 34462)?;
    let longest = match at(2) {
        None => false,
        Some(Bson::Boolean(longest)) => *longest,
        Some(_) => return fail(34463, "useLongestLength must be a bool"),
    };
    if inputs.is_empty() {
        return fail(34465, "$zip requires at least one input array");
    }
    if !longest && !defaults.is_empty() {
        return fail(
            34466,
            "cannot specify defaults unless useLongestLength is true",
        );
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        return fail(34467, "defaults and inputs must have the same length");
    }
    let count = inputs.len();
    inputs.extend(defaults);
    inputs.resize(count * 2, Node::Absent);
    Ok(operator.binding(
        inputs,
        if longest {
            vec!["longest".to_owned()]
        } else {
            Vec::new()
        },
    ))
}

pub(super) fn zip<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let (inputs, defaults) = call.arguments.split_at(call.arguments.len() / 2);
    let mut columns = Vec::with_capacity(inputs.len());
    for input in inputs {
        match input.evaluate(frame)?.map(own) {
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(Bson::Array(items)) => columns.push(items.into_iter()),
            Some(_) => return fail(34468, "$zip found a non-array expression in input"),
        }
    }
    let lengths = columns.iter().map(ExactSizeIterator::len);
    let length = if call.names.is_empty() {
        lengths.min()
    } else {
        lengths.max()
    };
    let mut fillers = Vec::with_capacity(defaults.len());
    for default in defaults {
        fillers.push(or_null(default.evaluate(frame)?));
    }
    let mut held = Held::new();
    let mut rows = Vec::with_capacity(length.unwrap_or(0));
    for _ in 0..length.unwrap_or(0) {
        let next = |(column, filler): (&mut std::vec::IntoIter<Bson>, &Bson)| {
            column.next().unwrap_or_else(|| filler.clone())
        };
        deadline::step(columns.len())?;
        rows.push(kept(
            Cow::Owned(Bson::Array(
                columns.iter_mut().zip(&fillers).map(next).collect(),
            )),
            &mut held,
        )?);
    }
    some(rows)
}
