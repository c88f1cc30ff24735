//! Requests as clients write them.

use crate::wire::request::{Parameters, QueryOrId, Request, RequestEnvelope, Value};
use crate::wire::writer::{
    put_bytes, put_consistency, put_count, put_int, put_length, put_short_bytes, put_string,
    put_string_list,
};
use crate::wire::{Opcode, Version, flag};

/// The whole envelope.
pub(in crate::wire) fn encode_request(
    envelope: &RequestEnvelope<'_>,
    version: Version,
    stream: i16,
) -> Vec<u8> {
    let mut body = Vec::new();
    let mut flags = 0;
    if envelope.wants_tracing {
        flags |= flag::TRACING;
    }
    if !envelope.payload.is_empty() {
        flags |= flag::CUSTOM_PAYLOAD;
        put_count(&mut body, envelope.payload.len());
        for (name, bytes) in &envelope.payload {
            put_string(&mut body, name);
            put_bytes(&mut body, Some(bytes));
        }
    }
    let opcode = put_request(&mut body, &envelope.request, version);
    let mut out = vec![version.number(), flags];
    out.extend(stream.to_be_bytes());
    out.push(opcode as u8);
    put_length(&mut out, body.len());
    out.append(&mut body);
    out
}

fn put_request(out: &mut Vec<u8>, request: &Request<'_>, version: Version) -> Opcode {
    match request {
        Request::Startup(options) => {
            put_count(out, options.len());
            for (name, value) in options {
                put_string(out, name);
                put_string(out, value);
            }
            Opcode::Startup
        }
        Request::Options => Opcode::Options,
        Request::Query(query) => {
            put_long_string(out, query.query);
            put_parameters(out, &query.parameters, version);
            Opcode::Query
        }
        Request::Prepare(prepare) => {
            put_long_string(out, prepare.query);
            if version.is_framed() {
                put_int(out, i32::from(prepare.keyspace.is_some()));
                if let Some(keyspace) = prepare.keyspace {
                    put_string(out, keyspace);
                }
            }
            Opcode::Prepare
        }
        Request::Execute(execute) => {
            put_short_bytes(out, execute.id);
            if let Some(id) = execute.result_metadata_id {
                put_short_bytes(out, id);
            }
            put_parameters(out, &execute.parameters, version);
            Opcode::Execute
        }
        Request::Batch(batch) => {
            out.push(batch.kind as u8);
            put_count(out, batch.queries.len());
            for query in &batch.queries {
                match query.query {
                    QueryOrId::Query(text) => {
                        out.push(0);
                        put_long_string(out, text);
                    }
                    QueryOrId::Id(id) => {
                        out.push(1);
                        put_short_bytes(out, id);
                    }
                }
                put_count(out, query.values.len());
                for value in &query.values {
                    put_value(out, *value);
                }
            }
            put_parameters(out, &batch.parameters, version);
            Opcode::Batch
        }
        Request::Register(kinds) => {
            put_string_list(out, kinds);
            Opcode::Register
        }
        Request::AuthResponse(token) => {
            put_bytes(out, *token);
            Opcode::AuthResponse
        }
    }
}

fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, Some(text.as_bytes()));
}

fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Null => put_int(out, -1),
        Value::Unset => put_int(out, -2),
        Value::Bytes(bytes) => put_bytes(out, Some(bytes)),
    }
}

fn put_parameters(out: &mut Vec<u8>, parameters: &Parameters<'_>, version: Version) {
    let flags = [
        (!parameters.values.is_empty(), 0x01),
        (parameters.skip_metadata, 0x02),
        (parameters.page_size.is_some(), 0x04),
        (parameters.paging_state.is_some(), 0x08),
        (parameters.serial_consistency.is_some(), 0x10),
        (parameters.timestamp.is_some(), 0x20),
        (parameters.names.is_some(), 0x40),
        (parameters.keyspace.is_some(), 0x80),
        (parameters.now_in_seconds.is_some(), 0x100),
    ];
    let flags: i32 = flags
        .into_iter()
        .map(|(is_set, flag)| if is_set { flag } else { 0 })
        .sum();
    put_consistency(out, parameters.consistency);
    if version.is_framed() {
        put_int(out, flags);
    } else {
        out.push(u8::try_from(flags).unwrap());
    }
    if !parameters.values.is_empty() {
        put_count(out, parameters.values.len());
        for (index, value) in parameters.values.iter().enumerate() {
            if let Some(names) = &parameters.names {
                put_string(out, names[index]);
            }
            put_value(out, *value);
        }
    }
    if let Some(size) = parameters.page_size {
        put_int(out, size);
    }
    if let Some(state) = parameters.paging_state {
        put_bytes(out, Some(state));
    }
    if let Some(consistency) = parameters.serial_consistency {
        put_consistency(out, consistency);
    }
    if let Some(timestamp) = parameters.timestamp {
        out.extend(timestamp.to_be_bytes());
    }
    if let Some(keyspace) = parameters.keyspace {
        put_string(out, keyspace);
    }
    if let Some(now) = parameters.now_in_seconds {
        put_int(out, now);
    }
}
