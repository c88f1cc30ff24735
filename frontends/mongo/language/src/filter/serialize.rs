//! The tree written as a filter again, each thing in one way.

use bson::{Bson, Document, doc};

use super::{Node, Test};

pub(super) fn document(node: &Node) -> Document {
    match node {
        Node::And(nodes) if nodes.is_empty() => Document::new(),
        Node::And(nodes) => doc! {"$and": documents(nodes)},
        Node::Or(nodes) => doc! {"$or": documents(nodes)},
        Node::Nor(nodes) => doc! {"$nor": documents(nodes)},
        Node::Not(node) => negation(node),
        Node::Field { path, test } => doc! {path.as_str(): operators(test)},
        Node::Expression(computed) => doc! {"$expr": computed.source.clone()},
        Node::Schema(schema) => doc! {"$jsonSchema": schema.source().clone()},
        Node::Sample(share) => doc! {"$sampleRate": *share},
        Node::AlwaysTrue => doc! {"$alwaysTrue": 1},
        Node::AlwaysFalse => doc! {"$alwaysFalse": 1},
    }
}

fn documents(nodes: &[Node]) -> Bson {
    Bson::Array(
        nodes
            .iter()
            .map(|node| Bson::Document(document(node)))
            .collect(),
    )
}

/// `$not` takes operators of one path; anything else is negated by `$nor`.
fn negation(node: &Node) -> Document {
    match node {
        Node::Field { path, test } => doc! {path.as_str(): {"$not": operators(test)}},
        node => doc! {"$nor": [document(node)]},
    }
}

fn operators(test: &Test) -> Document {
    match test {
        Test::Compare { op, value } => doc! {op.name(): value.clone()},
        Test::In(members) => {
            let regexes = members.regexes().iter().map(|regex| regex.to_bson());
            let values = members.values().iter().cloned().chain(regexes);
            doc! {"$in": values.collect::<Vec<_>>()}
        }
        Test::Regex(regex) if regex.options().is_empty() => doc! {"$regex": regex.pattern()},
        Test::Regex(regex) => doc! {"$regex": regex.pattern(), "$options": regex.options()},
        Test::Exists => doc! {"$exists": true},
        Test::Type(types) => doc! {"$type": types.to_bson()},
        Test::Size(size) => doc! {"$size": i64::try_from(*size).unwrap_or(i64::MAX)},
        Test::Document(node) => doc! {"$elemMatch": document(node)},
        Test::Element(nodes) => {
            let mut all = Document::new();
            for node in nodes {
                all.extend(of_element(node));
            }
            doc! {"$elemMatch": all}
        }
        Test::Modulo { divisor, remainder } => doc! {"$mod": [*divisor, *remainder]},
        Test::Bits { test, mask } => {
            let positions: Vec<_> = mask.positions().iter().map(|at| i64::from(*at)).collect();
            doc! {test.name(): positions}
        }
    }
}

/// The operators of a condition that has no path.
fn of_element(node: &Node) -> Document {
    match node {
        Node::Field { test, .. } => operators(test),
        Node::Not(node) => doc! {"$not": of_element(node)},
        Node::And(nodes) => nodes.iter().flat_map(of_element).collect(),
        other => document(other),
    }
}
