//! How a key lies in the table: a head that fits a B-tree entry, and the rest of a long one beside.
//!
//! An entry of a B-tree ends at about 2,700 bytes, a key does not. The table is therefore ordered
//! by `key`, the first [`HEAD_BYTES`], and then by `mark`, which tells rows of one head apart:
//!
//! | mark | row |
//! |---|---|
//! | empty | the value of a key that is its own head |
//! | `01 · slot` | what one connection added to the tally of that key |
//! | `80 · SHA-256` | the value of a longer key; the rest of it is in `tail` |
//! | `80 · SHA-256 · 01 · slot` | what one connection added to the tally of a longer key |
//! | … `01 · ff ff ff ff` | what several had added to it, see `tidy` |
//!
//! So the rows of one key are those whose mark begins with the key's own and goes on with `01` at
//! most.
//!
//! Longer keys with one head lie in the order of their hashes; scans that meet one sort.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The longest head. With the longest mark it stays well under the limit of an entry.
pub(super) const HEAD_BYTES: usize = 2_000;

const TALLY: u8 = 0x01;
/// Behind the mark of a key: the row into which others are folded, of a slot that no connection
/// has.
pub(super) const FOLDED: [u8; 5] = [TALLY, 0xff, 0xff, 0xff, 0xff];
const BEYOND_TALLIES: u8 = 0x02;
const LONG: u8 = 0x80;

/// A number that one connection has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u32);

/// A key as it lies in the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredKey<'a> {
    pub(super) head: &'a [u8],
    pub(super) mark: Vec<u8>,
    /// None of a key that is its own head.
    pub(super) tail: Option<&'a [u8]>,
}

impl<'a> StoredKey<'a> {
    pub(super) fn new(key: &'a [u8]) -> Self {
        match split(key) {
            (head, None) => Self {
                head,
                mark: Vec::new(),
                tail: None,
            },
            (head, Some(tail)) => {
                let mut mark = vec![LONG];
                mark.extend_from_slice(&Sha256::digest(key));
                Self {
                    head,
                    mark,
                    tail: Some(tail),
                }
            }
        }
    }

    /// Greater than all marks of the rows that make up this key's value; its own is the first.
    pub(super) fn beyond_marks(&self) -> Vec<u8> {
        let mut beyond = self.mark.clone();
        beyond.push(BEYOND_TALLIES);
        beyond
    }

    /// The same key, as the row that one connection adds to.
    pub(super) fn into_tally(mut self, slot: Slot) -> Self {
        self.mark.push(TALLY);
        self.mark.extend_from_slice(&slot.0.to_be_bytes());
        self
    }
}

/// A bound of a range as head and tail; a tail that is not there is empty.
pub(super) fn bound(key: &[u8]) -> (&[u8], &[u8]) {
    let (head, tail) = split(key);
    (head, tail.unwrap_or_default())
}

/// Greater than every head.
pub(super) fn beyond_all() -> Vec<u8> {
    vec![0xff; HEAD_BYTES + 1]
}

/// The key that a head and a tail make up.
pub(super) fn join(head: &[u8], tail: Option<&[u8]>) -> Bytes {
    match tail {
        None => Bytes::copy_from_slice(head),
        Some(tail) => [head, tail].concat().into(),
    }
}

fn split(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    match key.split_at_checked(HEAD_BYTES) {
        Some((head, tail)) if !tail.is_empty() => (head, Some(tail)),
        _ => (key, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_its_head_and_tail() {
        for length in [0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 70_000] {
            let key = vec![7; length];
            let stored = StoredKey::new(&key);
            assert!(stored.head.len() <= HEAD_BYTES);
            assert_eq!(stored.tail.is_some(), length > HEAD_BYTES);
            assert_eq!(join(stored.head, stored.tail), key);
        }
    }

    #[test]
    fn the_order_of_heads_and_tails_is_the_order_of_keys() {
        let long = |last: u8| [vec![7; HEAD_BYTES], vec![last]].concat();
        let keys = [
            vec![7; HEAD_BYTES - 1],
            vec![7; HEAD_BYTES],
            long(0),
            long(1),
            vec![8],
            vec![0xff; HEAD_BYTES],
        ];
        for pair in keys.windows(2) {
            assert!(bound(&pair[0]) < bound(&pair[1]), "{pair:?}");
        }
        assert!(
            keys.iter()
                .all(|key| bound(key).0 < beyond_all().as_slice())
        );
    }

    #[test]
    fn rows_of_one_head_have_marks_of_their_own() {
        let key = vec![7; HEAD_BYTES + 1];
        let other = vec![7; HEAD_BYTES + 2];
        let plain = &key[..HEAD_BYTES];
        assert_ne!(StoredKey::new(&key).mark, StoredKey::new(&other).mark);
        assert!(StoredKey::new(&key).mark > StoredKey::new(plain).beyond_marks());
        for key in [plain, &key, &other] {
            let stored = StoredKey::new(key);
            for slot in [0, 1, u32::MAX] {
                let tally = StoredKey::new(key).into_tally(Slot(slot));
                assert!(stored.mark < tally.mark && tally.mark < stored.beyond_marks());
                assert_eq!((tally.head, tally.tail), (stored.head, stored.tail));
            }
        }
    }
}
