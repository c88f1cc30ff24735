//! Where a page ended: what a client hands back to get the next one.

use bytes::Bytes;

use crate::error::{CqlError, Result};

const FORMAT: u8 = 1;

/// Where the next page of a SELECT begins, and what the pages before have used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PagingState {
    /// The partition and the row key of the last row that was looked at.
    pub(super) partition: Bytes,
    pub(super) row: Bytes,
    /// How many rows of that partition were given.
    pub(super) in_partition: u32,
    /// How many rows LIMIT leaves.
    pub(super) remaining: u32,
    /// Where the page of the index began in which that row was found; empty for the first.
    pub(super) index: Bytes,
}

impl PagingState {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.in_partition.to_be_bytes());
        out.extend_from_slice(&self.remaining.to_be_bytes());
        for part in [&self.partition, &self.row, &self.index] {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(part);
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_be_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        read(bytes).ok_or_else(|| CqlError::protocol("Invalid value for the paging state"))
    }
}

fn read(bytes: &[u8]) -> Option<PagingState> {
    let (content, checksum) = bytes.split_last_chunk::<4>()?;
    if u32::from_be_bytes(*checksum) != crc32fast::hash(content) {
        return None;
    }
    let (format, mut rest) = content.split_first()?;
    if *format != FORMAT {
        return None;
    }
    let in_partition = take_u32(&mut rest)?;
    let remaining = take_u32(&mut rest)?;
    let mut part = || {
        let length = usize::try_from(take_u32(&mut rest)?).ok()?;
        let (part, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(Bytes::copy_from_slice(part))
    };
    let (partition, row, index) = (part()?, part()?, part()?);
    rest.is_empty().then_some(PagingState {
        partition,
        row,
        in_partition,
        remaining,
        index,
    })
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_any_damage_is_refused() {
        let state = PagingState {
            partition: Bytes::from_static(b"key"),
            row: Bytes::from_static(b"\x01row"),
            in_partition: 3,
            remaining: u32::MAX,
            index: Bytes::from_static(b"place"),
        };
        let bytes = state.encode();
        assert_eq!(PagingState::decode(&bytes), Ok(state));
        for position in 0..bytes.len() {
            assert!(PagingState::decode(&bytes[..position]).is_err());
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            assert!(PagingState::decode(&damaged).is_err(), "{position}");
        }
    }
}
