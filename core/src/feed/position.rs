//! Positions: up to where somebody has followed a feed.

use super::stamp::Stamp;

/// Up to where a feed was followed. It stays good whatever is split, merged, renamed or restarted,
/// and on every server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// All entries up to this stamp were seen.
    pub stamp: Stamp,
    /// Of an event that stands behind this stamp though its commit has a smaller one, because a
    /// writer that it waited for had taken its number later: the stamp that it has itself.
    pub displaced: Option<Stamp>,
}

impl Position {
    /// Before everything.
    pub const START: Self = Self::at(Stamp::START);

    /// Behind all entries up to this stamp.
    pub const fn at(stamp: Stamp) -> Self {
        Self {
            stamp,
            displaced: None,
        }
    }

    /// The last position before this one: whoever goes on behind it sees what stands here again.
    #[must_use]
    pub fn before(self) -> Self {
        match self.displaced {
            Some(displaced) if displaced != Stamp::START => Self {
                displaced: Some(displaced.before()),
                ..self
            },
            Some(_) => Self::at(self.stamp),
            None => Self::at(self.stamp.before()),
        }
    }

    /// The memcomparable form: 24 bytes, rarely 48.
    pub fn encode(self) -> Vec<u8> {
        let mut out = self.stamp.encode();
        if let Some(displaced) = self.displaced {
            displaced.encode_into(&mut out);
        }
        out
    }

    /// Reads the encoded form; none if the bytes are not one.
    pub fn decode(mut encoded: &[u8]) -> Option<Self> {
        let stamp = Stamp::decode(&mut encoded)?;
        let displaced = match encoded.is_empty() {
            true => None,
            false => Some(Stamp::decode(&mut encoded)?),
        };
        encoded.is_empty().then_some(Self { stamp, displaced })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_sort_as_their_bytes_and_read_back() {
        let at = |version| Stamp::end_of(1, version);
        let displaced = |stamp, by| Position {
            stamp,
            displaced: Some(by),
        };
        let ordered = [
            Position::START,
            Position::at(at(3)),
            displaced(at(3), at(1)),
            displaced(at(3), at(2)),
            Position::at(at(4)),
        ];
        for pair in ordered.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].encode() < pair[1].encode());
        }
        for position in &ordered[1..] {
            assert!(position.before() < *position);
        }
        let commit = Stamp {
            commit: 3,
            entry: 0,
            ..at(3)
        };
        assert_eq!(
            commit.before(),
            Stamp {
                commit: 2,
                entry: u32::MAX,
                ..at(3)
            }
        );
        let version = Stamp {
            commit: 0,
            entry: 0,
            ..at(3)
        };
        assert_eq!(version.before(), at(2));
        assert_eq!(Stamp::START.before(), Stamp::START);
        for position in ordered {
            let encoded = position.encode();
            assert_eq!(Position::decode(&encoded), Some(position));
            for length in 0..encoded.len() {
                let cut = Position::decode(&encoded[..length]);
                assert!(cut.is_none() || length == Stamp::ENCODED_LEN);
            }
            assert_eq!(Position::decode(&[&encoded[..], &[0]].concat()), None);
        }
    }
}
