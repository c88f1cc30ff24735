//! Space on the disk that writes leave free.
//!
//! A disk that is full in the middle of a write leaves the engine read-only until it is opened
//! again, because the state of the disk is unknown. So writes are refused before that, while the
//! contents of memory still fit on the disk; their outcome is known, and writes resume by
//! themselves once there is space. Deletes are allowed for longer than inserts, since they free
//! space.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tessera_core::engine::EngineError;
use tessera_core::write_set::{Write, WriteSet};

/// Beside the memtables, which may be flushed at any moment: the log and what compaction needs.
const SPARE_BYTES: u64 = 64 << 20;
/// A small disk keeps this part of itself free instead.
const PART_OF_DISK: u64 = 8;
/// A write set that deletes may put this many bytes: records of the front ends about the deletion.
const NOTE_BYTES: usize = 4 << 10;

/// A measurement is valid for this long: other programs write to the disk as well.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Or until this part of the reserve was written since.
const PART_OF_RESERVE: u64 = 16;

/// Watches the free space of one disk.
pub(super) struct FreeSpace {
    folder: PathBuf,
    reserve: u64,
    free: u64,
    looked: Instant,
    /// Bytes written since.
    written: u64,
}

impl FreeSpace {
    /// The free space of the disk of `folder`, for an engine with this many bytes of memtables.
    pub(super) fn of(folder: &Path, memtables: usize) -> Self {
        let mut space = Self {
            folder: folder.to_owned(),
            reserve: 0,
            free: u64::MAX,
            looked: Instant::now(),
            written: 0,
        };
        if let Ok(disk) = rustix::fs::statvfs(folder) {
            let part = disk.f_blocks.saturating_mul(disk.f_frsize) / PART_OF_DISK;
            space.reserve = (memtables as u64).saturating_add(SPARE_BYTES).min(part);
        }
        space.look();
        space
    }

    /// Measures again if that is due, before this many bytes are written. A full disk is always
    /// measured again: writes resume as soon as there is space.
    pub(super) fn look_before(&mut self, now: Instant, bytes: usize) {
        self.written = self.written.saturating_add(bytes as u64);
        let is_recent = now.saturating_duration_since(self.looked) < LOOK_INTERVAL;
        if !is_recent || self.is_low() || self.written > self.reserve / PART_OF_RESERVE {
            self.look();
        }
    }

    fn look(&mut self) {
        (self.looked, self.written) = (Instant::now(), 0);
        let was_low = self.is_low();
        if let Ok(disk) = rustix::fs::statvfs(&self.folder) {
            self.free = disk.f_bavail.saturating_mul(disk.f_frsize);
        }
        match (was_low, self.is_low()) {
            (false, true) => tracing::warn!(
                free = self.free,
                kept_free = self.reserve,
                "the disk is almost full: writes are refused until there is room"
            ),
            (true, false) => tracing::info!(free = self.free, "there is room on the disk again"),
            (true, true) | (false, false) => {}
        }
    }

    /// Whether any writes are refused.
    pub(super) fn is_low(&self) -> bool {
        self.free < self.reserve
    }

    /// The refusal of a write set, if there is no space for it.
    pub(super) fn refusal_of(&self, writes: &WriteSet) -> Option<EngineError> {
        let limit = match makes_room(writes) {
            true => self.reserve / 2,
            false => self.reserve,
        };
        (self.free < limit).then(|| self.refusal())
    }

    /// Why writes are refused.
    pub(super) fn refusal(&self) -> EngineError {
        EngineError::ReadOnly(format!(
            "the disk of {} has {} MB left, and {} MB are kept free; delete something or make \
             room, and writes go on by themselves",
            self.folder.display(),
            self.free >> 20,
            self.reserve >> 20
        ))
    }
}

/// Whether a write set deletes, and puts only little.
fn makes_room(writes: &WriteSet) -> bool {
    let mut put_bytes = 0;
    let mut deletes = !writes.range_deletes().is_empty();
    for write in writes.writes().values() {
        match write {
            Write::Put(value) => put_bytes += value.len(),
            Write::Delete => deletes = true,
        }
    }
    let appended = writes.appended().iter().map(|it| it.value.len());
    put_bytes += appended.sum::<usize>();
    deletes && put_bytes <= NOTE_BYTES
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn put(bytes: usize) -> WriteSet {
        let mut writes = WriteSet::default();
        writes.put(Bytes::from_static(b"k"), Bytes::from(vec![0; bytes]));
        writes
    }

    #[test]
    fn deletes_are_refused_later_than_puts() {
        let at = |free| FreeSpace {
            folder: PathBuf::from("data"),
            reserve: 100,
            free,
            looked: Instant::now(),
            written: 0,
        };
        let mut delete = put(100);
        delete.delete(Bytes::from_static(b"old"));
        let mut replace = put(NOTE_BYTES + 1);
        replace.delete(Bytes::from_static(b"old"));
        for (free, expected) in [
            (100, [false; 3]),
            (99, [true, true, false]),
            (50, [true, true, false]),
            (49, [true; 3]),
        ] {
            let space = at(free);
            let refused = [&put(1), &replace, &delete].map(|it| space.refusal_of(it).is_some());
            assert_eq!(refused, expected, "{free}");
        }
    }

    #[test]
    fn it_looks_again_with_time_with_bytes_and_while_the_disk_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let mut space = FreeSpace::of(folder.path(), 1 << 20);
        let (seen, part) = (space.free, space.reserve / PART_OF_RESERVE);
        let part = usize::try_from(part).unwrap();
        let now = space.looked;
        // Without a new measurement the simulated value stays.
        let pretended = space.reserve;
        let mut looks = |free: u64, after: Duration, bytes: usize| {
            (space.free, space.looked, space.written) = (free, now, 0);
            space.look_before(now + after, bytes);
            space.free != free
        };
        assert!(seen > pretended, "this disk is too full for the test");
        assert!(!looks(pretended, Duration::ZERO, 0));
        assert!(!looks(pretended, LOOK_INTERVAL / 2, part));
        assert!(looks(pretended, LOOK_INTERVAL, 0));
        assert!(looks(pretended, Duration::ZERO, part + 1));
        assert!(looks(pretended - 1, Duration::ZERO, 0));
    }

    #[test]
    fn a_real_disk_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let space = FreeSpace::of(folder.path(), 1 << 20);
        assert!(space.free < u64::MAX && space.reserve > 0);
    }
}
