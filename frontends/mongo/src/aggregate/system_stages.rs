//! Stages that the server answers itself: sizes and indexes of a collection, and what others add to
//! the table.

use bson::{Bson, DateTime, Document, doc};
use tessera_core::engine::BoxFuture;
use tessera_mongo_language::error::{Code, Error};
use tessera_mongo_language::pipeline::SystemStage;

use crate::aggregate::environment::Environment;
use crate::collection::Namespace;
use crate::commands::stats::Size;
use crate::failure::{Failure, Result};
use crate::sharding::statistics;
use crate::write::target::{Target, on_view};

/// Answers a stage with documents.
type Answer = for<'a> fn(&'a Environment, &'a Bson) -> BoxFuture<'a, Result<Vec<Document>>>;

const STAGES: &[(&str, Answer)] = &[
    ("$listClusterCatalog", |environment, argument| {
        Box::pin(cluster_catalog(environment, argument))
    }),
    ("$shardedDataDistribution", |environment, _| {
        Box::pin(statistics::data_distribution(&environment.service))
    }),
    ("$collStats", |environment, argument| {
        Box::pin(coll_stats(environment, argument))
    }),
    ("$indexStats", |environment, argument| {
        Box::pin(index_stats(environment, argument))
    }),
];

/// The documents that a stage begins with.
pub(crate) async fn answer(
    environment: &Environment,
    stage: &SystemStage,
) -> Result<Vec<Document>> {
    let known = STAGES.iter().find(|(name, _)| *name == stage.name);
    match known {
        Some((_, answer)) => answer(environment, &stage.argument).await,
        None => {
            let message = format!("{} is not supported yet", stage.name);
            Err(Failure::new(Code::COMMAND_NOT_SUPPORTED, message))
        }
    }
}

async fn cluster_catalog(environment: &Environment, argument: &Bson) -> Result<Vec<Document>> {
    let Bson::Document(options) = argument else {
        let message = "$listClusterCatalog must take a nested object";
        return Err(Error::new(Code(9_621_302), message).into());
    };
    let database = Some(environment.database.as_str()).filter(|name| *name != "admin");
    let with_shards = options.get_bool("shards").unwrap_or(false);
    statistics::cluster_catalog(&environment.service, database, with_shards).await
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
    Ok(vec![shown])
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
            "accesses": { "ops": 0i64, "since": DateTime::now() },
            "spec": spec.document.clone(),
        }
    });
    Ok(shown.collect())
}
