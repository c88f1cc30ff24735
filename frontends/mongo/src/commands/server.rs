//! What the server says of itself without looking at any data.

use bson::{bson, doc};

use crate::access::Access;
use crate::command::Command;
use crate::failure::Result;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// The version of MongoDB whose behaviour is played.
pub(crate) const MONGODB_VERSION: [i32; 4] = [8, 0, 0, 0];

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "ping",
        "Tells that the server answers.",
        Access::Anyone,
        |_, _, _| Box::pin(async { Ok(Reply::ok()) }),
    )
    .stable()
    .in_transactions(),
    Command::new(
        "buildInfo",
        "Tells which version runs.",
        Access::Anyone,
        |service, session, request| Box::pin(build_info(service, session, request)),
    )
    .also(&["buildinfo"]),
];

async fn build_info(
    service: &Service,
    _session: &mut Session,
    _request: &Request<'_>,
) -> Result<Reply> {
    let [major, minor, patch, _] = MONGODB_VERSION;
    let reply = doc! {
        "version": format!("{major}.{minor}.{patch}"),
        "versionArray": MONGODB_VERSION.to_vec(),
        "gitVersion": format!("tessera-{}", service.config.version),
        "modules": [],
        "allocator": "system",
        "javascriptEngine": "none",
        "sysInfo": "deprecated",
        "openssl": bson!({ "running": "rustls", "compiled": "rustls" }),
        "bits": 64,
        "debug": false,
        "maxBsonObjectSize": 16_777_216,
        "storageEngines": ["rocks", "memory", "postgres"],
    };
    Ok(reply.into())
}
