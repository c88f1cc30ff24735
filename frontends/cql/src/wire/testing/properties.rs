//! Whatever can be said comes back as it was said.

use proptest::prelude::*;

use super::{decode_response, encode_request};
use crate::error::{Answers, CqlError, ErrorKind, Failure};
use crate::types::{DataType, Native, UserType};
use crate::wire::request::RequestEnvelope;
use crate::wire::response::{
    ChangeTarget, ChangeType, ColumnSpec, Event, Extras, Metadata, NodeChange, Prepared, Response,
    ResultBody, Rows, SchemaChange,
};
use crate::wire::{
    Batch, BatchKind, BatchQuery, Consistency, Execute, Inbound, Parameters, Prepare, Query,
    QueryOrId, Request, Value, Version, WriteType,
};

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "a", "SELECT 1", "é日本", "key with ' and \""])
}

fn name() -> impl Strategy<Value = String> {
    text().prop_map(str::to_owned)
}

fn bytes() -> impl Strategy<Value = &'static [u8]> {
    prop::sample::select(vec![&b""[..], b"\0", b"\xff\xfe", b"0123456789"])
}

fn consistency() -> impl Strategy<Value = Consistency> + Clone {
    prop::sample::select(Consistency::ALL_LEVELS)
}

fn values() -> impl Strategy<Value = Vec<Value<'static>>> {
    let value = prop_oneof![
        Just(Value::Null),
        Just(Value::Unset),
        bytes().prop_map(Value::Bytes)
    ];
    prop::collection::vec(value, 0..4)
}

fn parameters() -> impl Strategy<Value = Parameters<'static>> {
    let first = (consistency(), values(), any::<bool>(), any::<bool>());
    let options = (
        any::<Option<i32>>(),
        prop::option::of(bytes()),
        prop::option::of(consistency()),
    );
    let last = (
        any::<Option<i64>>(),
        prop::option::of(text()),
        any::<Option<i32>>(),
    );
    (first, options, last).prop_map(|(first, options, last)| {
        let (consistency, values, is_named, skip_metadata) = first;
        let names = (is_named && !values.is_empty()).then(|| vec!["n"; values.len()]);
        Parameters {
            consistency,
            values,
            names,
            skip_metadata,
            page_size: options.0,
            paging_state: options.1,
            serial_consistency: options.2,
            timestamp: last.0.filter(|timestamp| *timestamp != i64::MIN),
            keyspace: last.1,
            now_in_seconds: last.2,
        }
    })
}

fn batch() -> impl Strategy<Value = Request<'static>> {
    let kinds = vec![BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter];
    let query = prop_oneof![
        text().prop_map(QueryOrId::Query),
        bytes().prop_map(QueryOrId::Id)
    ];
    let query = (query, values()).prop_map(|(query, values)| BatchQuery { query, values });
    let queries = prop::collection::vec(query, 0..4);
    (prop::sample::select(kinds), queries, parameters()).prop_map(|(kind, queries, parameters)| {
        let parameters = Parameters {
            values: Vec::new(),
            names: None,
            ..parameters
        };
        Request::Batch(Batch {
            kind,
            queries,
            parameters,
        })
    })
}

fn request() -> impl Strategy<Value = Request<'static>> {
    prop_oneof![
        Just(Request::Options),
        prop::collection::vec((text(), text()), 0..4).prop_map(Request::Startup),
        prop::sample::subsequence(vec!["STATUS_CHANGE", "SCHEMA_CHANGE"], 0..3)
            .prop_map(Request::Register),
        prop::option::of(bytes()).prop_map(Request::AuthResponse),
        (text(), parameters())
            .prop_map(|(query, parameters)| Request::Query(Query { query, parameters })),
        (text(), prop::option::of(text()))
            .prop_map(|(query, keyspace)| Request::Prepare(Prepare { query, keyspace })),
        (bytes(), bytes(), parameters()).prop_map(|(id, metadata, parameters)| {
            let result_metadata_id = Some(metadata);
            Request::Execute(Execute {
                id,
                result_metadata_id,
                parameters,
            })
        }),
        batch(),
    ]
}

/// What the version has no room for is not said.
fn suited(mut envelope: RequestEnvelope<'static>, version: Version) -> RequestEnvelope<'static> {
    let suit_values = |values: &mut Vec<Value<'_>>| {
        for value in values {
            if *value == Value::Unset && version == Version::V3 {
                *value = Value::Null;
            }
        }
    };
    let suit = |parameters: &mut Parameters<'_>| {
        suit_values(&mut parameters.values);
        if version != Version::V5 {
            parameters.keyspace = None;
            parameters.now_in_seconds = None;
        }
    };
    match &mut envelope.request {
        Request::Query(query) => suit(&mut query.parameters),
        Request::Execute(execute) => {
            suit(&mut execute.parameters);
            if version != Version::V5 {
                execute.result_metadata_id = None;
            }
        }
        Request::Batch(batch) => {
            suit(&mut batch.parameters);
            for query in &mut batch.queries {
                suit_values(&mut query.values);
            }
        }
        Request::Prepare(prepare) if version != Version::V5 => prepare.keyspace = None,
        _ => {}
    }
    if version == Version::V3 {
        envelope.payload.clear();
    }
    envelope
}

fn data_type() -> impl Strategy<Value = DataType> {
    let native = prop::sample::select(Native::ALL).prop_map(DataType::Native);
    native.prop_recursive(3, 12, 3, |inner| {
        let fields = prop::collection::vec((name(), inner.clone()), 0..3);
        prop_oneof![
            inner.clone().prop_map(DataType::list),
            inner.clone().prop_map(DataType::set),
            (inner.clone(), inner.clone()).prop_map(|(key, value)| DataType::map(key, value)),
            prop::collection::vec(inner, 0..3).prop_map(DataType::Tuple),
            (name(), name(), fields).prop_map(|(keyspace, name, fields)| {
                let definition = Box::new(UserType {
                    keyspace,
                    name,
                    fields,
                });
                DataType::User {
                    definition,
                    frozen: false,
                }
            }),
        ]
    })
}

fn columns() -> impl Strategy<Value = Vec<ColumnSpec>> {
    let column = (name(), name(), name(), data_type());
    let column = column.prop_map(|(keyspace, table, name, data_type)| ColumnSpec {
        keyspace,
        table,
        name,
        data_type,
    });
    prop::collection::vec(column, 0..4)
}

fn rows() -> impl Strategy<Value = Rows> {
    let options = (prop::option::of(bytes()), prop::option::of(bytes()));
    (columns(), options, 0usize..4, prop::option::of(bytes())).prop_map(
        |(columns, (paging, id), count, cell)| {
            let width = columns.len();
            let mut rows = Rows::new(Metadata {
                columns: columns.into(),
                paging_state: paging.map(<[u8]>::to_vec),
                skip_columns: false,
                new_metadata_id: id.map(<[u8]>::to_vec),
            });
            for _ in 0..count {
                rows.push(vec![cell; width]);
            }
            rows
        },
    )
}

fn prepared() -> impl Strategy<Value = Prepared> {
    let result = prop::option::of(columns());
    let key = prop::collection::vec(any::<u16>(), 0..3);
    (bytes(), bytes(), columns(), key, result).prop_map(
        |(id, metadata_id, markers, partition_key, result)| Prepared {
            id: id.to_vec(),
            result_metadata_id: metadata_id.to_vec(),
            markers,
            partition_key,
            result: result.map(Into::into),
        },
    )
}

fn schema_change() -> impl Strategy<Value = SchemaChange> {
    let changes = vec![
        ChangeType::Created,
        ChangeType::Updated,
        ChangeType::Dropped,
    ];
    let arguments = || prop::collection::vec(name(), 0..3);
    let target = prop_oneof![
        Just(ChangeTarget::Keyspace),
        name().prop_map(ChangeTarget::Table),
        name().prop_map(ChangeTarget::Type),
        (name(), arguments()).prop_map(|(name, types)| ChangeTarget::Function(name, types)),
        (name(), arguments()).prop_map(|(name, types)| ChangeTarget::Aggregate(name, types)),
    ];
    (prop::sample::select(changes), name(), target).prop_map(|(change, keyspace, target)| {
        SchemaChange {
            change,
            keyspace,
            target,
        }
    })
}

fn event() -> impl Strategy<Value = Event> {
    let changes = vec![
        NodeChange::New,
        NodeChange::Removed,
        NodeChange::Up,
        NodeChange::Down,
    ];
    let address = any::<(std::net::IpAddr, u16)>();
    let node = (prop::sample::select(changes), address);
    prop_oneof![
        node.clone()
            .prop_map(|(change, at)| Event::Topology(change, at.into())),
        node.prop_map(|(change, at)| Event::Status(change, at.into())),
        schema_change().prop_map(Event::Schema),
    ]
}

fn answers() -> impl Strategy<Value = Answers> + Clone {
    (consistency(), any::<i32>(), any::<i32>()).prop_map(|(consistency, received, required)| {
        Answers {
            consistency,
            received,
            required,
        }
    })
}

fn error_kind() -> impl Strategy<Value = ErrorKind> {
    prop_oneof![plain_error_kind(), named_error_kind(), replica_error_kind()]
}

fn plain_error_kind() -> impl Strategy<Value = ErrorKind> {
    prop::sample::select(vec![
        ErrorKind::Server,
        ErrorKind::Protocol,
        ErrorKind::BadCredentials,
        ErrorKind::Overloaded,
        ErrorKind::IsBootstrapping,
        ErrorKind::Truncate,
        ErrorKind::CdcWriteFailure,
        ErrorKind::Syntax,
        ErrorKind::Unauthorized,
        ErrorKind::Invalid,
        ErrorKind::Configuration,
    ])
}

fn named_error_kind() -> impl Strategy<Value = ErrorKind> {
    let types = prop::collection::vec(name(), 0..3);
    prop_oneof![
        (name(), name(), types).prop_map(|(keyspace, function, argument_types)| {
            ErrorKind::FunctionFailure {
                keyspace,
                function,
                argument_types,
            }
        }),
        (name(), name()).prop_map(|(keyspace, table)| ErrorKind::AlreadyExists { keyspace, table }),
        bytes().prop_map(|id| ErrorKind::Unprepared { id: id.to_vec() }),
    ]
}

fn replica_error_kind() -> impl Strategy<Value = ErrorKind> {
    let failure =
        any::<(std::net::IpAddr, u16)>().prop_map(|(address, reason)| Failure { address, reason });
    let failures = prop::collection::vec(failure, 0..3);
    let write_type = prop::sample::select(WriteType::ALL_TYPES);
    prop_oneof![
        answers().prop_map(|answers| ErrorKind::Unavailable {
            consistency: answers.consistency,
            required: answers.required,
            alive: answers.received,
        }),
        (answers(), write_type.clone(), any::<u16>()).prop_map(
            |(answers, write_type, contentions)| {
                let contentions = if write_type == WriteType::Cas {
                    contentions
                } else {
                    0
                };
                ErrorKind::WriteTimeout {
                    answers,
                    write_type,
                    contentions,
                }
            }
        ),
        (answers(), any::<bool>()).prop_map(|(answers, data_present)| ErrorKind::ReadTimeout {
            answers,
            data_present
        }),
        (answers(), failures.clone(), any::<bool>()).prop_map(
            |(answers, failures, data_present)| {
                ErrorKind::ReadFailure {
                    answers,
                    failures,
                    data_present,
                }
            }
        ),
        (answers(), failures, write_type).prop_map(|(answers, failures, write_type)| {
            ErrorKind::WriteFailure {
                answers,
                failures,
                write_type,
            }
        }),
        answers().prop_map(|answers| ErrorKind::CasWriteUnknown { answers }),
    ]
}

fn response() -> impl Strategy<Value = Response> {
    let options = prop::collection::vec((name(), prop::collection::vec(name(), 0..3)), 0..3);
    prop_oneof![
        (error_kind(), name())
            .prop_map(|(kind, message)| Response::Error(CqlError { kind, message })),
        Just(Response::Ready),
        name().prop_map(Response::Authenticate),
        options.prop_map(Response::Supported),
        Just(Response::Result(ResultBody::Void)),
        rows().prop_map(|rows| Response::Result(ResultBody::Rows(rows))),
        name().prop_map(|keyspace| Response::Result(ResultBody::SetKeyspace(keyspace))),
        prepared().prop_map(|prepared| Response::Result(ResultBody::Prepared(prepared))),
        schema_change().prop_map(|change| Response::Result(ResultBody::SchemaChange(change))),
        event().prop_map(Response::Event),
        bytes().prop_map(|token| Response::AuthChallenge(token.to_vec())),
        prop::option::of(bytes())
            .prop_map(|token| Response::AuthSuccess(token.map(<[u8]>::to_vec))),
    ]
}

fn extras() -> impl Strategy<Value = Extras> {
    let payload = prop::collection::vec((name(), bytes().prop_map(<[u8]>::to_vec)), 0..3);
    (
        any::<Option<[u8; 16]>>(),
        prop::collection::vec(name(), 0..3),
        payload,
    )
        .prop_map(|(tracing, warnings, payload)| Extras {
            tracing,
            warnings,
            payload,
        })
}

proptest! {
    #[test]
    fn requests_come_back(
        request in request(),
        payload in prop::collection::vec((text(), bytes()), 0..3),
        wants_tracing: bool,
        stream in 0..i16::MAX,
    ) {
        for version in [Version::V3, Version::V4, Version::V5] {
            let (request, payload) = (request.clone(), payload.clone());
            let envelope = RequestEnvelope { request, payload, wants_tracing };
            let envelope = suited(envelope, version);
            let bytes = encode_request(&envelope, version, stream);
            let mut inbound = Inbound::new(1 << 20);
            inbound.buffer().extend_from_slice(&bytes);
            let raw = inbound.next().unwrap().unwrap();
            prop_assert_eq!((raw.header.stream, raw.header.version), (stream, version));
            let decoded = RequestEnvelope::decode(raw.header, &raw.body).unwrap();
            prop_assert_eq!(&decoded, &envelope);
            for end in 0..raw.body.len() {
                prop_assert!(RequestEnvelope::decode(raw.header, &raw.body[..end]).is_err());
            }
        }
    }

    #[test]
    fn responses_come_back(response in response(), extras in extras(), stream: i16) {
        let mut bytes = Vec::new();
        response.encode(Version::V5, stream, &extras, &mut bytes);
        let decoded = decode_response(&bytes).unwrap();
        prop_assert_eq!(decoded.length, bytes.len());
        prop_assert_eq!(decoded.stream, stream);
        prop_assert_eq!(decoded.extras, extras);
        prop_assert_eq!(decoded.response, response);
    }

    /// Older versions say less, but what they say can be read.
    #[test]
    fn older_versions_can_read_every_response(response in response(), extras in extras()) {
        for version in [Version::V3, Version::V4] {
            let is_new = matches!(
                &response,
                Response::Error(CqlError {
                    kind: ErrorKind::ReadFailure { .. } | ErrorKind::WriteFailure { .. },
                    ..
                })
            );
            if is_new && version == Version::V4 {
                // A count without a list, which the reader of version 5 does not know.
                continue;
            }
            let mut bytes = Vec::new();
            response.encode(version, 1, &extras, &mut bytes);
            let decoded = decode_response(&bytes).unwrap();
            prop_assert_eq!(decoded.extras.tracing, extras.tracing);
            if version == Version::V4 {
                prop_assert_eq!(&decoded.extras, &extras);
            } else {
                prop_assert!(decoded.extras.warnings.is_empty());
            }
        }
    }
}
