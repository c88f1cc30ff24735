//! The number of uses of each index, and since when they are counted.

use std::sync::atomic::{AtomicU64, Ordering};

use bson::{DateTime, Document, doc};
use tessera_core::key::IndexId;

/// Counts the queries that used an index.
#[derive(Debug)]
pub(crate) struct Accesses {
    /// The core's index that is counted; none for the order of the documents themselves.
    pub(crate) index: Option<IndexId>,
    since: DateTime,
    operations: AtomicU64,
}

impl Accesses {
    pub(crate) fn new(index: Option<IndexId>) -> Self {
        Self {
            index,
            since: DateTime::now(),
            operations: AtomicU64::new(0),
        }
    }

    /// Notes that a query uses the index.
    pub(crate) fn count(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// As `$indexStats` shows it.
    pub(crate) fn to_document(&self) -> Document {
        let operations = self.operations.load(Ordering::Relaxed);
        doc! { "ops": i64::try_from(operations).unwrap_or(i64::MAX), "since": self.since }
    }
}
