//! Parameters and defaults of the server.

use bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, Timestamp, doc};
use tessera_mongo_language::error::{Code, bad_value};

use crate::access::{Access, Action};
use crate::collection::Namespace;
use crate::command::Command;
use crate::concern::{Acknowledgement, Level, ReadConcern, WriteConcern};
use crate::failure::{Failure, Result};
use crate::fields::{BOOL, DOCUMENT, Field, Fields, STRING, optional};
use crate::parameters::{self, CURSOR_TIMEOUT_MS, Parameter, TRANSACTION_LIFETIME_S};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::sharding::{config, rows};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "getParameter",
        "Returns server parameters.",
        Access::Cluster(&[Action::GetParameter]),
        |service, session, request| Box::pin(get(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "setParameter",
        "Sets server parameters.",
        Access::Cluster(&[Action::SetParameter]),
        |service, session, request| Box::pin(set(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "getDefaultRWConcern",
        "Returns the default read and write concern.",
        Access::Cluster(&[Action::GetDefaultRwConcern]),
        |service, session, request| Box::pin(get_default(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "setDefaultRWConcern",
        "Sets the default read and write concern.",
        Access::Cluster(&[Action::SetDefaultRwConcern]),
        |service, session, request| Box::pin(set_default(service, session, request)),
    )
    .admin_only()
    .writes(),
];

const GET_OPTIONS: &[Field] = &[
    optional("showDetails", BOOL),
    optional("allParameters", BOOL),
    optional("setAt", STRING),
];

async fn get(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let (mut all, mut details, mut set_at) = (false, false, None);
    match request.argument() {
        RawBsonRef::String("*") => all = true,
        RawBsonRef::Document(options) => {
            let options = Fields::of_document("getParameter", options, GET_OPTIONS)?;
            all = options.bool("allParameters").unwrap_or(false);
            details = options.bool("showDetails").unwrap_or(false);
            set_at = options.str("setAt");
        }
        _ => {}
    }
    let shown_at = |parameter: &Parameter| match set_at {
        Some("startup") => parameter.at_startup,
        Some("runtime") => parameter.at_runtime,
        _ => true,
    };
    if let Some(unknown) = set_at.filter(|at| !["startup", "runtime"].contains(at)) {
        return Err(bad_value(format!("{unknown} is neither startup nor runtime")).into());
    }
    let mut asked: Vec<&'static Parameter> = Vec::new();
    if all {
        asked.extend(parameters::all());
    } else {
        let named = request.arguments();
        asked.extend(named.filter_map(|element| parameters::find(element.key)));
    }
    let mut reply = Document::new();
    for parameter in asked.into_iter().filter(|parameter| shown_at(parameter)) {
        let value = service.parameters.get(service, parameter);
        let shown = match details {
            true => parameters::detailed(parameter, value).into(),
            false => value,
        };
        reply.insert(parameter.name, shown);
    }
    if reply.is_empty() {
        return Err(Failure::new(
            Code::INVALID_OPTIONS,
            "no option found to get",
        ));
    }
    Ok(reply.into())
}

async fn set(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let mut changes: Vec<(&'static Parameter, Bson)> = Vec::new();
    for element in request.arguments() {
        let name = element.key;
        if element.is_generic && !name.starts_with("$log") {
            continue;
        }
        let Some(parameter) = parameters::find(name) else {
            let message = format!("Unrecognized parameter: {name}");
            return Err(Failure::new(Code::INVALID_OPTIONS, message));
        };
        if changes.iter().any(|(known, _)| known.name == name) {
            let message = format!("Duplicate parameter: {name}");
            return Err(bad_value(message).into());
        }
        changes.push((parameter, Bson::try_from(element.value)?));
    }
    let Some((first, _)) = changes.first() else {
        let message = "no option found to set, use help:true to see options ";
        return Err(Failure::new(Code::INVALID_OPTIONS, message));
    };
    let was = service.parameters.get(service, first);
    for (parameter, value) in &changes {
        service.parameters.set(parameter, value)?;
    }
    let lifetime = service.parameters.integer(service, TRANSACTION_LIFETIME_S);
    let transactions = &service.data.transactions;
    transactions.set_lifetime_seconds(u64::try_from(lifetime).unwrap_or_default());
    let idle = service.parameters.integer(service, CURSOR_TIMEOUT_MS);
    let cursors = &service.data.cursors;
    cursors.set_idle_ms(u64::try_from(idle).unwrap_or_default());
    Ok(doc! { "was": was }.into())
}

/// The concerns that someone set.
#[derive(Debug, Default)]
struct Defaults {
    read: Option<Document>,
    write: Option<Document>,
    updated: Option<(DateTime, Timestamp)>,
}

impl Defaults {
    /// Under which `_id` they lie in `config.settings`.
    const ID: &str = "ReadWriteConcernDefaults";

    fn place() -> Namespace {
        Namespace::unchecked(config::DATABASE, "settings")
    }

    async fn load(service: &Service) -> Result<Self> {
        let row = rows::get(service, &Self::place(), &Self::ID.into()).await?;
        let Some(row) = row else {
            return Ok(Self::default());
        };
        let concern = |name: &str| row.get_document(name).ok().cloned();
        let time = row.get_timestamp("updateOpTime").ok();
        let at = row.get_datetime("updateWallClockTime").ok();
        Ok(Self {
            read: concern("defaultReadConcern"),
            write: concern("defaultWriteConcern"),
            updated: at.copied().zip(time),
        })
    }

    async fn store(&self, service: &Service) -> Result<()> {
        let mut row = doc! { "_id": Self::ID };
        if let Some(read) = &self.read {
            row.insert("defaultReadConcern", read.clone());
        }
        if let Some(write) = &self.write {
            row.insert("defaultWriteConcern", write.clone());
        }
        if let Some((at, time)) = self.updated {
            row.insert("updateOpTime", time);
            row.insert("updateWallClockTime", at);
        }
        rows::put(service, &Self::place(), &row).await
    }
}

const GET_DEFAULT: &[Field] = &[optional("inMemory", BOOL)];

async fn get_default(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, GET_DEFAULT)?;
    let mut reply = shown(&Defaults::load(service).await?);
    if fields.bool("inMemory") == Some(true) {
        reply.insert("inMemory", true);
    }
    Ok(reply.into())
}

fn shown(defaults: &Defaults) -> Document {
    let source = |set: bool| if set { "global" } else { "implicit" };
    let implicit = || doc! { "w": "majority", "wtimeout": 0 };
    let mut shown = doc! {
        "defaultReadConcern": defaults.read.clone().unwrap_or_else(|| doc! { "level": "local" }),
        "defaultReadConcernSource": source(defaults.read.is_some()),
        "defaultWriteConcern": defaults.write.clone().unwrap_or_else(implicit),
        "defaultWriteConcernSource": source(defaults.write.is_some()),
    };
    if let Some((updated, time)) = defaults.updated {
        shown.insert("updateOpTime", time);
        shown.insert("updateWallClockTime", updated);
    }
    let local = defaults.updated.map_or_else(DateTime::now, |(at, _)| at);
    shown.insert("localUpdateWallClockTime", local);
    shown
}

const SET_DEFAULT: &[Field] = &[
    optional("defaultReadConcern", DOCUMENT),
    optional("defaultWriteConcern", DOCUMENT),
];

async fn set_default(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, SET_DEFAULT)?;
    let read = fields
        .document("defaultReadConcern")
        .map(checked_read)
        .transpose()?;
    let write = fields
        .document("defaultWriteConcern")
        .map(checked_write)
        .transpose()?;
    if read.is_none() && write.is_none() {
        let message = "At least one of the \"defaultReadConcern\" or \"defaultWriteConcern\" \
                       fields must be present";
        return Err(bad_value(message).into());
    }
    let time = service.cluster_time.advance(service.store.clock());
    let mut defaults = Defaults::load(service).await?;
    if let Some(read) = read {
        defaults.read = (!read.is_empty()).then_some(read);
    }
    if let Some(write) = write {
        defaults.write = (!write.is_empty()).then_some(write);
    }
    defaults.updated = Some((DateTime::now(), time));
    defaults.store(service).await?;
    Ok(shown(&defaults).into())
}

fn checked_read(document: &RawDocument) -> Result<Document> {
    let concern = ReadConcern::parse(document)?;
    if concern
        .after_cluster_time
        .or(concern.at_cluster_time)
        .is_some()
    {
        return Err(bad_value("a default read concern may only have a level").into());
    }
    if matches!(concern.level, Some(Level::Linearizable | Level::Snapshot)) {
        return Err(bad_value("level is not suitable for the default read concern").into());
    }
    Ok(Document::try_from(document)?)
}

fn checked_write(document: &RawDocument) -> Result<Document> {
    let concern = WriteConcern::parse(document)?;
    if document.is_empty() {
        let message = "The default write concern cannot be unset once it is set";
        return Err(Failure::new(Code::ILLEGAL_OPERATION, message));
    }
    match concern.w {
        Acknowledgement::Members(0) => {
            Err(bad_value("Unacknowledged write concern is not suitable as a default").into())
        }
        Acknowledgement::Default => Err(bad_value("a default write concern must have 'w'").into()),
        Acknowledgement::Named(name) => {
            let message = format!("No write concern mode named '{name}' found");
            Err(Failure::new(Code::UNKNOWN_REPL_WRITE_CONCERN, message))
        }
        Acknowledgement::Members(_) | Acknowledgement::Majority => {
            let mut kept = Document::try_from(document)?;
            kept.entry("wtimeout".to_owned()).or_insert(Bson::Int32(0));
            Ok(kept)
        }
    }
}
