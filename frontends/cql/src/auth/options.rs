//! The options of CREATE and ALTER ROLE: which of them can be had, and a role that has them.

use super::password::{Unusable, check_hash};
use super::role::Role;
use crate::error::{Result, refuse};
use crate::schema::DATA_CENTER;
use crate::statement::RoleOptions;

/// Refuses options that would have no effect, in Cassandra's words.
pub(super) fn check_options(options: &RoleOptions) -> Result<()> {
    match options.hashed_password.as_deref().map(check_hash) {
        None | Some(Ok(())) => {}
        Some(Err(Unusable::NoHash)) => {
            return refuse("Invalid hashed password value. Please use jBcrypt.");
        }
        Some(Err(Unusable::Costly)) => {
            return refuse("Invalid hashed password value. It would take too long to check.");
        }
    }
    if options.options.is_some() {
        return refuse("org.apache.cassandra.auth.CassandraRoleManager doesn't support OPTIONS");
    }
    let datacenters = options.datacenters.as_deref().unwrap_or_default();
    if datacenters.iter().any(|name| name != DATA_CENTER) {
        return refuse(format!(
            "Invalid value(s) for DATACENTERS '[{}]',All values must be valid datacenters",
            datacenters.join(", ")
        ));
    }
    // No groups of addresses are defined here.
    let groups = options.address_groups.as_deref().unwrap_or_default();
    if !groups.is_empty() {
        return refuse(format!(
            "Invalid CIDR group(s): [{}]. Available CIDR Groups are: []",
            groups.join(", ")
        ));
    }
    Ok(())
}

/// The role with these options, and this hash of its password.
pub(super) fn altered(mut role: Role, options: &RoleOptions, hashed: Option<String>) -> Role {
    if let Some(is_superuser) = options.is_superuser {
        role.is_superuser = is_superuser;
    }
    if let Some(can_login) = options.can_login {
        role.can_login = can_login;
    }
    if hashed.is_some() {
        role.password = hashed;
    }
    if let Some(datacenters) = &options.datacenters {
        role.datacenters = datacenters.iter().cloned().collect();
    }
    role
}
