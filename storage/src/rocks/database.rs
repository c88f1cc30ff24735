//! The open RocksDB database and the folder it lies in.

use std::ops::Deref;
use std::path::Path;

use rocksdb::{DB, DBRecoveryMode, Options};

use super::folder::{self, FolderLock};
use super::large_values;
use super::log_check::{self, LogState};
use super::open_error::OpenError;
use super::options::{MemoryShares, database_options};

/// An open database. The folder is free for others when this is dropped, not before.
pub(super) struct Database {
    // Closed before the lock is given back.
    database: DB,
    _lock: FolderLock,
}

impl Database {
    /// Opens or creates the database in the data folder `data`.
    pub(super) fn open(data: &Path, memory: MemoryShares) -> Result<Self, OpenError> {
        let lock = FolderLock::take(data)?;
        let is_new = folder::prepare(data)?;
        let rocks_path = folder::rocks_path(data);
        let mut options = database_options(memory, is_new);
        options.set_wal_recovery_mode(recovery_mode(data, &rocks_path)?);
        let database = DB::open(&options, &rocks_path)
            .map_err(|error| OpenError::from_rocks(data, &rocks_path, &error))?;
        large_values::check(&database, &rocks_path)?;
        Ok(Self {
            database,
            _lock: lock,
        })
    }
}

impl Deref for Database {
    type Target = DB;

    fn deref(&self) -> &DB {
        &self.database
    }
}

/// The options with which the engine opens a new RocksDB, for measuring RocksDB without the engine.
pub fn rocks_options(memory_bytes: usize) -> Options {
    database_options(MemoryShares::of(memory_bytes), true)
}

/// How RocksDB is to read its logs. A torn end is left out; anything else that is wrong with a log
/// is an error. Point-in-time recovery, RocksDB's default, would always start up without what is
/// behind a bad spot, acknowledged or not, and say nothing: it is right only where the end is torn.
fn recovery_mode(data: &Path, rocks_path: &Path) -> Result<DBRecoveryMode, OpenError> {
    let cannot = |error: std::io::Error| OpenError::from_io(data, &error);
    match log_check::check_logs(rocks_path).map_err(cannot)? {
        LogState::Whole => Ok(DBRecoveryMode::TolerateCorruptedTailRecords),
        LogState::Torn {
            file,
            offset,
            batch_follows,
        } => {
            tracing::warn!(file = %file.display(), offset, "leaving out writes that never synced");
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
