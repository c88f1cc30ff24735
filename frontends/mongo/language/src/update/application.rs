//! Applying the tree of an update to a document.

use bson::{Bson, Document};
use tessera_core::deadline;

use super::{
    modifier::{At, Change, Modifier},
    names,
    target::{MAX_DEPTH, Step, too_deep},
    touched::Touched,
    tree::{Node, Tree},
};
use crate::error::{Code, Error, Result};
use crate::size::take_field;

/// Steps for each value that changes: its path is put together.
const LEAF_STEPS: usize = 4;

/// How far beyond its end an array grows when one of its elements is set.
const MAX_BACKFILL: usize = 1_500_000;

/// Changes a document, noting where.
pub(super) struct Application<'a> {
    is_insert: bool,
    path: Vec<&'a str>,
    touched: Touched,
}

impl<'a> Application<'a> {
    /// Applies the tree, and adds the paths at which something changed.
    pub(super) fn run(
        tree: &'a Tree,
        document: &mut Document,
        is_insert: bool,
        touched: Touched,
    ) -> Result<Touched> {
        let mut application = Self {
            is_insert,
            path: Vec::new(),
            touched,
        };
        application.document(tree, document)?;
        Ok(application.touched)
    }

    fn document(&mut self, tree: &'a Tree, document: &mut Document) -> Result<()> {
        for (name, node) in tree.iter() {
            self.path.push(name);
            if let Some(value) = document.get_mut(name) {
                let change = self.value(node, value)?;
                if change == Change::Removed {
                    take_field(document, name);
                } else if change == Change::Changed {
                    self.check_name(name)?;
                }
            } else if let Some(value) = self.created(node)? {
                self.check_name(name)?;
                document.insert(name, value);
            }
            self.path.pop();
        }
        Ok(())
    }

    fn array(&mut self, tree: &'a Tree, elements: &mut Vec<Bson>) -> Result<()> {
        for (name, node) in tree.iter() {
            self.path.push(name);
            match Step::index(name) {
                None => self.refuse(node, "an array")?,
                Some(position) => match elements.get_mut(position) {
                    Some(element) => {
                        if self.value(node, element)? == Change::Removed {
                            // The positions of the others stay.
                            *element = Bson::Null;
                        }
                    }
                    None => {
                        if let Some(value) = self.created(node)? {
                            append_at(elements, position, value)?;
                        }
                    }
                },
            }
            self.path.pop();
        }
        Ok(())
    }

    /// Changes a value that is there. What lies within it is no change of the value itself.
    fn value(&mut self, node: &'a Node, value: &mut Bson) -> Result<Change> {
        match (node, value) {
            (Node::Leaf(modifier), value) => self.leaf(modifier.as_ref(), value),
            (Node::Inner(tree), Bson::Document(document)) => {
                self.document(tree, document)?;
                Ok(Change::None)
            }
            (Node::Inner(tree), Bson::Array(elements)) => {
                self.array(tree, elements)?;
                Ok(Change::None)
            }
            (Node::Inner(tree), _) => {
                for (name, node) in tree.iter() {
                    self.path.push(name);
                    self.refuse(node, "a value that is no document")?;
                    self.path.pop();
                }
                Ok(Change::None)
            }
            (Node::Reserved, _) => Ok(Change::None),
        }
    }

    fn leaf(&mut self, modifier: &dyn Modifier, value: &mut Bson) -> Result<Change> {
        deadline::step(LEAF_STEPS)?;
        if modifier.only_on_insert() && !self.is_insert {
            return Ok(Change::None);
        }
        let change = modifier.change(value, At(&self.path))?;
        match change {
            Change::None => {}
            Change::Removed => self.touched.note(&At(&self.path)),
            Change::Changed => {
                self.check_depth(value)?;
                self.touched.note(&At(&self.path));
            }
            Change::Appended(from) => {
                self.check_depth(value)?;
                let length = value.as_array().map_or(from, Vec::len);
                self.touched.note_elements(&At(&self.path), from..length);
                return Ok(Change::Changed);
            }
        }
        Ok(change)
    }

    /// The value of a field that is not there; none if it stays so.
    fn created(&mut self, node: &'a Node) -> Result<Option<Bson>> {
        deadline::step(LEAF_STEPS)?;
        match node {
            Node::Leaf(modifier) if modifier.only_on_insert() && !self.is_insert => Ok(None),
            Node::Leaf(modifier) => {
                let value = modifier.create()?;
                if let Some(value) = &value {
                    self.check_depth(value)?;
                    self.touched.note(&At(&self.path));
                }
                Ok(value)
            }
            Node::Inner(tree) => {
                let mut document = Document::new();
                for (name, node) in tree.iter() {
                    self.path.push(name);
                    if let Some(value) = self.created(node)? {
                        document.insert(name, value);
                    }
                    self.path.pop();
                }
                Ok((!document.is_empty()).then_some(Bson::Document(document)))
            }
            Node::Reserved => Ok(None),
        }
    }

    /// Refuses what would have to lie within something that holds no fields of that name.
    fn refuse(&self, node: &Node, holder: &str) -> Result<()> {
        match node {
            Node::Leaf(modifier) if modifier.only_on_insert() && !self.is_insert => Ok(()),
            Node::Leaf(modifier) if modifier.needs_viable_path() => Err(Error::new(
                Code::PATH_NOT_VIABLE,
                format!("Cannot create field '{}' in {holder}", At(&self.path)),
            )),
            Node::Leaf(_) | Node::Reserved => Ok(()),
            Node::Inner(tree) => tree
                .iter()
                .try_for_each(|(_, node)| self.refuse(node, holder)),
        }
    }

    /// Refuses names that fields of a stored document cannot have; deeper ones may have any.
    fn check_name(&self, name: &str) -> Result<()> {
        if self.path.len() == 1 {
            names::check_top_level(name)?;
        }
        Ok(())
    }

    fn check_depth(&self, value: &Bson) -> Result<()> {
        if self.path.len() + names::depth(value) > MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(())
    }
}

/// Puts an element at a position beyond the end, with nulls between.
fn append_at(elements: &mut Vec<Bson>, position: usize, value: Bson) -> Result<()> {
    let gap = position - elements.len();
    if gap > MAX_BACKFILL {
        return Err(Error::new(
            Code::CANNOT_BACKFILL_ARRAY,
            format!("can't backfill more than {MAX_BACKFILL} elements"),
        ));
    }
    elements.resize(position, Bson::Null);
    elements.push(value);
    Ok(())
}
