//! The partition map of a container: which physical partition holds which tokens.
//!
//! Partitions are contiguous token ranges that always tile the whole ring, so each token lies in
//! exactly one. All items of a logical partition have one token, so a split can never cut one in
//! two. Splits and merges come in two steps: first the partitions concerned name their heirs, and
//! from then on writers count into the heirs' tallies too; then the heirs take over. See
//! `crate::split` for why.

use serde::{Deserialize, Serialize};

use crate::definition::UnknownFields;
use crate::encoding::{flip_sign, unflip_sign};
use crate::error::{Error, Result};
use crate::key::PartitionId;

/// One physical partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, never reused in its container.
    pub id: PartitionId,
    /// Its first token.
    pub first: i64,
    /// Its last token, included.
    pub last: i64,
    /// Who takes over once a split or merge under way is finished, by first token.
    pub heirs: Vec<Heir>,
    unknown: UnknownFields,
}

impl Partition {
    /// Whether `token` lies in this partition.
    pub fn contains(&self, token: i64) -> bool {
        self.first <= token && token <= self.last
    }

    /// The heir that will hold `token`, if there is one.
    pub fn heir(&self, token: i64) -> Option<PartitionId> {
        let heir = self.heirs.iter().rev().find(|heir| heir.first <= token)?;
        Some(heir.id)
    }
}

/// A partition to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heir {
    /// Its number.
    pub id: PartitionId,
    /// Its first token.
    pub first: i64,
}

/// The stored record of a partition; its first token is in the key, its last follows from its
/// neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionRecord {
    pub(crate) id: PartitionId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) heirs: Vec<Heir>,
    #[serde(flatten)]
    unknown: UnknownFields,
}

impl PartitionRecord {
    fn new(id: PartitionId) -> Self {
        Self {
            id,
            heirs: Vec::new(),
            unknown: UnknownFields::default(),
        }
    }
}

/// All physical partitions of one container, by first token. Never empty, always tiling the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMap {
    partitions: Vec<Partition>,
}

impl PartitionMap {
    /// `count` partitions of equal width, numbered from 0.
    pub fn equal(count: u32) -> Self {
        let count = count.max(1);
        let records = (0..count).map(|id| {
            let position = (u128::from(id) << 64) / u128::from(count);
            // The position is below 2^64 because id is below count.
            let position = u64::try_from(position).unwrap_or(u64::MAX);
            (unflip_sign(position), PartitionRecord::new(id))
        });
        Self::tile(records.collect())
    }

    /// A map from its stored records, by first token. They must start at the first token of the
    /// ring and have no number twice.
    pub(crate) fn from_records(records: Vec<(i64, PartitionRecord)>) -> Result<Self> {
        let starts_at_ring_start = records.first().is_some_and(|(first, _)| *first == i64::MIN);
        let ascending = records.is_sorted_by(|(a, _), (b, _)| a < b);
        let mut ids: Vec<_> = records.iter().map(|(_, record)| record.id).collect();
        ids.sort_unstable();
        let distinct = ids.is_sorted_by(|a, b| a < b);
        if starts_at_ring_start && ascending && distinct {
            Ok(Self::tile(records))
        } else {
            Err(Error::Corrupt(
                "a partition map does not tile the ring".into(),
            ))
        }
    }

    /// The records to store, by first token.
    pub(crate) fn records(&self) -> impl Iterator<Item = (i64, PartitionRecord)> {
        self.partitions.iter().map(|partition| {
            let record = PartitionRecord {
                id: partition.id,
                heirs: partition.heirs.clone(),
                unknown: partition.unknown.clone(),
            };
            (partition.first, record)
        })
    }

    fn tile(records: Vec<(i64, PartitionRecord)>) -> Self {
        let ends = records
            .iter()
            .skip(1)
            .map(|(first, _)| first.wrapping_sub(1));
        let ends: Vec<i64> = ends.chain([i64::MAX]).collect();
        let partitions = records.into_iter().zip(ends);
        let partitions = partitions.map(|((first, record), last)| Partition {
            id: record.id,
            first,
            last,
            heirs: record.heirs,
            unknown: record.unknown,
        });
        Self {
            partitions: partitions.collect(),
        }
    }

    /// The partition that holds `token`.
    pub fn locate(&self, token: i64) -> &Partition {
        let position = self
            .partitions
            .partition_point(|partition| partition.last < token);
        #[expect(
            clippy::indexing_slicing,
            reason = "the ranges tile the ring, so one holds the token"
        )]
        let partition = &self.partitions[position];
        partition
    }

    /// The partition with this number.
    pub fn get(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.id == id)
    }

    /// All partitions, by first token.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Partition> {
        self.partitions.iter()
    }

    /// How many partitions there are.
    pub fn count(&self) -> usize {
        self.partitions.len()
    }

    /// The partitions that hold a token from `first` to `last`.
    pub fn overlapping(&self, first: i64, last: i64) -> impl Iterator<Item = &Partition> {
        self.partitions
            .iter()
            .filter(move |partition| partition.first <= last && first <= partition.last)
    }

    /// First step of a split: `left` will hold what lies before token `at`, `right` the rest.
    pub fn begin_split(
        &mut self,
        id: PartitionId,
        at: i64,
        (left, right): (PartitionId, PartitionId),
    ) -> Result<()> {
        let partition = self.unchanging_mut(id)?;
        if at <= partition.first || partition.last < at {
            return Err(Error::Rejected(format!(
                "token {at} does not divide partition {id}, which holds {} to {}",
                partition.first, partition.last
            )));
        }
        partition.heirs = vec![
            Heir {
                id: left,
                first: partition.first,
            },
            Heir {
                id: right,
                first: at,
            },
        ];
        Ok(())
    }

    /// First step of a merge: `into` will hold what `id` and its right neighbour hold. Returns the
    /// neighbour's number.
    pub fn begin_merge(&mut self, id: PartitionId, into: PartitionId) -> Result<PartitionId> {
        let first = self.unchanging_mut(id)?.first;
        let neighbour = self.right_neighbour(id)?;
        self.unchanging_mut(neighbour)?;
        for parent in [id, neighbour] {
            self.unchanging_mut(parent)?.heirs = vec![Heir { id: into, first }];
        }
        Ok(neighbour)
    }

    /// Second step of a split or merge: the heirs of `parents` take their place. Refused if that
    /// was done before.
    pub fn finish(&mut self, parents: &[PartitionId]) -> Result<()> {
        for id in parents {
            if self.get(*id).is_none_or(|parent| parent.heirs.is_empty()) {
                return Err(Error::NotFound(format!("partition {id} with heirs")));
            }
        }
        let mut records: Vec<(i64, PartitionRecord)> = Vec::new();
        for (first, record) in self.records() {
            if !parents.contains(&record.id) {
                records.push((first, record));
                continue;
            }
            for heir in record.heirs {
                // Both parents of a merge name the same heir.
                if records.last().is_none_or(|(_, last)| last.id != heir.id) {
                    records.push((heir.first, PartitionRecord::new(heir.id)));
                }
            }
        }
        *self = Self::from_records(records)?;
        Ok(())
    }

    /// Aborts a split or merge: `parents` stay as they are.
    pub fn abandon(&mut self, parents: &[PartitionId]) {
        let parents = self
            .partitions
            .iter_mut()
            .filter(|p| parents.contains(&p.id));
        parents.for_each(|partition| partition.heirs.clear());
    }

    fn right_neighbour(&self, id: PartitionId) -> Result<PartitionId> {
        let mut after = self
            .partitions
            .iter()
            .skip_while(|partition| partition.id != id);
        after.nth(1).map(|partition| partition.id).ok_or_else(|| {
            Error::Rejected(format!(
                "partition {id} has no right neighbour to merge with"
            ))
        })
    }

    fn unchanging_mut(&mut self, id: PartitionId) -> Result<&mut Partition> {
        let partition = self
            .partitions
            .iter_mut()
            .find(|partition| partition.id == id);
        let partition = partition.ok_or_else(|| Error::NotFound(format!("partition {id}")))?;
        if !partition.heirs.is_empty() {
            return Err(Error::Rejected(format!(
                "partition {id} is already being split or merged"
            )));
        }
        Ok(partition)
    }
}

/// The token in the middle of `first` and `last`: dividing there halves the range.
pub fn middle(first: i64, last: i64) -> i64 {
    let (first, last) = (flip_sign(first), flip_sign(last));
    unflip_sign(first + (last - first) / 2 + (last - first) % 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_tiles(map: &PartitionMap) {
        let mut expected_first = Some(i64::MIN);
        for partition in map.iter() {
            assert_eq!(Some(partition.first), expected_first);
            assert!(partition.first <= partition.last);
            expected_first = partition.last.checked_add(1);
        }
        assert_eq!(expected_first, None, "the last range ends the ring");
    }

    proptest! {
        #[test]
        fn any_splits_and_merges_tile_the_ring(
            count in 1u32..6,
            changes in prop::collection::vec((any::<bool>(), any::<i64>(), any::<bool>()), 0..40),
            probes in prop::collection::vec(any::<i64>(), 20),
        ) {
            let mut map = PartitionMap::equal(count);
            let mut next = count;
            for (split, token, finish) in changes {
                let id = map.locate(token).id;
                let begun = if split {
                    map.begin_split(id, token, (next, next + 1)).map(|()| vec![id])
                } else {
                    map.begin_merge(id, next).map(|neighbour| vec![id, neighbour])
                };
                next += 2;
                if let Ok(parents) = begun {
                    assert_tiles(&map);
                    if finish {
                        map.finish(&parents).unwrap();
                    } else {
                        map.abandon(&parents);
                    }
                }
                assert_tiles(&map);
                let stored = PartitionMap::from_records(map.records().collect()).unwrap();
                prop_assert_eq!(&stored, &map);
            }
            for token in probes {
                let holders = map.iter().filter(|partition| partition.contains(token)).count();
                prop_assert_eq!(holders, 1);
                prop_assert!(map.locate(token).contains(token));
            }
        }
    }

    #[test]
    fn equal_partitions_are_equally_wide() {
        let map = PartitionMap::equal(4);
        let firsts: Vec<i64> = map.iter().map(|partition| partition.first).collect();
        assert_eq!(firsts, [i64::MIN, i64::MIN / 2, 0, i64::MAX / 2 + 1]);
        assert_tiles(&PartitionMap::equal(0));
        assert_tiles(&PartitionMap::equal(7));
    }

    #[test]
    fn heirs_divide_a_splitting_partition() {
        let mut map = PartitionMap::equal(1);
        map.begin_split(0, 10, (1, 2)).unwrap();
        let partition = map.locate(0);
        assert_eq!(partition.heir(9), Some(1));
        assert_eq!(partition.heir(10), Some(2));
        let again = map.begin_split(0, 5, (3, 4)).unwrap_err();
        assert!(matches!(again, Error::Rejected(_)), "{again}");
    }

    #[test]
    fn heirs_take_over_only_once() {
        let mut map = PartitionMap::equal(1);
        map.begin_split(0, 10, (1, 2)).unwrap();
        map.finish(&[0]).unwrap();
        let finished = map.clone();
        assert!(matches!(map.finish(&[0]), Err(Error::NotFound(_))));
        assert!(matches!(map.finish(&[1]), Err(Error::NotFound(_))));
        assert_eq!(map, finished);
    }

    #[test]
    fn a_split_needs_a_token_inside() {
        let mut map = PartitionMap::equal(2);
        for at in [i64::MIN, 0, 1] {
            assert!(map.begin_split(0, at, (2, 3)).is_err(), "{at}");
        }
        assert!(map.begin_split(0, -1, (2, 3)).is_ok());
        assert!(
            map.begin_merge(1, 4).is_err(),
            "the last has no right neighbour"
        );
    }

    #[test]
    fn damaged_records_are_refused() {
        let record = PartitionRecord::new;
        for records in [
            vec![],
            vec![(0, record(0))],
            vec![(i64::MIN, record(0)), (5, record(0))],
            vec![(i64::MIN, record(0)), (5, record(1)), (5, record(2))],
        ] {
            assert!(PartitionMap::from_records(records).is_err());
        }
    }

    #[test]
    fn the_middle_halves_a_range() {
        assert_eq!(middle(i64::MIN, i64::MAX), 0);
        assert_eq!(middle(0, 1), 1);
        assert_eq!(middle(-4, 3), 0);
    }
}
