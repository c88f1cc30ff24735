//! Operators that belong to no family: literals, sizes, hashes, bits, timestamps, chance.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson};
use rand::Rng;

use super::operator::{Form, Operator, take};
use super::string::count;
use super::{Node, ParseContext, Value, fail, null, some};
use crate::compare::type_name;
use crate::error::Result;
use crate::hash;
use crate::size::document_size;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$binarySize", Form::Exactly(1), |values, _| {
        binary_size(values)
    }),
    Operator::values("$bitAnd", Form::Any, |v, _| {
        bits("$bitAnd", v, -1, |a, b| a & b)
    }),
    Operator::values("$bitNot", Form::Exactly(1), |values, _| bit_not(values)),
    Operator::values("$bitOr", Form::Any, |v, _| {
        bits("$bitOr", v, 0, |a, b| a | b)
    }),
    Operator::values("$bitXor", Form::Any, |v, _| {
        bits("$bitXor", v, 0, |a, b| a ^ b)
    }),
    Operator::values("$bsonSize", Form::Exactly(1), |values, _| bson_size(values)),
    Operator::lazy("$const", Form::Special(literal), |_, _| Ok(None)),
    Operator::values("$createUUID", Form::Special(no_arguments), |_, _| {
        let bytes = bson::Uuid::new().bytes().to_vec();
        some(Bson::Binary(Binary {
            subtype: BinarySubtype::Uuid,
            bytes,
        }))
    })
    .never_folded(),
    Operator::lazy("$function", Form::Special(scripting), |_, _| Ok(None)),
    Operator::lazy("$literal", Form::Special(literal), |_, _| Ok(None)),
    Operator::values("$meta", Form::Special(meta), |_, _| Ok(None)).never_folded(),
    Operator::values("$rand", Form::Special(no_arguments), |_, _| {
        some(rand::rng().random::<f64>())
    })
    .never_folded(),
    Operator::values("$toHashedIndexKey", Form::Special(single), |values, _| {
        let [value] = take(values);
        some(hash::hash(value.as_deref().unwrap_or(&Bson::Null)))
    }),
    Operator::values("$tsIncrement", Form::Exactly(1), |values, _| {
        timestamp("$tsIncrement", values, 5687302, |timestamp| {
            timestamp.increment
        })
    }),
    Operator::values("$tsSecond", Form::Exactly(1), |values, _| {
        timestamp("$tsSecond", values, 5687301, |timestamp| timestamp.time)
    }),
];

/// A literal is what it says, even where it looks like an expression.
fn literal(_: &'static Operator, argument: &Bson, _: &ParseContext<'_>) -> Result<Node> {
    Ok(Node::Constant(Some(argument.clone())))
}

/// The argument as it stands: an array is one value.
fn single(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    Ok(operator.call(vec![Node::parse(argument, context)?]))
}

fn no_arguments(
    operator: &'static Operator,
    argument: &Bson,
    _: &ParseContext<'_>,
) -> Result<Node> {
    let empty = match argument {
        Bson::Document(arguments) => arguments.is_empty(),
        Bson::Array(arguments) => arguments.is_empty(),
        _ => {
            return fail(
                10065,
                format!("invalid parameter: expected an object ({})", operator.name),
            );
        }
    };
    match (empty, operator.name) {
        (true, _) => Ok(operator.call(Vec::new())),
        (false, "$rand") => fail(3040501, "$rand does not currently accept arguments"),
        (false, name) => fail(10081901, format!("{name} does not accept arguments")),
    }
}

/// A server without scripting knows the operator, and says that it has none.
fn scripting(operator: &'static Operator, _: &Bson, _: &ParseContext<'_>) -> Result<Node> {
    let message = "not allowed on this server: server-side JavaScript is not available";
    fail(31264, format!("{} {message}", operator.name))
}

/// What is known about documents besides their fields.
fn meta(operator: &'static Operator, argument: &Bson, _: &ParseContext<'_>) -> Result<Node> {
    let Bson::String(name) = argument else {
        return fail(17307, "$meta only supports string arguments");
    };
    match name.as_str() {
        "indexKey"
        | "randVal"
        | "recordId"
        | "sortKey"
        | "score"
        | "scoreDetails"
        | "searchScore"
        | "searchHighlights"
        | "searchScoreDetails"
        | "searchSequenceToken" => Ok(operator.call(Vec::new())),
        "textScore"
        | "geoNearDistance"
        | "geoNearPoint"
        | "vectorSearchScore"
        | "timeseriesBucketMinTime"
        | "timeseriesBucketMaxTime" => fail(
            40218,
            format!("query requires {name} metadata, but it is not available"),
        ),
        _ => fail(17308, format!("Unsupported $meta field: {name}")),
    }
}

fn binary_size(values: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [value] = take(values);
    match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => null(),
        Some(Bson::String(text)) => some(count(text.len())),
        Some(Bson::Binary(binary)) => some(count(binary.bytes.len())),
        Some(other) => {
            let found = type_name(other);
            fail(
                51276,
                format!("$binarySize requires a string or BinData, found: {found}"),
            )
        }
    }
}

fn bson_size(values: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [value] = take(values);
    match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => null(),
        Some(Bson::Document(document)) => some(count(document_size(document))),
        Some(other) => {
            let found = type_name(other);
            fail(
                31393,
                format!("$bsonSize requires a document input, found: {found}"),
            )
        }
    }
}

fn bits<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    identity: i64,
    combine: fn(i64, i64) -> i64,
) -> Result<Value<'a>> {
    let mut result = identity;
    let mut is_long = false;
    for value in &values {
        let operand = match value.as_deref() {
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(Bson::Int32(value)) => i64::from(*value),
            Some(Bson::Int64(value)) => {
                is_long = true;
                *value
            }
            Some(_) => return fail(14, format!("{name} only supports int and long operands.")),
        };
        result = combine(result, operand);
    }
    match i32::try_from(result) {
        Ok(result) if !is_long => some(result),
        _ => some(result),
    }
}

fn bit_not(values: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [value] = take(values);
    match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => null(),
        Some(Bson::Int32(value)) => some(!value),
        Some(Bson::Int64(value)) => some(!value),
        Some(other @ (Bson::Double(_) | Bson::Decimal128(_))) => {
            let found = type_name(other);
            fail(
                14,
                format!("$bitNot only supports int and long, not: {found}."),
            )
        }
        Some(other) => {
            let found = type_name(other);
            fail(
                28765,
                format!("$bitNot only supports numeric types, not {found}"),
            )
        }
    }
}

fn timestamp<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    code: i32,
    part: fn(&bson::Timestamp) -> u32,
) -> Result<Value<'a>> {
    let [value] = take(values);
    match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => null(),
        Some(Bson::Timestamp(timestamp)) => some(i64::from(part(timestamp))),
        Some(other) => {
            let found = type_name(other);
            fail(
                code,
                format!("Argument to {name} must be a timestamp, but is {found}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Binary, Bson, Timestamp, bson, doc, spec::BinarySubtype};

    use crate::expression::tests::{evaluate, fails, gives, is_missing};

    #[test]
    fn measures_and_combines() {
        let timestamp = || {
            Bson::Timestamp(Timestamp {
                time: 5,
                increment: 7,
            })
        };
        let binary = Binary {
            subtype: BinarySubtype::Generic,
            bytes: vec![1, 2, 3],
        };
        gives([
            (
                bson!({ "$literal": { "$add": [1, "$a"] } }),
                bson!({ "$add": [1, "$a"] }),
            ),
            (bson!({ "$binarySize": "ä" }), bson!(2)),
            (bson!({ "$binarySize": Bson::Binary(binary) }), bson!(3)),
            (bson!({ "$bsonSize": { "a": 1 } }), bson!(12)),
            (bson!({ "$bsonSize": "$none" }), bson!(null)),
            (bson!({ "$bitAnd": [6, 3] }), bson!(2)),
            (bson!({ "$bitAnd": [] }), bson!(-1)),
            (bson!({ "$bitOr": [1, 2_i64] }), bson!(3_i64)),
            (bson!({ "$bitXor": [1, null] }), bson!(null)),
            (bson!({ "$bitNot": 5 }), bson!(-6)),
            (bson!({ "$tsSecond": timestamp() }), bson!(5_i64)),
            (bson!({ "$tsIncrement": timestamp() }), bson!(7_i64)),
            (
                bson!({ "$toHashedIndexKey": 42 }),
                bson!(-944302157085130861_i64),
            ),
            (
                bson!({ "$toHashedIndexKey": "$none" }),
                bson!(2338878944348059895_i64),
            ),
        ]);
        is_missing([bson!({ "$meta": "sortKey" })]);
    }

    #[test]
    fn draws_numbers() {
        let draw = || evaluate(&bson!({ "$rand": {} }), &doc! {}).unwrap();
        let Some(Bson::Double(number)) = draw() else {
            panic!()
        };
        assert!((0.0..1.0).contains(&number));
        assert_ne!(draw(), draw());
    }

    #[test]
    fn refuses_what_it_cannot_take() {
        fails([
            (bson!({ "$binarySize": 1 }), 51276),
            (bson!({ "$bsonSize": 1 }), 31393),
            (bson!({ "$bitAnd": [1.5] }), 14),
            (bson!({ "$bitNot": 1.5 }), 14),
            (bson!({ "$bitNot": "x" }), 28765),
            (bson!({ "$tsSecond": 1 }), 5687301),
            (bson!({ "$tsIncrement": 1 }), 5687302),
            (bson!({ "$rand": { "a": 1 } }), 3040501),
            (bson!({ "$meta": 1 }), 17307),
            (bson!({ "$meta": "x" }), 17308),
            (bson!({ "$meta": "textScore" }), 40218),
            (
                bson!({ "$function": { "body": "x", "args": [], "lang": "js" } }),
                31264,
            ),
        ]);
    }
}
