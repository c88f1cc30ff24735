//! The values a filter sees at a path: arrays on the way, and at its end, are gone through.

use std::convert::Infallible;
use std::ops::ControlFlow;

use bson::{Bson, Document};

use super::{Component, Path};

/// What happens with an array at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafArray {
    /// Its elements are seen, then the array itself.
    Traverse,
    /// The array itself is seen.
    Whole,
}

/// What is shown a value, and may break off.
pub type See<'w, 'a, B> = &'w mut dyn FnMut(Option<&'a Bson>, Option<usize>) -> ControlFlow<B>;

/// Shows each value at the path, until `see` breaks off. `None` stands for a field that is missing.
/// The number given with a value is its position in the outermost array that was gone through
/// implicitly, which is what the positional operator `$` means; a position that the path names is
/// no such one.
///
/// An array whose elements cannot hold the rest of the path shows nothing at all.
pub fn visit<'a, B>(
    document: &'a Document,
    path: &Path,
    leaf: LeafArray,
    see: See<'_, 'a, B>,
) -> ControlFlow<B> {
    Walk { leaf, see }.document(document, path.components(), None)
}

/// All values at the path, elements of arrays before the arrays. `None` is a missing field.
pub fn values_at<'a>(document: &'a Document, path: &Path) -> Vec<Option<&'a Bson>> {
    let mut values = Vec::new();
    let ControlFlow::Continue(()) =
        visit::<Infallible>(document, path, LeafArray::Traverse, &mut |value, _| {
            values.push(value);
            ControlFlow::Continue(())
        });
    values
}

struct Walk<'w, 'a, B> {
    leaf: LeafArray,
    see: See<'w, 'a, B>,
}

impl<'a, B> Walk<'_, 'a, B> {
    fn document(
        &mut self,
        document: &'a Document,
        path: &[Component],
        position: Option<usize>,
    ) -> ControlFlow<B> {
        let Some((step, rest)) = path.split_first() else {
            return ControlFlow::Continue(());
        };
        match document.get(step.name()) {
            Some(array @ Bson::Array(elements)) if rest.is_empty() => {
                self.leaf_array(array, elements, position)
            }
            Some(Bson::Array(elements)) => self.elements(elements, rest, position),
            Some(value) if rest.is_empty() => (self.see)(Some(value), position),
            Some(Bson::Document(inner)) => self.document(inner, rest, position),
            Some(_) | None => (self.see)(None, position),
        }
    }

    fn leaf_array(
        &mut self,
        array: &'a Bson,
        elements: &'a [Bson],
        position: Option<usize>,
    ) -> ControlFlow<B> {
        if self.leaf == LeafArray::Traverse {
            for (index, element) in elements.iter().enumerate() {
                (self.see)(Some(element), position.or(Some(index)))?;
            }
        }
        (self.see)(Some(array), position)
    }

    /// `path` has at least one component: what is left of it after the array.
    fn elements(
        &mut self,
        elements: &'a [Bson],
        path: &[Component],
        position: Option<usize>,
    ) -> ControlFlow<B> {
        let Some((step, rest)) = path.split_first() else {
            return ControlFlow::Continue(());
        };
        for (index, element) in elements.iter().enumerate() {
            if let Bson::Document(inner) = element {
                self.document(inner, path, position.or(Some(index)))?;
            }
            if step.index() != Some(index) {
                continue;
            }
            match element {
                _ if rest.is_empty() => (self.see)(Some(element), position)?,
                Bson::Document(inner) => self.document(inner, rest, position)?,
                Bson::Array(nested) => self.elements(nested, rest, position)?,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::ops::ControlFlow;

    use bson::{Bson, Document, bson, doc};

    use super::{LeafArray, visit};
    use crate::path::Path;

    type Seen = Vec<(Option<Bson>, Option<usize>)>;

    fn seen(document: &Document, path: &str, leaf: LeafArray) -> Seen {
        let mut all = Vec::new();
        let ControlFlow::Continue(()) =
            visit::<Infallible>(document, &Path::parse(path), leaf, &mut |value, index| {
                all.push((value.cloned(), index));
                ControlFlow::Continue(())
            });
        all
    }

    #[test]
    fn goes_through_arrays() {
        let some = |value: Bson, index| (Some(value), index);
        let cases: [(Document, &str, Seen); 12] = [
            (doc! {"a": 1}, "a", vec![some(bson!(1), None)]),
            (doc! {"a": 1}, "b", vec![(None, None)]),
            (doc! {"a": 1}, "a.b", vec![(None, None)]),
            (
                doc! {"a": [1, 2]},
                "a",
                vec![
                    some(bson!(1), Some(0)),
                    some(bson!(2), Some(1)),
                    some(bson!([1, 2]), None),
                ],
            ),
            (doc! {"a": []}, "a.b", vec![]),
            (doc! {"a": [1, 2]}, "a.b", vec![]),
            (
                doc! {"a": [1, {"b": 2}, {}]},
                "a.b",
                vec![some(bson!(2), Some(1)), (None, Some(2))],
            ),
            (doc! {"a": [5, 6]}, "a.1", vec![some(bson!(6), None)]),
            // A position that is itself an array is not gone through.
            (
                doc! {"a": [5, [2, 4]]},
                "a.1",
                vec![some(bson!([2, 4]), None)],
            ),
            (
                doc! {"a": [5, {"1": 4}]},
                "a.1",
                vec![some(bson!(4), Some(1)), some(bson!({"1": 4}), None)],
            ),
            (
                doc! {"a": [[{"b": 1}]]},
                "a.0.b",
                vec![some(bson!(1), Some(0))],
            ),
            (
                doc! {"a": [{"b": [1, 2]}]},
                "a.b",
                vec![
                    some(bson!(1), Some(0)),
                    some(bson!(2), Some(0)),
                    some(bson!([1, 2]), Some(0)),
                ],
            ),
        ];
        for (document, path, expected) in cases {
            assert_eq!(
                seen(&document, path, LeafArray::Traverse),
                expected,
                "{path} {document}"
            );
        }
    }

    #[test]
    fn keeps_a_leaf_array_whole() {
        let document = doc! {"a": [{"b": [1, 2]}]};
        let expected = vec![(Some(bson!([1, 2])), Some(0))];
        assert_eq!(seen(&document, "a.b", LeafArray::Whole), expected);
    }
}
