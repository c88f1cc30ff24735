//! `getClusterParameter` and `setClusterParameter`: settings that all servers over one store share.

use bson::{Bson, Document, RawBsonRef, RawDocument, Timestamp, doc};
use tessera_mongo_language::error::{Code, Error, bad_value, type_mismatch};

use crate::access::{Access, Action};
use crate::collection::Namespace;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{type_name, whole};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::{config, rows};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "getClusterParameter",
        "Returns parameters of the cluster.",
        Access::Cluster(&[Action::GetClusterParameter]),
        |service, session, request| Box::pin(get(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "setClusterParameter",
        "Sets a parameter of the cluster.",
        Access::Cluster(&[Action::SetClusterParameter]),
        |service, session, request| Box::pin(set(service, session, request)),
    )
    .admin_only()
    .writes(),
];

/// For how long documents before and after changes are kept.
const CHANGE_STREAMS: &str = "changeStreamOptions";

/// All there are.
const NAMES: &[&str] = &[CHANGE_STREAMS];

fn place() -> Namespace {
    Namespace::unchecked(config::DATABASE, "clusterParameters")
}

async fn get(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let names = asked(request.argument())?;
    let mut shown = Vec::new();
    for name in names {
        if !NAMES.contains(&name) {
            return Err(unknown(name));
        }
        let stored = rows::get(service, &place(), &name.into()).await?;
        let initial = || {
            doc! { "_id": name, "clusterParameterTime": Timestamp { time: 0, increment: 0 },
            "preAndPostImages": { "expireAfterSeconds": "off" } }
        };
        shown.push(Bson::Document(stored.unwrap_or_else(initial)));
    }
    Ok(doc! { "clusterParameters": shown }.into())
}

/// The names that are asked for.
fn asked(argument: RawBsonRef<'_>) -> Result<Vec<&str>> {
    let wrong = |found: RawBsonRef<'_>| {
        let found = type_name(found.element_type());
        type_mismatch(format!(
            "getClusterParameter is of type {found}, expected a string or an array of strings"
        ))
    };
    match argument {
        RawBsonRef::String("*") => Ok(NAMES.to_vec()),
        RawBsonRef::String(name) => Ok(vec![name]),
        RawBsonRef::Array(names) => {
            let mut asked = Vec::new();
            for name in names {
                let name = name?;
                asked.push(name.as_str().ok_or_else(|| wrong(name))?);
            }
            if asked.is_empty() {
                let message = "Must supply at least one cluster parameter name to \
                               getClusterParameter";
                return Err(bad_value(message).into());
            }
            Ok(asked)
        }
        other => Err(wrong(other).into()),
    }
}

async fn set(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let given = match request.argument() {
        RawBsonRef::Document(given) => given,
        RawBsonRef::Null => {
            let message = "BSON field 'setClusterParameter.setClusterParameter' is missing but a \
                           required field";
            return Err(Error::new(Code::IDL_FAILED_TO_PARSE, message).into());
        }
        other => {
            let found = type_name(other.element_type());
            let message = format!("setClusterParameter is of type {found}, expected an object");
            return Err(type_mismatch(message).into());
        }
    };
    if request.generic.write_concern.is_some() {
        let message = "Command setClusterParameter does not support writeConcern";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    let mut elements = given.iter_elements();
    let first = elements.next().transpose()?;
    let Some(first) = first else {
        return Err(unknown(""));
    };
    if elements.next().is_some() {
        let message = "setClusterParameter sets one parameter at a time";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    }
    let name = first.key().as_str();
    if !NAMES.contains(&name) {
        return Err(unknown(name));
    }
    let RawBsonRef::Document(value) = first.value()? else {
        let message = format!("Cluster parameter value for {name} must be an object");
        return Err(bad_value(message).into());
    };
    let expiry = read_expiry(value)?;
    let time = service.cluster_time.advance(service.store.clock());
    let row = doc! {
        "_id": name,
        "clusterParameterTime": time,
        "preAndPostImages": { "expireAfterSeconds": expiry },
    };
    rows::put(service, &place(), &row).await?;
    Ok(Reply::ok())
}

fn unknown(name: &str) -> Failure {
    let message = format!("Unknown server parameter: {name}");
    Failure::new(Code::NO_SUCH_KEY, message)
}

/// The value of `preAndPostImages.expireAfterSeconds`, as it is kept.
fn read_expiry(value: &RawDocument) -> Result<Bson> {
    let images = only(value, "preAndPostImages")?;
    let RawBsonRef::Document(images) = images else {
        return Err(bad_value("'preAndPostImages' must be an object").into());
    };
    match only(images, "expireAfterSeconds")? {
        RawBsonRef::String("off") => Ok("off".into()),
        RawBsonRef::String(other) => {
            let message =
                format!("Non-numeric value of 'expireAfterSeconds' should be 'off', not '{other}'");
            Err(bad_value(message).into())
        }
        RawBsonRef::Boolean(_) => {
            Err(bad_value("'expireAfterSeconds' should be a number or 'off'").into())
        }
        number => match whole(number) {
            Some(seconds) if seconds > 0 => Ok(seconds.into()),
            _ => Err(bad_value("'expireAfterSeconds' should be a number above 0, or 'off'").into()),
        },
    }
}

/// The only field that a document has and may have.
fn only<'a>(document: &'a RawDocument, name: &str) -> Result<RawBsonRef<'a>> {
    let mut found = None;
    for element in document.iter_elements() {
        let element = element?;
        let key = element.key().as_str();
        if key.starts_with('$') {
            let message = format!("the field '{key}' must not begin with '$'");
            return Err(Failure::new(Code::DOLLAR_PREFIXED_FIELD_NAME, message));
        }
        if key != name {
            let message = format!("'{CHANGE_STREAMS}' has no field '{key}'");
            return Err(bad_value(message).into());
        }
        found = Some(element.value()?);
    }
    let missing = || bad_value(format!("'{CHANGE_STREAMS}' needs the field '{name}'")).into();
    found.ok_or_else(missing)
}

/// After how many seconds kept documents are no longer shown; none if they are as long as the
/// change feed is.
pub(crate) async fn image_expiry_seconds(service: &Service) -> Result<Option<u64>> {
    let row = rows::get(service, &place(), &CHANGE_STREAMS.into()).await?;
    let images = row.as_ref().map(|row| row.get_document("preAndPostImages"));
    let Some(Ok(images)) = images else {
        return Ok(None);
    };
    Ok(expiry_of(images))
}

fn expiry_of(images: &Document) -> Option<u64> {
    let seconds = images.get_i64("expireAfterSeconds").ok()?;
    u64::try_from(seconds).ok()
}
