//! EXECUTE: runs a prepared statement.

use super::Parameters;
use crate::wire::Version;
use crate::wire::reader::{Read, Reader};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Execute<'a> {
    pub(crate) id: &'a [u8],
    /// Which columns the client expects. From version 5.
    pub(crate) result_metadata_id: Option<&'a [u8]>,
    pub(crate) parameters: Parameters<'a>,
}

impl<'a> Execute<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, version: Version) -> Read<Self> {
        let id = reader.short_bytes()?;
        let result_metadata_id = if version.is_framed() {
            Some(reader.short_bytes()?)
        } else {
            None
        };
        let parameters = Parameters::read(reader, version)?;
        Ok(Self {
            id,
            result_metadata_id,
            parameters,
        })
    }
}
