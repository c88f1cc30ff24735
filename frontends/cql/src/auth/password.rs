//! Passwords, kept as salted hashes: of bcrypt as Cassandra makes them, or of PBKDF2.
//!
//! New hashes are of bcrypt with Cassandra's default of 10, which takes about 50 ms of a processor;
//! PBKDF2 with the 600,000 rounds that are advised takes four times as long, and cards guess it
//! faster. So hashes can be carried to Cassandra and back. bcrypt looks at 72 bytes: passwords that
//! are longer are hashed by PBKDF2, which looks at all of them.

use std::ops::RangeInclusive;

use bcrypt::HashParts;
use hmac::Hmac;
use rand::Rng as _;
use sha2::Sha256;

/// The power of 2 that is the rounds of a new hash of bcrypt. Tests hash often and guess never.
const COST: u32 = if cfg!(test) { 4 } else { 10 };

/// The rounds of a new hash of PBKDF2.
const ITERATIONS: u32 = if cfg!(test) { 1_000 } else { 600_000 };
const NAME: &str = "pbkdf2-sha256";

/// About how many rounds of PBKDF2 take as long as one of bcrypt.
const ITERATIONS_PER_ROUND: u64 = 128;

/// The longest password that bcrypt looks at whole, beside the zero that ends it.
const LONGEST_OF_BCRYPT: usize = 71;

/// The beginning of a hash that Cassandra makes.
const BCRYPT: &str = "$2a$";

/// What hashes of bcrypt may cost at all.
const COSTS: RangeInclusive<u32> = 4..=30;

/// The most that a hash may cost to check, which is some seconds: 2 to this power, and this many.
const MAX_COST: u32 = 16;
const MAX_ITERATIONS: u32 = 10_000_000;

/// How long a new hash takes to check, in rounds of bcrypt.
pub(super) const EFFORT: u64 = 1 << COST;

/// The hash of a password, with everything needed to check one. Takes a while on purpose.
pub(super) fn hash(password: &str) -> String {
    let salt: [u8; 16] = rand::rng().random();
    let is_whole = password.len() <= LONGEST_OF_BCRYPT && !password.contains('\0');
    if is_whole && let Ok(parts) = bcrypt::hash_with_salt(password, COST, salt) {
        return parts.format_for_version(bcrypt::Version::TwoA);
    }
    let hashed = derive(password, &salt, ITERATIONS);
    format!("{NAME}${ITERATIONS}${}${}", hex(&salt), hex(&hashed))
}

/// Works for about so many rounds of bcrypt, as checking a password does.
pub(super) fn work(password: &str, rounds: u64) {
    for cost in costs(rounds) {
        // The result is of no interest; that it is used keeps the work from being left out.
        let hashed = bcrypt::hash_with_salt(password, cost, [0; 16]);
        std::hint::black_box(hashed.is_ok());
    }
}

/// Costs that come to so many rounds together, but for a few.
fn costs(rounds: u64) -> impl Iterator<Item = u32> {
    COSTS.rev().filter(move |cost| rounds >> cost & 1 == 1)
}

/// Whether a hash is weaker than a new one of the same password would be.
pub(super) fn is_outdated(hashed: &str) -> bool {
    match Hash::read(hashed) {
        Some(Hash::Bcrypt(_)) => effort(hashed) < EFFORT,
        Some(Hash::Own { iterations, .. }) => iterations < ITERATIONS,
        None => false,
    }
}

/// How long a hash takes to check, in rounds of bcrypt. Nothing is checked with what is none.
pub(super) fn effort(hashed: &str) -> u64 {
    let digits = hashed.strip_prefix(BCRYPT).and_then(|rest| rest.get(..2));
    if let Some(cost) = digits.and_then(|digits| digits.parse::<u32>().ok()) {
        return 1 << cost.min(MAX_COST);
    }
    let rest = hashed
        .strip_prefix(NAME)
        .and_then(|rest| rest.strip_prefix('$'));
    let rounds = rest.and_then(|rest| rest.split('$').next());
    let rounds: Option<u64> = rounds.and_then(|digits| digits.parse().ok());
    rounds.map_or(0, |rounds| {
        rounds.min(u64::from(MAX_ITERATIONS)) / ITERATIONS_PER_ROUND
    })
}

/// Why a text cannot be taken as the hash of a password.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is none.
    NoHash,
    /// It would take too long to check.
    Costly,
}

/// Whether passwords can be checked with a hash that somebody else made.
pub(super) fn check_hash(hashed: &str) -> Result<(), Unusable> {
    let is_costly = match Hash::read(hashed).ok_or(Unusable::NoHash)? {
        Hash::Bcrypt(hashed) => {
            let parts: HashParts = hashed.parse().map_err(|_| Unusable::NoHash)?;
            if !COSTS.contains(&parts.get_cost()) {
                return Err(Unusable::NoHash);
            }
            parts.get_cost() > MAX_COST
        }
        Hash::Own { iterations, .. } => iterations > MAX_ITERATIONS,
    };
    if is_costly {
        return Err(Unusable::Costly);
    }
    Ok(())
}

/// Whether it is the password of a hash. Takes a while on purpose.
pub(super) fn verify(password: &str, hashed: &str) -> bool {
    if check_hash(hashed).is_err() {
        return false;
    }
    match Hash::read(hashed) {
        Some(Hash::Bcrypt(hashed)) => bcrypt::verify(password, hashed).unwrap_or(false),
        Some(Hash::Own {
            iterations,
            salt,
            expected,
        }) => same(&derive(password, &salt, iterations), &expected),
        None => false,
    }
}

enum Hash<'t> {
    Own {
        iterations: u32,
        salt: Vec<u8>,
        expected: Vec<u8>,
    },
    Bcrypt(&'t str),
}

impl<'t> Hash<'t> {
    fn read(text: &'t str) -> Option<Self> {
        if text.starts_with(BCRYPT) {
            return Some(Self::Bcrypt(text));
        }
        let mut parts = text.strip_prefix(NAME)?.strip_prefix('$')?.split('$');
        Some(Self::Own {
            iterations: parts.next()?.parse().ok()?,
            salt: unhex(parts.next()?)?,
            expected: unhex(parts.next()?)?,
        })
    }
}

/// Compares in a time that does not tell where the first difference is.
pub(super) fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).map(|(left, right)| left ^ right);
    left.len() == right.len() && differences.fold(0, |all, one| all | one) == 0
}

fn derive(password: &str, salt: &[u8], iterations: u32) -> [u8; 32] {
    let mut out = [0; 32];
    let derived = pbkdf2::pbkdf2::<Hmac<Sha256>>(password.as_bytes(), salt, iterations, &mut out);
    // Keys of this kind may have any length, so this cannot fail; if it did, no password is right.
    if derived.is_err() {
        out = rand::rng().random();
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    };
    digits?.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As older versions have kept passwords.
    fn old(password: &str) -> String {
        let salt = [7; 16];
        let hashed = derive(password, &salt, 500);
        format!("{NAME}$500${}${}", hex(&salt), hex(&hashed))
    }

    #[test]
    fn passwords_are_checked() {
        let longest = "x".repeat(LONGEST_OF_BCRYPT);
        let longer = "x".repeat(LONGEST_OF_BCRYPT + 1);
        let very_long = "é".repeat(1_000);
        for password in [
            "secret",
            "s",
            "p\u{e4}ss",
            &longest,
            &longer,
            &very_long,
            "a\0b",
        ] {
            for hashed in [hash(password), old(password)] {
                assert!(verify(password, &hashed), "{hashed}");
                assert!(!verify(&format!("{password}x"), &hashed), "{hashed}");
                assert!(!verify("", &hashed), "{hashed}");
                assert_eq!(check_hash(&hashed), Ok(()));
            }
            assert_ne!(hash(password), hash(password));
            assert!(is_outdated(&old(password)) && !is_outdated(&hash(password)));
        }
        assert!(hash(&longest).starts_with("$2a$04$"));
        assert!(!verify("a", &hash("a\0b")));
        for damaged in [
            "",
            "x",
            "pbkdf2-sha256$1$zz$00",
            "pbkdf2-sha256$1$00",
            "$2a$",
        ] {
            assert!(!verify("secret", damaged));
            assert_eq!(check_hash(damaged), Err(Unusable::NoHash));
        }
    }

    #[test]
    fn work_fills_up_any_effort() {
        for rounds in (0..5_000).chain([1 << 16, (1 << 16) - 33, 78_125]) {
            let done: u64 = costs(rounds).map(|cost| 1 << cost).sum();
            assert!(done <= rounds && rounds - done < 16, "{rounds}: {done}");
        }
    }

    #[test]
    fn efforts_are_compared_over_algorithms() {
        assert_eq!(effort(&hash("x")), EFFORT);
        assert_eq!(effort("$2a$12$rest"), 4_096);
        assert_eq!(effort("$2a$99$rest"), 1 << MAX_COST);
        assert_eq!(effort("pbkdf2-sha256$4096$00$00"), 32);
        for none in ["", "x", "$2a$", "$2a$\u{e9}", "pbkdf2-sha256$x$00$00"] {
            assert_eq!(effort(none), 0, "{none}");
        }
    }

    /// Made with another implementation of bcrypt.
    const CASSANDRAS: &str = "$2a$08$TesseraTesseraTesserau/3UMNvFL7aFYFjKVaE4O8Uqk7C1OmgK";

    #[test]
    fn hashes_of_cassandra_are_checked() {
        let hashed = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap();
        let hashed = hashed.format_for_version(bcrypt::Version::TwoA);
        assert_eq!(check_hash(&hashed), Ok(()));
        assert!(verify("secret", &hashed));
        assert!(!verify("Secret", &hashed));
        assert!(verify("cassandra", CASSANDRAS));
    }

    #[test]
    fn hashes_that_nobody_could_check_are_refused() {
        for (hashed, expected) in [
            (CASSANDRAS.to_owned(), Ok(())),
            (hash("secret"), Ok(())),
            (CASSANDRAS.replace("$08$", "$17$"), Err(Unusable::Costly)),
            (CASSANDRAS.replace("$2a$", "$2b$"), Err(Unusable::NoHash)),
            (CASSANDRAS.replace("Te", "é"), Err(Unusable::NoHash)),
            (CASSANDRAS[..59].to_owned(), Err(Unusable::NoHash)),
            (CASSANDRAS.replace("$08$", "$03$"), Err(Unusable::NoHash)),
            (CASSANDRAS.replace("$08$", "$31$"), Err(Unusable::NoHash)),
            (
                "pbkdf2-sha256$4000000000$00$00".to_owned(),
                Err(Unusable::Costly),
            ),
        ] {
            assert_eq!(check_hash(&hashed), expected, "{hashed}");
        }
    }
}
