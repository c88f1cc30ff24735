//! Users: creating, changing, dropping and listing them.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::{Code, bad_value, failed_to_parse};
use tessera_mongo_language::filter::Filter;

use crate::access::privilege::Privilege;
use crate::access::{Access, Action, Need};
use crate::auth::login::Identity;
use crate::auth::scram::{Credential, MECHANISMS, Mechanism};
use crate::auth::{Name, User, restriction};
use crate::command::Command;
use crate::commands::asked;
use crate::failure::{Failure, Result};
use crate::fields::{
    ARRAY, BOOL, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, STRING, optional, required,
};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "createUser",
        "Creates a user.",
        Access::Decide(needs_to_create),
        |service, session, request| Box::pin(create(service, session, request)),
    )
    .writes(),
    Command::new(
        "updateUser",
        "Changes a user.",
        Access::Judge(may_update),
        |service, session, request| Box::pin(update(service, session, request)),
    )
    .writes(),
    Command::new(
        "dropUser",
        "Drops a user.",
        Access::Database(&[Action::DropUser]),
        |service, session, request| Box::pin(drop_user(service, session, request)),
    )
    .writes(),
    Command::new(
        "dropAllUsersFromDatabase",
        "Drops all users of a database.",
        Access::Database(&[Action::DropUser]),
        |service, session, request| Box::pin(drop_all(service, session, request)),
    )
    .writes(),
    Command::new(
        "grantRolesToUser",
        "Grants roles to a user.",
        Access::Decide(|request| needs_of_roles(request, Action::GrantRole)),
        |service, session, request| Box::pin(grant(service, session, request)),
    )
    .writes(),
    Command::new(
        "revokeRolesFromUser",
        "Revokes roles from a user.",
        Access::Decide(|request| needs_of_roles(request, Action::RevokeRole)),
        |service, session, request| Box::pin(revoke(service, session, request)),
    )
    .writes(),
    Command::new(
        "usersInfo",
        "Returns users.",
        Access::Judge(may_show),
        |service, session, request| Box::pin(show(service, session, request)),
    ),
];

const USER: &[Field] = &[
    optional("pwd", STRING),
    optional("customData", DOCUMENT),
    optional("roles", ARRAY),
    optional("digestPassword", BOOL),
    optional("mechanisms", ARRAY),
    optional("authenticationRestrictions", ARRAY),
];

/// The roles of a field, whose names are of this database unless they say otherwise.
pub(super) fn roles(request: &Request<'_>, field: &str) -> Result<Option<Vec<Name>>> {
    let Some(RawBsonRef::Array(values)) = request.body.get(field)? else {
        return Ok(None);
    };
    let values: Vec<Bson> = Vec::try_from(values)?;
    Name::parse_all(&values, "role", request.database).map(Some)
}

/// Giving or taking a role needs that right where the role belongs to.
pub(super) fn needs_of_roles(request: &Request<'_>, action: Action) -> Result<Vec<Need>> {
    let roles = roles(request, "roles")?.unwrap_or_default();
    let need = |role: &Name| Need::on_database(action, &role.database);
    Ok(roles.iter().map(need).collect())
}

/// Restricting where a user or role may log in from is a right of its own.
pub(super) fn needs_of_restrictions(request: &Request<'_>) -> Result<Option<Need>> {
    let given = request.body.get("authenticationRestrictions")?;
    let action = Action::SetAuthenticationRestriction;
    Ok(given.map(|_| Need::on_database(action, request.database)))
}

fn needs_to_create(request: &Request<'_>) -> Result<Vec<Need>> {
    let mut needs = needs_of_roles(request, Action::GrantRole)?;
    needs.push(Need::on_database(Action::CreateUser, request.database));
    needs.extend(needs_of_restrictions(request)?);
    Ok(needs)
}

/// Each field of a user is changed by a right of its own. What a user may change of themselves, if
/// their roles say so, is what they log in with and their own data.
fn may_update(request: &Request<'_>, user: &Identity) -> Result<bool> {
    const FIELDS: &[(&str, Action, Action)] = &[
        ("pwd", Action::ChangePassword, Action::ChangeOwnPassword),
        (
            "mechanisms",
            Action::ChangePassword,
            Action::ChangeOwnPassword,
        ),
        (
            "digestPassword",
            Action::ChangePassword,
            Action::ChangeOwnPassword,
        ),
        (
            "customData",
            Action::ChangeCustomData,
            Action::ChangeOwnCustomData,
        ),
    ];
    let database = request.database;
    let is_own = user.name == named(request, "User")?;
    let may = |action| user.may(&Need::on_database(action, database));
    for (field, action, of_own) in FIELDS {
        let given = request.body.get(field)?.is_some();
        if given && !may(*action) && !(is_own && may(*of_own)) {
            return Ok(false);
        }
    }
    let mut needs = needs_of_roles(request, Action::GrantRole)?;
    if request.body.get("roles")?.is_some() {
        // Nobody can say beforehand which roles the user loses.
        needs.push(Need::on_any_database(Action::RevokeRole));
    }
    needs.extend(needs_of_restrictions(request)?);
    Ok(needs.iter().all(|need| user.may(need)))
}

/// Everybody may see themselves, but not what their password is checked against.
fn may_show(request: &Request<'_>, user: &Identity) -> Result<bool> {
    let with_credentials = request.is_on("showCredentials");
    let may = |database: &str| user.may(&Need::on_database(Action::ViewUser, database));
    Ok(match wanted(request)? {
        Wanted::OfDatabase => may(request.database),
        Wanted::Everywhere => user.may(&Need::on_cluster(Action::ViewUser)),
        Wanted::Named(names) => names
            .iter()
            .all(|name| (*name == user.name && !with_credentials) || may(&name.database)),
    })
}

/// The user or role that a command names as its own field.
pub(super) fn named(request: &Request<'_>, kind: &str) -> Result<Name> {
    match request.argument() {
        RawBsonRef::String("") => Err(bad_value(format!("{kind} name must not be empty")).into()),
        RawBsonRef::String(name) => Ok(Name::new(name, request.database)),
        other => {
            let found = crate::fields::type_name(other.element_type());
            let name = request.name();
            let message =
                format!("BSON field '{name}' is the wrong type '{found}', expected type 'string'");
            Err(Failure::new(Code::TYPE_MISMATCH, message))
        }
    }
}

/// What is kept of a password, for the mechanisms that were asked for.
async fn credentials(
    name: &Name,
    password: &str,
    mechanisms: Vec<Mechanism>,
) -> Result<BTreeMap<Mechanism, Credential>> {
    if password.is_empty() {
        return Err(bad_value("Password cannot be empty").into());
    }
    let (user, password) = (name.name.clone(), password.to_owned());
    // Stretching a password is meant to take long.
    let stretch = move || {
        let each = mechanisms
            .into_iter()
            .map(|mechanism| Some((mechanism, Credential::new(mechanism, &user, &password)?)));
        each.collect::<Option<BTreeMap<_, _>>>()
    };
    let stretched = tokio::task::spawn_blocking(stretch).await;
    let stretched = stretched
        .map_err(|_| Failure::new(Code::INTERNAL_ERROR, "the password could not be hashed"))?;
    let message = "the password has characters that passwords cannot have";
    Ok(stretched.ok_or_else(|| bad_value(message))?)
}

fn mechanisms(fields: &Fields<'_>) -> Result<Vec<Mechanism>> {
    let Some(names) = fields.array("mechanisms") else {
        return Ok(MECHANISMS.to_vec());
    };
    let mut mechanisms = Vec::new();
    for name in names {
        let name = name?.as_str().unwrap_or_default();
        mechanisms.push(
            Mechanism::parse(name)
                .ok_or_else(|| bad_value(format!("Unknown auth mechanism '{name}'")))?,
        );
    }
    if mechanisms.is_empty() {
        return Err(bad_value("mechanisms field must not be empty").into());
    }
    Ok(mechanisms)
}

async fn create(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, USER)?;
    let name = named(request, "User")?;
    let roles = roles(request, "roles")?.ok_or_else(|| {
        let message = "\"createUser\" command requires a \"roles\" array";
        Failure::new(Code::IDL_FAILED_TO_PARSE, message)
    })?;
    if fields.get("digestPassword").is_some() && fields.bool("digestPassword") == Some(false) {
        let message = "Use of SCRAM-SHA-256 requires undigested passwords";
        return Err(bad_value(message).into());
    }
    let password = fields.str("pwd").ok_or_else(|| {
        bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external'",
        )
    })?;
    service.users.check_roles(&service.store, &roles).await?;
    let user = User {
        credentials: credentials(&name, password, mechanisms(&fields)?).await?,
        id: bson::Uuid::new(),
        roles,
        custom_data: fields
            .document("customData")
            .map(Document::try_from)
            .transpose()?,
        restrictions: restriction::read(fields.array("authenticationRestrictions"))?
            .unwrap_or_default(),
        name: name.clone(),
    };
    let make = |old: Option<User>| match old {
        None => Ok(Some(user.clone())),
        Some(_) => {
            let message = format!("User \"{name}\" already exists");
            // Known by number alone.
            Err(Failure::new(Code(51_003), message))
        }
    };
    service
        .users
        .change_user(&service.store, &name, make)
        .await?;
    Ok(Reply::ok())
}

fn no_user(name: &Name) -> Failure {
    Failure::new(Code::USER_NOT_FOUND, format!("User '{name}' not found"))
}

async fn update(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, USER)?;
    let name = named(request, "User")?;
    let roles = roles(request, "roles")?;
    service
        .users
        .check_roles(&service.store, roles.as_deref().unwrap_or_default())
        .await?;
    let new_credentials = match fields.str("pwd") {
        Some(password) => Some(credentials(&name, password, mechanisms(&fields)?).await?),
        None => None,
    };
    let custom_data = fields
        .document("customData")
        .map(Document::try_from)
        .transpose()?;
    let restrictions = restriction::read(fields.array("authenticationRestrictions"))?;
    let fewer = match fields.get("mechanisms") {
        Some(_) if new_credentials.is_none() => Some(mechanisms(&fields)?),
        _ => None,
    };
    if roles.is_none()
        && new_credentials.is_none()
        && custom_data.is_none()
        && restrictions.is_none()
        && fewer.is_none()
    {
        let message = "Must specify at least one field to update in updateUser";
        return Err(bad_value(message).into());
    }
    let change = |old: Option<User>| {
        let mut user = old.ok_or_else(|| no_user(&name))?;
        if let Some(roles) = &roles {
            user.roles.clone_from(roles);
        }
        if let Some(credentials) = &new_credentials {
            user.credentials.clone_from(credentials);
        }
        if let Some(fewer) = &fewer {
            if fewer
                .iter()
                .any(|mechanism| !user.credentials.contains_key(mechanism))
            {
                let message = "mechanisms field must be a subset of previously set mechanisms";
                return Err(bad_value(message).into());
            }
            user.credentials
                .retain(|mechanism, _| fewer.contains(mechanism));
        }
        if custom_data.is_some() {
            user.custom_data.clone_from(&custom_data);
        }
        if let Some(restrictions) = &restrictions {
            user.restrictions.clone_from(restrictions);
        }
        Ok(Some(user))
    };
    service
        .users
        .change_user(&service.store, &name, change)
        .await?;
    Ok(Reply::ok())
}

async fn drop_user(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let name = named(request, "User")?;
    match service.users.drop_user(&service.store, &name).await? {
        true => Ok(Reply::ok()),
        false => Err(no_user(&name)),
    }
}

async fn drop_all(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let mut dropped = 0i64;
    // Users of the server's settings are not stored, and stay.
    let (users, damaged) = service.users.stored(&service.store).await?;
    let names = users.into_iter().map(|user| user.name);
    for name in names.chain(damaged.into_iter().map(|lost| lost.name)) {
        if name.database == request.database {
            let was_there = service.users.drop_user(&service.store, &name).await?;
            dropped += i64::from(was_there);
        }
    }
    Ok(doc! { "n": dropped }.into())
}

const ROLES: &[Field] = &[required("roles", ARRAY)];

async fn grant(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, ROLES)?;
    let name = named(request, "User")?;
    let roles = roles(request, "roles")?.unwrap_or_default();
    service.users.check_roles(&service.store, &roles).await?;
    let change = |old: Option<User>| {
        let mut user = old.ok_or_else(|| no_user(&name))?;
        for role in &roles {
            if !user.roles.contains(role) {
                user.roles.push(role.clone());
            }
        }
        Ok(Some(user))
    };
    service
        .users
        .change_user(&service.store, &name, change)
        .await?;
    Ok(Reply::ok())
}

async fn revoke(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, ROLES)?;
    let name = named(request, "User")?;
    let roles = roles(request, "roles")?.unwrap_or_default();
    service.users.check_roles(&service.store, &roles).await?;
    let change = |old: Option<User>| {
        let mut user = old.ok_or_else(|| no_user(&name))?;
        user.roles.retain(|role| !roles.contains(role));
        Ok(Some(user))
    };
    service
        .users
        .change_user(&service.store, &name, change)
        .await?;
    Ok(Reply::ok())
}

const SHOW: &[Field] = &[
    optional("showCredentials", BOOL_OR_NUMBER),
    optional("showPrivileges", BOOL_OR_NUMBER),
    optional("showAuthenticationRestrictions", BOOL_OR_NUMBER),
    optional("showCustomData", BOOL_OR_NUMBER),
    optional("filter", DOCUMENT),
];

/// Which users are asked for.
enum Wanted {
    OfDatabase,
    Everywhere,
    Named(Vec<Name>),
}

fn wanted(request: &Request<'_>) -> Result<Wanted> {
    let argument = Bson::try_from(request.argument())?;
    match &argument {
        Bson::Int32(1) | Bson::Int64(1) => Ok(Wanted::OfDatabase),
        Bson::Double(number) if *number == 1.0 => Ok(Wanted::OfDatabase),
        Bson::Document(document) if document.contains_key("forAllDBs") => Ok(Wanted::Everywhere),
        Bson::Array(several) => {
            Name::parse_all(several, "user", request.database).map(Wanted::Named)
        }
        Bson::String(_) | Bson::Document(_) => Ok(Wanted::Named(vec![Name::parse(
            &argument,
            "user",
            request.database,
        )?])),
        _ => Err(bad_value("usersInfo takes 1, a name, or an array of names").into()),
    }
}

async fn show(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, SHOW)?;
    let flag = |name: &str| fields.bool(name).unwrap_or(false);
    let wanted = wanted(request)?;
    if fields.get("filter").is_some() && flag("showPrivileges") {
        let message = "User info with filter cannot be combined with showPrivileges";
        return Err(failed_to_parse(message).into());
    }
    let context = asked::context(service, Collation::default(), None)?;
    let filter = Filter::parse(&asked::query(&fields, "filter")?, &context)?;
    let mut shown = Vec::new();
    let is_meant = |name: &Name| match &wanted {
        Wanted::OfDatabase => name.database == request.database,
        Wanted::Everywhere => true,
        Wanted::Named(names) => names.contains(name),
    };
    for user in service.users.all(&service.store).await? {
        if !is_meant(&user.name) {
            continue;
        }
        let mut document = user.shown(flag("showCredentials"));
        if fields.bool("showCustomData") == Some(false) {
            document.remove("customData");
        }
        if !flag("showAuthenticationRestrictions") {
            document.remove("authenticationRestrictions");
        }
        if flag("showPrivileges") {
            let granted = service.users.expand(&service.store, &user.roles).await?;
            let inherited = granted.roles.iter().map(|role| role.to_document("role"));
            let inherited: Vec<Bson> = inherited.map(Bson::Document).collect();
            let privileges = granted.privileges.iter().map(Privilege::to_document);
            let privileges: Vec<Bson> = privileges.map(Bson::Document).collect();
            document.insert("inheritedRoles", inherited);
            document.insert("inheritedPrivileges", privileges);
        }
        if filter.matches(&document)? {
            shown.push(Bson::Document(document));
        }
    }
    let (_, damaged) = service.users.stored(&service.store).await?;
    for lost in damaged.iter().filter(|lost| is_meant(&lost.name)) {
        let document = lost.shown("user");
        if filter.matches(&document)? {
            shown.push(Bson::Document(document));
        }
    }
    Ok(doc! { "users": shown }.into())
}
