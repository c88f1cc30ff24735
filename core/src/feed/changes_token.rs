//! Where a reader of changes goes on: all that there is of it between two pages.

use bytes::Bytes;

use super::changes::{ChangesMode, FeedRange};
use super::definition::FeedId;
use super::position::Position;
use crate::encoding::{
    put_bytes, put_i64, put_u32, put_u64, take_bytes, take_i64, take_u32, take_u64,
};
use crate::error::{Error, Result};
use crate::key::StorageId;

const FORMAT: u8 = 1;
const LATEST_VERSION: u8 = 1;
const ALL_VERSIONS: u8 = 2;
const ITEMS: u8 = 1;
const CHANGES: u8 = 2;

/// Goes on where a page ended. It stays good over splits, merges, renames and restarts, on every
/// server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesToken {
    pub(super) feed: FeedId,
    pub(super) mode: ChangesMode,
    pub(super) range: FeedRange,
    pub(super) stage: Stage,
}

/// What is being read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The items there are, before their changes.
    Items {
        /// Only those with this version or a later one.
        since_version: u64,
        /// Behind which key of which storage.
        behind: Option<(StorageId, Bytes)>,
        /// The changes that were made meanwhile are behind this.
        then: Position,
    },
    /// Their changes.
    Changes {
        after: Position,
        /// Until there is one, nothing of an earlier time is told: milliseconds since 1970.
        not_before_ms: u64,
    },
}

impl Stage {
    pub(super) fn changes(after: Position) -> Self {
        Self::Changes {
            after,
            not_before_ms: 0,
        }
    }
}

impl ChangesToken {
    /// The feed that it reads.
    pub fn feed(&self) -> FeedId {
        self.feed
    }

    /// What is told.
    pub fn mode(&self) -> ChangesMode {
        self.mode
    }

    /// The part of the container that it reads.
    pub fn range(&self) -> FeedRange {
        self.range
    }

    /// Up to where changes were read.
    pub fn position(&self) -> Position {
        match self.stage {
            Stage::Items { then, .. } => then,
            Stage::Changes { after, .. } => after,
        }
    }

    /// The same for a part of its range, so that several readers go on where one was. None if that
    /// is not within it.
    #[must_use]
    pub fn narrowed(&self, range: FeedRange) -> Option<Self> {
        let (first, last) = self.range;
        let is_within = first <= range.0 && range.0 <= range.1 && range.1 <= last;
        is_within.then(|| Self {
            range,
            ..self.clone()
        })
    }

    pub(super) fn at(&self, after: Position, not_before_ms: u64) -> Self {
        Self {
            stage: Stage::Changes {
                after,
                not_before_ms,
            },
            ..self.clone()
        }
    }

    /// The bytes to hand to a client. Not secret, but checked for damage.
    pub fn encode(&self) -> Bytes {
        let mut out = vec![FORMAT];
        put_u64(&mut out, self.feed);
        out.push(match self.mode {
            ChangesMode::LatestVersion => LATEST_VERSION,
            ChangesMode::AllVersions => ALL_VERSIONS,
        });
        put_i64(&mut out, self.range.0);
        put_i64(&mut out, self.range.1);
        match &self.stage {
            Stage::Items {
                since_version,
                behind,
                then,
            } => {
                out.push(ITEMS);
                put_u64(&mut out, *since_version);
                put_bytes(&mut out, &then.encode());
                if let Some((storage, key)) = behind {
                    put_u64(&mut out, *storage);
                    put_bytes(&mut out, key);
                }
            }
            Stage::Changes {
                after,
                not_before_ms,
            } => {
                out.push(CHANGES);
                put_u64(&mut out, *not_before_ms);
                put_bytes(&mut out, &after.encode());
            }
        }
        let checksum = crc32fast::hash(&out);
        put_u32(&mut out, checksum);
        out.into()
    }

    /// Reads what a client sent back.
    pub fn decode(encoded: &[u8]) -> Result<Self> {
        let damaged = || Error::InvalidContinuation("it is damaged");
        let length = encoded.len().checked_sub(4).ok_or_else(damaged)?;
        let (content, mut checksum) = encoded.split_at_checked(length).ok_or_else(damaged)?;
        if take_u32(&mut checksum) != Some(crc32fast::hash(content)) {
            return Err(damaged());
        }
        decode(content).ok_or(Error::InvalidContinuation("it is of another format"))
    }
}

fn decode(content: &[u8]) -> Option<ChangesToken> {
    let mut input = content.strip_prefix(&[FORMAT])?;
    let feed = take_u64(&mut input)?;
    let mode = match take_byte(&mut input)? {
        LATEST_VERSION => ChangesMode::LatestVersion,
        ALL_VERSIONS => ChangesMode::AllVersions,
        _ => return None,
    };
    let range = (take_i64(&mut input)?, take_i64(&mut input)?);
    let stage = take_byte(&mut input)?;
    let number = take_u64(&mut input)?;
    let position = Position::decode(&take_bytes(&mut input)?)?;
    let stage = match stage {
        ITEMS => Stage::Items {
            since_version: number,
            behind: match input.is_empty() {
                true => None,
                false => {
                    let storage = take_u64(&mut input)?;
                    let key = take_bytes(&mut input)?.into_owned();
                    Some((storage, key.into()))
                }
            },
            then: position,
        },
        CHANGES => Stage::Changes {
            after: position,
            not_before_ms: number,
        },
        _ => return None,
    };
    input.is_empty().then_some(ChangesToken {
        feed,
        mode,
        range,
        stage,
    })
}

fn take_byte(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::stamp::Stamp;

    #[test]
    fn tokens_read_back_and_any_damage_is_refused() {
        let position = Position::at(Stamp::end_of(1, 2));
        let displaced = Position {
            displaced: Some(Stamp::end_of(0, 7)),
            ..position
        };
        let key = Bytes::from_static(b"i\0key");
        let stages = [
            Stage::changes(Position::START),
            Stage::Changes {
                after: displaced,
                not_before_ms: 5,
            },
            Stage::Items {
                since_version: 0,
                behind: None,
                then: position,
            },
            Stage::Items {
                since_version: u64::MAX,
                behind: Some((7, key)),
                then: displaced,
            },
        ];
        for (number, stage) in stages.into_iter().enumerate() {
            let mode = match number % 2 {
                0 => ChangesMode::LatestVersion,
                _ => ChangesMode::AllVersions,
            };
            let token = ChangesToken {
                feed: 3,
                mode,
                range: (i64::MIN, -1),
                stage,
            };
            let encoded = token.encode();
            assert_eq!(ChangesToken::decode(&encoded), Ok(token));
            for length in 0..encoded.len() {
                assert!(ChangesToken::decode(&encoded[..length]).is_err());
            }
            for place in 0..encoded.len() {
                let mut damaged = encoded.to_vec();
                damaged[place] ^= 1;
                assert!(ChangesToken::decode(&damaged).is_err());
            }
        }
    }

    #[test]
    fn a_token_is_narrowed_to_what_is_within_it() {
        let token = ChangesToken {
            feed: 1,
            mode: ChangesMode::AllVersions,
            range: (0, 100),
            stage: Stage::changes(Position::START),
        };
        for (range, is_within) in [
            ((0, 100), true),
            ((0, 50), true),
            ((51, 100), true),
            ((7, 7), true),
            ((-1, 50), false),
            ((50, 101), false),
            ((50, 49), false),
        ] {
            let narrowed = token.narrowed(range);
            assert_eq!(narrowed.map(|it| it.range()), is_within.then_some(range));
        }
    }
}
