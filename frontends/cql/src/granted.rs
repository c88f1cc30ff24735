//! The memory that rows of a result take, which goes with them to the client.

use std::sync::Arc;

use tessera_core::memory_budget::{Grant, MemoryBudget, OutOfMemory, Purpose};

/// So much of a result is part of what its connection is guaranteed.
const GUARANTEED: u32 = 32 << 10;

/// Rows are there so many times: as they were collected, in their message, and as that is sent.
const COPIES: usize = 3;

/// What a row takes beside its cells while it is sorted.
pub(crate) const ROW: usize = 96;

/// A grant that knows how much it must cover.
#[derive(Debug)]
pub(crate) struct Growing<'a> {
    memory: &'a MemoryBudget,
    bytes: usize,
    grant: Grant,
}

impl<'a> Growing<'a> {
    pub(crate) fn new(memory: &'a MemoryBudget) -> Self {
        Self {
            memory,
            bytes: 0,
            grant: Grant::new(Purpose::Replies, GUARANTEED),
        }
    }

    /// So many bytes more. If there is no memory for them they are not counted.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let sum = self.bytes.saturating_add(bytes);
        self.grant.cover(self.memory, sum.saturating_mul(COPIES))?;
        self.bytes = sum;
        Ok(())
    }

    /// What the rows take with them.
    pub(crate) fn finish(self) -> Granted {
        let is_taken = self.grant.is_taken();
        Granted(is_taken.then(|| Arc::new(self.grant)))
    }
}

/// What rows have of the server's memory; nothing if they are few.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted(Option<Arc<Grant>>);

impl Granted {
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// The same rows are the same, whatever they take.
impl PartialEq for Granted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
