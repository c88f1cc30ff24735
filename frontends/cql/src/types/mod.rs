//! CQL's types and their values: binary form, text, order.

mod data_type;

pub(crate) use data_type::{DataType, Native, UserType};
