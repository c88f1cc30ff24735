//! Types as metadata describes them: a number, and parameters.
//!
//! A type that the version does not know, and every vector, travels as number zero and the name of
//! Cassandra's class.

use super::Version;
use super::writer::{put_count, put_short, put_string};
use crate::types::{DataType, Native};

pub(super) const CUSTOM: u16 = 0x00;
pub(super) const LIST: u16 = 0x20;
pub(super) const MAP: u16 = 0x21;
pub(super) const SET: u16 = 0x22;
pub(super) const USER: u16 = 0x30;
pub(super) const TUPLE: u16 = 0x31;

/// `[option]`: the description of a type.
pub(super) fn put_type(out: &mut Vec<u8>, data_type: &DataType, version: Version) {
    match data_type {
        DataType::Native(native) if first_version(*native) <= version => {
            put_short(out, native.id());
        }
        DataType::Native(_) | DataType::Vector { .. } => {
            put_short(out, CUSTOM);
            put_string(out, &data_type.class_name());
        }
        DataType::List { element, .. } => {
            put_short(out, LIST);
            put_type(out, element, version);
        }
        DataType::Set { element, .. } => {
            put_short(out, SET);
            put_type(out, element, version);
        }
        DataType::Map { key, value, .. } => {
            put_short(out, MAP);
            put_type(out, key, version);
            put_type(out, value, version);
        }
        DataType::Tuple(types) => {
            put_short(out, TUPLE);
            put_count(out, types.len());
            for data_type in types {
                put_type(out, data_type, version);
            }
        }
        DataType::User { definition, .. } => {
            put_short(out, USER);
            put_string(out, &definition.keyspace);
            put_string(out, &definition.name);
            put_count(out, definition.fields.len());
            for (name, data_type) in &definition.fields {
                put_string(out, name);
                put_type(out, data_type, version);
            }
        }
    }
}

/// The first version that has a number for it.
fn first_version(native: Native) -> Version {
    match native {
        Native::Date | Native::Time | Native::Smallint | Native::Tinyint => Version::V4,
        Native::Duration => Version::V5,
        _ => Version::V3,
    }
}
