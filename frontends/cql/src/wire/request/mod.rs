//! What clients ask: one file per message, and the envelope around it.
//!
//! Requests borrow from the body, so decoding copies no text and no value.

mod batch;
mod execute;
mod parameters;
mod prepare;
mod query;

use std::borrow::Cow;

#[cfg(test)]
pub(crate) use batch::BatchQuery;
pub(crate) use batch::{Batch, BatchKind, QueryOrId};
pub(crate) use execute::Execute;
pub(crate) use parameters::{Parameters, Value};
pub(crate) use prepare::Prepare;
pub(crate) use query::Query;

use super::header::flag;
use super::reader::{Read, Reader};
use super::{Compression, Envelope, Header, Opcode, Version, WireError};

/// A message from a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request<'a> {
    /// Options by name, as the client wrote the names.
    Startup(Vec<(&'a str, &'a str)>),
    Options,
    Query(Query<'a>),
    Prepare(Prepare<'a>),
    Execute(Execute<'a>),
    Batch(Batch<'a>),
    /// The kinds of events that the client wants.
    Register(Vec<&'a str>),
    /// The answer to an authenticator.
    AuthResponse(Option<&'a [u8]>),
}

/// A message and what came with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestEnvelope<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) payload: Vec<(&'a str, &'a [u8])>,
    pub(crate) wants_tracing: bool,
}

/// The kinds of events that REGISTER may name.
pub(crate) const EVENT_KINDS: [&str; 3] = ["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"];

impl Envelope {
    /// The body in its own form, of at most `limit` bytes. On version 5 segments are compressed,
    /// and the flag means nothing.
    /// How many bytes the body has when it is expanded; 0 if it is not compressed.
    pub(crate) fn expanded_length(&self, compression: Option<Compression>) -> usize {
        match compression {
            Some(compression)
                if self.header.has(flag::COMPRESSED) && !self.header.version.is_framed() =>
            {
                compression.expanded_length(&self.body)
            }
            _ => 0,
        }
    }

    pub(crate) fn plain_body(
        &self,
        compression: Option<Compression>,
        limit: usize,
    ) -> Result<Cow<'_, [u8]>, WireError> {
        if !self.header.has(flag::COMPRESSED) || self.header.version.is_framed() {
            return Ok(Cow::Borrowed(&self.body));
        }
        let compression = compression.ok_or(WireError::NotAllowed(
            "The body is compressed and no compression was agreed on",
        ))?;
        compression.decompress(&self.body, limit).map(Cow::Owned)
    }
}

impl<'a> RequestEnvelope<'a> {
    /// Reads a body, which is not compressed.
    pub(crate) fn decode(header: Header, body: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(body);
        let has_payload = header.has(flag::CUSTOM_PAYLOAD) && header.version.has_extras();
        let payload = if has_payload {
            reader.bytes_map()?
        } else {
            Vec::new()
        };
        let request = Request::read(&mut reader, header.opcode, header.version)?;
        reader.finish()?;
        let wants_tracing = header.has(flag::TRACING);
        Ok(Self {
            request,
            payload,
            wants_tracing,
        })
    }
}

impl<'a> Request<'a> {
    fn read(reader: &mut Reader<'a>, opcode: Opcode, version: Version) -> Read<Self> {
        Ok(match opcode {
            Opcode::Startup => Self::Startup(reader.string_map()?),
            Opcode::Options => Self::Options,
            Opcode::Query => Self::Query(Query::read(reader, version)?),
            Opcode::Prepare => Self::Prepare(Prepare::read(reader, version)?),
            Opcode::Execute => Self::Execute(Execute::read(reader, version)?),
            Opcode::Batch => Self::Batch(Batch::read(reader, version)?),
            Opcode::Register => Self::Register(read_event_kinds(reader)?),
            Opcode::AuthResponse => Self::AuthResponse(reader.bytes()?),
            Opcode::Error
            | Opcode::Ready
            | Opcode::Authenticate
            | Opcode::Supported
            | Opcode::Result
            | Opcode::Event
            | Opcode::AuthChallenge
            | Opcode::AuthSuccess => {
                return Err(WireError::NotAllowed("A response was sent as a request"));
            }
        })
    }
}

fn read_event_kinds<'a>(reader: &mut Reader<'a>) -> Read<Vec<&'a str>> {
    let kinds = reader.string_list()?;
    match kinds.iter().find(|kind| !EVENT_KINDS.contains(kind)) {
        None => Ok(kinds),
        Some(kind) => Err(WireError::UnknownName {
            what: "Type",
            name: (*kind).to_owned(),
        }),
    }
}
