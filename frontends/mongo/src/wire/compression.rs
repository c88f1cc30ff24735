//! `OP_COMPRESSED`: another message inside, compressed in a way that both sides agreed on.

use std::io::Write as _;

use super::header::{self, HEADER_BYTES, Header, MAX_MESSAGE_BYTES, op_code};
use super::{Malformed, take, take_i32};

/// How a message is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compressor {
    /// Not at all, in the form of a compressed message.
    Noop,
    Snappy,
    Zlib,
    Zstd,
}

/// What can be agreed on: name, number on the wire.
const COMPRESSORS: &[(Compressor, &str, u8)] = &[
    (Compressor::Noop, "noop", 0),
    (Compressor::Snappy, "snappy", 1),
    (Compressor::Zlib, "zlib", 2),
    (Compressor::Zstd, "zstd", 3),
];

/// Commands whose messages carry secrets or come before any agreement: never compressed.
const NEVER: &[&str] = &[
    "hello",
    "isMaster",
    "ismaster",
    "saslStart",
    "saslContinue",
    "getnonce",
    "authenticate",
    "createUser",
    "updateUser",
    "copydbSaslStart",
    "copydbgetnonce",
    "copydb",
];

const CUT_OFF: Malformed = Malformed::protocol("a compressed message is cut off");
const DAMAGED: Malformed = Malformed::protocol("a compressed message cannot be expanded");

impl Compressor {
    pub(crate) fn name(self) -> &'static str {
        let row = COMPRESSORS.iter().find(|(known, _, _)| *known == self);
        row.map_or("noop", |(_, name, _)| name)
    }

    /// The compressor of this name that clients may ask for.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut offered = COMPRESSORS.iter().filter(|(_, _, id)| *id != 0);
        let row = offered.find(|(_, known, _)| *known == name);
        row.map(|(compressor, _, _)| *compressor)
    }

    fn id(self) -> u8 {
        let row = COMPRESSORS.iter().find(|(known, _, _)| *known == self);
        row.map_or(0, |(_, _, id)| *id)
    }

    fn of_id(id: u8) -> Option<Self> {
        let row = COMPRESSORS.iter().find(|(_, _, known)| *known == id);
        row.map(|(compressor, _, _)| *compressor)
    }
}

/// Whether messages of a command may be compressed.
pub(crate) fn allows(command: &str) -> bool {
    !NEVER.contains(&command)
}

/// How long a packet says that it is when it is expanded; none of bytes that are no such packet.
pub(crate) fn expanded_length(packet: &[u8]) -> Option<usize> {
    let mut input = packet.get(HEADER_BYTES..)?;
    let _original = take_i32(&mut input)?;
    let size = usize::try_from(take_i32(&mut input)?).ok()?;
    size.checked_add(HEADER_BYTES)
}

/// Expands a whole packet, header included, into the packet that it stands for.
pub(crate) fn expand(packet: &[u8]) -> Result<(Compressor, Vec<u8>), Malformed> {
    let header = packet
        .first_chunk()
        .and_then(Header::parse)
        .ok_or(CUT_OFF)?;
    let mut input = packet.get(HEADER_BYTES..).ok_or(CUT_OFF)?;
    let original = take_i32(&mut input).ok_or(CUT_OFF)?;
    let size = take_i32(&mut input).ok_or(CUT_OFF)?;
    let id = take(&mut input, 1)
        .and_then(|id| id.first())
        .ok_or(CUT_OFF)?;
    if original == op_code::COMPRESSED {
        return Err(Malformed::protocol(
            "a compressed message is compressed again",
        ));
    }
    let longest = usize::try_from(MAX_MESSAGE_BYTES).unwrap_or(0) - HEADER_BYTES;
    let size = usize::try_from(size).ok().filter(|size| *size <= longest);
    let size = size.ok_or(Malformed::protocol("a compressed message is too large"))?;
    let compressor = Compressor::of_id(*id).ok_or(Malformed::protocol(
        "a message is compressed in an unknown way",
    ))?;

    let mut out = Vec::new();
    let start = header::begin(&mut out, header.request_id, header.response_to, original);
    out.resize(HEADER_BYTES + size, 0);
    let room = out.get_mut(HEADER_BYTES..).ok_or(DAMAGED)?;
    if decompress(compressor, input, room) != Some(size) {
        return Err(DAMAGED);
    }
    header::end(&mut out, start);
    Ok((compressor, out))
}

/// Fills `out`; answers how many bytes there were, if they fit.
fn decompress(compressor: Compressor, input: &[u8], out: &mut [u8]) -> Option<usize> {
    match compressor {
        Compressor::Noop => {
            let target = out.get_mut(..input.len())?;
            target.copy_from_slice(input);
            Some(input.len())
        }
        Compressor::Snappy => {
            let length = snap::raw::decompress_len(input).ok()?;
            let target = out.get_mut(..length)?;
            snap::raw::Decoder::new().decompress(input, target).ok()
        }
        Compressor::Zlib => {
            let mut zlib = flate2::Decompress::new(true);
            let finish = flate2::FlushDecompress::Finish;
            match zlib.decompress(input, out, finish).ok()? {
                flate2::Status::StreamEnd => usize::try_from(zlib.total_out()).ok(),
                flate2::Status::Ok | flate2::Status::BufError => None,
            }
        }
        Compressor::Zstd => zstd_safe::decompress(out, input).ok(),
    }
}

/// Compresses the packet that begins at `start` in `out`, where it stays if that fails.
pub(crate) fn compress(out: &mut Vec<u8>, start: usize, compressor: Compressor) {
    let Some(compressed) = compressed(out.get(start..).unwrap_or_default(), compressor) else {
        return;
    };
    out.truncate(start);
    out.extend_from_slice(&compressed);
}

fn compressed(packet: &[u8], compressor: Compressor) -> Option<Vec<u8>> {
    let header = Header::parse(packet.first_chunk()?)?;
    let body = packet.get(HEADER_BYTES..)?;
    let size = i32::try_from(body.len()).ok()?;
    let mut out = Vec::new();
    let (request_id, response_to) = (header.request_id, header.response_to);
    let start = header::begin(&mut out, request_id, response_to, op_code::COMPRESSED);
    out.extend_from_slice(&header.op_code.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.push(compressor.id());
    match compressor {
        Compressor::Noop => out.extend_from_slice(body),
        Compressor::Snappy => {
            out.extend(snap::raw::Encoder::new().compress_vec(body).ok()?);
        }
        Compressor::Zlib => {
            let level = flate2::Compression::default();
            let mut zlib = flate2::write::ZlibEncoder::new(&mut out, level);
            zlib.write_all(body).ok()?;
            zlib.finish().ok()?;
        }
        Compressor::Zstd => {
            let before = out.len();
            out.resize(before + zstd_safe::compress_bound(body.len()), 0);
            let room = out.get_mut(before..)?;
            let written = zstd_safe::compress(room, body, zstd_safe::CLEVEL_DEFAULT).ok()?;
            out.truncate(before + written);
        }
    }
    header::end(&mut out, start);
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(body: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let start = header::begin(&mut packet, 7, 8, op_code::MESSAGE);
        packet.extend_from_slice(body);
        header::end(&mut packet, start);
        packet
    }

    proptest! {
        #[test]
        fn what_is_compressed_expands_again(body: Vec<u8>, which in 0usize..4) {
            let (compressor, _, _) = COMPRESSORS[which];
            let original = packet(&body);
            let mut out = b"before".to_vec();
            out.extend_from_slice(&original);
            compress(&mut out, 6, compressor);
            prop_assert_eq!(expand(&out[6..]), Ok((compressor, original)));
        }
    }

    #[test]
    fn every_truncation_and_every_wrong_size_is_refused() {
        for (compressor, name, _) in COMPRESSORS {
            let mut whole = packet(b"some text, some text, some text, some text");
            compress(&mut whole, 0, *compressor);
            for length in 0..whole.len() {
                assert!(expand(&whole[..length]).is_err(), "{name} {length}");
            }
            for size in [0, 41, 43, i32::MAX, -1, MAX_MESSAGE_BYTES] {
                let mut other = whole.clone();
                other[20..24].copy_from_slice(&size.to_le_bytes());
                assert!(expand(&other).is_err(), "{name} {size}");
            }
        }
    }

    #[test]
    fn a_message_is_compressed_once_and_in_a_known_way() {
        let mut whole = packet(b"text");
        compress(&mut whole, 0, Compressor::Snappy);
        let mut again = whole.clone();
        again[16..20].copy_from_slice(&op_code::COMPRESSED.to_le_bytes());
        assert!(expand(&again).is_err());
        whole[24] = 9;
        assert!(expand(&whole).is_err());
    }
}
