//! Rows of computed tables, made column by column.

use bytes::Bytes;

use crate::schema::Table;
use crate::types::{serialize_list, serialize_map};

/// The cells of a row, one for each column of its table.
pub(crate) type Row = Vec<Option<Bytes>>;

/// A row that is being made: cells by the names of their columns.
pub(crate) struct Cells<'t> {
    table: &'t Table,
    row: Row,
}

impl<'t> Cells<'t> {
    /// A row of nulls.
    pub(crate) fn of(table: &'t Table) -> Self {
        let row = vec![None; table.columns.len()];
        Self { table, row }
    }

    /// Puts a value in a column. A table that has no such column does not show it: tables of nodes
    /// exist in an older and a newer form.
    #[must_use]
    pub(crate) fn with(mut self, column: &str, value: impl Into<Cell>) -> Self {
        let mut columns = self.table.columns.iter();
        let position = columns.position(|known| known.name == column);
        if let Some(place) = position.and_then(|position| self.row.get_mut(position)) {
            *place = value.into().0;
        }
        self
    }

    pub(crate) fn row(self) -> Row {
        self.row
    }
}

/// A value as a cell holds it.
pub(crate) struct Cell(Option<Bytes>);

impl From<Option<Bytes>> for Cell {
    fn from(bytes: Option<Bytes>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Cell {
    fn from(bytes: &[u8]) -> Self {
        Self(Some(Bytes::copy_from_slice(bytes)))
    }
}

impl From<[u8; 16]> for Cell {
    fn from(uuid: [u8; 16]) -> Self {
        uuid.as_slice().into()
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        text.as_bytes().into()
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        [u8::from(value)].as_slice().into()
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        value.to_be_bytes().as_slice().into()
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        value.to_be_bytes().as_slice().into()
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        value.to_be_bytes().as_slice().into()
    }
}

impl From<std::net::IpAddr> for Cell {
    fn from(address: std::net::IpAddr) -> Self {
        match address {
            std::net::IpAddr::V4(address) => address.octets().as_slice().into(),
            std::net::IpAddr::V6(address) => address.octets().as_slice().into(),
        }
    }
}

impl Cell {
    /// A list, or a set whose elements are sorted.
    pub(crate) fn list<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> Self {
        let elements: Vec<T> = elements.into_iter().collect();
        Self(Some(serialize_list(&elements).into()))
    }

    /// A map of these entries, in any order.
    pub(crate) fn map<K: AsRef<[u8]> + Ord, V: AsRef<[u8]> + Ord>(
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let mut entries: Vec<(K, V)> = entries.into_iter().collect();
        entries.sort();
        Self(Some(serialize_map(&entries).into()))
    }
}
