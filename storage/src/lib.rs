//! Storage engines behind [`tessera_core::engine::Engine`].
//!
//! * [`MemoryEngine`]: an ordered map; the reference for tests, and `tessera serve --memory`.
//! * [`RocksEngine`]: RocksDB with Tessera's own commit thread; the default.
//! * [`PostgresEngine`]: a PostgreSQL database, which several servers may share.
//!
//! `tests/contract.rs` checks that all behave the same, `tests/crash.rs` that the durable embedded
//! one keeps what it acknowledged.

pub mod copy;
mod postgres;
mod rocks;

use std::path::PathBuf;
use std::sync::Arc;

use tessera_core::engine::Engine;
pub use tessera_core::memory::MemoryEngine;

pub use crate::postgres::{Address, ConnectError, PostgresEngine};
pub use crate::rocks::{
    GroupReceiver, GroupSender, OpenError, RocksEngine, group_queue, rocks_options,
};

/// Which embedded engine to open, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineConfig {
    /// Everything in memory, gone with the process.
    Memory,
    /// RocksDB in a folder.
    Rocks {
        /// The data folder. Created if missing; the folder above it must exist.
        path: PathBuf,
        /// When a commit is acknowledged.
        durability: Durability,
        /// Bounds caches, write buffers, the commit queue and the conflict window together, in
        /// bytes.
        memory_bytes: usize,
    },
}

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After it is on disk. Commits that wait at the same time share one sync.
    Group,
    /// Once it is written; a sync follows within about 100 ms. A power cut may lose the newest
    /// commits, never a part of one and never an older one.
    Periodic,
}

/// Opens an embedded engine. Blocks while RocksDB replays its log.
pub fn open(config: &EngineConfig) -> Result<Arc<dyn Engine>, OpenError> {
    Ok(match config {
        EngineConfig::Memory => Arc::new(MemoryEngine::new()),
        EngineConfig::Rocks {
            path,
            durability,
            memory_bytes,
        } => Arc::new(RocksEngine::open(path, *durability, *memory_bytes)?),
    })
}
