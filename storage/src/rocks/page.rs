//! Collects one page of a scan, in two attempts if the first one would have to wait for the disk.

use bytes::Bytes;
use rocksdb::{DBRawIterator, ErrorKind};
use tessera_core::engine::{EngineResult, Page, Scan};

use super::shared::read_error;
use super::view::{Reach, View};

/// A scan of memory stops here and continues on a blocking thread: longer work does not belong on
/// an async worker.
const MAX_INLINE_ROWS: usize = 256;
const MAX_INLINE_BYTES: usize = 128 << 10;

/// A page that is being filled. All keys and values go into one buffer, which the finished entries
/// share.
pub(super) struct PageBuilder {
    scan: Scan,
    buffer: Vec<u8>,
    /// The ends of each entry's key and value in the buffer.
    ends: Vec<(usize, usize)>,
    more: bool,
}

/// The outcome of one attempt at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The page is complete.
    Complete,
    /// The missing part is beyond the allowed reach.
    Unfinished,
}

impl PageBuilder {
    pub(super) fn new(scan: &Scan) -> Self {
        Self {
            scan: scan.clone(),
            buffer: Vec::new(),
            ends: Vec::new(),
            more: false,
        }
    }

    /// Continues after the last entry of the page.
    pub(super) fn fill(&mut self, view: &View, reach: Reach) -> EngineResult<Progress> {
        let rest = match self.last_key() {
            Some(last) => self.scan.after(&Bytes::copy_from_slice(last)),
            None => self.scan.clone(),
        };
        if rest.range.is_empty() {
            return Ok(Progress::Complete);
        }
        view.iterate(&rest, reach, |iterator| self.take_from(iterator, reach))
    }

    /// Bytes of the keys and values collected so far.
    pub(super) fn byte_size(&self) -> usize {
        self.buffer.len()
    }

    /// The page.
    pub(super) fn finish(self) -> Page {
        let buffer = Bytes::from(self.buffer);
        let mut start = 0;
        let entries = self
            .ends
            .iter()
            .map(|(key_end, value_end)| {
                let entry = (
                    buffer.slice(start..*key_end),
                    buffer.slice(*key_end..*value_end),
                );
                start = *value_end;
                entry
            })
            .collect();
        Page {
            entries,
            more: self.more,
        }
    }

    fn take_from(
        &mut self,
        mut iterator: DBRawIterator<'_>,
        reach: Reach,
    ) -> EngineResult<Progress> {
        while let Some((key, value)) = iterator.item() {
            if self.is_full() {
                self.more = true;
                return Ok(Progress::Complete);
            }
            if reach == Reach::Memory && self.is_long() {
                return Ok(Progress::Unfinished);
            }
            self.push(key, value);
            if self.scan.reverse {
                iterator.prev();
            } else {
                iterator.next();
            }
        }
        match iterator.status() {
            Ok(()) => Ok(Progress::Complete),
            Err(error) if error.kind() == ErrorKind::Incomplete && self.is_full() => {
                // A read of the disk only to learn whether anything follows is not worth it.
                self.more = true;
                Ok(Progress::Complete)
            }
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(Progress::Unfinished),
            Err(error) => Err(read_error(&error)),
        }
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.buffer.extend_from_slice(key);
        let key_end = self.buffer.len();
        if !self.scan.keys_only {
            self.buffer.extend_from_slice(value);
        }
        self.ends.push((key_end, self.buffer.len()));
    }

    fn is_full(&self) -> bool {
        !self.ends.is_empty()
            && (self.ends.len() >= self.scan.max_rows || self.buffer.len() >= self.scan.max_bytes)
    }

    fn is_long(&self) -> bool {
        self.ends.len() >= MAX_INLINE_ROWS || self.buffer.len() >= MAX_INLINE_BYTES
    }

    fn last_key(&self) -> Option<&[u8]> {
        let (key_end, _) = self.ends.last()?;
        let start = match self.ends.len().checked_sub(2) {
            Some(before) => self.ends.get(before)?.1,
            None => 0,
        };
        self.buffer.get(start..*key_end)
    }
}
