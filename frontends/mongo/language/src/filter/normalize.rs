//! One tree for filters that mean the same: nested conjunctions are joined and ordered, and a
//! choice between values of one path is an `$in`.
//!
//! The order of a conjunction is MongoDB's: it decides which of several conditions on arrays gives
//! the positional operator its position, since the last one does.

use super::{BitTest, Comparison, Members, Node, Test};
use crate::collation::Collation;

pub(super) fn normalize(node: Node, collation: &Collation) -> Node {
    match node {
        Node::And(nodes) => conjunction(nodes, collation),
        Node::Or(nodes) => {
            let nodes: Vec<_> = nodes
                .into_iter()
                .map(|node| normalize(node, collation))
                .collect();
            match choice(&nodes, collation) {
                Some(choice) => choice,
                None => single(nodes, Node::Or),
            }
        }
        Node::Nor(nodes) => Node::Nor(
            nodes
                .into_iter()
                .map(|node| normalize(node, collation))
                .collect(),
        ),
        Node::Not(node) => Node::Not(Box::new(normalize(*node, collation))),
        other => other,
    }
}

fn conjunction(nodes: Vec<Node>, collation: &Collation) -> Node {
    let mut flat = Vec::with_capacity(nodes.len());
    for node in nodes {
        match normalize(node, collation) {
            Node::And(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    flat.sort_by(|a, b| (rank(a), path(a)).cmp(&(rank(b), path(b))));
    single(flat, Node::And)
}

fn single(mut nodes: Vec<Node>, many: fn(Vec<Node>) -> Node) -> Node {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => only,
        last => {
            nodes.extend(last);
            many(nodes)
        }
    }
}

/// An `$in`, if each alternative is an equality or a pattern for one path.
fn choice(nodes: &[Node], collation: &Collation) -> Option<Node> {
    let Some(Node::Field { path: common, .. }) = nodes.first() else {
        return None;
    };
    if nodes.len() < 2 {
        return None;
    }
    let (mut values, mut regexes) = (Vec::new(), Vec::new());
    for node in nodes {
        match node {
            Node::Field { path, test } if path == common => match test {
                Test::Compare {
                    op: Comparison::Equal,
                    value,
                } => values.push(value.clone()),
                Test::Regex(regex) => regexes.push(regex.clone()),
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(Node::field(
        common,
        Test::In(Members::new(values, regexes, collation)),
    ))
}

fn path(node: &Node) -> &str {
    match node {
        Node::Field { path, .. } => path.as_str(),
        Node::Not(node) => path(node),
        _ => "",
    }
}

fn rank(node: &Node) -> u8 {
    match node {
        Node::And(_) => 0,
        Node::Or(_) => 1,
        Node::Field { test, .. } => test_rank(test),
        Node::Not(_) => 18,
        Node::Nor(_) => 19,
        Node::Expression(_) => 21,
        Node::Sample(_) => 22,
        Node::AlwaysFalse => 23,
        Node::AlwaysTrue => 24,
        Node::Schema(_) => 25,
    }
}

fn test_rank(test: &Test) -> u8 {
    match test {
        Test::Document(_) => 2,
        Test::Element(_) => 3,
        Test::Size(_) => 4,
        Test::Compare { op, .. } => match op {
            Comparison::Equal => 5,
            Comparison::LessOrEqual => 6,
            Comparison::Less => 7,
            Comparison::Greater => 8,
            Comparison::GreaterOrEqual => 9,
        },
        Test::Regex(_) => 10,
        Test::Modulo { .. } => 11,
        Test::Exists => 12,
        Test::In(_) => 13,
        Test::Bits { test, .. } => match test {
            BitTest::AllSet => 14,
            BitTest::AllClear => 15,
            BitTest::AnySet => 16,
            BitTest::AnyClear => 17,
        },
        Test::Type(_) => 20,
    }
}
