//! Rows as bodies of items: what a table's container holds.
//!
//! ```text
//! row        01, clustering values, row
//! partition  02, deletion, ranges, static row
//! row        liveness, deletion, columns
//! ```
//! Counts, lengths and numbers of columns are variable; times are eight bytes. A flag byte before
//! each part says which of its fields are there, so that a plain row costs few bytes.

use bytes::Bytes;

use super::{Cell, Columns, Content, Deletion, KeyRange, Liveness, Ranges, Row};

const ROW: u8 = 1;
const PARTITION: u8 = 2;

mod row_flag {
    pub(super) const LIVENESS: u8 = 1;
    pub(super) const LIVENESS_ENDS: u8 = 2;
    pub(super) const DELETION: u8 = 4;
}

mod cell_flag {
    pub(super) const VALUE: u8 = 1;
    pub(super) const ENDS: u8 = 2;
    pub(super) const TIME_TO_LIVE: u8 = 4;
    pub(super) const COMPLEX: u8 = 8;
    pub(super) const DELETION: u8 = 16;
}

/// A row with the values of its clustering columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredRow {
    pub(crate) clustering: Vec<Bytes>,
    pub(crate) row: Row,
}

/// What belongs to a partition and to none of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionRecord {
    pub(crate) deletion: Deletion,
    pub(crate) ranges: Ranges,
    pub(crate) statics: Row,
}

impl StoredRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.row.columns.iter().map(room).sum::<usize>());
        out.push(ROW);
        put_count(&mut out, self.clustering.len());
        for value in &self.clustering {
            put_bytes(&mut out, value);
        }
        put_row(&mut out, &self.row);
        out
    }

    /// The values are parts of `body`, which they keep in memory.
    pub(crate) fn decode(body: &Bytes) -> Option<Self> {
        let mut input = &**body;
        if take_byte(&mut input)? != ROW {
            return None;
        }
        let count = take_count(&mut input)?;
        let mut clustering = Vec::with_capacity(count);
        for _ in 0..count {
            clustering.push(body.slice_ref(take_bytes(&mut input)?));
        }
        let row = take_row(body, &mut input)?;
        input.is_empty().then_some(Self { clustering, row })
    }
}

impl PartitionRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.push(PARTITION);
        put_deletion(&mut out, self.deletion);
        put_count(&mut out, self.ranges.iter().count());
        for (range, deletion) in self.ranges.iter() {
            put_bytes(&mut out, &range.start);
            out.push(u8::from(range.end.is_some()));
            if let Some(end) = &range.end {
                put_bytes(&mut out, end);
            }
            put_deletion(&mut out, *deletion);
        }
        put_row(&mut out, &self.statics);
        out
    }

    pub(crate) fn decode(body: &Bytes) -> Option<Self> {
        let mut input = &**body;
        if take_byte(&mut input)? != PARTITION {
            return None;
        }
        let deletion = take_deletion(&mut input)?;
        let count = take_count(&mut input)?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let start = take_bytes(&mut input)?.to_vec();
            let end = match take_byte(&mut input)? {
                0 => None,
                _ => Some(take_bytes(&mut input)?.to_vec()),
            };
            ranges.push((KeyRange { start, end }, take_deletion(&mut input)?));
        }
        let statics = take_row(body, &mut input)?;
        input.is_empty().then_some(Self {
            deletion,
            ranges: Ranges::from_sorted(ranges),
            statics,
        })
    }
}

/// About the bytes of a column, so that a row of many or long ones is not moved while it is
/// written.
fn room((_, content): (u32, &Content)) -> usize {
    const AROUND_VALUE: usize = 16;
    match content {
        Content::Simple(cell) => AROUND_VALUE + cell.value.as_ref().map_or(0, Bytes::len),
        Content::Complex { cells, .. } => AROUND_VALUE * (1 + cells.len()),
    }
}

fn put_row(out: &mut Vec<u8>, row: &Row) {
    let mut flags = 0;
    if let Some(liveness) = row.liveness {
        flags |= row_flag::LIVENESS;
        if liveness.ends.is_some() {
            flags |= row_flag::LIVENESS_ENDS;
        }
    }
    if row.deletion != Deletion::NONE {
        flags |= row_flag::DELETION;
    }
    out.push(flags);
    if let Some(liveness) = row.liveness {
        put_i64(out, liveness.timestamp);
        if let Some(ends) = liveness.ends {
            put_i64(out, ends);
        }
    }
    if row.deletion != Deletion::NONE {
        put_deletion(out, row.deletion);
    }
    put_count(out, row.columns.len());
    for (column, content) in row.columns.iter() {
        put_count(out, usize::try_from(column).unwrap_or(usize::MAX));
        match content {
            Content::Simple(cell) => put_cell(out, cell, 0),
            Content::Complex { deletion, cells } => {
                let has_deletion = *deletion != Deletion::NONE;
                let flag = if has_deletion { cell_flag::DELETION } else { 0 };
                out.push(cell_flag::COMPLEX | flag);
                if has_deletion {
                    put_deletion(out, *deletion);
                }
                put_count(out, cells.len());
                for (path, cell) in cells {
                    put_bytes(out, path);
                    put_cell(out, cell, 0);
                }
            }
        }
    }
}

/// The row that comes next in `body`, of which `input` is the rest.
fn take_row(body: &Bytes, input: &mut &[u8]) -> Option<Row> {
    let flags = take_byte(input)?;
    let mut row = Row::default();
    if flags & row_flag::LIVENESS != 0 {
        let timestamp = take_i64(input)?;
        let ends = match flags & row_flag::LIVENESS_ENDS {
            0 => None,
            _ => Some(take_i64(input)?),
        };
        row.liveness = Some(Liveness { timestamp, ends });
    }
    if flags & row_flag::DELETION != 0 {
        row.deletion = take_deletion(input)?;
    }
    let count = take_count(input)?;
    // A column takes ten bytes at least.
    row.columns = Columns::with_capacity(count.min(input.len() / 10));
    for _ in 0..count {
        let column = u32::try_from(take_count_of(input)?).ok()?;
        let flags = take_byte(input)?;
        let content = if flags & cell_flag::COMPLEX == 0 {
            Content::Simple(take_cell(body, input, flags)?)
        } else {
            let deletion = match flags & cell_flag::DELETION {
                0 => Deletion::NONE,
                _ => take_deletion(input)?,
            };
            let mut cells = std::collections::BTreeMap::new();
            for _ in 0..take_count(input)? {
                let path = take_bytes(input)?.to_vec();
                let flags = take_byte(input)?;
                cells.insert(path, take_cell(body, input, flags)?);
            }
            Content::Complex { deletion, cells }
        };
        row.columns.set(column, content);
    }
    Some(row)
}

fn put_cell(out: &mut Vec<u8>, cell: &Cell, more: u8) {
    let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    out.push(
        more | flag(cell.value.is_some(), cell_flag::VALUE)
            | flag(cell.ends.is_some(), cell_flag::ENDS)
            | flag(cell.time_to_live.is_some(), cell_flag::TIME_TO_LIVE),
    );
    put_i64(out, cell.timestamp);
    if let Some(ends) = cell.ends {
        put_i64(out, ends);
    }
    if let Some(time_to_live) = cell.time_to_live {
        out.extend_from_slice(&time_to_live.to_be_bytes());
    }
    if let Some(value) = &cell.value {
        put_bytes(out, value);
    }
}

fn take_cell(body: &Bytes, input: &mut &[u8], flags: u8) -> Option<Cell> {
    let timestamp = take_i64(input)?;
    let ends = match flags & cell_flag::ENDS {
        0 => None,
        _ => Some(take_i64(input)?),
    };
    let time_to_live = match flags & cell_flag::TIME_TO_LIVE {
        0 => None,
        _ => {
            let (bytes, rest) = input.split_first_chunk()?;
            *input = rest;
            Some(i32::from_be_bytes(*bytes))
        }
    };
    let value = match flags & cell_flag::VALUE {
        0 => None,
        _ => Some(body.slice_ref(take_bytes(input)?)),
    };
    Some(Cell {
        timestamp,
        value,
        ends,
        time_to_live,
    })
}

fn put_deletion(out: &mut Vec<u8>, deletion: Deletion) {
    put_i64(out, deletion.timestamp);
    put_i64(out, deletion.at);
}

fn take_deletion(input: &mut &[u8]) -> Option<Deletion> {
    let timestamp = take_i64(input)?;
    let at = take_i64(input)?;
    Some(Deletion { timestamp, at })
}

fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn take_i64(input: &mut &[u8]) -> Option<i64> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(i64::from_be_bytes(*bytes))
}

fn take_byte(input: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = input.split_first()?;
    *input = rest;
    Some(*byte)
}

/// Seven bits in each byte, the lowest first; the eighth says that more follow.
fn put_count(out: &mut Vec<u8>, count: usize) {
    let mut rest = count;
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap_or(0);
        rest >>= 7;
        if rest == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

fn take_count_of(input: &mut &[u8]) -> Option<usize> {
    let mut count = 0usize;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = take_byte(input)?;
        count |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(count);
        }
    }
    None
}

/// A count of parts, of which each takes at least a byte.
fn take_count(input: &mut &[u8]) -> Option<usize> {
    take_count_of(input).filter(|count| *count <= input.len())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_count_of(input)?;
    let (bytes, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_and_truncations_are_refused() {
        let deletion = Deletion {
            timestamp: 3,
            at: 4,
        };
        let mut row = Row::default()
            .with(0, Content::Simple(Cell::live(5, &b"value"[..])))
            .with(300, Content::Simple(Cell::deleted(6, 7)))
            .with(
                1,
                Content::element(b"path", Cell::expiring(8, &b""[..], 9, 10)),
            );
        row.liveness = Some(Liveness {
            timestamp: -1,
            ends: Some(2),
        });
        row.deletion = deletion;
        let stored = StoredRow {
            clustering: vec![Bytes::from_static(b"ck"), Bytes::new()],
            row: row.clone(),
        };
        let bytes = Bytes::from(stored.encode());
        assert_eq!(StoredRow::decode(&bytes), Some(stored));
        let range = KeyRange {
            start: vec![1],
            end: None,
        };
        let record = PartitionRecord {
            deletion,
            ranges: Ranges::of(range, deletion),
            statics: row,
        };
        let record_bytes = Bytes::from(record.encode());
        assert_eq!(PartitionRecord::decode(&record_bytes), Some(record));
        for end in 0..bytes.len() {
            assert_eq!(StoredRow::decode(&bytes.slice(..end)), None, "{end}");
        }
        for end in 0..record_bytes.len() {
            assert_eq!(
                PartitionRecord::decode(&record_bytes.slice(..end)),
                None,
                "{end}"
            );
        }
        let empty = StoredRow::default();
        assert_eq!(StoredRow::decode(&empty.encode().into()), Some(empty));
        let count: Vec<u8> = vec![
            ROW, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
        ];
        assert_eq!(StoredRow::decode(&count.into()), None);
    }
}
