//! The wire protocol as pure functions: bytes to messages and back. Every length is checked before
//! it is used, and every document is walked once, so that later code never sees malformed bytes.

pub(crate) mod compression;
pub(crate) mod document;
pub(crate) mod header;
pub(crate) mod message;
pub(crate) mod query;

#[cfg(test)]
mod golden;

use tessera_mongo_language::error::Code;

/// Bytes that are not what they should be. The connection they came over is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) code: Code,
    pub(crate) message: &'static str,
}

impl Malformed {
    /// A message that is not built as messages are.
    pub(crate) const fn protocol(message: &'static str) -> Self {
        Self {
            code: Code::PROTOCOL_ERROR,
            message,
        }
    }

    /// A document that is not BSON.
    pub(crate) const fn bson(message: &'static str) -> Self {
        Self {
            code: Code::INVALID_BSON,
            message,
        }
    }
}

/// Takes `count` bytes off the front.
fn take<'a>(input: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(count)?;
    *input = rest;
    Some(taken)
}

/// Takes a little-endian number off the front.
fn take_i32(input: &mut &[u8]) -> Option<i32> {
    take_chunk(input).map(i32::from_le_bytes)
}

/// Takes as many bytes as there is room for off the front.
fn take_chunk<const SIZE: usize>(input: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (chunk, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*chunk)
}

/// Takes a text that ends with a zero off the front.
fn take_cstring<'a>(input: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take_to_zero(input)?).ok()
}

/// Takes the bytes before a zero, and the zero, off the front.
fn take_to_zero<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = input.iter().position(|byte| *byte == 0)?;
    let taken = take(input, end)?;
    take(input, 1)?;
    Some(taken)
}

/// Takes a document off the front, checked to its last byte.
fn take_document<'a>(input: &mut &'a [u8]) -> Result<&'a bson::RawDocument, Malformed> {
    const CUT_OFF: Malformed = Malformed::bson("a document is longer than its message");
    let length = take_i32(&mut &**input).ok_or(CUT_OFF)?;
    let length = usize::try_from(length).map_err(|_| CUT_OFF)?;
    let bytes = take(input, length).ok_or(CUT_OFF)?;
    document::check(bytes)?;
    bson::RawDocument::from_bytes(bytes)
        .map_err(|_| Malformed::bson("a document's length is not its own"))
}
