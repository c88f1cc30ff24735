//! Passwords, kept as salted hashes.

use hmac::Hmac;
use rand::Rng as _;
use sha2::Sha256;

const ITERATIONS: u32 = 4_096;
const NAME: &str = "pbkdf2-sha256";

/// The hash of a password, with everything needed to check one.
pub(super) fn hash(password: &str) -> String {
    let salt: [u8; 16] = rand::rng().random();
    let hashed = derive(password, &salt, ITERATIONS);
    format!("{NAME}${ITERATIONS}${}${}", hex(&salt), hex(&hashed))
}

/// Whether it is the password of a hash.
pub(super) fn verify(password: &str, hashed: &str) -> bool {
    let mut parts = hashed.split('$');
    let (name, iterations) = (parts.next(), parts.next());
    let iterations = iterations.and_then(|text| text.parse().ok());
    let (salt, expected) = (parts.next().and_then(unhex), parts.next().and_then(unhex));
    let (Some(NAME), Some(iterations), Some(salt), Some(expected)) =
        (name, iterations, salt, expected)
    else {
        return false;
    };
    same(&derive(password, &salt, iterations), &expected)
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
        }
    }
}
