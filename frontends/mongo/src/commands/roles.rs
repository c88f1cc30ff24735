//! User-defined roles.

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_mongo_language::error::{Code, bad_value};

use super::users::{named, needs_of_restrictions, needs_of_roles, roles};
use crate::access::privilege::Privilege;
use crate::access::role;
use crate::access::{Access, Action, Need};
use crate::auth::login::Identity;
use crate::auth::{Name, Role, restriction};
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, ARRAY, BOOL_OR_NUMBER, Field, Fields, optional, required};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "createRole",
        "Creates a role.",
        Access::Decide(|request| {
            let create = Need::on_database(Action::CreateRole, request.database);
            needs_to_define(request, create)
        }),
        |service, session, request| Box::pin(create(service, session, request)),
    )
    .writes(),
    Command::new(
        "updateRole",
        "Changes a role.",
        // Nobody can say beforehand what the role loses.
        Access::Decide(|request| {
            needs_to_define(request, Need::on_any_database(Action::RevokeRole))
        }),
        |service, session, request| Box::pin(update(service, session, request)),
    )
    .writes(),
    Command::new(
        "dropRole",
        "Drops a role.",
        Access::Database(&[Action::DropRole]),
        |service, session, request| Box::pin(drop_role(service, session, request)),
    )
    .writes(),
    Command::new(
        "dropAllRolesFromDatabase",
        "Drops all roles of a database.",
        Access::Database(&[Action::DropRole]),
        |service, session, request| Box::pin(drop_all(service, session, request)),
    )
    .writes(),
    Command::new(
        "grantRolesToRole",
        "Grants roles to a role.",
        Access::Decide(|request| needs_of_roles(request, Action::GrantRole)),
        |service, session, request| Box::pin(change_roles(service, session, request)),
    )
    .writes(),
    Command::new(
        "revokeRolesFromRole",
        "Revokes roles from a role.",
        Access::Decide(|request| needs_of_roles(request, Action::RevokeRole)),
        |service, session, request| Box::pin(change_roles(service, session, request)),
    )
    .writes(),
    Command::new(
        "grantPrivilegesToRole",
        "Grants privileges to a role.",
        Access::Decide(|request| needs_of_privileges(request, Action::GrantRole)),
        |service, session, request| Box::pin(change_privileges(service, session, request)),
    )
    .writes(),
    Command::new(
        "revokePrivilegesFromRole",
        "Revokes privileges from a role.",
        Access::Decide(|request| needs_of_privileges(request, Action::RevokeRole)),
        |service, session, request| Box::pin(change_privileges(service, session, request)),
    )
    .writes(),
    Command::new(
        "rolesInfo",
        "Returns roles.",
        Access::Judge(may_show),
        |service, session, request| Box::pin(show(service, session, request)),
    ),
    Command::new(
        "invalidateUserCache",
        "Clears the cache of users and roles.",
        Access::Cluster(&[Action::InvalidateUserCache]),
        |service, _, _| {
            Box::pin(async {
                service.users.invalidate();
                Ok(Reply::ok())
            })
        },
    ),
];

const ROLE: &[Field] = &[
    optional("privileges", ARRAY),
    optional("roles", ARRAY),
    optional("authenticationRestrictions", ARRAY),
];

/// Defining a role needs the right to grant all that it will hold.
fn needs_to_define(request: &Request<'_>, own: Need) -> Result<Vec<Need>> {
    let mut needs = needs_of_roles(request, Action::GrantRole)?;
    needs.extend(needs_of_privileges(request, Action::GrantRole)?);
    needs.extend(needs_of_restrictions(request)?);
    needs.push(own);
    Ok(needs)
}

/// Giving or taking a privilege needs that right where the privilege reaches.
fn needs_of_privileges(request: &Request<'_>, action: Action) -> Result<Vec<Need>> {
    let privileges = privileges(request)?.unwrap_or_default();
    let need = |privilege: &Privilege| Need::on_database(action, privilege.pattern.granted_by());
    Ok(privileges.iter().map(need).collect())
}

/// Everybody may see the roles that they have.
fn may_show(request: &Request<'_>, user: &Identity) -> Result<bool> {
    let may = |database: &str| user.may(&Need::on_database(Action::ViewRole, database));
    Ok(match wanted(request)? {
        None => may(request.database),
        Some(names) => names
            .iter()
            .all(|name| user.granted.roles.contains(name) || may(&name.database)),
    })
}

/// The roles that are asked for; none means those of the database.
fn wanted(request: &Request<'_>) -> Result<Option<Vec<Name>>> {
    let argument = Bson::try_from(request.argument())?;
    Ok(match &argument {
        Bson::Int32(1) | Bson::Int64(1) => None,
        Bson::Double(number) if *number == 1.0 => None,
        Bson::Array(several) => Some(Name::parse_all(several, "role", request.database)?),
        other => Some(vec![Name::parse(other, "role", request.database)?]),
    })
}

fn privileges(request: &Request<'_>) -> Result<Option<Vec<Privilege>>> {
    let Some(RawBsonRef::Array(values)) = request.body.get("privileges")? else {
        return Ok(None);
    };
    let mut privileges = Vec::new();
    for value in values {
        let value = value?;
        let document = value
            .as_document()
            .ok_or_else(|| Failure::new(Code::TYPE_MISMATCH, "privileges must be documents"))?;
        privileges.push(Privilege::parse(&Document::try_from(document)?)?);
    }
    Ok(Some(privileges))
}

fn no_role(name: &Name) -> Failure {
    Failure::new(Code::ROLE_NOT_FOUND, format!("Role '{name}' not found"))
}

/// The role that a command is about, which must not be a built-in one.
fn own(request: &Request<'_>) -> Result<Name> {
    let name = named(request, "Role")?;
    if role::built_in(&name.name, &name.database).is_some() {
        let message = format!("{name} is a built-in role and cannot be modified.");
        return Err(Failure::new(Code::INVALID_ROLE_MODIFICATION, message));
    }
    Ok(name)
}

/// A role reaches no further than its database, unless it is one of `admin`.
fn check_reach(name: &Name, roles: &[Name], privileges: &[Privilege]) -> Result<()> {
    let refuse = |what: &str| {
        let database = &name.database;
        let message = format!("Roles on the '{database}' database cannot be granted {what}");
        Err(Failure::new(Code::INVALID_ROLE_MODIFICATION, message))
    };
    if name.database == "admin" {
        return Ok(());
    }
    if roles.iter().any(|role| role.database != name.database) {
        return refuse("roles from other databases");
    }
    let own = |privilege: &Privilege| privilege.pattern.granted_by() == name.database;
    match privileges.iter().all(own) {
        true => Ok(()),
        false => refuse("privileges that target other databases or the cluster"),
    }
}

async fn create(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, ROLE)?;
    let missing = |field: &str| {
        let message = format!("BSON field 'createRole.{field}' is missing but a required field");
        Failure::new(Code::IDL_FAILED_TO_PARSE, message)
    };
    let name = own(request).map_err(|failure| match failure.code() {
        Code::INVALID_ROLE_MODIFICATION => {
            bad_value("Cannot create a role with the name of a built-in role").into()
        }
        _ => failure,
    })?;
    let roles = roles(request, "roles")?.ok_or_else(|| missing("roles"))?;
    let privileges = privileges(request)?.ok_or_else(|| missing("privileges"))?;
    check_reach(&name, &roles, &privileges)?;
    service.users.check_roles(&service.store, &roles).await?;
    let role = Role {
        name: name.clone(),
        privileges,
        roles,
        restrictions: restriction::read(fields.array("authenticationRestrictions"))?
            .unwrap_or_default(),
    };
    let make = |old: Option<Role>| match old {
        None => Ok(Some(role.clone())),
        Some(_) => {
            let message = format!("Role \"{name}\" already exists");
            // Known by number alone.
            Err(Failure::new(Code(51_002), message))
        }
    };
    service
        .users
        .change_role(&service.store, &name, make)
        .await?;
    Ok(Reply::ok())
}

async fn update(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, ROLE)?;
    let name = own(request)?;
    let (roles, privileges) = (roles(request, "roles")?, privileges(request)?);
    let new_roles = roles.as_deref().unwrap_or_default();
    let new_privileges = privileges.as_deref().unwrap_or_default();
    check_reach(&name, new_roles, new_privileges)?;
    let restrictions = restriction::read(fields.array("authenticationRestrictions"))?;
    if roles.is_none() && privileges.is_none() && restrictions.is_none() {
        let message = "Must specify at least one field to update in updateRole";
        return Err(bad_value(message).into());
    }
    service
        .users
        .check_roles(&service.store, roles.as_deref().unwrap_or_default())
        .await?;
    check_cycle(service, &name, roles.as_deref().unwrap_or_default()).await?;
    let change = |old: Option<Role>| {
        let mut role = old.ok_or_else(|| no_role(&name))?;
        if let Some(roles) = &roles {
            role.roles.clone_from(roles);
        }
        if let Some(privileges) = &privileges {
            role.privileges.clone_from(privileges);
        }
        if let Some(restrictions) = &restrictions {
            role.restrictions.clone_from(restrictions);
        }
        Ok(Some(role))
    };
    service
        .users
        .change_role(&service.store, &name, change)
        .await?;
    Ok(Reply::ok())
}

/// Refuses a role that would contain itself.
async fn check_cycle(service: &Service, name: &Name, roles: &[Name]) -> Result<()> {
    let granted = service.users.expand(&service.store, roles).await?;
    if granted.roles.contains(name) {
        let message =
            format!("Granting the roles would introduce a cycle in the role graph of {name}");
        return Err(Failure::new(Code::INVALID_ROLE_MODIFICATION, message));
    }
    Ok(())
}

async fn drop_role(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let name = own(request)?;
    if !service.users.drop_role(&service.store, &name).await? {
        return Err(no_role(&name));
    }
    forget(service, &name).await?;
    Ok(Reply::ok())
}

/// Takes a role that is gone from everyone who has it.
async fn forget(service: &Service, gone: &Name) -> Result<()> {
    for user in service.users.all(&service.store).await? {
        if user.roles.contains(gone) {
            let change = |old: Option<crate::auth::User>| {
                Ok(old.map(|mut user| {
                    user.roles.retain(|role| role != gone);
                    user
                }))
            };
            service
                .users
                .change_user(&service.store, &user.name, change)
                .await?;
        }
    }
    for role in service.users.all_roles(&service.store).await?.0 {
        if role.roles.contains(gone) {
            let change = |old: Option<Role>| {
                Ok(old.map(|mut role| {
                    role.roles.retain(|role| role != gone);
                    role
                }))
            };
            service
                .users
                .change_role(&service.store, &role.name, change)
                .await?;
        }
    }
    Ok(())
}

async fn drop_all(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let mut dropped = 0i64;
    let (roles, damaged) = service.users.all_roles(&service.store).await?;
    let names = roles.into_iter().map(|role| role.name);
    for name in names.chain(damaged.into_iter().map(|lost| lost.name)) {
        if name.database == request.database {
            let was_there = service.users.drop_role(&service.store, &name).await?;
            forget(service, &name).await?;
            dropped += i64::from(was_there);
        }
    }
    Ok(doc! { "n": dropped }.into())
}

const ROLES: &[Field] = &[required("roles", ARRAY)];

async fn change_roles(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, ROLES)?;
    let name = own(request)?;
    let grants = request.name() == "grantRolesToRole";
    let roles = roles(request, "roles")?.unwrap_or_default();
    service.users.check_roles(&service.store, &roles).await?;
    if grants {
        check_reach(&name, &roles, &[])?;
        check_cycle(service, &name, &roles).await?;
    }
    let change = |old: Option<Role>| {
        let mut role = old.ok_or_else(|| no_role(&name))?;
        role.roles.retain(|own| !roles.contains(own));
        if grants {
            role.roles.extend(roles.iter().cloned());
        }
        Ok(Some(role))
    };
    service
        .users
        .change_role(&service.store, &name, change)
        .await?;
    Ok(Reply::ok())
}

const PRIVILEGES: &[Field] = &[required("privileges", ARRAY)];

async fn change_privileges(
    service: &Service,
    _: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    Fields::of(request, PRIVILEGES)?;
    let name = own(request)?;
    let grants = request.name() == "grantPrivilegesToRole";
    let privileges = privileges(request)?.unwrap_or_default();
    if grants {
        check_reach(&name, &[], &privileges)?;
    }
    let change = |old: Option<Role>| {
        let mut role = old.ok_or_else(|| no_role(&name))?;
        for changed in &privileges {
            let same = |own: &&mut Privilege| own.pattern == changed.pattern;
            match role.privileges.iter_mut().find(same) {
                Some(own) if grants => {
                    let actions = [own.actions.as_slice(), &changed.actions].concat();
                    *own = Privilege::new(own.pattern.clone(), actions);
                }
                Some(own) => own
                    .actions
                    .retain(|action| !changed.actions.contains(action)),
                None if grants => role.privileges.push(changed.clone()),
                None => {}
            }
        }
        role.privileges
            .retain(|privilege| !privilege.actions.is_empty());
        Ok(Some(role))
    };
    service
        .users
        .change_role(&service.store, &name, change)
        .await?;
    Ok(Reply::ok())
}

const SHOW: &[Field] = &[
    optional("showPrivileges", ANY),
    optional("showAuthenticationRestrictions", BOOL_OR_NUMBER),
    optional("showBuiltinRoles", BOOL_OR_NUMBER),
];

async fn show(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, SHOW)?;
    let with_privileges = fields.bool("showPrivileges").unwrap_or(false);
    let names = wanted(request)?;
    let built_in_too = names.is_some() || fields.bool("showBuiltinRoles").unwrap_or(false);
    let meant = |name: &Name| match &names {
        None => name.database == request.database,
        Some(names) => names.contains(name),
    };
    let (roles, damaged) = service.users.all_roles(&service.store).await?;
    let mut shown = Vec::new();
    for role in roles.iter().filter(|role| meant(&role.name)) {
        shown.push(shown_role(service, role, false, with_privileges).await?);
    }
    if fields.bool("showAuthenticationRestrictions") != Some(true) {
        for role in &mut shown {
            role.remove("authenticationRestrictions");
        }
    }
    let damaged = damaged.iter().filter(|lost| meant(&lost.name));
    shown.extend(damaged.map(|lost| lost.shown("role")));
    if built_in_too {
        for name in built_in_roles(names.as_deref(), request.database) {
            let role = Role {
                privileges: role::built_in(&name.name, &name.database).unwrap_or_default(),
                name,
                roles: Vec::new(),
                restrictions: Vec::new(),
            };
            shown.push(shown_role(service, &role, true, with_privileges).await?);
        }
    }
    Ok(doc! { "roles": shown }.into())
}

/// The built-in roles among those asked for, or all of a database.
fn built_in_roles(asked: Option<&[Name]>, database: &str) -> Vec<Name> {
    match asked {
        None => role::built_in_names(database)
            .map(|name| Name::new(name, database))
            .collect(),
        Some(names) => {
            let built_in = |name: &&Name| role::built_in(&name.name, &name.database).is_some();
            names.iter().filter(built_in).cloned().collect()
        }
    }
}

async fn shown_role(
    service: &Service,
    role: &Role,
    built_in: bool,
    with_privileges: bool,
) -> Result<Document> {
    let granted = service.users.expand(&service.store, &role.roles).await?;
    let inherited = granted.roles.iter().map(|role| role.to_document("role"));
    let mut document = role.to_document();
    let privileges = document.remove("privileges");
    document.insert(
        "inheritedRoles",
        inherited.map(Bson::Document).collect::<Vec<_>>(),
    );
    document.insert("isBuiltin", built_in);
    if with_privileges {
        let all = role.privileges.iter().chain(&granted.privileges);
        let all: Vec<Bson> = all.map(|own| Bson::Document(own.to_document())).collect();
        document.insert("privileges", privileges.unwrap_or(Bson::Array(Vec::new())));
        document.insert("inheritedPrivileges", all);
    }
    Ok(document)
}
