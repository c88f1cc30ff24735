//! The values a filter sees at a path: arrays on the way, and at its end, are gone through.

use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use bson::{Bson, Document};
use tessera_core::deadline;

use super::{Component, Path, note_name};

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
    Walk {
        leaf,
        see,
        forks: 0,
        walked: HashSet::new(),
    }
    .document(document, path.components(), None)
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

/// So many forks are walked without remembering them.
const FEW_FORKS: usize = 4;

struct Walk<'w, 'a, B> {
    leaf: LeafArray,
    see: See<'w, 'a, B>,
    /// How often a number was both a position and perhaps the name of a field.
    forks: usize,
    /// Where a walk came by after many forks: the document, and how much of the path was left. What
    /// lies there was shown already.
    walked: HashSet<(usize, usize)>,
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
        note_name(step.name());
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

    /// Whether a document was not walked into with that rest of the path. Each fork doubles the
    /// ways that lead to one, so that after some of them it must be known.
    fn is_new(&mut self, document: &'a Document, path: &[Component]) -> bool {
        let place = (std::ptr::from_ref(document).addr(), path.len());
        self.forks <= FEW_FORKS || self.walked.insert(place)
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
        deadline::note(elements.len() / 4 + 1);
        for (index, element) in elements.iter().enumerate() {
            let is_named = step.index() == Some(index);
            self.forks += usize::from(is_named);
            if let Bson::Document(inner) = element
                && self.is_new(inner, path)
            {
                self.document(inner, path, position.or(Some(index)))?;
            }
            if !is_named {
                continue;
            }
            match element {
                _ if rest.is_empty() => (self.see)(Some(element), position)?,
                Bson::Document(inner) if !self.is_new(inner, rest) => {}
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
    use proptest::prelude::*;

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
    fn walks_through_many_forks_in_little_time() {
        for depth in [10, 40, 150] {
            let nested = |leaf: Bson| {
                let nest = |inner, _| bson!([{ "0": inner }]);
                doc! {"a": (0..depth).fold(leaf, nest)}
            };
            let path = format!("a{}", ".0".repeat(depth));
            let found = seen(&nested(bson!(7)), &path, LeafArray::Traverse);
            assert!(!found.is_empty(), "{depth}");
            assert!(found.len() < 10_000, "{depth}: {}", found.len());
            let half = format!("a{}", ".0".repeat(depth / 2));
            let found = seen(&nested(bson!(7)), &half, LeafArray::Whole);
            assert!(found.len() < 10_000, "{depth}: {}", found.len());
        }
    }

    /// All ways through the forks, each as often as it is walked.
    fn naive(value: &Bson, path: &[&str], all: &mut Vec<Option<Bson>>) {
        let Some((step, rest)) = path.split_first() else {
            return;
        };
        match value {
            Bson::Document(document) => match document.get(step) {
                Some(found @ Bson::Array(elements)) if rest.is_empty() => {
                    all.extend(elements.iter().cloned().map(Some));
                    all.push(Some(found.clone()));
                }
                Some(found) if rest.is_empty() => all.push(Some(found.clone())),
                Some(found @ (Bson::Array(_) | Bson::Document(_))) => naive(found, rest, all),
                Some(_) | None => all.push(None),
            },
            Bson::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    if matches!(element, Bson::Document(_)) {
                        naive(element, path, all);
                    }
                    if *step == index.to_string() {
                        match element {
                            _ if rest.is_empty() => all.push(Some(element.clone())),
                            Bson::Document(_) | Bson::Array(_) => naive(element, rest, all),
                            _ => {}
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn nested() -> impl Strategy<Value = Bson> {
        let leaf = prop_oneof![Just(bson!(1)), Just(bson!(2)), Just(bson!([]))];
        leaf.prop_recursive(10, 60, 2, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..3).prop_map(Bson::Array),
                prop::collection::vec(inner, 1..3).prop_map(|all| {
                    let fields = all.into_iter().enumerate();
                    let fields = fields.map(|(name, value)| (name.to_string(), value));
                    Bson::Document(fields.collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn shows_what_all_ways_lead_to(
            value in nested(),
            path in prop::collection::vec(prop::sample::select(vec!["0", "1"]), 1..10),
        ) {
            let document = doc! {"a": value};
            let mut steps = vec!["a"];
            steps.extend(&path);
            let mut all = Vec::new();
            naive(&Bson::Document(document.clone()), &steps, &mut all);
            let shown = seen(&document, &steps.join("."), LeafArray::Traverse);
            let shown: Vec<Option<Bson>> = shown.into_iter().map(|(value, _)| value).collect();
            for value in &all {
                prop_assert!(shown.contains(value), "{value:?} of {document}");
            }
            for value in &shown {
                prop_assert!(all.contains(value), "{value:?} of {document}");
            }
            prop_assert!(shown.len() <= all.len());
        }
    }

    #[test]
    fn keeps_a_leaf_array_whole() {
        let document = doc! {"a": [{"b": [1, 2]}]};
        let expected = vec![(Some(bson!([1, 2])), Some(0))];
        assert_eq!(seen(&document, "a.b", LeafArray::Whole), expected);
    }
}
