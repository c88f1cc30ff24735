//! Plans: how a query finds its documents.
//!
//! The planner takes the conditions of a filter on single paths (`clause`), turns them into
//! intervals of values (`interval`) and those into ranges of an index's bytes (`bounds`), and
//! chooses among the indexes (`choose`). The filter is always applied to each document that is
//! read.

mod alternatives;
pub(crate) mod bounds;
pub(crate) mod choose;
pub(crate) mod clause;
pub(crate) mod explain;
pub(crate) mod filters;
pub(crate) mod interval;
pub(crate) mod predicate;

use std::sync::Arc;

use bson::Document;
use tessera_core::key::IndexId;
use tessera_core::locator::Locator;
use tessera_core::reading::Span;

use crate::index::IndexSpec;
use crate::plan::bounds::{ByteRange, FieldBound};

/// How a query finds its documents.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) access: Access,
    /// Whether they come in the order that was asked for.
    pub(crate) is_sorted: bool,
    /// The other plans that were possible.
    pub(crate) rejected: Vec<Self>,
}

/// Where documents are read.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Nowhere: no document can match.
    Nothing,
    /// One document by its `_id`.
    Point(PointAccess),
    /// The documents of a span in the order in which they lie.
    Scan(ScanAccess),
    /// By `_id`, in a collection that is ordered so.
    Rows(RowAccess),
    /// By an index.
    Index(IndexAccess),
    /// Several, one after another; documents that more than one finds come once.
    Union(Vec<Self>),
}

#[derive(Clone, Debug)]
pub(crate) struct PointAccess {
    pub(crate) spec: Arc<IndexSpec>,
    pub(crate) locator: Locator,
}

#[derive(Clone, Debug)]
pub(crate) struct ScanAccess {
    pub(crate) span: Span,
    pub(crate) reverse: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct RowAccess {
    pub(crate) spec: Arc<IndexSpec>,
    pub(crate) ranges: Vec<ByteRange>,
    pub(crate) bounds: Vec<FieldBound>,
    pub(crate) reverse: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct IndexAccess {
    pub(crate) index: IndexId,
    pub(crate) spec: Arc<IndexSpec>,
    pub(crate) ranges: Vec<ByteRange>,
    pub(crate) bounds: Vec<FieldBound>,
    pub(crate) reverse: bool,
    /// Positions of the fields that lead through arrays in some document.
    pub(crate) multikey: Vec<u8>,
    /// Whether entries hold all that the query needs.
    pub(crate) covered: bool,
}

/// What the planner must do, and what it must not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Hint {
    #[default]
    None,
    /// Read all, forwards or backwards.
    Natural {
        reverse: bool,
    },
    Name(String),
    Key(Document),
}

impl Access {
    /// Counts a use of each index that is read.
    pub(crate) fn count(&self) {
        match self {
            Self::Point(point) => point.spec.accesses.count(),
            Self::Rows(rows) => rows.spec.accesses.count(),
            Self::Index(index) => index.spec.accesses.count(),
            Self::Union(parts) => parts.iter().for_each(Self::count),
            Self::Nothing | Self::Scan(_) => {}
        }
    }

    /// Whether one document may be found more than once.
    pub(crate) fn repeats(&self) -> bool {
        match self {
            Self::Index(index) => !index.multikey.is_empty(),
            Self::Union(_) => true,
            Self::Nothing | Self::Point(_) | Self::Scan(_) | Self::Rows(_) => false,
        }
    }
}
