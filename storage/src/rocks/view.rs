//! An owned RocksDB snapshot, and the reads of it: first from memory, then from disk.

use std::sync::Arc;

use bytes::Bytes;
use rocksdb::{DB, DBRawIterator, ErrorKind, ReadOptions, ReadTier, SnapshotWithThreadMode};
use self_cell::self_cell;
use tessera_core::engine::{EngineResult, KeyRange};

use super::database::Database;
use super::shared::read_error;

/// Keys that a read of memory may step over because they are deleted, before it counts as long
/// work.
const MAX_SKIPPED_INLINE: u64 = 1_000;

/// How far a read may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only memtables and the block cache: fast enough for an async worker.
    Memory,
    /// Also the disk: for threads that may block.
    Disk,
}

/// Everything committed up to one moment.
pub(super) struct View {
    version: u64,
    moment: OwnedMoment,
}

struct Moment<'db> {
    snapshot: SnapshotWithThreadMode<'db, DB>,
    from_memory: ReadOptions,
    from_disk: ReadOptions,
}

self_cell!(
    struct OwnedMoment {
        owner: Arc<Database>,

        #[covariant]
        dependent: Moment,
    }
);

impl View {
    /// Takes a view of `database` as it is now, which includes the commit `version`.
    pub(super) fn take(database: Arc<Database>, version: u64) -> Self {
        let moment = OwnedMoment::new(database, |database| {
            let snapshot = database.snapshot();
            let from_memory = read_options(&snapshot, Reach::Memory);
            let from_disk = read_options(&snapshot, Reach::Disk);
            Moment {
                snapshot,
                from_memory,
                from_disk,
            }
        });
        Self { version, moment }
    }

    /// A commit version that this view includes.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The value of one key; none if finding out would go beyond `reach`.
    pub(super) fn get(&self, key: &[u8], reach: Reach) -> EngineResult<Option<Option<Bytes>>> {
        self.moment.with_dependent(|database, moment| {
            let options = match reach {
                Reach::Memory => &moment.from_memory,
                Reach::Disk => &moment.from_disk,
            };
            match database.get_pinned_opt(key, options) {
                Ok(value) => Ok(Some(value.map(|value| Bytes::copy_from_slice(&value)))),
                Err(error) if error.kind() == ErrorKind::Incomplete => Ok(None),
                Err(error) => Err(read_error(&error)),
            }
        })
    }

    /// Calls `visit` with an iterator on the first key of `range`, or on its last one if `reverse`.
    pub(super) fn iterate<T>(
        &self,
        range: &KeyRange,
        reverse: bool,
        reach: Reach,
        visit: impl FnOnce(DBRawIterator<'_>) -> T,
    ) -> T {
        self.moment.with_dependent(|database, moment| {
            let mut options = read_options(&moment.snapshot, reach);
            if let Some(end) = &range.end {
                options.set_iterate_upper_bound(end.as_ref());
            }
            options.set_iterate_lower_bound(range.start.as_ref());
            let mut iterator = database.raw_iterator_opt(options);
            if reverse {
                iterator.seek_to_last();
            } else {
                iterator.seek_to_first();
            }
            visit(iterator)
        })
    }
}

fn read_options(snapshot: &SnapshotWithThreadMode<'_, DB>, reach: Reach) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_snapshot(snapshot);
    if reach == Reach::Memory {
        options.set_read_tier(ReadTier::BlockCache);
        options.set_max_skippable_internal_keys(MAX_SKIPPED_INLINE);
    }
    options
}
