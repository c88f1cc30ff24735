//! Comparisons: `$cmp`, `$eq`, `$gt`, `$gte`, `$lt`, `$lte`, `$ne`. Any two values compare.

use std::cmp::Ordering;

use bson::Bson;

use super::operator::{Form, Operator, take};
use super::{Frame, Value, some};
use crate::compare;
use crate::error::Result;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$cmp", Form::Exactly(2), cmp),
    Operator::values("$eq", Form::Exactly(2), |v, f| some(order(v, f).is_eq())),
    Operator::values("$gt", Form::Exactly(2), |v, f| some(order(v, f).is_gt())),
    Operator::values("$gte", Form::Exactly(2), |v, f| some(order(v, f).is_ge())),
    Operator::values("$lt", Form::Exactly(2), |v, f| some(order(v, f).is_lt())),
    Operator::values("$lte", Form::Exactly(2), |v, f| some(order(v, f).is_le())),
    Operator::values("$ne", Form::Exactly(2), |v, f| some(order(v, f).is_ne())),
];

fn cmp<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Result<Value<'a>> {
    some(match order(values, frame) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

fn order<'a>(values: Vec<Value<'a>>, frame: &Frame<'a>) -> Ordering {
    let [left, right] = take(values);
    compare_values(left.as_deref(), right.as_deref(), frame)
}

/// The order of two values of which either may be missing; missing is below all but the least key.
pub(super) fn compare_values(
    left: Option<&Bson>,
    right: Option<&Bson>,
    frame: &Frame<'_>,
) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => compare::compare(left, right, frame.collation),
        (None, None) => Ordering::Equal,
        (None, Some(Bson::MinKey)) => Ordering::Greater,
        (Some(Bson::MinKey), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::tests::{fails, gives};

    #[test]
    fn compares() {
        gives([
            (bson!({ "$cmp": ["$a", 2] }), bson!(-1)),
            (bson!({ "$cmp": [2, "$a"] }), bson!(1)),
            (bson!({ "$eq": ["$none", "$gone"] }), bson!(true)),
            (bson!({ "$eq": ["$none", null] }), bson!(false)),
            (bson!({ "$gt": ["$a", null] }), bson!(true)),
            (bson!({ "$gte": [1, 1.0] }), bson!(true)),
            (bson!({ "$lt": ["$none", null] }), bson!(true)),
            (bson!({ "$lte": ["a", "b"] }), bson!(true)),
            (bson!({ "$ne": [[1], [1]] }), bson!(false)),
        ]);
        fails([
            (bson!({ "$eq": [1] }), 16020),
            (bson!({ "$cmp": 1 }), 16020),
        ]);
    }
}
