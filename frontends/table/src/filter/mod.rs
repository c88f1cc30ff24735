//! `$filter`: its grammar, its meaning, and the keys it leaves to read.
//!
//! [`parse()`] turns the text into an [`Expression`] (`parse` has the grammar, `literal` its
//! constants, `mistake` what a refusal says). [`plan()`] derives from the expression the pieces of
//! the key order that can hold a match, as sets of keys (`key_set`). The entities read are then
//! checked against the expression by [`matches()`], so a plan may cover too much but never too
//! little.

mod evaluate;
mod expression;
mod key_set;
mod literal;
mod mistake;
mod parse;
mod plan;

pub(crate) use evaluate::{Properties, matches};
pub(crate) use expression::Expression;
pub(crate) use parse::parse;
pub(crate) use plan::{Bounds, KeyRange, Piece, plan};
