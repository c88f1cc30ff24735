//! `$literal`, and operators that belong to no family.

use bson::Bson;

use super::operator::{Form, Operator};
use super::{Node, ParseContext};
use crate::error::Result;

pub(super) const OPERATORS: &[Operator] = &[Operator::lazy(
    "$literal",
    Form::Special(literal),
    |_, _| Ok(None),
)];

/// A literal is what it says, even where it looks like an expression.
fn literal(_: &'static Operator, argument: &Bson, _: &ParseContext<'_>) -> Result<Node> {
    Ok(Node::Constant(Some(argument.clone())))
}
