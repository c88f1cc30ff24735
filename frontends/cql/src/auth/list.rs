//! LIST ROLES, LIST USERS and LIST PERMISSIONS: roles and what they may do, as rows.

use super::manage::{Managed, Manager, VOID};
use super::need::{Need, keys};
use super::resource::{complete, key, shown};
use super::rights::unauthorized;
use super::role::Role;
use super::roles::{RoleMap, is_superuser, with_granted};
use crate::error::{Result, refuse};
use crate::statement::{ListPermissions, Permission, Resource};
use crate::types::{DataType, Native, serialize_map};
use crate::wire::{ColumnSpec, Metadata, ResultBody, Rows};

impl Manager<'_> {
    pub(super) async fn list_permissions(
        &self,
        roles: &RoleMap,
        list: &ListPermissions,
    ) -> Result<Managed> {
        let resource = list.resource.as_ref();
        let resource = resource.map(|resource| complete(resource, self.keyspace));
        if let Some(resource) = &resource {
            self.check_there(roles, resource, "").await?;
        }
        if let Some(of) = list.of.as_ref().filter(|of| !roles.contains_key(*of)) {
            return refuse(format!("<role {of}> doesn't exist"));
        }
        let own = self.rights.user().map(|user| with_granted(roles, user));
        let is_own = |of: &Option<String>| match (of, &own) {
            (Some(of), Some(own)) => own.contains(of),
            _ => false,
        };
        if !self.sees_all_roles() && !is_own(&list.of) {
            let whom = list.of.as_deref().unwrap_or("everyone");
            return Err(unauthorized(format!(
                "You are not authorized to view {whom}'s permissions"
            )));
        }
        let keys: Option<Vec<String>> = resource.map(|resource| match list.is_recursive {
            true => keys(&resource),
            false => vec![key(&resource)],
        });
        let whose = list.of.as_deref().map(|of| with_granted(roles, of));
        let columns = ["role", "username", "resource", "permission"];
        let columns = columns.map(|name| column("permissions", name, Native::Text));
        let mut rows = Rows::new(Metadata::of(columns.into()));
        for (name, role) in roles {
            if whose.as_ref().is_some_and(|whose| !whose.contains(name)) {
                continue;
            }
            for (key, granted) in &role.permissions {
                if keys.as_ref().is_some_and(|keys| !keys.contains(key)) {
                    continue;
                }
                let order = Permission::ALL.iter().filter(|permission| {
                    let is_asked =
                        list.permissions.is_empty() || list.permissions.contains(permission);
                    is_asked && granted.contains(permission.name())
                });
                for permission in order {
                    let resource = shown(key);
                    let cells = [name.as_str(), name, &resource, permission.name()];
                    rows.push(cells.map(|cell| Some(cell.as_bytes())));
                }
            }
        }
        Ok(listed(rows))
    }

    fn sees_all_roles(&self) -> bool {
        let describe = Need::OverRole(Permission::Describe, keys(&Resource::AllRoles));
        self.rights.meet(&describe)
    }

    pub(super) fn list_roles(
        &self,
        roles: &RoleMap,
        of: Option<&str>,
        is_recursive: bool,
        only_users: bool,
    ) -> Result<Managed> {
        if let Some(of) = of.filter(|of| !roles.contains_key(*of)) {
            return refuse(format!("<role {of}> doesn't exist"));
        }
        let of_one = |name: &str| match is_recursive {
            true => with_granted(roles, name),
            false => {
                let role = roles.get(name);
                let granted = role.map(|role| role.member_of.clone());
                let mut all = granted.unwrap_or_default();
                all.insert(name.to_owned());
                all
            }
        };
        let sees_all = self.sees_all_roles();
        let shown = match (of, self.rights.user()) {
            (Some(of), Some(user)) if !sees_all && !with_granted(roles, user).contains(of) => {
                return Err(unauthorized(format!(
                    "You are not authorized to view roles granted to {of} "
                )));
            }
            (Some(of), _) => of_one(of),
            (None, Some(user)) if !sees_all => of_one(user),
            (None, _) => roles.keys().cloned().collect(),
        };
        let shown = shown
            .iter()
            .filter_map(|name| Some((name, roles.get(name)?)));
        Ok(listed(if only_users {
            users(roles, shown)
        } else {
            role_rows(shown)
        }))
    }
}

fn role_rows<'r>(shown: impl Iterator<Item = (&'r String, &'r Role)>) -> Rows {
    let options = DataType::map(Native::Text, Native::Text).freeze();
    let columns = [
        column("roles", "role", Native::Text),
        column("roles", "super", Native::Boolean),
        column("roles", "login", Native::Boolean),
        column("roles", "options", options),
        column("roles", "datacenters", Native::Text),
    ];
    let mut rows = Rows::new(Metadata::of(columns.into()));
    for (name, role) in shown {
        // No role has options, so that there is room for what an administrator should know.
        let damage = role.damage.iter().map(|why| ("damaged", why.as_str()));
        let options = serialize_map(&damage.collect::<Vec<_>>());
        rows.push([
            Some(name.as_bytes()),
            Some(&[u8::from(role.is_superuser)][..]),
            Some(&[u8::from(role.can_login)]),
            Some(&options),
            Some(datacenters(role).as_bytes()),
        ]);
    }
    rows
}

fn users<'r>(roles: &RoleMap, shown: impl Iterator<Item = (&'r String, &'r Role)>) -> Rows {
    let columns = [
        column("users", "name", Native::Text),
        column("users", "super", Native::Boolean),
        column("users", "datacenters", Native::Text),
    ];
    let mut rows = Rows::new(Metadata::of(columns.into()));
    for (name, role) in shown.filter(|(_, role)| role.can_login) {
        rows.push([
            Some(name.as_bytes()),
            Some(&[u8::from(is_superuser(roles, name))][..]),
            Some(datacenters(role).as_bytes()),
        ]);
    }
    rows
}

fn datacenters(role: &Role) -> String {
    if role.datacenters.is_empty() {
        return "ALL".to_owned();
    }
    let names: Vec<&str> = role.datacenters.iter().map(String::as_str).collect();
    names.join(", ")
}

fn column(table: &str, name: &str, data_type: impl Into<DataType>) -> ColumnSpec {
    ColumnSpec {
        keyspace: "system_auth".to_owned(),
        table: table.to_owned(),
        name: name.to_owned(),
        data_type: data_type.into(),
    }
}

/// No rows at all are no rows result.
fn listed(rows: Rows) -> Managed {
    if rows.len() == 0 {
        return VOID;
    }
    (ResultBody::Rows(rows), Vec::new())
}
