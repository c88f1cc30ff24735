//! Logging in and out.

use bson::{Bson, Document, doc};
use tessera_frontend::Guessing;
use tessera_mongo_language::error::Code;

use crate::access::Access;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{
    ANY, BOOL_OR_NUMBER, DOCUMENT, Field, Fields, NUMBER, STRING, optional, required,
};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "saslStart",
        "Starts authentication.",
        Access::Anyone,
        |service, session, request| Box::pin(start(service, session, request)),
    )
    .stable(),
    Command::new(
        "saslContinue",
        "Continues authentication.",
        Access::Anyone,
        |service, session, request| Box::pin(proceed(service, session, request)),
    )
    .stable(),
    Command::new("logout", "Logs out.", Access::Anyone, |_, session, _| {
        Box::pin(async {
            session.login.end();
            session.place.set_user(None);
            Ok(Reply::ok())
        })
    }),
    Command::new(
        "authenticate",
        "Not supported: authentication by certificate.",
        Access::Anyone,
        |_, _, request| Box::pin(async { authenticate(request) }),
    )
    .stable(),
    Command::new(
        "connectionStatus",
        "Returns the authenticated users.",
        Access::Anyone,
        |service, session, request| Box::pin(status(service, session, request)),
    ),
];

const START: &[Field] = &[
    required("mechanism", STRING),
    required("payload", ANY),
    optional("autoAuthorize", ANY),
    optional("options", DOCUMENT),
    optional("db", STRING),
];

async fn start(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, START)?;
    let reply = session
        .login
        .start(service, request.database, request.body)
        .await?;
    Ok(reply.into())
}

const PROCEED: &[Field] = &[required("conversationId", NUMBER), required("payload", ANY)];

async fn proceed(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, PROCEED)?;
    let user = session.login.claimed().unwrap_or_default();
    let Some(attempt) = session.gate.admit(Guessing::Password, &user).await else {
        session.login.end();
        return Err(Failure::new(
            Code::AUTHENTICATION_FAILED,
            "Authentication failed.",
        ));
    };
    let client = session.peer.ip();
    let reply = session.login.proceed(service, request.body, client).await;
    match &reply {
        Err(failure) if failure.code() == Code::AUTHENTICATION_FAILED => attempt.failed(),
        Ok(_) if session.login.identity.is_some() => attempt.succeeded(),
        // Not ended, or not the client's fault.
        Ok(_) | Err(_) => drop(attempt),
    }
    let reply = reply?;
    let user = session.login.identity.as_ref();
    session
        .place
        .set_user(user.map(|identity| identity.name.to_string()));
    Ok(reply.into())
}

fn authenticate(request: &Request<'_>) -> Result<Reply> {
    let mechanism = request.body.get_str("mechanism").unwrap_or("MONGODB-X509");
    let message = format!("Mechanism {mechanism} is not enabled");
    Err(Failure::new(Code::MECHANISM_UNAVAILABLE, message))
}

const STATUS: &[Field] = &[optional("showPrivileges", BOOL_OR_NUMBER)];

async fn status(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, STATUS)?;
    session.login.refresh(service, session.peer.ip()).await?;
    let (mut users, mut roles, mut privileges) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(identity) = &session.login.identity {
        users.push(Bson::Document(identity.name.to_document("user")));
        let granted = &identity.granted;
        roles.extend(
            granted
                .roles
                .iter()
                .map(|role| role.to_document("role"))
                .map(Bson::Document),
        );
        privileges.extend(
            granted
                .privileges
                .iter()
                .map(|own| Bson::Document(own.to_document())),
        );
    }
    let mut info: Document = doc! {
        "authenticatedUsers": users,
        "authenticatedUserRoles": roles,
    };
    if fields.bool("showPrivileges") == Some(true) {
        info.insert("authenticatedUserPrivileges", privileges);
    }
    let uuid = Bson::from(bson::Uuid::from_bytes(connection_uuid(session)));
    Ok(doc! { "authInfo": info, "uuid": uuid }.into())
}

/// A number of this connection that no other one has.
fn connection_uuid(session: &Session) -> [u8; 16] {
    let mut bytes = [0; 16];
    let (process, connection) = bytes.split_at_mut(8);
    process.copy_from_slice(&u64::from(std::process::id()).to_be_bytes());
    connection.copy_from_slice(&session.connection.to_be_bytes());
    bytes
}
