//! Filters of table files: whole while all of them fit into memory, partitioned when they do not.
//!
//! A whole filter needs one look-up; a partitioned one must find the partition first, which makes
//! reads a fifth slower. But where memory does not hold all filters, a look-up in a whole one loads
//! a MiB: with 8 MiB of cache and 16 MB of filters RocksDB alone read 15 times as slowly as with
//! partitioned ones, and needed 80 times as long for an absent key, which every insert looks up.
//! Files keep the shape that they were written in; items are placed by hash, so that compaction
//! soon rewrites all of them.

use std::time::{Duration, Instant};

use rocksdb::DB;
use rocksdb::properties::ESTIMATE_NUM_KEYS;

/// An insert looks up whether the item exists, and a false positive costs a read of the disk, for
/// which its whole group waits. With 10 bits for each key that is one insert in a hundred for each
/// level; with 16 it is one in two thousand.
pub(super) const BITS_PER_KEY: u8 = 16;
const BYTES_PER_KEY: usize = BITS_PER_KEY as usize / 8;

/// The part of the cache that whole filters may take; the rest is for data.
const PART_OF_CACHE: usize = 4;
/// How often the number of keys is checked.
const INTERVAL: Duration = Duration::from_secs(60);

/// The shape in which new filters are written.
pub(super) struct Filters {
    in_pieces: bool,
    /// With more keys than this filters are partitioned, with less than half of it whole.
    max_keys: u64,
    looked: Instant,
}

impl Filters {
    /// The filters of a newly opened database, with a cache of this many bytes.
    pub(super) fn new(database: &DB, cache_bytes: usize) -> Self {
        let max_keys = cache_bytes / PART_OF_CACHE / BYTES_PER_KEY;
        let mut filters = Self {
            in_pieces: false,
            max_keys: u64::try_from(max_keys).unwrap_or(u64::MAX),
            looked: Instant::now(),
        };
        filters.fit(database);
        filters
    }

    /// Checks whether the shape still suits the number of keys, if a check is due.
    pub(super) fn check(&mut self, database: &DB) {
        if self.looked.elapsed() >= INTERVAL {
            self.looked = Instant::now();
            self.fit(database);
        }
    }

    fn fit(&mut self, database: &DB) {
        let Ok(Some(keys)) = database.property_int_value(ESTIMATE_NUM_KEYS) else {
            return;
        };
        let in_pieces = match self.in_pieces {
            false => keys > self.max_keys,
            true => keys >= self.max_keys / 2,
        };
        if in_pieces == self.in_pieces {
            return;
        }
        let shape = format!("{{partition_filters={in_pieces}}}");
        match database.set_options(&[("block_based_table_factory", &shape)]) {
            Ok(()) => {
                tracing::info!(keys, in_pieces, "new files get filters of another kind");
                self.in_pieces = in_pieces;
            }
            Err(error) => tracing::warn!(%error, "cannot change the kind of filters of new files"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::rocks::rocks_options;

    /// The shape of new filters that RocksDB reports.
    fn shape(path: &Path) -> bool {
        let files = fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let newest = files
            .filter(|file| name(file).starts_with("OPTIONS-"))
            .max();
        let text = fs::read_to_string(newest.unwrap()).unwrap();
        text.contains("partition_filters=true")
    }

    fn write(database: &DB, keys: u32) {
        for key in 0..keys {
            database.put(key.to_be_bytes(), b"value").unwrap();
        }
        database.flush().unwrap();
    }

    #[test]
    fn filters_that_do_not_fit_are_written_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let open = || DB::open(&rocks_options(64 << 20), folder.path()).unwrap();
        let cache_bytes = 1_000 * PART_OF_CACHE * BYTES_PER_KEY;
        let database = open();
        write(&database, 900);
        let mut filters = Filters::new(&database, cache_bytes);
        assert!(!shape(folder.path()));
        write(&database, 3_000);
        filters.check(&database);
        assert!(!shape(folder.path()), "it looked a moment ago");
        filters.looked -= INTERVAL;
        filters.check(&database);
        assert!(shape(folder.path()));
        // Files of both shapes are read, also after reopening.
        write(&database, 1_000);
        drop((filters, database));
        let database = open();
        assert!(!shape(folder.path()));
        let mut filters = Filters::new(&database, cache_bytes);
        assert!(shape(folder.path()));
        for key in [0_u32, 999, 2_999] {
            assert!(database.get(key.to_be_bytes()).unwrap().is_some(), "{key}");
        }
        assert_eq!(database.get(3_000_u32.to_be_bytes()).unwrap(), None);
        for key in 400_u32..3_000 {
            database.delete(key.to_be_bytes()).unwrap();
        }
        database.flush().unwrap();
        database.compact_range(None::<&[u8]>, None::<&[u8]>);
        filters.fit(&database);
        assert!(!shape(folder.path()));
    }
}
