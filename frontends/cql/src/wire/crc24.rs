//! The checksum of segment headers: 24 bits, over three or five bytes.

const START: u32 = 0x0087_5060;
const POLYNOMIAL: u32 = 0x0197_4f0b;
const BITS: u32 = 24;

/// The checksum of these bytes.
pub(super) fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(START, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(*byte) << (BITS - 8)), |crc, _| {
            let shifted = crc << 1;
            if shifted >> BITS == 0 {
                shifted
            } else {
                shifted ^ POLYNOMIAL
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of segments written by the Python driver 3.30.1.
    #[test]
    fn agrees_with_a_client() {
        for (header, crc) in [
            (&[0x09, 0x00, 0x02][..], 0x00c1_c8a4),
            (&[0x12, 0x00, 0x02], 0x00cf_cbf6),
            (&[0xff, 0xff, 0x01], 0x00fe_9138),
            (&[0xe1, 0x22, 0x00], 0x002d_0560),
            (&[0x09, 0x00, 0x00, 0x00, 0x04], 0x0095_b8c2),
            (&[0x0b, 0x00, 0x90, 0x01, 0x04], 0x006c_750c),
        ] {
            assert_eq!(crc24(header), crc, "{header:x?}");
        }
    }
}
