//! Sending a document through the tree.

use std::collections::HashSet;

use bson::{Bson, Document};
use tessera_core::deadline::{self, Held};

use super::{Child, Kind, Projection, Slice, Source, Tree};
use crate::error::{Code, Error, Result};
use crate::path::{Component, Path};
use crate::size::{FIELD_BYTES, footprint, take_field};

pub(super) fn apply(
    projection: &Projection,
    document: Document,
    position: Option<usize>,
) -> Result<Document> {
    let computed = projection
        .sources
        .iter()
        .map(|source| compute(projection, source, &document))
        .collect::<Result<Vec<_>>>()?;
    let mut shape = Shape {
        kind: projection.kind,
        computed: &computed,
        held: Held::new(),
    };
    let mut answer = shape.document(&projection.tree, document)?;
    if let Some(path) = &projection.positional {
        cut_to_position(&mut answer, path, position)?;
    }
    for slice in &projection.slices {
        cut_slice(&mut answer, slice, slice.path.components());
    }
    Ok(answer)
}

fn compute(projection: &Projection, source: &Source, document: &Document) -> Result<Option<Bson>> {
    match source {
        Source::Expression(expression) => expression.evaluate(document, &projection.variables),
        Source::Element(name, filter) => {
            let found = filter.matches_with_position(document)?.flatten();
            let elements = document.get(name).and_then(Bson::as_array);
            let element = elements
                .zip(found)
                .and_then(|(elements, index)| elements.get(index));
            Ok(element.map(|element| Bson::Array(vec![element.clone()])))
        }
    }
}

struct Shape<'a> {
    kind: Kind,
    computed: &'a [Option<Bson>],
    /// What was added: each element of an array may get each of the computed fields.
    held: Held,
}

impl Shape<'_> {
    /// The fields that stay keep their order; computed ones come behind, unless they replace one.
    fn document(&mut self, tree: &Tree, document: Document) -> Result<Document> {
        deadline::step(1 + document.len())?;
        let mut answer = Document::new();
        let mut entered = HashSet::new();
        for (name, value) in document {
            match tree.children.get(&name) {
                Some(Child::Tree(inner)) => {
                    if let Some(value) = self.value(inner, value)? {
                        answer.insert(name.clone(), value);
                    }
                    entered.insert(name);
                }
                Some(Child::Keep) => {
                    answer.insert(name, value);
                }
                Some(Child::Drop) => {}
                Some(Child::Compute(_)) | None if self.kind == Kind::Inclusion => {}
                Some(Child::Compute(_)) | None => {
                    answer.insert(name, value);
                }
            }
        }
        if tree.computes {
            self.add_computed(tree, &entered, &mut answer)?;
        }
        Ok(answer)
    }

    fn add_computed(
        &mut self,
        tree: &Tree,
        entered: &HashSet<String>,
        answer: &mut Document,
    ) -> Result<()> {
        for (name, child) in &tree.children {
            deadline::step(1)?;
            match child {
                Child::Compute(source) => match self.computed.get(*source).and_then(Option::as_ref)
                {
                    Some(value) => {
                        self.held.add(name.len() + FIELD_BYTES + footprint(value))?;
                        answer.insert(name.clone(), value.clone());
                    }
                    None => {
                        take_field(answer, name);
                    }
                },
                Child::Tree(inner) if inner.computes && !entered.contains(name) => {
                    answer.insert(name.clone(), self.document(inner, Document::new())?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What becomes of a value of which the tree names fields. Elements of arrays are taken one by
    /// one; what has no fields gives way to a document of the computed ones.
    fn value(&mut self, tree: &Tree, value: Bson) -> Result<Option<Bson>> {
        Ok(match value {
            Bson::Document(inner) => Some(Bson::Document(self.document(tree, inner)?)),
            Bson::Array(elements) => {
                let mut kept = Vec::with_capacity(elements.len());
                for element in elements {
                    deadline::step(1)?;
                    kept.extend(self.value(tree, element)?);
                }
                Some(Bson::Array(kept))
            }
            _ if tree.computes => Some(Bson::Document(self.document(tree, Document::new())?)),
            _ if self.kind == Kind::Inclusion => None,
            value => Some(value),
        })
    }
}

/// The first array on the path is left with the element that the filter matched.
fn cut_to_position(document: &mut Document, path: &Path, position: Option<usize>) -> Result<()> {
    let mut document = document;
    for step in path.components() {
        match document.get_mut(step.name()) {
            Some(Bson::Array(elements)) => {
                let Some(position) = position else {
                    let message =
                        "positional operator '.$' couldn't find a matching element in the array";
                    return Err(Error::new(Code(51246), message));
                };
                if position >= elements.len() {
                    let message = "positional operator '.$' element mismatch";
                    return Err(Error::new(Code(51247), message));
                }
                *elements = vec![elements.swap_remove(position)];
                return Ok(());
            }
            Some(Bson::Document(inner)) => document = inner,
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn cut_slice(document: &mut Document, slice: &Slice, path: &[Component]) {
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    match document.get_mut(step.name()) {
        Some(Bson::Array(elements)) if rest.is_empty() => cut(elements, slice),
        // Arrays directly within the array are left as they are.
        Some(Bson::Array(elements)) => {
            for element in elements {
                if let Bson::Document(inner) = element {
                    cut_slice(inner, slice, rest);
                }
            }
        }
        Some(Bson::Document(inner)) => cut_slice(inner, slice, rest),
        _ => {}
    }
}

fn cut(elements: &mut Vec<Bson>, slice: &Slice) {
    let length = i64::try_from(elements.len()).unwrap_or(i64::MAX);
    let from_end = |count: i64| (length + count).max(0);
    let (start, count) = match slice.skip {
        None if slice.limit < 0 => (from_end(slice.limit), length),
        None => (0, slice.limit),
        Some(skip) if skip < 0 => (from_end(skip), slice.limit),
        Some(skip) => (skip.min(length), slice.limit),
    };
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    elements.drain(..start.min(elements.len()));
    elements.truncate(count);
}
