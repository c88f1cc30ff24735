//! Statements of CQL as values. They own their texts and know no schema.

mod name;

pub(crate) use name::quoted;
