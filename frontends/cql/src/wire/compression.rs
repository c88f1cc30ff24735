//! Compression of bodies (versions 3 and 4), and of segments (version 5).

use std::borrow::Cow;

use super::WireError;

/// How bodies are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// A raw block after its uncompressed length, four bytes, big-endian.
    Lz4,
    /// A raw block, which begins with its uncompressed length.
    Snappy,
}

/// No block of LZ4 expands by more than this, which tells lies about lengths before they cost
/// memory.
const LZ4_EXPANSION: usize = 255;
/// A copy of 64 bytes takes two bytes at least.
const SNAPPY_EXPANSION: usize = 64;

impl Compression {
    /// By the name that STARTUP gives it.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [(Self::Lz4, "lz4"), (Self::Snappy, "snappy")]
            .into_iter()
            .find_map(|(compression, known)| {
                known.eq_ignore_ascii_case(name).then_some(compression)
            })
    }

    /// How many bytes the body says that it has in its own form; 0 if it does not say.
    pub(super) fn expanded_length(self, body: &[u8]) -> usize {
        match self {
            Self::Lz4 => {
                let length = body
                    .first_chunk()
                    .map_or(0, |length| i32::from_be_bytes(*length));
                usize::try_from(length).unwrap_or(0)
            }
            Self::Snappy => snap::raw::decompress_len(body).unwrap_or(0),
        }
    }

    /// The body in its own form. `limit` bounds what it may expand to.
    pub(super) fn decompress(self, body: &[u8], limit: usize) -> Result<Vec<u8>, WireError> {
        match self {
            Self::Lz4 => {
                let short = || WireError::Truncated {
                    needed: 4 - body.len().min(4),
                };
                let (length, block) = body.split_first_chunk().ok_or_else(short)?;
                let length = i32::from_be_bytes(*length);
                let length = usize::try_from(length)
                    .map_err(|_| WireError::NegativeLength(i64::from(length)))?;
                decompress_lz4(block, length, limit)
            }
            Self::Snappy => {
                let length = snap::raw::decompress_len(body).map_err(damaged)?;
                check_length(length, body.len().saturating_mul(SNAPPY_EXPANSION), limit)?;
                snap::raw::Decoder::new()
                    .decompress_vec(body)
                    .map_err(damaged)
            }
        }
    }

    /// The body compressed, or as it is if that is no shorter.
    pub(super) fn compress(self, body: &[u8]) -> Option<Vec<u8>> {
        let compressed = match self {
            Self::Lz4 => {
                let mut out = Vec::with_capacity(body.len());
                super::writer::put_length(&mut out, body.len());
                out.append(&mut lz4_flex::block::compress(body));
                out
            }
            Self::Snappy => snap::raw::Encoder::new().compress_vec(body).ok()?,
        };
        (compressed.len() < body.len()).then_some(compressed)
    }
}

/// A block of LZ4 that expands to `length` bytes exactly.
pub(super) fn decompress_lz4(
    block: &[u8],
    length: usize,
    limit: usize,
) -> Result<Vec<u8>, WireError> {
    let possible = block.len().saturating_mul(LZ4_EXPANSION);
    check_length(length, possible, limit)?;
    let mut out = vec![0; length];
    let written = lz4_flex::block::decompress_into(block, &mut out).map_err(damaged)?;
    if written != length {
        return Err(damaged("it is shorter than it says"));
    }
    Ok(out)
}

/// The payload of a segment: compressed, or as it is if that is no shorter.
pub(super) fn compress_segment(payload: &[u8]) -> (Cow<'_, [u8]>, usize) {
    let compressed = lz4_flex::block::compress(payload);
    if compressed.len() < payload.len() {
        (Cow::Owned(compressed), payload.len())
    } else {
        // An uncompressed length of zero says that the payload is stored as it is.
        (Cow::Borrowed(payload), 0)
    }
}

fn check_length(length: usize, possible: usize, limit: usize) -> Result<(), WireError> {
    if length > limit {
        let (length, limit) = (length as u64, limit as u64);
        return Err(WireError::TooLarge { length, limit });
    }
    if length > possible {
        return Err(damaged("it cannot be as long as it says"));
    }
    Ok(())
}

fn damaged(why: impl ToString) -> WireError {
    WireError::Compression(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    #[test]
    fn bodies_come_back() {
        for compression in [Compression::Lz4, Compression::Snappy] {
            for body in [
                vec![b'a'; 1000],
                b"abcabcabcabcabcabcabcabcabcabcabcabcabcabc".to_vec(),
            ] {
                let packed = compression.compress(&body).unwrap();
                assert!(packed.len() < body.len());
                assert_eq!(compression.decompress(&packed, LIMIT), Ok(body));
                for end in 0..packed.len() {
                    assert!(compression.decompress(&packed[..end], LIMIT).is_err());
                }
            }
            assert_eq!(compression.compress(b""), None);
            assert_eq!(compression.compress(b"xyz"), None);
        }
    }

    #[test]
    fn lengths_that_lie_cost_nothing() {
        let mut lie = i32::MAX.to_be_bytes().to_vec();
        lie.extend([0; 10]);
        let too_large = Compression::Lz4.decompress(&lie, LIMIT);
        assert!(matches!(too_large, Err(WireError::TooLarge { .. })));
        let impossible = Compression::Lz4.decompress(&lie, usize::MAX);
        assert!(matches!(impossible, Err(WireError::Compression(_))));
        let negative = Compression::Lz4.decompress(&[0xff; 9], LIMIT);
        assert_eq!(negative, Err(WireError::NegativeLength(-1)));
        let snappy = Compression::Snappy.decompress(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0], LIMIT);
        assert!(matches!(snappy, Err(WireError::TooLarge { .. })));
    }

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(Compression::from_name("LZ4"), Some(Compression::Lz4));
        assert_eq!(Compression::from_name("snappy"), Some(Compression::Snappy));
        assert_eq!(Compression::from_name("zstd"), None);
    }
}
