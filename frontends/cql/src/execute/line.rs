//! A row as expressions see it: the values of its columns at one second.

use std::borrow::Cow;

use super::evaluate::{Evaluated, Scope};
use super::keys::key_components;
use crate::error::Result;
use crate::plan::{Expression, Part};
use crate::row::{Cell, Content, Deletion, PartitionRecord, Row, StoredRow};
use crate::schema::{Column, ColumnKind, Table};
use crate::statement::ColumnTime;
use crate::types::{
    DataType, compare, serialize_list, serialize_map, serialize_tuple, tuple_components,
};

/// The values of a row, by place of the column in its table, and where they come from.
#[derive(Default)]
pub(super) struct Line<'a> {
    pub(super) values: Vec<Evaluated<'a>>,
    pub(super) row: Option<(&'a Row, Deletion)>,
    pub(super) statics: Option<(&'a Row, Deletion)>,
}

/// Makes lines of stored rows.
#[derive(Clone, Copy)]
pub(super) struct Lens<'a> {
    pub(super) table: &'a Table,
    /// Which columns are asked for.
    pub(super) needed: &'a [bool],
    pub(super) now: i64,
}

impl<'a> Lens<'a> {
    /// The line of a row, if the row is there. `deletion` is that of its partition and range.
    pub(super) fn row(
        &self,
        key: &'a [u8],
        stored: &'a StoredRow,
        record: &'a PartitionRecord,
        deletion: Deletion,
    ) -> Option<Line<'a>> {
        let deletion = deletion.max(stored.row.deletion);
        if !is_visible(self.table, &stored.row, deletion, self.now) {
            return None;
        }
        let mut line = self.statics(key, record);
        let first = self.table.partition_key().count();
        for (place, value) in line.values.iter_mut().skip(first).zip(&stored.clustering) {
            *place = Some(Cow::Borrowed(&**value));
        }
        self.put(&mut line, &stored.row, deletion, ColumnKind::Regular);
        line.row = Some((&stored.row, deletion));
        Some(line)
    }

    /// The line of what all rows of a partition share.
    pub(super) fn statics(&self, key: &'a [u8], record: &'a PartitionRecord) -> Line<'a> {
        let mut line = Line {
            values: Vec::with_capacity(self.table.columns.len()),
            ..Line::default()
        };
        let count = self.table.partition_key().count();
        let components = key_components(key, count);
        line.values.extend(
            components
                .into_iter()
                .map(|value| Some(Cow::Borrowed(value))),
        );
        line.values.resize(self.table.columns.len(), None);
        if !record.statics.columns.is_empty() {
            let deletion = record.deletion.max(record.statics.deletion);
            self.put(&mut line, &record.statics, deletion, ColumnKind::Static);
            line.statics = Some((&record.statics, deletion));
        }
        line
    }

    fn put(&self, line: &mut Line<'a>, row: &'a Row, deletion: Deletion, kind: ColumnKind) {
        let columns = self.table.columns.iter().zip(self.needed);
        for ((column, needed), place) in columns.zip(&mut line.values) {
            if *needed && column.kind == kind {
                *place = value_of(self.table, column, row, deletion, self.now);
            }
        }
    }
}

/// Whether a row is there at this second.
pub(super) fn is_visible(table: &Table, row: &Row, deletion: Deletion, now: i64) -> bool {
    let deletion = deletion.max(row.deletion);
    row.liveness
        .is_some_and(|liveness| liveness.is_visible(deletion, now))
        || has_values(table, row, deletion, now)
}

/// Whether any cell of a row has a value at this second, in a column that there still is.
pub(super) fn has_values(table: &Table, row: &Row, deletion: Deletion, now: i64) -> bool {
    let deletion = deletion.max(row.deletion);
    let is_there = |number| table.columns.iter().any(|column| column.number == number);
    row.columns.iter().any(|(number, content)| {
        let deletion = match table.dropped.is_empty() {
            true => deletion,
            false if !is_there(number) => return false,
            false => deletion.max(dropped(table, number)),
        };
        match content {
            Content::Simple(cell) => cell.visible(deletion, now).is_some(),
            Content::Complex {
                deletion: own,
                cells,
            } => {
                let deletion = deletion.max(*own);
                let mut cells = cells.values();
                cells.any(|cell| cell.visible(deletion, now).is_some())
            }
        }
    })
}

/// The deletion that dropping a column of this number was, if it was added again.
fn dropped(table: &Table, number: u32) -> Deletion {
    let dropped = table.dropped.iter().filter(|(old, _)| old.number == number);
    let latest = dropped.map(|(_, timestamp)| *timestamp).max();
    latest.map_or(Deletion::NONE, |timestamp| Deletion { timestamp, at: 0 })
}

/// The value of a column in a row at this second.
pub(super) fn value_of<'a>(
    table: &Table,
    column: &Column,
    row: &'a Row,
    deletion: Deletion,
    now: i64,
) -> Evaluated<'a> {
    let content = row.columns.get(column.number)?;
    let deletion = deletion.max(dropped(table, column.number));
    match content {
        Content::Simple(cell) => cell.visible(deletion, now).map(Cow::Borrowed),
        Content::Complex {
            deletion: own,
            cells,
        } => {
            let deletion = deletion.max(*own);
            let visible: Vec<(&[u8], &[u8])> = cells
                .iter()
                .filter_map(|(path, cell)| Some((path.as_slice(), cell.visible(deletion, now)?)))
                .collect();
            (!visible.is_empty()).then(|| Cow::Owned(assembled(&column.data_type, visible)))
        }
    }
}

/// A collection or a user type of its cells.
fn assembled(data_type: &DataType, mut cells: Vec<(&[u8], &[u8])>) -> Vec<u8> {
    match data_type {
        DataType::List { .. } => {
            let values: Vec<&[u8]> = cells.into_iter().map(|(_, value)| value).collect();
            serialize_list(&values)
        }
        DataType::Set { element, .. } => {
            cells.sort_by(|(left, _), (right, _)| compare(element, left, right));
            let elements: Vec<&[u8]> = cells.into_iter().map(|(path, _)| path).collect();
            serialize_list(&elements)
        }
        DataType::Map { key, .. } => {
            cells.sort_by(|(left, _), (right, _)| compare(key, left, right));
            serialize_map(&cells)
        }
        _ => {
            let mut fields: Vec<Option<&[u8]>> = vec![None; data_type.inner().len()];
            for (path, value) in cells {
                if let Some(field) = field_number(path).and_then(|place| fields.get_mut(place)) {
                    *field = Some(value);
                }
            }
            serialize_tuple(&fields)
        }
    }
}

/// The path of a field of a user type.
pub(super) fn field_path(place: usize) -> Vec<u8> {
    u16::try_from(place)
        .unwrap_or(u16::MAX)
        .to_be_bytes()
        .to_vec()
}

fn field_number(path: &[u8]) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(path.try_into().ok()?)))
}

impl<'a> Scope<'a> {
    /// `writetime`, `maxwritetime` and `ttl`.
    pub(super) fn column_time(
        &self,
        what: ColumnTime,
        column: usize,
        part: Option<&'a Part>,
    ) -> Result<Evaluated<'a>> {
        let (Some(line), Some(column)) = (self.line, self.table.columns.get(column)) else {
            return Ok(None);
        };
        let source = if column.kind == ColumnKind::Static {
            line.statics
        } else {
            line.row
        };
        let Some((row, deletion)) = source else {
            return Ok(None);
        };
        let deletion = deletion
            .max(row.deletion)
            .max(dropped(self.table, column.number));
        let time = |cell: &Cell| self.cell_time(what, cell);
        match row.columns.get(column.number) {
            None => Ok(None),
            Some(Content::Simple(cell)) => {
                let is_there = cell.visible(deletion, self.now).is_some()
                    && self.has_part(cell, &column.data_type, part)?;
                Ok(is_there.then(|| time(cell)).flatten().map(Cow::Owned))
            }
            Some(Content::Complex {
                deletion: own,
                cells,
            }) => {
                let deletion = deletion.max(*own);
                let cells: Vec<(&Vec<u8>, &Cell)> = cells
                    .iter()
                    .filter(|(_, cell)| cell.visible(deletion, self.now).is_some())
                    .collect();
                self.cells_time(what, &column.data_type, cells, part)
            }
        }
    }

    fn cell_time(&self, what: ColumnTime, cell: &Cell) -> Option<Vec<u8>> {
        match what {
            ColumnTime::WriteTime | ColumnTime::MaxWriteTime => {
                Some(cell.timestamp.to_be_bytes().to_vec())
            }
            ColumnTime::TimeToLive => {
                cell.time_to_live?;
                let left = cell.ends?.saturating_sub(self.now);
                Some(
                    i32::try_from(left)
                        .unwrap_or(i32::MAX)
                        .to_be_bytes()
                        .to_vec(),
                )
            }
        }
    }

    /// Whether a value in one cell has the part that is asked of.
    fn has_part(
        &self,
        cell: &Cell,
        data_type: &'a DataType,
        part: Option<&'a Part>,
    ) -> Result<bool> {
        let (Some(part), Some(value)) = (part, &cell.value) else {
            return Ok(true);
        };
        Ok(match part {
            Part::Field(place) => {
                let fields = tuple_components(value, data_type)?;
                fields.get(*place).is_some_and(Option::is_some)
            }
            Part::Element(key) => {
                let wanted = self.evaluate(key)?;
                let keys: Vec<&[u8]> = match data_type {
                    DataType::Map { .. } => {
                        let entries = crate::types::map_entries(value)?.into_iter();
                        entries.map(|(key, _)| key).collect()
                    }
                    _ => crate::types::list_elements(value, "set")?,
                };
                wanted.is_some_and(|wanted| keys.contains(&wanted.as_ref()))
            }
            Part::Slice(..) => true,
        })
    }

    fn cells_time(
        &self,
        what: ColumnTime,
        data_type: &'a DataType,
        mut cells: Vec<(&Vec<u8>, &Cell)>,
        part: Option<&'a Part>,
    ) -> Result<Evaluated<'a>> {
        let key_type = data_type.inner().first().copied();
        let evaluated = |bound: &'a Option<Expression>| match bound {
            Some(bound) => self.evaluate(bound),
            None => Ok(None),
        };
        match part {
            None => {}
            Some(Part::Field(place)) => {
                cells.retain(|(path, _)| field_number(path) == Some(*place))
            }
            Some(Part::Element(key)) => {
                let wanted = self.evaluate(key)?;
                cells.retain(|(path, _)| wanted.as_deref() == Some(path));
            }
            Some(Part::Slice(from, to)) => {
                let (from, to) = (evaluated(from)?, evaluated(to)?);
                cells.retain(|(path, _)| {
                    key_type.is_some_and(|key| {
                        from.as_deref()
                            .is_none_or(|from| compare(key, path, from).is_ge())
                            && to
                                .as_deref()
                                .is_none_or(|to| compare(key, path, to).is_le())
                    })
                });
            }
        }
        if what == ColumnTime::MaxWriteTime {
            let latest = cells.iter().map(|(_, cell)| cell.timestamp).max();
            return Ok(latest.map(|latest| Cow::Owned(latest.to_be_bytes().to_vec())));
        }
        if matches!(part, Some(Part::Field(_) | Part::Element(_))) {
            let time = cells
                .first()
                .and_then(|(_, cell)| self.cell_time(what, cell));
            return Ok(time.map(Cow::Owned));
        }
        if cells.is_empty() {
            return Ok(None);
        }
        if let (Some(key), DataType::Map { .. } | DataType::Set { .. }) = (key_type, data_type) {
            cells.sort_by(|(left, _), (right, _)| compare(key, left, right));
        }
        let mut list = i32::try_from(cells.len())
            .unwrap_or(i32::MAX)
            .to_be_bytes()
            .to_vec();
        for (_, cell) in cells {
            crate::types::put_element(&mut list, self.cell_time(what, cell).as_deref());
        }
        Ok(Some(Cow::Owned(list)))
    }
}
