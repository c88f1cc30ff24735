//! UUIDs of version 1, which begin with the time: ids of tables, traces and their events.

use rand::Rng as _;
use tessera_core::clock::Clock;

/// Hundreds of nanoseconds between the beginning of this calendar and 1970.
const SINCE_1582: u64 = 0x01b2_1dd2_1381_4000;

/// A UUID of this moment, which no other is like.
pub(crate) fn time_uuid(clock: &Clock) -> [u8; 16] {
    // Versions only grow, so two of one microsecond differ.
    let time = SINCE_1582.wrapping_add(clock.next_version(0).wrapping_mul(10));
    at(time, rand::rng().random())
}

fn at(time: u64, rest: u64) -> [u8; 16] {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = time.to_be_bytes();
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rest.to_be_bytes();
    let version = (t0 & 0x0f) | 0x10;
    let variant = (r0 & 0x3f) | 0x80;
    // A node that is no card's address has this bit.
    let node = r2 | 0x01;
    [
        t4, t5, t6, t7, t2, t3, version, t1, variant, r1, node, r3, r4, r5, r6, r7,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Native, uuid_text, validate};

    #[test]
    fn they_are_of_version_1_and_differ() {
        let clock = Clock::manual(1_700_000_000_000);
        let (first, second) = (time_uuid(&clock), time_uuid(&clock));
        assert_ne!(first, second);
        assert!(validate(&Native::Timeuuid.into(), &first).is_ok());
        let text = uuid_text(at(0x01ee_838b_43ec_a000, 0));
        assert_eq!(text, "43eca000-838b-11ee-8000-010000000000");
    }
}
