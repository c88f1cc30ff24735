//! One change with its values: which rows it is of, and how a transaction makes it.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Container;
use tessera_core::clock::Clock;
use tessera_core::hash::murmur3;
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::transaction::Transaction;

use super::change::{Stamp, Target};
use super::evaluate::{Given, Scope};
use super::keys::{BEHIND_ROWS, RECORD_KEY, put_clustering, row_key};
use super::reader::{damaged, deletion_of, record_of};
use super::settle::{Grace, record_body, row_body, store};
use super::views::Views;
use crate::catalog::Place;
use crate::error::{CqlError, Result};
use crate::failure::Failure;
use crate::functions::json_columns;
use crate::plan::{Choice, ClusteringTest, Kind, Modification};
use crate::row::{Deletion, KeyRange, Liveness, PartitionRecord, Ranges, Row, StoredRow};
use crate::schema::{Column, ColumnKind, Table};

/// Rows that a deletion takes away in the transaction that makes it; more follow in others.
const PURGED_AT_ONCE: usize = 1_000;
/// A write that is older than this may be older than a deletion.
const LATE_MICROS: i64 = 1_000_000;

type Done<T> = std::result::Result<T, Failure>;

/// A change, with everything it needs to run again after a conflict.
pub(super) struct Write {
    pub(super) plan: Arc<Modification>,
    pub(super) given: Vec<Given<'static>>,
    pub(super) stamp: Stamp,
    pub(super) clock: Clock,
    pub(super) keys: Vec<(i64, Bytes)>,
    pub(super) rows: Rows,
    /// The values of INSERT JSON, by place of the column.
    json: Vec<(usize, Option<Vec<u8>>)>,
    /// Whether the time of the write is not the server's own.
    is_timed: bool,
}

/// What of the partitions changes.
pub(super) enum Rows {
    /// Rows by the values of their clustering columns, and their row keys.
    Each(Vec<(Vec<Vec<u8>>, Bytes)>),
    /// What all rows share.
    Shared,
    Ranges(Vec<KeyRange>),
    Everything,
}

/// What a write left to do.
#[derive(Default)]
pub(super) struct Rest {
    /// Partitions in which deleted rows are left.
    pub(super) unclean: Vec<Bytes>,
}

impl Write {
    pub(super) fn new(
        plan: &Arc<Modification>,
        given: Vec<Given<'static>>,
        stamp: Stamp,
        clock: &Clock,
        is_timed: bool,
    ) -> Result<Self> {
        let mut write = Self {
            plan: Arc::clone(plan),
            given,
            stamp,
            clock: clock.clone(),
            keys: Vec::new(),
            rows: Rows::Shared,
            json: Vec::new(),
            is_timed,
        };
        if let Some((text, default_unset)) = &plan.json {
            let text = {
                let scope = write.scope();
                let value = scope.evaluate(text)?;
                let value =
                    value.ok_or_else(|| CqlError::invalid("Got null for INSERT JSON values"))?;
                String::from_utf8_lossy(&value).into_owned()
            };
            write.set_json(&text, *default_unset)?;
            return Ok(write);
        }
        let scope = write.scope();
        let keys = scope.partition_keys(plan.table(), &plan.partition)?;
        let rows = rows_of(plan, &scope)?;
        write.keys = keys
            .into_iter()
            .map(|key| (murmur3::token(&key), key))
            .collect();
        write.rows = rows;
        Ok(write)
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            table: self.plan.table(),
            given: &self.given,
            clock: &self.clock,
            now: self.stamp.now,
            line: None,
            aggregates: &[],
        }
    }

    fn table(&self) -> &Table {
        self.plan.table()
    }

    fn set_json(&mut self, text: &str, default_unset: bool) -> Result<()> {
        let plan = Arc::clone(&self.plan);
        let table = plan.table();
        let type_of = |name: &str| table.column(name).map(|column| &column.data_type);
        let mut values = json_columns(text, type_of)?;
        let mut take = |column: &Column| {
            let place = values.iter().position(|(name, _)| *name == column.name);
            place.map(|place| values.swap_remove(place).1)
        };
        let missing = |column: &Column| {
            CqlError::invalid(format!(
                "Invalid null value in condition for column {}",
                column.name
            ))
        };
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for column in table.partition_key() {
            keys.push(take(column).flatten().ok_or_else(|| missing(column))?);
        }
        let key = super::keys::check_key(&keys)?;
        let mut clustering = Vec::new();
        let mut encoded = Vec::new();
        for column in table.clustering() {
            let value = take(column).flatten().ok_or_else(|| missing(column))?;
            put_clustering(&mut encoded, column, &value);
            clustering.push(value);
        }
        for (place, column) in table.columns.iter().enumerate() {
            if column.is_key() {
                continue;
            }
            match take(column) {
                Some(value) => self.json.push((place, value)),
                None if !default_unset => self.json.push((place, None)),
                None => {}
            }
        }
        self.keys = vec![(murmur3::token(&key), key)];
        self.rows = Rows::Each(vec![(clustering, row_key(&encoded))]);
        Ok(())
    }

    /// The items that it is known to change: their writers wait for each other.
    pub(super) fn locators(&self) -> Vec<Locator> {
        let mut locators = Vec::new();
        for (token, key) in &self.keys {
            match &self.rows {
                Rows::Each(rows) => locators.extend(
                    rows.iter()
                        .map(|(_, row)| Locator::row(*token, key.clone(), row.clone())),
                ),
                Rows::Shared | Rows::Ranges(_) | Rows::Everything => {
                    locators.push(Locator::row(*token, key.clone(), RECORD_KEY));
                }
            }
        }
        locators
    }

    /// The container that it writes to, which must be what the plan was made for.
    pub(super) async fn open(&self, transaction: &mut Transaction) -> Done<Arc<Container>> {
        open(transaction, &self.plan.relation).await
    }

    /// Makes the change.
    pub(super) async fn apply(&self, transaction: &mut Transaction) -> Done<Rest> {
        let container = self.open(transaction).await?;
        let mut rest = Rest::default();
        for (token, key) in &self.keys {
            let place = Partition {
                write: self,
                container: &container,
                token: *token,
                key,
            };
            match &self.rows {
                Rows::Each(rows) => {
                    for (clustering, row) in rows {
                        place.row(transaction, clustering, row).await?;
                    }
                }
                Rows::Shared => place.shared(transaction).await?,
                Rows::Ranges(ranges) => {
                    if !place.ranges(transaction, ranges).await? {
                        rest.unclean.push(key.clone());
                    }
                }
                Rows::Everything => {
                    if !place.everything(transaction).await? {
                        rest.unclean.push(key.clone());
                    }
                }
            }
        }
        Ok(rest)
    }

    /// Takes away more rows that its deletions hide; answers whether none is left.
    pub(super) async fn purge_more(
        &self,
        transaction: &mut Transaction,
        key: &Bytes,
    ) -> Done<bool> {
        let container = self.open(transaction).await?;
        let place = Partition {
            write: self,
            container: &container,
            token: murmur3::token(key),
            key,
        };
        let (item, mut record) = place.record(transaction).await?;
        let is_clean = place.purge(transaction, &record, &whole()).await?;
        if is_clean {
            let body = record_body(&mut record, place.grace(), true);
            store(
                transaction,
                &container,
                place.locator(RECORD_KEY),
                item.as_ref(),
                body,
            )
            .await?;
        }
        Ok(is_clean)
    }

    /// Whether what deletes rows must be known to make this change.
    fn needs_record(&self) -> bool {
        let now_micros = self.stamp.now.saturating_mul(1_000_000);
        let table = self.table();
        !self.plan.views.is_empty()
            || table.is_counter()
            || table
                .columns
                .iter()
                .any(|column| column.data_type.is_multi_cell())
            || (self.is_timed && self.stamp.timestamp < now_micros.saturating_sub(LATE_MICROS))
    }

    /// Whether a change is of a column that all rows share.
    fn is_shared(&self, place: usize) -> bool {
        let column = self.table().columns.get(place);
        column.is_some_and(|column| column.kind == ColumnKind::Static)
    }

    /// Writes what the statement says of the static columns, or of the others.
    fn change(&self, target: &mut Target<'_>, is_shared: bool) -> Result<()> {
        let scope = self.scope();
        for change in &self.plan.changes {
            if let Some(column) = self.table().columns.get(change.column)
                && self.is_shared(change.column) == is_shared
            {
                target.change(&scope, column, change)?;
            }
        }
        for (place, value) in &self.json {
            if let Some(column) = self.table().columns.get(*place)
                && self.is_shared(*place) == is_shared
            {
                target.set(column, value.as_deref())?;
            }
        }
        Ok(())
    }

    fn changes_shared(&self) -> bool {
        self.plan
            .changes
            .iter()
            .any(|change| self.is_shared(change.column))
            || self.json.iter().any(|(place, _)| self.is_shared(*place))
    }

    fn changes_rows(&self) -> bool {
        self.plan.kind == Kind::Insert
            || self.plan.deletes_all
            || self
                .plan
                .changes
                .iter()
                .any(|change| !self.is_shared(change.column))
    }
}

/// Opens the container of a table, which must have the definition that a plan was made for.
pub(super) async fn open(
    transaction: &mut Transaction,
    relation: &crate::catalog::Relation,
) -> Done<Arc<Container>> {
    let Place::Stored { name, .. } = &relation.place else {
        return Err(Failure::Stale);
    };
    let container = transaction.container(name).await?;
    if relation.is_in_force(&container) {
        Ok(container)
    } else {
        Err(Failure::Stale)
    }
}

fn whole() -> KeyRange {
    KeyRange {
        start: Vec::new(),
        end: None,
    }
}

/// The rows of a statement.
fn rows_of(plan: &Modification, scope: &Scope<'_>) -> Result<Rows> {
    let table = plan.table();
    let columns: Vec<&Column> = table.clustering().collect();
    if plan.is_static {
        return Ok(Rows::Shared);
    }
    let is_slice = plan
        .clustering
        .iter()
        .any(|step| matches!(step.test, ClusteringTest::Slice { .. }));
    let covered: usize = plan.clustering.iter().map(|step| step.count).sum();
    if is_slice || covered < columns.len() {
        if plan.clustering.is_empty() {
            return Ok(Rows::Everything);
        }
        let scope = Scope { ..*scope };
        return Ok(Rows::Ranges(scope.ranges(table, &plan.clustering)?));
    }
    let mut rows: Vec<(Vec<Vec<u8>>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
    for step in &plan.clustering {
        let here = columns
            .get(step.start..step.start + step.count)
            .unwrap_or_default();
        let tuples: Vec<Vec<Cow<'_, [u8]>>> = scope.tuples(&step.test, here)?;
        let mut longer = Vec::with_capacity(rows.len() * tuples.len());
        for (values, encoded) in &rows {
            for tuple in &tuples {
                let (mut values, mut encoded) = (values.clone(), encoded.clone());
                for (value, column) in tuple.iter().zip(here) {
                    put_clustering(&mut encoded, column, value);
                    values.push(value.to_vec());
                }
                longer.push((values, encoded));
            }
        }
        rows = longer;
    }
    let each = rows
        .into_iter()
        .map(|(values, encoded)| (values, row_key(&encoded)));
    Ok(Rows::Each(each.collect()))
}

/// Whether a choice is of one value.
pub(super) fn is_one(choice: &Choice) -> bool {
    matches!(choice, Choice::One(_))
}

/// A partition that is being written.
struct Partition<'w> {
    write: &'w Write,
    container: &'w Arc<Container>,
    token: i64,
    key: &'w Bytes,
}

impl Partition<'_> {
    fn grace(&self) -> Grace {
        Grace::of(self.write.table(), self.write.stamp.now)
    }

    fn locator(&self, row: impl Into<Bytes>) -> Locator {
        Locator::row(self.token, self.key.clone(), row)
    }

    async fn record(&self, transaction: &mut Transaction) -> Done<(Option<Item>, PartitionRecord)> {
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
    async fn row(
        &self,
        transaction: &mut Transaction,
        clustering: &[Vec<u8>],
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
        let above = deletion_of(&record, row.get(1..).unwrap_or_default());
        let locator = self.locator(row.clone());
        let item = transaction.read(self.container, &locator).await?;
        let old = match &item {
            Some(item) => Some(StoredRow::decode(&item.body).ok_or_else(damaged)?),
            None => None,
        };
        let mut target = Target {
            before: old.as_ref().map(|old| &old.row),
            deletion: above.max(old.as_ref().map_or(Deletion::NONE, |old| old.row.deletion)),
            stamp: write.stamp,
            written: self.new_row(),
        };
        write.change(&mut target, false)?;
        let written = target.written;
        let mut new = match &old {
            Some(old) => StoredRow {
                clustering: old.clustering.clone(),
                row: old.row.clone().merge(written),
            },
            None => StoredRow {
                clustering: clustering.to_vec(),
                row: written,
            },
        };
        let body = row_body(&mut new, above, self.grace());
        let new = body.as_ref().map(|_| &new);
        self.views()
            .follow(transaction, self.key, (old.as_ref(), above), (new, above))
            .await?;
        store(transaction, self.container, locator, item.as_ref(), body).await?;
        Ok(())
    }

    fn views(&self) -> Views<'_> {
        Views {
            base: self.write.table(),
            views: &self.write.plan.views,
            now: self.write.stamp.now,
        }
    }

    /// What the statement says of a row besides its columns.
    fn new_row(&self) -> Row {
        let stamp = &self.write.stamp;
        let mut row = Row::default();
        if self.write.plan.deletes_all {
            row.deletion = stamp.deletion();
        } else if self.write.plan.kind == Kind::Insert {
            let ends = stamp.now.saturating_add(i64::from(stamp.time_to_live));
            row.liveness = Some(Liveness {
                timestamp: stamp.timestamp,
                ends: (stamp.time_to_live > 0).then_some(ends),
            });
        }
        row
    }

    /// Changes what all rows share.
    async fn shared(&self, transaction: &mut Transaction) -> Done<()> {
        let (item, mut record) = self.record(transaction).await?;
        let mut target = Target {
            before: Some(&record.statics),
            deletion: record.deletion,
            stamp: self.write.stamp,
            written: Row::default(),
        };
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
    async fn ranges(&self, transaction: &mut Transaction, ranges: &[KeyRange]) -> Done<bool> {
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
    async fn everything(&self, transaction: &mut Transaction) -> Done<bool> {
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

    async fn purge(
        &self,
        transaction: &mut Transaction,
        record: &PartitionRecord,
        range: &KeyRange,
    ) -> Done<bool> {
        self.purge_from(transaction, record, record, range).await
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
