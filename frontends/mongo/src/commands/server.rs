//! Information about the server that needs no data.

use bson::{Bson, DateTime, Document, RawBsonRef, bson, doc};
use tessera_mongo_language::error::{Code, type_mismatch};

use super::hello::MAX_DOCUMENT_BYTES;
use crate::access::{Access, Action};
use crate::command::Command;
use crate::commands;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, Field, Fields, optional, truth, type_name};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::system;

/// The version of MongoDB whose behaviour is played.
pub(crate) const MONGODB_VERSION: [i32; 4] = [8, 0, 0, 0];

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "ping",
        "Checks that the server responds.",
        Access::Anyone,
        |_, _, request| {
            Box::pin(async {
                Fields::of(request, &[])?;
                Ok(Reply::ok())
            })
        },
    )
    .stable(),
    Command::new(
        "buildInfo",
        "Returns the version and build of the server.",
        Access::Anyone,
        |service, session, request| Box::pin(build_info(service, session, request)),
    )
    .also(&["buildinfo"]),
    Command::new(
        "hostInfo",
        "Returns information about the host.",
        Access::Cluster(&[Action::HostInfo]),
        |service, session, request| Box::pin(host_info(service, session, request)),
    ),
    Command::new(
        "getLog",
        "Returns recent log lines.",
        Access::Cluster(&[Action::GetLog]),
        |_, _, request| Box::pin(async { get_log(request) }),
    )
    .admin_only(),
    Command::new(
        "getCmdLineOpts",
        "Returns the settings that the server was started with.",
        Access::Cluster(&[Action::GetCmdLineOpts]),
        |service, session, request| Box::pin(command_line(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "listCommands",
        "Lists all commands.",
        Access::Anyone,
        |_, _, _| Box::pin(async { Ok(list_commands()) }),
    ),
    Command::new(
        "whatsmyuri",
        "Returns the address of the client.",
        Access::Anyone,
        |_, session, _| Box::pin(async { Ok(doc! { "you": session.peer.to_string() }.into()) }),
    ),
    Command::new(
        "features",
        "Returns the features of the build.",
        Access::Anyone,
        |service, _, _| {
            Box::pin(async {
                let [a, b, c, ..] = service.process_id.bytes();
                let machine = i32::from_be_bytes([0, a, b, c]);
                Ok(doc! { "js": false, "oidMachine": machine }.into())
            })
        },
    ),
    Command::new(
        "logRotate",
        "Does nothing: logs go to standard error.",
        Access::Cluster(&[Action::LogRotate]),
        |_, _, request| Box::pin(async { log_rotate(request) }),
    )
    .admin_only(),
    Command::new(
        "fsync",
        "Syncs acknowledged writes to disk; with lock, blocks writes.",
        Access::Cluster(&[Action::Fsync]),
        |service, _, request| Box::pin(fsync(service, request)),
    )
    .admin_only(),
    Command::new(
        "fsyncUnlock",
        "Unblocks writes that fsync blocks.",
        Access::Cluster(&[Action::Unlock]),
        |service, _, request| Box::pin(async { fsync_unlock(service, request) }),
    )
    .admin_only(),
];

async fn build_info(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    Fields::of(request, &[])?;
    let [major, minor, patch, _] = MONGODB_VERSION;
    let reply = doc! {
        "version": format!("{major}.{minor}.{patch}"),
        "gitVersion": format!("tessera-{}", service.config.version),
        "modules": [],
        "allocator": "mimalloc",
        "javascriptEngine": "none",
        "sysInfo": "deprecated",
        "versionArray": MONGODB_VERSION.to_vec(),
        "openssl": bson!({ "running": "rustls", "compiled": "rustls" }),
        "buildEnvironment": {
            "distarch": std::env::consts::ARCH,
            "distmod": "",
            "target_arch": std::env::consts::ARCH,
            "target_os": std::env::consts::OS,
        },
        "bits": 64,
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES,
        "storageEngines": ["memory", "postgres", "rocks"],
    };
    Ok(reply.into())
}

async fn host_info(
    _service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    Fields::of(request, &[])?;
    let memory = i64::try_from(system::memory_bytes() >> 20).unwrap_or(i64::MAX);
    let reply = doc! {
        "system": {
            "currentTime": DateTime::now(),
            "hostname": system::host_name(),
            "cpuAddrSize": 64,
            "memSizeMB": memory,
            "memLimitMB": memory,
            "numCores": system::cores(),
            "numCoresAvailableToProcess": system::cores(),
            "numPhysicalCores": system::cores(),
            "numCpuSockets": 1,
            "cpuArch": std::env::consts::ARCH,
            "numaEnabled": false,
            "numNumaNodes": 1,
        },
        "os": {
            "type": "Linux",
            "name": system::os_name(),
            "version": format!("Kernel {}", system::kernel()),
        },
        "extra": {
            "pageSize": 4096i64,
            "kernelVersion": system::kernel(),
        },
    };
    Ok(reply.into())
}

const LOGS: &[&str] = &["global", "startupWarnings"];

fn get_log(request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let name = match request.argument() {
        RawBsonRef::String(name) => name,
        RawBsonRef::Null => {
            let message = "BSON field 'getLog.getLog' is missing but a required field";
            return Err(Failure::new(Code::IDL_FAILED_TO_PARSE, message));
        }
        other => {
            let found = type_name(other.element_type());
            let message = format!("Argument to getLog must be of type String; found {found}");
            return Err(type_mismatch(message).into());
        }
    };
    if name == "*" {
        return Ok(doc! { "names": LOGS.to_vec() }.into());
    }
    if !LOGS.contains(&name) {
        let message = format!("No log named '{name}'");
        return Err(Failure::new(Code::OPERATION_FAILED, message));
    }
    // Lines go to standard error as they are written; none are kept.
    Ok(doc! { "totalLinesWritten": 0, "log": [] }.into())
}

async fn command_line(
    service: &Service,
    _session: &mut Session,
    request: &Request<'_>,
) -> Result<Reply> {
    Fields::of(request, &[])?;
    let mut argv = vec![Bson::from("tessera"), Bson::from("serve")];
    let mut parsed = Document::new();
    for (name, value) in &service.config.settings {
        argv.push(Bson::from(format!("--{name}={value}")));
        parsed.insert(name, value);
    }
    Ok(doc! { "argv": argv, "parsed": parsed }.into())
}

fn list_commands() -> Reply {
    let mut rows: Vec<&Command> = commands::all().collect();
    rows.sort_unstable_by_key(|command| command.name);
    let mut shown = Document::new();
    for command in rows {
        let versions: &[&str] = if command.stable { &["1"] } else { &[] };
        let mut row = doc! {
            "help": command.help,
            "requiresAuth": !matches!(command.access, Access::Anyone),
            "secondaryOk": false,
            "adminOnly": command.admin_only,
            "apiVersions": versions.to_vec(),
            "deprecatedApiVersions": [],
        };
        if !command.aliases.is_empty() {
            row.insert("aliases", command.aliases.to_vec());
        }
        shown.insert(command.name, row);
    }
    doc! { "commands": shown }.into()
}

fn log_rotate(request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    match request.argument() {
        RawBsonRef::String("server") => Ok(Reply::ok()),
        RawBsonRef::String(other) => {
            let message = format!("Unknown log type '{other}'");
            Err(Failure::new(Code::NO_SUCH_KEY, message))
        }
        value if truth(value).is_some() => Ok(Reply::ok()),
        other => {
            let found = type_name(other.element_type());
            let message = format!("logRotate takes a number or \"server\"; found {found}");
            Err(type_mismatch(message).into())
        }
    }
}

const FSYNC: &[Field] = &[
    optional("lock", ANY),
    optional("async", ANY),
    optional("fsyncLockAcquisitionTimeoutMillis", ANY),
];

/// With `lock`, holds writes back until as many `fsyncUnlock` have come.
async fn fsync(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let fields = Fields::of(request, FSYNC)?;
    crate::write::retry::flush(&service.data).await?;
    if fields.bool("lock") != Some(true) {
        return Ok(doc! { "numFiles": 1 }.into());
    }
    let count = service.write_lock.lock();
    Ok(doc! {
        "info": "now locked against writes, use db.fsyncUnlock() to unlock",
        "lockCount": count,
        "seeAlso": "http://dochub.mongodb.org/core/fsynccommand",
    }
    .into())
}

fn fsync_unlock(service: &Service, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    match service.write_lock.unlock() {
        Some(count) => Ok(doc! { "info": "fsyncUnlock completed", "lockCount": count }.into()),
        None => {
            let message = "fsyncUnlock called when not locked";
            Err(Failure::new(Code::ILLEGAL_OPERATION, message))
        }
    }
}
