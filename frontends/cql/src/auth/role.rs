//! A role: whether it may log in, its password, the roles it has, and what it may do.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::statement::Permission;

/// A role, as the core keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Role {
    pub(crate) is_superuser: bool,
    pub(crate) can_login: bool,
    pub(crate) password: Option<String>,
    /// The roles that were granted to it.
    pub(crate) member_of: BTreeSet<String>,
    /// By resource, the names of what it may do there.
    pub(crate) permissions: BTreeMap<String, BTreeSet<String>>,
    /// Where it may log in. Empty: everywhere.
    pub(crate) datacenters: BTreeSet<String>,
    /// Why what is stored of it cannot be read: then it is nothing but its name, and can only be
    /// dropped.
    #[serde(skip)]
    pub(crate) damage: Option<String>,
}

impl Role {
    /// Whether it was itself granted this permission on the resource of this key.
    pub(super) fn may(&self, permission: Permission, key: &str) -> bool {
        let here = self.permissions.get(key);
        here.is_some_and(|permissions| permissions.contains(permission.name()))
    }

    /// Grants permissions; answers those that it had.
    pub(super) fn grant(&mut self, key: &str, permissions: &[Permission]) -> Vec<Permission> {
        let here = self.permissions.entry(key.to_owned()).or_default();
        let had = |permission: &&Permission| !here.insert(permission.name().to_owned());
        let had: Vec<Permission> = permissions.iter().filter(had).copied().collect();
        had
    }

    /// Takes permissions away; answers those that it did not have.
    pub(super) fn revoke(&mut self, key: &str, permissions: &[Permission]) -> Vec<Permission> {
        let Some(here) = self.permissions.get_mut(key) else {
            return permissions.to_vec();
        };
        let had_not = |permission: &&Permission| !here.remove(permission.name());
        let had_not: Vec<Permission> = permissions.iter().filter(had_not).copied().collect();
        if here.is_empty() {
            self.permissions.remove(key);
        }
        had_not
    }
}
