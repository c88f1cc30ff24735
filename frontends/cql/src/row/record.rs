//! Rows: cells by column, and what deletes them together.

use std::collections::BTreeMap;

use super::{Cell, Columns, Deletion, Liveness};

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// One cell.
    Simple(Cell),
    /// A cell per element of a collection or field of a user type, by its path, and what deleted
    /// all of them: setting a collection as a whole does so, too.
    Complex {
        deletion: Deletion,
        cells: BTreeMap<Vec<u8>, Cell>,
    },
}

/// What is written of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) liveness: Option<Liveness>,
    pub(crate) deletion: Deletion,
    /// By the number of the column in its table.
    pub(crate) columns: Columns,
}

impl Content {
    /// A cell of a collection.
    pub(crate) fn element(path: impl Into<Vec<u8>>, cell: Cell) -> Self {
        let cells = BTreeMap::from([(path.into(), cell)]);
        Self::Complex {
            deletion: Deletion::NONE,
            cells,
        }
    }

    pub(crate) fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Simple(left), Self::Simple(right)) => Self::Simple(left.merge(right)),
            (
                Self::Complex {
                    deletion: left_deletion,
                    cells: left,
                },
                Self::Complex {
                    deletion: right_deletion,
                    cells: right,
                },
            ) => Self::Complex {
                deletion: left_deletion.max(right_deletion),
                cells: merge_maps(left, right, Cell::merge),
            },
            // A column never changes between the two; if it did, the parts are the newer form.
            (complex @ Self::Complex { .. }, Self::Simple(_))
            | (Self::Simple(_), complex @ Self::Complex { .. }) => complex,
        }
    }

    /// The values at this second, by path; that of a simple cell has the empty one.
    pub(crate) fn visible(&self, deletion: Deletion, now: i64) -> Vec<(&[u8], &[u8])> {
        match self {
            Self::Simple(cell) => cell
                .visible(deletion, now)
                .into_iter()
                .map(|value| (&[][..], value))
                .collect(),
            Self::Complex {
                deletion: own,
                cells,
            } => {
                let deletion = deletion.max(*own);
                cells
                    .iter()
                    .filter_map(|(path, cell)| {
                        Some((path.as_slice(), cell.visible(deletion, now)?))
                    })
                    .collect()
            }
        }
    }
}

impl Row {
    /// A row in which this column was written.
    pub(crate) fn with(mut self, column: u32, content: Content) -> Self {
        self.columns.add(column, content);
        self
    }

    #[must_use]
    pub(crate) fn merge(self, other: Self) -> Self {
        let mut columns = self.columns;
        for (column, content) in other.columns {
            columns.add(column, content);
        }
        Self {
            liveness: self.liveness.max(other.liveness),
            deletion: self.deletion.max(other.deletion),
            columns,
        }
    }

    /// The values at this second, by column and path. None if the row is not there. `deletion` is
    /// that of the partition and its ranges.
    #[cfg(test)]
    pub(crate) fn visible(&self, deletion: Deletion, now: i64) -> Option<Visible<'_>> {
        let deletion = deletion.max(self.deletion);
        let mut values = Visible::new();
        for (column, content) in self.columns.iter() {
            let visible = content.visible(deletion, now);
            if !visible.is_empty() {
                values.insert(column, visible);
            }
        }
        let is_inserted = self
            .liveness
            .is_some_and(|liveness| liveness.is_visible(deletion, now));
        (is_inserted || !values.is_empty()).then_some(values)
    }
}

/// The values of a row by column, each by path.
#[cfg(test)]
pub(crate) type Visible<'r> = BTreeMap<u32, Vec<(&'r [u8], &'r [u8])>>;

/// Both maps in one; what both have is merged.
pub(super) fn merge_maps<K: Ord, V>(
    left: BTreeMap<K, V>,
    right: BTreeMap<K, V>,
    merge: impl Fn(V, V) -> V,
) -> BTreeMap<K, V> {
    let mut merged = left;
    for (key, value) in right {
        let value = match merged.remove(&key) {
            Some(before) => merge(before, value),
            None => value,
        };
        merged.insert(key, value);
    }
    merged
}
