//! The native protocol, versions 3 to 5: bytes to messages and back. Pure: no socket, no store.
//!
//! An *envelope* is a header of nine bytes and a body; a *segment* is the checksummed frame that
//! carries envelopes on version 5. `inbound` cuts what a client sends into envelopes, `request`
//! reads their bodies; `response` writes answers, `outbound` wraps them for the connection.

mod compression;
mod consistency;
mod crc24;
mod data_type;
mod error;
mod header;
mod inbound;
mod outbound;
mod reader;
mod request;
mod response;
mod segment;
#[cfg(test)]
pub(crate) mod testing;
mod version;
mod writer;

pub(crate) use compression::Compression;
pub(crate) use consistency::{Consistency, WriteType};
pub(crate) use error::WireError;
pub(crate) use header::{Header, Opcode, flag};
pub(crate) use inbound::{Envelope, Inbound, Refusal};
pub(crate) use outbound::Outbound;
#[cfg(test)]
pub(crate) use request::BatchQuery;
pub(crate) use request::{
    Batch, BatchKind, Execute, Parameters, Prepare, Query, QueryOrId, Request, RequestEnvelope,
    Value,
};
pub(crate) use response::{
    ChangeTarget, ChangeType, ColumnSpec, Event, Extras, Metadata, Prepared, Response, ResultBody,
    Rows, SchemaChange,
};
pub(crate) use version::{LIST as VERSIONS, Version};
