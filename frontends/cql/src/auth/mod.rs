//! Authentication and authorization: roles, kept in the core, and permissions on resources.
//!
//! Without authentication every client has all permissions.

mod admission;
mod authenticator;
mod list;
mod login;
#[cfg(test)]
mod login_tests;
mod manage;
#[cfg(test)]
mod matrix;
mod need;
mod options;
mod password;
mod redact;
mod resource;
mod rights;
mod role;
mod roles;
#[cfg(test)]
mod tests;

pub(crate) use admission::admit;
#[cfg(test)]
pub(crate) use login::log_in;
pub(crate) use login::warn_of_roles;
pub(crate) use manage::{Manager, grant_to_creator, revoke_from_all, run};
pub(crate) use need::{Need, of_plan};
pub(crate) use redact::without_password;
pub(crate) use rights::{Permitted, Rights};
#[cfg(test)]
pub(crate) use roles::RoleMap;
pub(crate) use roles::Roles;

/// A role that the server's settings name. It may log in and do everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
}
