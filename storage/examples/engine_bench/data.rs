//! The items that are written and read.

use bytes::Bytes;

const VALUE_BYTES: usize = 1_024;

/// 24 bytes that sort like a hash, as item keys do, and have no more zeros than chance gives them.
pub(crate) fn key(number: u64) -> Bytes {
    let words = [mix(number), mix(!number), mix(number.rotate_left(32))];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Half noise, half filler: compresses to about half.
pub(crate) fn value(number: u64) -> Bytes {
    let mut value = Vec::with_capacity(VALUE_BYTES);
    let mut state = number;
    while value.len() < VALUE_BYTES / 2 {
        state = mix(state);
        value.extend_from_slice(&state.to_be_bytes());
    }
    value.resize(VALUE_BYTES, b'.');
    value.into()
}

/// Spreads numbers over 64 bits.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
