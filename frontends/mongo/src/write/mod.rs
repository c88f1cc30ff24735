//! Writes of single documents, with validation, limits and the records of retryable writes.

pub(crate) mod change;
pub(crate) mod document;
pub(crate) mod duplicate;
pub(crate) mod prepared;
pub(crate) mod retry;
pub(crate) mod store;
pub(crate) mod target;
pub(crate) mod throttle;
pub(crate) mod validate;
