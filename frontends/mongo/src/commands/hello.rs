//! `hello`: the description of the server for clients. Also under its old names.

use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, doc};
use tessera_core::deadline::Interruption;
use tessera_mongo_language::error::{Code, bad_value, type_mismatch};

use crate::access::Access;
use crate::auth::Name;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields;
use crate::line::READ_BYTES;
use crate::logical;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::wire::compression::Compressor;
use crate::wire::header::MAX_MESSAGE_BYTES;

/// The largest document.
pub(crate) const MAX_DOCUMENT_BYTES: i32 = 16 * 1024 * 1024;
/// How often a command that waits looks whether its client is still there.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The most statements in one write.
pub(crate) const MAX_WRITE_BATCH: i32 = 100_000;
/// What MongoDB 8.0 announces: clients choose what they send by it.
pub(crate) const WIRE_VERSION: i32 = 25;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "hello",
    "Returns the role and limits of the server.",
    Access::Anyone,
    |service, session, request| Box::pin(hello(service, session, request)),
)
.also(&["isMaster", "ismaster"])
.stable()];

async fn hello(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<Reply> {
    if let Some(client) = request.field("client") {
        remember_client(session, client)?;
    }
    // Newer drivers send a version, older ones a boolean.
    session.understands_overload |= request.field("backpressure").is_some();
    wait(service, session, request).await?;

    let mut reply = Document::new();
    if fields::truth(request.field("helloOk").unwrap_or(RawBsonRef::Null)) == Some(true) {
        reply.insert("helloOk", true);
    }
    let primary = match request.name() {
        "hello" => "isWritablePrimary",
        _ => "ismaster",
    };
    reply.insert(primary, true);
    topology(service, &mut reply);
    let connection = i32::try_from(session.connection).unwrap_or(i32::MAX);
    let session_minutes = i32::try_from(logical::TIMEOUT_MINUTES).unwrap_or(0);
    for (name, value) in [
        ("topologyVersion", Bson::from(topology_version(service))),
        ("maxBsonObjectSize", MAX_DOCUMENT_BYTES.into()),
        ("maxMessageSizeBytes", MAX_MESSAGE_BYTES.into()),
        ("maxWriteBatchSize", MAX_WRITE_BATCH.into()),
        ("localTime", DateTime::now().into()),
        ("logicalSessionTimeoutMinutes", session_minutes.into()),
        ("connectionId", connection.into()),
        ("minWireVersion", 0.into()),
        ("maxWireVersion", WIRE_VERSION.into()),
        ("readOnly", false.into()),
    ] {
        reply.insert(name, value);
    }
    if let Some(RawBsonRef::Array(offered)) = request.field("compression") {
        agree_on_compression(session, offered, &mut reply)?;
    }
    if let Some(user) = request.field("saslSupportedMechs") {
        let message = "BSON field 'hello.saslSupportedMechs' must be a string";
        let user = match user {
            RawBsonRef::String(user) => user,
            RawBsonRef::Document(_) => return Err(bad_value(message).into()),
            _ => return Err(type_mismatch(message).into()),
        };
        reply.insert("saslSupportedMechs", mechanisms(service, user).await?);
    }
    if let Some(RawBsonRef::Document(login)) = request.field("speculativeAuthenticate") {
        speculate(service, session, login, &mut reply).await?;
    }
    Ok(reply.into())
}

/// The first election of a set that has had no other.
const ELECTION: [u8; 12] = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1];

/// What the server plays: a router, or the only member of a replica set.
fn topology(service: &Service, reply: &mut Document) {
    let Some(name) = &service.config.replica_set else {
        reply.insert("msg", "isdbgrid");
        return;
    };
    let address = service
        .config
        .address
        .map_or_else(String::new, |address| address.to_string());
    let written = service.cluster_time.written();
    let op_time = doc! { "ts": written, "t": 1i64 };
    let date = DateTime::from_millis(i64::from(written.time) * 1_000);
    reply.extend(doc! {
        "secondary": false,
        "setName": name,
        "setVersion": 1,
        "hosts": [&address],
        "primary": &address,
        "me": &address,
        "electionId": ObjectId::from_bytes(ELECTION),
        "lastWrite": {
            "opTime": op_time.clone(),
            "lastWriteDate": date,
            "majorityOpTime": op_time,
            "majorityWriteDate": date,
        },
    });
}

fn topology_version(service: &Service) -> Document {
    doc! { "processId": service.process_id, "counter": 0i64 }
}

/// A client that knows the present topology waits for another one, which never comes: it is told
/// the same again when its time is over.
async fn wait(service: &Service, session: &mut Session, request: &Request<'_>) -> Result<()> {
    let (known, longest) = (
        request.field("topologyVersion"),
        request.field("maxAwaitTimeMS"),
    );
    let (Some(known), Some(longest)) = (known, longest) else {
        if known.is_some() != longest.is_some() {
            let message = "A request with a 'topologyVersion' must include 'maxAwaitTimeMS', and \
                           the other way round";
            // Known by number alone.
            return Err(Failure::new(Code(31_368), message));
        }
        return Ok(());
    };
    let known = known
        .as_document()
        .ok_or_else(|| type_mismatch("topologyVersion is no document"))?;
    let longest = fields::exact(longest).and_then(|ms| u64::try_from(ms).ok());
    let longest = longest.ok_or(Failure::new(
        Code(31_373),
        "maxAwaitTimeMS must be positive",
    ))?;
    session.more_to_come = true;
    if known.get_object_id("processId").ok() != Some(service.process_id) {
        return Ok(());
    }
    let mut shutdown = session.shutdown.clone();
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(longest)) => {}
        () = shutdown.requested() => {}
        interruption = unwanted(session) => return Err(interruption.into()),
    }
    Ok(())
}

/// Waits until the client is gone.
pub(crate) async fn unwanted(session: &Session) -> Interruption {
    loop {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        if let Some(interruption) = session.wanted.interruption(false) {
            return interruption;
        }
    }
}

/// Refuses a `hello` that would wait with a large message in memory, which none needs.
pub(crate) fn check_length(command: &Command, request: &Request<'_>, packet: &[u8]) -> Result<()> {
    let is_large = packet.len() > READ_BYTES && command.name == "hello";
    if is_large && request.body.get("maxAwaitTimeMS")?.is_some() {
        let message = format!("a hello that waits may have at most {READ_BYTES} bytes");
        return Err(bad_value(message).into());
    }
    Ok(())
}

/// Keeps what the client says of itself. It may say so once.
fn remember_client(session: &mut Session, client: RawBsonRef<'_>) -> Result<()> {
    const LONGEST_DOCUMENT: usize = 512;
    const LONGEST_NAME: usize = 128;
    let RawBsonRef::Document(client) = client else {
        return Err(type_mismatch("The client metadata document must be a document").into());
    };
    if session.client.is_some() {
        let message = "The client metadata document may only be sent in the first hello";
        return Err(Failure::new(
            Code::CLIENT_METADATA_CANNOT_BE_MUTATED,
            message,
        ));
    }
    if client.as_bytes().len() > LONGEST_DOCUMENT {
        let message = "The client metadata document must be less then or equal to 512 bytes";
        return Err(Failure::new(
            Code::CLIENT_METADATA_DOCUMENT_TOO_LARGE,
            message,
        ));
    }
    let client = Document::try_from(client)?;
    let application = client
        .get_document("application")
        .and_then(|app| app.get_str("name"));
    if application.is_ok_and(|name| name.len() > LONGEST_NAME) {
        let message = "The 'client.application.name' field must be at most 128 bytes";
        return Err(Failure::new(
            Code::CLIENT_METADATA_APP_NAME_TOO_LARGE,
            message,
        ));
    }
    session.place.set_client(&client);
    session.client = Some(client);
    Ok(())
}

fn agree_on_compression(
    session: &mut Session,
    offered: &bson::RawArray,
    reply: &mut Document,
) -> Result<()> {
    let mut agreed = Vec::new();
    for name in offered {
        let compressor = name?.as_str().and_then(Compressor::parse);
        agreed.extend(compressor.filter(|compressor| !agreed.contains(compressor)));
    }
    if !agreed.is_empty() {
        let names: Vec<Bson> = agreed
            .iter()
            .map(|known| Bson::from(known.name()))
            .collect();
        reply.insert("compression", names);
    }
    session.compressors = agreed;
    Ok(())
}

/// How a user, written `database.name`, may log in.
async fn mechanisms(service: &Service, user: &str) -> Result<Vec<Bson>> {
    let Some((database, name)) = user.split_once('.') else {
        let message = "UserName must contain a '.' separated database.user pair";
        return Err(Failure::new(Code::BAD_VALUE, message));
    };
    let name = Name::new(name, database);
    let mechanisms = service.users.mechanisms(&service.store, &name).await?;
    Ok(mechanisms
        .into_iter()
        .map(|mechanism| mechanism.name().into())
        .collect())
}

/// Begins a login with the hello, which saves the client a round trip. What cannot be begun so is
/// left out, and the client begins it anew.
async fn speculate(
    service: &Service,
    session: &mut Session,
    command: &RawDocument,
    reply: &mut Document,
) -> Result<()> {
    let database = command.get_str("db").unwrap_or("admin");
    match session.login.start(service, database, command).await {
        Ok(first) => {
            reply.insert("speculativeAuthenticate", first);
            Ok(())
        }
        Err(failure) if failure.code() == Code::INTERNAL_ERROR => Err(failure),
        Err(_) => Ok(()),
    }
}
