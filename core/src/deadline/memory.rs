//! How much memory the values of an operation take while it computes.

use std::cell::Cell;

use super::{CURRENT, Interruption};
use crate::memory_budget::{Grant, MemoryBudget, OutOfMemory, Purpose};

/// So much of what an operation makes is part of what its connection is guaranteed.
const GUARANTEED: u32 = 16 << 10;

thread_local! {
    /// What the computation on this thread holds.
    static HOLDS: Cell<usize> = const { Cell::new(0) };
    /// What it may hold before more is asked for. Without an operation nobody is asked.
    pub(super) static COVERED: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// What an operation has of the server's memory.
pub(super) struct Memory {
    budget: Option<MemoryBudget>,
    pub(super) values: Grant,
    /// Values that it keeps until its end.
    kept: usize,
    pub(super) answer: Option<Grant>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            budget: None,
            values: Grant::new(Purpose::Values, GUARANTEED),
            kept: 0,
            answer: None,
        }
    }

    pub(super) fn within(&mut self, budget: MemoryBudget) {
        self.budget = Some(budget);
    }

    /// What the thread may hold before this operation must ask for more.
    pub(super) fn room(&self) -> usize {
        match self.budget {
            Some(_) => self.values.covered().saturating_sub(self.kept),
            None => usize::MAX,
        }
    }

    fn hold(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        match &self.budget {
            Some(budget) => self.values.cover(budget, self.kept.saturating_add(bytes)),
            None => Ok(()),
        }
    }

    /// A poll has ended, and with it whatever it computed.
    pub(super) fn rest(&mut self) {
        self.values.shrink(self.kept);
    }
}

/// Bytes that a computation holds, given back on drop. A computation begins and ends on one thread.
#[derive(Debug, Default)]
pub struct Held {
    bytes: usize,
    /// What it counts belongs to the thread.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Held {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many bytes instead of what it holds.
    pub fn set(&mut self, bytes: usize) -> Result<(), Interruption> {
        *self = Self::new();
        self.add(bytes)
    }

    /// So many bytes more.
    pub fn add(&mut self, bytes: usize) -> Result<(), Interruption> {
        self.bytes = self.bytes.saturating_add(bytes);
        let holds = HOLDS.get().saturating_add(bytes);
        HOLDS.set(holds);
        if holds <= COVERED.get() {
            return Ok(());
        }
        grow(|memory| memory.hold(holds))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HOLDS.set(HOLDS.get().saturating_sub(self.bytes));
    }
}

/// Counts so many bytes that the operation on this thread keeps until its end.
pub fn keep(bytes: usize) -> Result<(), Interruption> {
    grow(|memory| {
        memory.kept = memory.kept.saturating_add(bytes);
        memory.hold(HOLDS.get())
    })
}

/// Makes a grant cover so many bytes, of the memory that the operation on this thread has a part
/// of. Without an operation nothing is taken.
#[inline]
pub fn cover(grant: &mut Grant, bytes: usize) -> Result<(), OutOfMemory> {
    if bytes <= grant.covered() {
        return Ok(());
    }
    CURRENT.with_borrow(|current| {
        let memory = current.as_ref().map(|deadline| &deadline.memory);
        match memory.and_then(|memory| memory.budget.as_ref()) {
            Some(budget) => grant.cover(budget, bytes),
            None => Ok(()),
        }
    })
}

/// So many bytes of that memory, for something that may outlast the operation.
pub fn grant(purpose: Purpose, bytes: usize) -> Result<Grant, Interruption> {
    CURRENT.with_borrow(|current| {
        let memory = current.as_ref().map(|deadline| &deadline.memory);
        match memory.and_then(|memory| memory.budget.as_ref()) {
            Some(budget) => budget.grant(purpose, bytes).map_err(Interruption::Memory),
            None => Ok(Grant::new(purpose, 0)),
        }
    })
}

/// Leaves to the operation on this thread what its answer takes: it goes with the answer.
pub fn leave_to_answer(grant: Grant) {
    CURRENT.with_borrow_mut(|current| {
        if let Some(deadline) = current {
            deadline.memory.answer = Some(grant);
        }
    });
}

#[cold]
fn grow(take: impl FnOnce(&mut Memory) -> Result<(), OutOfMemory>) -> Result<(), Interruption> {
    CURRENT.with_borrow_mut(|current| {
        let Some(deadline) = current else {
            return Ok(());
        };
        let memory = &mut deadline.memory;
        let outcome = take(memory).map_err(Interruption::Memory);
        COVERED.set(memory.room());
        if let Err(interruption) = outcome {
            deadline.interrupted.get_or_insert(interruption);
            super::LEFT.set(0);
        }
        outcome
    })
}
