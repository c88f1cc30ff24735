//! The checksum of RocksDB's logs: CRC-32C, in the masked form in which it is stored there.

use std::sync::LazyLock;

/// The reflected Castagnoli polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The remainder of each byte.
static REMAINDERS: LazyLock<[u32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        let byte = u32::try_from(byte).unwrap_or_default();
        (0..8).fold(byte, |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            }
        })
    })
});

/// The stored checksum of a fragment: of its kind and its payload.
pub(super) fn masked_crc32c(kind: u8, payload: &[u8]) -> u32 {
    let crc = !update(update(!0, &[kind]), payload);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn update(crc: u32, bytes: &[u8]) -> u32 {
    let remainders = &*REMAINDERS;
    bytes.iter().fold(crc, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8)
            ^ remainders
                .get(usize::from(low ^ byte))
                .copied()
                .unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_check_values() {
        // From the catalogues of checksums, and from RFC 3720 appendix B.4.
        assert_eq!(!update(!0, b"123456789"), 0xe306_9283);
        assert_eq!(!update(!0, &[0; 32]), 0x8a91_36aa);
    }
}
