//! Stages about the server's activity: its operations, its sessions, and its plan cache and query
//! statistics, which are empty because every query is planned anew.

use bson::{Bson, DateTime, Document, doc};
use tessera_mongo_language::compare::type_name;
use tessera_mongo_language::error::{Code, Error, failed_to_parse, type_mismatch};

use crate::aggregate::environment::Environment;
use crate::commands::status;
use crate::failure::{Failure, Result};
use crate::logical::Owner;

/// The options of `$currentOp`, all of them true or false.
const CURRENT_OP: &[&str] = &[
    "allUsers",
    "idleConnections",
    "idleCursors",
    "idleSessions",
    "localOps",
    "backtrace",
    "truncateOps",
    "targetAllNodes",
];

/// What commands are running.
pub(super) async fn current_op(
    environment: &Environment,
    argument: &Bson,
) -> Result<Vec<Document>> {
    let options = options("$currentOp", argument, CURRENT_OP)?;
    for (name, value) in options {
        if !matches!(value, Bson::Boolean(_)) {
            return Err(wrong_type("$currentOp", name, value, "bool"));
        }
    }
    let wants = |name: &str| options.get_bool(name).unwrap_or(false);
    if wants("targetAllNodes") {
        let message = "$currentOp takes 'targetAllNodes' only where there are several nodes";
        return Err(failed_to_parse(message).into());
    }
    let service = &environment.service;
    let mut running = status::operations(service, wants("idleConnections"));
    // Rebuilds go on by themselves, so they are nobody's.
    let rebuilds = crate::sharding::operations(service).await?;
    running.extend(rebuilds.into_iter().map(|operation| (None, operation)));
    let all = asks_for_all_users(argument);
    let shown = running
        .into_iter()
        .filter(|(owner, _)| all || *owner == environment.user);
    Ok(shown.map(|(_, shown)| shown).collect())
}

/// Whether a `$currentOp` is to show the commands of others.
pub(crate) fn asks_for_all_users(argument: &Bson) -> bool {
    let options = argument.as_document();
    options.is_some_and(|options| options.get_bool("allUsers").unwrap_or(false))
}

/// Whether a `$listSessions` is to show nothing but the sessions of this owner. One that cannot be
/// read shows nothing at all.
pub(crate) fn asks_for_own_sessions(argument: &Bson, own: Owner) -> bool {
    let wanted = wanted_owners(argument, own);
    wanted.is_ok_and(|wanted| wanted.is_some_and(|owners| owners.iter().all(|of| *of == own)))
}

/// The sessions that this server knows.
pub(super) async fn list_sessions(
    environment: &Environment,
    argument: &Bson,
) -> Result<Vec<Document>> {
    let wanted = wanted_owners(argument, environment.owner)?;
    let sessions = environment.service.sessions.all();
    let wanted = sessions.into_iter().filter(|(key, _)| {
        let owners = wanted.as_ref();
        owners.is_none_or(|owners| owners.contains(&key.owner))
    });
    let shown = wanted.map(|(key, last_use)| {
        let last_use = i64::try_from(last_use).unwrap_or(i64::MAX);
        doc! { "_id": key.to_document(), "lastUse": DateTime::from_millis(last_use) }
    });
    Ok(shown.collect())
}

/// Whose sessions are asked for: one's own unless others are named. None: everybody's.
fn wanted_owners(argument: &Bson, own: Owner) -> Result<Option<Vec<Owner>>> {
    const OPTIONS: &[&str] = &["users", "allUsers"];
    let stage = "$listLocalSessions";
    let options = options(stage, argument, OPTIONS)?;
    let all = match options.get("allUsers") {
        None | Some(Bson::Null) => false,
        Some(Bson::Boolean(all)) => *all,
        Some(other) => return Err(wrong_type(stage, "allUsers", other, "bool")),
    };
    let owners = match options.get("users") {
        None | Some(Bson::Null) => Vec::new(),
        Some(Bson::Array(users)) => owners(stage, users)?,
        Some(other) => return Err(wrong_type(stage, "users", other, "array")),
    };
    if all && !owners.is_empty() {
        let message = format!("{stage} takes either 'users' or 'allUsers'");
        return Err(Failure::new(Code(12), message));
    }
    Ok(match owners {
        _ if all => None,
        owners if owners.is_empty() => Some(vec![own]),
        owners => Some(owners),
    })
}

/// The owners that `users` names; nulls among them mean nothing.
fn owners(stage: &str, users: &[Bson]) -> Result<Vec<Owner>> {
    let mut owners = Vec::new();
    for user in users {
        if *user == Bson::Null {
            continue;
        }
        let Bson::Document(user) = user else {
            return Err(wrong_type(stage, "users", user, "object"));
        };
        for (name, value) in user {
            if !["user", "db"].contains(&name.as_str()) {
                let message = format!("BSON field '{stage}.users.{name}' is an unknown field.");
                return Err(Failure::new(Code::IDL_UNKNOWN_FIELD, message));
            }
            if !matches!(value, Bson::String(_) | Bson::Null) {
                return Err(wrong_type(stage, name, value, "string"));
            }
        }
        let (Ok(name), Ok(database)) = (user.get_str("user"), user.get_str("db")) else {
            let message = format!("BSON field '{stage}.users' needs 'user' and 'db'");
            return Err(Failure::new(Code::IDL_FAILED_TO_PARSE, message));
        };
        owners.push(Owner::of(&format!("{name}@{database}")));
    }
    Ok(owners)
}

/// The plans that are kept: none.
pub(super) async fn plan_cache_stats(_: &Environment, argument: &Bson) -> Result<Vec<Document>> {
    let Bson::Document(options) = argument else {
        let message = "$planCacheStats value must be an object";
        return Err(failed_to_parse(message).into());
    };
    for (name, value) in options {
        match (name.as_str(), value) {
            ("allHosts", Bson::Boolean(false)) => {}
            ("allHosts", Bson::Boolean(true)) => {
                let message = "$planCacheStats takes 'allHosts' only where there are several hosts";
                return Err(Error::new(Code(4_503_200), message).into());
            }
            ("allHosts", _) => {
                let message = "Field 'allHosts' must be a bool";
                return Err(Error::new(Code(13_111), message).into());
            }
            _ => {
                let message = format!("$planCacheStats parameters are empty, but found '{name}'");
                return Err(failed_to_parse(message).into());
            }
        }
    }
    Ok(Vec::new())
}

/// The settings that queries were given: none.
pub(super) async fn query_settings(_: &Environment, argument: &Bson) -> Result<Vec<Document>> {
    if !matches!(argument, Bson::Document(_)) {
        let message = "$querySettings stage expects a document as argument";
        return Err(Error::new(Code(7_746_800), message).into());
    }
    const OPTIONS: &[&str] = &["showDebugQueryShape"];
    let options = options("$querySettings", argument, OPTIONS)?;
    match options.get("showDebugQueryShape") {
        None | Some(Bson::Boolean(_) | Bson::Null) => Ok(Vec::new()),
        Some(other) => Err(wrong_type(
            "$querySettings",
            "showDebugQueryShape",
            other,
            "bool",
        )),
    }
}

/// What was counted of queries: nothing.
pub(super) async fn query_stats(_: &Environment, argument: &Bson) -> Result<Vec<Document>> {
    options("$queryStats", argument, &["transformIdentifiers"])?;
    Ok(Vec::new())
}

fn options<'a>(stage: &str, argument: &'a Bson, known: &[&str]) -> Result<&'a Document> {
    let Bson::Document(options) = argument else {
        let found = type_name(argument);
        let message = format!("{stage} must be specified as an object, not {found}");
        return Err(type_mismatch(message).into());
    };
    match options.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(options),
        Some(name) => {
            let message = format!("BSON field '{stage}.{name}' is an unknown field.");
            Err(Failure::new(Code::IDL_UNKNOWN_FIELD, message))
        }
    }
}

fn wrong_type(stage: &str, name: &str, value: &Bson, expected: &str) -> Failure {
    let found = type_name(value);
    let message =
        format!("BSON field '{stage}.{name}' is the wrong type '{found}', expected '{expected}'");
    type_mismatch(message).into()
}
