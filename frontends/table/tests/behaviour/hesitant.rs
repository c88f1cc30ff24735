//! An engine on which others get ahead: whoever begins a transaction steps aside a few times first,
//! so that statements meet in many orders even on one thread.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tessera_core::engine::{
    Answer, BoxFuture, Capabilities, Engine, EngineResult, KeyRange, Snapshot,
};
use tessera_core::memory::MemoryEngine;

/// The most that one transaction steps aside: longer than a whole statement of another takes.
const MOST: usize = 12;

/// The memory engine, with pauses.
#[derive(Default)]
pub(crate) struct Hesitant {
    engine: MemoryEngine,
    begun: AtomicUsize,
}

impl Engine for Hesitant {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        // Five has no divisor in common with the modulus: every length comes up, in no plain order.
        let pauses = self.begun.fetch_add(5, Ordering::Relaxed) % (MOST + 1);
        Answer::later(async move {
            for _ in 0..pauses {
                tokio::task::yield_now().await;
            }
            self.engine.snapshot().await
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        self.engine.approximate_size(range)
    }

    fn checkpoint<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        self.engine.checkpoint(path)
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        self.engine.close()
    }
}
