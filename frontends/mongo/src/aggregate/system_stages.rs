//! Stages that the server answers itself: sizes and indexes of a collection, and the rows of other
//! modules.

use bson::{Bson, DateTime, Document, doc};
use tessera_core::engine::BoxFuture;
use tessera_mongo_language::error::{Code, Error, type_mismatch};
use tessera_mongo_language::pipeline::{Asked, SystemStage};

use crate::aggregate::environment::Environment;
use crate::aggregate::server_stages;
use crate::collection::Namespace;
use crate::commands::stats::Size;
use crate::failure::{Failure, Result};
use crate::sharding::statistics;
use crate::write::target::{Target, on_view};

/// Answers a stage with documents.
type Answer = for<'a> fn(&'a Environment, &'a Bson) -> BoxFuture<'a, Result<Vec<Document>>>;

const STAGES: &[(Asked, Answer)] = &[
    (Asked::CollStats, |environment, argument| {
        Box::pin(coll_stats(environment, argument))
    }),
    (Asked::ListClusterCatalog, |environment, argument| {
        Box::pin(list_cluster_catalog(environment, argument))
    }),
    (Asked::ShardedDataDistribution, |environment, argument| {
        Box::pin(sharded_data_distribution(environment, argument))
    }),
    (Asked::IndexStats, |environment, argument| {
        Box::pin(index_stats(environment, argument))
    }),
    (Asked::CurrentOp, |environment, argument| {
        Box::pin(server_stages::current_op(environment, argument))
    }),
    (Asked::ListLocalSessions, |environment, argument| {
        Box::pin(server_stages::list_sessions(environment, argument))
    }),
    (Asked::ListSessions, |environment, argument| {
        Box::pin(server_stages::list_sessions(environment, argument))
    }),
    (Asked::PlanCacheStats, |environment, argument| {
        Box::pin(server_stages::plan_cache_stats(environment, argument))
    }),
    (Asked::QuerySettings, |environment, argument| {
        Box::pin(server_stages::query_settings(environment, argument))
    }),
    (Asked::QueryStats, |environment, argument| {
        Box::pin(server_stages::query_stats(environment, argument))
    }),
];

/// The documents that a stage begins with.
pub(crate) async fn answer(
    environment: &Environment,
    stage: &SystemStage,
) -> Result<Vec<Document>> {
    let known = STAGES.iter().find(|(asked, _)| *asked == stage.asked);
    match known {
        Some((_, answer)) => answer(environment, &stage.argument).await,
        None if stage.asked == Asked::ChangeStreamSplit => {
            let message = format!("{} can only be used in a change stream", stage.asked.name());
            Err(Error::new(Code(7_182_801), message).into())
        }
        None => {
            let message = format!("{} is not supported yet", stage.asked.name());
            Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message))
        }
    }
}

async fn target(environment: &Environment, stage: &str) -> Result<(Namespace, Target)> {
    let Some(namespace) = &environment.namespace else {
        let message = format!("{stage} must be run on a collection");
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    };
    let Some(target) = environment.target(namespace).await? else {
        let message = format!(
            "Unable to retrieve storageStats in {stage} stage: Collection [{namespace}] not found."
        );
        return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
    };
    if target.collection.view.is_some() {
        return Err(on_view(namespace));
    }
    Ok((namespace.clone(), target))
}

async fn coll_stats(environment: &Environment, argument: &Bson) -> Result<Vec<Document>> {
    let Bson::Document(options) = argument else {
        let message = "$collStats must take a nested object";
        return Err(Error::new(Code(5_447_000), message).into());
    };
    for name in options.keys() {
        if ![
            "storageStats",
            "count",
            "latencyStats",
            "queryExecStats",
            "operationStats",
        ]
        .contains(&name.as_str())
        {
            let message = format!("BSON field '$collStats.{name}' is an unknown field.");
            return Err(Failure::new(Code::IDL_UNKNOWN_FIELD, message));
        }
    }
    let Some(namespace) = environment.namespace.clone() else {
        let message = "$collStats must be run on a collection";
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    };
    let mut shown = doc! {
        "ns": namespace.to_string(),
        "host": "tessera",
        "localTime": DateTime::now(),
    };
    if options.contains_key("latencyStats") {
        let none = doc! { "latency": 0i64, "ops": 0i64 };
        shown.insert(
            "latencyStats",
            doc! {
                "reads": none.clone(), "writes": none.clone(), "commands": none.clone(),
                "transactions": none,
            },
        );
    }
    let needs = options.contains_key("storageStats") || options.contains_key("count");
    if needs {
        let (_, target) = target(environment, "$collStats").await?;
        let data = &environment.data;
        let size = environment
            .with_transaction(async |transaction| Size::of(data, transaction, &target).await)
            .await?;
        if let Some(Bson::Document(storage)) = options.get("storageStats") {
            let scale = match storage.get("scale") {
                Some(Bson::Int32(scale)) => i64::from(*scale),
                Some(Bson::Int64(scale)) => *scale,
                _ => 1,
            };
            shown.insert("storageStats", size.shown(&target.collection, scale.max(1)));
        }
        if options.contains_key("count") {
            shown.insert("count", size.count);
        }
    }
    if options.contains_key("queryExecStats") {
        shown.insert(
            "queryExecStats",
            doc! { "collectionScans": { "total": 0i64, "nonTailable": 0i64 } },
        );
    }
    shard_by_shard(environment, &namespace, shown).await
}

/// One document for each shard that the collection lies on, with its share of what can be shared.
async fn shard_by_shard(
    environment: &Environment,
    namespace: &Namespace,
    whole: Document,
) -> Result<Vec<Document>> {
    let shares = statistics::on_shards(&environment.service, namespace).await?;
    let Some(shares) = shares else {
        return Ok(vec![whole]);
    };
    let total: i64 = shares.iter().map(|share| share.bytes).sum();
    let shown = shares.iter().map(|share| {
        let mut shown = whole.clone();
        shown.insert("shard", share.shard.clone());
        if let Ok(storage) = shown.get_document_mut("storageStats") {
            share.apply(storage, total);
        }
        if shown.contains_key("count") {
            shown.insert("count", share.documents);
        }
        shown
    });
    Ok(shown.collect())
}

async fn sharded_data_distribution(
    environment: &Environment,
    argument: &Bson,
) -> Result<Vec<Document>> {
    if !matches!(argument, Bson::Document(_)) {
        let message = "The $shardedDataDistribution stage specification must be an object";
        return Err(Error::new(Code(6_789_100), message).into());
    }
    if environment.database != "admin" || environment.namespace.is_some() {
        let message = "$shardedDataDistribution must be run against the 'admin' database with \
                       {aggregate: 1}";
        return Err(Error::new(Code(6_789_102), message).into());
    }
    statistics::data_distribution(&environment.service).await
}

async fn list_cluster_catalog(environment: &Environment, argument: &Bson) -> Result<Vec<Document>> {
    let Bson::Document(options) = argument else {
        let message = "The $listClusterCatalog stage specification must be an object";
        return Err(Error::new(Code(9_621_302), message).into());
    };
    let mut with_shards = false;
    for (name, value) in options {
        match (name.as_str(), value) {
            ("shards", Bson::Boolean(wanted)) => with_shards = *wanted,
            ("balancingConfiguration" | "tracked", Bson::Boolean(_)) => {}
            ("shards" | "balancingConfiguration" | "tracked", _) => {
                let message = format!("BSON field '$listClusterCatalog.{name}' must be a bool");
                return Err(type_mismatch(message).into());
            }
            _ => {
                let message = format!("BSON field '$listClusterCatalog.{name}' is unknown");
                return Err(Failure::new(Code::IDL_UNKNOWN_FIELD, message));
            }
        }
    }
    if environment.namespace.is_some() {
        let message = "$listClusterCatalog must be run with {aggregate: 1}";
        return Err(Error::new(Code(9_621_301), message).into());
    }
    let database = Some(environment.database.as_str()).filter(|database| *database != "admin");
    statistics::cluster_catalog(&environment.service, database, with_shards).await
}

async fn index_stats(environment: &Environment, argument: &Bson) -> Result<Vec<Document>> {
    if !matches!(argument, Bson::Document(options) if options.is_empty()) {
        let message = "The $indexStats stage specification must be an empty object";
        return Err(Error::new(Code(28_803), message).into());
    }
    let Some(namespace) = environment.namespace.clone() else {
        let message = "$indexStats must be run on a collection";
        return Err(Failure::new(Code::INVALID_NAMESPACE, message));
    };
    let Some(target) = environment.target(&namespace).await? else {
        return Ok(Vec::new());
    };
    if target.collection.view.is_some() {
        return Err(on_view(&namespace));
    }
    let live = target.collection.live_indexes(&target.container.definition);
    let specs = std::iter::once(&target.collection.id_index).chain(live.map(|(spec, ..)| spec));
    let shown = specs.map(|spec| {
        doc! {
            "name": spec.name.clone(),
            "key": spec.key.clone(),
            "host": "tessera",
            "accesses": spec.accesses.to_document(),
            "spec": spec.document.clone(),
        }
    });
    Ok(shown.collect())
}
