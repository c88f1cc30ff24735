//! Conditional writes: what was there, whether that is as expected, and what is answered if not.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::transaction::Transaction;

use super::condition::met;
use super::evaluate::Evaluated;
use super::keys::{BEHIND_ROWS, RECORD_KEY, key_components, row_key};
use super::line::{Lens, Line, has_values, is_visible};
use super::partition::Partition;
use super::reader::{damaged, deletion_of, record_of};
use super::write::{Done, Rows as Written, Write};
use crate::error::{CqlError, Result};
use crate::plan::{ColumnCondition, Condition, Modification};
use crate::row::{PartitionRecord, StoredRow};
use crate::schema::ColumnKind;
use crate::types::{DataType, Native};
use crate::wire::{ColumnSpec, Metadata, Rows};

/// The values of a row as it was, by place of the column.
type Values = Vec<Option<Vec<u8>>>;

/// The rows that conditions looked at, and that are there.
#[derive(Default)]
pub(super) struct Found {
    /// By row key, and so in order; a row that several statements look at is one.
    rows: BTreeMap<Bytes, Values>,
    /// What the partition shares, if a condition or a change is of that.
    statics: Option<Values>,
    /// By place, the columns that were read.
    read: Vec<bool>,
}

impl Found {
    /// What conditional writes look at: static columns only if they change some, or those that
    /// conditions name.
    pub(super) fn of(writes: &[Write]) -> Self {
        let Some(table) = writes.first().map(Write::table) else {
            return Self::default();
        };
        let changes_statics = writes.iter().any(changes_statics);
        let mut read: Vec<bool> = table
            .columns
            .iter()
            .map(|column| changes_statics || column.kind != ColumnKind::Static)
            .collect();
        for write in writes {
            if let Condition::All(conditions) = &write.plan.condition {
                for condition in conditions {
                    if let Some(read) = read.get_mut(condition.column) {
                        *read = true;
                    }
                }
            }
        }
        Self {
            read,
            ..Self::default()
        }
    }

    fn values(&self, line: &Line<'_>) -> Values {
        let values = line.values.iter().zip(&self.read);
        let owned = |(value, is_read): (&Evaluated<'_>, &bool)| {
            let value = value.as_deref().filter(|_| *is_read);
            value.map(<[u8]>::to_vec)
        };
        values.map(owned).collect()
    }

    fn shown(&self) -> impl Iterator<Item = &Values> {
        let alone = self.statics.as_ref().filter(|_| self.rows.is_empty());
        self.rows.values().chain(alone)
    }

    /// If nothing but static columns was asked about, the first row of the partition stands for it.
    pub(super) async fn complete(
        &mut self,
        writes: &[Write],
        transaction: &mut Transaction,
    ) -> Done<()> {
        let mut conditional = writes
            .iter()
            .filter(|write| write.plan.condition.is_conditional());
        let Some(first) = conditional.next() else {
            return Ok(());
        };
        let is_shared = |write: &Write| matches!(write.rows, Written::Shared);
        if !is_shared(first) || !conditional.all(is_shared) {
            return Ok(());
        }
        let Some(clustering) = first_row(first, transaction).await? else {
            return Ok(());
        };
        let table = first.table();
        let keys = table.partition_key().count();
        let none = || vec![None; table.columns.len()];
        let mut values = self.statics.take().unwrap_or_else(none);
        if let Some((_, key)) = first.keys.first() {
            let components = key_components(key, keys);
            for (place, value) in values.iter_mut().zip(components) {
                *place = Some(value.to_vec());
            }
        }
        for (place, value) in values.iter_mut().skip(keys).zip(clustering) {
            *place = Some(value.to_vec());
        }
        self.statics = Some(values);
        Ok(())
    }
}

/// The clustering columns of the first row of a partition.
async fn first_row(write: &Write, transaction: &mut Transaction) -> Done<Option<Vec<Bytes>>> {
    let Some((token, key)) = write.keys.first() else {
        return Ok(None);
    };
    let container = write.open(transaction).await?;
    let place = Partition {
        write,
        container: &container,
        token: *token,
        key,
    };
    let (_, record) = place.record(transaction).await?;
    let span = Span::Rows {
        token: *token,
        partition_key: key.clone(),
        from: Bound::Included(row_key(&[])),
        to: Bound::Excluded(Bytes::from_static(BEHIND_ROWS)),
    };
    let mut request = PageRequest::default();
    loop {
        let page = transaction.scan(&container, &span, &request).await?;
        for item in &page.items {
            let stored = StoredRow::decode(&item.body).ok_or_else(damaged)?;
            let above = deletion_of(&record, item.locator.row_key.get(1..).unwrap_or_default());
            if is_visible(write.table(), &stored.row, above, write.stamp.now) {
                return Ok(Some(stored.clustering));
            }
        }
        request.continuation = page.continuation;
        if request.continuation.is_none() {
            return Ok(None);
        }
    }
}

/// Looks whether the condition of a write is met, and keeps what it finds.
pub(super) async fn check(
    write: &Write,
    transaction: &mut Transaction,
    found: &mut Found,
) -> Done<bool> {
    let container = write.open(transaction).await?;
    let table = write.plan.table();
    let Some((token, key)) = write.keys.first() else {
        return Ok(true);
    };
    let mut locators = vec![Locator::row(*token, key.clone(), RECORD_KEY)];
    if let Written::Each(rows) = &write.rows
        && let Some((_, row)) = rows.first()
    {
        locators.push(Locator::row(*token, key.clone(), row.clone()));
    }
    let items = transaction.read_many(&container, &locators).await?;
    for locator in &locators {
        // What is read decides, so nobody may change it meanwhile.
        transaction.guard(&container, locator).await?;
    }
    let mut items = items.into_iter();
    let record = items.next().flatten();
    let record = record
        .as_ref()
        .map(record_of)
        .transpose()?
        .unwrap_or_default();
    let row = items.next().flatten();
    let stored = match &row {
        Some(item) => Some(StoredRow::decode(&item.body).ok_or_else(damaged)?),
        None => None,
    };
    let needed = vec![true; table.columns.len()];
    let lens = Lens {
        table,
        needed: &needed,
        now: write.stamp.now,
    };
    let clustering = locators.get(1).and_then(|locator| locator.row_key.get(1..));
    let above = deletion_of(&record, clustering.unwrap_or_default());
    let line = stored
        .as_ref()
        .and_then(|stored| lens.row(key, stored, &record, above));
    if let (Some(line), Some(locator)) = (&line, locators.get(1)) {
        found
            .rows
            .insert(locator.row_key.clone(), found.values(line));
    }
    let has_row = line.is_some();
    let has_statics = has_values(
        write.table(),
        &record.statics,
        record.deletion,
        write.stamp.now,
    );
    let line = line.or_else(|| has_statics.then(|| lens.statics(key, &record)));
    if has_statics && looks_at_statics(write) {
        found.statics = line.as_ref().map(|line| found.values(line));
    }
    let exists = match write.rows {
        Written::Each(_) => has_row,
        _ => has_statics || partition_exists(write, transaction, &record).await?,
    };
    match &write.plan.condition {
        Condition::Always => Ok(true),
        Condition::NotExists => Ok(!exists),
        Condition::Exists => Ok(exists),
        Condition::All(conditions) => Ok(met(write, conditions, line.as_ref())?),
    }
}

/// Whether a statement changes static columns, or has a condition on one.
fn looks_at_statics(write: &Write) -> bool {
    let is_static = |condition: &ColumnCondition| {
        let column = write.table().columns.get(condition.column);
        column.is_some_and(|column| column.kind == ColumnKind::Static)
    };
    let asks = match &write.plan.condition {
        Condition::All(conditions) => conditions.iter().any(is_static),
        _ => false,
    };
    asks || changes_statics(write)
}

fn changes_statics(write: &Write) -> bool {
    write.changes_shared() || matches!(write.rows, Written::Shared)
}

/// Whether a partition has any row, for conditions on all of it.
async fn partition_exists(
    write: &Write,
    transaction: &mut Transaction,
    record: &PartitionRecord,
) -> Done<bool> {
    if matches!(write.rows, Written::Shared) {
        return Ok(false);
    }
    let container = write.open(transaction).await?;
    let Some((token, key)) = write.keys.first() else {
        return Ok(false);
    };
    let span = Span::Partition {
        token: *token,
        partition_key: key.clone(),
    };
    let request = PageRequest::default();
    let page = transaction.scan(&container, &span, &request).await?;
    let is_row = |item: &Item| {
        let clustering = item.locator.row_key.get(1..).unwrap_or_default();
        let stored = StoredRow::decode(&item.body);
        stored.is_some_and(|stored| {
            let above = deletion_of(record, clustering);
            is_visible(write.table(), &stored.row, above, write.stamp.now)
        })
    };
    Ok(page.items.iter().any(is_row))
}

/// The answer to conditional writes: whether they were made, and if not, the rows that were in the
/// way.
pub(super) fn answer(plans: &[&Modification], is_batch: bool, refused: Option<&Found>) -> Rows {
    let first = plans.first();
    let table = first.map(|plan| plan.table());
    let spec = |name: &str, data_type: DataType| ColumnSpec {
        keyspace: table.map_or(String::new(), |table| table.keyspace.clone()),
        table: table.map_or(String::new(), |table| table.name.clone()),
        name: name.to_owned(),
        data_type,
    };
    let mut columns = vec![spec("[applied]", Native::Boolean.into())];
    let shown = match refused {
        Some(found) if found.shown().next().is_some() => shown_columns(plans, is_batch),
        _ => Vec::new(),
    };
    if let Some(table) = table {
        let found = shown.iter().filter_map(|place| table.columns.get(*place));
        columns.extend(found.map(|column| spec(&column.name, column.data_type.clone())));
    }
    let mut rows = Rows::new(Metadata::of(Arc::from(columns)));
    let flag = [u8::from(refused.is_none())];
    if shown.is_empty() {
        rows.push([Some(&flag[..])]);
        return rows;
    }
    for values in refused.into_iter().flat_map(Found::shown) {
        let cells = shown
            .iter()
            .map(|place| values.get(*place).and_then(Option::as_deref));
        rows.push(std::iter::once(Some(&flag[..])).chain(cells));
    }
    rows
}

/// The columns of a row that was in the way: all of them if anything was asked about it as a whole,
/// or those that conditions name. A batch tells which row it is, too.
fn shown_columns(plans: &[&Modification], is_batch: bool) -> Vec<usize> {
    let Some(table) = plans.first().map(|plan| plan.table()) else {
        return Vec::new();
    };
    let mut shown: Vec<usize> = Vec::new();
    if is_batch {
        let keys = table.columns.iter().filter(|column| column.is_key());
        shown.extend(0..keys.count());
    }
    for plan in plans {
        match &plan.condition {
            Condition::All(conditions) => {
                for condition in conditions {
                    if !shown.contains(&condition.column) {
                        shown.push(condition.column);
                    }
                }
            }
            Condition::NotExists | Condition::Exists => return (0..table.columns.len()).collect(),
            Condition::Always => {}
        }
    }
    shown
}

/// Refuses conditions on one row that cannot be asked about together.
pub(super) fn check_together(writes: &[Write]) -> Result<()> {
    let mut kinds: BTreeMap<Option<&Bytes>, &Condition> = BTreeMap::new();
    for write in writes {
        let row = match &write.rows {
            Written::Each(rows) => rows.first().map(|(_, row)| row),
            _ => None,
        };
        let condition = &write.plan.condition;
        if !condition.is_conditional() {
            continue;
        }
        let words = match (kinds.get(&row), condition) {
            (Some(Condition::Exists), Condition::NotExists)
            | (Some(Condition::NotExists), Condition::Exists) => {
                "Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row"
            }
            (Some(Condition::All(_)), Condition::Exists) => {
                "Cannot mix IF conditions and IF EXISTS for the same row"
            }
            (Some(Condition::All(_)), Condition::NotExists)
            | (Some(Condition::Exists | Condition::NotExists), Condition::All(_)) => {
                "Cannot mix IF conditions and IF NOT EXISTS for the same row"
            }
            _ => {
                kinds.insert(row, condition);
                continue;
            }
        };
        return Err(CqlError::invalid(words));
    }
    Ok(())
}
