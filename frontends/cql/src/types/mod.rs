//! CQL's types and their values: binary form, text, order.
//!
//! A value is its bytes, as clients send them and rows keep them; what it means is told by its
//! type. No bytes at all is a value of its own for most types, and is not null.

mod analysis;
mod calendar;
mod collection;
mod compare;
mod data_type;
mod decimal;
mod duration;
mod format;
mod inet;
mod json_text;
mod order_key;
mod parse;
mod similarity;
#[cfg(test)]
mod testing;
mod uuid;
mod validate;
mod vint;

pub(crate) use analysis::Analysis;
pub(crate) use calendar::{add_months, date_text, month_of, time_text, timestamp_text};
pub(crate) use collection::{
    list_elements, map_entries, put_element, serialize_list, serialize_map, serialize_tuple,
    serialize_vector, tuple_components, vector_elements,
};
pub(crate) use compare::compare;
pub(crate) use data_type::{DataType, Native, UserType};
pub(crate) use decimal::{Decimal, MOST_BYTES, check_length};
pub(crate) use duration::Duration;
pub(crate) use format::{native_text, to_literal};
pub(crate) use json_text::{column_json, to_json};
pub(crate) use order_key::{put_ascending, put_descending};
pub(crate) use parse::parse_native;
pub(crate) use similarity::{Similarity, is_zero, vector_floats};
pub(crate) use uuid::text as uuid_text;
pub(crate) use validate::validate;
