//! The service around the tables: properties, CORS, statistics and access policies, all in XML.

pub(crate) mod acl;
mod cors;
mod properties;
#[cfg(test)]
mod round_trips;
pub(crate) mod stats;
mod xml;

pub(crate) use acl::AccessPolicy;
pub(crate) use cors::{actual, permits, preflight};
pub(crate) use properties::{ServiceProperties, Update};
