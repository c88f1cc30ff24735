//! A bounded fuzzer: random bytes and damaged goldens never panic and never cost more than their
//! limit.

use bytes::Bytes;
use proptest::prelude::*;

use super::decode_response;
use super::golden::goldens;
use crate::wire::header::HEADER_LENGTH;
use crate::wire::request::{Request, RequestEnvelope};
use crate::wire::{Compression, Inbound};

const LIMIT: usize = 4096;

/// Reads everything that these bytes hold.
fn drain(bytes: &[u8], segments: Option<Option<Compression>>) {
    let mut inbound = Inbound::new(LIMIT);
    if let Some(compression) = segments {
        inbound.expect_segments(compression);
    }
    inbound.buffer().extend_from_slice(bytes);
    for _ in 0..=bytes.len() {
        match inbound.next() {
            Ok(Some(envelope)) => {
                for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
                    let Ok(body) = envelope.plain_body(compression, LIMIT) else {
                        continue;
                    };
                    assert!(body.len() <= LIMIT.max(envelope.body.len()));
                    if let Ok(decoded) = RequestEnvelope::decode(envelope.header, &body) {
                        assert!(items(&decoded) <= body.len());
                    }
                }
            }
            Ok(None) => return,
            Err(refusal) => {
                let answer = refusal.encode(inbound.version());
                assert!(answer.len() > HEADER_LENGTH - 1);
                if refusal.ends_connection {
                    return;
                }
            }
        }
    }
}

/// How many things were reserved for this request.
fn items(envelope: &RequestEnvelope<'_>) -> usize {
    let of_request = match &envelope.request {
        Request::Startup(options) => options.len(),
        Request::Register(kinds) => kinds.len(),
        Request::Query(query) => query.parameters.values.capacity(),
        Request::Execute(execute) => execute.parameters.values.capacity(),
        Request::Batch(batch) => {
            batch.queries.capacity() + batch.queries.iter().map(|q| q.values.len()).sum::<usize>()
        }
        Request::Options | Request::Prepare(_) | Request::AuthResponse(_) => 0,
    };
    of_request + envelope.payload.len()
}

/// A place, as a share of the length, and what is put there.
fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![Just(0xff), Just(0x80), Just(0x7f), Just(0), any::<u8>()];
    prop::collection::vec((any::<prop::sample::Index>(), byte), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), mode in 0..3) {
        let segments = [None, Some(None), Some(Some(Compression::Lz4))];
        drain(&bytes, segments[usize::try_from(mode).unwrap()]);
    }

    #[test]
    fn random_bodies_never_panic(
        body in prop::collection::vec(any::<u8>(), 0..200),
        version in 3u8..6,
        flags: u8,
        opcode in 0u8..0x11,
    ) {
        let mut bytes = vec![version, flags, 0, 1, opcode];
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(&body);
        drain(&bytes, None);
    }

    #[test]
    fn damaged_goldens_never_panic(which: prop::sample::Index, damage in damage()) {
        let goldens = goldens();
        let mut bytes = which.get(&goldens).bytes.clone();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        drain(&bytes, None);
    }

    /// The client's half panics on numbers that no server sends, but never on what ours sends cut.
    #[test]
    fn cut_responses_are_errors(end: prop::sample::Index) {
        let response = crate::wire::Response::Error(crate::error::CqlError::syntax("words"));
        let mut bytes = Vec::new();
        let extras = crate::wire::Extras::default();
        response.encode(crate::wire::Version::V4, 1, &extras, &mut bytes);
        let bytes = Bytes::from(bytes);
        prop_assert!(decode_response(&bytes[..end.index(bytes.len())]).is_err());
    }
}
