//! Runs the statements that change roles: CREATE, ALTER and DROP ROLE, GRANT and REVOKE. That the
//! role which asks may do so was judged before.

use super::options::{altered, check_options};
use super::resource::{applicable, complete, is_there, key, shown};
use super::rights::Rights;
use super::role::Role;
use super::roles::{RoleMap, with_granted};
use crate::error::{CqlError, ErrorKind, Result, refuse};
use crate::service::Service;
use crate::statement::{Access, Permission, Resource, RoleOptions};
use crate::wire::ResultBody;

/// Who asks, and where.
pub(crate) struct Manager<'a> {
    pub(crate) service: &'a Service,
    pub(crate) rights: &'a Rights,
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

/// Grants the role that made something everything that may be done with it.
pub(crate) async fn grant_to_creator(
    service: &Service,
    user: &str,
    resource: &Resource,
) -> Result<()> {
    let resource_key = key(resource);
    let granted = service.roles.change(user, |role| {
        // One that was dropped meanwhile does not come back.
        let role = role.map(|mut role| {
            role.grant(&resource_key, applicable(resource));
            role
        });
        Ok((role, ()))
    });
    granted.await
}

/// Takes all permissions on something that is gone away from everybody.
pub(crate) async fn revoke_from_all(service: &Service, resource: &Resource) -> Result<()> {
    let own = key(resource);
    // The name of a role may have a slash in it, and no role is below another.
    let below = match resource {
        Resource::Role(_) => None,
        Resource::AllKeyspaces
        | Resource::Keyspace(_)
        | Resource::AllTables(_)
        | Resource::Table(_)
        | Resource::AllRoles
        | Resource::AllFunctions
        | Resource::AllFunctionsIn(_)
        | Resource::Function(_)
        | Resource::AllBeans
        | Resource::Bean(_) => Some(format!("{own}/")),
    };
    let is_below = |key: &str| below.as_ref().is_some_and(|below| key.starts_with(below));
    let is_gone = |key: &String| *key == own || is_below(key);
    for (name, role) in service.roles.all().await?.iter() {
        if !role.permissions.keys().any(is_gone) {
            continue;
        }
        let revoked = service.roles.change(name, |role| {
            let role = role.map(|mut role| {
                role.permissions.retain(|key, _| !is_gone(key));
                role
            });
            Ok((role, ()))
        });
        revoked.await?;
    }
    Ok(())
}

pub(super) const VOID: Managed = (ResultBody::Void, Vec::new());

impl Manager<'_> {
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
        if roles.contains_key(name) {
            return there_already(name, if_not_exists);
        }
        let new = altered(Role::default(), options, self.hash(options).await?);
        let created = self.service.roles.change(name, |there| match there {
            Some(there) => Ok((Some(there), false)),
            None => Ok((Some(new.clone()), true)),
        });
        if !created.await? {
            return there_already(name, if_not_exists);
        }
        if let Some(user) = self.rights.user() {
            let resource = Resource::Role(name.to_owned());
            grant_to_creator(self.service, user, &resource).await?;
        }
        Ok(VOID)
    }

    /// The hash of the password that a statement gives, if it gives one.
    async fn hash(&self, options: &RoleOptions) -> Result<Option<String>> {
        let Some(password) = &options.password else {
            return Ok(options.hashed_password.clone());
        };
        let hashed = self.service.roles.authenticator.hash(password).await;
        let failed = || CqlError::new(ErrorKind::Server, "The password could not be hashed");
        hashed.map(Some).ok_or_else(failed)
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
        self.check_own(name, "altered")?;
        let hashed = self.hash(options).await?;
        let altered = self.service.roles.change(name, |role| {
            let role = role.map(|role| altered(role, options, hashed.clone()));
            Ok((role, ()))
        });
        altered.await?;
        Ok(VOID)
    }

    /// Refuses what would have no effect, since the settings go before.
    fn check_own(&self, name: &str, done: &str) -> Result<()> {
        if !self.service.roles.is_configured(name) {
            return Ok(());
        }
        refuse(format!(
            "Role {name} cannot be {done}: the server's setting cql-users names it"
        ))
    }

    async fn drop(&self, roles: &RoleMap, name: &str, if_exists: bool) -> Result<Managed> {
        if !roles.contains_key(name) {
            return if if_exists {
                Ok(VOID)
            } else {
                refuse(format!("{name} doesn't exist"))
            };
        }
        if self.rights.user() == Some(name) {
            return refuse("Cannot DROP primary role for current login");
        }
        self.check_own(name, "dropped")?;
        let changing = &self.service.roles;
        changing.change(name, |_| Ok((None, ()))).await?;
        for (member, role) in roles {
            if role.member_of.contains(name) {
                let left = changing.change(member, |role| {
                    let role = role.map(|mut role| {
                        role.member_of.remove(name);
                        role
                    });
                    Ok((role, ()))
                });
                left.await?;
            }
        }
        revoke_from_all(self.service, &Resource::Role(name.to_owned())).await?;
        Ok(VOID)
    }

    /// The resource that a GRANT or a REVOKE means, if it and the role are there.
    async fn resource(&self, roles: &RoleMap, resource: &Resource, role: &str) -> Result<Resource> {
        if !roles.contains_key(role) {
            return no_role(role);
        }
        let resource = complete(resource, self.keyspace);
        self.check_there(roles, &resource, "Resource ").await?;
        Ok(resource)
    }

    pub(super) async fn check_there(
        &self,
        roles: &RoleMap,
        resource: &Resource,
        what: &str,
    ) -> Result<()> {
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
        let resource = self.resource(roles, resource, to).await?;
        let resource_key = key(&resource);
        let had = self.service.roles.change(to, |role| {
            let Some(mut role) = role else {
                return no_role(to);
            };
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
        let resource = self.resource(roles, resource, from).await?;
        let resource_key = key(&resource);
        let had_not = self.service.roles.change(from, |role| {
            let Some(mut role) = role else {
                return no_role(from);
            };
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

    async fn grant_role(&self, roles: &RoleMap, role: &str, to: &str) -> Result<Managed> {
        check_roles(roles, [role, to])?;
        for (member, of) in [(to, role), (role, to)] {
            if with_granted(roles, member).contains(of) {
                return refuse(format!("{member} is a member of {of}"));
            }
        }
        let granted = self.service.roles.change(to, |grantee| {
            let grantee = grantee.map(|mut grantee| {
                grantee.member_of.insert(role.to_owned());
                grantee
            });
            Ok((grantee, ()))
        });
        granted.await?;
        Ok(VOID)
    }

    async fn revoke_role(&self, roles: &RoleMap, role: &str, from: &str) -> Result<Managed> {
        check_roles(roles, [role, from])?;
        let member = roles.get(from);
        if !member.is_some_and(|member| member.member_of.contains(role)) {
            return refuse(format!("{from} is not a member of {role}"));
        }
        let revoked = self.service.roles.change(from, |grantee| {
            let grantee = grantee.map(|mut grantee| {
                grantee.member_of.remove(role);
                grantee
            });
            Ok((grantee, ()))
        });
        revoked.await?;
        Ok(VOID)
    }
}

fn check_roles(roles: &RoleMap, names: [&str; 2]) -> Result<()> {
    match names.iter().find(|name| !roles.contains_key(**name)) {
        Some(name) => refuse(format!("{name} doesn't exist")),
        None => Ok(()),
    }
}

fn no_role<T>(name: &str) -> Result<T> {
    refuse(format!("Role {name} doesn't exist"))
}

fn there_already(name: &str, is_allowed: bool) -> Result<Managed> {
    match is_allowed {
        true => Ok(VOID),
        false => refuse(format!("{name} already exists")),
    }
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
