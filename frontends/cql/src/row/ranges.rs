//! Deletions of ranges of rows, kept apart so that each key is under one of them at most.

use super::Deletion;

/// Encoded clustering keys from `start` on and before `end`; none is after all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

/// Deletions of ranges: sorted, apart from each other, and as few as they can be. So two lists
/// that delete the same are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(KeyRange, Deletion)>);

impl KeyRange {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }

    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

impl Ranges {
    pub(crate) fn of(range: KeyRange, deletion: Deletion) -> Self {
        if range.is_empty() {
            Self::default()
        } else {
            Self(vec![(range, deletion)])
        }
    }

    /// A list that was one before.
    pub(super) fn from_sorted(ranges: Vec<(KeyRange, Deletion)>) -> Self {
        Self(ranges)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(KeyRange, Deletion)> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Without those that are not wanted any more.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(Deletion) -> bool) {
        self.0.retain(|(_, deletion)| is_wanted(*deletion));
    }

    /// What deletes the row with this key.
    pub(crate) fn deletion(&self, key: &[u8]) -> Deletion {
        let found = self.0.iter().find(|(range, _)| range.contains(key));
        found.map_or(Deletion::NONE, |(_, deletion)| *deletion)
    }

    /// Both lists in one: where they overlap, the later deletion counts.
    #[must_use]
    pub(crate) fn merge(self, other: Self) -> Self {
        let mut points: Vec<&Vec<u8>> = Vec::new();
        for (range, _) in self.0.iter().chain(&other.0) {
            points.push(&range.start);
            points.extend(&range.end);
        }
        points.sort();
        points.dedup();
        let ends = points
            .iter()
            .skip(1)
            .map(|end| Some((*end).clone()))
            .chain([None]);
        let mut merged: Vec<(KeyRange, Deletion)> = Vec::new();
        // Between two neighbouring points nothing changes, so the first key tells.
        for (start, end) in points.iter().zip(ends) {
            let deletion = self.deletion(start).max(other.deletion(start));
            if deletion == Deletion::NONE {
                continue;
            }
            match merged.last_mut() {
                Some((last, same)) if *same == deletion && last.end.as_ref() == Some(*start) => {
                    last.end = end;
                }
                _ => merged.push((
                    KeyRange {
                        start: (*start).clone(),
                        end,
                    },
                    deletion,
                )),
            }
        }
        Self(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(start: u8, end: Option<u8>, timestamp: i64) -> Ranges {
        let range = KeyRange {
            start: vec![start],
            end: end.map(|end| vec![end]),
        };
        Ranges::of(range, Deletion { timestamp, at: 0 })
    }

    #[test]
    fn overlaps_are_cut_and_neighbours_joined() {
        let merged = of(1, Some(5), 1)
            .merge(of(3, Some(8), 2))
            .merge(of(8, None, 2));
        let expected = of(1, Some(3), 1).merge(of(3, None, 2));
        assert_eq!(merged, expected);
        assert_eq!(merged.0.len(), 2);
        for (key, timestamp) in [(0, i64::MIN), (1, 1), (2, 1), (3, 2), (9, 2)] {
            assert_eq!(merged.deletion(&[key]).timestamp, timestamp, "{key}");
        }
        assert_eq!(of(5, Some(5), 1), Ranges::default());
        let inside = of(1, Some(9), 5).merge(of(3, Some(4), 1));
        assert_eq!(inside, of(1, Some(9), 5));
    }
}
