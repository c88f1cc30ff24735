//! UUIDs: text, version and the two orders that Cassandra gives them.

use std::cmp::Ordering;

const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// Reads the usual form, with its four hyphens.
pub(super) fn parse(text: &str) -> Option<[u8; 16]> {
    let mut digits = String::with_capacity(32);
    let mut groups = text.split('-');
    for length in GROUPS {
        let group = groups.next()?;
        if group.len() != length || !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        digits.push_str(group);
    }
    if groups.next().is_some() {
        return None;
    }
    u128::from_str_radix(&digits, 16)
        .ok()
        .map(u128::to_be_bytes)
}

/// The usual form.
pub(crate) fn text(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    let mut rest = digits.as_str();
    let mut groups = Vec::with_capacity(GROUPS.len());
    for length in GROUPS {
        let (group, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        groups.push(group);
        rest = after;
    }
    groups.join("-")
}

/// The version: 1 for those that begin with a time.
pub(super) fn version(uuid: [u8; 16]) -> u8 {
    let [_, _, _, _, _, _, byte, ..] = uuid;
    byte >> 4
}

/// Bytes that sort as values of type `timeuuid` do: by time, then by the rest as signed bytes.
pub(super) fn time_order(uuid: [u8; 16]) -> [u8; 16] {
    let (time, rest) = time_first(uuid);
    join(time, rest ^ 0x8080_8080_8080_8080)
}

/// Bytes that sort as values of type `uuid` do: by version, those of version 1 by time.
pub(super) fn version_order(uuid: [u8; 16]) -> (u8, [u8; 16]) {
    let version = version(uuid);
    let key = if version == 1 {
        let (time, rest) = time_first(uuid);
        join(time, rest)
    } else {
        uuid
    };
    (version, key)
}

/// The first half with the high part of the time in front, and the second half.
fn time_first(uuid: [u8; 16]) -> (u64, u64) {
    let whole = u128::from_be_bytes(uuid);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves of the value"
    )]
    let (first, second) = ((whole >> 64) as u64, whole as u64);
    (
        first << 48 | (first << 16 & 0xffff_0000_0000) | first >> 32,
        second,
    )
}

fn join(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

pub(super) fn compare(left: [u8; 16], right: [u8; 16]) -> Ordering {
    version_order(left).cmp(&version_order(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        let text_form = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
        let uuid = parse(text_form).unwrap();
        assert_eq!(text(uuid), text_form);
        assert_eq!(version(uuid), 4);
        assert_eq!(parse(&text_form.to_uppercase()), Some(uuid));
        for bad in [
            "",
            "f47ac10b",
            "f47ac10b-58cc-4372-a567-0e02b2c3d47",
            "f47ac10b58cc",
            "f47ac10b-58cc-4372-a567-0e02b2c3d47g",
            "+47ac10b-58cc-4372-a567-0e02b2c3d479",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479-",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    /// Times grow from the last group of the time to the first, and the rest is signed there.
    #[test]
    fn times_come_before_the_rest() {
        let early = parse("ffffffff-0000-1000-8000-000000000000").unwrap();
        let late = parse("00000000-0001-1000-8000-000000000000").unwrap();
        let later = parse("00000000-0000-1001-8000-000000000000").unwrap();
        assert!(time_order(early) < time_order(late) && time_order(late) < time_order(later));
        assert_eq!(compare(early, late), Ordering::Less);
        let low = parse("00000000-0000-1001-7f00-000000000000").unwrap();
        assert!(time_order(later) < time_order(low));
        assert_eq!(compare(later, low), Ordering::Greater);
        let random = parse("00000000-0000-4000-8000-000000000000").unwrap();
        assert_eq!(compare(later, random), Ordering::Less);
    }
}
