//! Materialized views: each row of a base table is a row of its views, moved as its values change.
//!
//! What a view holds of a base row follows from that row alone, so it is written anew whenever the
//! base row is, in the same transaction. No tombstones are needed: nobody else writes views.

use bytes::Bytes;
use tessera_core::locator::Locator;
use tessera_core::transaction::Transaction;

use super::evaluate::Scope;
use super::keys::{partition_key, put_clustering, row_key};
use super::line::{Lens, is_visible};
use super::settle::{Grace, Life, store};
use super::write::open;
use crate::error::Result;
use crate::failure::Failure;
use crate::plan::FollowingView;
use crate::row::{Content, Deletion, Liveness, PartitionRecord, Row, StoredRow};
use crate::schema::{Column, Table};

/// The views that follow a table.
pub(super) struct Views<'v> {
    pub(super) base: &'v Table,
    pub(super) views: &'v [FollowingView],
    pub(super) now: i64,
}

/// A base row, if it is there, and what deletes it from above.
type State<'s> = (Option<&'s StoredRow>, Deletion);

/// A row of a view.
#[derive(PartialEq)]
struct ViewRow {
    locator: Locator,
    stored: StoredRow,
    life: Life,
}

impl Views<'_> {
    /// Lets the views follow a change of one row.
    pub(super) async fn follow(
        &self,
        transaction: &mut Transaction,
        key: &Bytes,
        old: State<'_>,
        new: State<'_>,
    ) -> std::result::Result<(), Failure> {
        for following in self.views {
            let relation = &following.relation;
            let before = self.view_row(following, key, old)?;
            let after = self.view_row(following, key, new)?;
            if before == after {
                continue;
            }
            let container = open(transaction, relation).await?;
            let is_moved = match (&before, &after) {
                (Some(before), Some(after)) => before.locator != after.locator,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if let (true, Some(before)) = (is_moved, &before) {
                transaction.delete(&container, &before.locator).await?;
            }
            if let Some(after) = after {
                let item = transaction.read(&container, &after.locator).await?;
                let body = Some((after.stored.encode(), after.life));
                store(transaction, &container, after.locator, item.as_ref(), body).await?;
            }
        }
        Ok(())
    }

    /// The row that a view has of a base row, if it has one.
    fn view_row(
        &self,
        following: &FollowingView,
        key: &Bytes,
        (stored, above): State<'_>,
    ) -> Result<Option<ViewRow>> {
        let view = &following.relation.table;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let deletion = above.max(stored.row.deletion);
        if !is_visible(self.base, &stored.row, deletion, self.now) {
            return Ok(None);
        }
        let needed = vec![true; self.base.columns.len()];
        let lens = Lens {
            table: self.base,
            needed: &needed,
            now: self.now,
        };
        let record = PartitionRecord::default();
        let Some(line) = lens.row(key, stored, &record, above) else {
            return Ok(None);
        };
        let clock = tessera_core::clock::Clock::manual(0);
        let scope = Scope {
            table: self.base,
            given: &[],
            clock: &clock,
            now: self.now,
            line: Some(&line),
            aggregates: &[],
        };
        let is_there = |place: &usize| line.values.get(*place).is_some_and(Option::is_some);
        if !following.not_null.iter().all(is_there)
            || !scope.passes(self.base, &following.filters)?
        {
            return Ok(None);
        }
        let value = |column: &Column| {
            let place = self
                .base
                .columns
                .iter()
                .position(|base| base.name == column.name)?;
            line.values.get(place)?.as_deref()
        };
        let keys: Option<Vec<&[u8]>> = view.partition_key().map(value).collect();
        let clustering: Option<Vec<&[u8]>> = view.clustering().map(value).collect();
        let (Some(keys), Some(clustering)) = (keys, clustering) else {
            return Ok(None);
        };
        let partition = partition_key(&keys);
        let locator = Locator::murmur3(partition, row_key(&encoded(view, &clustering)));
        let (row, life) = self.cells(view, &stored.row, deletion);
        let clustering = clustering.into_iter().map(Bytes::copy_from_slice).collect();
        let stored = StoredRow { clustering, row };
        Ok((life != Life::None).then_some(ViewRow {
            locator,
            stored,
            life,
        }))
    }

    /// The cells that a view keeps, that the row is there, and until when.
    fn cells(&self, view: &Table, base: &Row, deletion: Deletion) -> (Row, Life) {
        let mut row = base.clone();
        row.deletion = Deletion::NONE;
        let grace = Grace {
            now: self.now,
            seconds: 0,
        };
        let whole = grace.prune(&mut row, deletion);
        // A column that is a key of the view alone decides how long the row is there.
        let key = view.columns.iter().find(|column| {
            column.is_key() && !self.base.column(&column.name).is_some_and(Column::is_key)
        });
        let key_cell = key.and_then(|column| match row.columns.get(column.number)? {
            Content::Simple(cell) => Some(cell.clone()),
            Content::Complex { .. } => None,
        });
        let life = match &key_cell {
            Some(cell) => cell.ends.map_or(Life::Forever, Life::Until).min(whole),
            None => whole,
        };
        let timestamp = key_cell.map(|cell| cell.timestamp).or_else(|| newest(&row));
        row.liveness = timestamp.map(|timestamp| Liveness {
            timestamp,
            ends: match life {
                Life::Until(second) => Some(second),
                Life::Forever | Life::None => None,
            },
        });
        let is_kept = |number: u32| {
            let mut columns = view.columns.iter();
            columns.any(|column| column.number == number && !column.is_key())
        };
        row.columns.retain(|number, _| is_kept(number));
        (row, life)
    }
}

/// The clustering key of a row of a view.
fn encoded(view: &Table, clustering: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::new();
    for (column, value) in view.clustering().zip(clustering) {
        put_clustering(&mut key, column, value);
    }
    key
}

/// The newest time in a row.
fn newest(row: &Row) -> Option<i64> {
    let cells = row.columns.iter().flat_map(|(_, content)| match content {
        Content::Simple(cell) => vec![cell.timestamp],
        Content::Complex { cells, .. } => cells.values().map(|cell| cell.timestamp).collect(),
    });
    let liveness = row.liveness.map(|liveness| liveness.timestamp);
    cells.chain(liveness).max()
}
