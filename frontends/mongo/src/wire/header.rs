//! The sixteen bytes before every message.

use super::take_i32;

/// The length of a header.
pub(crate) const HEADER_BYTES: usize = 16;
/// The longest message, which `hello` announces.
pub(crate) const MAX_MESSAGE_BYTES: i32 = 48_000_000;

/// What kinds of messages there are.
pub(crate) mod op_code {
    pub(crate) const REPLY: i32 = 1;
    pub(crate) const QUERY: i32 = 2004;
    pub(crate) const GET_MORE: i32 = 2005;
    pub(crate) const COMPRESSED: i32 = 2012;
    pub(crate) const MESSAGE: i32 = 2013;
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Length of the whole message, header included.
    pub(crate) length: usize,
    pub(crate) request_id: i32,
    pub(crate) response_to: i32,
    pub(crate) op_code: i32,
}

impl Header {
    /// Reads a header. None: its length is one that no message has.
    pub(crate) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut input = bytes.as_slice();
        let length = take_i32(&mut input)?;
        if length > MAX_MESSAGE_BYTES {
            return None;
        }
        let length = usize::try_from(length).ok()?;
        if length < HEADER_BYTES {
            return None;
        }
        Some(Self {
            length,
            request_id: take_i32(&mut input)?,
            response_to: take_i32(&mut input)?,
            op_code: take_i32(&mut input)?,
        })
    }
}

/// Begins a message at the end of `out`; [`end`] must follow when its bytes are there.
pub(crate) fn begin(out: &mut Vec<u8>, request_id: i32, response_to: i32, op_code: i32) -> usize {
    let start = out.len();
    for number in [0, request_id, response_to, op_code] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    start
}

/// Writes the length of the message that begins at `start`.
pub(crate) fn end(out: &mut [u8], start: usize) {
    let length = i32::try_from(out.len().saturating_sub(start)).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(start..).and_then(|tail| tail.first_chunk_mut()) {
        *place = length.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lengths_that_messages_have_are_taken() {
        let check = |length: i32, expected: bool| {
            let mut bytes = [0; HEADER_BYTES];
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            assert_eq!(Header::parse(&bytes).is_some(), expected, "{length}");
        };
        check(16, true);
        check(MAX_MESSAGE_BYTES, true);
        check(15, false);
        check(MAX_MESSAGE_BYTES + 1, false);
        check(-1, false);
        check(i32::MIN, false);
    }

    #[test]
    fn a_header_reads_back() {
        let mut out = vec![9];
        let start = begin(&mut out, 1, 2, op_code::MESSAGE);
        out.extend_from_slice(b"abc");
        end(&mut out, start);
        let bytes = out[1..].first_chunk().unwrap();
        let expected = Header {
            length: 19,
            request_id: 1,
            response_to: 2,
            op_code: op_code::MESSAGE,
        };
        assert_eq!(Header::parse(bytes), Some(expected));
    }
}
