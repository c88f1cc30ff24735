//! Secrets that have the length of a good one and can be guessed all the same.

use std::collections::HashSet;
use std::hash::Hash;

/// The fewest different characters of a secret, and the fewest different steps between neighbours.
/// Of random passwords of 8 letters and digits, one in a million has fewer.
const FEWEST_CHARACTERS: usize = 4;
const FEWEST_STEPS: usize = 3;

/// What guessing begins with, before digits and marks are put behind it.
const COMMON: &[&str] = &[
    "administrator",
    "cassandra",
    "changeit",
    "changeme",
    "default",
    "iloveyou",
    "letmein",
    "passw0rd",
    "password",
    "qwerty",
    "qwertyui",
    "qwertyuiop",
    "secret",
    "superuser",
    "tessera",
    "trustno",
    "welcome",
];

/// Why a secret is among the first that are tried, as the end of a sentence that begins with it.
pub fn guessable(secret: &[u8]) -> Option<&'static str> {
    if different(secret) < FEWEST_CHARACTERS {
        return Some("repeats a few characters");
    }
    let steps: Vec<u8> = secret
        .windows(2)
        .filter_map(|pair| match pair {
            [one, next] => Some(next.wrapping_sub(*one)),
            _ => None,
        })
        .collect();
    if different(&steps) < FEWEST_STEPS {
        return Some("is a sequence");
    }
    let text = String::from_utf8_lossy(secret).to_lowercase();
    let word = text.trim_end_matches(|c: char| !c.is_alphabetic());
    COMMON
        .contains(&word)
        .then_some("is one of the commonest passwords")
}

fn different<T: Hash + Eq>(values: &[T]) -> usize {
    values.iter().collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_common_words_are_guessed() {
        let zeros = [0; 64];
        let alternating: Vec<u8> = (0..64).map(|n| n % 4).collect();
        let rising: Vec<u8> = (0..64).collect();
        let falling: Vec<u8> = (0..=255).rev().collect();
        for secret in [
            zeros.as_slice(),
            &alternating,
            &rising,
            &falling,
            b"",
            b"aaaaaaaaaaaaaaaa",
            b"abababababababab",
            b"11112222",
            b"12345678",
            b"87654321",
            b"0123456789abcdef",
            b"abcdefghijklmnopqrstuvwxyz",
            b"acegikmoqsuwy",
            b"password",
            b"Password1",
            b"CHANGEME!!",
            b"tessera2026",
        ] {
            assert!(guessable(secret).is_some(), "{secret:?}");
        }
    }

    #[test]
    fn what_was_made_for_it_is_not() {
        for secret in [
            "correct-horse",
            "xK9#pQ2v",
            "9f86d081",
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50u",
            "éééé-üüüü-ß",
        ] {
            assert_eq!(guessable(secret.as_bytes()), None, "{secret}");
        }
        // Secrets of random bytes and of random hexadecimal digits, the shortest that are taken.
        for _ in 0..100_000 {
            let key: [u8; 32] = rand::random();
            assert_eq!(guessable(&key), None, "{key:?}");
            let text = format!("{:016x}", rand::random::<u64>());
            assert_eq!(guessable(text.as_bytes()), None, "{text}");
        }
    }
}
