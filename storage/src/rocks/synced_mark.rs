//! How far the log was synced, recorded beside the data, so that missing acknowledged writes are
//! noticed when the folder is opened.
//!
//! A log that was deleted, emptied or cut looks like one with a torn end after a power cut; the
//! only difference is what had been synced, and the log itself no longer says that. So after each
//! sync the sequence number of the last synced write goes into a small file. That write is not
//! synced itself, for the next sync would then cost twice as much: the number that reaches the disk
//! may be an older one, but never one that was not synced before. It is exact after a crash of the
//! process and after a clean end; after a power cut it may be as old as what the operating system
//! had not written back yet, usually some seconds.
//!
//! Without the file nothing is checked: folders of earlier releases have none, and deleting it is
//! the way to open the rest after a loss.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::crc32c::masked_crc32c;
use super::folder::{PRIVATE_FILE, sync_folder};

/// Sequence number and checksum: far less than a disk writes atomically.
const BYTES: usize = 12;
/// Sets the checksum apart from those of fragments of the log.
const KIND: u8 = b'S';

/// The open file.
pub(super) struct SyncedMark {
    file: File,
    /// Whether the last number could not be written. Logged once: commits do not depend on it.
    failing: bool,
}

impl SyncedMark {
    /// The path of the mark.
    pub(super) fn path(data: &Path) -> PathBuf {
        data.join("synced")
    }

    /// The number in the data folder `data`, if there is a readable one.
    pub(super) fn read(data: &Path) -> io::Result<Option<u64>> {
        let path = Self::path(data);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let sequence = decode(&bytes);
        if sequence.is_none() {
            tracing::warn!(
                file = %path.display(),
                "the file is damaged, so that missing writes cannot be noticed this time"
            );
        }
        Ok(sequence)
    }

    /// Records durably that everything up to `sequence` is synced; returns the open mark.
    pub(super) fn create(data: &Path, sequence: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE)
            .open(Self::path(data))?;
        file.write_all_at(&encode(sequence), 0)?;
        file.set_len(BYTES as u64)?;
        file.sync_all()?;
        sync_folder(data)?;
        Ok(Self {
            file,
            failing: false,
        })
    }

    /// Records that everything up to `sequence` is synced.
    pub(super) fn note(&mut self, sequence: u64) {
        let noted = self.file.write_all_at(&encode(sequence), 0);
        if let (Err(error), false) = (&noted, self.failing) {
            tracing::warn!(%error, "cannot note how far the log is synced");
        }
        self.failing = noted.is_err();
    }

    /// Syncs the mark.
    pub(super) fn keep(&self) {
        if let Err(error) = self.file.sync_data() {
            tracing::warn!(%error, "cannot note how far the log is synced");
        }
    }
}

fn encode(sequence: u64) -> [u8; BYTES] {
    let number = sequence.to_be_bytes();
    let checksum = masked_crc32c(KIND, &number).to_be_bytes();
    let mut bytes = [0; BYTES];
    let (first, last) = bytes.split_at_mut(number.len());
    first.copy_from_slice(&number);
    last.copy_from_slice(&checksum);
    bytes
}

fn decode(bytes: &[u8]) -> Option<u64> {
    let (number, checksum) = bytes.split_first_chunk::<8>()?;
    let whole = checksum == masked_crc32c(KIND, number).to_be_bytes();
    whole.then(|| u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_was_written_and_a_damaged_one_never() {
        for sequence in [0, 1, 255, 1 << 40, u64::MAX] {
            let bytes = encode(sequence);
            assert_eq!(decode(&bytes), Some(sequence));
            for at in 0..BYTES {
                let mut damaged = bytes;
                damaged[at] ^= 0x10;
                assert_eq!(decode(&damaged), None);
                assert_eq!(decode(&bytes[..at]), None);
            }
        }
    }
}
