//! Trying a document, or a value, against the tree.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use bson::{Bson, Document};
use tessera_core::deadline::{self, Held};

use super::{Comparison, Node, Test, evaluation};
use crate::collation::Collation;
use crate::error::Result;
use crate::expression::variables::Variables;
use crate::key;
use crate::path::{LeafArray, Path, visit};
use crate::size::footprint;

/// Fewer equalities of one path are tried one by one.
const MANY_EQUALITIES: usize = 32;

/// Where in an array a document matched: the last condition that went through one decides.
#[derive(Default)]
struct Position {
    ignored: bool,
    found: Option<usize>,
}

impl Position {
    fn ignored() -> Self {
        Self {
            ignored: true,
            found: None,
        }
    }

    fn record(&mut self, index: Option<usize>) {
        if index.is_some() && !self.ignored {
            self.found = index;
        }
    }
}

pub(super) struct Matcher<'a> {
    collation: &'a Collation,
    variables: &'a Variables,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(collation: &'a Collation, variables: &'a Variables) -> Self {
        Self {
            collation,
            variables,
        }
    }

    pub(super) fn run(&self, node: &Node, document: &Document) -> Result<Option<Option<usize>>> {
        let mut position = Position::default();
        let matched = self.document(node, document, &mut position)?;
        Ok(matched.then_some(position.found))
    }

    fn holds(&self, node: &Node, document: &Document) -> Result<bool> {
        self.document(node, document, &mut Position::ignored())
    }

    fn document(&self, node: &Node, document: &Document, position: &mut Position) -> Result<bool> {
        match node {
            Node::And(nodes) => {
                if let Some(path) = path_of_equalities(nodes) {
                    return self.equalities(path, nodes, document, position);
                }
                for node in nodes {
                    if !self.document(node, document, position)? {
                        position.found = None;
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Or(nodes) => any(nodes, |node| self.holds(node, document)),
            Node::Nor(nodes) => Ok(!any(nodes, |node| self.holds(node, document))?),
            Node::Not(node) => Ok(!self.holds(node, document)?),
            Node::Field { path, test } => self.field(path, test, document, position),
            Node::Expression(computed) => computed.expression.is_true(document, self.variables),
            Node::Schema(schema) => schema.is_valid(document),
            other => Ok(self.constant(other)),
        }
    }

    /// What depends on nothing.
    fn constant(&self, node: &Node) -> bool {
        match node {
            Node::Sample(share) => rand::random::<f64>() < *share,
            other => *other == Node::AlwaysTrue,
        }
    }

    fn field(
        &self,
        path: &Path,
        test: &Test,
        document: &Document,
        position: &mut Position,
    ) -> Result<bool> {
        let leaf = match test {
            Test::Size(_) | Test::Document(_) | Test::Element(_) => LeafArray::Whole,
            _ => LeafArray::Traverse,
        };
        let passed = visit(document, path, leaf, &mut |value, index| match self
            .test(test, value, position)
        {
            Ok(true) => {
                position.record(index);
                ControlFlow::Break(Ok(true))
            }
            Ok(false) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Err(error)),
        });
        match passed {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(()) => Ok(false),
        }
    }

    /// Many equalities of one path, as of `$all`: the values there are gone through once.
    fn equalities(
        &self,
        path: &Path,
        nodes: &[Node],
        document: &Document,
        position: &mut Position,
    ) -> Result<bool> {
        let mut places: HashMap<Vec<u8>, Option<usize>> = HashMap::new();
        let ControlFlow::Continue(()) =
            visit::<Infallible>(document, path, LeafArray::Traverse, &mut |value, index| {
                // What is missing equals null.
                let key = key::encode(value.unwrap_or(&Bson::Null), self.collation);
                places.entry(key).or_insert(index);
                ControlFlow::Continue(())
            });
        for node in nodes {
            deadline::step(1)?;
            let place = equality(node)
                .and_then(|(_, value)| places.get(&key::encode(value, self.collation)));
            let Some(place) = place else {
                position.found = None;
                return Ok(false);
            };
            position.record(*place);
        }
        Ok(true)
    }

    fn test(&self, test: &Test, value: Option<&Bson>, position: &mut Position) -> Result<bool> {
        deadline::step(1)?;
        match test {
            Test::Compare { op, value: other } => Ok(op.holds(value, other, self.collation)),
            Test::In(members) => members.contains(value, self.collation),
            Test::Regex(regex) => evaluation::regex_matches(regex, value),
            Test::Exists => Ok(value.is_some()),
            Test::Type(types) => Ok(value.is_some_and(|value| types.contains(value))),
            Test::Size(size) => Ok(elements(value).is_some_and(|all| all.len() == *size)),
            Test::Document(node) => first_element(value, position, |element| {
                self.element_document(node, element)
            }),
            Test::Element(nodes) => first_element(value, position, |element| {
                Ok(!any(nodes, |node| Ok(!self.value(node, element)?))?)
            }),
            Test::Modulo { divisor, remainder } => {
                Ok(evaluation::modulo_matches(value, *divisor, *remainder))
            }
            Test::Bits { test, mask } => Ok(value.is_some_and(|value| test.matches(value, mask))),
        }
    }

    /// Arrays within the array count as documents whose fields are the positions.
    fn element_document(&self, node: &Node, element: &Bson) -> Result<bool> {
        match element {
            Bson::Document(document) => self.holds(node, document),
            Bson::Array(elements) => {
                deadline::step(elements.len())?;
                let mut held = Held::new();
                held.add(elements.iter().map(footprint).sum::<usize>() * 2)?;
                let numbered = elements.iter().enumerate();
                let document: Document = numbered
                    .map(|(index, value)| (index.to_string(), value.clone()))
                    .collect();
                self.holds(node, &document)
            }
            _ => Ok(false),
        }
    }

    /// The tests see the value itself, whatever their paths are.
    pub(super) fn value(&self, node: &Node, value: &Bson) -> Result<bool> {
        match node {
            Node::And(nodes) => Ok(!any(nodes, |node| Ok(!self.value(node, value)?))?),
            Node::Or(nodes) => any(nodes, |node| self.value(node, value)),
            Node::Nor(nodes) => Ok(!any(nodes, |node| self.value(node, value))?),
            Node::Not(node) => Ok(!self.value(node, value)?),
            Node::Field { test, .. } => self.test(test, Some(value), &mut Position::ignored()),
            Node::Expression(_) | Node::Schema(_) => Ok(false),
            other => Ok(self.constant(other)),
        }
    }
}

/// The path, if there are many conditions and each is an equality there.
fn path_of_equalities(nodes: &[Node]) -> Option<&Path> {
    if nodes.len() < MANY_EQUALITIES {
        return None;
    }
    let (first, _) = equality(nodes.first()?)?;
    nodes
        .iter()
        .all(|node| equality(node).is_some_and(|(path, _)| path == first))
        .then_some(first)
}

/// The path and the value, if a condition is an equality.
fn equality(node: &Node) -> Option<(&Path, &Bson)> {
    if let Node::Field { path, test } = node
        && let Test::Compare { op, value } = test
        && *op == Comparison::Equal
    {
        return Some((path, value));
    }
    None
}

fn any(nodes: &[Node], mut holds: impl FnMut(&Node) -> Result<bool>) -> Result<bool> {
    for node in nodes {
        if holds(node)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn elements(value: Option<&Bson>) -> Option<&[Bson]> {
    value.and_then(Bson::as_array).map(Vec::as_slice)
}

/// Whether some element is accepted; the first such one is where the match was.
fn first_element(
    value: Option<&Bson>,
    position: &mut Position,
    mut accepts: impl FnMut(&Bson) -> Result<bool>,
) -> Result<bool> {
    for (index, element) in elements(value).unwrap_or_default().iter().enumerate() {
        if accepts(element)? {
            position.record(Some(index));
            return Ok(true);
        }
    }
    Ok(false)
}
