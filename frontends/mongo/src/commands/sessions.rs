//! Logical sessions: starting, refreshing, ending and killing them.

use bson::spec::ElementType;
use bson::{RawArray, RawBsonRef, doc};
use tessera_mongo_language::error::Code;

use crate::access::{Access, Action};
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{
    ARRAY, BINARY, DOCUMENT, Field, Fields, STRING, optional, required, wrong_type,
};
use crate::logical::{Owner, SessionId, SessionKey, TIMEOUT_MINUTES};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "startSession",
        "Starts a session.",
        Access::Authenticated,
        |service, session, _| Box::pin(start(service, session)),
    ),
    Command::new(
        "refreshSessions",
        "Refreshes sessions.",
        Access::Authenticated,
        |service, session, request| Box::pin(refresh(service, session, request)),
    ),
    Command::new(
        "endSessions",
        "Ends sessions.",
        Access::Anyone,
        |service, session, request| Box::pin(end(service, session, request)),
    )
    .stable()
    .writes(),
    Command::new(
        "killSessions",
        "Kills sessions and their operations.",
        Access::Authenticated,
        |service, session, request| Box::pin(kill(service, session, request)),
    ),
    Command::new(
        "killAllSessions",
        "Kills all sessions of users and their operations.",
        Access::Cluster(&[Action::KillAnySession]),
        |service, _, request| Box::pin(kill_all(service, request)),
    ),
    Command::new(
        "killAllSessionsByPattern",
        "Kills all sessions that match a pattern, and their operations.",
        Access::Cluster(&[Action::KillAnySession]),
        |service, _, request| Box::pin(kill_by_pattern(service, request)),
    ),
];

async fn start(service: &Service, session: &Session) -> Result<Reply> {
    let id = SessionId::random();
    let owner = session.login.owner();
    service
        .sessions
        .touch(SessionKey { id, owner }, service.store.clock().now_ms())?;
    let timeout = i32::try_from(TIMEOUT_MINUTES).unwrap_or(0);
    Ok(doc! { "id": id.to_document(), "timeoutMinutes": timeout }.into())
}

/// The error for a command whose own field is null, which counts as missing.
fn missing(request: &Request<'_>) -> Failure {
    let name = request.name();
    let message = format!("BSON field '{name}.{name}' is missing but a required field");
    Failure::new(Code::IDL_FAILED_TO_PARSE, message)
}

/// The array that a command has as its own field.
fn own_array<'a>(request: &Request<'a>) -> Result<&'a RawArray> {
    match request.argument() {
        RawBsonRef::Array(array) => Ok(array),
        RawBsonRef::Null => Err(missing(request)),
        other => {
            let name = request.name();
            let found = other.element_type();
            Err(wrong_type(name, name, found, &[ElementType::Array]).into())
        }
    }
}

/// The sessions that a command names as its own field: at most as many as a client may.
fn sessions(request: &Request<'_>, owner: Owner) -> Result<Vec<SessionKey>> {
    const MOST: usize = 10_000;
    let mut keys = Vec::new();
    for value in own_array(request)? {
        let value = value?;
        if value == RawBsonRef::Null {
            continue;
        }
        let Some(lsid) = value.as_document() else {
            let (name, found) = (request.name(), value.element_type());
            let expected = &[ElementType::EmbeddedDocument];
            return Err(wrong_type(name, "lsid", found, expected).into());
        };
        let id = SessionId::parse(lsid)?;
        keys.push(SessionKey { id, owner });
    }
    if keys.len() > MOST {
        let message = format!("at most {MOST} sessions may be named at once");
        return Err(Failure::new(Code::INVALID_LENGTH, message));
    }
    Ok(keys)
}

async fn refresh(service: &Service, session: &Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let now_ms = service.store.clock().now_ms();
    for key in sessions(request, session.login.owner())? {
        service.sessions.touch(key, now_ms)?;
    }
    Ok(Reply::ok())
}

async fn end(service: &Service, session: &Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    service.end_sessions(&sessions(request, session.login.owner())?);
    Ok(Reply::ok())
}

async fn kill(service: &Service, session: &Session, request: &Request<'_>) -> Result<Reply> {
    let owner = session.login.owner();
    let mut named = sessions(request, owner)?;
    if named.is_empty() {
        named = service.sessions.matching(|key| key.owner == owner);
    }
    kill_but_own(service, request, named);
    Ok(Reply::ok())
}

/// Kills sessions; the command that does it finishes, though its own session may be among them.
fn kill_but_own(service: &Service, request: &Request<'_>, keys: Vec<SessionKey>) {
    let own = request.session();
    let (own, others): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| Some(*key) == own);
    service.kill_sessions(&others);
    service.end_sessions(&own);
}

const USER: &[Field] = &[required("user", STRING), required("db", STRING)];

/// `user@database`, as owners are hashed.
fn owner_of(path: &str, document: &bson::RawDocument) -> Result<Owner> {
    let fields = Fields::of_document(path, document, USER)?;
    let (user, database) = (fields.str("user"), fields.str("db"));
    let name = format!(
        "{}@{}",
        user.unwrap_or_default(),
        database.unwrap_or_default()
    );
    Ok(Owner::of(&name))
}

async fn kill_all(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let mut owners = Vec::new();
    for value in own_array(request)? {
        let value = value?;
        if value == RawBsonRef::Null {
            continue;
        }
        let user = value.as_document().ok_or_else(|| {
            let expected = &[ElementType::EmbeddedDocument];
            wrong_type(request.name(), "users", value.element_type(), expected)
        })?;
        owners.push(owner_of("KillAllSessionsCmd.users", user)?);
    }
    let meant = |key: &SessionKey| owners.is_empty() || owners.contains(&key.owner);
    let keys = service.sessions.matching(meant);
    kill_but_own(service, request, keys);
    Ok(Reply::ok())
}

const PATTERN: &[Field] = &[
    optional("lsid", DOCUMENT),
    optional("uid", BINARY),
    optional("users", ARRAY),
    optional("roles", ARRAY),
];

/// One pattern: everything it names must fit.
struct Pattern {
    session: Option<SessionId>,
    owner: Option<Owner>,
}

async fn kill_by_pattern(service: &Service, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let mut patterns = Vec::new();
    for value in own_array(request)? {
        let value = value?;
        let document = value.as_document().ok_or_else(|| {
            let expected = &[ElementType::EmbeddedDocument];
            wrong_type(request.name(), "patterns", value.element_type(), expected)
        })?;
        let fields = Fields::of_document("KillAllSessionsByPattern", document, PATTERN)?;
        let owner = match fields.get("uid") {
            Some(RawBsonRef::Binary(uid)) => {
                let uid = uid.bytes.try_into().map_err(|_| {
                    Failure::new(Code::UNSUPPORTED_FORMAT, "uid must be a SHA-256 hash")
                })?;
                Some(Owner(uid))
            }
            _ => None,
        };
        patterns.push(Pattern {
            session: fields.document("lsid").map(SessionId::parse).transpose()?,
            owner,
        });
    }
    let fits = |key: &SessionKey, pattern: &Pattern| {
        pattern.session.is_none_or(|id| id == key.id)
            && pattern.owner.is_none_or(|owner| owner == key.owner)
    };
    let meant =
        |key: &SessionKey| patterns.is_empty() || patterns.iter().any(|pattern| fits(key, pattern));
    let keys = service.sessions.matching(meant);
    kill_but_own(service, request, keys);
    Ok(Reply::ok())
}
