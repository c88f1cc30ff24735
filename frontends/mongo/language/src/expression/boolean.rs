//! `$and`, `$or` and `$not`. Any value has a truth.

use bson::Bson;

use super::operator::{Fold, Form, Operator, take};
use super::{Call, Frame, Node, is_truthy, some};
use crate::collation::Collation;
use crate::error::Result;

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        fold: Fold::Own(|call, collation| fold(call, collation, false)),
        ..Operator::lazy("$and", Form::Any, |call, frame| {
            some(!any(call, frame, false)?)
        })
    },
    Operator::values("$not", Form::Exactly(1), |values, _| {
        let [value] = take(values);
        some(!value.as_deref().is_some_and(is_truthy))
    }),
    Operator {
        fold: Fold::Own(|call, collation| fold(call, collation, true)),
        ..Operator::lazy("$or", Form::Any, |call, frame| {
            some(any(call, frame, true)?)
        })
    },
];

/// A constant that decides does so wherever it stands; one that does not makes no difference.
fn fold(mut call: Call, collation: &Collation, decisive: bool) -> Result<Node> {
    let arguments = super::fold_all(call.arguments, collation)?;
    let truth = |node: &Node| match node {
        Node::Constant(value) => Some(value.as_ref().is_some_and(is_truthy)),
        _ => None,
    };
    if arguments
        .iter()
        .any(|argument| truth(argument) == Some(decisive))
    {
        return Ok(Node::Constant(Some(Bson::Boolean(decisive))));
    }
    call.arguments = arguments
        .into_iter()
        .filter(|node| truth(node).is_none())
        .collect();
    if call.arguments.is_empty() {
        return Ok(Node::Constant(Some(Bson::Boolean(!decisive))));
    }
    Ok(Node::Call(Box::new(call)))
}

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
            (
                bson!({ "$or": [{ "$divide": [1, "$none"] }, { "$add": ["$s"] }, true] }),
                bson!(true),
            ),
            (bson!({ "$not": "$none" }), bson!(true)),
            (bson!({ "$not": ["$list"] }), bson!(false)),
        ]);
        fails([
            (bson!({ "$not": [] }), 16020),
            (bson!({ "$not": [1, 2] }), 16020),
        ]);
    }
}
