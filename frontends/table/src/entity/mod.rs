//! Entities: their typed values, the forms in which they travel, and the form in which they are
//! stored.
//!
//! A body comes in through `json_read` or `atom_read`, both of which collect members for
//! `incoming`; `validate` holds it to the limits; `stored` keeps the properties; `json_write` and
//! `atom_write`, each a `writer`, send what is stored, seen through `view`.

mod atom_read;
mod atom_write;
mod datetime;
mod etag;
mod incoming;
mod json_read;
mod json_write;
mod link;
mod stored;
mod validate;
mod value;
mod view;
mod writer;

pub(crate) use atom_write::AtomWriter;
pub(crate) use datetime::DateTime;
pub(crate) use etag::{Etag, etag, parse_etag};
pub(crate) use incoming::Incoming;
pub(crate) use json_write::{JsonWriter, Metadata, key_json, plain_json};
pub(crate) use link::{EntityLink, TableLink};
pub(crate) use stored::{Stored, encode, merge};
pub(crate) use validate::Limits;
pub(crate) use value::{EdmType, Value};
pub(crate) use view::{EntityView, PARTITION_KEY, ROW_KEY, Select};
pub(crate) use writer::{Origin, Writer};
