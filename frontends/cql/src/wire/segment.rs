//! Segments: the checksummed frames that carry envelopes on version 5.
//!
//! ```text
//! plain  3 bytes: length 17 bits, self-contained 1 bit
//! lz4    5 bytes: compressed length 17 bits, uncompressed length 17 bits, self-contained 1 bit
//! then   CRC24 of the header, 3 bytes; the payload; CRC32 of the payload as sent, 4 bytes
//! ```
//!
//! All little-endian. The CRC32 is seeded with four bytes that the specification forgets.

use std::borrow::Cow;

use super::WireError;
use super::compression::{compress_segment, decompress_lz4};
use super::crc24::crc24;

/// The longest payload of one segment, before compression.
pub(super) const PAYLOAD_LIMIT: usize = (1 << LENGTH_BITS) - 1;
const LENGTH_BITS: u32 = 17;
const CRC24_LENGTH: usize = 3;
const CRC32_LENGTH: usize = 4;
/// The state of the CRC32 after its seed, `FA 2D 55 CA`.
const CRC32_SEEDED: u32 = 0x4477_7ed3;

/// Whether payloads are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentFormat {
    Plain,
    Lz4,
}

/// What one segment carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    /// Whether the payload is whole envelopes; else it is a slice of a large one.
    pub(super) is_self_contained: bool,
    pub(super) payload: Cow<'a, [u8]>,
}

impl SegmentFormat {
    fn header_length(self) -> usize {
        match self {
            Self::Plain => 3,
            Self::Lz4 => 5,
        }
    }

    /// Reads the segment at the start of `input`, and says how long it is. None if it has not
    /// arrived whole.
    pub(super) fn decode(self, input: &[u8]) -> Result<Option<(Segment<'_>, usize)>, WireError> {
        let Some((header, rest)) = input.split_at_checked(self.header_length()) else {
            return Ok(None);
        };
        let Some((crc, rest)) = rest.split_first_chunk::<CRC24_LENGTH>() else {
            return Ok(None);
        };
        if little_endian(crc) != u64::from(crc24(header)) {
            return Err(WireError::Checksum("Segment header"));
        }
        let mut bits = little_endian(header);
        let length = take_length(&mut bits);
        let uncompressed = match self {
            Self::Plain => 0,
            Self::Lz4 => take_length(&mut bits),
        };
        let is_self_contained = bits & 1 == 1;
        let Some((payload, rest)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        let Some((crc, _)) = rest.split_first_chunk::<CRC32_LENGTH>() else {
            return Ok(None);
        };
        if u32::from_le_bytes(*crc) != crc32(payload) {
            return Err(WireError::Checksum("Segment payload"));
        }
        let payload = if uncompressed == 0 {
            Cow::Borrowed(payload)
        } else {
            Cow::Owned(decompress_lz4(payload, uncompressed, PAYLOAD_LIMIT)?)
        };
        let segment = Segment {
            is_self_contained,
            payload,
        };
        let whole = self.header_length() + CRC24_LENGTH + length + CRC32_LENGTH;
        Ok(Some((segment, whole)))
    }

    /// Appends one segment. The payload is at most [`PAYLOAD_LIMIT`] long.
    pub(super) fn encode(self, payload: &[u8], is_self_contained: bool, out: &mut Vec<u8>) {
        let self_contained = u64::from(is_self_contained);
        let (stored, bits) = match self {
            Self::Plain => {
                let bits = payload.len() as u64 | self_contained << LENGTH_BITS;
                (Cow::Borrowed(payload), bits)
            }
            Self::Lz4 => {
                let (stored, uncompressed) = compress_segment(payload);
                let lengths = stored.len() as u64 | (uncompressed as u64) << LENGTH_BITS;
                (stored, lengths | self_contained << (2 * LENGTH_BITS))
            }
        };
        let start = out.len();
        out.extend(bits.to_le_bytes().iter().take(self.header_length()));
        let crc = crc24(out.get(start..).unwrap_or_default());
        out.extend(crc.to_le_bytes().iter().take(CRC24_LENGTH));
        out.extend_from_slice(&stored);
        out.extend_from_slice(&crc32(&stored).to_le_bytes());
    }
}

/// Takes the lowest 17 bits.
fn take_length(bits: &mut u64) -> usize {
    let length = *bits & PAYLOAD_LIMIT as u64;
    *bits >>= LENGTH_BITS;
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(CRC32_SEEDED);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::testing::hex;

    const FORMATS: [SegmentFormat; 2] = [SegmentFormat::Plain, SegmentFormat::Lz4];

    /// Segments written by the Python driver 3.30.1.
    fn golden() -> Vec<(SegmentFormat, Vec<u8>, Vec<u8>)> {
        let options = hex("050000010500000000");
        let two = hex("050000010500000000 050000020500000000");
        vec![
            (
                SegmentFormat::Plain,
                options.clone(),
                hex("090002 a4c8c1 050000010500000000 b5557486"),
            ),
            (
                SegmentFormat::Plain,
                two,
                hex("120002 f6cbcf 050000010500000000050000020500000000 17044de6"),
            ),
            (
                SegmentFormat::Lz4,
                options,
                hex("0900000004 c2b895 050000010500000000 b5557486"),
            ),
            (
                SegmentFormat::Lz4,
                vec![b'a'; 200],
                hex("0b00900104 0c756c 1f610100af506161616161 a26c1cad"),
            ),
        ]
    }

    #[test]
    fn reads_and_writes_what_a_client_writes() {
        for (format, payload, bytes) in golden() {
            let (segment, length) = format.decode(&bytes).unwrap().unwrap();
            assert_eq!(
                (segment.payload.as_ref(), length),
                (payload.as_slice(), bytes.len())
            );
            assert!(segment.is_self_contained);
            let mut out = Vec::new();
            format.encode(&payload, true, &mut out);
            let (again, _) = format.decode(&out).unwrap().unwrap();
            assert_eq!(again.payload.as_ref(), payload.as_slice());
            if payload.len() < 100 {
                assert_eq!(out, bytes);
            }
        }
    }

    #[test]
    fn a_large_envelope_is_sliced_as_a_client_slices_it() {
        let large = vec![0xab; 140_000];
        let mut out = Vec::new();
        for slice in large.chunks(PAYLOAD_LIMIT) {
            SegmentFormat::Plain.encode(slice, false, &mut out);
        }
        assert_eq!(out.len(), 140_020);
        assert!(out.starts_with(&hex("ffff01 3891fe")));
        assert_eq!(out[6 + PAYLOAD_LIMIT..][..4], hex("55f8ea28"));
        assert_eq!(out[10 + PAYLOAD_LIMIT..][..6], hex("e12200 60052d"));
        assert!(out.ends_with(&hex("108841ea")));
    }

    #[test]
    fn a_truncation_waits_and_a_flipped_bit_is_an_error() {
        for (format, _, bytes) in golden() {
            for end in 0..bytes.len() {
                assert_eq!(format.decode(&bytes[..end]), Ok(None));
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(
                    format.decode(&flipped),
                    Err(WireError::Checksum(_))
                ));
            }
        }
    }

    proptest! {
        #[test]
        fn payloads_come_back(
            payload in prop::collection::vec(0u8..4, 0..3000),
            is_self_contained: bool,
        ) {
            for format in FORMATS {
                let mut out = Vec::new();
                format.encode(&payload, is_self_contained, &mut out);
                let (segment, length) = format.decode(&out).unwrap().unwrap();
                prop_assert_eq!(length, out.len());
                prop_assert_eq!(segment.payload.as_ref(), payload.as_slice());
                prop_assert_eq!(segment.is_self_contained, is_self_contained);
            }
        }
    }
}
