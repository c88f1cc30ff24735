//! Accumulators over rows of values.

use bson::{Bson, Document, bson, doc};

use super::Accumulator;
use crate::error::Result;
use crate::expression::tests::{fails as expression_fails, gives};
use crate::expression::{Context, Variables};

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

fn accumulate(specification: &Bson, documents: &[Document]) -> Result<Bson> {
    let accumulator = Accumulator::parse("field", specification, &Context::default())?;
    let variables = Variables::default();
    let mut state = accumulator.start(&Document::new(), &variables)?;
    for document in documents {
        state.add(accumulator.argument(document, &variables)?)?;
    }
    Ok(state.value())
}

/// Each row: an accumulator, the values of the field `a`, and the result.
fn results<const N: usize>(rows: [(Bson, Vec<Bson>, Bson); N]) {
    for (specification, input, expected) in rows {
        let documents: Vec<Document> = input.into_iter().map(|value| doc! { "a": value }).collect();
        assert_eq!(
            accumulate(&specification, &documents),
            Ok(expected),
            "{specification}"
        );
    }
}

#[test]
fn sums() {
    results([
        (
            bson!({ "$sum": "$a" }),
            vec![bson!(1), bson!(2), bson!("x")],
            bson!(3),
        ),
        (bson!({ "$sum": "$a" }), vec![], bson!(0)),
        (
            bson!({ "$sum": "$a" }),
            vec![bson!(i32::MAX), bson!(1)],
            bson!(2147483648_i64),
        ),
        (
            bson!({ "$sum": "$a" }),
            vec![bson!(i64::MAX), bson!(1)],
            bson!(9223372036854775808.0),
        ),
        (bson!({ "$sum": "$a" }), vec![bson!(0.1); 10], bson!(1.0)),
        (
            bson!({ "$sum": "$a" }),
            vec![bson!(1), decimal("0.1")],
            decimal("1.1"),
        ),
        (
            bson!({ "$sum": "$a" }),
            vec![bson!(f64::INFINITY), bson!(1)],
            bson!(f64::INFINITY),
        ),
    ]);
}

#[test]
fn counts_and_averages() {
    results([
        (bson!({ "$count": {} }), vec![bson!(1), bson!(2)], bson!(2)),
        (
            bson!({ "$avg": "$a" }),
            vec![bson!(1), bson!(2)],
            bson!(1.5),
        ),
        (bson!({ "$avg": "$a" }), vec![bson!("x")], bson!(null)),
        (
            bson!({ "$avg": "$a" }),
            vec![decimal("1"), bson!(2)],
            decimal("1.5"),
        ),
        (
            bson!({ "$stdDevPop": "$a" }),
            vec![bson!(1), bson!(3)],
            bson!(1.0),
        ),
        (bson!({ "$stdDevSamp": "$a" }), vec![bson!(1)], bson!(null)),
        (
            bson!({ "$stdDevSamp": "$a" }),
            vec![bson!(1), bson!(1)],
            bson!(0.0),
        ),
        (
            bson!({ "$median": { "input": "$a", "method": "approximate" } }),
            vec![bson!(3), bson!(1), bson!(2), bson!(4)],
            bson!(2.0),
        ),
        (
            bson!({ "$percentile": { "input": "$a", "p": [0.0, 0.9], "method": "approximate" } }),
            vec![bson!(3), bson!(1), bson!(2)],
            bson!([1.0, 3.0]),
        ),
    ]);
}

#[test]
fn keeps_values() {
    let documents = [
        doc! { "a": 2, "b": { "x": 1 } },
        doc! { "a": 1, "b": null },
        doc! { "b": { "x": 2, "y": 3 } },
        doc! { "a": 2 },
    ];
    for (specification, expected) in [
        (bson!({ "$min": "$a" }), bson!(1)),
        (bson!({ "$max": "$none" }), bson!(null)),
        (bson!({ "$first": "$a" }), bson!(2)),
        (bson!({ "$last": "$none" }), bson!(null)),
        (bson!({ "$push": "$a" }), bson!([2, 1, 2])),
        (bson!({ "$addToSet": "$a" }), bson!([2, 1])),
        (bson!({ "$mergeObjects": "$b" }), bson!({ "x": 2, "y": 3 })),
        (
            bson!({ "$firstN": { "n": 3, "input": "$a" } }),
            bson!([2, 1, null]),
        ),
        (
            bson!({ "$lastN": { "n": 2, "input": "$a" } }),
            bson!([null, 2]),
        ),
        (bson!({ "$minN": { "n": 2, "input": "$a" } }), bson!([1, 2])),
        (bson!({ "$maxN": { "n": 2, "input": "$a" } }), bson!([2, 2])),
        (
            bson!({ "$top": { "output": "$a", "sortBy": { "a": -1 } } }),
            bson!(2),
        ),
        (
            bson!({ "$bottom": { "output": "$a", "sortBy": { "a": -1 } } }),
            bson!(null),
        ),
        (
            bson!({ "$topN": { "n": 2, "output": "$a", "sortBy": { "a": 1 } } }),
            bson!([null, 1]),
        ),
        (
            bson!({ "$bottomN": { "n": 2, "output": "$a", "sortBy": { "a": 1 } } }),
            bson!([2, 2]),
        ),
    ] {
        assert_eq!(
            accumulate(&specification, &documents),
            Ok(expected),
            "{specification}"
        );
    }
}

#[test]
fn refuses_malformed_accumulators() {
    for (specification, code) in [
        (bson!(1), 40234),
        (bson!({ "x": 1 }), 40234),
        (bson!({ "$sum": 1, "$avg": 1 }), 40238),
        (bson!({ "$sum": [1] }), 40237),
        (bson!({ "$none": 1 }), 15952),
        (bson!({ "$count": 1 }), 14),
        (bson!({ "$mergeObjects": 1 }), 5911200),
        (bson!({ "$firstN": 1 }), 5787900),
        (bson!({ "$firstN": { "x": 1 } }), 5787901),
        (bson!({ "$firstN": { "n": "x", "input": 1 } }), 7548606),
        (bson!({ "$firstN": { "n": 1.5, "input": 1 } }), 7548606),
        (bson!({ "$firstN": { "input": 1 } }), 5787906),
        (bson!({ "$firstN": { "n": 1 } }), 5787907),
        (bson!({ "$firstN": { "n": 0, "input": 1 } }), 7548606),
        (bson!({ "$top": 1 }), 5788001),
        (bson!({ "$top": { "n": 1 } }), 5788002),
        (
            bson!({ "$topN": { "output": 1, "sortBy": { "a": 1 } } }),
            5788003,
        ),
        (bson!({ "$top": { "sortBy": { "a": 1 } } }), 5788004),
        (bson!({ "$top": { "output": 1 } }), 5788005),
        (bson!({ "$percentile": 1 }), 7429703),
        (
            bson!({ "$percentile": { "input": 1, "p": [2], "method": "approximate" } }),
            7750303,
        ),
        (
            bson!({ "$percentile": { "input": 1, "p": [], "method": "approximate" } }),
            7750301,
        ),
        (
            bson!({ "$percentile": { "input": 1, "p": ["x"], "method": "approximate" } }),
            7750302,
        ),
        (
            bson!({ "$percentile": { "input": 1, "p": ["$a"], "method": "approximate" } }),
            7750300,
        ),
        (bson!({ "$median": { "input": 1 } }), 40414),
        (bson!({ "$median": { "input": 1, "method": "x" } }), 2),
        (
            bson!({ "$median": { "input": 1, "method": "approximate", "p": 1 } }),
            40415,
        ),
    ] {
        let error = accumulate(&specification, &[doc! {}]).unwrap_err();
        assert_eq!(error.code.0, code, "{specification}: {error}");
    }
}

#[test]
fn works_on_arrays_as_operators() {
    gives([
        (bson!({ "$sum": "$list" }), bson!(6)),
        (bson!({ "$sum": ["$a", "$b", "$list"] }), bson!(3.5)),
        (bson!({ "$avg": "$list" }), bson!(2.0)),
        (bson!({ "$min": "$list" }), bson!(1)),
        (bson!({ "$max": ["$a", "$list"] }), bson!([3, 1, 2])),
        (bson!({ "$first": "$list" }), bson!(3)),
        (bson!({ "$last": "$list" }), bson!(2)),
        (
            bson!({ "$firstN": { "n": 2, "input": "$list" } }),
            bson!([3, 1]),
        ),
        (
            bson!({ "$lastN": { "n": 2, "input": "$list" } }),
            bson!([1, 2]),
        ),
        (
            bson!({ "$minN": { "n": 2, "input": "$list" } }),
            bson!([1, 2]),
        ),
        (
            bson!({ "$maxN": { "n": 2, "input": "$list" } }),
            bson!([3, 2]),
        ),
        (bson!({ "$stdDevPop": [[1, 3]] }), bson!(1.0)),
        (bson!({ "$stdDevSamp": [1] }), bson!(null)),
        (
            bson!({ "$median": { "input": "$list", "method": "approximate" } }),
            bson!(2.0),
        ),
        (
            bson!({ "$percentile": { "input": "$list", "p": [1], "method": "approximate" } }),
            bson!([3.0]),
        ),
        (bson!({ "$mergeObjects": ["$o", null, { "x": 2 }] }), {
            bson!({ "x": 2, "y": { "z": [{ "k": 1 }, { "k": 2 }, 7, [{ "k": 3 }]] } })
        }),
    ]);
    expression_fails([
        (bson!({ "$first": 1 }), 28689),
        (bson!({ "$firstN": { "n": 1, "input": 1 } }), 5788200),
        (bson!({ "$mergeObjects": [1] }), 40400),
    ]);
}
