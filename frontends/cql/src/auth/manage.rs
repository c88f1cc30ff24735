//! Runs the statements that change roles: CREATE, ALTER and DROP ROLE, GRANT and REVOKE.

use super::check::{is_superuser, require, unauthorized};
use super::password::{self, Unusable, check_hash};
use super::resource::{applicable, complete, is_there, key, shown};
use super::role::Role;
use super::roles::{RoleMap, with_granted};
use crate::error::{Result, refuse};
use crate::service::Service;
use crate::statement::{Access, Permission, Resource, RoleOptions};
use crate::wire::ResultBody;

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

pub(super) const VOID: Managed = (ResultBody::Void, Vec::new());

impl Manager<'_> {
    pub(super) fn require(
        &self,
        roles: &RoleMap,
        permission: Permission,
        on: &Resource,
    ) -> Result<()> {
        match self.user {
            None => Ok(()),
            Some(user) => require(roles, user, permission, on),
        }
    }

    pub(super) fn is_superuser(&self, roles: &RoleMap) -> bool {
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
}

fn check_options(options: &RoleOptions) -> Result<()> {
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
