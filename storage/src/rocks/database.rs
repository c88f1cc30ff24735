//! The open RocksDB database and the folder it lies in.

use std::ops::Deref;
use std::path::Path;

use rocksdb::{DB, DBRecoveryMode, Options};

use super::folder::{self, FolderLock};
use super::large_values;
use super::log_check::{self, LogState, Logs};
use super::open_error::OpenError;
use super::options::{MemoryShares, database_options, manifest_options};
use super::synced_mark::SyncedMark;

/// An open database. The folder stays locked until this is dropped.
pub(super) struct Database {
    // Closed before the lock is given back.
    database: DB,
    _lock: FolderLock,
}

impl Database {
    /// Opens or creates the database in the data folder `data`, and its synced mark.
    pub(super) fn open(data: &Path, memory: MemoryShares) -> Result<(Self, SyncedMark), OpenError> {
        let lock = FolderLock::take(data)?;
        let is_new = folder::prepare(data)?;
        let rocks_path = folder::rocks_path(data);
        let cannot = |error: std::io::Error| OpenError::from_io(data, &error);
        let logs = log_check::check_logs(&rocks_path).map_err(cannot)?;
        if !is_new && let Some(synced) = SyncedMark::read(data).map_err(cannot)? {
            check_nothing_missing(data, &logs, synced)?;
        }
        let mut options = database_options(memory, is_new);
        options.set_wal_recovery_mode(recovery_mode(data, logs.state)?);
        let database = DB::open(&options, &rocks_path)
            .map_err(|error| OpenError::from_rocks(data, &rocks_path, &error))?;
        large_values::check(&database, &rocks_path)?;
        // Opening flushes and syncs the contents of the log.
        let sequence = database.latest_sequence_number();
        let mark = SyncedMark::create(data, sequence).map_err(cannot)?;
        folder::finish(data).map_err(cannot)?;
        let database = Self {
            database,
            _lock: lock,
        };
        Ok((database, mark))
    }
}

impl Deref for Database {
    type Target = DB;

    fn deref(&self) -> &DB {
        &self.database
    }
}

/// The options with which the engine opens a new RocksDB, for benchmarks of RocksDB without the
/// engine.
pub fn rocks_options(memory_bytes: usize) -> Options {
    database_options(MemoryShares::of(memory_bytes), true)
}

/// Refuses data with missing synced writes. The logs have the newest writes; older ones are in
/// table files, up to the sequence number in the manifest.
fn check_nothing_missing(data: &Path, logs: &Logs, synced: u64) -> Result<(), OpenError> {
    let in_logs = logs.last_sequence.unwrap_or(0);
    // The error of the log check describes damage inside a log better.
    if in_logs >= synced || matches!(logs.state, LogState::Damaged { .. }) {
        return Ok(());
    }
    let rocks_path = folder::rocks_path(data);
    // No log lies in the data folder itself, so none is read.
    let manifest = DB::open_for_read_only(&manifest_options(data), &rocks_path, false)
        .map_err(|error| OpenError::from_rocks(data, &rocks_path, &error))?;
    let found = manifest.latest_sequence_number().max(in_logs);
    if found >= synced {
        return Ok(());
    }
    let mark = SyncedMark::path(data);
    let (file, what) = match &logs.state {
        LogState::Torn { file, .. } => (file.clone(), "the end of the log is"),
        LogState::Whole | LogState::Damaged { .. } => match &logs.newest {
            Some(newest) => (newest.clone(), "the end of the log, or a newer log, is"),
            None => (rocks_path, "the log is"),
        },
    };
    let cause = format!(
        "{what} missing: the last {} of {synced} acknowledged writes; deleting {} opens what is \
         left",
        synced - found,
        mark.display()
    );
    Err(OpenError::Damaged { file, cause })
}

/// How RocksDB is to read its logs. A torn end is left out; anything else that is wrong with a log
/// is an error. Point-in-time recovery, RocksDB's default, silently discards everything behind a
/// bad spot, acknowledged or not; that is right only for a torn end.
fn recovery_mode(data: &Path, state: LogState) -> Result<DBRecoveryMode, OpenError> {
    let cannot = |error: std::io::Error| OpenError::from_io(data, &error);
    match state {
        LogState::Whole => Ok(DBRecoveryMode::TolerateCorruptedTailRecords),
        LogState::Torn {
            file,
            offset,
            batch_follows,
        } => {
            tracing::warn!(file = %file.display(), offset, "dropping writes that never synced");
            if batch_follows {
                log_check::cut_torn_log(&file, offset, data).map_err(cannot)?;
            }
            Ok(DBRecoveryMode::PointInTime)
        }
        LogState::Damaged { file, offset } => {
            let cause = format!("acknowledged writes at byte {offset} are not readable");
            Err(OpenError::Damaged { file, cause })
        }
    }
}
