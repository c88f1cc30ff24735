//! Rows that stand for keys which cannot carry a guard themselves.
//!
//! **Widely guarded keys.** Every write guards the version of its container. If all of them locked
//! that one row, each would add itself to the list of those that do (a MultiXact as long as there
//! are writers at once), and PostgreSQL keeps these lists until the whole table is vacuumed. So
//! such a key has a bucket of rows here, one for each connection to lock, and who writes the key
//! changes all of them: the database refuses to lock a row that changed since the snapshot.
//!
//! **Contended keys.** A guarded delete of a key that is not there must be refused if another one
//! was committed since the snapshot, and leaves nothing behind that could refuse it. So it changes
//! one row here.
//!
//! Keys share buckets by their hash. Two that do may refuse each other in vain, and are tried
//! again.

use tessera_core::engine::KeyRange;
use tessera_core::key::{self, definition_versions};

use super::stored_key::Slot;

/// How many buckets widely guarded keys share.
const BUCKETS: u32 = 128;

/// How many rows a bucket has. With more connections than this some lock the same row.
const ROWS: u32 = 64;

/// How many rows contended keys share, in buckets of one row behind the others.
const CONTENDED: u32 = 512;

/// The table, without its rows.
pub(super) const TABLE: &str = "CREATE TABLE tessera_guard (
    bucket int NOT NULL,
    slot int NOT NULL,
    turn bigint NOT NULL,
    PRIMARY KEY (bucket, slot)
);";

/// What makes all rows that there will ever be.
pub(super) fn rows() -> String {
    let last = BUCKETS + CONTENDED - 1;
    format!(
        "INSERT INTO tessera_guard SELECT bucket, slot, 0
            FROM generate_series(0, {last}) bucket, generate_series(0, {ROWS} - 1) slot
            WHERE bucket < {BUCKETS} OR slot = 0;"
    )
}

/// The bucket of a widely guarded key.
pub(super) fn bucket(key: &[u8]) -> Option<i32> {
    key::is_definition_version(key).then(|| column(hash(key) % BUCKETS))
}

/// All buckets with keys of this range.
pub(super) fn buckets(range: &KeyRange) -> impl Iterator<Item = i32> + use<> {
    let widely_guarded = definition_versions();
    let ends_before = range
        .end
        .as_ref()
        .is_some_and(|end| *end <= widely_guarded.start);
    let begins_behind = widely_guarded.end.is_some_and(|end| range.start >= end);
    let touched = !ends_before && !begins_behind && !range.is_empty();
    (0..if touched { BUCKETS } else { 0 }).map(column)
}

/// The bucket of a contended key.
pub(super) fn contention(key: &[u8]) -> i32 {
    column(BUCKETS + hash(key) % CONTENDED)
}

/// The row of a bucket that a connection locks.
pub(super) fn row(slot: Slot) -> i32 {
    column(slot.0 % ROWS)
}

fn column(number: u32) -> i32 {
    i32::try_from(number).unwrap_or_default()
}

/// FNV-1a: the same on every server, and short for short keys.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_the_table_and_contended_ones_are_apart() {
        let mut used = std::collections::BTreeSet::new();
        for storage in 0..2_000 {
            let key = key::definition_version(storage);
            let bucket = bucket(&key).unwrap();
            assert!((0..column(BUCKETS)).contains(&bucket));
            used.insert(bucket);
            let contended = contention(&key);
            assert!((column(BUCKETS)..column(BUCKETS + CONTENDED)).contains(&contended));
        }
        assert!(used.len() > 120, "{used:?}");
        for other in [&b""[..], b"u", b"i\x00", b"w", b"\xff"] {
            assert_eq!(bucket(other), None);
        }
        assert_eq!(row(Slot(ROWS + 3)), 3);
    }

    #[test]
    fn ranges_touch_all_buckets_or_none() {
        let all = KeyRange::all();
        let one = KeyRange::prefix(key::definition_version(7));
        let open = KeyRange {
            start: (&b"va"[..]).into(),
            end: None,
        };
        for range in [all, one, open, definition_versions()] {
            assert_eq!(buckets(&range).count(), 128, "{range:?}");
        }
        for range in [
            KeyRange::new(&b"i"[..], &b"v"[..]),
            KeyRange::new(&b"w"[..], &b"x"[..]),
            KeyRange::new(&b"vb"[..], &b"va"[..]),
            KeyRange::prefix(&b"x"[..]),
        ] {
            assert_eq!(buckets(&range).count(), 0, "{range:?}");
        }
    }
}
