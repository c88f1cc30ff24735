//! QUERY: a statement as text.

use super::Parameters;
use crate::wire::Version;
use crate::wire::reader::{Read, Reader};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query<'a> {
    pub(crate) query: &'a str,
    pub(crate) parameters: Parameters<'a>,
}

impl<'a> Query<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, version: Version) -> Read<Self> {
        let query = reader.long_string()?;
        let parameters = Parameters::read(reader, version)?;
        Ok(Self { query, parameters })
    }
}
