//! The RocksDB engine: RocksDB for storage, a commit thread for transactions.
//!
//! Snapshots read RocksDB directly. Commits go through one queue to one thread, which checks each
//! against the window of recent commits, writes all that wait as one batch with one sync, makes
//! them visible, and only then answers. So no async worker waits for the disk, and 32 writers share
//! a sync.
//!
//! Versions: each batch has the next one, so commits written together share theirs. Numbering
//! starts at RocksDB's sequence number, which grows at least as fast: versions keep growing over
//! restarts.
//!
//! After a failed write or sync the engine refuses writes until it is opened again. A commit that
//! failed with that error may be there then: the log may have it.

mod answers;
mod batch;
mod committer;
mod crc32c;
mod database;
mod epochs;
mod filters;
mod folder;
mod free_space;
mod group_queue;
mod grouping;
mod large_values;
mod log_check;
mod open_error;
mod options;
mod page;
mod shared;
mod snapshot;
mod synced_mark;
mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DB, Range};
use tessera_core::engine::{
    Answer, BoxFuture, Capabilities, Engine, EngineError, EngineResult, KeyRange, Scan, Snapshot,
    SnapshotScope,
};
use tessera_core::feed::stamp::Stamp;
use tessera_core::recent_commits::RecentCommits;

use self::committer::{Committer, Target};
use self::database::Database;
pub use self::database::rocks_options;
use self::epochs::Epochs;
use self::filters::Filters;
use self::free_space::FreeSpace;
pub use self::group_queue::{GroupReceiver, GroupSender, group_queue};
pub use self::open_error::OpenError;
use self::options::MemoryShares;
use self::page::PageBuilder;
use self::shared::{Shared, read_error};
use self::snapshot::{RocksSnapshot, blocking};
use self::synced_mark::SyncedMark;
use self::view::{Reach, View};
use crate::Durability;

const MAX_KEY_BYTES: usize = 256 << 10;

const CAPABILITIES: Capabilities = Capabilities {
    snapshot_scope: SnapshotScope::Global,
    shared: false,
    max_key_bytes: MAX_KEY_BYTES,
    max_value_bytes: 32 << 20,
    max_transaction_bytes: 256 << 20,
    constant_range_deletes: true,
    keeps_log_by_time: false,
};

/// Ranges that take less than this on disk are measured by reading them.
const COUNTED_BYTES: u64 = 4 << 20;

/// A durable engine in a folder of its own.
pub struct RocksEngine {
    data: PathBuf,
    epochs: Mutex<Epochs>,
    shared: Arc<Shared>,
    commit_thread: Mutex<Option<JoinHandle<()>>>,
}

impl RocksEngine {
    /// Opens or creates the data folder `data`.
    pub fn open(
        data: &Path,
        durability: Durability,
        memory_bytes: usize,
    ) -> Result<Self, OpenError> {
        let memory = MemoryShares::of(memory_bytes);
        let (database, mark) = Database::open(data, memory)?;
        let database = Arc::new(database);
        // Version 0 would mean that a snapshot cannot tell its version.
        let version = database.latest_sequence_number().max(1);
        let (sender, receiver) = group_queue();
        let epochs = Epochs::open(data).map_err(|error| OpenError::from_io(data, &error))?;
        let moment = (epochs.current, version);
        let shared = Shared::new(Arc::clone(&database), moment, sender, memory.queue);
        let shared = Arc::new(shared);
        let recent = RecentCommits::new(version, memory.recent_commits);
        let filters = Filters::new(&database, memory.cache);
        let target = Target {
            database,
            filters,
            mark,
            space: FreeSpace::of(data, memory.memtables),
        };
        let committer = Committer::new(target, Arc::clone(&shared), receiver, recent, durability);
        let commit_thread = thread::Builder::new()
            .name("tessera-commit".to_owned())
            .spawn(|| committer.run())
            .map_err(|error| OpenError::from_io(data, &error))?;
        let commit_thread = Mutex::new(Some(commit_thread));
        Ok(Self {
            data: data.to_owned(),
            epochs: Mutex::new(epochs),
            shared,
            commit_thread,
        })
    }

    fn epochs(&self) -> MutexGuard<'_, Epochs> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for RocksEngine {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        Answer::ready(self.shared.view().map(|view| {
            let shared = Arc::clone(&self.shared);
            Box::new(RocksSnapshot { view, shared }) as Box<dyn Snapshot>
        }))
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn memory_used(&self) -> Option<usize> {
        let database = self.shared.database().ok()?;
        // Memtables are charged to the cache.
        let used = database.property_int_value("rocksdb.block-cache-usage");
        usize::try_from(used.ok().flatten()?).ok()
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        Box::pin(async move {
            let (database, view) = (self.shared.database()?, self.shared.view()?);
            let range = range.clone();
            blocking(move || approximate_size(&database, &view, &range)).await
        })
    }

    fn checkpoint<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async move {
            let database = self.shared.database()?;
            let path = path.to_owned();
            let epochs = self.epochs().clone();
            // The checkpoint holds at least the present data.
            let version = self.shared.committed_version();
            blocking(move || write_checkpoint(&database, &path, &epochs, version)).await
        })
    }

    fn adopt_history(&self, past: Vec<Stamp>) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async move {
            self.shared.check_open()?;
            let mut epochs = self.epochs();
            let adopted = epochs.adopt(&self.data, past);
            *epochs = adopted.map_err(|error| EngineError::Unavailable(error.to_string()))?;
            self.shared.set_epoch(epochs.current);
            Ok(())
        })
    }

    fn past_epochs(&self) -> BoxFuture<'_, EngineResult<Vec<Stamp>>> {
        Box::pin(async { Ok(self.epochs().past.clone()) })
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async {
            if !self.shared.begin_close() {
                return Ok(());
            }
            let thread = self
                .commit_thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let shared = Arc::clone(&self.shared);
            blocking(move || finish_close(&shared, thread)).await
        })
    }
}

impl Drop for RocksEngine {
    fn drop(&mut self) {
        if !self.shared.begin_close() {
            return;
        }
        // An engine that was never closed still ends its thread, which syncs what it wrote, and
        // waits for it: RocksDB must not be closing on that thread while the process exits.
        let thread = self.commit_thread.get_mut();
        if let Some(thread) = thread.unwrap_or_else(PoisonError::into_inner).take() {
            thread.join().ok();
        }
        self.shared.release_database();
    }
}

/// Waits for the commit thread, then writes out what is in memory, so that the next start is quick.
fn finish_close(shared: &Shared, thread: Option<JoinHandle<()>>) -> EngineResult<()> {
    let ended_well = thread.is_none_or(|thread| thread.join().is_ok());
    let database = shared.release_database();
    if let Some(failure) = shared.failure() {
        return Err(failure);
    }
    if !ended_well {
        return Err(EngineError::Unavailable(
            "the commit thread had ended early".to_owned(),
        ));
    }
    if let Some(database) = database {
        database.flush().map_err(|error| read_error(&error))?;
    }
    Ok(())
}

/// A checkpoint is a data folder of its own, ready to be opened.
fn write_checkpoint(database: &DB, path: &Path, epochs: &Epochs, version: u64) -> EngineResult<()> {
    let cannot = |error: std::io::Error| {
        EngineError::Unavailable(format!(
            "cannot write a checkpoint to {}: {error}",
            path.display()
        ))
    };
    folder::create_private_folder(path).map_err(cannot)?;
    // The checkpoint holds at least the present data.
    let sequence = database.latest_sequence_number();
    Checkpoint::new(database)
        .and_then(|checkpoint| checkpoint.create_checkpoint(folder::rocks_path(path)))
        .map_err(|error| read_error(&error))?;
    folder::narrow(&folder::rocks_path(path));
    SyncedMark::create(path, sequence).map_err(cannot)?;
    epochs.save_ended(path, version).map_err(cannot)?;
    // Last, because a copy without it does not open.
    folder::write_format(path).map_err(cannot)?;
    folder::sync_parent(path).map_err(cannot)
}

fn approximate_size(database: &DB, view: &View, range: &KeyRange) -> EngineResult<u64> {
    let disk_bytes = size_on_disk(database, range);
    if disk_bytes >= COUNTED_BYTES {
        let all_on_disk = size_on_disk(database, &KeyRange::all()).max(disk_bytes);
        let in_memory = database
            .property_int_value("rocksdb.cur-size-all-mem-tables")
            .map_err(|error| read_error(&error))?;
        // RocksDB does not say how much of its memtables lies in the range; assume the same part as
        // on disk.
        let share = u128::from(in_memory.unwrap_or(0)) * u128::from(disk_bytes);
        let share = u64::try_from(share / u128::from(all_on_disk)).unwrap_or(0);
        return Ok(disk_bytes + share);
    }
    let mut scan = Scan::new(range.clone()).in_passing();
    scan.max_rows = usize::MAX;
    scan.max_bytes = usize::try_from(COUNTED_BYTES).unwrap_or(usize::MAX);
    let mut page = PageBuilder::new(&scan);
    page.fill(view, Reach::Disk)?;
    Ok(disk_bytes.max(page.byte_size() as u64))
}

fn size_on_disk(database: &DB, range: &KeyRange) -> u64 {
    // Enough for an estimate: no key begins with this byte.
    let open_end = [0xff; 32];
    let end = range.end.as_deref().unwrap_or(&open_end);
    database
        .get_approximate_sizes(&[Range::new(&range.start, end)])
        .first()
        .copied()
        .unwrap_or(0)
}
