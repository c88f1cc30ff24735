//! Entities: their typed values, the forms in which they travel, and the form in which they are
//! stored.

mod value;

pub(crate) use value::Value;
