//! What a client gives with a statement: values, consistency, paging, time.

use crate::wire::reader::{Read, Reader};
use crate::wire::{Consistency, Version, WireError};

/// A bound value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    /// As if the statement did not name it.
    Unset,
    Bytes(&'a [u8]),
}

/// The parameters of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameters<'a> {
    pub(crate) consistency: Consistency,
    pub(crate) values: Vec<Value<'a>>,
    /// The names of the values, if they are bound by name.
    pub(crate) names: Option<Vec<&'a str>>,
    pub(crate) skip_metadata: bool,
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<&'a [u8]>,
    pub(crate) serial_consistency: Option<Consistency>,
    /// Microseconds since 1970.
    pub(crate) timestamp: Option<i64>,
    pub(crate) keyspace: Option<&'a str>,
    pub(crate) now_in_seconds: Option<i32>,
}

/// Which parameters follow.
pub(in crate::wire) mod parameter_flag {
    pub(in crate::wire) const VALUES: i32 = 0x01;
    pub(in crate::wire) const SKIP_METADATA: i32 = 0x02;
    pub(in crate::wire) const PAGE_SIZE: i32 = 0x04;
    pub(in crate::wire) const PAGING_STATE: i32 = 0x08;
    pub(in crate::wire) const SERIAL_CONSISTENCY: i32 = 0x10;
    pub(in crate::wire) const TIMESTAMP: i32 = 0x20;
    pub(in crate::wire) const NAMES: i32 = 0x40;
    pub(in crate::wire) const KEYSPACE: i32 = 0x80;
    pub(in crate::wire) const NOW_IN_SECONDS: i32 = 0x100;
}

use parameter_flag as flag;

impl<'a> Parameters<'a> {
    pub(crate) fn new(consistency: Consistency) -> Self {
        Self {
            consistency,
            values: Vec::new(),
            names: None,
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }

    pub(super) fn read(reader: &mut Reader<'a>, version: Version) -> Read<Self> {
        let mut parameters = Self::new(reader.consistency()?);
        let flags = read_flags(reader, version)?;
        if flags & flag::VALUES != 0 && flags & flag::NAMES != 0 {
            let named = reader.list(6, |reader| Ok((reader.string()?, reader.value(version)?)))?;
            let (names, values) = named.into_iter().unzip();
            parameters.names = Some(names);
            parameters.values = values;
        } else if flags & flag::VALUES != 0 {
            parameters.values = reader.list(4, |reader| reader.value(version))?;
        }
        parameters.read_rest(reader, flags, version)?;
        Ok(parameters)
    }

    /// The parameters of a batch, whose values stand elsewhere.
    pub(super) fn read_of_batch(reader: &mut Reader<'a>, version: Version) -> Read<Self> {
        let mut parameters = Self::new(reader.consistency()?);
        let flags = read_flags(reader, version)?;
        if flags & flag::NAMES != 0 {
            // Nothing in a batch has room for them (CASSANDRA-10246).
            return Err(WireError::NotAllowed(
                "Named values are not supported in BATCH messages",
            ));
        }
        parameters.read_rest(reader, flags, version)?;
        Ok(parameters)
    }

    /// Everything after the values, in its order.
    fn read_rest(&mut self, reader: &mut Reader<'a>, flags: i32, version: Version) -> Read<()> {
        let has = |flag: i32| flags & flag != 0;
        self.skip_metadata = has(flag::SKIP_METADATA);
        if has(flag::PAGE_SIZE) {
            self.page_size = Some(reader.int()?);
        }
        if has(flag::PAGING_STATE) {
            self.paging_state = reader.bytes()?;
        }
        if has(flag::SERIAL_CONSISTENCY) {
            self.serial_consistency = Some(reader.consistency()?);
        }
        if has(flag::TIMESTAMP) {
            let timestamp = reader.long()?;
            if timestamp == i64::MIN {
                return Err(WireError::TimestampOutOfBounds(timestamp));
            }
            self.timestamp = Some(timestamp);
        }
        if version.is_framed() && has(flag::KEYSPACE) {
            self.keyspace = Some(reader.string()?);
        }
        if version.is_framed() && has(flag::NOW_IN_SECONDS) {
            self.now_in_seconds = Some(reader.int()?);
        }
        Ok(())
    }
}

fn read_flags(reader: &mut Reader<'_>, version: Version) -> Read<i32> {
    if version.is_framed() {
        reader.int()
    } else {
        reader.byte().map(i32::from)
    }
}
