//! `OP_QUERY`, which drivers still send for their first hello, and `OP_REPLY`, which answers it.

use bson::RawDocument;

use super::header::{self, HEADER_BYTES, op_code};
use super::{Malformed, take_cstring, take_document, take_i32};

/// The reply is an error.
pub(crate) const QUERY_FAILURE: i32 = 2;
/// What servers of the last decade set in every reply.
pub(crate) const AWAIT_CAPABLE: i32 = 8;

/// A query that was received.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    /// Database and collection.
    pub(crate) namespace: &'a str,
    pub(crate) document: &'a RawDocument,
}

/// Reads a whole packet, header included.
pub(crate) fn decode(packet: &[u8]) -> Result<Query<'_>, Malformed> {
    const CUT_OFF: Malformed = Malformed::protocol("a query is cut off");
    let mut input = packet.get(HEADER_BYTES..).ok_or(CUT_OFF)?;
    let _flags = take_i32(&mut input).ok_or(CUT_OFF)?;
    let namespace = take_cstring(&mut input).ok_or(CUT_OFF)?;
    let _skip = take_i32(&mut input).ok_or(CUT_OFF)?;
    let _limit = take_i32(&mut input).ok_or(CUT_OFF)?;
    let document = take_document(&mut input)?;
    if !input.is_empty() {
        // Which fields to return.
        take_document(&mut input)?;
    }
    if !input.is_empty() {
        return Err(Malformed::protocol("a query has bytes behind its end"));
    }
    Ok(Query {
        namespace,
        document,
    })
}

/// Appends the reply to a query to `out`.
pub(crate) fn encode_reply(
    out: &mut Vec<u8>,
    (request_id, response_to): (i32, i32),
    flags: i32,
    document: &RawDocument,
) {
    const NO_CURSOR: i64 = 0;
    let (starting_from, number_returned) = (0i32, 1i32);
    let start = header::begin(out, request_id, response_to, op_code::REPLY);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&NO_CURSOR.to_le_bytes());
    out.extend_from_slice(&starting_from.to_le_bytes());
    out.extend_from_slice(&number_returned.to_le_bytes());
    out.extend_from_slice(document.as_bytes());
    header::end(out, start);
}
