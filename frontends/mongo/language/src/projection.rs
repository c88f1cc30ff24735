//! Projections: which fields an answer has.
//!
//! [`parse`] builds a tree of fields, [`apply`] sends a document through it. The stages `$project`,
//! `$addFields` and `$unset` have a tree of their own, in `pipeline/transform.rs`. What only `find`
//! has, `$slice` and the positional `$`, happens to the outcome afterwards.

mod apply;
mod parse;

use bson::Document;
use indexmap::IndexMap;

use crate::error::Result;
use crate::expression::Expression;
use crate::expression::variables::{Context, Variables};
use crate::filter::{Filter, Place};
use crate::path::Path;

/// A parsed projection.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    kind: Kind,
    tree: Tree,
    /// What fields are computed from, each evaluated once for a document.
    sources: Vec<Source>,
    slices: Vec<Slice>,
    positional: Option<Path>,
    variables: Variables,
}

/// Where a projection stands, which decides what it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// `find`.
    Find,
    /// The stage `$project`.
    Project,
    /// The stages `$addFields` and `$set`: every value is computed, everything else stays.
    AddFields,
    /// The fields of a wildcard index: nothing is computed.
    Wildcard,
}

/// What happens with fields that are not named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Inclusion,
    Exclusion,
    Addition,
}

/// The named fields of a document, in the order they were named.
#[derive(Clone, Debug, PartialEq, Default)]
struct Tree {
    children: IndexMap<String, Child>,
    /// Whether something within is computed.
    computes: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Child {
    Tree(Tree),
    Keep,
    Drop,
    /// The source of this number.
    Compute(usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Source {
    Expression(Expression),
    /// `$elemMatch`: the first element of this field's array that the filter finds.
    Element(String, Box<Filter>),
}

#[derive(Clone, Debug, PartialEq)]
struct Slice {
    path: Path,
    skip: Option<i64>,
    limit: i64,
}

impl Projection {
    /// Parses the projection of a `find` without a filter, so without the positional `$`.
    pub fn parse(specification: &Document, context: &Context) -> Result<Self> {
        parse::projection(specification, context, Use::Find, None)
    }

    /// Parses the projection of a `find`, whose positional `$` means the element that the filter
    /// matched. A filter may not ask everything then, which is checked here.
    pub fn parse_with_filter(
        specification: &Document,
        filter: &Document,
        context: &Context,
    ) -> Result<Self> {
        let projection = parse::projection(specification, context, Use::Find, Some(filter))?;
        if projection.is_positional() {
            Filter::parse_in(filter, context, Place::Projection)?;
        }
        Ok(projection)
    }

    /// Parses a projection outside of `find`.
    pub fn parse_for(specification: &Document, context: &Context, place: Use) -> Result<Self> {
        parse::projection(specification, context, place, None)
    }

    /// Whether the position of the matching element is needed: see
    /// [`Filter::matches_with_position`].
    pub fn is_positional(&self) -> bool {
        self.positional.is_some()
    }

    /// Whether only what is named is answered.
    pub fn is_inclusion(&self) -> bool {
        self.kind == Kind::Inclusion
    }

    /// The paths that are answered, if that is all there is to it: nothing computed, nothing cut.
    /// An index that has them all needs no look at the document.
    pub fn included_paths(&self) -> Option<Vec<String>> {
        let plain = self.is_inclusion() && self.sources.is_empty() && self.slices.is_empty();
        if !plain || self.is_positional() {
            return None;
        }
        let mut paths = Vec::new();
        self.tree.kept_paths("", &mut paths);
        Some(paths)
    }

    /// The document as it is answered. `position` is where in an array the filter matched.
    pub fn apply(&self, document: Document, position: Option<usize>) -> Result<Document> {
        apply::apply(self, document, position)
    }
}

impl Tree {
    fn kept_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        for (name, child) in &self.children {
            match child {
                Child::Tree(tree) => tree.kept_paths(&format!("{prefix}{name}."), paths),
                Child::Keep => paths.push(format!("{prefix}{name}")),
                Child::Drop | Child::Compute(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::{Projection, Use};
    use crate::expression::variables::Context;
    use crate::filter::Filter;

    fn check(rows: impl IntoIterator<Item = (Document, Document, Document)>) {
        for (specification, document, expected) in rows {
            let projection = Projection::parse(&specification, &Context::default()).unwrap();
            let answer = projection.apply(document.clone(), None).unwrap();
            assert_eq!(answer, expected, "{specification} of {document}");
            assert!(
                answer.keys().eq(expected.keys()),
                "{answer} is not in the order of {expected}"
            );
        }
    }

    fn refuse(place: Use, rows: impl IntoIterator<Item = (Document, i32)>) {
        for (specification, code) in rows {
            let error =
                Projection::parse_for(&specification, &Context::default(), place).unwrap_err();
            assert_eq!(error.code.0, code, "{specification}: {error}");
        }
    }

    #[test]
    fn includes_and_excludes() {
        let document =
            || doc! {"_id": 1, "a": {"b": 1, "c": 2}, "d": [{"x": 1, "y": 2}, 3, [{"x": 4}]]};
        check([
            (doc! {}, document(), document()),
            (doc! {"d": 0, "a": 0}, document(), doc! {"_id": 1}),
            (
                doc! {"a": 1},
                document(),
                doc! {"_id": 1, "a": {"b": 1, "c": 2}},
            ),
            (
                doc! {"a": true, "_id": 0},
                document(),
                doc! {"a": {"b": 1, "c": 2}},
            ),
            (doc! {"a.b": 1}, document(), doc! {"_id": 1, "a": {"b": 1}}),
            (
                doc! {"a": {"b": 1}},
                document(),
                doc! {"_id": 1, "a": {"b": 1}},
            ),
            (doc! {"a.b.z": 1}, document(), doc! {"_id": 1, "a": {}}),
            (
                doc! {"d.x": 1},
                document(),
                doc! {"_id": 1, "d": [{"x": 1}, [{"x": 4}]]},
            ),
            (
                doc! {"a": 0, "d.x": 0},
                document(),
                doc! {"_id": 1, "d": [{"y": 2}, 3, [{}]]},
            ),
            (doc! {"_id": 1}, document(), doc! {"_id": 1}),
            (
                doc! {"_id": 0, "a": 0},
                document(),
                doc! {"d": document().remove("d").unwrap()},
            ),
            (doc! {"_id": 1, "a": 0, "d": 0}, document(), doc! {"_id": 1}),
            (doc! {"nosuch": 1}, document(), doc! {"_id": 1}),
        ]);
    }

    #[test]
    fn computes_fields() {
        check([
            (
                doc! {"b": "$a"},
                doc! {"_id": 1, "a": 2},
                doc! {"_id": 1, "b": 2},
            ),
            (
                doc! {"b": {"$eq": ["$a", 2]}},
                doc! {"a": 2},
                doc! {"b": true},
            ),
            (doc! {"b": "$nosuch", "a": 1}, doc! {"a": 2}, doc! {"a": 2}),
            (
                doc! {"a.b": "$c"},
                doc! {"a": 1, "c": 2},
                doc! {"a": {"b": 2}},
            ),
            (
                doc! {"a.b": "$c"},
                doc! {"a": [1, {"x": 1}], "c": 2},
                doc! {"a": [{"b": 2}, {"b": 2}]},
            ),
            (
                doc! {"z": "text", "a": 1},
                doc! {"a": 2},
                doc! {"a": 2, "z": "text"},
            ),
            (
                doc! {"a": {"b": "$c", "x": 1}},
                doc! {"a": {"x": 1}, "c": 2},
                doc! {"a": {"x": 1, "b": 2}},
            ),
        ]);
    }

    #[test]
    fn slices_arrays() {
        let document = || doc! {"_id": 1, "a": [1, 2, 3, 4], "b": 1};
        for (slice, expected) in [
            (doc! {"$slice": 2}, vec![1, 2]),
            (doc! {"$slice": -2}, vec![3, 4]),
            (doc! {"$slice": 9}, vec![1, 2, 3, 4]),
            (doc! {"$slice": 0}, vec![]),
            (doc! {"$slice": [1, 2]}, vec![2, 3]),
            (doc! {"$slice": [-3, 2]}, vec![2, 3]),
            (doc! {"$slice": [9, 2]}, vec![]),
            (doc! {"$slice": [-9, 1]}, vec![1]),
            (doc! {"$slice": 1.9}, vec![1]),
        ] {
            check([(
                doc! {"a": slice},
                document(),
                doc! {"_id": 1, "a": expected, "b": 1},
            )]);
        }
        check([
            (
                doc! {"a": {"$slice": 1}, "b": 1},
                document(),
                doc! {"_id": 1, "a": [1], "b": 1},
            ),
            (
                doc! {"_id": 1, "a": {"$slice": 1}},
                document(),
                doc! {"_id": 1, "a": [1]},
            ),
            (
                doc! {"a": {"$slice": 1}, "b": 0},
                document(),
                doc! {"_id": 1, "a": [1]},
            ),
            (
                doc! {"a.b": {"$slice": 1}},
                doc! {"a": [{"b": [1, 2]}, 5, {"b": 6}]},
                doc! {"a": [{"b": [1]}, 5, {"b": 6}]},
            ),
        ]);
    }

    #[test]
    fn finds_elements() {
        let document = || doc! {"_id": 1, "a": [{"x": 1}, {"x": 2, "y": 1}], "b": 1};
        check([
            (
                doc! {"a": {"$elemMatch": {"x": 2}}},
                document(),
                doc! {"_id": 1, "a": [{"x": 2, "y": 1}]},
            ),
            (
                doc! {"a": {"$elemMatch": {"x": 9}}},
                document(),
                doc! {"_id": 1},
            ),
            (
                doc! {"a": {"$elemMatch": {"x": 1}}, "b": 1},
                document(),
                doc! {"_id": 1, "b": 1, "a": [{"x": 1}]},
            ),
            (
                doc! {"b": {"$elemMatch": {"x": 1}}},
                document(),
                doc! {"_id": 1},
            ),
        ]);
    }

    fn positional(
        filter: Document,
        projection: Document,
        document: Document,
    ) -> Result<Document, i32> {
        let context = Context::default();
        let parsed = Projection::parse_with_filter(&projection, &filter, &context);
        let parsed = parsed.map_err(|error| error.code.0)?;
        let position = Filter::parse(&filter, &context)
            .unwrap()
            .matches_with_position(&document);
        parsed
            .apply(document, position.unwrap().unwrap())
            .map_err(|error| error.code.0)
    }

    #[test]
    fn answers_the_element_that_matched() {
        for (filter, projection, document, expected) in [
            (
                doc! {"a": 2},
                doc! {"a.$": 1},
                doc! {"a": [1, 2, 3]},
                Ok(doc! {"a": [2]}),
            ),
            (
                doc! {"a.b": 3},
                doc! {"a.b.$": 1},
                doc! {"a": [{"b": 1}, {"b": 3, "c": 4}]},
                Ok(doc! {"a": [{"b": 3}]}),
            ),
            (
                doc! {"a": 2},
                doc! {"a.$": 1},
                doc! {"a": 2},
                Ok(doc! {"a": 2}),
            ),
            (
                doc! {"b": 2},
                doc! {"a.$": 1},
                doc! {"a": [1], "b": 2},
                Err(51246),
            ),
            (
                doc! {"b": 2},
                doc! {"a.$": 1},
                doc! {"a": [1], "b": [1, 2]},
                Err(51247),
            ),
        ] {
            let answer = positional(filter.clone(), projection.clone(), document);
            assert_eq!(answer, expected, "{filter} {projection}");
        }
    }

    #[test]
    fn refuses_bad_positions() {
        for (filter, projection, document, expected) in [
            (
                doc! {"a": 2, "$expr": true},
                doc! {"a.$": 1},
                doc! {"a": [2]},
                Err(224),
            ),
            (doc! {"a": 2}, doc! {"a.$": 0}, doc! {"a": [2]}, Err(31395)),
            (
                doc! {"a": 2},
                doc! {"a.$": "x"},
                doc! {"a": [2]},
                Err(31308),
            ),
            (
                doc! {"a": 2},
                doc! {"a.$": 1, "b.$": 1},
                doc! {"a": [2]},
                Err(31276),
            ),
            (
                doc! {"a": 2},
                doc! {"a.$": 1, "b": {"$elemMatch": {}}},
                doc! {"a": [2]},
                Err(31255),
            ),
            (
                doc! {"a": 2},
                doc! {"b": {"$elemMatch": {}}, "a.$": 1},
                doc! {"a": [2]},
                Err(31256),
            ),
            (
                doc! {"a": 2},
                doc! {"a.$": {"b": 1}},
                doc! {"a": [2]},
                Err(31271),
            ),
            (
                doc! {"a": 2},
                doc! {".$": 1},
                doc! {"a": [2]},
                Err(5_392_900),
            ),
        ] {
            let answer = positional(filter.clone(), projection.clone(), document);
            assert_eq!(answer, expected, "{filter} {projection}");
        }
    }

    #[test]
    fn refuses_bad_projections() {
        refuse(
            Use::Find,
            [
                (doc! {"a": 1, "b": 0}, 31254),
                (doc! {"a": 0, "b": 1}, 31253),
                (doc! {"a": 0, "b": "$x"}, 31310),
                (doc! {"a": 0, "b": {"$eq": [1, 1]}}, 31252),
                (doc! {"a": 1, "a.b": 1}, 31249),
                (doc! {"a.b": 1, "a": 1}, 31250),
                (doc! {"a": {}}, 51270),
                (doc! {"a": {"$nosuch": 1}}, 31325),
                (doc! {"a": {"$elemMatch": 1}}, 31274),
                (doc! {"a.b": {"$elemMatch": {}}}, 31275),
                (doc! {"a": {"$elemMatch": {"$expr": 1}}}, 2),
                (doc! {"a.$": 1}, 51050),
                (doc! {"a.$.b": 1}, 31394),
                (doc! {"": 1}, 40352),
                (doc! {"a.": 1}, 40353),
                (doc! {"a..b": 1}, 15998),
                (doc! {"$a": 1}, 16410),
                (doc! {"a": {"$elemMatch": {"x": 1}, "$slice": 1}}, 16410),
            ],
        );
        refuse(
            Use::Project,
            [
                (doc! {}, 51272),
                (doc! {"a.$": 1}, 31324),
                (doc! {"a": {"$elemMatch": {}}}, 168),
            ],
        );
        refuse(Use::Wildcard, [(doc! {"a": "$b"}, 51271)]);
    }

    #[test]
    fn adds_fields() {
        for (specification, document, expected) in [
            (doc! {"b": 5}, doc! {"a": 1}, doc! {"a": 1, "b": 5}),
            (
                doc! {"a": "$b"},
                doc! {"a": 1, "b": 2},
                doc! {"a": 2, "b": 2},
            ),
            (
                doc! {"a.x": 5},
                doc! {"a": {"y": 1}},
                doc! {"a": {"y": 1, "x": 5}},
            ),
            (
                doc! {"a.x": 5},
                doc! {"a": [1, {"y": 2}]},
                doc! {"a": [{"x": 5}, {"y": 2, "x": 5}]},
            ),
            (doc! {"a": {}}, doc! {"a": 1}, doc! {"a": {}}),
        ] {
            let context = Context::default();
            let projection =
                Projection::parse_for(&specification, &context, Use::AddFields).unwrap();
            assert_eq!(
                projection.apply(document, None).unwrap(),
                expected,
                "{specification}"
            );
        }
    }

    #[test]
    fn names_the_paths_that_an_index_must_have() {
        let paths = |specification: Document| {
            Projection::parse(&specification, &Context::default())
                .unwrap()
                .included_paths()
        };
        let all = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect());
        assert_eq!(paths(doc! {"a": 1, "b.c": 1}), all(&["a", "b.c", "_id"]));
        assert_eq!(paths(doc! {"a": 1, "_id": 0}), all(&["a"]));
        assert_eq!(paths(doc! {"a": 0}), None);
        assert_eq!(paths(doc! {"a": "$b"}), None);
    }
}
