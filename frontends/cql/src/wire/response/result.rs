//! RESULT: nothing, rows, a keyspace, a prepared statement, or a change of the schema.

use std::sync::Arc;

use super::event::SchemaChange;
use crate::granted::Granted;
use crate::types::DataType;
use crate::wire::Version;
use crate::wire::data_type::put_type;
use crate::wire::writer::{put_bytes, put_int, put_length, put_short, put_short_bytes, put_string};

/// What a statement gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ResultBody {
    Void,
    Rows(Rows),
    SetKeyspace(String),
    Prepared(Prepared),
    SchemaChange(SchemaChange),
}

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnSpec {
    pub(crate) keyspace: String,
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) data_type: DataType,
}

/// What describes rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) columns: Arc<[ColumnSpec]>,
    /// Where the next page begins, if there is one.
    pub(crate) paging_state: Option<Vec<u8>>,
    /// The client knows the columns, so only their number is sent.
    pub(crate) skip_columns: bool,
    /// From version 5: the columns are not those that the client expects.
    pub(crate) new_metadata_id: Option<Vec<u8>>,
}

/// Rows, encoded as they are added.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows {
    pub(crate) metadata: Metadata,
    count: usize,
    cells: Vec<u8>,
    /// What they take until they are sent.
    pub(crate) granted: Granted,
}

/// A statement that was prepared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared {
    pub(crate) id: Vec<u8>,
    /// From version 5.
    pub(crate) result_metadata_id: Vec<u8>,
    pub(crate) markers: Vec<ColumnSpec>,
    /// Which markers are the partition key, in its order. Empty unless all of it is markers.
    pub(crate) partition_key: Vec<u16>,
    /// The columns of the result; none if the statement gives no rows.
    pub(crate) result: Option<Arc<[ColumnSpec]>>,
}

mod metadata_flag {
    pub(super) const GLOBAL_TABLE: i32 = 0x1;
    pub(super) const MORE_PAGES: i32 = 0x2;
    pub(super) const NO_METADATA: i32 = 0x4;
    pub(super) const METADATA_CHANGED: i32 = 0x8;
}

use metadata_flag as flag;

impl ResultBody {
    pub(super) fn put(&self, out: &mut Vec<u8>, version: Version) {
        match self {
            Self::Void => put_int(out, 1),
            Self::Rows(rows) => {
                put_int(out, 2);
                rows.put(out, version);
            }
            Self::SetKeyspace(keyspace) => {
                put_int(out, 3);
                put_string(out, keyspace);
            }
            Self::Prepared(prepared) => {
                put_int(out, 4);
                prepared.put(out, version);
            }
            Self::SchemaChange(change) => {
                put_int(out, 5);
                change.put(out);
            }
        }
    }
}

impl Rows {
    /// No rows yet.
    pub(crate) fn new(metadata: Metadata) -> Self {
        Self {
            metadata,
            ..Self::default()
        }
    }

    /// Adds one row, which has a cell for each column.
    pub(crate) fn push<'c>(&mut self, cells: impl IntoIterator<Item = Option<&'c [u8]>>) {
        for cell in cells {
            put_bytes(&mut self.cells, cell);
        }
        self.count += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The cells of all rows, in one list.
    #[cfg(test)]
    pub(crate) fn cells(&self) -> Vec<Option<Vec<u8>>> {
        let mut cells = Vec::new();
        let mut input = self.cells.as_slice();
        while let Some((length, rest)) = input.split_first_chunk() {
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            let (cell, rest) = rest.split_at(length.unwrap_or(0));
            cells.push(length.map(|_| cell.to_vec()));
            input = rest;
        }
        cells
    }

    fn put(&self, out: &mut Vec<u8>, version: Version) {
        self.metadata.put(out, version);
        put_length(out, self.count);
        out.extend_from_slice(&self.cells);
    }
}

impl Metadata {
    pub(crate) fn of(columns: Arc<[ColumnSpec]>) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }

    fn put(&self, out: &mut Vec<u8>, version: Version) {
        let new_id = self
            .new_metadata_id
            .as_ref()
            .filter(|_| version.is_framed());
        // A client that expects other columns must be told these ones.
        let skip = self.skip_columns && new_id.is_none();
        let table = if skip {
            None
        } else {
            common_table(&self.columns)
        };
        let flags = [
            (table.is_some(), flag::GLOBAL_TABLE),
            (self.paging_state.is_some(), flag::MORE_PAGES),
            (skip, flag::NO_METADATA),
            (new_id.is_some(), flag::METADATA_CHANGED),
        ];
        put_int(
            out,
            flags
                .into_iter()
                .map(|(is_set, flag)| if is_set { flag } else { 0 })
                .sum(),
        );
        put_length(out, self.columns.len());
        if let Some(state) = &self.paging_state {
            put_bytes(out, Some(state));
        }
        if let Some(id) = new_id {
            put_short_bytes(out, id);
        }
        if !skip {
            put_columns(out, &self.columns, table, version);
        }
    }
}

impl Prepared {
    fn put(&self, out: &mut Vec<u8>, version: Version) {
        put_short_bytes(out, &self.id);
        if version.is_framed() {
            put_short_bytes(out, &self.result_metadata_id);
        }
        let table = common_table(&self.markers);
        put_int(
            out,
            if table.is_some() {
                flag::GLOBAL_TABLE
            } else {
                0
            },
        );
        put_length(out, self.markers.len());
        if version.has_extras() {
            put_length(out, self.partition_key.len());
            for index in &self.partition_key {
                put_short(out, *index);
            }
        }
        put_columns(out, &self.markers, table, version);
        match &self.result {
            Some(columns) => Metadata::of(columns.clone()).put(out, version),
            None => {
                put_int(out, flag::NO_METADATA);
                put_int(out, 0);
            }
        }
    }
}

/// The keyspace and the table, if all columns share them.
fn common_table(columns: &[ColumnSpec]) -> Option<(&str, &str)> {
    let (first, rest) = columns.split_first()?;
    let is_shared = rest
        .iter()
        .all(|column| column.keyspace == first.keyspace && column.table == first.table);
    is_shared.then_some((&first.keyspace, &first.table))
}

fn put_columns(
    out: &mut Vec<u8>,
    columns: &[ColumnSpec],
    table: Option<(&str, &str)>,
    version: Version,
) {
    if let Some((keyspace, table)) = table {
        put_string(out, keyspace);
        put_string(out, table);
    }
    for column in columns {
        if table.is_none() {
            put_string(out, &column.keyspace);
            put_string(out, &column.table);
        }
        put_string(out, &column.name);
        put_type(out, &column.data_type, version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Native;
    use crate::wire::testing::hex;

    fn column(table: &str, name: &str, data_type: impl Into<DataType>) -> ColumnSpec {
        ColumnSpec {
            keyspace: "k".to_owned(),
            table: table.to_owned(),
            name: name.to_owned(),
            data_type: data_type.into(),
        }
    }

    fn encoded(body: &ResultBody, version: Version) -> Vec<u8> {
        let mut out = Vec::new();
        body.put(&mut out, version);
        out
    }

    #[test]
    fn rows_are_written_as_the_specification_says() {
        let columns = [
            column("t", "a", Native::Int),
            column("t", "b", Native::Duration),
        ];
        let mut rows = Rows::new(Metadata::of(columns.into()));
        rows.push([Some(&[0, 0, 0, 1][..]), None]);
        assert_eq!(rows.len(), 1);
        let cells = "00000001 00000004 00000001 ffffffff";
        let start = "00000002 00000001 00000002 00016b 000174 000161 0009 000162";
        let body = ResultBody::Rows(rows.clone());
        assert_eq!(
            encoded(&body, Version::V5),
            hex(&format!("{start} 0015 {cells}"))
        );
        let class = "org.apache.cassandra.db.marshal.DurationType";
        let class: String = class.bytes().map(|byte| format!("{byte:02x}")).collect();
        let custom = hex(&format!("{start} 0000 002c {class} {cells}"));
        assert_eq!(encoded(&body, Version::V4), custom);

        rows.metadata.skip_columns = true;
        rows.metadata.paging_state = Some(vec![7]);
        let skipped = hex(&format!("00000002 00000006 00000002 00000001 07 {cells}"));
        assert_eq!(
            encoded(&ResultBody::Rows(rows.clone()), Version::V4),
            skipped
        );

        rows.metadata.new_metadata_id = Some(vec![8]);
        assert_eq!(
            encoded(&ResultBody::Rows(rows.clone()), Version::V4),
            skipped
        );
        let changed = "00000002 0000000b 00000002 00000001 07 0001 08 00016b 000174 000161 0009";
        assert!(encoded(&ResultBody::Rows(rows), Version::V5).starts_with(&hex(changed)));
    }

    #[test]
    fn prepared_statements_differ_by_version() {
        let prepared = Prepared {
            id: vec![1],
            result_metadata_id: vec![2],
            markers: vec![column("t", "a", Native::Int)],
            partition_key: vec![0],
            result: None,
        };
        let body = ResultBody::Prepared(prepared);
        let marker = "00016b 000174 000161 0009 00000004 00000000";
        for (version, before) in [
            (Version::V3, "00000004 0001 01 00000001 00000001"),
            (
                Version::V4,
                "00000004 0001 01 00000001 00000001 00000001 0000",
            ),
            (
                Version::V5,
                "00000004 0001 01 0001 02 00000001 00000001 00000001 0000",
            ),
        ] {
            assert_eq!(encoded(&body, version), hex(&format!("{before} {marker}")));
        }
    }

    #[test]
    fn columns_of_two_tables_name_theirs() {
        let columns = [column("t", "a", Native::Int), column("u", "a", Native::Int)];
        let body = ResultBody::Rows(Rows::new(Metadata::of(columns.into())));
        let each = "00016b 000174 000161 0009 00016b 000175 000161 0009";
        let whole = format!("00000002 00000000 00000002 {each} 00000000");
        assert_eq!(encoded(&body, Version::V4), hex(&whole));
    }
}
