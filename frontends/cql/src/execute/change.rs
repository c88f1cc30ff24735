//! What a statement writes into a row.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use tessera_core::deadline;

use bytes::Bytes;

use super::evaluate::Scope;
use super::line::field_path;
use crate::error::{CqlError, Result};
use crate::plan::{Change, Expression, How};
use crate::row::{Cell, Content, Deletion, Row};
use crate::schema::Column;
use crate::types::{DataType, list_elements, map_entries, tuple_components};

/// Steps for each element of a collection that is written.
const ELEMENT_STEPS: usize = 4;

/// When a statement writes, and how long its values live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) timestamp: i64,
    /// Zero: for ever.
    pub(super) time_to_live: i32,
    pub(super) now: i64,
    /// When the request came, which is the place of what it adds to lists: two requests that say
    /// they are of one time both add.
    pub(super) arrival: i64,
    /// The number of the statement in its batch, by which list elements of one batch stay in order.
    pub(super) statement: u16,
}

/// The longest value of a cell.
const VALUE_LIMIT: usize = 2 << 20;

impl Stamp {
    pub(super) fn cell(&self, value: &[u8]) -> Cell {
        let value = Bytes::copy_from_slice(value);
        if self.time_to_live > 0 {
            Cell::expiring(self.timestamp, value, self.time_to_live, self.now)
        } else {
            Cell::live(self.timestamp, value)
        }
    }

    fn tombstone(&self) -> Cell {
        Cell::deleted(self.timestamp, self.now)
    }

    pub(super) fn deletion(&self) -> Deletion {
        Deletion {
            timestamp: self.timestamp,
            at: self.now,
        }
    }

    /// Deletes what was there before something is set as a whole.
    fn deletion_before(&self) -> Deletion {
        Deletion {
            timestamp: self.timestamp.saturating_sub(1),
            at: self.now,
        }
    }

    /// Where an element of a list goes: behind those from before.
    fn appended(&self, number: u32, value: &[u8]) -> Vec<u8> {
        let mut path = vec![1];
        path.extend_from_slice(&order(self.arrival).to_be_bytes());
        path.extend_from_slice(&self.statement.to_be_bytes());
        end_path(&mut path, number, value);
        path
    }

    /// Before those that were there.
    fn prepended(&self, number: u32, value: &[u8]) -> Vec<u8> {
        let mut path = vec![0];
        path.extend_from_slice(&(!order(self.arrival)).to_be_bytes());
        path.extend_from_slice(&(!self.statement).to_be_bytes());
        end_path(&mut path, number, value);
        path
    }
}

/// Two additions of one statement are told apart by what they add.
fn end_path(path: &mut Vec<u8>, number: u32, value: &[u8]) {
    path.extend_from_slice(&number.to_be_bytes());
    path.extend_from_slice(&crc32fast::hash(value).to_be_bytes());
}

/// Times as numbers that sort without a sign.
fn order(timestamp: i64) -> u64 {
    timestamp.cast_unsigned() ^ (1 << 63)
}

/// The visible elements of a collection that is there: by path.
type Elements = Vec<(Vec<u8>, Vec<u8>)>;

/// A row that is being changed: what was there, and what is written.
pub(super) struct Target<'r> {
    pub(super) before: Option<&'r Row>,
    pub(super) deletion: Deletion,
    pub(super) stamp: Stamp,
    pub(super) written: Row,
    /// How many elements were added to lists so far, behind and before those that were there.
    appended: u32,
    prepended: u32,
}

/// The number of the first element that is put before a list: those that follow count down, so
/// that each addition comes before the one that was made before it.
const FIRST_PREPENDED: u32 = u32::MAX;

impl<'r> Target<'r> {
    pub(super) fn new(
        before: Option<&'r Row>,
        deletion: Deletion,
        stamp: Stamp,
        written: Row,
    ) -> Self {
        Self {
            before,
            deletion,
            stamp,
            written,
            appended: 0,
            prepended: 0,
        }
    }

    fn put(&mut self, column: &Column, content: Content) {
        self.written = std::mem::take(&mut self.written).with(column.number, content);
    }

    /// The elements of a list as the changes that were made so far have left it.
    fn elements(&self, column: &Column) -> Elements {
        let before = self.before.and_then(|row| row.columns.get(column.number));
        let written = self.written.columns.get(column.number);
        let content = match (before, written) {
            (Some(before), Some(written)) => before.clone().merge(written.clone()),
            (Some(content), None) | (None, Some(content)) => content.clone(),
            (None, None) => return Vec::new(),
        };
        let row_deletion = self.before.map_or(Deletion::NONE, |row| row.deletion);
        let visible = content.visible(self.deletion.max(row_deletion), self.stamp.now);
        let owned = |(path, value): (&[u8], &[u8])| (path.to_vec(), value.to_vec());
        visible.into_iter().map(owned).collect()
    }

    /// Applies one change.
    pub(super) fn change(
        &mut self,
        scope: &Scope<'_>,
        column: &Column,
        change: &Change,
    ) -> Result<()> {
        let scope = Scope { ..*scope };
        let value = |expression| optional(&scope, expression);
        match &change.how {
            How::Set(expression) => match value(expression)? {
                None => {}
                Some(value) => self.set(column, value.as_deref())?,
            },
            How::Append(expression) => {
                if let Some(Some(value)) = value(expression)? {
                    self.append(column, &value)?;
                }
            }
            How::Prepend(expression) => {
                if let Some(Some(value)) = value(expression)? {
                    for element in list_elements(&value, "list")?.into_iter().rev() {
                        deadline::step(ELEMENT_STEPS)?;
                        let number = FIRST_PREPENDED.saturating_sub(self.prepended);
                        self.prepended = self.prepended.saturating_add(1);
                        let path = self.stamp.prepended(number, element);
                        let cell = self.stamp.cell(element);
                        self.put(column, Content::element(path, cell));
                    }
                }
            }
            How::Remove(expression) => {
                if let Some(Some(value)) = value(expression)? {
                    self.remove(column, &value)?;
                }
            }
            How::Increment(expression, is_up) => match value(expression)? {
                None => {}
                Some(None) => {
                    return Err(CqlError::invalid(
                        "Invalid null value for counter increment/decrement",
                    ));
                }
                Some(Some(delta)) => self.increment(column, &delta, *is_up)?,
            },
            How::SetElement(key, expression) => {
                let key = required(&scope, key, column)?;
                let Some(value) = value(expression)? else {
                    return Ok(());
                };
                self.set_element(column, &key, value.as_deref())?;
            }
            How::SetField(place, expression) => {
                if let Some(value) = value(expression)? {
                    self.put_part(column, field_path(*place), value.as_deref());
                }
            }
            How::Delete => self.set(column, None)?,
            How::DeleteElement(key) if is_list(column) && scope.is_unset(key) => {}
            How::DeleteElement(key) => {
                let key = required(&scope, key, column)?;
                self.set_element(column, &key, None)?;
            }
            How::DeleteField(place) => self.put_part(column, field_path(*place), None),
        }
        Ok(())
    }

    fn put_part(&mut self, column: &Column, path: Vec<u8>, value: Option<&[u8]>) {
        let cell = match value {
            Some(value) => self.stamp.cell(value),
            None => self.stamp.tombstone(),
        };
        self.put(column, Content::element(path, cell));
    }

    /// Sets a column as a whole; none deletes it.
    pub(super) fn set(&mut self, column: &Column, value: Option<&[u8]>) -> Result<()> {
        if !column.data_type.is_multi_cell() {
            let cell = match value {
                Some(value) => {
                    check_size(column, value)?;
                    self.stamp.cell(value)
                }
                None => self.stamp.tombstone(),
            };
            self.put(column, Content::Simple(cell));
            return Ok(());
        }
        let Some(value) = value else {
            let deletion = self.stamp.deletion();
            let cells = BTreeMap::new();
            self.put(column, Content::Complex { deletion, cells });
            return Ok(());
        };
        let deletion = self.stamp.deletion_before();
        let cells = BTreeMap::new();
        self.put(column, Content::Complex { deletion, cells });
        self.append(column, value)
    }

    /// Adds the elements of a collection, or the fields of a user type.
    fn append(&mut self, column: &Column, value: &[u8]) -> Result<()> {
        check_size(column, value)?;
        match &column.data_type {
            DataType::List { .. } => {
                for element in list_elements(value, "list")? {
                    deadline::step(ELEMENT_STEPS)?;
                    let path = self.stamp.appended(self.appended, element);
                    self.appended = self.appended.saturating_add(1);
                    let cell = self.stamp.cell(element);
                    self.put(column, Content::element(path, cell));
                }
            }
            DataType::Set { .. } => {
                for element in list_elements(value, "set")? {
                    deadline::step(ELEMENT_STEPS)?;
                    let cell = self.stamp.cell(&[]);
                    self.put(column, Content::element(element, cell));
                }
            }
            DataType::Map { .. } => {
                for (key, value) in map_entries(value)? {
                    deadline::step(ELEMENT_STEPS)?;
                    let cell = self.stamp.cell(value);
                    self.put(column, Content::element(key, cell));
                }
            }
            data_type => {
                for (place, field) in tuple_components(value, data_type)?.into_iter().enumerate() {
                    if let Some(field) = field {
                        let cell = self.stamp.cell(field);
                        self.put(column, Content::element(field_path(place), cell));
                    }
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, column: &Column, value: &[u8]) -> Result<()> {
        let wanted = list_elements(value, "list")?;
        let paths: Vec<Vec<u8>> = match &column.data_type {
            DataType::List { .. } => {
                let wanted: HashSet<&[u8]> = wanted.into_iter().collect();
                let elements = self.elements(column).into_iter();
                elements
                    .filter(|(_, element)| wanted.contains(element.as_slice()))
                    .map(|(path, _)| path)
                    .collect()
            }
            _ => wanted.into_iter().map(<[u8]>::to_vec).collect(),
        };
        for path in paths {
            deadline::step(ELEMENT_STEPS)?;
            self.put_part(column, path, None);
        }
        Ok(())
    }

    fn set_element(&mut self, column: &Column, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let DataType::List { .. } = &column.data_type else {
            self.put_part(column, key.to_vec(), value);
            return Ok(());
        };
        let index = key.try_into().map_or(-1, i32::from_be_bytes);
        let elements = self.elements(column);
        let size = elements.len();
        let found = usize::try_from(index)
            .ok()
            .and_then(|index| elements.get(index));
        let Some(path) = found.map(|(path, _)| path.to_vec()) else {
            return Err(CqlError::invalid(match (size, value) {
                (0, Some(_)) => "Attempted to set an element on a list which is null".to_owned(),
                (0, None) => "Attempted to delete an element from a list which is null".to_owned(),
                _ => format!("List index {index} out of bound, list has size {size}"),
            }));
        };
        self.put_part(column, path, value);
        Ok(())
    }

    fn increment(&mut self, column: &Column, delta: &[u8], is_up: bool) -> Result<()> {
        let delta = delta.try_into().map_or(0, i64::from_be_bytes);
        let delta = if is_up { delta } else { delta.wrapping_neg() };
        let written = match self.written.columns.get(column.number) {
            Some(Content::Simple(cell)) => cell.value.clone(),
            _ => None,
        };
        let old = self.before.and_then(|row| row.columns.get(column.number));
        let before = written.or_else(|| {
            let visible = old?.visible(self.deletion, self.stamp.now);
            let (_, value) = visible.first()?;
            Some(Bytes::copy_from_slice(value))
        });
        // A counter must never lose to what it counts on, whatever the clocks say.
        let latest = match old {
            Some(Content::Simple(cell)) => cell.timestamp.max(self.deletion.timestamp),
            _ => self.deletion.timestamp,
        };
        let timestamp = self.stamp.timestamp.max(latest.saturating_add(1));
        let cell = Cell::increment(before.as_deref(), delta, timestamp);
        self.written
            .columns
            .set(column.number, Content::Simple(cell));
        Ok(())
    }
}

/// A value that may be null inside, or not given at all.
fn optional<'a>(scope: &Scope<'a>, what: &'a Expression) -> Result<Option<Option<Cow<'a, [u8]>>>> {
    if scope.is_unset(what) {
        return Ok(None);
    }
    Ok(Some(scope.evaluate(what)?))
}

fn required<'a>(scope: &Scope<'a>, key: &'a Expression, column: &Column) -> Result<Cow<'a, [u8]>> {
    let what = match column.data_type {
        DataType::List { .. } => "value for list index",
        DataType::Map { .. } => "map key",
        _ => "set element",
    };
    if scope.is_unset(key) {
        return Err(CqlError::invalid(format!("Invalid unset {what}")));
    }
    scope
        .evaluate(key)?
        .ok_or_else(|| CqlError::invalid(format!("Invalid null {what}")))
}

fn is_list(column: &Column) -> bool {
    matches!(column.data_type, DataType::List { .. })
}

fn check_size(column: &Column, value: &[u8]) -> Result<()> {
    if value.len() <= VALUE_LIMIT {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "Value of column {} of {} bytes is larger than the limit of {VALUE_LIMIT}",
        column.name,
        value.len()
    )))
}
