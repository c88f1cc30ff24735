//! Opens engines for behaviours, and says briefly what they do often.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use tessera_core::engine::{CommitOutcome, Engine, KeyRange, Scan, Snapshot};
use tessera_core::write_set::{Tally, WriteSet};
use tessera_storage::{Durability, EngineConfig};

use crate::cluster::{self, Cluster};

/// The engines under contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineKind {
    Memory,
    RocksGroup,
    RocksPeriodic,
    Postgres,
}

/// Opens one kind of engine in a folder that goes away with it.
pub(crate) struct Harness {
    kind: EngineKind,
    folder: TempDir,
    /// Of a PostgreSQL: the schema for this behaviour alone.
    schema: String,
}

impl Harness {
    /// Runs a behaviour on several workers, as the server would.
    pub(crate) fn run<F: Future<Output = ()>>(kind: EngineKind, behaviour: impl Fn(Self) -> F) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .build()
            .unwrap();
        let harness = Self {
            kind,
            folder: tempfile::tempdir().unwrap(),
            schema: cluster::new_schema_name(),
        };
        runtime.block_on(behaviour(harness));
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.kind != EngineKind::Memory
    }

    pub(crate) fn has_checkpoints(&self) -> bool {
        matches!(
            self.kind,
            EngineKind::RocksGroup | EngineKind::RocksPeriodic
        )
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Opens the engine of this harness; again after a close, with the same data if it is durable.
    pub(crate) fn open(&self) -> Arc<dyn Engine> {
        self.open_at("data")
    }

    pub(crate) fn open_at(&self, name: &str) -> Arc<dyn Engine> {
        let durability = match self.kind {
            EngineKind::Memory => return tessera_storage::open(&EngineConfig::Memory).unwrap(),
            EngineKind::RocksGroup => Durability::Group,
            EngineKind::RocksPeriodic => Durability::Periodic,
            EngineKind::Postgres => return Cluster::shared().open(&self.schema),
        };
        let path = self.path(name);
        let config = EngineConfig::Rocks {
            path,
            durability,
            memory_bytes: 64 << 20,
        };
        tessera_storage::open(&config).unwrap()
    }
}

pub(crate) fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

pub(crate) fn range(start: &str, end: &str) -> KeyRange {
    KeyRange::new(bytes(start), bytes(end))
}

pub(crate) fn writes(change: impl FnOnce(&mut WriteSet)) -> WriteSet {
    let mut writes = WriteSet::default();
    change(&mut writes);
    writes
}

pub(crate) fn put(key: &str, value: &str) -> WriteSet {
    writes(|set| set.put(bytes(key), bytes(value)))
}

/// A snapshot of this very moment: one that is shared with others may begin with its first read.
pub(crate) async fn snapshot(engine: &Arc<dyn Engine>) -> Box<dyn Snapshot> {
    let snapshot = engine.snapshot().await.unwrap();
    if engine.capabilities().shared {
        assert_eq!(snapshot.get(b"never written").await, Ok(None));
    }
    snapshot
}

/// Commits from a fresh snapshot.
pub(crate) async fn commit(engine: &Arc<dyn Engine>, writes: WriteSet) -> CommitOutcome {
    let snapshot = engine.snapshot().await.unwrap();
    snapshot.commit(writes).await.unwrap()
}

/// Commits from a fresh snapshot what cannot conflict.
pub(crate) async fn apply(engine: &Arc<dyn Engine>, writes: WriteSet) {
    let outcome = commit(engine, writes).await;
    assert!(is_done(outcome), "{outcome:?}");
}

pub(crate) fn is_done(outcome: CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Done(_))
}

pub(crate) async fn read(engine: &Arc<dyn Engine>, key: &str) -> Option<String> {
    let value = snapshot(engine).await.get(key.as_bytes()).await.unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

pub(crate) async fn read_tally(engine: &Arc<dyn Engine>, key: &str) -> Option<Tally> {
    let value = snapshot(engine).await.get(key.as_bytes()).await.unwrap();
    value.map(|value| Tally::decode(&value).unwrap())
}

/// Everything a scan finds, page after page.
pub(crate) async fn collect(snapshot: &dyn Snapshot, mut scan: Scan) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    loop {
        let page = snapshot.scan(&scan).await.unwrap();
        found.extend(page.entries);
        match found.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => return found,
        }
    }
}

/// The keys of a range in a fresh snapshot, as text.
pub(crate) async fn keys(engine: &Arc<dyn Engine>, range: KeyRange) -> Vec<String> {
    let snapshot = snapshot(engine).await;
    let found = collect(snapshot.as_ref(), Scan::new(range)).await;
    found
        .into_iter()
        .map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
        .collect()
}
