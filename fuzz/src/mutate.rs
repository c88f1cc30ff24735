//! Changes bytes: a few at a time, as a bit that flips, a length that lies, a part that repeats.

use super::dice::Dice;

/// Numbers at which something ends.
const EDGES: &[i64] = &[
    0,
    1,
    -1,
    7,
    8,
    127,
    128,
    255,
    256,
    32_767,
    32_768,
    65_535,
    65_536,
    2_147_483_647,
    -2_147_483_648,
    4_294_967_295,
    i64::MAX,
    i64::MIN,
];

/// No input becomes longer.
pub const LONGEST: usize = 64 << 10;

/// Changes an input in one to six ways. `others` are inputs that parts are taken from.
pub fn bytes(dice: &mut Dice, input: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..=dice.below(6) {
        once(dice, input, others);
    }
    input.truncate(LONGEST);
}

fn once(dice: &mut Dice, input: &mut Vec<u8>, others: &[Vec<u8>]) {
    let place = dice.below(input.len());
    match dice.below(10) {
        0 => flip(dice, input, place),
        1 => put(input, place, &[dice.byte()]),
        2 => number(dice, input, place),
        3 => digits(dice, input, place),
        4 => {
            let part = part(dice, input);
            let times = [1, 2, 10, 300].get(dice.below(4)).copied().unwrap_or(1);
            insert(input, place, &part.repeat(times));
        }
        5 => {
            let end = place + dice.below(input.len().saturating_sub(place) + 1);
            input.drain(place..end.min(input.len()));
        }
        6 => input.truncate(place),
        7 | 8 => {
            let part = dice.pick(others).map(|other| part(dice, other));
            let part = part.unwrap_or_default();
            match dice.once_in(2) {
                true => insert(input, place, &part),
                false => put(input, place, &part),
            }
        }
        _ => {
            let bytes = [dice.byte(), dice.byte(), dice.byte()];
            insert(
                input,
                place,
                bytes.get(..=dice.below(3)).unwrap_or_default(),
            );
        }
    }
}

fn flip(dice: &mut Dice, input: &mut [u8], place: usize) {
    if let Some(byte) = input.get_mut(place) {
        *byte ^= 1_u8 << dice.below(8);
    }
}

/// Overwrites what is at a place.
fn put(input: &mut [u8], place: usize, bytes: &[u8]) {
    for (old, new) in input.iter_mut().skip(place).zip(bytes) {
        *old = *new;
    }
}

fn insert(input: &mut Vec<u8>, place: usize, bytes: &[u8]) {
    let place = place.min(input.len());
    let room = LONGEST.saturating_sub(input.len());
    let bytes = bytes.get(..bytes.len().min(room)).unwrap_or_default();
    input.splice(place..place, bytes.iter().copied());
}

/// A number of some width in either order of bytes.
fn number(dice: &mut Dice, input: &mut [u8], place: usize) {
    let edge = dice.pick(EDGES).copied().unwrap_or(0);
    let width = 1_usize << dice.below(4);
    let little = edge.to_le_bytes();
    let mut bytes = little.get(..width).unwrap_or_default().to_vec();
    if dice.once_in(2) {
        bytes.reverse();
    }
    put(input, place, &bytes);
}

/// Another number where digits are, or one more.
fn digits(dice: &mut Dice, input: &mut Vec<u8>, place: usize) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let from = input.iter().skip(place).position(is_digit);
    let from = from.map_or(place, |from| place + from);
    let length = input
        .iter()
        .skip(from)
        .take_while(|byte| is_digit(byte))
        .count();
    let edge = dice.pick(EDGES).copied().unwrap_or(0).to_string();
    let edge = match dice.below(8) {
        0 => "9".repeat(1 + dice.below(600)),
        1 => format!("{edge}e{}", dice.below(500)),
        _ => edge,
    };
    input.splice(from..(from + length).min(input.len()), edge.bytes());
}

/// A part of an input.
fn part(dice: &mut Dice, input: &[u8]) -> Vec<u8> {
    let from = dice.below(input.len());
    let most = match dice.once_in(4) {
        true => input.len(),
        false => 24,
    };
    let length = dice.below(most.min(input.len() - from) + 1);
    input.get(from..from + length).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_differ_and_are_bounded_and_are_made_again() {
        let seeds = [b"SELECT a FROM t WHERE k = 12".to_vec(), vec![0; 40]];
        let make = |number| {
            let mut dice = Dice::new(1, number);
            let mut input = seeds[dice.below(2)].clone();
            bytes(&mut dice, &mut input, &seeds);
            input
        };
        let mut all: Vec<Vec<u8>> = (0..2_000).map(make).collect();
        assert!(all.iter().all(|input| input.len() <= LONGEST));
        assert_eq!(all[77], make(77));
        all.sort();
        all.dedup();
        assert!(all.len() > 1_500, "{}", all.len());
    }
}
