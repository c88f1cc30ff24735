//! Latches for hot items: writers of one item queue up instead of conflicting again and again.
//!
//! Never needed for correctness, which is the engine's: a latch only spares retries. Taken for one
//! statement's read-modify-write, never across a client's round trip, and always in the order of
//! the stripes, so that two statements cannot wait for each other.

use std::hash::{BuildHasher, RandomState};

use smallvec::SmallVec;
use tokio::sync::{Mutex, MutexGuard};

use crate::locator::Locator;
use crate::name::ContainerName;

const STRIPES: usize = 1_024;

/// A fixed number of latches, shared by all keys.
pub(crate) struct Latches {
    stripes: Box<[Mutex<()>]>,
    hasher: RandomState,
}

/// An item, as latches tell items apart.
pub(crate) type LatchedItem<'a> = (&'a ContainerName, &'a Locator);

/// Holds latches until dropped.
pub(crate) struct Latched<'a> {
    _guards: SmallVec<[MutexGuard<'a, ()>; 4]>,
}

impl Latches {
    pub(crate) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Waits for the latches of all `items`.
    pub(crate) async fn lock(&self, items: &[LatchedItem<'_>]) -> Latched<'_> {
        let mut positions: SmallVec<[usize; 4]> =
            items.iter().map(|item| self.position(item)).collect();
        positions.sort_unstable();
        positions.dedup();
        let mut guards = SmallVec::new();
        for stripe in positions
            .into_iter()
            .filter_map(|position| self.stripes.get(position))
        {
            guards.push(stripe.lock().await);
        }
        Latched { _guards: guards }
    }

    fn position(&self, item: &LatchedItem<'_>) -> usize {
        let stripe = self.hasher.hash_one(item) % (self.stripes.len() as u64);
        usize::try_from(stripe).unwrap_or(0)
    }
}
