//! An engine that lets a test act at the very moment before a certain commit: interleavings that
//! would otherwise be a matter of luck.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tessera_core::engine::{
    Answer, BoxFuture, Capabilities, CommitOutcome, Engine, EngineResult, KeyRange, Page, Scan,
    Settled, Snapshot,
};
use tessera_core::memory::MemoryEngine;
use tessera_core::write_set::WriteSet;

type Action = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// What to do, and before which commit.
struct Ambush {
    before: fn(&WriteSet) -> bool,
    action: Action,
}

/// The memory engine with at most one ambush laid.
#[derive(Clone, Default)]
pub(crate) struct InterceptedEngine {
    inner: MemoryEngine,
    ambush: Arc<Mutex<Option<Ambush>>>,
    commits: Arc<AtomicUsize>,
}

impl InterceptedEngine {
    /// Runs `action` once, before the first commit for which `before` holds.
    pub(crate) fn lay_ambush(
        &self,
        before: fn(&WriteSet) -> bool,
        action: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static,
    ) {
        let action = Box::new(action);
        *self.ambush.lock().unwrap() = Some(Ambush { before, action });
    }

    /// How many commits there were.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::Relaxed)
    }

    /// Whether an ambush is still waiting.
    pub(crate) fn is_waiting(&self) -> bool {
        self.ambush.lock().unwrap().is_some()
    }
}

impl Engine for InterceptedEngine {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        Answer::later(async {
            let snapshot: Box<dyn Snapshot> = Box::new(InterceptedSnapshot {
                inner: self.inner.snapshot().await?,
                ambush: Arc::clone(&self.ambush),
                commits: Arc::clone(&self.commits),
            });
            Ok(snapshot)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        self.inner.approximate_size(range)
    }

    fn checkpoint<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        self.inner.checkpoint(path)
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        self.inner.close()
    }
}

struct InterceptedSnapshot {
    inner: Box<dyn Snapshot>,
    ambush: Arc<Mutex<Option<Ambush>>>,
    commits: Arc<AtomicUsize>,
}

impl Snapshot for InterceptedSnapshot {
    fn version(&self) -> u64 {
        self.inner.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>> {
        self.inner.get(key)
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        self.inner.multi_get(keys)
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        self.inner.scan(scan)
    }

    fn settled(&self) -> Answer<'_, EngineResult<Settled>> {
        self.inner.settled()
    }

    fn commit(
        self: Box<Self>,
        writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async move {
            let sprung = {
                let mut ambush = self.ambush.lock().unwrap();
                let sprung = ambush
                    .as_ref()
                    .is_some_and(|ambush| (ambush.before)(&writes));
                if sprung { ambush.take() } else { None }
            };
            if let Some(ambush) = sprung {
                (ambush.action)().await;
            }
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.inner.commit(writes).await
        })
    }
}
