//! An owned RocksDB snapshot, and the reads of it: first from memory, then from disk.

use std::sync::Arc;

use bytes::Bytes;
use rocksdb::{DB, DBRawIterator, ErrorKind, ReadOptions, ReadTier, SnapshotWithThreadMode};
use self_cell::self_cell;
use tessera_core::engine::{EngineResult, Scan};

use super::database::Database;
use super::shared::read_error;

/// Deleted keys that a read of memory may step over before it counts as long work.
const MAX_SKIPPED_INLINE: u64 = 1_000;

/// What a read may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only memtables and the block cache: fast enough for an async worker.
    Memory,
    /// Also the disk: for blocking threads.
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

    /// The value of one key; none if a look-up would go beyond `reach`.
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

    /// Calls `visit` with an iterator on the first key of a scan: the last one of its range if it
    /// goes backwards.
    pub(super) fn iterate<T>(
        &self,
        scan: &Scan,
        reach: Reach,
        visit: impl FnOnce(DBRawIterator<'_>) -> T,
    ) -> T {
        self.moment.with_dependent(|database, moment| {
            let mut options = read_options(&moment.snapshot, reach);
            options.fill_cache(!scan.in_passing);
            if let Some(end) = &scan.range.end {
                options.set_iterate_upper_bound(end.as_ref());
            }
            options.set_iterate_lower_bound(scan.range.start.as_ref());
            let mut iterator = database.raw_iterator_opt(options);
            if scan.reverse {
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tessera_core::engine::KeyRange;

    use super::*;
    use crate::rocks::options::MemoryShares;
    use crate::rocks::page::PageBuilder;

    /// Twice what its cache holds, none of it in memory.
    fn cold_database(folder: &TempDir) -> Arc<Database> {
        let shares = MemoryShares::of(32 << 20);
        let open = || Database::open(folder.path(), shares).unwrap().0;
        let database = open();
        // Random, so that it does not compress.
        let mut random = 1_u64;
        let mut value = vec![0; 4 << 10];
        for number in 0..(2 * shares.cache / value.len()) as u64 {
            for part in value.chunks_exact_mut(8) {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                part.copy_from_slice(&random.to_be_bytes());
            }
            database.put(number.to_be_bytes(), &value).unwrap();
        }
        database.flush().unwrap();
        drop(database);
        Arc::new(open())
    }

    fn read_all(view: &View, scan: &Scan) -> usize {
        let (mut scan, mut read) = (scan.clone(), 0);
        loop {
            let mut page = PageBuilder::new(&scan);
            page.fill(view, Reach::Disk).unwrap();
            let page = page.finish();
            read += page.entries.len();
            match page.entries.last() {
                Some((last, _)) if page.more => scan = scan.after(last),
                _ => return read,
            }
        }
    }

    #[test]
    fn what_is_read_in_passing_takes_no_place_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let database = cold_database(&folder);
        let view = View::take(Arc::clone(&database), 1);
        let cached = || {
            let usage = database.property_int_value("rocksdb.block-cache-usage");
            usage.unwrap().unwrap()
        };
        // Data that is read repeatedly.
        for number in 0..200_u64 {
            view.get(&number.to_be_bytes(), Reach::Disk).unwrap();
        }
        let in_memory = || {
            let found = |number: u64| view.get(&number.to_be_bytes(), Reach::Memory).unwrap();
            (0..200_u64)
                .filter(|number| found(*number).is_some())
                .count()
        };
        assert_eq!(in_memory(), 200);
        let before = cached();
        let all = Scan::new(KeyRange::all());
        let read = read_all(&view, &all.clone().in_passing());
        assert!(
            cached() < before + (1 << 20),
            "{before} became {}",
            cached()
        );
        assert_eq!(in_memory(), 200);
        assert_eq!(read_all(&view, &all), read);
        assert!(
            cached() > before + (4 << 20),
            "{before} became {}",
            cached()
        );
    }
}
