//! The commands about the cluster as a whole: its shards, its balancer and its versions.

use bson::{Bson, Document, doc};
use tessera_mongo_language::error::Code;

use crate::access::{Access, Action, Need};
use crate::auth::login::Identity;
use crate::collection::Namespace;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{ANY, DOCUMENT, Field, Fields, optional};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::sharding::collections::needs;
use crate::sharding::config;
use crate::sharding::layout::{Layout, address, object_id, shards};
use crate::sharding::rows;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "listShards",
        "Lists the shards: the physical partitions that collections lie on.",
        Access::Cluster(&[Action::ListShards]),
        |service, _, request| Box::pin(list_shards(service, request)),
    )
    .admin_only(),
    Command::new(
        "getShardMap",
        "Returns the map of shards.",
        Access::Cluster(&[Action::GetShardMap]),
        |service, _, _| Box::pin(shard_map(service)),
    )
    .admin_only(),
    Command::new(
        "getShardVersion",
        "Returns the version of a collection's chunks.",
        Access::Decide(|request| needs(request, Action::GetShardVersion)),
        |service, _, request| Box::pin(shard_version(service, request)),
    ),
    Command::new(
        "flushRouterConfig",
        "Does nothing: routing information is never out of date.",
        Access::Cluster(&[Action::FlushRouterConfig]),
        |_, _, _| Box::pin(async { Ok(doc! { "flushed": true }.into()) }),
    ),
    Command::new(
        "balancerStatus",
        "Returns the state of the balancer.",
        Access::Decide(|_| Ok(vec![on_settings(Action::Find)])),
        |service, _, _| Box::pin(balancer_status(service)),
    )
    .admin_only(),
    Command::new(
        "balancerStart",
        "Starts the balancer.",
        Access::Decide(|_| Ok(vec![on_settings(Action::Update)])),
        |service, _, _| Box::pin(set_balancer(service, "full")),
    )
    .admin_only(),
    Command::new(
        "balancerStop",
        "Stops the balancer.",
        Access::Decide(|_| Ok(vec![on_settings(Action::Update)])),
        |service, _, _| Box::pin(set_balancer(service, "off")),
    )
    .admin_only(),
    Command::new(
        "balancerCollectionStatus",
        "Returns whether a collection is balanced.",
        Access::Decide(|request| needs(request, Action::EnableSharding)),
        |service, _, request| Box::pin(balancer_collection_status(service, request)),
    )
    .admin_only(),
    managed(
        "addShard",
        "Not supported: the server manages shards.",
        Access::Cluster(&[Action::AddShard]),
    ),
    managed(
        "removeShard",
        "Not supported: the server manages shards.",
        Access::Cluster(&[Action::RemoveShard]),
    ),
    managed(
        "movePrimary",
        "Not supported: unsharded collections have one place.",
        Access::Decide(|request| {
            let database = request.argument().as_str().unwrap_or_default();
            Ok(vec![Need::on_database(Action::MoveChunk, database)])
        }),
    ),
    managed(
        "moveChunk",
        "Not supported: the server places chunks.",
        Access::Decide(|request| needs(request, Action::MoveChunk)),
    ),
    managed(
        "moveRange",
        "Not supported: the server places ranges.",
        Access::Decide(|request| needs(request, Action::MoveChunk)),
    ),
    managed(
        "addShardToZone",
        "Not supported: there are no zones.",
        Access::Judge(may_zone),
    ),
    managed(
        "removeShardFromZone",
        "Not supported: there are no zones.",
        Access::Judge(may_zone),
    ),
    managed(
        "updateZoneKeyRange",
        "Not supported: there are no zones.",
        Access::Judge(may_zone),
    ),
];

/// An action on the collection that tells the balancer what to do.
fn on_settings(action: Action) -> Need {
    Need::on_collection(action, config::DATABASE, "settings")
}

/// A command about what the server arranges by itself: it is known, and politely refused.
const fn managed(name: &'static str, help: &'static str, access: Access) -> Command {
    Command::new(name, help, access, |_, _, request| {
        Box::pin(refuse(request))
    })
    .admin_only()
}

/// Zones are for who may shard, or may write where zones are kept.
fn may_zone(_: &Request<'_>, user: &Identity) -> Result<bool> {
    let database = config::DATABASE;
    Ok(user.may(&Need::on_cluster(Action::EnableSharding))
        || user.may_all(&[Action::Find, Action::Update], database, "shards")
            && user.may_all(
                &[Action::Find, Action::Update, Action::Remove],
                database,
                "tags",
            ))
}

async fn refuse(request: &Request<'_>) -> Result<Reply> {
    let message = format!(
        "'{}' is not supported: physical partitions are placed by the hash of the shard key and \
         arranged by the server; 'split' and 'mergeChunks' change how many there are",
        request.name()
    );
    Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message))
}

async fn list_shards(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[optional("filter", DOCUMENT)];
    Fields::of(request, FIELDS)?;
    let rows = config::documents(service, &Namespace::unchecked("config", "shards")).await?;
    let rows = rows.unwrap_or_default().into_iter().map(|mut row| {
        row.remove("replSetConfigVersion");
        Bson::Document(row)
    });
    Ok(doc! { "shards": rows.collect::<Vec<_>>() }.into())
}

async fn shard_map(service: &Service) -> Result<Reply> {
    let address = address(service);
    let mut map = doc! { "config": format!("config/{address}") };
    let mut hosts = doc! { address.clone(): "config" };
    for shard in shards(service).await? {
        map.insert(shard.clone(), format!("{shard}/{address}"));
        hosts.insert(address.clone(), shard);
    }
    let connections: Document = map
        .iter()
        .map(|(name, set)| (set.to_string(), name.into()))
        .collect();
    Ok(doc! { "map": map, "hosts": hosts, "connStrings": connections }.into())
}

async fn shard_version(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[optional("fullMetadata", ANY)];
    let fields = Fields::of(request, FIELDS)?;
    let Some(name) = request.argument().as_str() else {
        let message = "getShardVersion takes the name of a collection";
        return Err(Failure::new(Code::BAD_VALUE, message));
    };
    let namespace = Namespace::parse(name)?;
    let layout = Layout::of(service, &namespace)
        .await?
        .filter(Layout::is_sharded);
    let Some(layout) = layout else {
        let message = format!("Collection {namespace} is not sharded");
        return Err(Failure::new(Code::NAMESPACE_NOT_SHARDED, message));
    };
    let mut reply = doc! {
        "version": layout.chunk_version(),
        "versionEpoch": object_id(&layout.collection.uuid.to_string()),
        "versionTimestamp": layout.timestamp(),
    };
    if fields.bool("fullMetadata").unwrap_or(false) {
        let chunks = layout.partitions.iter().map(|partition| {
            let (min, max) = layout.bounds(partition);
            Bson::Array(vec![min.into(), max.into()])
        });
        reply.insert("chunks", chunks.collect::<Vec<_>>());
    }
    Ok(reply.into())
}

/// The balancer has nothing to move, so its state is what clients set in `config.settings`.
async fn balancer_status(service: &Service) -> Result<Reply> {
    let settings = Namespace::unchecked(config::DATABASE, "settings");
    let row = rows::get(service, &settings, &"balancer".into()).await?;
    let stopped = row
        .as_ref()
        .is_some_and(|row| row.get_bool("stopped").unwrap_or(false));
    let mode = if stopped { "off" } else { "full" };
    Ok(doc! { "mode": mode, "inBalancerRound": false, "numBalancerRounds": 0i64 }.into())
}

async fn set_balancer(service: &Service, mode: &str) -> Result<Reply> {
    let settings = Namespace::unchecked(config::DATABASE, "settings");
    let row = doc! { "_id": "balancer", "mode": mode, "stopped": mode == "off" };
    rows::put(service, &settings, &row).await?;
    Ok(Reply::ok())
}

async fn balancer_collection_status(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let Some(name) = request.argument().as_str() else {
        let message = "balancerCollectionStatus takes the name of a collection";
        return Err(Failure::new(Code::BAD_VALUE, message));
    };
    let namespace = Namespace::parse(name)?;
    let layout = Layout::of(service, &namespace)
        .await?
        .filter(Layout::is_sharded);
    if layout.is_none() {
        let message = format!("Collection {namespace} is not sharded");
        return Err(Failure::new(Code::NAMESPACE_NOT_SHARDED, message));
    }
    Ok(doc! { "chunkSize": 128, "balancerCompliant": true }.into())
}
