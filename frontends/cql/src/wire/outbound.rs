//! Wraps responses for one connection: compressed bodies before version 5, segments from then on.

use super::header::HEADER_LENGTH;
use super::response::{Extras, Response};
use super::segment::{PAYLOAD_LIMIT, SegmentFormat};
use super::{Compression, Version, flag, writer};

/// Responses that are ready to leave in one write.
#[derive(Debug)]
pub(crate) struct Outbound {
    version: Version,
    compression: Option<Compression>,
    segments: Option<SegmentFormat>,
    /// Whole envelopes that fill the segment to come.
    group: Vec<u8>,
    ready: Vec<u8>,
}

impl Outbound {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            compression: None,
            segments: None,
            group: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// From here on the answers use what STARTUP agreed on. Called after STARTUP was answered.
    pub(crate) fn start(&mut self, compression: Option<Compression>) {
        self.flush();
        if self.version.is_framed() {
            self.segments = Some(SegmentFormat::of(compression));
        } else {
            self.compression = compression;
        }
    }

    /// Adds one response.
    pub(crate) fn push(&mut self, stream: i16, response: &Response, extras: &Extras) {
        let Some(format) = self.segments else {
            let start = self.ready.len();
            response.encode(self.version, stream, extras, &mut self.ready);
            if let Some(compression) = self.compression {
                compress_body(&mut self.ready, start, compression);
            }
            return;
        };
        let start = self.group.len();
        response.encode(self.version, stream, extras, &mut self.group);
        if self.group.len() <= PAYLOAD_LIMIT {
            return;
        }
        let envelope = self.group.split_off(start);
        self.flush();
        if envelope.len() <= PAYLOAD_LIMIT {
            self.group = envelope;
            return;
        }
        for slice in envelope.chunks(PAYLOAD_LIMIT) {
            format.encode(slice, false, &mut self.ready);
        }
    }

    /// About how many bytes wait to leave.
    pub(crate) fn len(&self) -> usize {
        self.group.len() + self.ready.len()
    }

    /// Everything that was added, as it travels.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.flush();
        std::mem::take(&mut self.ready)
    }

    fn flush(&mut self) {
        if let Some(format) = self.segments
            && !self.group.is_empty()
        {
            format.encode(&self.group, true, &mut self.ready);
            self.group.clear();
        }
    }
}

/// Compresses the body of the envelope at `start`, if that makes it shorter.
fn compress_body(bytes: &mut Vec<u8>, start: usize, compression: Compression) {
    let envelope = bytes.get_mut(start..).unwrap_or_default();
    let Some((header, body)) = envelope.split_first_chunk_mut::<HEADER_LENGTH>() else {
        return;
    };
    let Some(compressed) = compression.compress(body) else {
        return;
    };
    let [version, flags, high, low, opcode, ..] = *header;
    bytes.truncate(start);
    bytes.extend_from_slice(&[version, flags | flag::COMPRESSED, high, low, opcode]);
    writer::put_length(bytes, compressed.len());
    bytes.extend_from_slice(&compressed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{decode_response, hex};

    fn long_answer() -> Response {
        Response::Authenticate("a".repeat(60_000))
    }

    #[test]
    fn bodies_are_compressed_before_version_5() {
        for compression in [Compression::Lz4, Compression::Snappy] {
            let mut outbound = Outbound::new(Version::V4);
            outbound.push(0, &Response::Ready, &Extras::default());
            assert_eq!(outbound.take(), hex("840000000200000000"));
            outbound.start(Some(compression));
            outbound.push(0, &Response::Ready, &Extras::default());
            outbound.push(3, &long_answer(), &Extras::default());
            let bytes = outbound.take();
            assert!(bytes.starts_with(&hex("840000000200000000 8401000303")));
            let body = compression.decompress(&bytes[18..], 1 << 20).unwrap();
            let header = [0x84, 0, 0, 3, 3];
            let length = i32::try_from(body.len()).unwrap().to_be_bytes();
            let plain = [&header[..], &length, &body].concat();
            assert_eq!(decode_response(&plain).unwrap().response, long_answer());
        }
    }

    #[test]
    fn segments_group_small_answers_and_slice_large_ones() {
        let answers = [Response::Ready, long_answer(), long_answer(), long_answer()];
        let large = Response::AuthChallenge(vec![7; 200_000]);
        for compression in [None, Some(Compression::Lz4)] {
            let mut outbound = Outbound::new(Version::V5);
            outbound.push(0, &Response::Ready, &Extras::default());
            assert_eq!(outbound.take(), hex("850000000200000000"));
            outbound.start(compression);
            for answer in answers.iter().chain([&large, &Response::Ready]) {
                outbound.push(1, answer, &Extras::default());
            }
            let bytes = outbound.take();
            let format = SegmentFormat::of(compression);
            let (mut rest, mut kinds, mut envelopes) = (bytes.as_slice(), vec![], vec![]);
            while let Some((segment, length)) = format.decode(rest).unwrap() {
                kinds.push((segment.is_self_contained, segment.payload.len()));
                envelopes.extend_from_slice(&segment.payload);
                rest = &rest[length..];
            }
            assert!(rest.is_empty());
            let long = 9 + 2 + 60_000;
            let expected = [
                (true, 9 + 2 * long),
                (true, long),
                (false, 131_071),
                (false, 68_942),
                (true, 9),
            ];
            assert_eq!(kinds, expected);
            let mut rest = envelopes.as_slice();
            for answer in answers.iter().chain([&large, &Response::Ready]) {
                let decoded = decode_response(rest).unwrap();
                assert_eq!(&decoded.response, answer);
                rest = &rest[decoded.length..];
            }
        }
    }
}
