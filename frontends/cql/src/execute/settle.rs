//! Puts rows and partition records into the core: what is left of them, and until when.

use std::sync::Arc;

use tessera_core::Container;
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::reading::Entry;
use tessera_core::transaction::Transaction;

use crate::row::{Cell, Content, Deletion, PartitionRecord, Row, StoredRow};
use crate::schema::Table;

/// How long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// It says nothing.
    None,
    /// Up to this second.
    Until(i64),
    Forever,
}

/// What tells how long tombstones matter.
#[derive(Clone, Copy)]
pub(super) struct Grace {
    pub(super) now: i64,
    pub(super) seconds: i64,
}

impl Grace {
    pub(super) fn of(table: &Table, now: i64) -> Self {
        Self {
            now,
            seconds: i64::from(table.options.gc_grace_seconds),
        }
    }

    /// Until when something that ended matters: it still beats what is older.
    fn after(self, ends: i64) -> Life {
        let until = ends.saturating_add(self.seconds);
        if until > self.now {
            Life::Until(until)
        } else {
            Life::None
        }
    }

    fn of_deletion(self, deletion: Deletion) -> Life {
        if deletion == Deletion::NONE {
            Life::None
        } else {
            self.after(deletion.at)
        }
    }

    fn of_ends(self, ends: Option<i64>) -> Life {
        ends.map_or(Life::Forever, |ends| self.after(ends))
    }

    /// Takes out what says nothing any more, and tells how long the rest is kept.
    pub(super) fn prune(self, row: &mut Row, above: Deletion) -> Life {
        let deletion = row.deletion.max(above);
        if row.deletion <= above || self.of_deletion(row.deletion) == Life::None {
            row.deletion = Deletion::NONE;
        }
        let mut life = self.of_deletion(row.deletion);
        row.liveness = row
            .liveness
            .filter(|liveness| liveness.timestamp > deletion.timestamp)
            .filter(|liveness| self.of_ends(liveness.ends) != Life::None);
        if let Some(liveness) = row.liveness {
            life = life.max(self.of_ends(liveness.ends));
        }
        let keeps = |cell: &Cell, deletion: Deletion| {
            cell.timestamp > deletion.timestamp && self.of_ends(cell.ends) != Life::None
        };
        row.columns.retain(|_, content| match content {
            Content::Simple(cell) => {
                let is_kept = keeps(cell, deletion);
                if is_kept {
                    life = life.max(self.of_ends(cell.ends));
                }
                is_kept
            }
            Content::Complex {
                deletion: own,
                cells,
            } => {
                if *own <= deletion || self.of_deletion(*own) == Life::None {
                    let hidden = *own;
                    cells.retain(|_, cell| cell.timestamp > hidden.timestamp);
                    *own = Deletion::NONE;
                }
                let over = deletion.max(*own);
                cells.retain(|_, cell| keeps(cell, over));
                let ends = cells.values().map(|cell| self.of_ends(cell.ends)).max();
                life = life
                    .max(ends.unwrap_or(Life::None))
                    .max(self.of_deletion(*own));
                !cells.is_empty() || *own != Deletion::NONE
            }
        });
        life
    }
}

impl Life {
    fn expiry_ms(self) -> Option<u64> {
        match self {
            Self::Until(second) => u64::try_from(second).ok()?.checked_mul(1_000),
            Self::None | Self::Forever => None,
        }
    }
}

/// Stores a body in place of what was there, or takes that away.
pub(super) async fn store(
    transaction: &mut Transaction,
    container: &Arc<Container>,
    locator: Locator,
    old: Option<&Item>,
    new: Option<(Vec<u8>, Life)>,
) -> tessera_core::Result<()> {
    match (old, new) {
        (None, None) => Ok(()),
        (Some(old), None) => transaction.remove(container, old).await,
        (old, Some((body, life))) => {
            let mut item = NewItem::new(locator, body);
            item.expires_at_ms = life.expiry_ms();
            match old {
                Some(old) => transaction.replace(container, old, item).await?,
                None => transaction.upsert(container, item).await?,
            };
            Ok(())
        }
    }
}

/// Stores a body where the transaction has looked, or takes away what is there to see.
pub(super) async fn put(
    transaction: &mut Transaction,
    container: &Arc<Container>,
    locator: Locator,
    entry: &Entry,
    new: Option<(Vec<u8>, Life)>,
) -> tessera_core::Result<()> {
    match (entry.visible(), new) {
        (None, None) => Ok(()),
        (Some(old), None) => transaction.remove(container, old).await,
        (_, Some((body, life))) => {
            let mut item = NewItem::new(locator, body);
            item.expires_at_ms = life.expiry_ms();
            transaction.put(container, entry, item).await?;
            Ok(())
        }
    }
}

/// The body of a row, if anything is left of it.
pub(super) fn row_body(
    stored: &mut StoredRow,
    above: Deletion,
    grace: Grace,
) -> Option<(Vec<u8>, Life)> {
    match grace.prune(&mut stored.row, above) {
        Life::None => None,
        life => Some((stored.encode(), life)),
    }
}

/// Whether a deletion says to be of a later time than it was made at: it hides rows that were
/// written after it, which would be back without it.
fn is_ahead(deletion: Deletion) -> bool {
    deletion.timestamp > deletion.at.saturating_add(1).saturating_mul(1_000_000)
}

/// The body of a partition's record, if anything is left of it. `is_clean` tells that no row is
/// left which its deletions hide: else they must stay.
pub(super) fn record_body(
    record: &mut PartitionRecord,
    grace: Grace,
    is_clean: bool,
) -> Option<(Vec<u8>, Life)> {
    let mut life = grace.prune(&mut record.statics, record.deletion);
    let has_deletions = record.deletion != Deletion::NONE || !record.ranges.is_empty();
    let is_ahead = is_ahead(record.deletion)
        || record
            .ranges
            .iter()
            .any(|(_, deletion)| is_ahead(*deletion));
    if is_clean && !is_ahead {
        if grace.of_deletion(record.deletion) == Life::None {
            record.deletion = Deletion::NONE;
        }
        record
            .ranges
            .retain(|deletion| grace.of_deletion(deletion) != Life::None);
        life = life.max(grace.of_deletion(record.deletion));
        for (_, deletion) in record.ranges.iter() {
            life = life.max(grace.of_deletion(*deletion));
        }
    } else if has_deletions {
        life = Life::Forever;
    }
    match life {
        Life::None => None,
        life => Some((record.encode(), life)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Liveness;

    const GRACE: Grace = Grace {
        now: 1_000,
        seconds: 100,
    };

    #[test]
    fn rows_are_kept_as_long_as_they_say_something() {
        let live = Row::default().with(0, Content::Simple(Cell::live(5, &b"v"[..])));
        let expiring =
            Row::default().with(0, Content::Simple(Cell::expiring(5, &b"v"[..], 10, 1_000)));
        let gone = Row::default().with(0, Content::Simple(Cell::expiring(5, &b"v"[..], 10, 800)));
        let tombstone = Row::default().with(0, Content::Simple(Cell::deleted(5, 950)));
        let inserted = Row {
            liveness: Some(Liveness {
                timestamp: 5,
                ends: None,
            }),
            ..Row::default()
        };
        for (row, life) in [
            (live.clone(), Life::Forever),
            (expiring, Life::Until(1_110)),
            (gone, Life::None),
            (tombstone, Life::Until(1_050)),
            (inserted, Life::Forever),
            (Row::default(), Life::None),
        ] {
            assert_eq!(
                GRACE.prune(&mut row.clone(), Deletion::NONE),
                life,
                "{row:?}"
            );
        }
        let above = Deletion {
            timestamp: 5,
            at: 990,
        };
        let mut hidden = live;
        assert_eq!(GRACE.prune(&mut hidden, above), Life::None);
        assert_eq!(hidden, Row::default());
    }

    #[test]
    fn deletions_of_the_future_stay() {
        let life = |timestamp| {
            let mut record = PartitionRecord {
                deletion: Deletion {
                    timestamp,
                    at: 1_000,
                },
                ..PartitionRecord::default()
            };
            record_body(&mut record, GRACE, true).map(|(_, life)| life)
        };
        assert_eq!(life(1_000_500_000), Some(Life::Until(1_100)));
        assert_eq!(life(2_000_000_000), Some(Life::Forever));
    }
}
