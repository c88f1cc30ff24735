//! `OP_MSG`: flags, one body, any number of document sequences, perhaps a checksum.

use bson::RawDocument;

use super::header::{self, HEADER_BYTES, op_code};
use super::{Malformed, take, take_cstring, take_document, take_i32};
use crate::request::Sequence;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;
/// Bits that a receiver must know. Others may be ignored.
const REQUIRED: u32 = 0xffff;

const CHECKSUM_BYTES: usize = 4;

/// What the flags of a message say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) checksum: bool,
    /// The sender wants no reply, or sends another message behind this one.
    pub(crate) more_to_come: bool,
    /// The client takes several replies to this request.
    pub(crate) exhaust_allowed: bool,
}

/// A message that was received.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) flags: Flags,
    pub(crate) body: &'a RawDocument,
    pub(crate) sequences: Vec<Sequence<'a>>,
}

/// Reads the flags alone.
pub(crate) fn flags(packet: &[u8]) -> Option<Flags> {
    let mut input = packet.get(HEADER_BYTES..)?;
    let bits = take_i32(&mut input)?.cast_unsigned();
    Some(Flags {
        checksum: bits & CHECKSUM_PRESENT != 0,
        more_to_come: bits & MORE_TO_COME != 0,
        exhaust_allowed: bits & EXHAUST_ALLOWED != 0,
    })
}

/// Reads a whole packet, header included.
pub(crate) fn decode(packet: &[u8]) -> Result<Message<'_>, Malformed> {
    const CUT_OFF: Malformed = Malformed::protocol("a message is cut off");
    let mut input = packet.get(HEADER_BYTES..).ok_or(CUT_OFF)?;
    let flags = flags(packet).ok_or(CUT_OFF)?;
    let bits = take_i32(&mut input).ok_or(CUT_OFF)?.cast_unsigned();
    if bits & REQUIRED & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
        return Err(Malformed::protocol("a message has an unknown flag"));
    }
    if flags.checksum {
        input = verified(packet, input)?;
    }
    let mut body = None;
    let mut sequences = Vec::new();
    while let Some((kind, rest)) = input.split_first() {
        input = rest;
        match kind {
            0 if body.is_some() => return Err(Malformed::protocol("a message has two bodies")),
            0 => body = Some(take_document(&mut input)?),
            1 => sequences.push(take_sequence(&mut input)?),
            _ => {
                return Err(Malformed::protocol(
                    "a section of a message is of no known kind",
                ));
            }
        }
    }
    Ok(Message {
        flags,
        body: body.ok_or(Malformed::protocol("a message has no body"))?,
        sequences,
    })
}

/// The sections without the checksum behind them, which must be theirs.
fn verified<'a>(packet: &[u8], sections: &'a [u8]) -> Result<&'a [u8], Malformed> {
    const MISMATCH: Malformed = Malformed::protocol("a message's checksum is not its own");
    let (covered, checksum) = packet
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(MISMATCH)?;
    if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
        return Err(MISMATCH);
    }
    let (sections, _) = sections
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(MISMATCH)?;
    Ok(sections)
}

fn take_sequence<'a>(input: &mut &'a [u8]) -> Result<Sequence<'a>, Malformed> {
    const CUT_OFF: Malformed = Malformed::protocol("a document sequence is cut off");
    let size = take_i32(&mut &**input).ok_or(CUT_OFF)?;
    let size = usize::try_from(size).map_err(|_| CUT_OFF)?;
    let mut section = take(input, size).ok_or(CUT_OFF)?;
    take_i32(&mut section).ok_or(CUT_OFF)?;
    let name = take_cstring(&mut section).ok_or(CUT_OFF)?;
    let mut documents = Vec::new();
    while !section.is_empty() {
        documents.push(take_document(&mut section)?);
    }
    Ok(Sequence { name, documents })
}

/// Appends a message with one body to `out`.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    (request_id, response_to): (i32, i32),
    flags: Flags,
    body: &RawDocument,
) {
    let start = header::begin(out, request_id, response_to, op_code::MESSAGE);
    let bits = [
        (flags.checksum, CHECKSUM_PRESENT),
        (flags.more_to_come, MORE_TO_COME),
        (flags.exhaust_allowed, EXHAUST_ALLOWED),
    ];
    let bits = bits.iter().filter(|(set, _)| *set);
    let bits = bits.fold(0, |bits, (_, bit)| bits | bit);
    out.extend_from_slice(&bits.to_le_bytes());
    out.push(0);
    out.extend_from_slice(body.as_bytes());
    if flags.checksum {
        out.extend_from_slice(&[0; CHECKSUM_BYTES]);
    }
    header::end(out, start);
    if flags.checksum {
        let end = out.len() - CHECKSUM_BYTES;
        let checksum = out.get(start..end).map_or(0, crc32c::crc32c);
        out.truncate(end);
        out.extend_from_slice(&checksum.to_le_bytes());
    }
}
