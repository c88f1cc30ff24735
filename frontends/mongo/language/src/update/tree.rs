//! The fields that an update changes, as a tree: so that paths which lie in each other are found,
//! and new fields come in MongoDB's order.

use std::{collections::BTreeMap, sync::Arc};

use tessera_core::deadline;

use super::{
    modifier::Modifier,
    target::{Name, Step, Target},
};
use crate::error::{Code, Error, Result};

/// The children of a field, in the order in which they are changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    children: BTreeMap<Key, Node>,
}

/// What is to be done at a field.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Something below it.
    Inner(Tree),
    /// This.
    Leaf(Arc<dyn Modifier>),
    /// Nothing, but nothing else may touch it: the field that `$rename` takes from.
    Reserved,
}

/// Positions come first, as numbers; then names, as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Position(usize, Name),
    Step(Step),
}

impl Key {
    fn new(step: &Step) -> Self {
        match step {
            Step::Name(name) => match Step::index(name.as_str()) {
                Some(position) => Self::Position(position, name.clone()),
                None => Self::Step(step.clone()),
            },
            _ => Self::Step(step.clone()),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Position(_, name) | Self::Step(Step::Name(name)) => name.as_str(),
            // Such steps are resolved before a tree is applied.
            Self::Step(Step::Matched | Step::Elements(_)) => "$",
        }
    }

    fn is_elements(&self) -> bool {
        matches!(self, Self::Step(step) if step.is_elements())
    }
}

impl Tree {
    /// Puts a node at the end of a path. Code 40 if the path lies in another one, or another in it.
    pub(super) fn insert(&mut self, target: &Target, node: Node) -> Result<()> {
        self.insert_at(target, 0, node)
    }

    fn insert_at(&mut self, target: &Target, depth: usize, node: Node) -> Result<()> {
        deadline::step(1)?;
        let Some(step) = target.steps.get(depth) else {
            return Ok(());
        };
        // An array is updated through `$[…]` or through positions and names, not both.
        let elements = step.is_elements();
        // All children are of one kind, so that the first one tells.
        let first = self.children.keys().next();
        if first.is_some_and(|key| key.is_elements() != elements) {
            return Err(conflict(target, depth));
        }
        let last = depth + 1 == target.steps.len();
        let key = Key::new(step);
        if last {
            return match self.children.insert(key, node) {
                None => Ok(()),
                Some(_) => Err(conflict(target, depth + 1)),
            };
        }
        let child = self
            .children
            .entry(key)
            .or_insert_with(|| Node::Inner(Self::default()));
        match child {
            Node::Inner(tree) => tree.insert_at(target, depth + 1, node),
            Node::Leaf(_) | Node::Reserved => Err(conflict(target, depth + 1)),
        }
    }

    /// The children with their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.children.iter().map(|(key, node)| (key.name(), node))
    }
}

fn conflict(target: &Target, length: usize) -> Error {
    let prefix = Target {
        steps: target.steps.iter().take(length).cloned().collect(),
    };
    Error::new(
        Code::CONFLICTING_UPDATE_OPERATORS,
        format!("Updating the path '{target}' would create a conflict at '{prefix}'"),
    )
}
