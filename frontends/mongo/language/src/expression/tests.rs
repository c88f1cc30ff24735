//! How expressions are checked: rows of an expression, and of what it gives or which code.

use bson::{Bson, Document, Timestamp, bson, doc};

use super::{Context, Expression, ParseContext, Variables};
use crate::collation::Collation;
use crate::error::Result;

pub(super) fn evaluate(expression: &Bson, document: &Document) -> Result<Option<Bson>> {
    let context = Context {
        collation: Collation::default(),
        variables: Variables::system(
            bson::DateTime::from_millis(0),
            Some(Timestamp {
                time: 1,
                increment: 2,
            }),
            vec![],
        ),
    };
    let parsed = Expression::parse(expression, &ParseContext::from(&context))?;
    parsed.evaluate(document, &context.variables)
}

/// Each row: an expression over a document of all sorts, and its value.
pub(super) fn gives<const N: usize>(rows: [(Bson, Bson); N]) {
    for (expression, expected) in rows {
        let value = evaluate(&expression, &sample());
        let value = value.unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(value, Some(expected), "{expression}");
    }
}

/// Each row: an expression whose value is missing.
pub(super) fn is_missing<const N: usize>(expressions: [Bson; N]) {
    for expression in expressions {
        assert_eq!(evaluate(&expression, &sample()), Ok(None), "{expression}");
    }
}

/// Each row: an expression and the code of its error.
pub(super) fn fails<const N: usize>(rows: [(Bson, i32); N]) {
    for (expression, code) in rows {
        match evaluate(&expression, &sample()) {
            Ok(value) => panic!("{expression} gives {value:?}, not the error {code}"),
            Err(error) => assert_eq!(error.code.0, code, "{expression}: {error}"),
        }
    }
}

fn sample() -> Document {
    doc! {
        "a": 1, "b": 2.5, "s": "text", "n": null, "t": true, "list": [3, 1, 2],
        "o": { "x": 1, "y": { "z": [ { "k": 1 }, { "k": 2 }, 7, [ { "k": 3 } ] ] } },
    }
}

#[test]
fn follows_paths() {
    gives([
        (bson!("$a"), bson!(1)),
        (bson!("$o.x"), bson!(1)),
        (bson!("$o.y.z.k"), bson!([1, 2])),
        (bson!("$o.y.z.none"), bson!([])),
        (bson!("$$ROOT.o.x"), bson!(1)),
        (bson!("$$CURRENT.s"), bson!("text")),
        (
            bson!("$$NOW"),
            Bson::DateTime(bson::DateTime::from_millis(0)),
        ),
        (
            bson!({ "p": "$a", "q": "$none", "r": "$$REMOVE" }),
            bson!({ "p": 1 }),
        ),
        (
            bson!(["$a", "$none", { "x": 1 }]),
            bson!([1, null, { "x": 1 }]),
        ),
        (bson!("plain"), bson!("plain")),
        (bson!({}), bson!({})),
    ]);
    is_missing([
        bson!("$none"),
        bson!("$a.b"),
        bson!("$$REMOVE"),
        bson!("$$ROOT.none"),
    ]);
}

#[test]
fn refuses_paths() {
    fails([
        (bson!("$"), 16872),
        (bson!("$$"), 9),
        (bson!("$$$"), 9),
        (bson!("$$none"), 17276),
        (bson!("$a."), 40353),
        (bson!("$.a"), 15998),
        (bson!("$a..b"), 15998),
        (bson!("$a.$b"), 16410),
        (bson!("$a\u{0}b"), 16411),
        (bson!({ "a.b": 1 }), 16412),
        (bson!({ "a": 1, "$b": 1 }), 16410),
        (bson!({ "$add": [1], "b": 1 }), 15983),
        (bson!({ "$none": 1 }), 168),
        (bson!("$$JS_SCOPE"), 51144),
    ]);
}

#[test]
fn refuses_to_nest_without_end() {
    let mut expression = bson!("$a");
    for _ in 0..300 {
        expression = bson!({ "$not": expression });
    }
    fails([(expression, 15)]);
}

#[test]
fn gives_commands_their_variables() {
    let variables = Variables::default();
    let define = |definitions| variables.with_let(&definitions, &Collation::default());
    let defined = define(doc! { "a": 1, "b": { "$eq": ["$$a", 1] } }).unwrap();
    assert_eq!(defined.get("b"), Some(Some(&Bson::Boolean(true))));
    for (definitions, code) in [
        (doc! { "a": "$field" }, 4890500),
        (doc! { "NOW": 1 }, 4738901),
        (doc! { "Upper": 1 }, 9),
        (doc! { "": 1 }, 9),
        (doc! { "a": "$$b" }, 17276),
    ] {
        assert_eq!(
            define(definitions.clone()).unwrap_err().code.0,
            code,
            "{definitions}"
        );
    }
}
