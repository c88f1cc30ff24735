//! `$and`, `$or`, `$nor` and `$not`.

use bson::Bson;

use super::parse::{Operand, Parser};
use super::{Node, Test};
use crate::error::{Result, bad_value};
use crate::regex::Regex;

pub(super) fn tree(parser: Parser<'_>, name: &str, value: &Bson) -> Result<Option<Node>> {
    let Bson::Array(conditions) = value else {
        return Err(bad_value(format!("{name} argument must be an array")));
    };
    if conditions.is_empty() {
        return Err(bad_value(format!(
            "{name} argument must be a non-empty array"
        )));
    }
    let nodes = conditions
        .iter()
        .map(|condition| match condition {
            Bson::Document(condition) => parser.document(condition),
            _ => Err(bad_value(format!(
                "{name} argument's entries must be objects"
            ))),
        })
        .collect::<Result<_>>()?;
    Ok(Some(match name {
        "$and" => Node::And(nodes),
        "$or" => Node::Or(nodes),
        _ => Node::Nor(nodes),
    }))
}

pub(super) fn not(parser: Parser<'_>, operand: &Operand<'_>) -> Result<Option<Node>> {
    let node = match operand.value {
        Bson::RegularExpression(regex) => {
            Node::field(operand.path, Test::Regex(Regex::from_bson(regex)?))
        }
        Bson::Document(operators) if operators.is_empty() => {
            return Err(bad_value("$not argument must be a non-empty object"));
        }
        Bson::Document(operators) => Node::all(parser.operators(operand.path, operators)?),
        _ => return Err(bad_value("$not argument must be a regex or an object")),
    };
    Ok(Some(node.negated()))
}
