//! How RocksDB is set up, and how one memory setting is divided.

use std::path::Path;

use rocksdb::compaction_filter::Decision as CompactionDecision;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, LogLevel, MergeOperands,
    Options, WriteBufferManager,
};
use tessera_core::key::is_tally;
use tessera_core::write_set::Tally;

use super::filters::BITS_PER_KEY;

const MEMTABLE_BYTES: usize = 64 << 20;
const MIN_MEMTABLE_BYTES: usize = 2 << 20;
const MAX_SUCCESSIVE_MERGES: usize = 16;
const SMALLEST_MEMORY: usize = 32 << 20;
/// Values from this size on are kept apart from their keys.
const LARGE_VALUE_BYTES: u64 = 64 << 10;

/// One memory setting, divided. The parts add up to it; memtables are charged to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryShares {
    /// Block cache, memtables included.
    pub(super) cache: usize,
    /// The part of it that memtables may take before they are flushed.
    pub(super) memtables: usize,
    /// Write sets waiting for the commit thread.
    pub(super) queue: usize,
    /// The window of recent commits.
    pub(super) recent_commits: usize,
}

impl MemoryShares {
    pub(super) fn of(memory_bytes: usize) -> Self {
        let memory = memory_bytes.max(SMALLEST_MEMORY);
        let queue = (memory / 16).min(64 << 20);
        let recent_commits = (memory / 16).min(128 << 20);
        let cache = memory - queue - recent_commits;
        Self {
            cache,
            memtables: (cache / 3).min(8 * MEMTABLE_BYTES),
            queue,
            recent_commits,
        }
    }
}

/// The options of the database. `create` only for a folder without data: see `folder::prepare`.
pub(super) fn database_options(memory: MemoryShares, create: bool) -> Options {
    let mut options = with_strict_merges(Options::default());
    options.create_if_missing(create);
    set_log_and_recovery(&mut options);
    set_memory_and_files(&mut options, memory);
    options.set_merge_operator_associative("tessera.tally", add_tallies);
    // Otherwise a read of a tally that every write adds to would merge thousands of operands.
    options.set_max_successive_merges(MAX_SUCCESSIVE_MERGES);
    options.set_compaction_filter("tessera.tally", drop_empty_tally);
    options
}

/// Options to read the manifest and no log: logs are searched in `without_logs`.
pub(super) fn manifest_options(without_logs: &Path) -> Options {
    let mut options = database_options(MemoryShares::of(SMALLEST_MEMORY), false);
    options.set_track_and_verify_wals_in_manifest(false);
    options.set_wal_dir(without_logs);
    options
}

/// Makes the bound on successive merges hold also where the value below them must be read from a
/// file. Otherwise, from each flush to the next, every write of a tally would walk through all
/// additions since and then give up.
fn with_strict_merges(mut options: Options) -> Options {
    // There is no method for it. The test below checks that RocksDB knows the name.
    let strict = options.get_options_from_string("strict_max_successive_merges=true");
    strict.unwrap_or(options)
}

/// The manifest notes how long a log was when it was synced and closed, so that RocksDB notices one
/// that is missing or was cut. How logs are read is decided in `recovery_mode`, at each opening.
fn set_log_and_recovery(options: &mut Options) {
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_paranoid_checks(true);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(3);
    options.set_max_log_file_size(4 << 20);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
}

fn set_memory_and_files(options: &mut Options, memory: MemoryShares) {
    // All workers read the cache at once, which this type allows without a lock.
    let cache = Cache::new_hyper_clock_cache(memory.cache, 0);
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(&cache);
    tables.set_bloom_filter(BITS_PER_KEY.into(), false);
    tables.set_block_size(8 << 10);
    // A read scans up to this many entries one by one.
    tables.set_block_restart_interval(4);
    // Index and filter blocks count against the memory setting as well.
    tables.set_cache_index_and_filter_blocks(true);
    tables.set_cache_index_and_filter_blocks_with_high_priority(true);
    tables.set_pin_l0_filter_and_index_blocks_in_cache(true);
    // Partitioned, because the whole index of a file whose data compresses well is large. Filters
    // are whole at first: see `filters`.
    tables.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    tables.set_pin_top_level_index_and_filter(true);
    options.set_block_based_table_factory(&tables);

    let manager = WriteBufferManager::new_write_buffer_manager_with_cache(
        memory.memtables,
        false,
        cache.clone(),
    );
    options.set_write_buffer_manager(&manager);
    options.set_write_buffer_size((memory.memtables / 2).clamp(MIN_MEMTABLE_BYTES, MEMTABLE_BYTES));
    options.set_max_write_buffer_number(4);
    // An insert first looks up whether the item exists; the filter of a memtable answers that
    // without a search.
    options.set_memtable_whole_key_filtering(true);
    options.set_memtable_prefix_bloom_ratio(0.02);

    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bottommost_compression_type(DBCompressionType::Zstd);
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_max_background_jobs(4);
    options.set_bytes_per_sync(1 << 20);
    options.set_max_open_files(max_open_files());
    set_large_values(options, &cache);
    // Expired items and dropped containers leave runs of deletions that slow down scans.
    options.add_compact_on_deletion_collector_factory(1_024, 512, 0.5);
}

/// Large values lie in files of their own, where compaction leaves them until a part of the file is
/// garbage. In the tables a document of 16 MB would be rewritten with its neighbours at every
/// level.
fn set_large_values(options: &mut Options, cache: &Cache) {
    options.set_enable_blob_files(true);
    options.set_min_blob_size(LARGE_VALUE_BYTES);
    options.set_blob_file_size(256 << 20);
    options.set_blob_compression_type(DBCompressionType::Lz4);
    options.set_enable_blob_gc(true);
    options.set_blob_gc_age_cutoff(0.5);
    options.set_blob_cache(cache);
}

/// Half of what the process may open, because the other half belongs to connections.
fn max_open_files() -> i32 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft_limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<i32>().ok());
    (soft_limit.unwrap_or(1_024) / 2).clamp(64, 65_536)
}

/// Adds up a stored tally and the additions to it. Bytes that are no tally count as zero: an error
/// here would stop compaction, and with it all writes, because of one wrong counter.
fn add_tallies(_key: &[u8], stored: Option<&[u8]>, added: &MergeOperands) -> Option<Vec<u8>> {
    let decode = |encoded: &[u8]| Tally::decode(encoded).unwrap_or_default();
    let stored = stored.map(decode).unwrap_or_default();
    let sum = added.iter().map(decode).fold(stored, Tally::plus);
    Some(sum.encode().to_vec())
}

/// Drops tallies of zero: otherwise each partition key that ever existed would leave one for good.
/// The tally becomes a deletion, so older values stay hidden, and later additions count from zero.
fn drop_empty_tally(_level: u32, key: &[u8], value: &[u8]) -> CompactionDecision {
    match is_tally(key) && Tally::decode(value) == Some(Tally::default()) {
        true => CompactionDecision::Remove,
        false => CompactionDecision::Keep,
    }
}

#[cfg(test)]
mod tests {
    use rocksdb::{BottommostLevelCompaction, CompactOptions, DB, IteratorMode};
    use tessera_core::key::logical_tally;

    use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

    use super::*;

    #[test]
    fn a_tally_with_many_additions_is_read_through_few_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let options = database_options(MemoryShares::of(SMALLEST_MEMORY), true);
            DB::open(&options, folder.path()).unwrap()
        };
        let one = Tally { items: 1, bytes: 1 };
        let database = open();
        database.merge(b"tally", one.encode()).unwrap();
        database.flush().unwrap();
        drop(database);
        // No block of the file is in memory now.
        let database = open();
        for _ in 0..200 {
            database.merge(b"tally", one.encode()).unwrap();
        }
        set_perf_stats(PerfStatsLevel::EnableCount);
        let mut context = PerfContext::default();
        context.reset();
        // An iterator, because RocksDB does not count the merges of a single read.
        let mut reading = database.raw_iterator();
        reading.seek_to_first();
        let merged = context.metric(PerfMetric::InternalMergeCount);
        set_perf_stats(PerfStatsLevel::Disable);
        let read = Tally::decode(reading.value().unwrap());
        assert_eq!(read.unwrap().items, 201);
        assert!(merged <= MAX_SUCCESSIVE_MERGES as u64, "{merged}");
    }

    #[test]
    fn tallies_of_nothing_vanish_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let options = database_options(MemoryShares::of(SMALLEST_MEMORY), true);
        let database = DB::open(&options, folder.path()).unwrap();
        let tally = |items| {
            Tally {
                items,
                bytes: 7 * items,
            }
            .encode()
        };
        let key = |number: u8| logical_tally(1, number.into(), b"partition key");
        for number in 0..100 {
            database.merge(key(number), tally(3)).unwrap();
        }
        let compact = || {
            database.flush().unwrap();
            let mut all = CompactOptions::default();
            all.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
            database.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &all);
        };
        compact();
        for number in 0..98 {
            database.merge(key(number), tally(-3)).unwrap();
        }
        // A value that only looks like a tally stays.
        database.put(b"item", tally(0)).unwrap();
        // Merged by the first, seen as a value by the second.
        compact();
        compact();
        database.merge(key(5), tally(2)).unwrap();
        let left = database.iterator(IteratorMode::Start);
        let left: Vec<_> = left.map(|entry| entry.unwrap()).collect();
        assert_eq!(left.len(), 4);
        assert_eq!(database.get(key(5)).unwrap().unwrap(), tally(2));
        assert_eq!(database.get(key(99)).unwrap().unwrap(), tally(3));
        assert_eq!(database.get(b"item").unwrap().unwrap(), tally(0));
    }

    #[test]
    fn memory_shares_add_up() {
        for memory in [0, 32 << 20, 512 << 20, 8 << 30, 1 << 40] {
            let shares = MemoryShares::of(memory);
            let total = shares.cache + shares.queue + shares.recent_commits;
            assert_eq!(total, memory.max(SMALLEST_MEMORY));
            assert!(shares.memtables < shares.cache);
        }
    }
}
