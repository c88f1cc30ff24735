//! Authentication: stored users and roles, and the SCRAM exchange.

pub(crate) mod login;
mod record;
pub(crate) mod restriction;
pub(crate) mod scram;
mod storage;
pub(crate) mod users;

pub(crate) use record::{Name, Role, User};
pub use users::Configured;
pub(crate) use users::Users;
