//! How soon an evaluation notices that its time is over, whatever lies in the values: a step must
//! not stand for work that grows with them.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bson::{Binary, Bson, Document, bson, doc, spec::BinarySubtype};
use tessera_core::deadline::Deadline;

use super::tests::evaluate;
use crate::error::Code;
use crate::number::Number;

/// How long an evaluation may take, and how late it may notice.
const LIMIT: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_millis(1_200);

/// A document whose values hide how large they are: what comes first in them is small.
fn large() -> Document {
    let numbers: Vec<i32> = (0..300_000).collect();
    let fields: Document = (0..100_000)
        .map(|n| (format!("f{n}"), Bson::Int32(n)))
        .collect();
    let nested = (0..60).fold(Bson::from(numbers.clone()), |inner, _| {
        Bson::from(doc! { "x": 1, "y": inner })
    });
    let pairs = (0..17).fold(Bson::from(1), |inner, _| {
        Bson::from(vec![inner.clone(), inner])
    });
    let alone = (0..100_000).map(|_| Bson::from(vec![vec![vec![1]]]));
    let alone = Bson::Array(vec![Bson::Array(vec![Bson::Array(alone.collect())])]);
    doc! {
        "_id": 1,
        "pairs": pairs,
        "alone": alone,
        "document": { "x": 1, "y": fields },
        "array": [1, numbers],
        "nested": nested,
        "text": "a".repeat(4_000_000),
        "bytes": Binary { subtype: BinarySubtype::Generic, bytes: vec![1; 4_000_000] },
    }
}

/// Evaluates an expression again and again until its time is over.
fn is_noticed(expression: Bson, document: &Document) {
    let endless = bson!({ "$size": { "$filter": {
        "input": { "$range": [0, 3_000_000] }, "cond": { "$eq": [expression.clone(), "none"] },
    } } });
    let began = Instant::now();
    let evaluation = Deadline::new(Some(LIMIT), None).run(async { evaluate(&endless, document) });
    let polled = pin!(evaluation).poll(&mut Context::from_waker(Waker::noop()));
    let ended = polled.map_err(|error| error.code);
    let took = began.elapsed();
    let expected = Poll::Ready(Err(Code::MAX_TIME_MS_EXPIRED));
    assert_eq!(ended, expected, "{expression}");
    assert!(took < LIMIT + LATE, "took {took:?}: {expression}");
}

#[test]
fn whole_documents() {
    let document = large();
    for expression in [
        bson!({ "$type": "$$ROOT" }),
        bson!({ "$cond": ["$$ROOT", 1, 2] }),
        bson!({ "$ifNull": ["$$ROOT", 1] }),
        bson!({ "$and": ["$$ROOT", 1] }),
        bson!({ "$or": [false, "$$ROOT"] }),
        bson!({ "$not": "$$ROOT" }),
        bson!({ "$switch": { "branches": [{ "case": "$$ROOT", "then": 1 }] } }),
        bson!({ "$getField": "_id" }),
        bson!({ "$let": { "vars": { "a": "$$ROOT" }, "in": "$$a._id" } }),
        bson!({ "$let": { "vars": { "a": "$document" }, "in": "$$a" } }),
        bson!({ "$eq": ["$$ROOT", "$$ROOT"] }),
        bson!({ "$bsonSize": "$$ROOT" }),
    ] {
        is_noticed(expression, &document);
    }
}

#[test]
fn values_within_values() {
    let document = large();
    for value in ["$document", "$array", "$nested", "$pairs", "$alone"] {
        for expression in [
            bson!({ "$eq": [value, value] }),
            bson!({ "$cmp": [value, [value]] }),
            bson!({ "$in": [value, [1, value]] }),
            bson!({ "$max": [value, value] }),
            bson!({ "$toHashedIndexKey": value }),
            bson!({ "$sum": [value, [value]] }),
            bson!({ "$slice": [[1, value], 2] }),
            bson!({ "$setUnion": [[value], [value]] }),
            bson!({ "$concatArrays": [[value], [value]] }),
            bson!({ "$mergeObjects": [{ "a": value }, { "b": value }] }),
            bson!({ "$bsonSize": { "a": value } }),
            bson!({ "$objectToArray": { "a": value } }),
        ] {
            is_noticed(expression, &document);
        }
    }
}

#[test]
fn texts_that_say_nothing() {
    let document = large();
    let convert = |input: &str, to: Bson, format: &str| {
        let options = doc! { "input": input, "to": to, "format": format, "onError": 1 };
        bson!({ "$convert": options })
    };
    let binary = bson!({ "type": "binData" });
    for to in [
        "int", "long", "double", "decimal", "date", "objectId", "bool",
    ] {
        is_noticed(convert("$text", to.into(), "auto"), &document);
    }
    for format in ["base64", "base64url", "hex", "utf8", "uuid"] {
        is_noticed(convert("$text", binary.clone(), format), &document);
        is_noticed(convert("$bytes", "string".into(), format), &document);
    }
    for format in [Bson::Null, "%Y".into(), "aaaa%Y".into()] {
        let text = bson!({ "dateString": "$text", "format": format, "onError": 1, "onNull": 1 });
        is_noticed(bson!({ "$dateFromString": text }), &document);
    }
    for function in ["$toLower", "$toUpper", "$strLenCP", "$toHashedIndexKey"] {
        is_noticed(bson!({ function: "$text" }), &document);
    }
}

/// What the fuzzer found: values that double, made of arrays with one element.
#[test]
fn values_that_double() {
    let within = |inner: Bson| (0..9).fold(inner, |inner, _| bson!([inner]));
    for body in [
        bson!({ "$concatArrays": ["$$value", ["$$this"], "$$value"] }),
        bson!({ "$setUnion": [["$$value", [1]], ["$$value"]] }),
        bson!({ "a": "$$value", "b": "$$value" }),
        bson!({ "$mergeObjects": [{ "a": "$$value" }, { "b": "$$value" }] }),
        bson!({ "$objectToArray": { "a": "$$value", "b": "$$value" } }),
        bson!({ "$slice": [["$$value", "$$value"], 2] }),
        bson!({ "$reverseArray": [["$$value", "$$value"]] }),
        bson!({ "$zip": { "inputs": [["$$value"], ["$$value"]] } }),
        bson!({ "$let": { "vars": { "v": ["$$value", "$$value"] }, "in": "$$v" } }),
        bson!({ "$map": { "input": [1, 2], "as": "each", "in": "$$value" } }),
    ] {
        let doubling = bson!({ "$reduce": {
            "input": { "$range": [0, 24] }, "initialValue": [], "in": within(body),
        } });
        is_noticed(bson!({ "$type": doubling }), &doc! {});
    }
}

/// A set of characters is looked at for each character of the text: once it took hours.
#[test]
fn texts_are_trimmed_by_many_characters() {
    let chars = format!("{}a", "b".repeat(1_500_000));
    for (operator, left) in [("$trim", 1), ("$ltrim", 2), ("$rtrim", 2)] {
        let text = format!("{0}é{0}", "a".repeat(700_000));
        let document = doc! { "text": &text, "chars": &chars };
        let began = Instant::now();
        let expression = bson!({ operator: { "input": "$text", "chars": "$chars" } });
        let trimmed = evaluate(&expression, &document).unwrap().unwrap();
        let length = trimmed.as_str().unwrap().chars().count();
        let expected = if left == 1 { 1 } else { 700_001 };
        assert_eq!(length, expected, "{operator}");
        assert!(began.elapsed() < Duration::from_secs(5), "{operator}");
    }
}

/// As many variables as a message has room for: once each had a place of its own on the stack, and
/// each use of one looked through all of them.
#[test]
fn variables_are_as_many_as_one_likes() {
    for count in [1, 15, 16, 17, 18, 200_000] {
        let vars: Document = (0..count)
            .map(|n| (format!("v{n}"), Bson::Int32(n)))
            .collect();
        let uses: Vec<String> = (0..count).map(|n| format!("$$v{n}")).collect();
        let summed = bson!({ "$let": { "vars": vars, "in": {
            "$add": [{ "$sum": uses }, "$$outer"],
        } } });
        let shadowed = bson!({ "$let": { "vars": { "v0": 1_000, "outer": 5 }, "in": {
            "$map": { "input": [1, 2], "as": "each", "in": {
                "$add": ["$$each", summed, "$$v0"],
            } },
        } } });
        let small = std::thread::Builder::new().stack_size(1 << 20);
        let evaluated = small
            .spawn(move || {
                let began = Instant::now();
                let value = evaluate(&shadowed, &doc! {});
                (value, began.elapsed())
            })
            .unwrap();
        let (value, took) = evaluated.join().unwrap();
        let total = i64::from(count) * (i64::from(count) - 1) / 2 + 1_005;
        let Some(Bson::Array(values)) = value.unwrap() else {
            panic!("no array for {count}");
        };
        let values: Vec<i64> = values.iter().filter_map(integer).collect();
        assert_eq!(values, [total + 1, total + 2], "{count}");
        assert!(took < Duration::from_secs(20), "{took:?} for {count}");
    }
}

fn integer(value: &Bson) -> Option<i64> {
    Number::from_bson(value).and_then(Number::as_i64_exact)
}
