//! One partition that is being written: its rows, what they share, and what deletes them.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Container;
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::transaction::Transaction;

use super::change::Target;
use super::keys::{BEHIND_ROWS, RECORD_KEY, row_key};
use super::reader::{damaged, deletion_of, record_of};
use super::settle::{Grace, put, record_body, row_body, store};
use super::views::Views;
use super::write::{Done, Write, whole};
use crate::row::{Deletion, KeyRange, PartitionRecord, Ranges, Row, StoredRow};

/// Rows that a deletion takes away in the transaction that makes it; more follow in others.
const PURGED_AT_ONCE: usize = 1_000;

/// A partition that is being written.
pub(super) struct Partition<'w> {
    pub(super) write: &'w Write,
    pub(super) container: &'w Arc<Container>,
    pub(super) token: i64,
    pub(super) key: &'w Bytes,
}

impl Partition<'_> {
    pub(super) fn grace(&self) -> Grace {
        Grace::of(self.write.table(), self.write.stamp.now)
    }

    pub(super) fn locator(&self, row: impl Into<Bytes>) -> Locator {
        Locator::row(self.token, self.key.clone(), row)
    }

    pub(super) async fn record(
        &self,
        transaction: &mut Transaction,
    ) -> Done<(Option<Item>, PartitionRecord)> {
        let locator = self.locator(RECORD_KEY);
        let item = transaction.read(self.container, &locator).await?;
        let record = item
            .as_ref()
            .map(record_of)
            .transpose()?
            .unwrap_or_default();
        Ok((item, record))
    }

    /// Changes one row, and the static columns that the statement names besides.
    pub(super) async fn row(
        &self,
        transaction: &mut Transaction,
        clustering: &[Bytes],
        row: &Bytes,
    ) -> Done<()> {
        let write = self.write;
        if write.changes_shared() {
            self.shared(transaction).await?;
        }
        if !write.changes_rows() {
            return Ok(());
        }
        let record = if write.needs_record() {
            self.record(transaction).await?.1
        } else {
            PartitionRecord::default()
        };
        if !write.plan.views.is_empty() {
            // A deletion of the partition must not pass between what is read here and its views.
            let record = self.locator(RECORD_KEY);
            transaction.guard(self.container, &record).await?;
        }
        let above = deletion_of(&record, row.get(1..).unwrap_or_default());
        let locator = self.locator(row.clone());
        let entry = transaction.look(self.container, &locator).await?;
        let old = match entry.visible() {
            Some(item) => Some(StoredRow::decode(&item.body).ok_or_else(damaged)?),
            None => None,
        };
        let deletion = above.max(old.as_ref().map_or(Deletion::NONE, |old| old.row.deletion));
        let before = old.as_ref().map(|old| &old.row);
        let mut target = Target::new(before, deletion, write.stamp, write.new_row());
        write.change(&mut target, false)?;
        let written = target.written;
        // What was there is of interest to views alone.
        let left = old.as_ref().filter(|_| !write.plan.views.is_empty());
        let left = left.cloned();
        let mut new = match old {
            Some(old) => StoredRow {
                clustering: old.clustering,
                row: old.row.merge(written),
            },
            None => StoredRow {
                clustering: clustering.to_vec(),
                row: written,
            },
        };
        let body = row_body(&mut new, above, self.grace());
        let new = body.as_ref().map(|_| &new);
        self.views()
            .follow(transaction, self.key, (left.as_ref(), above), (new, above))
            .await?;
        put(transaction, self.container, locator, &entry, body).await?;
        Ok(())
    }

    fn views(&self) -> Views<'_> {
        Views {
            base: self.write.table(),
            views: &self.write.plan.views,
            now: self.write.stamp.now,
        }
    }

    /// Changes what all rows share.
    pub(super) async fn shared(&self, transaction: &mut Transaction) -> Done<()> {
        let (item, mut record) = self.record(transaction).await?;
        let (before, deletion) = (Some(&record.statics), record.deletion);
        let mut target = Target::new(before, deletion, self.write.stamp, Row::default());
        self.write.change(&mut target, true)?;
        let written = target.written;
        record.statics = std::mem::take(&mut record.statics).merge(written);
        let has_deletions = record.deletion != Deletion::NONE || !record.ranges.is_empty();
        // A record that ends was clean when its end was set.
        let is_clean = !has_deletions
            || item
                .as_ref()
                .is_some_and(|item| item.expires_at_ms.is_some());
        let body = record_body(&mut record, self.grace(), is_clean);
        let locator = self.locator(RECORD_KEY);
        store(transaction, self.container, locator, item.as_ref(), body).await?;
        Ok(())
    }

    /// Deletes ranges of rows; answers whether none of them is left.
    pub(super) async fn ranges(
        &self,
        transaction: &mut Transaction,
        ranges: &[KeyRange],
    ) -> Done<bool> {
        let (item, before) = self.record(transaction).await?;
        let mut record = before.clone();
        for range in ranges {
            let deleted = Ranges::of(range.clone(), self.write.stamp.deletion());
            record.ranges = std::mem::take(&mut record.ranges).merge(deleted);
        }
        let mut is_clean = true;
        for range in ranges {
            is_clean &= self
                .purge_from(transaction, &before, &record, range)
                .await?;
        }
        let body = record_body(&mut record, self.grace(), is_clean);
        let locator = self.locator(RECORD_KEY);
        store(transaction, self.container, locator, item.as_ref(), body).await?;
        Ok(is_clean)
    }

    /// Deletes the partition; answers whether no row of it is left.
    pub(super) async fn everything(&self, transaction: &mut Transaction) -> Done<bool> {
        let (item, before) = self.record(transaction).await?;
        let mut record = before.clone();
        record.deletion = record.deletion.max(self.write.stamp.deletion());
        let is_clean = self
            .purge_from(transaction, &before, &record, &whole())
            .await?;
        let body = record_body(&mut record, self.grace(), is_clean);
        let locator = self.locator(RECORD_KEY);
        store(transaction, self.container, locator, item.as_ref(), body).await?;
        Ok(is_clean)
    }

    pub(super) async fn purge(
        &self,
        transaction: &mut Transaction,
        record: &PartitionRecord,
        range: &KeyRange,
    ) -> Done<bool> {
        self.purge_from(transaction, record, record, range).await
    }

    /// Takes away what the record hides of a row.
    pub(super) async fn purge_one(&self, transaction: &mut Transaction, row: &Bytes) -> Done<()> {
        let (_, record) = self.record(transaction).await?;
        let locator = self.locator(row.clone());
        if let Some(item) = transaction.read(self.container, &locator).await? {
            self.purge_row(transaction, &record, &record, &item).await?;
        }
        Ok(())
    }

    /// Takes away what a record hides of the rows in a range; answers whether all was looked at.
    /// Views must follow at once, so with views everything is.
    async fn purge_from(
        &self,
        transaction: &mut Transaction,
        before: &PartitionRecord,
        record: &PartitionRecord,
        range: &KeyRange,
    ) -> Done<bool> {
        let span = Span::Rows {
            token: self.token,
            partition_key: self.key.clone(),
            from: Bound::Included(row_key(&range.start)),
            to: match &range.end {
                Some(end) => Bound::Excluded(row_key(end)),
                None => Bound::Excluded(Bytes::from_static(BEHIND_ROWS)),
            },
        };
        let mut continuation = None;
        let mut changed = 0;
        loop {
            let request = PageRequest {
                continuation: continuation.take(),
                ..PageRequest::default()
            };
            let page = transaction.scan(self.container, &span, &request).await?;
            for item in &page.items {
                changed += usize::from(self.purge_row(transaction, before, record, item).await?);
            }
            match page.continuation {
                None => return Ok(true),
                Some(_) if changed >= PURGED_AT_ONCE && self.write.plan.views.is_empty() => {
                    return Ok(false);
                }
                next => continuation = next,
            }
        }
    }

    async fn purge_row(
        &self,
        transaction: &mut Transaction,
        before: &PartitionRecord,
        record: &PartitionRecord,
        item: &Item,
    ) -> Done<bool> {
        let clustering = item.locator.row_key.get(1..).unwrap_or_default();
        let (was, above) = (
            deletion_of(before, clustering),
            deletion_of(record, clustering),
        );
        let old = StoredRow::decode(&item.body).ok_or_else(damaged)?;
        let mut new = old.clone();
        let body = row_body(&mut new, above, self.grace());
        if body.is_some() && new == old {
            return Ok(false);
        }
        let new = body.as_ref().map(|_| &new);
        self.views()
            .follow(transaction, self.key, (Some(&old), was), (new, above))
            .await?;
        let locator = item.locator.clone();
        store(transaction, self.container, locator, Some(item), body).await?;
        Ok(true)
    }
}
