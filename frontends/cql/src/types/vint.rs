//! Numbers of one to nine bytes: the leading ones of the first byte count the bytes that follow.

/// Appends an unsigned number.
pub(super) fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    // Each byte that follows takes one bit of the first for its count, and holds eight.
    let bits = u64::BITS - value.leading_zeros();
    let extra = bits.saturating_sub(1) / 7;
    let extra = extra.min(8);
    let mark = if extra == 0 {
        0
    } else {
        0xffu8 << (8 - extra.min(8))
    };
    let bytes = value.to_be_bytes();
    let skip = 8 - usize::try_from(extra).unwrap_or(8);
    let high = if skip == 0 {
        0
    } else {
        bytes.get(skip - 1).copied().unwrap_or(0)
    };
    out.push(mark | high);
    out.extend_from_slice(bytes.get(skip..).unwrap_or_default());
}

/// Takes an unsigned number off the front.
pub(super) fn take_unsigned(input: &mut &[u8]) -> Option<u64> {
    let (first, rest) = input.split_first()?;
    let extra = first.leading_ones();
    let (bytes, rest) = rest.split_at_checked(usize::try_from(extra).ok()?)?;
    *input = rest;
    let high = u64::from(first & 0xffu8.checked_shr(extra).unwrap_or(0));
    Some(
        bytes
            .iter()
            .fold(high, |value, byte| value << 8 | u64::from(*byte)),
    )
}

/// Appends a signed number: small ones are short whatever their sign.
pub(super) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Takes a signed number off the front.
pub(super) fn take_signed(input: &mut &[u8]) -> Option<i64> {
    let value = take_unsigned(input)?;
    Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_are_those_of_cassandra() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (0x3fff, &[0xbf, 0xff]),
            (0x4000, &[0xc0, 0x40, 0]),
            (
                u64::MAX,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ),
        ] {
            let mut out = Vec::new();
            put_unsigned(&mut out, value);
            assert_eq!(out, bytes, "{value:#x}");
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, shift in 0u32..64, rest: [u8; 2]) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_unsigned(&mut out, value);
            put_signed(&mut out, value.cast_signed());
            put_signed(&mut out, -(value >> 1).cast_signed());
            out.extend(rest);
            let mut input = out.as_slice();
            prop_assert_eq!(take_unsigned(&mut input), Some(value));
            prop_assert_eq!(take_signed(&mut input), Some(value.cast_signed()));
            prop_assert_eq!(take_signed(&mut input), Some(-(value >> 1).cast_signed()));
            prop_assert_eq!(input, rest);
        }
    }

    #[test]
    fn what_is_cut_is_no_number() {
        for bytes in [&[][..], &[0x80], &[0xff, 1, 2, 3, 4, 5, 6, 7]] {
            assert_eq!(take_unsigned(&mut &*bytes), None);
        }
    }
}
