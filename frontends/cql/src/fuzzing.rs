//! What the fuzzer calls of this crate. Nothing of the server does.

use std::cmp::Ordering;

use bytes::Bytes;
use tessera_frontend::testing::Target;

use crate::functions::{from_json, json_columns};
use crate::parser::{parse, parse_type};
use crate::row::{PartitionRecord, StoredRow};
use crate::schema::Relation;
use crate::types::{
    DataType, Native, compare, parse_native, put_ascending, put_descending, to_json, to_literal,
    validate,
};
use crate::wire::{Compression, Inbound, RequestEnvelope};

/// The decoders and parsers.
pub const TARGETS: &[Target] = &[
    Target {
        name: "cql-frames",
        run: frames,
    },
    Target {
        name: "cql-statement",
        run: statement,
    },
    Target {
        name: "cql-type",
        run: data_type,
    },
    Target {
        name: "cql-value",
        run: value,
    },
    Target {
        name: "cql-text",
        run: text,
    },
    Target {
        name: "cql-stored",
        run: stored,
    },
];

const BODY_LIMIT: usize = 1 << 20;

/// The first byte says how the rest is framed.
fn frames(bytes: &[u8]) {
    let Some((mode, bytes)) = bytes.split_first() else {
        return;
    };
    let mut inbound = Inbound::new(BODY_LIMIT);
    match mode % 3 {
        0 => {}
        1 => inbound.expect_segments(None),
        _ => inbound.expect_segments(Some(Compression::Lz4)),
    }
    inbound.buffer().extend_from_slice(bytes);
    for _ in 0..=bytes.len() {
        match inbound.next() {
            Ok(None) => return,
            Ok(Some(envelope)) => {
                for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
                    if let Ok(body) = envelope.plain_body(compression, BODY_LIMIT) {
                        assert!(body.len() <= BODY_LIMIT.max(envelope.body.len()));
                        let _refused = RequestEnvelope::decode(envelope.header, &body).is_err();
                    }
                }
            }
            Err(refusal) => {
                assert!(!refusal.encode(inbound.version()).is_empty());
                if refusal.ends_connection {
                    return;
                }
            }
        }
    }
}

fn statement(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let parsed = parse(&text);
    if let Ok(parsed) = parsed {
        let longer = parse(&format!("{text}\n ;"));
        assert!(longer.is_ok_and(|longer| longer == parsed));
    }
}

fn data_type(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(parsed) = parse_type(&text) {
        let written = parsed.to_string();
        let again = parse_type(&written);
        assert!(again.is_ok_and(|again| again == parsed), "{written}");
    }
}

/// A type for each byte: natives, and some of each kind that is made of others.
fn type_of(byte: u8) -> DataType {
    let count = Native::ALL.len();
    let native = |place: usize| {
        let native = Native::ALL.get(place % count).copied();
        DataType::Native(native.unwrap_or(Native::Int))
    };
    let place = usize::from(byte);
    let inner = native(place);
    match place / count {
        0 => inner,
        1 => DataType::list(inner).freeze(),
        2 => DataType::set(inner).freeze(),
        3 => DataType::map(inner, native(place + 1)).freeze(),
        4 => DataType::Tuple(vec![inner, native(place + 3)]),
        5 => DataType::list(DataType::set(inner).freeze()).freeze(),
        _ => DataType::Vector {
            element: Box::new(inner),
            dimension: 2,
        },
    }
}

/// A type, and two values of it: where they are valid, all that is made of them must work, and
/// their keys stand in their order.
fn value(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let data_type = type_of(*kind);
    let (left, right) = rest.split_at(rest.len() / 2);
    for value in [left, right, rest] {
        if validate(&data_type, value).is_ok() {
            if let Ok(json) = to_json(&data_type, value) {
                let _refused = from_json(&data_type, &json).is_err();
            }
            let _refused = to_literal(&data_type, value).is_err();
        }
    }
    if validate(&data_type, left).is_err() || validate(&data_type, right).is_err() {
        return;
    }
    let order = compare(&data_type, left, right);
    assert_eq!(order, compare(&data_type, right, left).reverse());
    let key = |value: &[u8], put: fn(&mut Vec<u8>, &DataType, &[u8])| {
        let mut key = Vec::new();
        put(&mut key, &data_type, value);
        key
    };
    if order != Ordering::Equal {
        let ascending = key(left, put_ascending).cmp(&key(right, put_ascending));
        assert_eq!(ascending, order, "{data_type}");
        let descending = key(left, put_descending).cmp(&key(right, put_descending));
        assert_eq!(descending, order.reverse(), "{data_type}");
    }
}

/// Texts that stand for values: literals of natives, and JSON.
fn text(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    let data_type = type_of(*kind);
    let given = [
        match &data_type {
            DataType::Native(native) => parse_native(*native, &text).ok(),
            _ => None,
        },
        from_json(&data_type, &text).ok().flatten(),
    ];
    for value in given.into_iter().flatten() {
        assert!(validate(&data_type, &value).is_ok(), "{data_type}");
        assert!(to_literal(&data_type, &value).is_ok(), "{data_type}");
    }
    let _refused = json_columns(&text, |_| Some(&data_type)).is_err();
}

/// What rows, partitions and definitions are stored as.
fn stored(bytes: &[u8]) {
    let body = Bytes::copy_from_slice(bytes);
    if let Some(row) = StoredRow::decode(&body) {
        assert_eq!(StoredRow::decode(&row.encode().into()), Some(row));
    }
    if let Some(record) = PartitionRecord::decode(&body) {
        assert_eq!(
            PartitionRecord::decode(&record.encode().into()),
            Some(record)
        );
    }
    if let Ok(relation) = Relation::decode(bytes) {
        // Encoding reads back what it wrote.
        let _refused = relation.encode().is_err();
    }
}
