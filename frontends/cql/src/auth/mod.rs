//! Who clients are, and what they may do: roles, kept in the core, and permissions on resources.
//!
//! If nobody is asked who they are, everybody may do everything.

mod admission;
mod check;
mod list;
mod login;
mod manage;
mod password;
mod resource;
mod role;
mod roles;
#[cfg(test)]
mod tests;

pub(crate) use admission::admit;
pub(crate) use check::check;
#[cfg(test)]
pub(crate) use login::log_in;
pub(crate) use manage::{Manager, grant_to_creator, revoke_from_all, run};
pub(crate) use roles::Roles;

/// A role that the server's settings name. It may log in and do everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
}
