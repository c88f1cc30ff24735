//! `$and`, `$or` and `$not`. Any value has a truth.

use super::operator::{Form, Operator, take};
use super::{Call, Frame, is_truthy, some};
use crate::error::Result;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy("$and", Form::Any, |call, frame| {
        some(!any(call, frame, false)?)
    }),
    Operator::values("$not", Form::Exactly(1), |values, _| {
        let [value] = take(values);
        some(!value.as_deref().is_some_and(is_truthy))
    }),
    Operator::lazy("$or", Form::Any, |call, frame| {
        some(any(call, frame, true)?)
    }),
];

/// Whether any argument has the truth wanted; arguments after it are not evaluated.
fn any<'a>(call: &'a Call, frame: &Frame<'a>, wanted: bool) -> Result<bool> {
    for argument in &call.arguments {
        if argument.evaluate(frame)?.as_deref().is_some_and(is_truthy) == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use crate::expression::tests::{fails, gives};

    #[test]
    fn decides() {
        gives([
            (bson!({ "$and": [] }), bson!(true)),
            (bson!({ "$and": ["$a", "$s", "$t"] }), bson!(true)),
            (bson!({ "$and": ["$a", "$n"] }), bson!(false)),
            (bson!({ "$or": [] }), bson!(false)),
            (bson!({ "$or": ["$none", 0.0, "$t"] }), bson!(true)),
            (bson!({ "$not": "$none" }), bson!(true)),
            (bson!({ "$not": ["$list"] }), bson!(false)),
        ]);
        fails([
            (bson!({ "$not": [] }), 16020),
            (bson!({ "$not": [1, 2] }), 16020),
        ]);
    }
}
