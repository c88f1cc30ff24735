//! Reads the write-ahead logs before RocksDB does, to tell a torn end from damage.
//!
//! After a power cut, what was written since the last sync may be there in part: cut short, or with
//! holes, because the operating system writes pages in any order. None of it was acknowledged as
//! durable, so the log may be read up to the first bad spot and the rest discarded. A bad spot in
//! synced data is damage to acknowledged commits, and must be reported. The bytes at the spot look
//! alike in both cases. The difference is that every batch carries, as log data, the sequence
//! number up to which the log was synced when the batch was written: if a batch behind the bad spot
//! says that the spot was synced before, it is damage.
//!
//! Data that is missing at the very end of the logs has no batch behind it: `synced_mark` detects
//! that.
//!
//! Nothing is ever deleted: if whole batches follow a torn spot, which RocksDB might read as the
//! continuation, the log is replaced by its good beginning and kept under another name.
//!
//! The format is in RocksDB's `db/log_format.h` and `db/write_batch.cc`: blocks of 32 KiB, in them
//! fragments with checksums, of which one or several make up a batch.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Buf as _;

use super::crc32c::masked_crc32c;
use super::folder::{create_file, sync_folder};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
/// Sequence number and count of a batch, then the log data: tag, length and [`SYNC_MARK_BYTES`].
const HEAD_BYTES: usize = 12 + 2 + SYNC_MARK_BYTES;
const SYNC_MARK_BYTES: usize = 8;
/// The beginning of the log data: its tag and its length.
const LOG_DATA_START: [u8; 2] = [3, 8];

/// The log data of a batch: everything up to this sequence number was synced before.
pub(super) fn sync_mark(synced_sequence: u64) -> [u8; SYNC_MARK_BYTES] {
    synced_sequence.to_be_bytes()
}

/// The state of the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LogState {
    /// No error was found.
    Whole,
    /// They are read up to the first bad spot: the rest was never synced.
    Torn {
        /// The log.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// Whether there are whole batches behind the spot, which must not be read.
        batch_follows: bool,
    },
    /// Synced data is damaged.
    Damaged {
        /// The log.
        file: PathBuf,
        /// Where in it.
        offset: u64,
    },
}

/// The result of the check.
pub(super) struct Logs {
    pub(super) state: LogState,
    /// The sequence number of the last write before the first bad spot, if there is one.
    pub(super) last_sequence: Option<u64>,
    /// The newest log, if there is one.
    pub(super) newest: Option<PathBuf>,
}

/// Reads all logs in the folder.
pub(super) fn check_logs(rocks_path: &Path) -> io::Result<Logs> {
    let mut scanner = Scanner::default();
    let mut files = logs(rocks_path)?;
    for file in &files {
        scanner.read(file)?;
    }
    Ok(Logs {
        last_sequence: scanner.last_sequence,
        state: scanner.finish(),
        newest: files.pop(),
    })
}

/// Cuts the logs at `offset` in `file`. The rest is kept in `aside`.
pub(super) fn cut_torn_log(file: &Path, offset: u64, aside: &Path) -> io::Result<()> {
    let Some(rocks_path) = file.parent() else {
        return Ok(());
    };
    for log in logs(rocks_path)? {
        let Some(name) = log.file_name() else {
            continue;
        };
        let kept = aside.join(format!("torn-{}", name.to_string_lossy()));
        if log == file {
            let draft = log.with_extension("draft");
            let mut good = create_file(&draft)?;
            io::copy(&mut File::open(&log)?.take(offset), &mut good)?;
            good.sync_all()?;
            // A second name first, so that the log is there at any moment.
            std::fs::hard_link(&log, kept)?;
            std::fs::rename(draft, &log)?;
        } else if log_number(&log) > log_number(file) {
            std::fs::rename(&log, kept)?;
        }
    }
    sync_folder(aside)?;
    sync_folder(rocks_path)
}

/// The write-ahead logs, oldest first.
fn logs(rocks_path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in std::fs::read_dir(rocks_path)? {
        let path = entry?.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let (Some(number), Some("log")) = (number, path.extension().and_then(|e| e.to_str())) {
            logs.push((number, path));
        }
    }
    logs.sort();
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

fn log_number(log: &Path) -> Option<u64> {
    log.file_stem()?.to_str()?.parse().ok()
}

/// A piece of a batch in a block.
struct Fragment<'a> {
    kind: u8,
    payload: &'a [u8],
}

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

impl<'a> Fragment<'a> {
    /// Whether it is worth computing a checksum.
    fn may_begin(bytes: &[u8]) -> bool {
        bytes
            .get(HEADER_BYTES - 1)
            .is_some_and(|kind| (FULL..=LAST).contains(kind))
    }

    /// The fragment at the start of `bytes`, if it is whole.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (mut header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let checksum = header.get_u32_le();
        let length = usize::from(header.get_u16_le());
        let kind = header.get_u8();
        let payload = rest.get(..length)?;
        let whole = kind != 0 && masked_crc32c(kind, payload) == checksum;
        whole.then_some(Self { kind, payload })
    }
}

/// The first bad spot.
struct BadSpot {
    file: PathBuf,
    offset: u64,
    /// The last sequence number before it, if a batch came before.
    last_good: Option<u64>,
    /// Whether a batch behind it says that the spot was synced.
    was_synced: bool,
    /// Whether a batch was found behind it at all.
    batch_follows: bool,
}

#[derive(Default)]
struct Scanner {
    /// The first bytes of a batch whose last fragment is still to come, and where it begins.
    unfinished: Option<(Vec<u8>, u64)>,
    last_sequence: Option<u64>,
    bad_spot: Option<BadSpot>,
    newest_with_data: Option<PathBuf>,
}

impl Scanner {
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let mut block_start = 0;
        loop {
            block.clear();
            file.by_ref()
                .take(BLOCK_BYTES as u64)
                .read_to_end(&mut block)?;
            if block.is_empty() {
                break;
            }
            self.newest_with_data = Some(path.to_owned());
            self.read_block(path, block_start, &block);
            block_start += block.len() as u64;
        }
        if let Some((_, start)) = self.unfinished.take() {
            self.note_bad_spot(path, start);
        }
        Ok(())
    }

    fn read_block(&mut self, path: &Path, block_start: u64, block: &[u8]) {
        let mut offset = 0;
        while let Some(rest) = block.get(offset..).filter(|rest| !rest.is_empty()) {
            let is_padding = rest.len() < HEADER_BYTES && block.len() == BLOCK_BYTES;
            if is_padding {
                return;
            }
            let position = block_start + offset as u64;
            if let Some(fragment) = Fragment::parse(rest) {
                self.take_fragment(path, position, &fragment);
                offset += HEADER_BYTES + fragment.payload.len();
                continue;
            }
            self.unfinished = None;
            self.note_bad_spot(path, position);
            // Later batches may tell whether the spot was synced, so search for the next fragment.
            let next = (offset + 1..block.len()).find(|next| {
                let rest = block.get(*next..).filter(|rest| Fragment::may_begin(rest));
                rest.and_then(Fragment::parse).is_some()
            });
            let Some(next) = next else { return };
            offset = next;
        }
    }

    fn take_fragment(&mut self, path: &Path, position: u64, fragment: &Fragment<'_>) {
        let is_start = matches!(fragment.kind, FULL | FIRST);
        let is_batch = is_start || matches!(fragment.kind, MIDDLE | LAST);
        if !is_batch {
            return;
        }
        let begun = self.unfinished.take();
        let (mut head, start) = match (begun, is_start) {
            (Some((_, lost)), true) => {
                self.note_bad_spot(path, lost);
                (Vec::new(), position)
            }
            (None, true) => (Vec::new(), position),
            (Some(begun), false) => begun,
            (None, false) => return self.note_bad_spot(path, position),
        };
        let missing = HEAD_BYTES.saturating_sub(head.len());
        head.extend(fragment.payload.iter().take(missing));
        if matches!(fragment.kind, FULL | LAST) {
            self.take_batch(&head);
        } else {
            self.unfinished = Some((head, start));
        }
    }

    fn take_batch(&mut self, head: &[u8]) {
        let Some(batch) = BatchHead::parse(head) else {
            return;
        };
        match &mut self.bad_spot {
            None => self.last_sequence = Some(batch.last_sequence),
            Some(bad) => {
                // Without a batch before the spot, it is known only to end where this batch begins.
                let known_synced = match bad.last_good {
                    Some(last_good) => batch.synced > last_good,
                    None => !bad.batch_follows && batch.synced.saturating_add(1) >= batch.sequence,
                };
                bad.was_synced |= known_synced;
                bad.batch_follows = true;
            }
        }
    }

    fn note_bad_spot(&mut self, path: &Path, offset: u64) {
        let last_good = self.last_sequence;
        self.bad_spot.get_or_insert_with(|| BadSpot {
            file: path.to_owned(),
            offset,
            last_good,
            was_synced: false,
            batch_follows: false,
        });
    }

    fn finish(self) -> LogState {
        match self.bad_spot {
            None => LogState::Whole,
            Some(BadSpot {
                file,
                offset,
                batch_follows,
                was_synced: false,
                ..
            }) => LogState::Torn {
                file,
                offset,
                batch_follows,
            },
            Some(bad) if self.newest_with_data.as_ref() == Some(&bad.file) => LogState::Damaged {
                file: bad.file,
                offset: bad.offset,
            },
            // An older log may be out of use already, which only RocksDB's manifest can tell.
            Some(_) => LogState::Whole,
        }
    }
}

/// The first bytes of a batch.
struct BatchHead {
    sequence: u64,
    last_sequence: u64,
    /// The sync mark; 0 in a batch without one, which proves nothing.
    synced: u64,
}

impl BatchHead {
    fn parse(mut head: &[u8]) -> Option<Self> {
        let sequence = head.try_get_u64_le().ok()?;
        let count = head.try_get_u32_le().ok()?;
        let last_sequence = sequence.saturating_add(u64::from(count)).saturating_sub(1);
        let synced = match head.split_at_checked(2) {
            Some((tag_and_length, mut mark)) if tag_and_length == LOG_DATA_START => {
                mark.try_get_u64().ok()?
            }
            _ => 0,
        };
        Some(Self {
            sequence,
            last_sequence,
            synced,
        })
    }
}
