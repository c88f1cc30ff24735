//! PREPARE: a statement to remember.

use crate::wire::Version;
use crate::wire::reader::{Read, Reader};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepare<'a> {
    pub(crate) query: &'a str,
    /// The keyspace of names without one, instead of the connection's. From version 5.
    pub(crate) keyspace: Option<&'a str>,
}

pub(in crate::wire) const WITH_KEYSPACE: i32 = 0x01;

impl<'a> Prepare<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, version: Version) -> Read<Self> {
        let query = reader.long_string()?;
        let flags = if version.is_framed() {
            reader.int()?
        } else {
            0
        };
        let keyspace = if flags & WITH_KEYSPACE == 0 {
            None
        } else {
            Some(reader.string()?)
        };
        Ok(Self { query, keyspace })
    }
}
