//! A client's end of a connection: requests wrapped as agreed, responses unwrapped.

use super::{Decoded, decode_response, encode_request};
use crate::wire::header::HEADER_LENGTH;
use crate::wire::request::{Request, RequestEnvelope};
use crate::wire::segment::SegmentFormat;
use crate::wire::{Compression, Version, flag};

/// What was agreed on, and what has arrived.
pub(crate) struct Wrapper {
    pub(crate) version: Version,
    compression: Option<Compression>,
    segments: Option<SegmentFormat>,
    arrived: Vec<u8>,
    unwrapped: Vec<u8>,
}

impl Wrapper {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            compression: None,
            segments: None,
            arrived: Vec::new(),
            unwrapped: Vec::new(),
        }
    }

    /// From here on as STARTUP agreed.
    pub(crate) fn start(&mut self, compression: Option<Compression>) {
        if self.version.is_framed() {
            self.segments = Some(SegmentFormat::of(compression));
        } else {
            self.compression = compression;
        }
    }

    /// The bytes of a request.
    pub(crate) fn wrap(&self, stream: i16, envelope: &RequestEnvelope<'_>) -> Vec<u8> {
        let mut bytes = encode_request(envelope, self.version, stream);
        let is_startup = matches!(envelope.request, Request::Startup(_));
        if let Some(compression) = self.compression.filter(|_| !is_startup)
            && let Some(body) = compression.compress(&bytes[HEADER_LENGTH..])
        {
            bytes.truncate(HEADER_LENGTH);
            bytes[1] |= flag::COMPRESSED;
            let length = i32::try_from(body.len()).unwrap().to_be_bytes();
            bytes[5..].copy_from_slice(&length);
            bytes.extend(body);
        }
        match self.segments {
            None => bytes,
            Some(format) => {
                let mut segment = Vec::new();
                format.encode(&bytes, true, &mut segment);
                segment
            }
        }
    }

    /// Takes in bytes of the server.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
        let Some(format) = self.segments else {
            self.unwrapped.append(&mut self.arrived);
            return;
        };
        while let Some((segment, length)) = format.decode(&self.arrived).unwrap() {
            self.unwrapped.extend_from_slice(&segment.payload);
            self.arrived.drain(..length);
        }
    }

    /// The next response, if it has arrived whole.
    pub(crate) fn next(&mut self) -> Option<Decoded> {
        let header = self.unwrapped.first_chunk::<HEADER_LENGTH>()?;
        let length = i32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let whole = HEADER_LENGTH + usize::try_from(length).unwrap();
        if self.unwrapped.len() < whole {
            return None;
        }
        let mut envelope: Vec<u8> = self.unwrapped.drain(..whole).collect();
        if let Some(compression) = self
            .compression
            .filter(|_| envelope[1] & flag::COMPRESSED != 0)
        {
            let body = compression
                .decompress(&envelope[HEADER_LENGTH..], 1 << 24)
                .unwrap();
            envelope.truncate(HEADER_LENGTH);
            envelope[1] &= !flag::COMPRESSED;
            let length = i32::try_from(body.len()).unwrap().to_be_bytes();
            envelope[5..].copy_from_slice(&length);
            envelope.extend(body);
        }
        Some(decode_response(&envelope).unwrap())
    }
}
