//! Index filters: which indexes the planner may use for queries of one shape. They are of this
//! process and end with it, as MongoDB's do.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bson::{Bson, Document, doc};

use crate::execute::query::Query;
use crate::index::{IndexSpec, same_key};

/// The filters of one collection.
#[derive(Debug, Default)]
pub(crate) struct IndexFilters {
    filters: RwLock<Vec<IndexFilter>>,
    /// Whether there are any, so that planning does not ask for shapes in vain.
    any: AtomicBool,
}

/// The indexes that queries of a shape may use.
#[derive(Clone, Debug)]
pub(crate) struct IndexFilter {
    shape: u64,
    /// The query that it was made for, as it is listed.
    shown: Document,
    /// Names and key patterns.
    indexes: Vec<Bson>,
}

impl IndexFilter {
    pub(crate) fn new(query: &Query, indexes: Vec<Bson>) -> Self {
        let mut shown = doc! {
            "query": query.filter_document.clone(),
            "sort": query.sort_document.clone(),
            "projection": query.projection_document.clone(),
        };
        if !query.collation().is_simple() {
            shown.insert("collation", query.collation().to_document());
        }
        Self {
            shape: shape(query),
            shown,
            indexes,
        }
    }

    pub(crate) fn allows(&self, spec: &IndexSpec) -> bool {
        self.indexes.iter().any(|index| match index {
            Bson::String(name) => *name == spec.name,
            Bson::Document(key) => same_key(key, &spec.key),
            _ => false,
        })
    }

    fn to_document(&self) -> Document {
        let mut shown = self.shown.clone();
        shown.insert("indexes", self.indexes.clone());
        shown
    }
}

impl IndexFilters {
    /// Sets the filter of a shape, in place of the one it had.
    pub(crate) fn set(&self, filter: IndexFilter) {
        let mut filters = self.write();
        filters.retain(|known| known.shape != filter.shape);
        filters.push(filter);
        self.any.store(true, Ordering::Release);
    }

    /// Forgets the filter of a query's shape, or all.
    pub(crate) fn clear(&self, query: Option<&Query>) {
        let cleared = query.map(shape);
        let mut filters = self.write();
        filters.retain(|known| cleared.is_some_and(|shape| shape != known.shape));
        self.any.store(!filters.is_empty(), Ordering::Release);
    }

    /// The filter of a query's shape.
    pub(crate) fn of(&self, query: &Query) -> Option<IndexFilter> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let shape = shape(query);
        let filters = self.read();
        filters.iter().find(|known| known.shape == shape).cloned()
    }

    pub(crate) fn list(&self) -> Vec<Document> {
        self.read().iter().map(IndexFilter::to_document).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<IndexFilter>> {
        self.filters.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<IndexFilter>> {
        self.filters.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number of a query's shape: its fields and operators without their values, its order, its
/// projection and its collation.
pub(crate) fn shape(query: &Query) -> u64 {
    let mut hasher = DefaultHasher::new();
    shape_of(&query.filter_document, &mut hasher);
    query.sort_document.to_string().hash(&mut hasher);
    query.projection_document.to_string().hash(&mut hasher);
    let collation = query.collation().to_document();
    collation.to_string().hash(&mut hasher);
    hasher.finish()
}

fn shape_of(document: &Document, hasher: &mut DefaultHasher) {
    document.len().hash(hasher);
    for (name, value) in document {
        name.hash(hasher);
        match value {
            Bson::Document(inner) => shape_of(inner, hasher),
            Bson::Array(inner) if name.starts_with('$') => {
                for inner in inner.iter().filter_map(Bson::as_document) {
                    shape_of(inner, hasher);
                }
            }
            _ => {}
        }
    }
}
