//! Arrays: pieces, positions, order, and going between arrays and objects.

use std::borrow::Cow;
use std::sync::Arc;

use bson::{Bson, Document, doc};
use tessera_core::deadline;

use super::arrange::{parse_sort, parse_zip, sort, zip};
use super::operator::{Fold, Form, Operator, take};
use super::string::count;
use super::{Call, Frame, Node, Value, fail, is_nullish, null, own, some};
use crate::collation::Collation;
use crate::compare::type_name;
use crate::error::Result;
use crate::members::{self, Members};
use crate::number::Number;
use crate::size::copy;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$arrayElemAt", Form::Exactly(2), |values, _| {
        let [array, index] = take(values);
        element_at("$arrayElemAt", array, index)
    }),
    Operator::values("$arrayToObject", Form::Exactly(1), array_to_object),
    Operator::values("$concatArrays", Form::Any, concat_arrays),
    Operator {
        fold: Fold::Own(|call, collation| fold_search(call, collation, 1)),
        ..Operator::lazy("$in", Form::Exactly(2), contains)
    },
    Operator {
        fold: Fold::Own(|call, collation| fold_search(call, collation, 0)),
        ..Operator::lazy("$indexOfArray", Form::Between(2, 4), index_of)
    },
    Operator::values("$isArray", Form::Exactly(1), |values, _| {
        let [value] = take(values);
        some(matches!(value.as_deref(), Some(Bson::Array(_))))
    }),
    Operator::values("$objectToArray", Form::Exactly(1), object_to_array),
    Operator::values("$range", Form::Between(2, 3), range),
    Operator::values("$reverseArray", Form::Exactly(1), reverse),
    Operator::values("$size", Form::Exactly(1), size),
    Operator::values("$slice", Form::Between(2, 3), slice),
    Operator::lazy("$sortArray", Form::Special(parse_sort), sort),
    Operator::lazy("$zip", Form::Special(parse_zip), zip),
];

/// What one array built by an operator may take.
pub(super) const MAX_BYTES: usize = 100 << 20;

/// An element counted from the start, or from the end if the index is negative.
pub(super) fn element_at<'a>(name: &str, array: Value<'a>, index: Value<'a>) -> Result<Value<'a>> {
    if is_nullish(array.as_deref()) || is_nullish(index.as_deref()) {
        return null();
    }
    let Some(Bson::Array(items)) = array.as_deref() else {
        return fail(28689, format!("{name}'s first argument must be an array"));
    };
    let Some(number) = index.as_deref().and_then(Number::from_bson) else {
        return fail(
            28690,
            format!("{name}'s second argument must be a numeric value"),
        );
    };
    let Some(index) = number.as_i32_exact() else {
        return fail(
            28691,
            format!("{name}'s second argument must be a 32-bit integer"),
        );
    };
    let Some(position) = from_either_end(index, items.len()) else {
        return Ok(None);
    };
    match array {
        Some(Cow::Borrowed(Bson::Array(items))) => Ok(items.get(position).map(Cow::Borrowed)),
        Some(Cow::Owned(Bson::Array(mut items))) if position < items.len() => {
            Ok(Some(Cow::Owned(items.swap_remove(position))))
        }
        _ => Ok(None),
    }
}

/// The position that an index means; none if it lies before the start.
fn from_either_end(index: i32, length: usize) -> Option<usize> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 {
        length.checked_sub(distance)
    } else {
        Some(distance)
    }
}

fn array_to_object<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [array] = take(values);
    if is_nullish(array.as_deref()) {
        return null();
    }
    let Some(Bson::Array(items)) = array.as_deref() else {
        return fail(40386, "$arrayToObject requires an array input");
    };
    let mut object = Document::new();
    let pairs = match items.first() {
        None => return some(object),
        Some(Bson::Array(_)) => true,
        Some(Bson::Document(_)) => false,
        Some(other) => {
            let found = type_name(other);
            return fail(
                40398,
                format!("Unrecognised input type for $arrayToObject: {found}"),
            );
        }
    };
    for item in items {
        let (key, value) = if pairs {
            pair(item)?
        } else {
            key_and_value(item)?
        };
        deadline::step(1)?;
        object.insert(key, copy(value));
    }
    some(object)
}

fn pair(item: &Bson) -> Result<(&str, &Bson)> {
    let Bson::Array(pair) = item else {
        return fail(
            40396,
            "$arrayToObject requires its elements to be all arrays",
        );
    };
    let [key, value] = pair.as_slice() else {
        return fail(40397, "$arrayToObject requires an array of size 2 arrays");
    };
    match key {
        Bson::String(key) if key.contains('\0') => {
            fail(4940400, "Key field cannot contain an embedded null byte")
        }
        Bson::String(key) => Ok((key, value)),
        _ => fail(40395, "$arrayToObject requires keys of type string"),
    }
}

fn key_and_value(item: &Bson) -> Result<(&str, &Bson)> {
    let Bson::Document(item) = item else {
        return fail(
            40391,
            "$arrayToObject requires its elements to be all objects",
        );
    };
    if item.len() != 2 {
        return fail(
            40392,
            "$arrayToObject requires objects with the keys 'k' and 'v'",
        );
    }
    let (Some(key), Some(value)) = (item.get("k"), item.get("v")) else {
        return fail(
            40393,
            "$arrayToObject requires objects with the keys 'k' and 'v'",
        );
    };
    match key {
        Bson::String(key) if key.contains('\0') => {
            fail(4940401, "Key field cannot contain an embedded null byte")
        }
        Bson::String(key) => Ok((key, value)),
        _ => fail(40394, "$arrayToObject requires 'k' to be of type string"),
    }
}

fn object_to_array<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [object] = take(values);
    match object.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => null(),
        Some(Bson::Document(object)) => {
            let pair = |(key, value): (&String, &Bson)| {
                Bson::Document(doc! { "k": key, "v": copy(value) })
            };
            some(object.iter().map(pair).collect::<Vec<_>>())
        }
        Some(other) => {
            let found = type_name(other);
            fail(
                40390,
                format!("$objectToArray requires a document input, found: {found}"),
            )
        }
    }
}

fn concat_arrays<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let mut all = Vec::new();
    for value in values {
        match value.map(own) {
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(Bson::Array(items)) => {
                deadline::step(items.len() / 4)?;
                all.extend(items);
            }
            Some(other) => {
                let found = type_name(&other);
                return fail(
                    28664,
                    format!("$concatArrays only supports arrays, not {found}"),
                );
            }
        }
    }
    some(all)
}

/// Folds the arguments, and makes a long constant array ready for being searched in.
fn fold_search(mut call: Call, collation: &Collation, array: usize) -> Result<Node> {
    for argument in &mut call.arguments {
        let given = std::mem::replace(argument, Node::Absent);
        *argument = given.fold(collation)?;
    }
    if let Node::Constant(Some(Bson::Array(items))) = call.argument(array) {
        call.members = Members::of_many(items, collation)?.map(Arc::new);
    }
    Node::Call(Box::new(call)).folded_if_constant(collation)
}

fn contains<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let value = call.evaluate_argument(0, frame)?;
    if let Some(members) = &call.members {
        return some(match value.as_deref() {
            Some(value) => members.contains(value)?,
            None => false,
        });
    }
    let array = call.evaluate_argument(1, frame)?;
    let Some(Bson::Array(items)) = array.as_deref() else {
        return fail(40081, "$in requires an array as a second argument");
    };
    some(match value.as_deref() {
        Some(value) => members::position(items, value, frame.collation)?.is_some(),
        None => false,
    })
}

fn index_of<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let mut values = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        values.push(argument.evaluate(frame)?);
    }
    let at = |index: usize| values.get(index).and_then(|value| value.as_deref());
    let items = match at(0) {
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(Bson::Array(items)) => items,
        Some(_) => return fail(40090, "$indexOfArray requires an array as a first argument"),
    };
    let position = |value: Option<&Bson>| {
        let Some(index) = value
            .and_then(Number::from_bson)
            .and_then(Number::as_i32_exact)
        else {
            return fail(9711600, "$indexOfArray requires an integral index");
        };
        match usize::try_from(index) {
            Ok(index) => Ok(index),
            Err(_) => fail(9711601, "$indexOfArray requires a nonnegative index"),
        }
    };
    let start = if values.len() > 2 {
        position(at(2))?
    } else {
        0
    };
    let end = if values.len() > 3 {
        position(at(3))?.min(items.len())
    } else {
        items.len()
    };
    let found = match (at(1), &call.members, items.get(start..end)) {
        (Some(value), Some(members), _) if start == 0 => {
            members.place(value)?.filter(|place| *place < end)
        }
        (Some(value), _, Some(part)) => {
            let place = members::position(part, value, frame.collation)?;
            place.map(|place| start + place)
        }
        _ => None,
    };
    some(found.map_or(Bson::Int32(-1), count))
}

fn range<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let integer = |index: usize, not_number: i32, not_integer: i32| {
        let value = values.get(index).and_then(|value| value.as_deref());
        let Some(number) = value.and_then(Number::from_bson) else {
            return fail(not_number, "$range requires numbers");
        };
        match number.as_i32_exact() {
            Some(integer) => Ok(integer),
            None => fail(not_integer, "$range requires 32-bit integers"),
        }
    };
    let (start, end) = (integer(0, 34443, 34444)?, integer(1, 34445, 34446)?);
    let step = if values.len() > 2 {
        integer(2, 34447, 34448)?
    } else {
        1
    };
    if step == 0 {
        return fail(34449, "$range requires a non-zero step value");
    }
    let steps = (i64::from(end) - i64::from(start)) / i64::from(step);
    let length = usize::try_from(steps).map_or(0, |steps| steps + 1);
    if length.saturating_mul(size_of::<Bson>() / 4) > MAX_BYTES {
        return fail(146, "$range would use too much memory");
    }
    deadline::step(length / 8)?;
    let mut items = Vec::with_capacity(length);
    let mut next = Some(start);
    while let Some(current) = next
        && if step > 0 {
            current < end
        } else {
            current > end
        }
    {
        items.push(Bson::Int32(current));
        next = current.checked_add(step);
    }
    some(items)
}

fn reverse<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [array] = take(values);
    match array.map(own) {
        None | Some(Bson::Null | Bson::Undefined) => null(),
        Some(Bson::Array(mut items)) => {
            items.reverse();
            some(items)
        }
        Some(other) => {
            let found = type_name(&other);
            fail(
                34435,
                format!("The argument to $reverseArray must be an array, not {found}"),
            )
        }
    }
}

fn size<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [array] = take(values);
    match array.as_deref() {
        Some(Bson::Array(items)) => some(count(items.len())),
        other => {
            let found = other.map_or("missing", type_name);
            fail(
                17124,
                format!("The argument to $size must be an array, but was: {found}"),
            )
        }
    }
}

fn slice<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let has_length = values.len() > 2;
    let [array, second, third] = take(values);
    if is_nullish(array.as_deref()) || is_nullish(second.as_deref()) {
        return null();
    }
    let Some(Bson::Array(items)) = array.as_deref() else {
        return fail(28724, "First argument to $slice must be an array");
    };
    let integer = |value: Option<&Bson>, not_number: i32, not_integer: i32| {
        let Some(number) = value.and_then(Number::from_bson) else {
            return fail(not_number, "The counts of $slice must be numeric");
        };
        match number.as_i32_exact() {
            Some(integer) => Ok(integer),
            None => fail(not_integer, "The counts of $slice must be 32-bit integers"),
        }
    };
    let second = integer(second.as_deref(), 28725, 28726)?;
    let position = from_either_end(second, items.len())
        .unwrap_or(0)
        .min(items.len());
    let (start, end) = if has_length {
        if is_nullish(third.as_deref()) {
            return null();
        }
        let length = integer(third.as_deref(), 28727, 28728)?;
        match usize::try_from(length) {
            Ok(length) if length > 0 => (position, position.saturating_add(length)),
            _ => {
                return fail(
                    28729,
                    format!("Third argument to $slice must be positive: {length}"),
                );
            }
        }
    } else if second < 0 {
        (position, items.len())
    } else {
        (0, position)
    };
    let part = items.get(start..end.min(items.len())).unwrap_or_default();
    some(part.iter().map(copy).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::tests::{fails, gives, is_missing};

    #[test]
    fn takes_elements() {
        gives([
            (bson!({ "$arrayElemAt": ["$list", 0] }), bson!(3)),
            (bson!({ "$arrayElemAt": ["$list", -1] }), bson!(2)),
            (bson!({ "$arrayElemAt": [[1, 2], 1] }), bson!(2)),
            (bson!({ "$arrayElemAt": [null, 1] }), bson!(null)),
            (bson!({ "$slice": ["$list", 2] }), bson!([3, 1])),
            (bson!({ "$slice": ["$list", -2] }), bson!([1, 2])),
            (bson!({ "$slice": ["$list", 1, 1] }), bson!([1])),
            (bson!({ "$slice": ["$list", -9, 1] }), bson!([3])),
            (bson!({ "$slice": ["$list", 9, 1] }), bson!([])),
            (bson!({ "$size": "$list" }), bson!(3)),
            (bson!({ "$isArray": "$list" }), bson!(true)),
            (bson!({ "$isArray": "$none" }), bson!(false)),
        ]);
        is_missing([
            bson!({ "$arrayElemAt": ["$list", 3] }),
            bson!({ "$arrayElemAt": ["$list", -4] }),
        ]);
        fails([
            (bson!({ "$arrayElemAt": [1, 0] }), 28689),
            (bson!({ "$arrayElemAt": [[1], "x"] }), 28690),
            (bson!({ "$arrayElemAt": [[1], 1.5] }), 28691),
            (bson!({ "$slice": [1, 1] }), 28724),
            (bson!({ "$slice": [[1], "x"] }), 28725),
            (bson!({ "$slice": [[1], 1.5] }), 28726),
            (bson!({ "$slice": [[1], 1, "x"] }), 28727),
            (bson!({ "$slice": [[1], 1, 1.5] }), 28728),
            (bson!({ "$slice": [[1], 1, 0] }), 28729),
            (bson!({ "$size": null }), 17124),
        ]);
    }

    #[test]
    fn goes_between_arrays_and_objects() {
        gives([
            (
                bson!({ "$arrayToObject": [[["a", 1], ["b", 2]]] }),
                bson!({ "a": 1, "b": 2 }),
            ),
            (
                bson!({ "$arrayToObject": [[{ "k": "a", "v": 1 }]] }),
                bson!({ "a": 1 }),
            ),
            (bson!({ "$arrayToObject": [[]] }), bson!({})),
            (
                bson!({ "$objectToArray": { "a": 1, "b": 2 } }),
                bson!([{ "k": "a", "v": 1 }, { "k": "b", "v": 2 }]),
            ),
            (bson!({ "$objectToArray": "$none" }), bson!(null)),
        ]);
        fails([
            (bson!({ "$arrayToObject": 1 }), 40386),
            (bson!({ "$arrayToObject": [[1]] }), 40398),
            (bson!({ "$arrayToObject": [[["a", 1], 1]] }), 40396),
            (bson!({ "$arrayToObject": [[["a"]]] }), 40397),
            (bson!({ "$arrayToObject": [[[1, 1]]] }), 40395),
            (
                bson!({ "$arrayToObject": [[{ "k": "a", "v": 1 }, 1]] }),
                40391,
            ),
            (bson!({ "$arrayToObject": [[{ "k": "a" }]] }), 40392),
            (bson!({ "$arrayToObject": [[{ "k": "a", "x": 1 }]] }), 40393),
            (bson!({ "$arrayToObject": [[{ "k": 1, "v": 1 }]] }), 40394),
            (bson!({ "$objectToArray": 1 }), 40390),
        ]);
    }

    #[test]
    fn searches_and_combines() {
        gives([
            (
                bson!({ "$concatArrays": [[1], "$list"] }),
                bson!([1, 3, 1, 2]),
            ),
            (bson!({ "$concatArrays": [[1], null] }), bson!(null)),
            (bson!({ "$in": [1.0, "$list"] }), bson!(true)),
            (bson!({ "$in": ["$none", "$list"] }), bson!(false)),
            (bson!({ "$indexOfArray": ["$list", 2] }), bson!(2)),
            (bson!({ "$indexOfArray": [[1, 1, 1], 1, 1] }), bson!(1)),
            (bson!({ "$indexOfArray": ["$list", 2, 0, 2] }), bson!(-1)),
            (bson!({ "$reverseArray": "$list" }), bson!([2, 1, 3])),
            (bson!({ "$range": [0, 5, 2] }), bson!([0, 2, 4])),
            (bson!({ "$range": [3, 0, -1] }), bson!([3, 2, 1])),
            (bson!({ "$range": [0, -1] }), bson!([])),
            (
                bson!({ "$zip": { "inputs": [[1, 2], ["a"]] } }),
                bson!([[1, "a"]]),
            ),
            (
                bson!({ "$zip": {
                    "inputs": [[1, 2], ["a"]], "useLongestLength": true, "defaults": [0, "z"],
                } }),
                bson!([[1, "a"], [2, "z"]]),
            ),
        ]);
        fails([
            (bson!({ "$concatArrays": [1] }), 28664),
            (bson!({ "$in": [1, 2] }), 40081),
            (bson!({ "$indexOfArray": [1, 2] }), 40090),
            (bson!({ "$indexOfArray": [[1], 2, 1.5] }), 9711600),
            (bson!({ "$indexOfArray": [[1], 2, -1] }), 9711601),
            (bson!({ "$reverseArray": 1 }), 34435),
            (bson!({ "$range": ["x", 1] }), 34443),
            (bson!({ "$range": [1.5, 1] }), 34444),
            (bson!({ "$range": [1, "x"] }), 34445),
            (bson!({ "$range": [1, 1.5] }), 34446),
            (bson!({ "$range": [1, 2, "x"] }), 34447),
            (bson!({ "$range": [1, 2, 1.5] }), 34448),
            (bson!({ "$range": [1, 2, 0] }), 34449),
            (bson!({ "$range": [0, i32::MAX] }), 146),
            (bson!({ "$zip": 1 }), 34460),
            (bson!({ "$zip": { "inputs": 1 } }), 34461),
            (bson!({ "$zip": { "inputs": [[1]], "defaults": 1 } }), 34462),
            (
                bson!({ "$zip": { "inputs": [[1]], "useLongestLength": 1 } }),
                34463,
            ),
            (bson!({ "$zip": { "x": 1 } }), 34464),
            (bson!({ "$zip": { "inputs": [] } }), 34465),
            (
                bson!({ "$zip": { "inputs": [[1]], "defaults": [1] } }),
                34466,
            ),
            (
                bson!({ "$zip": {
                    "inputs": [[1]], "defaults": [1, 2], "useLongestLength": true,
                } }),
                34467,
            ),
            (bson!({ "$zip": { "inputs": [1] } }), 34468),
        ]);
    }

    #[test]
    fn sorts() {
        gives([
            (
                bson!({ "$sortArray": { "input": "$list", "sortBy": 1 } }),
                bson!([1, 2, 3]),
            ),
            (
                bson!({ "$sortArray": { "input": "$list", "sortBy": -1 } }),
                bson!([3, 2, 1]),
            ),
            (
                bson!({ "$sortArray": {
                    "input": [{ "a": 2 }, { "a": 1 }], "sortBy": { "a": 1 },
                } }),
                bson!([{ "a": 1 }, { "a": 2 }]),
            ),
            (
                bson!({ "$sortArray": { "input": null, "sortBy": 1 } }),
                bson!(null),
            ),
        ]);
        fails([
            (bson!({ "$sortArray": 1 }), 2942500),
            (bson!({ "$sortArray": { "x": 1 } }), 2942501),
            (bson!({ "$sortArray": { "sortBy": 1 } }), 2942502),
            (bson!({ "$sortArray": { "input": [] } }), 2942503),
            (
                bson!({ "$sortArray": { "input": 1, "sortBy": 1 } }),
                2942504,
            ),
            (
                bson!({ "$sortArray": { "input": [], "sortBy": {} } }),
                2942505,
            ),
            (
                bson!({ "$sortArray": { "input": [], "sortBy": 2 } }),
                2942506,
            ),
            (
                bson!({ "$sortArray": { "input": [], "sortBy": "x" } }),
                2942507,
            ),
        ]);
    }
}
