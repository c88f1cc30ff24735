//! Arrays as sets: order and repetition do not count.

use bson::Bson;
use tessera_core::deadline;

use super::operator::{Fold, Form, Operator, positional, take};
use super::{Call, Frame, Node, ParseContext, Value, fail, is_nullish, is_truthy, null, some};
use crate::collation::Collation;
use crate::compare::type_name;
use crate::error::Result;
use crate::key;
use crate::members::Members;
use crate::size::copy;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$allElementsTrue", Form::Exactly(1), |values, _| {
        let [array] = take(values);
        some(
            elements("$allElementsTrue", &array, 17040)?
                .iter()
                .all(is_truthy),
        )
    }),
    Operator::values("$anyElementTrue", Form::Exactly(1), |values, _| {
        let [array] = take(values);
        some(
            elements("$anyElementTrue", &array, 17041)?
                .iter()
                .any(is_truthy),
        )
    }),
    Operator::values("$setDifference", Form::Exactly(2), difference),
    Operator {
        fold: Fold::Own(fold_equals),
        ..Operator::values("$setEquals", Form::Special(parse_equals), equals)
    },
    Operator::values("$setIntersection", Form::Any, intersection),
    Operator::values("$setIsSubset", Form::Exactly(2), is_subset),
    Operator::values("$setUnion", Form::Any, union),
];

fn elements<'v>(name: &str, value: &'v Value<'_>, not_array: i32) -> Result<&'v [Bson]> {
    match value.as_deref() {
        Some(Bson::Array(items)) => Ok(items),
        other => {
            let found = other.map_or("missing", type_name);
            fail(
                not_array,
                format!("the arguments of {name} must be arrays, found: {found}"),
            )
        }
    }
}

fn difference<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let [left, right] = take(values);
    if is_nullish(left.as_deref()) || is_nullish(right.as_deref()) {
        return null();
    }
    let left = elements("$setDifference", &left, 17048)?;
    let right = elements("$setDifference", &right, 17049)?;
    let mut seen = Members::of(right, frame.collation)?;
    let mut fresh = Vec::new();
    for item in left {
        if seen.insert(item)? {
            fresh.push(copy(item));
        }
    }
    some(fresh)
}

fn parse_equals(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let arguments = positional(argument, context)?;
    match arguments.len() {
        0 | 1 => fail(17045, "$setEquals needs at least two arguments"),
        _ => Ok(operator.call(arguments)),
    }
}

/// Constants that are no arrays are found out ahead of time, with a code of their own.
fn fold_equals(mut call: Call, collation: &Collation) -> Result<Node> {
    for argument in &mut call.arguments {
        *argument = argument.clone().fold(collation)?;
        if let Node::Constant(value) = argument
            && !matches!(value, Some(Bson::Array(_)))
        {
            return fail(5887502, "All operands of $setEquals must be arrays");
        }
    }
    Ok(call.operator.call(call.arguments))
}

fn equals<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let mut first: Option<Members> = None;
    for value in &values {
        let next = Members::of(elements("$setEquals", value, 17044)?, frame.collation)?;
        match &first {
            Some(first) if *first != next => return some(false),
            Some(_) => {}
            None => first = Some(next),
        }
    }
    some(true)
}

fn intersection<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let Some((first, others)) = values.split_first() else {
        return some(Vec::<Bson>::new());
    };
    if is_nullish(first.as_deref()) {
        return null();
    }
    let items = elements("$setIntersection", first, 17047)?;
    let mut common = distinct(items.iter().collect(), frame.collation)?;
    for value in others {
        if is_nullish(value.as_deref()) {
            return null();
        }
        let items = elements("$setIntersection", value, 17047)?;
        let members = Members::of(items, frame.collation)?;
        let mut kept = Vec::with_capacity(common.len());
        for item in common {
            if members.contains(item)? {
                kept.push(item);
            }
        }
        common = kept;
    }
    some(common.into_iter().map(copy).collect::<Vec<_>>())
}

/// Each value once, in ascending order.
fn distinct<'v>(items: Vec<&'v Bson>, collation: &Collation) -> Result<Vec<&'v Bson>> {
    deadline::step(items.len() / 4)?;
    let mut keyed: Vec<(Vec<u8>, &Bson)> = items
        .into_iter()
        .map(|item| (key::encode(item, collation), item))
        .collect();
    deadline::sort_by(&mut keyed, |(a, _), (b, _)| a.cmp(b))?;
    keyed.dedup_by(|(a, _), (b, _)| a == b);
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

fn is_subset<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let [left, right] = take(values);
    let left = elements("$setIsSubset", &left, 17046)?;
    let right = elements("$setIsSubset", &right, 17042)?;
    let members = Members::of(right, frame.collation)?;
    for item in left {
        if !members.contains(item)? {
            return some(false);
        }
    }
    some(true)
}

fn union<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let mut all = Vec::new();
    for value in &values {
        if is_nullish(value.as_deref()) {
            return null();
        }
        all.extend(elements("$setUnion", value, 17043)?);
    }
    let all = distinct(all, frame.collation)?;
    some(all.into_iter().map(copy).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::tests::{fails, gives};

    #[test]
    fn treats_arrays_as_sets() {
        gives([
            (bson!({ "$allElementsTrue": [[1, true]] }), bson!(true)),
            (bson!({ "$allElementsTrue": [[1, null]] }), bson!(false)),
            (bson!({ "$anyElementTrue": [[0, 1]] }), bson!(true)),
            (bson!({ "$anyElementTrue": [[]] }), bson!(false)),
            (
                bson!({ "$setDifference": [[3, 1, 1, 2], [2]] }),
                bson!([3, 1]),
            ),
            (bson!({ "$setDifference": [null, [2]] }), bson!(null)),
            (bson!({ "$setEquals": [[1, 2, 2], [2, 1]] }), bson!(true)),
            (bson!({ "$setEquals": ["$list", [1, 2]] }), bson!(false)),
            (
                bson!({ "$setIntersection": [[3, 1, 2], [2, 3.0]] }),
                bson!([2, 3]),
            ),
            (bson!({ "$setIntersection": [] }), bson!([])),
            (bson!({ "$setIntersection": [[1], null] }), bson!(null)),
            (bson!({ "$setIsSubset": [[1, 1], [1, 2]] }), bson!(true)),
            (bson!({ "$setUnion": [[2, 1], [3, 1]] }), bson!([1, 2, 3])),
            (bson!({ "$setUnion": [] }), bson!([])),
        ]);
        fails([
            (bson!({ "$allElementsTrue": 1 }), 17040),
            (bson!({ "$anyElementTrue": null }), 17041),
            (bson!({ "$setDifference": [1, [1]] }), 17048),
            (bson!({ "$setDifference": [[1], 1] }), 17049),
            (bson!({ "$setEquals": [[1]] }), 17045),
            (bson!({ "$setEquals": [1, "$list"] }), 5887502),
            (bson!({ "$setEquals": ["$a", "$list"] }), 17044),
            (bson!({ "$setIntersection": [1] }), 17047),
            (bson!({ "$setIsSubset": [1, [1]] }), 17046),
            (bson!({ "$setIsSubset": [[1], 1] }), 17042),
            (bson!({ "$setUnion": [1] }), 17043),
        ]);
    }
}
