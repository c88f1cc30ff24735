//! Several write sets as one RocksDB batch.

use std::collections::HashMap;

use bytes::Bytes;
use rocksdb::WriteBatch;
use tessera_core::engine::KeyRange;
use tessera_core::feed::stamp::Stamp;
use tessera_core::write_set::{Tally, Write, WriteSet};

use super::MAX_KEY_BYTES;
use super::log_check::sync_mark;

/// Room for the mark at the start and for a few tallies.
const MIN_CAPACITY_BYTES: usize = 512;

/// A RocksDB batch that is being filled. Additions to one tally are summed until another operation
/// must follow them: a thousand commits that add to one tally cost one merge.
pub(super) struct Batch {
    batch: WriteBatch,
    tallies: HashMap<Bytes, Tally, ahash::RandomState>,
}

impl Batch {
    /// An empty batch with room for this many bytes of keys and values, to be written when
    /// everything up to `synced_sequence` is synced.
    pub(super) fn new(synced_sequence: u64, bytes: usize) -> Self {
        // Growing would copy it again and again, while all writers wait.
        let mut batch = WriteBatch::with_capacity_bytes(bytes + bytes / 8 + MIN_CAPACITY_BYTES);
        // First in the batch, where `log_check` looks for it.
        batch.put_log_data(sync_mark(synced_sequence));
        Self {
            batch,
            tallies: HashMap::default(),
        }
    }

    /// Adds the operations of `writes` at the end. `stamp` is its first.
    pub(super) fn apply(&mut self, writes: &WriteSet, stamp: Stamp) {
        if self.must_follow_tallies(writes) {
            self.flush_tallies();
        }
        for range in writes.range_deletes() {
            self.delete_range(range);
        }
        for (key, write) in writes.writes() {
            match write {
                Write::Put(value) => self.batch.put(key, value),
                Write::Delete => self.batch.delete(key),
            }
        }
        for (key, delta) in writes.tallies() {
            let sum = self.tallies.entry(key.clone()).or_default();
            *sum = sum.plus(*delta);
        }
        for (entry, appended) in (0..).zip(writes.appended()) {
            let key = appended.key(Stamp { entry, ..stamp });
            self.batch.put(key, &appended.value);
        }
    }

    /// The finished batch.
    pub(super) fn finish(mut self) -> WriteBatch {
        self.flush_tallies();
        self.batch
    }

    fn must_follow_tallies(&self, writes: &WriteSet) -> bool {
        !self.tallies.is_empty()
            && (!writes.range_deletes().is_empty()
                || writes
                    .writes()
                    .keys()
                    .any(|key| self.tallies.contains_key(key)))
    }

    fn flush_tallies(&mut self) {
        for (key, sum) in self.tallies.drain() {
            self.batch.merge(key, sum.encode());
        }
    }

    fn delete_range(&mut self, range: &KeyRange) {
        match &range.end {
            // RocksDB would count it and not write it, so that a write would seem to be missing.
            Some(end) if *end <= range.start => {}
            Some(end) => self.batch.delete_range(&range.start, end),
            // RocksDB needs an end, and this is greater than every possible key.
            None => self
                .batch
                .delete_range(range.start.as_ref(), &[0xff; MAX_KEY_BYTES + 1]),
        }
    }
}
