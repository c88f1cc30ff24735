//! How much memory the values of an operation take while it computes.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Interruption, interrupt};

/// What the values of one operation may take. MongoDB's limit is 100 MiB of its values, which here
/// take up to four times as much.
pub const MEMORY_LIMIT: usize = 400 << 20;

/// What the values of all operations together may take.
const SHARED_LIMIT: usize = 2 << 30;

/// So much is taken from what all share at a time.
const PIECE: usize = 1 << 20;

/// What all operations hold together.
static SHARED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What the computation on this thread holds.
    static HOLDS: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that a computation holds, given back on drop. A computation begins and ends on one thread.
#[derive(Debug, Default)]
pub struct Held {
    bytes: usize,
    shared: usize,
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
        if self.bytes > self.shared + PIECE {
            let more = self.bytes - self.shared;
            self.shared += more;
            if SHARED.fetch_add(more, Ordering::Relaxed) + more > SHARED_LIMIT {
                return Err(interrupt(Interruption::Memory));
            }
        }
        if holds > MEMORY_LIMIT {
            return Err(interrupt(Interruption::Memory));
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HOLDS.set(HOLDS.get().saturating_sub(self.bytes));
        if self.shared > 0 {
            SHARED.fetch_sub(self.shared, Ordering::Relaxed);
        }
    }
}
