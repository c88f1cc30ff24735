//! Passwords, kept as salted hashes: our own, or those of bcrypt that Cassandra makes.

use std::ops::RangeInclusive;

use bcrypt::HashParts;
use hmac::Hmac;
use rand::Rng as _;
use sha2::Sha256;
use tokio::sync::Semaphore;

const ITERATIONS: u32 = 4_096;
const NAME: &str = "pbkdf2-sha256";

/// The beginning of a hash that Cassandra makes.
const BCRYPT: &str = "$2a$";

/// What hashes of bcrypt may cost at all.
const COSTS: RangeInclusive<u32> = 4..=30;

/// The most that a hash may cost to check, which is some seconds: 2 to this power, and this many.
const MAX_COST: u32 = 16;
const MAX_ITERATIONS: u32 = 10_000_000;

/// How many passwords may be checked at once; more wait.
const CHECKED_AT_ONCE: usize = 4;

/// Checks passwords beside the threads that serve requests: each takes a while on purpose.
pub(super) struct Checker(Semaphore);

impl Default for Checker {
    fn default() -> Self {
        Self(Semaphore::new(CHECKED_AT_ONCE))
    }
}

impl Checker {
    /// Whether it is the password of a hash.
    pub(super) async fn is_right(&self, password: &str, hashed: &str) -> bool {
        let Ok(_permit) = self.0.acquire().await else {
            return false;
        };
        let (password, hashed) = (password.to_owned(), hashed.to_owned());
        let checked = tokio::task::spawn_blocking(move || verify(&password, &hashed));
        checked.await.unwrap_or(false)
    }
}

/// The hash of a password, with everything needed to check one.
pub(super) fn hash(password: &str) -> String {
    let salt: [u8; 16] = rand::rng().random();
    let hashed = derive(password, &salt, ITERATIONS);
    format!("{NAME}${ITERATIONS}${}${}", hex(&salt), hex(&hashed))
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

fn verify(password: &str, hashed: &str) -> bool {
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

    #[test]
    fn passwords_are_checked() {
        let hashed = hash("secret");
        assert!(verify("secret", &hashed));
        assert!(!verify("Secret", &hashed));
        assert_ne!(hash("secret"), hashed);
        for damaged in ["", "x", "pbkdf2-sha256$1$zz$00", "pbkdf2-sha256$1$00"] {
            assert!(!verify("secret", damaged));
            assert_eq!(check_hash(damaged), Err(Unusable::NoHash));
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
