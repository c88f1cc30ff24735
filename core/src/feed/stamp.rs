//! Stamps: the order of what was appended, as the engine gave it at the commit.

use crate::encoding::{put_u32, put_u64, take_u32, take_u64};

/// Where an appended entry stands among all others: the engine completes its key with this.
///
/// Stamps grow with commits, but on an engine that others share not in the order in which commits
/// become visible: [`Settled::through`](crate::engine::Settled) says up to where nothing is
/// missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Which history of the data: another one after a restore, a copy or a failover.
    pub epoch: u64,
    /// The engine's version of the commit.
    pub version: u64,
    /// Which of the commits that share that version.
    pub commit: u32,
    /// Which of the entries of that commit.
    pub entry: u32,
}

impl Stamp {
    /// The bytes of an encoded stamp.
    pub const ENCODED_LEN: usize = 24;

    /// Before every stamp there can be.
    pub const START: Self = Self {
        epoch: 0,
        version: 0,
        commit: 0,
        entry: 0,
    };

    /// The last stamp that any commit of this version can have.
    pub const fn end_of(epoch: u64, version: u64) -> Self {
        Self {
            epoch,
            version,
            commit: u32::MAX,
            entry: u32::MAX,
        }
    }

    /// The last stamp that the commit of this one can have.
    #[must_use]
    pub const fn end_of_commit(self) -> Self {
        Self {
            entry: u32::MAX,
            ..self
        }
    }

    /// The last stamp before this one.
    #[must_use]
    pub const fn before(self) -> Self {
        if let Some(entry) = self.entry.checked_sub(1) {
            return Self { entry, ..self };
        }
        let entry = u32::MAX;
        if let Some(commit) = self.commit.checked_sub(1) {
            return Self {
                commit,
                entry,
                ..self
            };
        }
        match (self.version.checked_sub(1), self.epoch.checked_sub(1)) {
            (Some(version), _) => Self::end_of(self.epoch, version),
            (None, Some(epoch)) => Self::end_of(epoch, u64::MAX),
            (None, None) => Self::START,
        }
    }

    /// Whether both are of one commit.
    pub fn is_same_commit(self, other: Self) -> bool {
        self.end_of_commit() == other.end_of_commit()
    }

    /// Whether both have the same version, and so are of one commit or of some that share it.
    pub fn is_same_version(self, other: Self) -> bool {
        (self.epoch, self.version) == (other.epoch, other.version)
    }

    /// Appends the memcomparable form.
    pub fn encode_into(self, out: &mut Vec<u8>) {
        put_u64(out, self.epoch);
        put_u64(out, self.version);
        put_u32(out, self.commit);
        put_u32(out, self.entry);
    }

    /// The memcomparable form.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::ENCODED_LEN);
        self.encode_into(&mut out);
        out
    }

    /// Takes a stamp off the front of `input`.
    pub fn decode(input: &mut &[u8]) -> Option<Self> {
        Some(Self {
            epoch: take_u64(input)?,
            version: take_u64(input)?,
            commit: take_u32(input)?,
            entry: take_u32(input)?,
        })
    }

    /// The prefix of an appended key and its stamp.
    pub fn split(key: &[u8]) -> Option<(&[u8], Self)> {
        let (prefix, mut stamp) =
            key.split_at_checked(key.len().checked_sub(Self::ENCODED_LEN)?)?;
        Some((prefix, Self::decode(&mut stamp)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stamps() -> impl Strategy<Value = Stamp> {
        let small = || prop_oneof![0..3_u64, any::<u64>()];
        (small(), small(), 0..3_u32, any::<u32>()).prop_map(|(epoch, version, commit, entry)| {
            Stamp {
                epoch,
                version,
                commit,
                entry,
            }
        })
    }

    proptest! {
        #[test]
        fn stamps_sort_as_their_bytes_and_read_back(one in stamps(), other in stamps()) {
            prop_assert_eq!(one.encode().cmp(&other.encode()), one.cmp(&other));
            prop_assert_eq!(one.encode().len(), Stamp::ENCODED_LEN);
            let key = [&b"prefix"[..], &one.encode()].concat();
            prop_assert_eq!(Stamp::split(&key), Some((&b"prefix"[..], one)));
        }

        #[test]
        fn damaged_stamps_are_rejected(one in stamps(), length in 0..Stamp::ENCODED_LEN) {
            let encoded = one.encode();
            prop_assert_eq!(Stamp::split(encoded.get(..length).unwrap_or_default()), None);
        }
    }

    #[test]
    fn ends_are_behind_all_they_end() {
        let stamp = Stamp {
            epoch: 1,
            version: 2,
            commit: 3,
            entry: 4,
        };
        assert!(stamp < stamp.end_of_commit() && stamp.end_of_commit() < Stamp::end_of(1, 2));
        assert!(
            Stamp::end_of(1, 2)
                < Stamp {
                    version: 3,
                    ..Stamp {
                        epoch: 1,
                        ..Stamp::START
                    }
                }
        );
        assert!(stamp.is_same_commit(Stamp { entry: 9, ..stamp }));
        assert!(!stamp.is_same_commit(Stamp { commit: 9, ..stamp }));
    }
}
