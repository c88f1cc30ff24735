//! Runs the statements on roles: CREATE, ALTER and DROP ROLE, GRANT, REVOKE and LIST.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::check::{is_superuser, require, unauthorized};
use super::password;
use super::resource::{applicable, chain, complete, is_there, key, shown};
use super::role::Role;
use super::roles::{RoleMap, with_granted};
use crate::error::{CqlError, Result};
use crate::service::Service;
use crate::statement::{Access, ListPermissions, Permission, Resource, RoleOptions};
use crate::types::{DataType, Native, serialize_map};
use crate::wire::{ColumnSpec, Metadata, ResultBody, Rows};

/// Who asks, and where.
pub(crate) struct Manager<'a> {
    pub(crate) service: &'a Service,
    /// None if nobody is asked who they are.
    pub(crate) user: Option<&'a str>,
    pub(crate) keyspace: Option<&'a str>,
}

/// What a statement gives, and what it warns of.
pub(crate) type Managed = (ResultBody, Vec<String>);

/// Runs a statement on roles.
pub(crate) async fn run(manager: &Manager<'_>, access: &Access) -> Result<Managed> {
    let roles = manager.service.roles.all().await?;
    match access {
        Access::CreateRole {
            name,
            if_not_exists,
            options,
        } => manager.create(&roles, name, *if_not_exists, options).await,
        Access::AlterRole {
            name,
            if_exists,
            options,
        } => manager.alter(&roles, name, *if_exists, options).await,
        Access::DropRole { name, if_exists } => manager.drop(&roles, name, *if_exists).await,
        Access::Grant {
            permissions,
            resource,
            role,
        } => manager.grant(&roles, permissions, resource, role).await,
        Access::Revoke {
            permissions,
            resource,
            role,
        } => manager.revoke(&roles, permissions, resource, role).await,
        Access::GrantRole { role, to } => manager.grant_role(&roles, role, to).await,
        Access::RevokeRole { role, from } => manager.revoke_role(&roles, role, from).await,
        Access::ListPermissions(list) => manager.list_permissions(&roles, list).await,
        Access::ListRoles { of, is_recursive } => {
            manager.list_roles(&roles, of.as_deref(), *is_recursive, false)
        }
        Access::ListUsers => manager.list_roles(&roles, None, true, true),
        Access::AddIdentity { .. } | Access::DropIdentity { .. } => refuse(
            "Identities are not supported: clients say who they are with a name and a password",
        ),
    }
}

/// Grants whoever made something everything that may be done with it.
pub(crate) async fn grant_to_creator(
    service: &Service,
    user: &str,
    resource: &Resource,
) -> Result<()> {
    let resource_key = key(resource);
    let granted = service.roles.change(user, |role| {
        let mut role = role.unwrap_or_default();
        role.grant(&resource_key, applicable(resource));
        Ok((Some(role), ()))
    });
    granted.await
}

/// Takes all permissions on something that is gone away from everybody.
pub(crate) async fn revoke_from_all(service: &Service, resource: &Resource) -> Result<()> {
    let own = key(resource);
    let below = format!("{own}/");
    let is_gone = |key: &String| *key == own || key.starts_with(&below);
    for (name, role) in service.roles.all().await?.iter() {
        if !role.permissions.keys().any(is_gone) {
            continue;
        }
        let revoked = service.roles.change(name, |role| {
            let mut role = role.unwrap_or_default();
            role.permissions.retain(|key, _| !is_gone(key));
            Ok((Some(role), ()))
        });
        revoked.await?;
    }
    Ok(())
}

const VOID: Managed = (ResultBody::Void, Vec::new());

impl Manager<'_> {
    fn require(&self, roles: &RoleMap, permission: Permission, on: &Resource) -> Result<()> {
        match self.user {
            None => Ok(()),
            Some(user) => require(roles, user, permission, on),
        }
    }

    fn is_superuser(&self, roles: &RoleMap) -> bool {
        self.user.is_none_or(|user| is_superuser(roles, user))
    }

    async fn create(
        &self,
        roles: &RoleMap,
        name: &str,
        if_not_exists: bool,
        options: &RoleOptions,
    ) -> Result<Managed> {
        if name.is_empty() {
            return refuse("Role name can't be an empty string");
        }
        check_options(options)?;
        self.require(roles, Permission::Create, &Resource::AllRoles)?;
        if options.is_superuser == Some(true) && !self.is_superuser(roles) {
            return Err(unauthorized(
                "Only superusers can create a role with superuser status",
            ));
        }
        let created = self.service.roles.change(name, |there| {
            if there.is_some() {
                return match if_not_exists {
                    true => Ok((there, false)),
                    false => refuse(format!("{name} already exists")),
                };
            }
            Ok((Some(altered(Role::default(), options)), true))
        });
        if created.await?
            && let Some(user) = self.user
        {
            let resource = Resource::Role(name.to_owned());
            grant_to_creator(self.service, user, &resource).await?;
        }
        Ok(VOID)
    }

    async fn alter(
        &self,
        roles: &RoleMap,
        name: &str,
        if_exists: bool,
        options: &RoleOptions,
    ) -> Result<Managed> {
        check_options(options)?;
        if *options == RoleOptions::default() {
            return refuse("ALTER [ROLE|USER] can't be empty");
        }
        if !roles.contains_key(name) {
            return if if_exists {
                Ok(VOID)
            } else {
                refuse(format!("Role {name} doesn't exist"))
            };
        }
        self.check_alter(roles, name, options)?;
        let altered = self.service.roles.change(name, |role| {
            Ok((role.map(|role| altered(role, options)), ()))
        });
        altered.await?;
        Ok(VOID)
    }

    fn check_alter(&self, roles: &RoleMap, name: &str, options: &RoleOptions) -> Result<()> {
        let Some(user) = self.user else {
            return Ok(());
        };
        if options.is_superuser.is_some() {
            if with_granted(roles, user).contains(name) {
                return Err(unauthorized(
                    "You aren't allowed to alter your own superuser status or that of a role \
                     granted to you",
                ));
            }
            if !self.is_superuser(roles) {
                return Err(unauthorized(
                    "Only superusers are allowed to alter superuser status",
                ));
            }
        }
        if self.is_superuser(roles) {
            return Ok(());
        }
        if user != name {
            return require(
                roles,
                user,
                Permission::Alter,
                &Resource::Role(name.to_owned()),
            );
        }
        // Of oneself, only the password.
        if options.can_login.is_some() {
            return Err(unauthorized("You aren't allowed to alter LOGIN"));
        }
        Ok(())
    }

    async fn drop(&self, roles: &RoleMap, name: &str, if_exists: bool) -> Result<Managed> {
        if !roles.contains_key(name) && !if_exists {
            return refuse(format!("{name} doesn't exist"));
        }
        if self.user == Some(name) {
            return refuse("Cannot DROP primary role for current login");
        }
        let resource = Resource::Role(name.to_owned());
        self.require(roles, Permission::Drop, &resource)?;
        if roles.contains_key(name) && is_superuser(roles, name) && !self.is_superuser(roles) {
            return Err(unauthorized(
                "Only superusers can drop a role with superuser status",
            ));
        }
        let changing = &self.service.roles;
        changing.change(name, |_| Ok((None, ()))).await?;
        for (member, role) in roles {
            if role.member_of.contains(name) {
                let left = changing.change(member, |role| {
                    let mut role = role.unwrap_or_default();
                    role.member_of.remove(name);
                    Ok((Some(role), ()))
                });
                left.await?;
            }
        }
        revoke_from_all(self.service, &resource).await?;
        Ok(VOID)
    }

    /// The resource that is meant, and that this user may grant these permissions on.
    async fn resource(
        &self,
        roles: &RoleMap,
        permissions: &[Permission],
        resource: &Resource,
        role: &str,
    ) -> Result<Resource> {
        if !roles.contains_key(role) {
            return refuse(format!("Role {role} doesn't exist"));
        }
        let resource = complete(resource, self.keyspace);
        self.check_there(roles, &resource, "Resource ").await?;
        self.require(roles, Permission::Authorize, &resource)?;
        for permission in permissions {
            self.require(roles, *permission, &resource)?;
        }
        Ok(resource)
    }

    async fn check_there(&self, roles: &RoleMap, resource: &Resource, what: &str) -> Result<()> {
        let catalog = self.service.catalog().await?;
        let is_known = match resource {
            Resource::Role(name) => roles.contains_key(name),
            other => is_there(other, &catalog),
        };
        if is_known {
            return Ok(());
        }
        refuse(format!("{what}{} doesn't exist", shown(&key(resource))))
    }

    async fn grant(
        &self,
        roles: &RoleMap,
        permissions: &[Permission],
        resource: &Resource,
        to: &str,
    ) -> Result<Managed> {
        let wanted = meant(permissions, resource)?;
        let resource = self.resource(roles, &wanted, resource, to).await?;
        let resource_key = key(&resource);
        let had = self.service.roles.change(to, |role| {
            let mut role = role.unwrap_or_default();
            let had = role.grant(&resource_key, &wanted);
            Ok((Some(role), had))
        });
        let had = had.await?;
        Ok(warned(&had, permissions, |names| {
            format!(
                "Role '{to}' was already granted {names} on {}",
                shown(&resource_key)
            )
        }))
    }

    async fn revoke(
        &self,
        roles: &RoleMap,
        permissions: &[Permission],
        resource: &Resource,
        from: &str,
    ) -> Result<Managed> {
        let wanted = meant(permissions, resource)?;
        let resource = self.resource(roles, &wanted, resource, from).await?;
        let resource_key = key(&resource);
        let had_not = self.service.roles.change(from, |role| {
            let mut role = role.unwrap_or_default();
            let had_not = role.revoke(&resource_key, &wanted);
            Ok((Some(role), had_not))
        });
        let had_not = had_not.await?;
        Ok(warned(&had_not, permissions, |names| {
            format!(
                "Role '{from}' was not granted {names} on {}",
                shown(&resource_key)
            )
        }))
    }

    fn check_roles(&self, roles: &RoleMap, role: &str, other: &str) -> Result<()> {
        for name in [role, other] {
            if !roles.contains_key(name) {
                return refuse(format!("{name} doesn't exist"));
            }
        }
        let resource = Resource::Role(role.to_owned());
        self.require(roles, Permission::Authorize, &resource)
    }

    async fn grant_role(&self, roles: &RoleMap, role: &str, to: &str) -> Result<Managed> {
        self.check_roles(roles, role, to)?;
        for (member, of) in [(to, role), (role, to)] {
            if with_granted(roles, member).contains(of) {
                return refuse(format!("{member} is a member of {of}"));
            }
        }
        let granted = self.service.roles.change(to, |grantee| {
            let mut grantee = grantee.unwrap_or_default();
            grantee.member_of.insert(role.to_owned());
            Ok((Some(grantee), ()))
        });
        granted.await?;
        Ok(VOID)
    }

    async fn revoke_role(&self, roles: &RoleMap, role: &str, from: &str) -> Result<Managed> {
        self.check_roles(roles, role, from)?;
        let member = roles.get(from);
        if !member.is_some_and(|member| member.member_of.contains(role)) {
            return refuse(format!("{from} is not a member of {role}"));
        }
        let revoked = self.service.roles.change(from, |grantee| {
            let mut grantee = grantee.unwrap_or_default();
            grantee.member_of.remove(role);
            Ok((Some(grantee), ()))
        });
        revoked.await?;
        Ok(VOID)
    }

    async fn list_permissions(&self, roles: &RoleMap, list: &ListPermissions) -> Result<Managed> {
        let resource = list.resource.as_ref();
        let resource = resource.map(|resource| complete(resource, self.keyspace));
        if let Some(resource) = &resource {
            self.check_there(roles, resource, "").await?;
        }
        if let Some(of) = list.of.as_ref().filter(|of| !roles.contains_key(*of)) {
            return refuse(format!("<role {of}> doesn't exist"));
        }
        let own = self.user.map(|user| with_granted(roles, user));
        let is_own = |of: &Option<String>| match (of, &own) {
            (Some(of), Some(own)) => own.contains(of),
            _ => false,
        };
        if !self.is_superuser(roles) && !is_own(&list.of) {
            let whom = list.of.as_deref().unwrap_or("everyone");
            return Err(unauthorized(format!(
                "You are not authorized to view {whom}'s permissions"
            )));
        }
        let keys: Option<BTreeSet<String>> = resource.map(|resource| match list.is_recursive {
            true => chain(&resource).iter().map(key).collect(),
            false => BTreeSet::from([key(&resource)]),
        });
        let whose = list.of.as_deref().map(|of| match list.is_recursive {
            true => with_granted(roles, of),
            false => BTreeSet::from([of.to_owned()]),
        });
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

    fn list_roles(
        &self,
        roles: &Arc<RoleMap>,
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
        let sees_all = self
            .require(roles, Permission::Describe, &Resource::AllRoles)
            .is_ok();
        let shown = match (of, self.user) {
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
    let none: [(&str, &str); 0] = [];
    let no_options = serialize_map(&none);
    for (name, role) in shown {
        rows.push([
            Some(name.as_bytes()),
            Some(&[u8::from(role.is_superuser)][..]),
            Some(&[u8::from(role.can_login)]),
            Some(&no_options),
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

fn check_options(options: &RoleOptions) -> Result<()> {
    if options.password.is_some() && options.hashed_password.is_some() {
        return refuse("Properties 'PASSWORD' and 'HASHED PASSWORD' are mutually exclusive");
    }
    if options.options.is_some() {
        return refuse("CassandraRoleManager doesn't support OPTIONS");
    }
    Ok(())
}

/// The role with these options.
fn altered(mut role: Role, options: &RoleOptions) -> Role {
    if let Some(is_superuser) = options.is_superuser {
        role.is_superuser = is_superuser;
    }
    if let Some(can_login) = options.can_login {
        role.can_login = can_login;
    }
    if let Some(given) = &options.password {
        role.password = Some(password::hash(given));
    }
    if let Some(hashed) = &options.hashed_password {
        role.password = Some(hashed.clone());
    }
    if let Some(datacenters) = &options.datacenters {
        role.datacenters = datacenters.iter().cloned().collect();
    }
    role
}

/// The permissions that a statement means: ALL are those that there are on the resource.
fn meant(permissions: &[Permission], resource: &Resource) -> Result<Vec<Permission>> {
    let applicable = applicable(resource);
    let is_all = permissions.len() == Permission::ALL.len();
    let meant = permissions
        .iter()
        .filter(|permission| applicable.contains(permission));
    let meant: Vec<Permission> = meant.copied().collect();
    if !is_all && meant.len() < permissions.len() {
        let what = match resource {
            Resource::AllRoles | Resource::Role(_) => "RoleResource",
            Resource::AllFunctions | Resource::AllFunctionsIn(_) | Resource::Function(_) => {
                "FunctionResource"
            }
            Resource::AllBeans | Resource::Bean(_) => "JMXResource",
            _ => "DataResource",
        };
        return refuse(format!(
            "Resource type {what} does not support any of the requested permissions"
        ));
    }
    Ok(meant)
}

/// Nothing, with a warning of these permissions unless ALL were meant.
fn warned(
    permissions: &[Permission],
    asked: &[Permission],
    words: impl FnOnce(String) -> String,
) -> Managed {
    if permissions.is_empty() || asked.len() == Permission::ALL.len() {
        return VOID;
    }
    let names: Vec<&str> = permissions
        .iter()
        .map(|permission| permission.name())
        .collect();
    (ResultBody::Void, vec![words(names.join(", "))])
}

fn refuse<T>(words: impl Into<String>) -> Result<T> {
    Err(CqlError::invalid(words))
}
