//! IF: whether a row is what a statement expects, and what is answered if it is not.

use std::sync::Arc;

use tessera_core::locator::Locator;
use tessera_core::transaction::Transaction;

use super::evaluate::{Evaluated, Scope};
use super::filter::{contains, entry, is_so};
use super::keys::RECORD_KEY;
use super::line::{Lens, Line, has_values};
use super::reader::{damaged, deletion_of, record_of};
use super::write::{Rows as Written, Write};
use crate::error::{CqlError, Result};
use crate::failure::Failure;
use crate::plan::{
    Choice, ColumnCondition, Condition, ConditionPart, ConditionTest, Expression, Modification,
};
use crate::row::{PartitionRecord, StoredRow};
use crate::schema::Column;
use crate::statement::Comparator;
use crate::types::{DataType, Native, compare, list_elements, tuple_components};
use crate::wire::{ColumnSpec, Metadata, Rows};

/// The values of a row as it was, by place of the column; none if there was none.
pub(super) type Before = Option<Vec<Option<Vec<u8>>>>;

/// What a condition found.
pub(super) struct Checked {
    pub(super) is_met: bool,
    pub(super) before: Before,
}

/// Looks whether the condition of a write is met.
pub(super) async fn check(
    write: &Write,
    transaction: &mut Transaction,
) -> std::result::Result<Checked, Failure> {
    let container = write.open(transaction).await?;
    let table = write.plan.table();
    let Some((token, key)) = write.keys.first() else {
        return Ok(Checked {
            is_met: true,
            before: None,
        });
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
    let has_row = line.is_some();
    let has_statics = has_values(&record.statics, record.deletion, write.stamp.now);
    let line = line.or_else(|| has_statics.then(|| lens.statics(key, &record)));
    let exists = match write.rows {
        Written::Each(_) => has_row,
        _ => has_statics || partition_exists(write, transaction, &record).await?,
    };
    let is_met = match &write.plan.condition {
        Condition::Always => true,
        Condition::NotExists => !exists,
        Condition::Exists => exists,
        Condition::All(conditions) => met(write, conditions, line.as_ref())?,
    };
    let shows = has_row || (has_statics && !matches!(write.plan.condition, Condition::NotExists));
    let before = line.filter(|_| shows || exists).map(|line| {
        let owned = |value: &Evaluated<'_>| value.as_deref().map(<[u8]>::to_vec);
        line.values.iter().map(owned).collect()
    });
    Ok(Checked { is_met, before })
}

/// Whether a partition has any row, for conditions on all of it.
async fn partition_exists(
    write: &Write,
    transaction: &mut Transaction,
    record: &PartitionRecord,
) -> std::result::Result<bool, Failure> {
    if matches!(write.rows, Written::Shared) {
        return Ok(false);
    }
    let container = write.open(transaction).await?;
    let Some((token, key)) = write.keys.first() else {
        return Ok(false);
    };
    let span = tessera_core::reading::Span::Partition {
        token: *token,
        partition_key: key.clone(),
    };
    let request = tessera_core::reading::PageRequest::default();
    let page = transaction.scan(&container, &span, &request).await?;
    let is_row = |item: &tessera_core::item::Item| {
        let clustering = item.locator.row_key.get(1..).unwrap_or_default();
        let stored = StoredRow::decode(&item.body);
        stored.is_some_and(|stored| {
            super::line::is_visible(
                &stored.row,
                deletion_of(record, clustering),
                write.stamp.now,
            )
        })
    };
    Ok(page.items.iter().any(is_row))
}

fn met(write: &Write, conditions: &[ColumnCondition], line: Option<&Line<'_>>) -> Result<bool> {
    let table = write.plan.table();
    let scope = Scope {
        table,
        given: &write.given,
        clock: &write.clock,
        now: write.stamp.now,
        line: None,
        aggregates: &[],
    };
    for condition in conditions {
        let Some(column) = table.columns.get(condition.column) else {
            return Ok(false);
        };
        let value = line.and_then(|line| line.values.get(condition.column)?.as_deref());
        if !scope.meets(column, condition, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn no_null(comparator: &str) -> CqlError {
    CqlError::invalid(format!(
        "Invalid comparison with null for operator \"{comparator}\""
    ))
}

impl<'a> Scope<'a> {
    fn meets(
        &self,
        column: &Column,
        condition: &'a ColumnCondition,
        value: Option<&[u8]>,
    ) -> Result<bool> {
        let (data_type, part) = self.part(column, condition, value)?;
        let value = part.as_deref();
        match &condition.test {
            ConditionTest::Compare(comparator, wanted) => {
                if self.is_unset(wanted) {
                    return Err(CqlError::invalid("Invalid 'unset' value in condition"));
                }
                let wanted = self.evaluate(wanted)?;
                // A collection of cells that is empty is null.
                let wanted =
                    wanted.filter(|wanted| !is_empty_collection(&data_type, wanted, column));
                compared(&data_type, *comparator, value, wanted.as_deref())
            }
            ConditionTest::In(choice) => {
                let wanted = self.wanted(choice)?;
                Ok(wanted.iter().any(|wanted| match (value, wanted) {
                    (Some(value), Some(wanted)) => compare(&data_type, value, wanted).is_eq(),
                    (None, None) => true,
                    _ => false,
                }))
            }
            ConditionTest::Contains(wanted) => match (value, self.evaluate(wanted)?) {
                (_, None) => Err(no_null("CONTAINS")),
                (None, _) => Ok(false),
                (Some(value), Some(wanted)) => contains(&data_type, value, &wanted),
            },
            ConditionTest::ContainsKey(wanted) => match (value, self.evaluate(wanted)?) {
                (_, None) => Err(no_null("CONTAINS KEY")),
                (None, _) => Ok(false),
                (Some(value), Some(wanted)) => Ok(entry(&data_type, value, &wanted)?.is_some()),
            },
        }
    }

    /// The column or the part of it that a condition is about.
    fn part(
        &self,
        column: &Column,
        condition: &'a ColumnCondition,
        value: Option<&[u8]>,
    ) -> Result<(DataType, Option<Vec<u8>>)> {
        let data_type = &column.data_type;
        match &condition.part {
            None => Ok((data_type.clone(), value.map(<[u8]>::to_vec))),
            Some(ConditionPart::Field(place)) => {
                let inner = data_type
                    .inner()
                    .get(*place)
                    .map_or_else(|| DataType::Native(Native::Blob), |inner| (*inner).clone());
                let field = match value {
                    Some(value) => {
                        let fields = tuple_components(value, data_type)?;
                        fields.get(*place).copied().flatten().map(<[u8]>::to_vec)
                    }
                    None => None,
                };
                Ok((inner, field))
            }
            Some(ConditionPart::Element(key)) => {
                let what = match data_type {
                    DataType::List { .. } => "list index",
                    _ => "map key",
                };
                let key = self.evaluate(key)?.ok_or_else(|| {
                    CqlError::invalid(format!("Invalid null value for {what} access"))
                })?;
                self.element_part(data_type, &key, value)
            }
        }
    }

    fn element_part(
        &self,
        data_type: &DataType,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(DataType, Option<Vec<u8>>)> {
        match data_type {
            DataType::List { element, .. } => {
                let index = key.try_into().map_or(-1, i32::from_be_bytes);
                let Ok(index) = usize::try_from(index) else {
                    return Err(CqlError::invalid(format!(
                        "Invalid negative list index {index}"
                    )));
                };
                let found = match value {
                    Some(value) => {
                        let elements = list_elements(value, "list")?;
                        elements.get(index).map(|element| element.to_vec())
                    }
                    None => None,
                };
                Ok(((**element).clone(), found))
            }
            DataType::Map { value: inner, .. } => {
                let found = match value {
                    Some(value) => entry(data_type, value, key)?.map(<[u8]>::to_vec),
                    None => None,
                };
                Ok(((**inner).clone(), found))
            }
            other => Ok((other.clone(), None)),
        }
    }

    /// The values of IN, of which some may be null.
    fn wanted(&self, choice: &'a Choice) -> Result<Vec<Evaluated<'a>>> {
        let one = |expression: &'a Expression| {
            if self.is_unset(expression) {
                return Err(CqlError::invalid("Invalid 'unset' value in condition"));
            }
            self.evaluate(expression)
        };
        match choice {
            Choice::One(expression) => Ok(vec![one(expression)?]),
            Choice::Many(expressions) => expressions.iter().map(one).collect(),
            Choice::List(list) => {
                let list = one(list)?
                    .ok_or_else(|| CqlError::invalid("Invalid null list in IN condition"))?;
                let elements = list_elements(&list, "list")?.into_iter();
                Ok(elements
                    .map(|element| Some(std::borrow::Cow::Owned(element.to_vec())))
                    .collect())
            }
        }
    }
}

fn is_empty_collection(data_type: &DataType, value: &[u8], column: &Column) -> bool {
    data_type.is_collection() && column.data_type.is_multi_cell() && value == [0, 0, 0, 0]
}

fn compared(
    data_type: &DataType,
    comparator: Comparator,
    value: Option<&[u8]>,
    wanted: Option<&[u8]>,
) -> Result<bool> {
    match (value, wanted) {
        (Some(value), Some(wanted)) => Ok(is_so(comparator, compare(data_type, value, wanted))),
        (value, None) => match comparator {
            Comparator::Equal => Ok(value.is_none()),
            Comparator::NotEqual => Ok(value.is_some()),
            other => Err(no_null(other.symbol())),
        },
        (None, Some(_)) => Ok(comparator == Comparator::NotEqual),
    }
}

/// The answer to conditional writes: whether they were made, and if not, the rows that were in the
/// way.
pub(super) fn answer(plans: &[&Modification], is_applied: bool, before: &[Before]) -> Rows {
    let first = plans.first();
    let table = first.map(|plan| plan.table());
    let spec = |name: &str, data_type: DataType| ColumnSpec {
        keyspace: table.map_or(String::new(), |table| table.keyspace.clone()),
        table: table.map_or(String::new(), |table| table.name.clone()),
        name: name.to_owned(),
        data_type,
    };
    let mut columns = vec![spec("[applied]", Native::Boolean.into())];
    let shown: Vec<usize> = if is_applied || before.iter().all(Option::is_none) {
        Vec::new()
    } else {
        shown_columns(plans)
    };
    if let Some(table) = table {
        let found = shown.iter().filter_map(|place| table.columns.get(*place));
        columns.extend(found.map(|column| spec(&column.name, column.data_type.clone())));
    }
    let mut rows = Rows::new(Metadata::of(Arc::from(columns)));
    let flag = [u8::from(is_applied)];
    if shown.is_empty() {
        rows.push([Some(&flag[..])]);
        return rows;
    }
    for values in before.iter().flatten() {
        let cells = shown
            .iter()
            .map(|place| values.get(*place).and_then(Option::as_deref));
        rows.push(std::iter::once(Some(&flag[..])).chain(cells));
    }
    rows
}

/// The columns of a row that was in the way: all of them, or those that conditions name. Several
/// statements tell which row it is, too.
fn shown_columns(plans: &[&Modification]) -> Vec<usize> {
    let mut shown: Vec<usize> = Vec::new();
    let mut add = |place: usize| {
        if !shown.contains(&place) {
            shown.push(place);
        }
    };
    let Some(table) = plans.first().map(|plan| plan.table()) else {
        return shown;
    };
    if plans.len() > 1 {
        let keys = table
            .columns
            .iter()
            .filter(|column| column.is_key())
            .count();
        (0..keys).for_each(&mut add);
    }
    for plan in plans {
        match &plan.condition {
            Condition::All(conditions) => {
                conditions
                    .iter()
                    .for_each(|condition| add(condition.column));
            }
            Condition::NotExists | Condition::Exists => {
                (0..table.columns.len()).for_each(&mut add);
            }
            Condition::Always => {}
        }
    }
    shown
}
