//! BATCH: several statements, by text or by id, as one.

use super::{Parameters, Value};
use crate::wire::reader::{Read, Reader};
use crate::wire::{Version, WireError};

/// How a batch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Logged = 0,
    Unlogged = 1,
    Counter = 2,
}

/// One statement of a batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchQuery<'a> {
    pub(crate) query: QueryOrId<'a>,
    pub(crate) values: Vec<Value<'a>>,
}

/// A statement as text, or one prepared before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum QueryOrId<'a> {
    Query(&'a str),
    Id(&'a [u8]),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch<'a> {
    pub(crate) kind: BatchKind,
    pub(crate) queries: Vec<BatchQuery<'a>>,
    pub(crate) parameters: Parameters<'a>,
}

/// A kind byte, an empty id and no values.
const SMALLEST_QUERY: usize = 1 + 2 + 2;

impl<'a> Batch<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, version: Version) -> Read<Self> {
        let kind = match reader.byte()? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            other => {
                let number = i64::from(other);
                return Err(WireError::Unknown {
                    what: "BATCH message type",
                    number,
                });
            }
        };
        let queries = reader.list(SMALLEST_QUERY, |reader| BatchQuery::read(reader, version))?;
        let parameters = Parameters::read_of_batch(reader, version)?;
        Ok(Self {
            kind,
            queries,
            parameters,
        })
    }
}

impl<'a> BatchQuery<'a> {
    fn read(reader: &mut Reader<'a>, version: Version) -> Read<Self> {
        let query = match reader.byte()? {
            0 => QueryOrId::Query(reader.long_string()?),
            1 => QueryOrId::Id(reader.short_bytes()?),
            other => {
                let what = "query kind in BATCH messages (must be 0 or 1)";
                return Err(WireError::Unknown {
                    what,
                    number: i64::from(other),
                });
            }
        };
        let values = reader.list(4, |reader| reader.value(version))?;
        Ok(Self { query, values })
    }
}
