//! One change with its values: which rows it is of, and how a transaction makes it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Container;
use tessera_core::clock::Clock;
use tessera_core::hash::murmur3;
use tessera_core::locator::Locator;
use tessera_core::transaction::Transaction;

use super::change::{Stamp, Target};
use super::evaluate::{Given, Scope};
use super::indexed;
use super::keys::{RECORD_KEY, check_clustering, combinations, put_clustering, row_key};
use super::partition::Partition;
use super::settle::{record_body, store};
use crate::catalog::Place;
use crate::error::{CqlError, Result};
use crate::failure::Failure;
use crate::functions::json_columns;
use crate::plan::{ClusteringTest, Kind, Modification};
use crate::row::{KeyRange, Liveness, Row};
use crate::schema::{Column, ColumnKind, Table};

/// A write that is older than this may be older than a deletion.
const LATE_MICROS: i64 = 1_000_000;

pub(super) type Done<T> = std::result::Result<T, Failure>;

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
    Each(Vec<(Vec<Bytes>, Bytes)>),
    /// What all rows share.
    Shared,
    Ranges(Vec<KeyRange>),
    Everything,
}

impl Rows {
    /// How many rows or ranges they are in each partition.
    fn count(&self) -> usize {
        match self {
            Self::Each(rows) => rows.len(),
            Self::Ranges(ranges) => ranges.len(),
            Self::Shared | Self::Everything => 1,
        }
    }
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
            write.check_indexed_keys()?;
            return Ok(write);
        }
        let scope = write.scope();
        let keys = scope.partition_keys(plan.table(), &plan.partition)?;
        let rows = rows_of(plan, &scope)?;
        combinations(keys.len(), rows.count())?;
        write.keys = keys
            .into_iter()
            .map(|key| (murmur3::token(&key), key))
            .collect();
        write.rows = rows;
        write.check_indexed_keys()?;
        Ok(write)
    }

    /// Refuses keys that are too long for an index on them.
    fn check_indexed_keys(&self) -> Result<()> {
        if self.table().indexes.is_empty() || self.plan.kind == Kind::Delete {
            return Ok(());
        }
        for (_, key) in &self.keys {
            indexed::check_keys(self.table(), key, &[])?;
            let Rows::Each(rows) = &self.rows else {
                continue;
            };
            for (clustering, _) in rows {
                indexed::check_keys(self.table(), key, clustering)?;
            }
        }
        Ok(())
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

    pub(super) fn table(&self) -> &Table {
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
            clustering.push(value.into());
        }
        check_clustering(&clustering)?;
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

    /// The partitions that it changes.
    fn places<'w>(&'w self, container: &'w Arc<Container>) -> impl Iterator<Item = Partition<'w>> {
        self.keys.iter().map(move |(token, key)| Partition {
            write: self,
            container,
            token: *token,
            key,
        })
    }

    /// Makes the change.
    pub(super) async fn apply(&self, transaction: &mut Transaction) -> Done<Rest> {
        let container = self.open(transaction).await?;
        let mut rest = Rest::default();
        for place in self.places(&container) {
            match &self.rows {
                Rows::Each(rows) => {
                    for (clustering, row) in rows {
                        place.row(transaction, clustering, row).await?;
                    }
                }
                Rows::Shared => place.shared(transaction).await?,
                Rows::Ranges(ranges) => {
                    if !place.ranges(transaction, ranges).await? {
                        rest.unclean.push(place.key.clone());
                    }
                }
                Rows::Everything => {
                    if !place.everything(transaction).await? {
                        rest.unclean.push(place.key.clone());
                    }
                }
            }
        }
        Ok(rest)
    }

    /// Takes away what deletions hide of the rows that it has written.
    pub(super) async fn purge_hidden(&self, transaction: &mut Transaction) -> Done<()> {
        let container = self.open(transaction).await?;
        let Rows::Each(rows) = &self.rows else {
            return Ok(());
        };
        for place in self.places(&container) {
            for (_, row) in rows {
                place.purge_one(transaction, row).await?;
            }
        }
        Ok(())
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

    /// Whether it deletes rows that it does not name one by one.
    pub(super) fn deletes_many(&self) -> bool {
        matches!(self.rows, Rows::Ranges(_) | Rows::Everything)
    }

    /// Whether it is of rows that it names.
    pub(super) fn writes_rows(&self) -> bool {
        matches!(self.rows, Rows::Each(_))
    }

    /// Whether what deletes rows must be known to make this change.
    pub(super) fn needs_record(&self) -> bool {
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

    /// What the statement says of a row besides its columns.
    pub(super) fn new_row(&self) -> Row {
        let stamp = &self.stamp;
        let mut row = Row::default();
        if self.plan.deletes_all {
            row.deletion = stamp.deletion();
        } else if self.plan.kind == Kind::Insert {
            let ends = stamp.now.saturating_add(i64::from(stamp.time_to_live));
            row.liveness = Some(Liveness {
                timestamp: stamp.timestamp,
                ends: (stamp.time_to_live > 0).then_some(ends),
            });
        }
        row
    }

    /// Writes what the statement says of the static columns, or of the others.
    pub(super) fn change(&self, target: &mut Target<'_>, is_shared: bool) -> Result<()> {
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
        indexed::check_row(self.table(), &target.written)
    }

    pub(super) fn changes_shared(&self) -> bool {
        self.plan
            .changes
            .iter()
            .any(|change| self.is_shared(change.column))
            || self.json.iter().any(|(place, _)| self.is_shared(*place))
    }

    pub(super) fn changes_rows(&self) -> bool {
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

pub(super) fn whole() -> KeyRange {
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
    let mut rows: Vec<(Vec<Bytes>, Vec<u8>)> = vec![(Vec::new(), Vec::new())];
    for step in &plan.clustering {
        let here = columns
            .get(step.start..step.start + step.count)
            .unwrap_or_default();
        let tuples: Vec<Vec<Cow<'_, [u8]>>> = scope.tuples(&step.test, here)?;
        let mut longer = Vec::with_capacity(combinations(rows.len(), tuples.len())?);
        for (values, encoded) in &rows {
            for tuple in &tuples {
                let (mut values, mut encoded) = (values.clone(), encoded.clone());
                for (value, column) in tuple.iter().zip(here) {
                    put_clustering(&mut encoded, column, value);
                    values.push(Bytes::copy_from_slice(value));
                }
                longer.push((values, encoded));
            }
        }
        rows = longer;
    }
    for (values, _) in &rows {
        check_clustering(values)?;
    }
    let each = rows
        .into_iter()
        .map(|(values, encoded)| (values, row_key(&encoded)));
    Ok(Rows::Each(each.collect()))
}
