//! Indexes: what they are, which keys a document has in them.

mod accesses;
pub(crate) mod build;
mod check;
pub(crate) mod keys;
mod partial;
pub(crate) mod spec;
pub(crate) mod wildcard;

pub(crate) use accesses::Accesses;
pub(crate) use check::{is_id_key, is_option};
pub(crate) use spec::{ID_INDEX, IndexSpec, Likeness, Order, same_key};
