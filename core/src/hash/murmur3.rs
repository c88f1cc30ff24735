//! Cassandra's Murmur3 token, bit for bit.
//!
//! MurmurHash3 x64 128 with seed 0, of which the first half is the token, with Cassandra's two
//! departures: bytes of the tail are sign-extended before they are shifted, and `i64::MIN` becomes
//! `i64::MAX`, because the smallest token stands for "before everything" (and for the empty key).

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;
const BLOCK: usize = 16;

/// The token of a serialized partition key.
pub fn token(partition_key: &[u8]) -> i64 {
    if partition_key.is_empty() {
        return i64::MIN;
    }
    match hash(partition_key).cast_signed() {
        i64::MIN => i64::MAX,
        token => token,
    }
}

fn hash(key: &[u8]) -> u64 {
    let (mut h1, mut h2) = (0u64, 0u64);
    let mut rest = key;
    while let Some((block, after)) = rest.split_first_chunk::<BLOCK>() {
        let (k1, k2) = halves(block);
        h1 = (h1 ^ scramble_first(k1)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ scramble_second(k2)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
        rest = after;
    }
    let (first, second) = rest.split_at(rest.len().min(8));
    h2 ^= scramble_second(sign_extended_tail(second));
    h1 ^= scramble_first(sign_extended_tail(first));

    let length = key.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
}

fn halves(block: &[u8; BLOCK]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves of the block"
    )]
    let halves = (both as u64, (both >> 64) as u64);
    halves
}

fn scramble_first(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble_second(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

/// Up to eight bytes, little-endian, each sign-extended: a byte from 80 up flips all bits above it.
fn sign_extended_tail(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |tail, (position, byte)| {
        let extended = i64::from(byte.cast_signed()).cast_unsigned();
        tail ^ (extended << (8 * position))
    })
}

fn finish(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The serialized form of a partition key of several columns: for each its length, its bytes and a
/// zero. None if a column is longer than 65,535 bytes.
pub fn composite_key<'a>(columns: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    for column in columns {
        key.extend_from_slice(&u16::try_from(column.len()).ok()?.to_be_bytes());
        key.extend_from_slice(column);
        key.push(0);
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &[u8], expected: i64) {
        assert_eq!(token(key), expected, "{key:x?}");
    }

    #[test]
    fn text_keys() {
        check("".as_bytes(), i64::MIN);
        check("a".as_bytes(), -8839064797231613815);
        check("ab".as_bytes(), -7815133031266706642);
        check("abc".as_bytes(), -5434086359492102041);
        check("hello".as_bytes(), -3758069500696749310);
        check("key1".as_bytes(), 1573573083296714675);
        check("user-0001".as_bytes(), -8866821169811115513);
        check("0123456789abcde".as_bytes(), -6472281833689111727);
        check("0123456789abcdef".as_bytes(), 5467490433528156583);
        check("0123456789abcdefg".as_bytes(), -8200385122730116642);
        check(
            b"The quick brown fox jumps over the lazy dog",
            -2068352364225029268,
        );
        check("é".as_bytes(), 5461403030378599040);
        check("日本語".as_bytes(), 2587241856907040145);
        check("naïve café ☕".as_bytes(), 8592071657574116855);
        check("😀".as_bytes(), 4665903609083583598);
        check("ÿ\u{80}".as_bytes(), 5730754469914363145);
    }

    #[test]
    fn number_keys() {
        for (value, expected) in [
            (0i32, -3485513579396041028),
            (1, -4069959284402364209),
            (-1, 7297452126230313552),
            (2, -3248873570005575792),
            (42, -7160136740246525330),
            (123456789, -567416363967733925),
            (i32::MAX, -765994672030311617),
            (i32::MIN, -420533958509279465),
        ] {
            check(&value.to_be_bytes(), expected);
        }
        for (value, expected) in [
            (0i64, 2945182322382062539),
            (1, 6292367497774912474),
            (-1, 7071048584287372947),
            (42, 8623491988607824794),
            (i64::MAX, -1722304415079482439),
            (i64::MIN, 9204767954415360687),
        ] {
            check(&value.to_be_bytes(), expected);
        }
        for (value, expected) in [
            (0i8, 5048724184180415669),
            (1, 8849112093580131862),
            (-1, -4442228696663692417),
            (127, 5072634478945617755),
            (-128, -5284281814142962636),
        ] {
            check(&value.to_be_bytes(), expected);
        }
        check(&1i16.to_be_bytes(), 8985795910368437836);
        check(&(-1i16).to_be_bytes(), 6163071069786142063);
        check(&1.5f64.to_be_bytes(), -2904970586342177944);
        check(&[0x00, 0x80], -5553052187789492088);
    }

    #[test]
    fn other_keys() {
        check(&[0; 16], 5457549051747178710);
        check(
            &0x123e4567_e89b_12d3_a456_426614174000u128.to_be_bytes(),
            -44119901388393997,
        );
        check(
            &0xf47ac10b_58cc_4372_a567_0e02b2c3d479u128.to_be_bytes(),
            3078397264688283949,
        );
        check(&0x0000018cc251f400u64.to_be_bytes(), 8958033039009882346);
        check(&0x80004d0bu32.to_be_bytes(), -6364751440017804833);
        check(&[127, 0, 0, 1], 3370802529007389742);
        check(&[0x80, 0xff], -1866254034066908819);
        check(&[0xff; 15], -2195530867418009455);
        check(&[0xff; 16], -2824192546314762522);
        check(&(0x80..=0x9f).collect::<Vec<u8>>(), -61479015959055060);
        check(&(0x00..=0x1e).collect::<Vec<u8>>(), 377690909827715220);
        let long: Vec<u8> = (0xe0..=0xff).chain(0x80..=0x8e).collect();
        check(&long, -6937162324057506993);
    }

    #[test]
    fn keys_of_several_columns() {
        let check = |columns: &[&[u8]], expected: i64| {
            let key = composite_key(columns.iter().copied()).unwrap();
            assert_eq!(token(&key), expected, "{columns:x?}");
        };
        let uuid = 0x123e4567_e89b_12d3_a456_426614174000u128.to_be_bytes();
        let other = 0xf47ac10b_58cc_4372_a567_0e02b2c3d479u128.to_be_bytes();
        check(&[b"a", &1i32.to_be_bytes()], 8247712171917364652);
        check(
            &[&1i32.to_be_bytes(), &2i32.to_be_bytes()],
            4881097376275569167,
        );
        check(&[b"", b""], 9027482631457916009);
        check(&["日本".as_bytes(), "é".as_bytes()], 3545950760926608287);
        check(&[&uuid, &42i64.to_be_bytes()], 3654695801289684697);
        check(
            &[b"tenant", &7i32.to_be_bytes(), &other],
            813847120035216314,
        );
        assert_eq!(composite_key([&[0u8; 65_536][..]]), None);
    }
}
