//! Latches for hot items: writers of one key queue up instead of conflicting again and again.
//!
//! Never needed for correctness, which is the engine's: a latch only spares retries. Taken for one
//! statement's read-modify-write, never across a client's round trip, and always in the order of
//! the stripes, so that two statements cannot wait for each other.

use std::hash::{BuildHasher, RandomState};

use tokio::sync::{Mutex, MutexGuard};

const STRIPES: usize = 1_024;

/// A fixed number of latches, shared by all keys.
pub(crate) struct Latches {
    stripes: Box<[Mutex<()>]>,
    hasher: RandomState,
}

/// Holds latches until dropped.
pub(crate) struct Latched<'a> {
    _guards: Vec<MutexGuard<'a, ()>>,
}

impl Latches {
    pub(crate) fn new() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Waits for the latches of all `keys`.
    pub(crate) async fn lock(
        &self,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Latched<'_> {
        let mut positions: Vec<usize> = keys
            .into_iter()
            .map(|key| self.position(key.as_ref()))
            .collect();
        positions.sort_unstable();
        positions.dedup();
        let mut guards = Vec::with_capacity(positions.len());
        for stripe in positions
            .into_iter()
            .filter_map(|position| self.stripes.get(position))
        {
            guards.push(stripe.lock().await);
        }
        Latched { _guards: guards }
    }

    fn position(&self, key: &[u8]) -> usize {
        let stripe = self.hasher.hash_one(key) % (self.stripes.len() as u64);
        usize::try_from(stripe).unwrap_or(0)
    }
}
