//! HMAC-SHA256 of a text: keys, and the signatures made with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A key of an account, ready to verify. Its bytes are not kept.
#[derive(Clone)]
pub(super) struct Key(Hmac<Sha256>);

impl Key {
    /// Reads a key in base64. Its bytes too, for those who judge them.
    pub(super) fn parse(text: &str) -> Option<(Self, Vec<u8>)> {
        let bytes = STANDARD.decode(text).ok().filter(|key| !key.is_empty())?;
        Some((Self(Hmac::new_from_slice(&bytes).ok()?), bytes))
    }

    /// Whether the signature is that of the text. Takes equally long wherever a wrong signature
    /// differs.
    pub(super) fn verifies(&self, text: &str, signature: &Signature) -> bool {
        let mac = self.0.clone().chain_update(text);
        mac.verify_slice(&signature.0).is_ok()
    }
}

/// A signature as a client sent it.
pub(super) struct Signature([u8; SIGNATURE_LENGTH]);

const SIGNATURE_LENGTH: usize = 32;

impl Signature {
    /// Reads a signature in base64.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The decoder wants room for a whole last group, padding included.
        let mut bytes = [0; SIGNATURE_LENGTH + 1];
        let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
        let (signature, _) = bytes.split_first_chunk()?;
        (length == SIGNATURE_LENGTH).then_some(Self(*signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_verified() {
        // RFC 4231, case 2.
        let (key, _) = Key::parse("SmVmZQ==").unwrap();
        let signature = "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=";
        let check = |text: &str, signature: &str, expected| {
            let signature = Signature::parse(signature).unwrap();
            assert_eq!(key.verifies(text, &signature), expected, "{text}");
        };
        check("what do ya want for nothing?", signature, true);
        check("what do ya want for nothing", signature, false);
        let other = "X9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=";
        check("what do ya want for nothing?", other, false);
    }

    #[test]
    fn malformed_keys_and_signatures_are_refused() {
        for text in ["", "SmVmZQ", "not base64"] {
            assert!(Key::parse(text).is_none(), "{text}");
        }
        let long = "A".repeat(10_000);
        for text in [
            "",
            "SmVmZQ==",
            "%%%%",
            &long,
            &"A".repeat(43),
            &"A".repeat(44),
        ] {
            assert!(Signature::parse(text).is_none(), "{text}");
        }
    }
}
