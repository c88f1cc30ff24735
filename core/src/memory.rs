//! The engine that keeps all in memory: the reference for tests, and `tessera serve --memory`.
//!
//! All data is one persistent ordered map. A snapshot is a clone of it, which shares all nodes, so
//! taking one is cheap and later commits leave it alone.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use imbl::OrdMap;

use crate::engine::{
    Answer, BoxFuture, Capabilities, CommitOutcome, Done, Engine, EngineError, EngineResult,
    KeyRange, Page, Scan, Settled, Snapshot, SnapshotScope,
};
use crate::feed::stamp::Stamp;
use crate::recent_commits::{RecentCommits, is_contended};
use crate::write_set::{Tally, Write, WriteSet};

const CAPABILITIES: Capabilities = Capabilities {
    snapshot_scope: SnapshotScope::Global,
    shared: false,
    max_key_bytes: 256 << 10,
    max_value_bytes: 32 << 20,
    max_transaction_bytes: 256 << 20,
    constant_range_deletes: false,
    keeps_log_by_time: false,
};

const RECENT_COMMITS_BYTES: usize = 16 << 20;

/// The version of the empty engine. Not 0, which would mean that a snapshot cannot tell its
/// version.
const FIRST_VERSION: u64 = 1;

/// An ordered map in memory: the whole engine contract, but nothing outlives the process.
#[derive(Clone)]
pub struct MemoryEngine {
    shared: Arc<Shared>,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> Self {
        let state = State {
            entries: OrdMap::new(),
            version: FIRST_VERSION,
            epoch: first_epoch(),
            past: Vec::new(),
            recent: RecentCommits::new(FIRST_VERSION, RECENT_COMMITS_BYTES),
        };
        let shared = Shared {
            state: Mutex::new(state),
            closed: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        Answer::ready(self.shared.open_state().map(|state| {
            let snapshot: Box<dyn Snapshot> = Box::new(MemorySnapshot {
                entries: state.entries.clone(),
                version: state.version,
                epoch: state.epoch,
                shared: Arc::clone(&self.shared),
            });
            snapshot
        }))
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        Box::pin(async {
            if range.is_empty() {
                return Ok(0);
            }
            let entries = self.shared.open_state()?.entries.clone();
            let bytes: usize = bounded(&entries, range)
                .map(|(key, value)| key.len() + value.len())
                .sum();
            Ok(bytes as u64)
        })
    }

    fn checkpoint<'a>(&'a self, _path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async {
            let cause = "the memory engine keeps nothing on disk to copy; use the rocks engine";
            Err(EngineError::Unavailable(cause.to_owned()))
        })
    }

    fn adopt_history(&self, past: Vec<Stamp>) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async move {
            let mut state = self.shared.open_state()?;
            let floor = past.iter().map(|end| end.epoch).max().unwrap_or(0);
            state.epoch = state.epoch.max(floor) + 1;
            state.past = past;
            Ok(())
        })
    }

    fn past_epochs(&self) -> BoxFuture<'_, EngineResult<Vec<Stamp>>> {
        Box::pin(async { Ok(self.shared.open_state()?.past.clone()) })
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async {
            self.shared.closed.store(true, Ordering::Release);
            Ok(())
        })
    }
}

/// A new epoch for each process: positions of an earlier one are invalid.
fn first_epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(0)
}

struct Shared {
    state: Mutex<State>,
    closed: AtomicBool,
}

impl Shared {
    fn check_open(&self) -> EngineResult<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(EngineError::Unavailable("it was closed".to_owned()));
        }
        Ok(())
    }

    fn open_state(&self) -> EngineResult<MutexGuard<'_, State>> {
        self.check_open()?;
        // A thread that panicked while holding the lock must not take the engine with it.
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct State {
    entries: OrdMap<Bytes, Bytes>,
    version: u64,
    epoch: u64,
    /// The ends of earlier epochs.
    past: Vec<Stamp>,
    recent: RecentCommits,
}

impl State {
    fn commit(&mut self, base_version: u64, writes: &WriteSet) -> CommitOutcome {
        if self.recent.conflicts(base_version, writes) {
            return CommitOutcome::Conflict;
        }
        if writes.is_empty() {
            return CommitOutcome::Done(Done::at(self.version));
        }
        for range in writes.range_deletes() {
            self.delete_range(range);
        }
        for (key, write) in writes.writes() {
            match write {
                Write::Put(value) => self.entries.insert(key.clone(), value.clone()),
                Write::Delete => self.entries.remove(key),
            };
        }
        for (key, delta) in writes.tallies() {
            let stored = self.entries.get(key).and_then(|value| Tally::decode(value));
            let sum = stored.unwrap_or_default().plus(*delta);
            match sum == Tally::default() {
                true => self.entries.remove(key),
                false => {
                    let sum = Bytes::copy_from_slice(&sum.encode());
                    self.entries.insert(key.clone(), sum)
                }
            };
        }
        self.version += 1;
        self.recent.record(self.version, writes);
        CommitOutcome::Done(Done {
            version: self.version,
            stamp: self.append(writes),
        })
    }

    fn append(&mut self, writes: &WriteSet) -> Option<Stamp> {
        let first = Stamp {
            epoch: self.epoch,
            version: self.version,
            ..Stamp::START
        };
        for (entry, appended) in (0..).zip(writes.appended()) {
            let key = appended.key(Stamp { entry, ..first });
            self.entries.insert(key, appended.value.clone());
        }
        (!writes.appended().is_empty()).then(|| first.end_of_commit())
    }

    fn delete_range(&mut self, range: &KeyRange) {
        let covered: Vec<Bytes> = bounded(&self.entries, range)
            .map(|(key, _)| key.clone())
            .collect();
        for key in covered {
            self.entries.remove(&key);
        }
    }
}

struct MemorySnapshot {
    entries: OrdMap<Bytes, Bytes>,
    version: u64,
    epoch: u64,
    shared: Arc<Shared>,
}

impl MemorySnapshot {
    /// Reads never yield, so a task with many of them must be made to yield.
    async fn ready(&self) -> EngineResult<()> {
        tokio::task::coop::consume_budget().await;
        self.shared.check_open()
    }

    /// As [`crate::recent_commits::compare`], at once.
    fn is_unchanged(&self, now: &OrdMap<Bytes, Bytes>, writes: &WriteSet) -> bool {
        let mut keys = writes.writes().keys().chain(writes.guards().keys());
        let is_equal = |key: &Bytes| match (self.entries.get(key), now.get(key)) {
            (None, None) => !is_contended(writes, key),
            (before, now) => before == now,
        };
        writes.range_deletes().is_empty() && keys.all(is_equal)
    }
}

impl Snapshot for MemorySnapshot {
    fn version(&self) -> u64 {
        self.version
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>> {
        let open = self.shared.check_open();
        Answer::ready(open.map(|()| self.entries.get(key).cloned()))
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            self.ready().await?;
            Ok(keys
                .iter()
                .map(|key| self.entries.get(key).cloned())
                .collect())
        })
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        Box::pin(async move {
            self.ready().await?;
            if scan.range.is_empty() {
                return Ok(Page::default());
            }
            let entries = bounded(&self.entries, &scan.range);
            Ok(if scan.reverse {
                page(entries.rev(), scan)
            } else {
                page(entries, scan)
            })
        })
    }

    fn settled(&self) -> Answer<'_, EngineResult<Settled>> {
        let through = Stamp::end_of(self.epoch, self.version);
        let newest = through;
        Answer::ready(Ok(Settled { through, newest }))
    }

    fn commit(
        self: Box<Self>,
        writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async move {
            CAPABILITIES.check(&writes)?;
            let mut state = self.shared.open_state()?;
            let is_old = self.version < state.recent.aging_before();
            let base_version = match is_old && self.is_unchanged(&state.entries, &writes) {
                true => state.version,
                false => self.version,
            };
            Ok(state.commit(base_version, &writes))
        })
    }
}

/// The entries of a non-empty range.
fn bounded<'a>(
    entries: &'a OrdMap<Bytes, Bytes>,
    range: &'a KeyRange,
) -> impl DoubleEndedIterator<Item = (&'a Bytes, &'a Bytes)> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let end = range.end.as_ref().map_or(Unbounded, Excluded);
    entries.range::<_, Bytes>((Included(&range.start), end))
}

fn page<'a>(mut entries: impl Iterator<Item = (&'a Bytes, &'a Bytes)>, scan: &Scan) -> Page {
    let mut page = Page::default();
    let mut bytes = 0;
    for (key, value) in entries.by_ref() {
        let value = if scan.keys_only {
            Bytes::new()
        } else {
            value.clone()
        };
        bytes += key.len() + value.len();
        page.entries.push((key.clone(), value));
        if page.entries.len() >= scan.max_rows || bytes >= scan.max_bytes {
            break;
        }
    }
    page.more = entries.next().is_some();
    page
}
