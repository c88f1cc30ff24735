//! The window of recent commits against which first-committer-wins is decided.
//!
//! Both embedded engines keep one, touched only by the committer. It forgets the oldest commits
//! when it outgrows its bytes, and reports a conflict for a transaction that began before the
//! oldest one remembered. An engine therefore moves a transaction that grows old to the newest
//! version before it commits: see [`RecentCommits::aging_before`]. Keys are remembered as hashes
//! for long and in full for a shorter time: only range deletes need the full keys, and those come
//! from background work with fresh snapshots.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use ahash::RandomState;
use bytes::{Buf, BufMut, Bytes};

use crate::engine::{EngineResult, KeyRange, Snapshot};
use crate::write_set::{Write, WriteSet};

/// Keys compared at once: their values are in memory twice.
const COMPARED_KEYS: usize = 256;

/// Bytes of one remembered hash: its place in the window and in the map, with the map's slack.
const BYTES_PER_HASH: usize = 48;
/// Bytes taken by one remembered commit beside its keys.
const BYTES_PER_COMMIT: usize = 64;

/// What recent commits changed, bounded in bytes.
#[derive(Debug)]
pub struct RecentCommits {
    hasher: RandomState,
    /// The version that last changed the key with this hash. Two keys with one hash only cause a
    /// conflict too many.
    last_change: HashMap<u64, u64, BuildHasherDefault<HashAsIs>>,
    hashes: Window<Vec<u64>>,
    keys: Window<PackedKeys>,
    range_deletes: Window<KeyRange>,
}

impl RecentCommits {
    /// An empty window for about `max_bytes`, where `version` is the newest version so far.
    pub fn new(version: u64, max_bytes: usize) -> Self {
        let quarter = max_bytes / 4;
        Self {
            hasher: RandomState::new(),
            last_change: HashMap::default(),
            hashes: Window::new(version, quarter * 2),
            keys: Window::new(version, quarter),
            range_deletes: Window::new(version, quarter),
        }
    }

    /// Whether `writes`, based on the data as of `base_version`, must be refused.
    pub fn conflicts(&self, base_version: u64, writes: &WriteSet) -> bool {
        let checks_keys = !writes.writes().is_empty() || !writes.guards().is_empty();
        let checks_ranges = !writes.range_deletes().is_empty();
        (checks_keys && self.key_conflicts(base_version, writes))
            || (checks_ranges && self.range_conflicts(base_version, writes.range_deletes()))
    }

    /// Snapshots taken before this version are about to leave the window, or have left it. Their
    /// writes are compared with the newest data ([`compare`]) and committed there.
    pub fn aging_before(&self) -> u64 {
        self.hashes.middle().max(self.range_deletes.middle())
    }

    /// Remembers a commit. Versions only grow. Tallies commute, so they leave no trace.
    pub fn record(&mut self, version: u64, writes: &WriteSet) {
        if !writes.writes().is_empty() {
            self.record_keys(version, writes);
        }
        for range in writes.range_deletes() {
            let bytes = range.start.len() + range.end.as_ref().map_or(0, Bytes::len);
            // Copied, because a slice would keep alive the whole buffer it was cut from.
            let copy = KeyRange {
                start: Bytes::copy_from_slice(&range.start),
                end: range.end.as_deref().map(Bytes::copy_from_slice),
            };
            self.range_deletes.push(version, copy, bytes);
        }
        while self.range_deletes.evict_if_full().is_some() {}
    }

    fn record_keys(&mut self, version: u64, writes: &WriteSet) {
        let mut hashes = Vec::with_capacity(writes.writes().len());
        let mut keys = PackedKeys::default();
        for key in writes.writes().keys() {
            let hash = self.hasher.hash_one(key.as_ref());
            self.last_change.insert(hash, version);
            hashes.push(hash);
            keys.push(key);
        }
        let (hash_bytes, key_bytes) = (hashes.len() * BYTES_PER_HASH, keys.0.len());
        self.hashes.push(version, hashes, hash_bytes);
        self.keys.push(version, keys, key_bytes);
        while self.keys.evict_if_full().is_some() {}
        while let Some((evicted_version, hashes)) = self.hashes.evict_if_full() {
            for hash in hashes {
                if self.last_change.get(&hash) == Some(&evicted_version) {
                    self.last_change.remove(&hash);
                }
            }
        }
    }

    fn key_conflicts(&self, base_version: u64, writes: &WriteSet) -> bool {
        if !self.hashes.reaches_back_to(base_version)
            || !self.range_deletes.reaches_back_to(base_version)
        {
            return true;
        }
        writes
            .writes()
            .keys()
            .chain(writes.guards().keys())
            .any(|key| {
                let hash = self.hasher.hash_one(key.as_ref());
                self.last_change
                    .get(&hash)
                    .is_some_and(|version| *version > base_version)
                    || self
                        .range_deletes
                        .since(base_version)
                        .any(|range| range.contains(key))
            })
    }

    fn range_conflicts(&self, base_version: u64, ranges: &[KeyRange]) -> bool {
        if !self.keys.reaches_back_to(base_version)
            || !self.range_deletes.reaches_back_to(base_version)
        {
            return true;
        }
        let covers_newer_key = self.keys.since(base_version).any(|keys| {
            keys.iter()
                .any(|key| ranges.iter().any(|range| range.contains(key)))
        });
        covers_newer_key
            || self
                .range_deletes
                .since(base_version)
                .any(|newer| ranges.iter().any(|range| overlap(range, newer)))
    }
}

/// What two snapshots say of all that a write set puts, deletes or guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It has the same values. Items and definitions have their version in their value, so it was
    /// not written in between.
    Unchanged,
    /// It was written in between.
    Changed,
    /// Values cannot tell: of range deletes, and of guarded deletes of what is not there, because
    /// another one leaves nothing behind.
    Unknown,
}

/// Compares what `writes` puts, deletes or guards in two snapshots.
pub async fn compare(
    then: &dyn Snapshot,
    now: &dyn Snapshot,
    writes: &WriteSet,
) -> EngineResult<Comparison> {
    if !writes.range_deletes().is_empty() {
        return Ok(Comparison::Unknown);
    }
    let mut comparison = Comparison::Unchanged;
    let keys = writes.writes().keys().chain(writes.guards().keys());
    let keys: Vec<Bytes> = keys.cloned().collect();
    for keys in keys.chunks(COMPARED_KEYS) {
        let before = then.multi_get(keys).await?;
        if before != now.multi_get(keys).await? {
            return Ok(Comparison::Changed);
        }
        let mut absent = keys.iter().zip(before).filter(|(_, value)| value.is_none());
        if absent.any(|(key, _)| is_contended(writes, key)) {
            comparison = Comparison::Unknown;
        }
    }
    Ok(comparison)
}

/// Whether a key is deleted only so that others who do the same conflict.
pub(crate) fn is_contended(writes: &WriteSet, key: &Bytes) -> bool {
    matches!(writes.writes().get(key), Some(Write::Delete)) && writes.guards().contains_key(key)
}

/// Whether two non-empty ranges share a key.
fn overlap(one: &KeyRange, other: &KeyRange) -> bool {
    let begins_before_end =
        |range: &KeyRange, end: &Option<Bytes>| end.as_ref().is_none_or(|end| range.start < end);
    begins_before_end(one, &other.end) && begins_before_end(other, &one.end)
}

/// The newest entries by version, within a number of bytes.
#[derive(Debug)]
struct Window<T> {
    /// Versions, contents and their bytes, oldest first.
    entries: VecDeque<(u64, T, usize)>,
    /// Everything after this version is still here.
    floor: u64,
    has_forgotten: bool,
    bytes: usize,
    max_bytes: usize,
}

impl<T> Window<T> {
    fn new(floor: u64, max_bytes: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            floor,
            has_forgotten: false,
            bytes: 0,
            max_bytes,
        }
    }

    fn reaches_back_to(&self, base_version: u64) -> bool {
        base_version >= self.floor
    }

    /// The version half way between the oldest and the newest entry, once entries were forgotten.
    fn middle(&self) -> u64 {
        let newest = self
            .entries
            .back()
            .map_or(self.floor, |(version, ..)| *version);
        match self.has_forgotten {
            true => self.floor + (newest - self.floor) / 2,
            false => 0,
        }
    }

    fn push(&mut self, version: u64, content: T, content_bytes: usize) {
        let bytes = content_bytes + BYTES_PER_COMMIT;
        self.bytes += bytes;
        self.entries.push_back((version, content, bytes));
    }

    fn evict_if_full(&mut self) -> Option<(u64, T)> {
        if self.bytes <= self.max_bytes {
            return None;
        }
        let (version, content, bytes) = self.entries.pop_front()?;
        (self.floor, self.has_forgotten) = (version, true);
        self.bytes -= bytes;
        Some((version, content))
    }

    /// Entries newer than `base_version`, newest first.
    fn since(&self, base_version: u64) -> impl Iterator<Item = &T> {
        self.entries
            .iter()
            .rev()
            .take_while(move |(version, ..)| *version > base_version)
            .map(|(_, content, _)| content)
    }
}

/// Keys of one commit in one allocation, each behind its length.
#[derive(Debug, Default)]
struct PackedKeys(Vec<u8>);

impl PackedKeys {
    fn push(&mut self, key: &[u8]) {
        self.0.reserve(size_of::<u64>() + key.len());
        self.0.put_u64(key.len() as u64);
        self.0.extend_from_slice(key);
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let length = usize::try_from(rest.try_get_u64().ok()?).ok()?;
            let (key, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(key)
        })
    }
}

/// A hasher for keys that are hashes already.
#[derive(Debug, Default)]
struct HashAsIs(u64);

impl Hasher for HashAsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_set::Tally;

    const ROOMY: usize = 1 << 20;

    fn set(change: impl FnOnce(&mut WriteSet)) -> WriteSet {
        let mut writes = WriteSet::default();
        change(&mut writes);
        writes
    }

    fn key(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn put(text: &str) -> WriteSet {
        set(|writes| writes.put(key(text), key("value")))
    }

    fn delete(text: &str) -> WriteSet {
        set(|writes| writes.delete(key(text)))
    }

    fn guard(text: &str) -> WriteSet {
        set(|writes| writes.guard(key(text)))
    }

    fn delete_range(start: &str, end: &str) -> WriteSet {
        set(|writes| writes.delete_range(KeyRange::new(key(start), key(end))))
    }

    #[test]
    fn later_changes_of_the_same_keys_conflict() {
        let check = |committed: &WriteSet, attempted: &WriteSet, expected: bool| {
            let mut recent = RecentCommits::new(10, ROOMY);
            recent.record(11, committed);
            assert_eq!(
                recent.conflicts(10, attempted),
                expected,
                "{committed:?} {attempted:?}"
            );
            assert!(
                !recent.conflicts(11, attempted),
                "{committed:?} {attempted:?}"
            );
        };
        let tally = set(|writes| writes.add(key("b"), Tally { items: 1, bytes: 1 }));
        let delete_all = set(|writes| writes.delete_range(KeyRange::all()));
        let rows = [
            (put("b"), put("b"), true),
            (put("b"), delete("b"), true),
            (delete("b"), put("b"), true),
            (put("b"), guard("b"), true),
            (guard("b"), put("b"), false),
            (put("b"), put("a"), false),
            (put("b"), tally.clone(), false),
            (tally.clone(), put("b"), false),
            (tally.clone(), tally, false),
            (put("b"), delete_range("a", "c"), true),
            (put("b"), delete_range("b", "c"), true),
            (put("b"), delete_range("a", "b"), false),
            (put("b"), delete_all.clone(), true),
            (delete_range("a", "c"), put("b"), true),
            (delete_range("a", "c"), guard("a"), true),
            (delete_range("a", "c"), put("c"), false),
            (delete_all.clone(), put("c"), true),
            (delete_range("a", "c"), delete_range("b", "d"), true),
            (delete_range("b", "d"), delete_range("a", "c"), true),
            (delete_range("a", "b"), delete_range("b", "c"), false),
            (delete_range("b", "c"), delete_range("a", "b"), false),
            (delete_all, delete_range("x", "y"), true),
        ];
        for (committed, attempted, expected) in &rows {
            check(committed, attempted, *expected);
        }
    }

    #[test]
    fn the_newest_change_of_a_key_counts() {
        let mut recent = RecentCommits::new(0, ROOMY);
        recent.record(1, &put("a"));
        recent.record(2, &put("a"));
        assert!(recent.conflicts(1, &put("a")));
        assert!(!recent.conflicts(2, &put("a")));
    }

    #[test]
    fn a_base_older_than_the_window_conflicts_and_a_recent_one_does_not() {
        let mut recent = RecentCommits::new(0, 4_000);
        for version in 1..=1_000 {
            recent.record(version, &put(&format!("key {version}")));
        }
        assert!(recent.conflicts(1, &put("untouched")));
        assert!(recent.conflicts(1, &delete_range("x", "y")));
        assert!(!recent.conflicts(1_000, &put("untouched")));
        assert!(!recent.conflicts(999, &delete_range("x", "y")));
        assert!(recent.conflicts(999, &delete_range("key", "kez")));
        assert!(
            recent.last_change.len() < 50,
            "{}",
            recent.last_change.len()
        );
    }

    #[test]
    fn evicting_an_old_change_keeps_a_newer_one_of_the_same_key() {
        let mut recent = RecentCommits::new(0, 2_000);
        for version in 1..=200 {
            recent.record(version, &put("hot"));
            assert!(recent.conflicts(version - 1, &put("hot")), "{version}");
        }
        assert_eq!(recent.last_change.len(), 1);
    }

    #[test]
    fn tallies_and_empty_sets_never_conflict_however_old() {
        let mut recent = RecentCommits::new(100, 0);
        recent.record(101, &put("a"));
        assert!(!recent.conflicts(1, &WriteSet::default()));
        let tally = set(|writes| writes.add(key("a"), Tally { items: 1, bytes: 1 }));
        assert!(!recent.conflicts(1, &tally));
    }
}
