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
    let parser = parser.deeper(1)?;
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

#[cfg(test)]
mod tests {
    use bson::{Bson, Regex, cstr, doc};

    use super::super::testing::{check, refuse};

    #[test]
    fn combines_conditions() {
        let regex = Regex {
            pattern: cstr!("^a").into(),
            options: cstr!("").into(),
        };
        check([
            (
                doc! {"$and": [{"a": 1}, {"b": 2}]},
                doc! {"a": 1, "b": 2},
                true,
            ),
            (doc! {"$and": [{"a": 1}, {"b": 2}]}, doc! {"a": 1}, false),
            (doc! {"$and": [{}]}, doc! {}, true),
            (doc! {"$or": [{"a": 1}, {"b": 2}]}, doc! {"b": 2}, true),
            (doc! {"$or": [{"a": 1}]}, doc! {"a": 2}, false),
            (doc! {"$nor": [{"a": 1}, {"b": 2}]}, doc! {"b": 2}, false),
            (doc! {"$nor": [{"a": 1}, {"b": 2}]}, doc! {}, true),
            (doc! {"a": {"$not": {"$gt": 5}}}, doc! {}, true),
            (doc! {"a": {"$not": {"$gt": 5}}}, doc! {"a": "x"}, true),
            (doc! {"a": {"$not": {"$gt": 5}}}, doc! {"a": [1, 9]}, false),
            (
                doc! {"a": {"$not": {"$gt": 5, "$lt": 9}}},
                doc! {"a": 10},
                true,
            ),
            (doc! {"a": {"$not": regex}}, doc! {"a": "abc"}, false),
            (
                doc! {"a": {"$not": {"$not": {"$eq": 1}}}},
                doc! {"a": 1},
                true,
            ),
            (
                doc! {"a": {"$not": {"$elemMatch": {"$gt": 5}}}},
                doc! {"a": 9},
                true,
            ),
        ]);
    }

    #[test]
    fn refuses_what_is_no_list_of_filters() {
        for operator in ["$and", "$or", "$nor"] {
            refuse([
                (doc! {operator: []}, 2),
                (doc! {operator: {"a": 1}}, 2),
                (doc! {operator: Bson::Null}, 2),
                (doc! {operator: [1]}, 2),
                (doc! {operator: [{"a": 1}, [{"b": 1}]]}, 2),
                (doc! {operator: [{"$foo": 1}]}, 2),
                (doc! {"a": {operator: [{"b": 1}]}}, 2),
            ]);
        }
        refuse([
            (doc! {"$not": {"a": 1}}, 2),
            (doc! {"a": {"$not": 5}}, 2),
            (doc! {"a": {"$not": {}}}, 2),
            (doc! {"a": {"$not": [1]}}, 2),
            (doc! {"a": {"$not": {"b": 1}}}, 2),
            (doc! {"a": {"$not": {"$where": "1"}}}, 2),
        ]);
    }
}
