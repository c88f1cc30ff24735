//! The memory of a blocking stage, and its grant.

use bson::Document;
use tessera_core::deadline;
use tessera_core::memory_budget::{Grant, Purpose};

use crate::error::Result;
use crate::size::document_footprint;

/// MongoDB's limits count its values, which here take up to four times as much.
const FACTOR: usize = 4;

/// So much of each stage needs no grant.
const GUARANTEED: u32 = 4 << 10;

/// What a document takes beside its fields where it is kept: its place in a list, and its table.
pub(super) const ENTRY: usize = 160;

/// The memory that a stage's documents take.
#[derive(Debug)]
pub(super) struct Kept {
    limit: usize,
    bytes: usize,
    grant: Grant,
}

impl Kept {
    /// Nothing yet, of at most so many bytes as MongoDB counts them.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.saturating_mul(FACTOR),
            bytes: 0,
            grant: Grant::new(Purpose::Sorts, GUARANTEED),
        }
    }

    /// So many bytes more: answers whether there is room for them.
    #[must_use]
    pub(super) fn add(&mut self, bytes: usize) -> bool {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// So many bytes instead of what it has.
    #[must_use]
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        self.bytes = bytes;
        bytes <= self.limit && deadline::cover(&mut self.grant, bytes).is_ok()
    }

    /// One more document, with so many bytes beside it.
    #[must_use]
    pub(super) fn add_document(&mut self, document: &Document, beside: usize) -> bool {
        self.add(document_footprint(document) + beside + ENTRY)
    }

    /// Forgets what it counted.
    pub(super) fn clear(&mut self) {
        self.bytes = 0;
        self.grant.shrink(0);
    }
}

/// Documents on their way from one stage to the next.
#[derive(Debug)]
pub(super) struct Passing {
    bytes: usize,
    grant: Grant,
}

/// So many bytes of documents go to the next stage at once, and a last one.
const BATCH_BYTES: usize = 1 << 20;

impl Passing {
    pub(super) fn new() -> Self {
        Self {
            bytes: 0,
            grant: Grant::new(Purpose::Values, GUARANTEED),
        }
    }

    /// The documents before these have gone on.
    pub(super) fn begin(&mut self) {
        self.bytes = 0;
        self.grant.shrink(0);
    }

    /// These come after the others; answers whether they are enough for a batch.
    pub(super) fn add(&mut self, documents: &[Document]) -> Result<bool> {
        let bytes = |document: &Document| document_footprint(document) + ENTRY;
        self.bytes += documents.iter().map(bytes).sum::<usize>();
        deadline::cover(&mut self.grant, self.bytes).map_err(deadline::Interruption::Memory)?;
        Ok(self.bytes >= BATCH_BYTES)
    }
}
