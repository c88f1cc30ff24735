//! A partition: static cells, rows by key, and what deletes them together.

use std::collections::BTreeMap;

use super::record::{Visible, merge_maps};
use super::{Deletion, Ranges, Row};

/// What is written of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) deletion: Deletion,
    pub(crate) ranges: Ranges,
    /// The cells that all rows share.
    pub(crate) statics: Row,
    /// By encoded clustering key.
    pub(crate) rows: BTreeMap<Vec<u8>, Row>,
}

impl Partition {
    /// A write of one row.
    pub(crate) fn row(key: impl Into<Vec<u8>>, row: Row) -> Self {
        Self {
            rows: BTreeMap::from([(key.into(), row)]),
            ..Self::default()
        }
    }

    /// Both in one, in whatever order they were made.
    #[must_use]
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            deletion: self.deletion.max(other.deletion),
            ranges: self.ranges.merge(other.ranges),
            statics: self.statics.merge(other.statics),
            rows: merge_maps(self.rows, other.rows, Row::merge),
        }
    }

    /// The rows that are there at this second, with their values.
    pub(crate) fn visible(&self, now: i64) -> Vec<(&[u8], Visible<'_>)> {
        self.rows
            .iter()
            .filter_map(|(key, row)| {
                let deletion = self.deletion.max(self.ranges.deletion(key));
                Some((key.as_slice(), row.visible(deletion, now)?))
            })
            .collect()
    }

    /// The values of the static columns at this second.
    pub(crate) fn visible_statics(&self, now: i64) -> Visible<'_> {
        self.statics.visible(self.deletion, now).unwrap_or_default()
    }
}
