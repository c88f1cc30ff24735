//! Collections: their names, stored definitions, and the placement of documents.

mod cache;
mod definition;
mod name;
pub(crate) mod options;
pub(crate) mod place;

pub(crate) use cache::Collections;
pub(crate) use definition::{CORE_ID_INDEX, Collection, ShardKey, Validator, core_id_index};
pub(crate) use name::{Namespace, check_database};
