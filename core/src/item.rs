//! An item: one document, row or entity. Its body is the front end's and opaque here.

use bytes::{Buf, Bytes};

use crate::locator::Locator;

/// Version and expiry, which precede the body in a stored item.
const HEADER_LEN: usize = 16;

/// One stored item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its place.
    pub locator: Locator,
    /// Grows with each write of the item: microseconds of the clock, pushed up where needed.
    pub version: u64,
    /// When it stops being visible, in milliseconds since 1970. Never, if none.
    pub expires_at_ms: Option<u64>,
    /// The front end's bytes.
    pub body: Bytes,
}

impl Item {
    /// Bytes that statistics and limits count: keys and body.
    pub fn counted_bytes(&self) -> usize {
        self.locator.key_bytes() + self.body.len()
    }

    /// Whether the item is invisible at `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|expiry| expiry <= now_ms)
    }

    /// The value under the item's key.
    pub(crate) fn encode_value(&self) -> Bytes {
        let mut value = Vec::with_capacity(HEADER_LEN + self.body.len());
        value.extend_from_slice(&self.version.to_be_bytes());
        value.extend_from_slice(&self.expires_at_ms.unwrap_or(0).to_be_bytes());
        value.extend_from_slice(&self.body);
        value.into()
    }

    /// Reads the value under an item's key; the body is the rest of it, not a copy.
    pub(crate) fn decode_value(locator: Locator, mut value: Bytes) -> Option<Self> {
        let version = value.try_get_u64().ok()?;
        let expiry = value.try_get_u64().ok()?;
        Some(Self {
            locator,
            version,
            expires_at_ms: (expiry != 0).then_some(expiry),
            body: value,
        })
    }
}

/// An item to store.
#[derive(Clone, Debug)]
pub struct NewItem {
    /// Where.
    pub locator: Locator,
    /// The body.
    pub body: Bytes,
    /// When it expires, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
}

impl NewItem {
    /// An item that never expires.
    pub fn new(locator: Locator, body: impl Into<Bytes>) -> Self {
        Self {
            locator,
            body: body.into(),
            expires_at_ms: None,
        }
    }

    /// The same item, expiring at `expires_at_ms`.
    #[must_use]
    pub fn expiring_at(mut self, expires_at_ms: u64) -> Self {
        self.expires_at_ms = Some(expires_at_ms);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back_and_reject_truncation() {
        let item = Item {
            locator: Locator::row(1, &b"p"[..], &b"r"[..]),
            version: 7,
            expires_at_ms: Some(9),
            body: Bytes::from_static(b"body"),
        };
        let value = item.encode_value();
        assert_eq!(
            Item::decode_value(item.locator.clone(), value.clone()),
            Some(item.clone())
        );
        for length in 0..HEADER_LEN {
            assert_eq!(
                Item::decode_value(item.locator.clone(), value.slice(..length)),
                None
            );
        }
    }
}
