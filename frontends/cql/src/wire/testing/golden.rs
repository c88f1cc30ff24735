//! Requests written out byte for byte.
//!
//! Those of a named client have the texts, options and flags that were recorded of it. The
//! recordings keep no page sizes and timestamps, and no bodies of EXECUTE and BATCH: these are
//! written after the specification.

use crate::wire::request::RequestEnvelope;
use crate::wire::testing::{encode_request, hex};
use crate::wire::{
    Batch, BatchKind, BatchQuery, Consistency, Execute, Inbound, Parameters, Prepare, Query,
    QueryOrId, Request, Value, Version,
};

/// Who sent it, its bytes, and what they say.
pub(super) struct Golden {
    client: &'static str,
    pub(super) bytes: Vec<u8>,
    version: Version,
    stream: i16,
    envelope: RequestEnvelope<'static>,
}

fn golden(
    client: &'static str,
    (header, body): (&str, &[u8]),
    (version, stream): (Version, i16),
    request: Request<'static>,
) -> Golden {
    let mut bytes = hex(header);
    bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    bytes.extend(body);
    let wants_tracing = bytes[1] & 2 != 0;
    let envelope = RequestEnvelope {
        request,
        payload: Vec::new(),
        wants_tracing,
    };
    Golden {
        client,
        bytes,
        version,
        stream,
        envelope,
    }
}

fn parameters(consistency: Consistency) -> Parameters<'static> {
    Parameters::new(consistency)
}

const KINDS: [&str; 3] = ["TOPOLOGY_CHANGE", "STATUS_CHANGE", "SCHEMA_CHANGE"];
const MICROS: i64 = 1_700_000_000_000_000;

pub(super) fn goldens() -> Vec<Golden> {
    let mut all = connecting();
    all.extend(querying());
    all.extend(writing());
    all
}

fn connecting() -> Vec<Golden> {
    let python = vec![
        ("DRIVER_NAME", "Apache Cassandra Python Driver"),
        ("DRIVER_VERSION", "3.30.1"),
        ("CQL_VERSION", "3.4.7"),
    ];
    vec![
        golden(
            "cqlsh 6.2.2",
            ("0400000005", b""),
            (Version::V4, 0),
            Request::Options,
        ),
        golden(
            "cqlsh 6.2.2",
            ("0500000005", b""),
            (Version::V5, 0),
            Request::Options,
        ),
        golden(
            "cqlsh 6.2.2",
            (
                "0400000101",
                b"\0\x03\0\x0bDRIVER_NAME\0\x1eApache Cassandra Python Driver\
                  \0\x0eDRIVER_VERSION\0\x063.30.1\0\x0bCQL_VERSION\0\x053.4.7",
            ),
            (Version::V4, 1),
            Request::Startup(python),
        ),
        golden(
            "cdrs-tokio 9 without a name",
            ("0400000101", b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"),
            (Version::V4, 1),
            Request::Startup(vec![("CQL_VERSION", "3.0.0")]),
        ),
        golden(
            "cqlsh 6.2.2",
            ("040000020f", b"\0\0\0\x14\0cassandra\0cassandra"),
            (Version::V4, 2),
            Request::AuthResponse(Some(b"\0cassandra\0cassandra")),
        ),
        golden(
            "Python driver 3.30.1",
            (
                "050000020b",
                b"\0\x03\0\x0fTOPOLOGY_CHANGE\0\rSTATUS_CHANGE\0\rSCHEMA_CHANGE",
            ),
            (Version::V5, 2),
            Request::Register(KINDS.to_vec()),
        ),
    ]
}

fn querying() -> Vec<Golden> {
    let peers = "SELECT * FROM system.peers_v2";
    let query = |query, parameters| Request::Query(Query { query, parameters });
    let mut paged = parameters(Consistency::One);
    paged.page_size = Some(100);
    paged.timestamp = Some(MICROS);
    let mut serial = paged.clone();
    serial.consistency = Consistency::Quorum;
    serial.serial_consistency = Some(Consistency::Serial);
    vec![
        golden(
            "Python driver 3.30.1",
            (
                "0400000407",
                b"\0\0\0\x1dSELECT * FROM system.peers_v2\0\x01\0",
            ),
            (Version::V4, 4),
            query(peers, parameters(Consistency::One)),
        ),
        golden(
            "Python driver 3.30.1",
            (
                "0500000307",
                b"\0\0\0\x1dSELECT * FROM system.peers_v2\0\x01\0\0\0\0",
            ),
            (Version::V5, 3),
            query(peers, parameters(Consistency::One)),
        ),
        golden(
            "cqlsh 6.2.2, its own question",
            (
                "0400000307",
                b"\0\0\0\x13SELECT * FROM ks.t;\0\x01\x24\0\0\0\x64\0\x06\x0a\x24\x18\x1e\x40\0",
            ),
            (Version::V4, 3),
            query("SELECT * FROM ks.t;", paged),
        ),
        golden(
            "cqlsh 6.2.2, tracing",
            (
                "0402000607",
                b"\0\0\0\x13SELECT * FROM ks.t;\0\x04\x34\0\0\0\x64\0\x08\
                  \0\x06\x0a\x24\x18\x1e\x40\0",
            ),
            (Version::V4, 6),
            query("SELECT * FROM ks.t;", serial),
        ),
    ]
}

fn writing() -> Vec<Golden> {
    let text = "INSERT INTO ks.t (pk, v) VALUES (?, ?)";
    let mut bound = parameters(Consistency::LocalOne);
    bound.skip_metadata = true;
    bound.values = vec![Value::Bytes(&[0, 0, 0, 1]), Value::Null, Value::Unset];
    vec![
        golden(
            "cqlsh 6.2.2, COPY FROM",
            (
                "0500000309",
                b"\0\0\0\x26INSERT INTO ks.t (pk, v) VALUES (?, ?)\0\0\0\0",
            ),
            (Version::V5, 3),
            Request::Prepare(Prepare {
                query: text,
                keyspace: None,
            }),
        ),
        golden(
            "after the specification",
            (
                "040000010a",
                b"\0\x02\xab\xcd\0\x0a\x03\0\x03\0\0\0\x04\0\0\0\x01\
                  \xff\xff\xff\xff\xff\xff\xff\xfe",
            ),
            (Version::V4, 1),
            Request::Execute(Execute {
                id: &[0xab, 0xcd],
                result_metadata_id: None,
                parameters: bound,
            }),
        ),
        golden(
            "after the specification",
            (
                "050000040d",
                b"\x01\0\x01\x01\0\x01\x07\0\x01\0\0\0\x01z\0\x01\0\0\0\0",
            ),
            (Version::V5, 4),
            Request::Batch(Batch {
                kind: BatchKind::Unlogged,
                queries: vec![BatchQuery {
                    query: QueryOrId::Id(&[7]),
                    values: vec![Value::Bytes(b"z")],
                }],
                parameters: parameters(Consistency::One),
            }),
        ),
    ]
}

const LIMIT: usize = 1 << 20;

#[test]
fn goldens_are_read_and_written_back() {
    for golden in goldens() {
        let mut inbound = Inbound::new(LIMIT);
        inbound.buffer().extend_from_slice(&golden.bytes);
        let envelope = inbound.next().unwrap().unwrap();
        assert_eq!(envelope.header.stream, golden.stream, "{}", golden.client);
        let body = envelope.plain_body(None, LIMIT).unwrap();
        let decoded = RequestEnvelope::decode(envelope.header, &body).unwrap();
        assert_eq!(decoded, golden.envelope, "{}", golden.client);
        let again = encode_request(&decoded, golden.version, golden.stream);
        assert_eq!(again, golden.bytes, "{}", golden.client);
    }
}

/// Cut anywhere, a body under a header that tells the shorter length is an error.
#[test]
fn every_truncation_of_every_golden_is_an_error() {
    let mut cut = 0;
    for golden in goldens() {
        let mut inbound = Inbound::new(LIMIT);
        inbound.buffer().extend_from_slice(&golden.bytes);
        let envelope = inbound.next().unwrap().unwrap();
        for end in 0..envelope.body.len() {
            let short = RequestEnvelope::decode(envelope.header, &envelope.body[..end]);
            assert!(short.is_err(), "{} at {end}", golden.client);
            cut += 1;
        }
        let mut longer = envelope.body.to_vec();
        longer.push(0);
        assert!(RequestEnvelope::decode(envelope.header, &longer).is_err());
        for end in 0..golden.bytes.len() {
            let mut inbound = Inbound::new(LIMIT);
            inbound.buffer().extend_from_slice(&golden.bytes[..end]);
            assert_eq!(inbound.next(), Ok(None));
        }
    }
    assert!(cut > 300);
}
