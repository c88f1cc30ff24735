//! What the server answers: one file per family of messages, and the envelope around them.

mod error;
mod event;
mod result;

#[cfg(test)]
pub(crate) use event::NodeChange;
pub(crate) use event::{ChangeTarget, ChangeType, Event, SchemaChange};
pub(crate) use result::{ColumnSpec, Metadata, Prepared, ResultBody, Rows};

use super::header::{HEADER_LENGTH, flag};
use super::writer::{put_bytes, put_count, put_string, put_string_list};
use super::{Header, Opcode, Version};
use crate::error::CqlError;

/// A message to a client.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the protocol has it, and nothing here says it")
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Response {
    Error(CqlError),
    Ready,
    /// The class of the authenticator that wants an answer.
    Authenticate(String),
    /// Options and the values that each may take.
    Supported(Vec<(String, Vec<String>)>),
    Result(ResultBody),
    Event(Event),
    AuthChallenge(Vec<u8>),
    AuthSuccess(Option<Vec<u8>>),
}

/// What a response may carry before its body.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extras {
    /// The session under which the trace of the request is found.
    pub(crate) tracing: Option<[u8; 16]>,
    /// From version 4.
    pub(crate) warnings: Vec<String>,
    /// From version 4.
    pub(crate) payload: Vec<(String, Vec<u8>)>,
}

impl Response {
    fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate(_) => Opcode::Authenticate,
            Self::Supported(_) => Opcode::Supported,
            Self::Result(_) => Opcode::Result,
            Self::Event(_) => Opcode::Event,
            Self::AuthChallenge(_) => Opcode::AuthChallenge,
            Self::AuthSuccess(_) => Opcode::AuthSuccess,
        }
    }

    /// Appends the envelope.
    pub(super) fn encode(&self, version: Version, stream: i16, extras: &Extras, out: &mut Vec<u8>) {
        let start = out.len();
        let mut header = Header {
            version,
            flags: extras.flags(version),
            stream,
            opcode: self.opcode(),
            length: 0,
        };
        header.encode_response(out);
        extras.put(out, version);
        self.put(out, version);
        header.length = out.len().saturating_sub(start + HEADER_LENGTH);
        let mut bytes = Vec::with_capacity(HEADER_LENGTH);
        header.encode_response(&mut bytes);
        if let Some(place) = out.get_mut(start..start + HEADER_LENGTH) {
            place.copy_from_slice(&bytes);
        }
    }

    fn put(&self, out: &mut Vec<u8>, version: Version) {
        match self {
            Self::Error(error) => error::put_error(out, error, version),
            Self::Ready => {}
            Self::Authenticate(class) => put_string(out, class),
            Self::Supported(options) => {
                put_count(out, options.len());
                for (name, values) in options {
                    put_string(out, name);
                    put_string_list(out, values);
                }
            }
            Self::Result(result) => result.put(out, version),
            Self::Event(event) => event.put(out),
            Self::AuthChallenge(token) => put_bytes(out, Some(token)),
            Self::AuthSuccess(token) => put_bytes(out, token.as_deref()),
        }
    }
}

impl Extras {
    fn flags(&self, version: Version) -> u8 {
        let mut flags = 0;
        if self.tracing.is_some() {
            flags |= flag::TRACING;
        }
        if version.has_extras() && !self.warnings.is_empty() {
            flags |= flag::WARNING;
        }
        if version.has_extras() && !self.payload.is_empty() {
            flags |= flag::CUSTOM_PAYLOAD;
        }
        flags
    }

    fn put(&self, out: &mut Vec<u8>, version: Version) {
        let flags = self.flags(version);
        if let Some(session) = &self.tracing {
            out.extend_from_slice(session);
        }
        if flags & flag::WARNING != 0 {
            put_string_list(out, &self.warnings);
        }
        if flags & flag::CUSTOM_PAYLOAD != 0 {
            put_count(out, self.payload.len());
            for (name, bytes) in &self.payload {
                put_string(out, name);
                put_bytes(out, Some(bytes));
            }
        }
    }
}
