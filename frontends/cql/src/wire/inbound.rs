//! Cuts the bytes of a connection into envelopes, with or without segments.

use bytes::{Buf, Bytes, BytesMut};

use super::error::WireError;
use super::header::{HEADER_LENGTH, Header};
use super::response::{Extras, Response};
use super::segment::SegmentFormat;
use super::{Compression, Version};
use crate::error::CqlError;

/// A body from this size on does not share its memory with what follows.
const LARGE_BODY: usize = 32 << 10;
/// The longest segment, and a little.
const SEGMENT_BYTES: usize = 132 << 10;

/// One message: its header, and its body as it travelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) header: Header,
    pub(crate) body: Bytes,
}

/// From this length on a body is not read beside other requests.
const SLOW_BODY: usize = 64 << 10;

impl Envelope {
    /// Whether it takes time to read its body.
    pub(crate) fn is_large(&self) -> bool {
        self.body.len() >= SLOW_BODY
    }
}

/// Bytes that are no envelope, with what is needed to say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The stream that the message named.
    pub(crate) stream: i16,
    pub(crate) error: WireError,
    /// Whether what follows cannot be read either.
    pub(crate) ends_connection: bool,
    /// For versions so old that their headers are shorter: the version to answer in.
    ancient: Option<u8>,
}

/// The bytes that have arrived and not been read.
#[derive(Debug)]
pub(crate) struct Inbound {
    arrived: BytesMut,
    /// Envelopes taken out of segments. Unused without segments.
    unwrapped: BytesMut,
    /// Whether `unwrapped` is a part of a large envelope.
    is_slice: bool,
    segments: Option<SegmentFormat>,
    /// The version of the first envelope, which all others must have.
    version: Option<Version>,
    /// How much of a refused body is still to come.
    skip: usize,
    body_limit: usize,
}

impl Inbound {
    pub(crate) fn new(body_limit: usize) -> Self {
        Self {
            arrived: BytesMut::new(),
            unwrapped: BytesMut::new(),
            is_slice: false,
            segments: None,
            version: None,
            skip: 0,
            body_limit,
        }
    }

    /// Where arriving bytes go.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.arrived
    }

    /// The version that the client speaks, once it has spoken.
    pub(crate) fn version(&self) -> Option<Version> {
        self.version
    }

    /// From here on envelopes travel in segments: version 5, after STARTUP was answered.
    pub(crate) fn expect_segments(&mut self, compression: Option<Compression>) {
        self.segments = Some(SegmentFormat::of(compression));
    }

    /// How large bodies may be from now on.
    pub(crate) fn limit_bodies(&mut self, body_limit: usize) {
        self.body_limit = body_limit;
    }

    /// How many bytes must be here for the next envelope, as far as its header says it. What is
    /// beyond the limit is never kept.
    pub(crate) fn wanted(&self) -> usize {
        let Some((header, beside)) = self.next_header() else {
            return 0;
        };
        let wanted = HEADER_LENGTH.saturating_add(header.length);
        match self.skip > 0 || header.length > self.body_limit {
            true => 0,
            false => wanted + beside,
        }
    }

    /// The header of the next envelope, and how many bytes travel beside it.
    fn next_header(&self) -> Option<(Header, usize)> {
        let (bytes, beside) = match self.segments {
            None => (&self.arrived, 0),
            Some(_) => (&self.unwrapped, SEGMENT_BYTES),
        };
        let header = Header::decode(bytes.first_chunk::<HEADER_LENGTH>()?).ok()?;
        Some((header, beside))
    }

    /// Refuses the next envelope, of which the rest is not kept.
    pub(crate) fn refuse_next(&mut self, error: WireError) -> Refusal {
        let Some((header, _)) = self.next_header() else {
            return Refusal::fatal(error);
        };
        let is_framed = self.segments.is_some();
        if !is_framed {
            let whole = header.length.saturating_add(HEADER_LENGTH);
            let here = whole.min(self.arrived.len());
            self.arrived.advance(here);
            self.skip = whole - here;
        }
        Refusal {
            stream: header.stream,
            // The rest of it travels in segments to come, which nothing tells apart from others.
            ends_connection: is_framed,
            ..Refusal::fatal(error)
        }
    }

    /// The next envelope. None if it has not arrived whole.
    pub(crate) fn next(&mut self) -> Result<Option<Envelope>, Refusal> {
        let Some(format) = self.segments else {
            let skipped = self.skip.min(self.arrived.len());
            self.arrived.advance(skipped);
            self.skip -= skipped;
            return cut(&mut self.arrived, &mut self.version, self.body_limit).map_err(|refusal| {
                self.skip = refusal.skip;
                refusal.refusal
            });
        };
        loop {
            if !self.unwrapped.is_empty()
                && let Some(envelope) = self.next_unwrapped()?
            {
                return Ok(Some(envelope));
            }
            let Some((segment, length)) = format.decode(&self.arrived).map_err(Refusal::fatal)?
            else {
                return Ok(None);
            };
            if self.is_slice && segment.is_self_contained {
                let mixed = "A large message was interrupted by another segment";
                return Err(Refusal::fatal(WireError::NotAllowed(mixed)));
            }
            self.is_slice = !segment.is_self_contained;
            self.unwrapped.extend_from_slice(&segment.payload);
            self.arrived.advance(length);
        }
    }

    fn next_unwrapped(&mut self) -> Result<Option<Envelope>, Refusal> {
        let cut = cut(&mut self.unwrapped, &mut self.version, self.body_limit);
        let envelope = cut.map_err(|oversized| Refusal {
            // The rest of it travels in segments to come, which nothing tells apart from others.
            ends_connection: true,
            ..oversized.refusal
        })?;
        match envelope {
            Some(_) if self.is_slice && !self.unwrapped.is_empty() => {
                let more = "More than one message in the slices of a large one";
                Err(Refusal::fatal(WireError::NotAllowed(more)))
            }
            None if !self.is_slice => {
                let part = "A self-contained segment ends within a message";
                Err(Refusal::fatal(WireError::NotAllowed(part)))
            }
            Some(envelope) => {
                self.is_slice = false;
                Ok(Some(envelope))
            }
            None => Ok(None),
        }
    }
}

/// A refusal, and how many bytes to ignore after it.
struct Skipping {
    refusal: Refusal,
    skip: usize,
}

impl From<Refusal> for Skipping {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, skip: 0 }
    }
}

/// Takes one envelope off the front.
fn cut(
    bytes: &mut BytesMut,
    version: &mut Option<Version>,
    limit: usize,
) -> Result<Option<Envelope>, Skipping> {
    refuse_unknown_version(bytes)?;
    let Some(header) = bytes.first_chunk::<HEADER_LENGTH>() else {
        return Ok(None);
    };
    let stream = stream_of(header);
    let header = Header::decode(header).map_err(|error| Refusal {
        stream,
        ..Refusal::fatal(error)
    })?;
    if *version.get_or_insert(header.version) != header.version {
        let error = WireError::NotAllowed(
            "Invalid message version: previous messages on this connection had another one",
        );
        return Err(Refusal {
            stream,
            ..Refusal::fatal(error)
        }
        .into());
    }
    if header.length > limit {
        let (length, limit) = (header.length as u64, limit as u64);
        let error = WireError::TooLarge { length, limit };
        let whole = header.length.saturating_add(HEADER_LENGTH);
        let here = whole.min(bytes.len());
        bytes.advance(here);
        let refusal = Refusal {
            stream,
            ends_connection: false,
            ..Refusal::fatal(error)
        };
        return Err(Skipping {
            refusal,
            skip: whole - here,
        });
    }
    if bytes.len() < HEADER_LENGTH + header.length {
        return Ok(None);
    }
    bytes.advance(HEADER_LENGTH);
    let body = bytes.split_to(header.length).freeze();
    if body.len() > LARGE_BODY {
        // What comes next would keep the memory of this one.
        *bytes = BytesMut::from(bytes.as_ref());
    }
    Ok(Some(Envelope { header, body }))
}

fn stream_of(header: &[u8; HEADER_LENGTH]) -> i16 {
    let [_, _, high, low, ..] = *header;
    i16::from_be_bytes([high, low])
}

/// Other versions are told by the first byte, and refused as soon as the stream is known: their
/// headers may be shorter than ours.
fn refuse_unknown_version(bytes: &[u8]) -> Result<(), Refusal> {
    let (number, stream, ancient) = match *bytes {
        [number @ 1..=2, _, stream, ..] => (number, i16::from(stream.cast_signed()), Some(number)),
        [3..=5, ..] | [1..=2, ..] => return Ok(()),
        [number, _, high, low, ..] if number & 0x80 == 0 => {
            (number, i16::from_be_bytes([high, low]), None)
        }
        _ => return Ok(()),
    };
    let error = WireError::UnsupportedVersion(number);
    Err(Refusal {
        stream,
        ancient,
        ..Refusal::fatal(error)
    })
}

impl Refusal {
    fn fatal(error: WireError) -> Self {
        Self {
            stream: 0,
            error,
            ends_connection: true,
            ancient: None,
        }
    }

    /// The error to answer, outside of segments. `version` is what the connection speaks; unknown
    /// versions are refused in one that clients can read.
    pub(crate) fn encode(&self, version: Option<Version>) -> Vec<u8> {
        let version = version.unwrap_or(Version::CURRENT);
        let response = Response::Error(CqlError::from(self.error.clone()));
        let mut out = Vec::new();
        response.encode(version, self.stream, &Extras::default(), &mut out);
        let (Some(ancient), Some((header, body))) =
            (self.ancient, out.split_first_chunk::<HEADER_LENGTH>())
        else {
            return out;
        };
        // Before version 3 the stream took one byte.
        let [_, flags, _, stream, opcode, length @ ..] = *header;
        let mut short = vec![0x80 | ancient, flags, stream, opcode];
        short.extend_from_slice(&length);
        short.extend_from_slice(body);
        short
    }
}

impl SegmentFormat {
    /// Segments know one compression only; STARTUP refuses the other.
    pub(super) fn of(compression: Option<Compression>) -> Self {
        match compression {
            None => Self::Plain,
            Some(Compression::Lz4 | Compression::Snappy) => Self::Lz4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::hex;
    use crate::wire::{Opcode, WireError};

    const LIMIT: usize = 1 << 20;

    fn envelope(stream: i16, body: &[u8]) -> Vec<u8> {
        let mut out = vec![5, 0];
        out.extend(stream.to_be_bytes());
        out.push(Opcode::Query as u8);
        out.extend(i32::try_from(body.len()).unwrap().to_be_bytes());
        out.extend(body);
        out
    }

    fn fed(bytes: &[u8]) -> Inbound {
        let mut inbound = Inbound::new(LIMIT);
        inbound.buffer().extend_from_slice(bytes);
        inbound
    }

    #[test]
    fn envelopes_arrive_in_any_pieces() {
        let bytes = [
            envelope(1, b"abc"),
            envelope(2, b""),
            envelope(3, &[7; 300]),
        ]
        .concat();
        for size in [1, 2, 5, 9, 100, 1000] {
            let mut inbound = Inbound::new(LIMIT);
            let mut streams = Vec::new();
            for piece in bytes.chunks(size) {
                inbound.buffer().extend_from_slice(piece);
                while let Some(envelope) = inbound.next().unwrap() {
                    streams.push((envelope.header.stream, envelope.body.len()));
                }
            }
            assert_eq!(streams, [(1, 3), (2, 0), (3, 300)]);
        }
    }

    #[test]
    fn segments_carry_small_and_large_envelopes() {
        for compression in [None, Some(Compression::Lz4)] {
            let format = SegmentFormat::of(compression);
            let mut bytes = Vec::new();
            format.encode(
                &[envelope(1, b"a"), envelope(2, b"b")].concat(),
                true,
                &mut bytes,
            );
            for slice in envelope(3, &[9; 300_000]).chunks(super::super::segment::PAYLOAD_LIMIT) {
                format.encode(slice, false, &mut bytes);
            }
            format.encode(&envelope(4, b"d"), true, &mut bytes);
            let mut inbound = Inbound::new(LIMIT);
            inbound.expect_segments(compression);
            let mut streams = Vec::new();
            for piece in bytes.chunks(1000) {
                inbound.buffer().extend_from_slice(piece);
                while let Some(envelope) = inbound.next().unwrap() {
                    streams.push(envelope.header.stream);
                }
            }
            assert_eq!(streams, [1, 2, 3, 4]);
        }
    }

    #[test]
    fn segments_must_hold_what_they_say() {
        let whole = envelope(1, b"abc");
        let cases: [&[(&[u8], bool)]; 3] = [
            &[(&whole[..5], true)],
            &[(&whole[..10], false), (&whole, true)],
            &[(&[whole.clone(), whole.clone()].concat(), false)],
        ];
        for segments in cases {
            let mut inbound = Inbound::new(LIMIT);
            inbound.expect_segments(None);
            for (payload, is_self_contained) in segments {
                let mut out = Vec::new();
                SegmentFormat::Plain.encode(payload, *is_self_contained, &mut out);
                inbound.buffer().extend_from_slice(&out);
            }
            let refusal = inbound.next().unwrap_err();
            assert!(
                matches!(refusal.error, WireError::NotAllowed(_)),
                "{refusal:?}"
            );
            assert!(refusal.ends_connection);
        }
    }

    #[test]
    fn a_large_body_is_refused_and_skipped() {
        let mut inbound = Inbound::new(100);
        inbound
            .buffer()
            .extend_from_slice(&envelope(7, &[1; 101])[..50]);
        let refusal = inbound.next().unwrap_err();
        assert_eq!((refusal.stream, refusal.ends_connection), (7, false));
        assert_eq!(
            refusal.error.to_string(),
            "Request is too big: length 101 exceeds maximum allowed length 100."
        );
        assert_eq!(inbound.next(), Ok(None));
        inbound
            .buffer()
            .extend_from_slice(&envelope(7, &[1; 101])[50..]);
        inbound.buffer().extend_from_slice(&envelope(8, &[1; 100]));
        assert_eq!(inbound.next().unwrap().unwrap().header.stream, 8);
    }

    /// The first bytes of cqlsh: OPTIONS in version 0x42.
    #[test]
    fn unknown_versions_are_refused_on_their_stream() {
        let refusal = fed(&hex("420000050500000000")).next().unwrap_err();
        assert_eq!((refusal.stream, refusal.ends_connection), (5, true));
        let answer = refusal.encode(None);
        assert_eq!(answer[..5], hex("8500000500"));
        assert_eq!(answer[9..13], hex("0000000a"));
        let text = "Invalid or unsupported protocol version (66); \
                    supported versions are (3/v3, 4/v4, 5/v5)";
        assert_eq!(answer[15..], *text.as_bytes());
    }

    #[test]
    fn versions_with_short_headers_are_answered_with_short_headers() {
        let refusal = fed(&hex("0200070500000000")).next().unwrap_err();
        let answer = refusal.encode(None);
        assert_eq!(answer[..4], hex("82000700"));
        assert_eq!(usize::from(answer[7]) + 8, answer.len());
    }

    #[test]
    fn bad_headers_are_refused() {
        for (bytes, message) in [
            (
                "0400000107ffffffff",
                "Invalid value for envelope header body length field: -1",
            ),
            ("040000010800000000", "Invalid opcode: 8"),
            ("040000010400000000", "Invalid opcode: 4"),
            ("0400ffff0700000000", "Invalid stream id: -1"),
            ("840000010700000000", "A response was sent as a request"),
        ] {
            let refusal = fed(&hex(bytes)).next().unwrap_err();
            assert_eq!(refusal.error.to_string(), message);
            assert!(refusal.ends_connection);
        }
    }

    #[test]
    fn the_version_of_a_connection_stays() {
        let mut inbound = fed(&hex("040000010500000000 030000010500000000"));
        assert!(inbound.next().unwrap().is_some());
        assert_eq!(inbound.version(), Some(Version::V4));
        assert!(inbound.next().is_err());
    }
}
