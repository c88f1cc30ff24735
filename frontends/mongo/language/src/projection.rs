//! Projections: which fields an answer has.
//!
//! `find` and the stages `$project`, `$addFields` and `$unset` share one tree of fields. [`parse`]
//! builds it, [`apply`] sends a document through it. What only `find` has, `$slice` and the
//! positional `$`, happens to the outcome afterwards.

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
