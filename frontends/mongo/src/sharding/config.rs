//! The database `config`: the metadata of a cluster, computed from the core's partition maps and
//! statistics on each read. So is `admin.system.version`.
//!
//! `settings` is an ordinary collection. What clients may switch in `collections` (`noBalance` and
//! the like) is stored in an ordinary collection of that name and laid over the computed rows.

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};
use bytes::Bytes;
use tessera_core::Error as CoreError;
use tessera_core::engine::BoxFuture;
use tessera_mongo_language::error::Code;

use crate::API;
use crate::collection::Namespace;
use crate::commands::server::MONGODB_VERSION;
use crate::failure::{Failure, Result};
use crate::parameters::AUTH_SCHEMA_VERSION;
use crate::service::Service;
use crate::sharding::insight;
use crate::sharding::layout::{Layout, address, object_id, shard_name, shards, uuid};
use crate::sharding::rows;

/// The database.
pub(crate) const DATABASE: &str = "config";
/// Another one, of which a single collection is computed.
const ADMIN: &str = "admin";
/// Its collection whose computed rows clients may change a little.
const COLLECTIONS: &str = "collections";
/// Its collection of settings, which is stored.
const SETTINGS: &str = "settings";
/// Databases that have no row in `config.databases`.
const WITHOUT_ROW: [&str; 3] = ["admin", DATABASE, "local"];

/// Computes the documents of one collection, in the order of their `_id`.
type Compute = for<'a> fn(&'a Service) -> BoxFuture<'a, Result<Vec<Document>>>;

/// The computed collections, each with its database.
const COMPUTED: &[(&str, &str, Compute)] = &[
    (ADMIN, "system.version", |_| Box::pin(system_version())),
    (DATABASE, "actionlog", |_| nothing()),
    (DATABASE, "changelog", |_| nothing()),
    (DATABASE, "chunks", |service| Box::pin(chunks(service))),
    (DATABASE, COLLECTIONS, |service| {
        Box::pin(collections(service))
    }),
    (DATABASE, "databases", |service| {
        Box::pin(databases(service))
    }),
    (DATABASE, "hotKeys", |service| {
        Box::pin(insight::hot_keys(service))
    }),
    (DATABASE, "largeKeys", |service| {
        Box::pin(insight::large_keys(service))
    }),
    (DATABASE, "locks", |_| nothing()),
    (DATABASE, "mongos", |service| Box::pin(routers(service))),
    (DATABASE, "partitionWarnings", |service| {
        Box::pin(insight::warnings(service))
    }),
    (DATABASE, "partitions", |service| {
        Box::pin(insight::partitions(service))
    }),
    (DATABASE, "shards", |service| Box::pin(shard_rows(service))),
    (DATABASE, "tags", |_| nothing()),
    (DATABASE, "version", |service| Box::pin(version(service))),
];

/// Those that describe the cluster itself. A list of all collections leaves them out, so that a
/// dump of everything has no `config` in it, which no cluster takes back; asked for by name they
/// are there.
const OF_THE_CLUSTER: [&str; 7] = [
    "chunks",
    COLLECTIONS,
    "databases",
    SETTINGS,
    "shards",
    "tags",
    "version",
];

/// Whether a list of all collections leaves this one of `config` out.
pub(crate) fn is_unlisted(service: &Service, name: &str) -> bool {
    // A replica set takes its settings back.
    let is_own = name == SETTINGS && service.config.replica_set.is_some();
    OF_THE_CLUSTER.contains(&name) && !is_own
}

/// The names of the computed collections of a database.
pub(crate) fn names(database: &str) -> impl Iterator<Item = &'static str> {
    let computed = COMPUTED.iter().filter(move |(of, ..)| *of == database);
    computed.map(|(_, name, _)| *name)
}

/// Whether a database has computed collections.
pub(crate) fn has_computed(database: &str) -> bool {
    [DATABASE, ADMIN].contains(&database)
}

/// Whether a collection is computed.
pub(crate) fn is_computed(namespace: &Namespace) -> bool {
    find(namespace).is_some()
}

fn find(namespace: &Namespace) -> Option<&'static Compute> {
    // Asked for every write: most are told by the name of the database alone.
    if !has_computed(namespace.database()) {
        return None;
    }
    let (database, collection) = (namespace.database(), namespace.collection());
    let mut computed = COMPUTED.iter();
    let found = computed.find(|(of, name, _)| *of == database && *name == collection);
    found.map(|(.., compute)| compute)
}

/// The documents of a computed collection; none if it is not one.
pub(crate) async fn documents(
    service: &Service,
    namespace: &Namespace,
) -> Result<Option<Vec<Document>>> {
    match find(namespace) {
        None => Ok(None),
        Some(compute) => compute(service).await.map(Some),
    }
}

/// Makes a write into `config` possible, or refuses it: before an update of `collections`, stores a
/// row for each sharded collection, so that there is something to update.
pub(crate) async fn prepare_update(service: &Service, namespace: &Namespace) -> Result<()> {
    if !is_computed(namespace) {
        return Ok(());
    }
    if namespace.collection() != COLLECTIONS {
        return Err(read_only(namespace));
    }
    let stored = rows::all(service, namespace).await?;
    for layout in Layout::sharded(service).await? {
        let id = Bson::String(layout.namespace.to_string());
        if !stored.iter().any(|row| row.get("_id") == Some(&id)) {
            rows::put(service, namespace, &doc! { "_id": id }).await?;
        }
    }
    Ok(())
}

/// Refuses inserts and deletes in computed collections.
pub(crate) fn check_write(namespace: &Namespace) -> Result<()> {
    if is_computed(namespace) {
        return Err(read_only(namespace));
    }
    Ok(())
}

fn read_only(namespace: &Namespace) -> Failure {
    let message = format!("{namespace} shows what the server knows and cannot be written to");
    Failure::new(Code::ILLEGAL_OPERATION, message)
}

fn nothing<'a>() -> BoxFuture<'a, Result<Vec<Document>>> {
    Box::pin(async { Ok(Vec::new()) })
}

async fn chunks(service: &Service) -> Result<Vec<Document>> {
    let layouts = Layout::sharded(service).await?;
    Ok(layouts.iter().flat_map(Layout::chunks).collect())
}

async fn collections(service: &Service) -> Result<Vec<Document>> {
    let namespace = Namespace::unchecked(DATABASE, COLLECTIONS);
    let stored = rows::all(service, &namespace).await?;
    let layouts = Layout::sharded(service).await?;
    let computed = layouts.iter().map(|layout| {
        let collection = &layout.collection;
        let mut row = doc! {
            "_id": layout.namespace.to_string(),
            "lastmodEpoch": object_id(&collection.uuid.to_string()),
            "lastmod": DateTime::from_millis(0),
            "timestamp": layout.timestamp(),
            "uuid": collection.uuid_bson(),
            "key": collection.shard_key.as_ref().map(|key| key.key.clone()),
            "unique": false,
        };
        if let Some(target) = &layout.moving_to {
            let key = target.shard_key.as_ref().map(|key| key.key.clone());
            row.insert(
                "reshardingFields",
                doc! { "state": "cloning", "newKey": key },
            );
        }
        let switched = stored
            .iter()
            .find(|stored| stored.get("_id") == row.get("_id"));
        for (name, value) in switched.into_iter().flatten() {
            row.insert(name.clone(), value.clone());
        }
        row
    });
    Ok(computed.collect())
}

async fn databases(service: &Service) -> Result<Vec<Document>> {
    let mut names: Vec<String> = Vec::new();
    for container in service.store.list_containers(API, None).await? {
        if names.last() != Some(&container.database) {
            names.push(container.database);
        }
    }
    names.retain(|name| !WITHOUT_ROW.contains(&name.as_str()));
    let rows = names.into_iter().map(|name| {
        let timestamp = bson::Timestamp {
            time: 1,
            increment: 1,
        };
        doc! {
            "_id": name.clone(),
            "primary": shard_name(0),
            "partitioned": true,
            "version": { "uuid": uuid(&name), "timestamp": timestamp, "lastMod": 1 },
        }
    });
    Ok(rows.collect())
}

async fn shard_rows(service: &Service) -> Result<Vec<Document>> {
    let address = address(service);
    let rows = shards(service).await?.into_iter().map(|shard| {
        doc! {
            "_id": shard.clone(),
            "host": format!("{shard}/{address}"),
            "state": 1,
            "topologyTime": bson::Timestamp { time: 1, increment: 1 },
            "replSetConfigVersion": -1i64,
        }
    });
    Ok(rows.collect())
}

async fn routers(service: &Service) -> Result<Vec<Document>> {
    let [major, minor, patch, _] = MONGODB_VERSION;
    let now = i64::try_from(service.store.clock().now_ms()).unwrap_or(i64::MAX);
    let up = i64::try_from(service.started.elapsed().as_secs()).unwrap_or(i64::MAX);
    Ok(vec![doc! {
        "_id": address(service),
        "advisoryHostFQDNs": [],
        "created": DateTime::from_millis(now - up * 1_000),
        "mongoVersion": format!("{major}.{minor}.{patch}"),
        "ping": DateTime::from_millis(now),
        "up": up,
        "waiting": true,
    }])
}

/// `admin.system.version`: in which forms things are kept, which mongodump asks for.
async fn system_version() -> Result<Vec<Document>> {
    Ok(vec![
        doc! { "_id": "authSchema", "currentVersion": AUTH_SCHEMA_VERSION },
        doc! { "_id": "featureCompatibilityVersion", "version": "8.0" },
    ])
}

async fn version(service: &Service) -> Result<Vec<Document>> {
    Ok(vec![
        doc! { "_id": 1, "clusterId": cluster_id(service).await? },
    ])
}

/// The number that tells this cluster from others, given when it is first asked for.
async fn cluster_id(service: &Service) -> Result<ObjectId> {
    loop {
        if let Some(stored) = service.store.database(API, DATABASE).await? {
            let bytes = <[u8; 12]>::try_from(stored.as_ref());
            let damaged = |_| CoreError::Corrupt("the cluster's id".into());
            return Ok(ObjectId::from_bytes(bytes.map_err(damaged)?));
        }
        let id = Bytes::copy_from_slice(&ObjectId::new().bytes());
        match service.store.create_database(API, DATABASE, id).await {
            Ok(()) | Err(CoreError::AlreadyExists(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
