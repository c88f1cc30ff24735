//! The current operations of the server, and its counters since the start.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::spec::ElementType;
use bson::{Bson, DateTime, Document, RawBsonRef, doc};
use tessera_mongo_language::error::{Code, bad_value};

use super::server::MONGODB_VERSION;
use crate::API;
use crate::access::{self, Access, Action, Need};
use crate::command::Command;
use crate::counters::signed;
use crate::failure::{Failure, Result};
use crate::fields::{BOOL_OR_NUMBER, Field, Fields, exact, float, optional, truth, wrong_type};
use crate::operation::Seen;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::system;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "serverStatus",
        "Returns statistics of the server.",
        Access::Cluster(&[Action::ServerStatus]),
        |service, session, request| Box::pin(server_status(service, session, request)),
    ),
    Command::new(
        "currentOp",
        "Returns the running operations.",
        Access::Authenticated,
        |service, session, request| Box::pin(current_op(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "killOp",
        "Kills an operation.",
        // Whose command it is is known when it is found.
        Access::Authenticated,
        |service, session, request| Box::pin(kill_op(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "top",
        "Returns the total time of commands by collection.",
        Access::Cluster(&[Action::Top]),
        |service, session, request| Box::pin(top(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "connPoolStats",
        "Returns connections to other servers; there are none.",
        Access::Cluster(&[Action::ConnPoolStats]),
        |_, _, _| {
            Box::pin(async {
                Ok(doc! {
                    "numClientConnections": 0,
                    "numAScopedConnections": 0,
                    "totalInUse": 0,
                    "totalAvailable": 0,
                    "totalLeased": 0,
                    "totalCreated": 0,
                    "totalRefreshing": 0,
                    "totalRefreshed": 0,
                    "pools": {},
                    "hosts": {},
                    "replicaSets": {},
                }
                .into())
            })
        },
    ),
    Command::new(
        "lockInfo",
        "Returns locks; none are held between commands.",
        Access::Cluster(&[Action::ServerStatus]),
        |_, _, request| {
            Box::pin(async {
                Fields::of(request, &[])?;
                Ok(doc! { "lockInfo": [] }.into())
            })
        },
    )
    .admin_only(),
    Command::new(
        "getLastRequestStatistics",
        "Returns the request charge of the connection's last command, as in Cosmos DB.",
        Access::Authenticated,
        |_, session, request| Box::pin(async { last_request(session, request) }),
    ),
];

async fn server_status(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    let uptime = service.started.elapsed();
    let (resident, reserved) = system::own_memory_bytes();
    let megabytes = |bytes: u64| i32::try_from(bytes >> 20).unwrap_or(i32::MAX);
    let counters = &service.counters;
    let count = |count: &std::sync::atomic::AtomicU64| signed(count.load(Ordering::Relaxed));
    let seen = service.connections.all();
    let active = seen.iter().filter(|seen| seen.running.is_some()).count();
    let of = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let [major, minor, patch, _] = MONGODB_VERSION;
    let process = match service.config.replica_set {
        None => "mongos",
        Some(_) => "mongod",
    };
    let mut status = doc! {
        "host": system::host_name(),
        "version": format!("{major}.{minor}.{patch}"),
        "process": process,
        "pid": i64::from(std::process::id()),
        // A double with a whole value, which clients read as a number of either kind.
        "uptime": Duration::from_secs(uptime.as_secs()).as_secs_f64(),
        "uptimeMillis": signed(u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX)),
        "uptimeEstimate": signed(uptime.as_secs()),
        "localTime": DateTime::now(),
        "asserts": {
            "regular": 0, "warning": 0, "msg": 0, "user": 0, "tripwire": 0, "rollovers": 0,
        },
        "connections": {
            "current": of(seen.len()),
            "available": i32::MAX - of(seen.len()),
            "totalCreated": signed(service.connections.total_created()),
            "active": of(active),
        },
        "extra_info": { "note": "fields vary by platform" },
        "globalLock": {
            "totalTime": signed(u64::try_from(uptime.as_micros()).unwrap_or(u64::MAX)),
            "currentQueue": { "total": 0, "readers": 0, "writers": 0 },
            "activeClients": { "total": of(active), "readers": 0, "writers": 0 },
        },
        "logicalSessionRecordCache": { "activeSessionsCount": of(service.sessions.count()) },
        "mem": {
            "bits": 64,
            "resident": megabytes(resident),
            "virtual": megabytes(reserved),
            "supported": true,
        },
        "metrics": { "commands": counters.to_document() },
        "network": {
            "bytesIn": count(&counters.bytes_in),
            "bytesOut": count(&counters.bytes_out),
            "numRequests": count(&counters.requests),
        },
        "opcounters": counters.by_kind(),
        "storageEngine": {
            "name": "tessera",
            "supportsCommittedReads": true,
            "persistent": true,
            "readOnly": false,
        },
    };
    choose_sections(&mut status, request);
    Ok(status.into())
}

/// Leaves out the sections that the client does not want; those before `asserts` are always there.
fn choose_sections(status: &mut Document, request: &Request<'_>) {
    for section in request.arguments().filter(|element| !element.is_generic) {
        let unwanted = match section.value {
            RawBsonRef::Null => true,
            value => truth(value) == Some(false),
        };
        if unwanted {
            status.remove(section.key);
        }
    }
}

async fn current_op(service: &Service, session: &Session, request: &Request<'_>) -> Result<Reply> {
    let (mut own, mut all) = (false, false);
    let mut filter = Document::new();
    for element in request.arguments() {
        match element.key {
            "$ownOps" => own = truth(element.value).unwrap_or(false),
            "$all" => all = truth(element.value).unwrap_or(false),
            _ if element.is_generic => {}
            name => {
                filter.insert(name, Bson::try_from(element.value)?);
            }
        }
    }
    let may_see_all = session.may(|user| user.may(&Need::on_cluster(Action::Inprog)));
    if !own && !may_see_all {
        return Err(access::refused(request));
    }
    let user = session.user();
    let mut running = operations(service, all);
    if !own {
        // Rebuilds go on by themselves, so they are nobody's.
        let rebuilds = crate::sharding::operations(service).await?;
        running.extend(rebuilds.into_iter().map(|operation| (None, operation)));
    }
    let shown = running
        .into_iter()
        .filter(|(owner, _)| !own || *owner == user)
        .map(|(_, operation)| operation)
        .filter(|operation| fits(operation, &filter));
    let shown: Vec<Bson> = shown.map(Bson::Document).collect();
    Ok(doc! { "inprog": shown }.into())
}

/// Whether an operation has these values in its fields, which may be of nested documents.
fn fits(operation: &Document, filter: &Document) -> bool {
    let value_at = |path: &str| {
        let mut parts = path.split('.');
        let first = operation.get(parts.next()?);
        parts.try_fold(first?, |value, part| value.as_document()?.get(part))
    };
    filter
        .iter()
        .all(|(path, wanted)| value_at(path) == Some(wanted))
}

/// What runs, with its user; idle connections as well if `all`.
pub(crate) fn operations(service: &Service, all: bool) -> Vec<(Option<String>, Document)> {
    let seen = service.connections.all().into_iter();
    let seen = seen.filter(|seen| all || seen.running.is_some());
    seen.map(|seen| (seen.user.clone(), operation(&seen)))
        .collect()
}

/// Fields of commands that nobody is shown: passwords, and what logins are made of.
const SECRETS: [&str; 4] = ["pwd", "payload", "key", "speculativeAuthenticate"];

fn operation(seen: &Seen) -> Document {
    let place = &seen.place;
    let mut shown = doc! {
        "type": "op",
        "host": system::host_name(),
        "desc": format!("conn{}", place.connection),
        "connectionId": signed(place.connection),
        "client": place.peer.to_string(),
    };
    if let Some(client) = &seen.client {
        if let Ok(name) = client
            .get_document("application")
            .and_then(|app| app.get_str("name"))
        {
            shown.insert("appName", name);
        }
        shown.insert("clientMetadata", client.clone());
    }
    if let Some((user, database)) = seen.user.as_deref().and_then(|user| user.rsplit_once('@')) {
        shown.insert(
            "effectiveUsers",
            vec![Bson::from(doc! { "user": user, "db": database })],
        );
    }
    shown.insert("active", seen.running.is_some());
    shown.insert(
        "currentOpTime",
        DateTime::now().try_to_rfc3339_string().unwrap_or_default(),
    );
    let Some(running) = &seen.running else {
        return shown;
    };
    let mut body = Document::from_reader(running.body.as_ref()).unwrap_or_default();
    for secret in SECRETS {
        if let Some(value) = body.get_mut(secret) {
            *value = Bson::from("xxx");
        }
    }
    let collection = body
        .values()
        .next()
        .and_then(Bson::as_str)
        .unwrap_or("$cmd");
    let database = body.get_str("$db").unwrap_or("admin");
    let took = running.began.elapsed();
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    shown.extend(doc! {
        "opid": i32::try_from(running.id).unwrap_or(i32::MAX),
        "secs_running": signed(took.as_secs()),
        "microsecs_running": signed(micros),
        "op": kind(running.name),
        "ns": format!("{database}.{collection}"),
        "command": body.clone(),
        "killPending": running.killed,
        "waitingForLock": false,
    });
    if let Some(session) = running.session {
        shown.insert("lsid", session.to_document());
    }
    shown
}

fn kind(command: &str) -> &'static str {
    match command {
        "find" => "query",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        "getMore" => "getmore",
        _ => "command",
    }
}

async fn kill_op(service: &Service, session: &Session, request: &Request<'_>) -> Result<Reply> {
    let Some(value) = request.body.get("op")? else {
        let message = "Did not provide \"op\" field";
        return Err(Failure::new(Code::NO_SUCH_KEY, message));
    };
    if float(value).is_none() {
        let expected = &[ElementType::Int32];
        return Err(wrong_type("killOp", "op", value.element_type(), expected).into());
    }
    let number =
        exact(value).ok_or_else(|| bad_value("Expected field \"op\" to be a whole number"))?;
    if i32::try_from(number).is_err() {
        let message = format!("invalid op : {number}. Op ID cannot be represented");
        // Known by number alone.
        return Err(Failure::new(Code(26_823), message));
    }
    let number = u32::try_from(number).unwrap_or(0);
    let may_kill_any = session.may(|user| user.may(&Need::on_cluster(Action::Killop)));
    if !may_kill_any && !is_own(service, session, number) {
        return Err(access::refused(request));
    }
    // Whether there was one is not said: it may have ended meanwhile.
    let _found = service.connections.kill(number);
    Ok(doc! { "info": "attempting to kill op" }.into())
}

/// Whether a command that runs is the user's own.
fn is_own(service: &Service, session: &Session, number: u32) -> bool {
    let user = session.user();
    let runs = |seen: &Seen| {
        seen.running
            .as_ref()
            .is_some_and(|running| running.id == number)
    };
    let seen = service.connections.all().into_iter().find(runs);
    user.is_some() && seen.is_some_and(|seen| seen.user == user)
}

async fn top(service: &Service, _: &mut Session, _: &Request<'_>) -> Result<Reply> {
    let names = service.store.list_containers(API, None).await?;
    let names = names.into_iter();
    let there: HashSet<String> = names
        .map(|name| format!("{}.{}", name.database, name.container))
        .collect();
    let mut totals = doc! { "note": "all times in microseconds" };
    for (namespace, counts) in service.top.all() {
        if there.contains(&namespace) {
            totals.insert(namespace, counts);
        }
    }
    Ok(doc! { "totals": totals }.into())
}

const LAST_REQUEST: &[Field] = &[optional("verbose", BOOL_OR_NUMBER)];

fn last_request(session: &Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, LAST_REQUEST)?;
    let mut reply = doc! { "_t": "GetRequestStatisticsResponse" };
    if let Some(last) = &session.last {
        reply.extend(doc! {
            "CommandName": last.name,
            "RequestCharge": last.charge.request_units(),
            "RequestDurationInMilliSeconds": last.took.as_secs_f64() * 1_000.0,
        });
    }
    Ok(reply.into())
}
