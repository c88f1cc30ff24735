//! MongoDB's language over BSON values: comparison, filters, projections, updates, expressions and
//! pipelines. Pure: it reads no disk, opens no socket and knows no collection but through the
//! [`pipeline`]'s own trait.

pub mod collation;
pub mod compare;
pub mod error;
pub mod expression;
pub mod extended_json;
pub mod filter;
pub mod hash;
pub mod key;
pub mod key_text;
mod members;
mod nesting;
pub mod number;
pub mod path;
pub mod pipeline;
pub mod projection;
pub mod regex;
pub mod size;
pub mod sort;
pub mod update;
