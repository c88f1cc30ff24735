//! Replica sets: none as a mongos, and one of a single member in that mode.

use bson::{DateTime, doc};
use tessera_mongo_language::error::Code;

use crate::access::{Access, Action};
use crate::command::Command;
use crate::counters::signed;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, Field, Fields, optional};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "replSetGetStatus",
        "Returns the state of the replica set's members.",
        Access::Cluster(&[Action::ReplSetGetStatus]),
        |service, session, request| Box::pin(status(service, session, request)),
    )
    .admin_only(),
    Command::new(
        "replSetGetConfig",
        "Returns the configuration of the replica set.",
        Access::Cluster(&[Action::ReplSetGetConfig]),
        |service, session, request| Box::pin(config(service, session, request)),
    )
    .admin_only(),
];

/// The name and the address of the only member.
fn member(service: &Service) -> Result<(&str, String)> {
    let Some(name) = &service.config.replica_set else {
        let message = "not running with --replSet";
        return Err(Failure::new(Code::NO_REPLICATION_ENABLED, message));
    };
    let address = service
        .config
        .address
        .map_or_else(String::new, |address| address.to_string());
    Ok((name, address))
}

const STATUS: &[Field] = &[optional("initialSync", ANY)];

async fn status(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, STATUS)?;
    let (name, address) = member(service)?;
    let time = service.cluster_time.now(service.store.clock());
    let optime = doc! { "ts": time, "t": 1i64 };
    let now = DateTime::now();
    Ok(doc! {
        "set": name,
        "date": now,
        "myState": 1,
        "term": 1i64,
        "heartbeatIntervalMillis": 2_000i64,
        "majorityVoteCount": 1,
        "writeMajorityCount": 1,
        "votingMembersCount": 1,
        "writableVotingMembersCount": 1,
        "optimes": {
            "lastCommittedOpTime": optime.clone(),
            "appliedOpTime": optime.clone(),
            "durableOpTime": optime.clone(),
        },
        "members": [{
            "_id": 0,
            "name": address,
            "health": 1.0,
            "state": 1,
            "stateStr": "PRIMARY",
            "uptime": signed(service.started.elapsed().as_secs()),
            "optime": optime,
            "optimeDate": now,
            "self": true,
        }],
    }
    .into())
}

const CONFIG: &[Field] = &[optional("commitmentStatus", ANY)];

async fn config(service: &Service, _: &mut Session, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, CONFIG)?;
    let (name, address) = member(service)?;
    Ok(doc! { "config": {
        "_id": name,
        "version": 1,
        "term": 1i64,
        "members": [{ "_id": 0, "host": address, "priority": 1.0, "votes": 1 }],
        "protocolVersion": 1i64,
        "writeConcernMajorityJournalDefault": true,
        "settings": { "replicaSetId": service.process_id },
    } }
    .into())
}
