//! The continuation of a paged scan: an opaque token that says where the next page begins.
//!
//! It names a position in the container's key order and nothing of the partitions, so splits and
//! merges between two pages neither skip nor repeat an item. It names the storage too: after a
//! truncate or a relocation the old position means nothing, and is refused rather than misread.

use bytes::{BufMut, Bytes, BytesMut};

use crate::container::Container;
use crate::encoding::{take_u32, take_u64};
use crate::error::{Error, Result};
use crate::key::StorageId;
use crate::locator::Locator;

const FORMAT: u8 = 1;
const FORWARD: u8 = 0;
const REVERSE: u8 = 1;

/// Where a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    pub(crate) storage: StorageId,
    pub(crate) reverse: bool,
    /// The last key of the page before.
    pub(crate) last_key: Bytes,
}

impl Continuation {
    /// What goes on behind the place of an item, forwards in the container's order, whether the
    /// item is there or not: for front ends whose tokens name items.
    pub fn after(container: &Container, locator: &Locator) -> Self {
        Self {
            storage: container.storage(),
            reverse: false,
            last_key: container.item_key(locator),
        }
    }

    /// The token to hand to a client. Not secret, but checked for damage.
    pub fn encode(&self) -> Bytes {
        let mut token = BytesMut::with_capacity(14 + self.last_key.len());
        token.put_u8(FORMAT);
        token.put_u8(if self.reverse { REVERSE } else { FORWARD });
        token.put_u64(self.storage);
        token.put_slice(&self.last_key);
        let checksum = crc32fast::hash(&token);
        token.put_u32(checksum);
        token.freeze()
    }

    /// Reads a token that a client sent back.
    pub fn decode(token: &[u8]) -> Result<Self> {
        let damaged = Error::InvalidContinuation("it is damaged");
        let Some((content, mut checksum)) = token
            .len()
            .checked_sub(4)
            .and_then(|length| token.split_at_checked(length))
        else {
            return Err(damaged);
        };
        if take_u32(&mut checksum) != Some(crc32fast::hash(content)) {
            return Err(damaged);
        }
        let Some(([FORMAT, direction], mut rest)) = content.split_first_chunk::<2>() else {
            return Err(Error::InvalidContinuation("it is of another format"));
        };
        let storage = take_u64(&mut rest).ok_or(damaged)?;
        Ok(Self {
            storage,
            reverse: *direction == REVERSE,
            last_key: Bytes::copy_from_slice(rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_and_any_damage_is_refused() {
        let continuation = Continuation {
            storage: 3,
            reverse: true,
            last_key: Bytes::from_static(b"key"),
        };
        let token = continuation.encode();
        assert_eq!(Continuation::decode(&token), Ok(continuation));
        for length in 0..token.len() {
            assert!(Continuation::decode(&token[..length]).is_err(), "{length}");
        }
        for position in 0..token.len() {
            let mut damaged = token.to_vec();
            damaged[position] ^= 1;
            assert!(Continuation::decode(&damaged).is_err(), "{position}");
        }
    }
}
