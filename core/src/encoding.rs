//! Memcomparable encodings: byte strings that sort as the values they stand for.
//!
//! A byte string inside a key ends with `00 00`, and each `00` in it is written as `00 ff`. So no
//! encoded string is a prefix of another, a shorter string sorts before a longer one that begins
//! with it, and the encoding of a prefix is a prefix of the encoding.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter};

const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const TERMINATOR: u8 = 0x00;

/// Appends `bytes` escaped and without an end: the start of every encoded string that begins with
/// them.
pub fn put_prefix(out: &mut Vec<u8>, bytes: &[u8]) {
    /// So many bytes are escaped at once, in room that is known to suffice.
    const PIECE: usize = 32;
    if memchr(ESCAPE, bytes).is_none() {
        out.extend_from_slice(bytes);
        return;
    }
    for piece in bytes.chunks(PIECE) {
        let mut escaped = [ESCAPED_ZERO; 2 * PIECE];
        let mut length = 0;
        for byte in piece {
            if let Some(place) = escaped.get_mut(length) {
                *place = *byte;
            }
            length += 1 + usize::from(*byte == ESCAPE);
        }
        out.extend_from_slice(escaped.get(..length).unwrap_or(&escaped));
    }
}

/// What [`put_prefix`] appends, in bytes.
fn prefix_len(bytes: &[u8]) -> usize {
    bytes.len() + memchr_iter(ESCAPE, bytes).count()
}

/// What [`put_bytes`] appends, in bytes.
pub fn encoded_len(bytes: &[u8]) -> usize {
    prefix_len(bytes) + [ESCAPE, TERMINATOR].len()
}

/// Appends `bytes` escaped and terminated.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_prefix(out, bytes);
    out.extend_from_slice(&[ESCAPE, TERMINATOR]);
}

/// Takes an escaped, terminated byte string off the front of `input`. None if it does not end well.
pub fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let mut unescaped: Option<Vec<u8>> = None;
    let mut rest = *input;
    loop {
        let zero = memchr(ESCAPE, rest)?;
        let (run, after) = rest.split_at(zero);
        let (marker, after) = after.get(1..)?.split_first()?;
        match *marker {
            TERMINATOR => {
                *input = after;
                return Some(match unescaped {
                    None => Cow::Borrowed(run),
                    Some(mut bytes) => {
                        bytes.extend_from_slice(run);
                        Cow::Owned(bytes)
                    }
                });
            }
            ESCAPED_ZERO => {
                let bytes = unescaped.get_or_insert_default();
                bytes.extend_from_slice(run);
                bytes.push(ESCAPE);
                rest = after;
            }
            _ => return None,
        }
    }
}

/// Appends an unsigned number, big-endian.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Takes an unsigned number off the front of `input`.
pub fn take_u64(input: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u64::from_be_bytes(*bytes))
}

/// Appends an unsigned number, big-endian.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Takes an unsigned number off the front of `input`.
pub fn take_u32(input: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(u32::from_be_bytes(*bytes))
}

/// Appends a signed number: big-endian with the sign bit flipped, so that negative numbers sort
/// first.
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, flip_sign(value));
}

/// Takes a signed number off the front of `input`.
pub fn take_i64(input: &mut &[u8]) -> Option<i64> {
    take_u64(input).map(unflip_sign)
}

/// Appends a floating point number in the order −NaN, −∞ … −0, +0 … +∞, NaN. A front end for which
/// −0 and +0 are equal passes +0 for both.
pub fn put_f64(out: &mut Vec<u8>, value: f64) {
    let bits = value.to_bits();
    let negative = bits >> 63 == 1;
    put_u64(out, if negative { !bits } else { bits ^ (1 << 63) });
}

/// Takes a floating point number off the front of `input`.
pub fn take_f64(input: &mut &[u8]) -> Option<f64> {
    take_u64(input).map(|encoded| {
        let negative = encoded >> 63 == 0;
        f64::from_bits(if negative {
            !encoded
        } else {
            encoded ^ (1 << 63)
        })
    })
}

/// Inverts every bit, which reverses the order of encodings none of which is a prefix of another.
pub fn invert(encoded: &mut [u8]) {
    for byte in encoded {
        *byte = !*byte;
    }
}

/// The position of a token on an unsigned ring: order is kept, `i64::MIN` becomes 0.
pub fn flip_sign(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

/// The inverse of [`flip_sign`].
pub fn unflip_sign(value: u64) -> i64 {
    (value ^ (1 << 63)).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    fn zero_rich_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x7f, 0xfe, 0xff]), 0..12)
    }

    proptest! {
        #[test]
        fn byte_strings_sort_as_they_compare(a in zero_rich_bytes(), b in zero_rich_bytes()) {
            let (left, right) = (encoded(|o| put_bytes(o, &a)), encoded(|o| put_bytes(o, &b)));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }

        #[test]
        fn byte_strings_read_back(a in zero_rich_bytes(), rest in zero_rich_bytes()) {
            let mut bytes = encoded(|o| put_bytes(o, &a));
            bytes.extend_from_slice(&rest);
            let mut input = bytes.as_slice();
            let taken = take_bytes(&mut input);
            prop_assert_eq!(taken.as_deref(), Some(a.as_slice()));
            prop_assert_eq!(input, rest.as_slice());
        }

        #[test]
        fn inverted_byte_strings_sort_backwards(a in zero_rich_bytes(), b in zero_rich_bytes()) {
            let descending = |bytes: &[u8]| {
                let mut out = encoded(|o| put_bytes(o, bytes));
                invert(&mut out);
                out
            };
            prop_assert_eq!(descending(&a).cmp(&descending(&b)), b.cmp(&a));
        }

        #[test]
        fn signed_numbers_sort_as_they_compare(a: i64, b: i64) {
            let (left, right) = (encoded(|o| put_i64(o, a)), encoded(|o| put_i64(o, b)));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(take_i64(&mut left.as_slice()), Some(a));
        }

        #[test]
        fn floating_point_numbers_sort_in_total_order(a: f64, b: f64) {
            let (left, right) = (encoded(|o| put_f64(o, a)), encoded(|o| put_f64(o, b)));
            prop_assert_eq!(left.cmp(&right), a.total_cmp(&b));
            let back = take_f64(&mut left.as_slice()).map(f64::to_bits);
            prop_assert_eq!(back, Some(a.to_bits()));
        }
    }

    #[test]
    fn rejects_byte_strings_that_do_not_end() {
        for bad in [&b""[..], b"a", b"a\0", b"a\0\xff", b"a\0\x01"] {
            assert_eq!(take_bytes(&mut &*bad), None, "{bad:x?}");
        }
    }

    #[test]
    fn an_encoded_prefix_begins_every_string_with_that_prefix() {
        let prefix = encoded(|o| put_prefix(o, b"a\0"));
        assert!(encoded(|o| put_bytes(o, b"a\0b")).starts_with(&prefix));
        assert!(!encoded(|o| put_bytes(o, b"ab")).starts_with(&prefix));
    }
}
