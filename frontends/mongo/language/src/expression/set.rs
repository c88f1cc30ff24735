//! Arrays as sets: order and repetition do not count.

use std::collections::BTreeSet;

use bson::Bson;

use super::operator::{Fold, Form, Operator, positional, take};
use super::{Call, Frame, Node, ParseContext, Value, fail, is_nullish, is_truthy, null, some};
use crate::collation::Collation;
use crate::compare::type_name;
use crate::error::Result;
use crate::key;

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

/// Values in the form in which equal ones are the same bytes, in their order.
fn keys(items: &[Bson], collation: &Collation) -> BTreeSet<Vec<u8>> {
    items
        .iter()
        .map(|item| key::encode(item, collation))
        .collect()
}

fn difference<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let [left, right] = take(values);
    if is_nullish(left.as_deref()) || is_nullish(right.as_deref()) {
        return null();
    }
    let left = elements("$setDifference", &left, 17048)?;
    let mut seen = keys(elements("$setDifference", &right, 17049)?, frame.collation);
    let fresh = left
        .iter()
        .filter(|item| seen.insert(key::encode(item, frame.collation)));
    some(fresh.cloned().collect::<Vec<_>>())
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
    let mut first: Option<BTreeSet<Vec<u8>>> = None;
    for value in &values {
        let next = keys(elements("$setEquals", value, 17044)?, frame.collation);
        match &first {
            Some(first) if *first != next => return some(false),
            Some(_) => {}
            None => first = Some(next),
        }
    }
    some(true)
}

fn intersection<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let Some(mut common) = sorted(values.first(), frame)? else {
        return null_or_empty(&values);
    };
    for value in values.iter().skip(1) {
        if is_nullish(value.as_deref()) {
            return null();
        }
        let keys = keys(elements("$setIntersection", value, 17047)?, frame.collation);
        common.retain(|(key, _)| keys.contains(key));
    }
    some(common.into_iter().map(|(_, item)| item).collect::<Vec<_>>())
}

fn null_or_empty<'a>(values: &[Value<'a>]) -> Result<Value<'a>> {
    if values.is_empty() {
        some(Vec::<Bson>::new())
    } else {
        null()
    }
}

/// Values with the bytes by which they are equal and in order.
type Keyed = Vec<(Vec<u8>, Bson)>;

/// The different elements of an array, in their order; none if there is no array.
fn sorted(value: Option<&Value<'_>>, frame: &Frame<'_>) -> Result<Option<Keyed>> {
    let Some(value) = value else { return Ok(None) };
    if is_nullish(value.as_deref()) {
        return Ok(None);
    }
    let items = elements("$setIntersection", value, 17047)?;
    Ok(Some(distinct(items.iter().cloned(), frame.collation)))
}

fn distinct(items: impl Iterator<Item = Bson>, collation: &Collation) -> Keyed {
    let mut keyed: Vec<_> = items
        .map(|item| (key::encode(&item, collation), item))
        .collect();
    // Stable, so that of equal values the first one stays.
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    keyed.dedup_by(|(a, _), (b, _)| a == b);
    keyed
}

fn is_subset<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let [left, right] = take(values);
    let left = elements("$setIsSubset", &left, 17046)?;
    let right = keys(elements("$setIsSubset", &right, 17042)?, frame.collation);
    some(
        left.iter()
            .all(|item| right.contains(&key::encode(item, frame.collation))),
    )
}

fn union<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    let mut all = Vec::new();
    for value in &values {
        if is_nullish(value.as_deref()) {
            return null();
        }
        all.extend(elements("$setUnion", value, 17043)?.iter().cloned());
    }
    let all = distinct(all.into_iter(), frame.collation);
    some(all.into_iter().map(|(_, item)| item).collect::<Vec<_>>())
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
