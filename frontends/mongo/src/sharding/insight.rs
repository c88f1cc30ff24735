//! Load and size of collections by partition and key: `config.partitions`, `config.hotKeys`,
//! `config.largeKeys` and `config.partitionWarnings`, computed on each read, and the command
//! `partitionInsight`.

use bson::{Bson, Document, doc};
use tessera_core::Error as CoreError;
use tessera_core::insight::{HotKey, Insight, LargeKey, PartitionInsight, Warning};
use tessera_core::provisioning::Throughput;
use tessera_mongo_language::error::Code;

use crate::API;
use crate::access::{Access, Action};
use crate::collection::Namespace;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::Fields;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    "partitionInsight",
    "Returns physical partitions of a collection, its hottest and its largest keys.",
    Access::Cluster(&[Action::ShardingState]),
    |service, _, request| Box::pin(partition_insight(service, request)),
)
.admin_only()];

async fn partition_insight(service: &Service, request: &Request<'_>) -> Result<Reply> {
    Fields::of(request, &[])?;
    let namespace = Namespace::parse(request.collection()?)?;
    let store = &service.store;
    let insight = match store.insight(&namespace.container).await {
        Err(CoreError::NotFound(_)) => {
            let message = format!("Collection {namespace} does not exist.");
            return Err(Failure::new(Code::NAMESPACE_NOT_FOUND, message));
        }
        insight => insight?,
    };
    let large = store.largest_keys(&namespace.container).await?;
    let mut reply = doc! { "ns": namespace.to_string() };
    for (field, throughput) in [
        ("throughput", insight.throughput),
        ("sharedThroughput", insight.shared),
    ] {
        if let Some(throughput) = throughput {
            reply.insert(field, shown_throughput(throughput));
        }
    }
    let partitions = insight.partitions.iter().map(partition);
    reply.insert("partitions", partitions.collect::<Vec<_>>());
    reply.insert(
        "hotKeys",
        insight.hot_keys.iter().map(hot_key).collect::<Vec<_>>(),
    );
    reply.insert("largeKeys", large.iter().map(large_key).collect::<Vec<_>>());
    let warnings = insight.warnings(&large);
    reply.insert("warnings", warnings.iter().map(warning).collect::<Vec<_>>());
    Ok(reply.into())
}

/// `config.partitions`: every physical partition.
pub(super) async fn partitions(service: &Service) -> Result<Vec<Document>> {
    let mut rows = Vec::new();
    for insight in insights(service).await? {
        let ns = namespace(&insight);
        for row in insight.partitions.iter().map(partition) {
            let id = doc! { "ns": &ns, "partition": row.get("partition").cloned() };
            rows.push(with_id(id, &ns, row));
        }
    }
    Ok(rows)
}

/// `config.hotKeys`: the keys of each collection that cost most lately, the costliest first.
pub(super) async fn hot_keys(service: &Service) -> Result<Vec<Document>> {
    let mut rows = Vec::new();
    for insight in insights(service).await? {
        let ns = namespace(&insight);
        for (rank, row) in (1..).zip(insight.hot_keys.iter().map(hot_key)) {
            let id = doc! { "ns": &ns, "rank": rank };
            rows.push(with_id(id, &ns, row));
        }
    }
    Ok(rows)
}

/// `config.largeKeys`: the keys of each sharded collection that hold most, the largest first.
pub(super) async fn large_keys(service: &Service) -> Result<Vec<Document>> {
    let mut rows = Vec::new();
    for name in service.store.list_containers(API, None).await? {
        let large = match service.store.largest_keys(&name).await {
            // Dropped just now.
            Err(CoreError::NotFound(_)) => continue,
            large => large?,
        };
        let ns = format!("{}.{}", name.database, name.container);
        for (rank, row) in (1..).zip(large.iter().map(large_key)) {
            let id = doc! { "ns": &ns, "rank": rank };
            rows.push(with_id(id, &ns, row));
        }
    }
    Ok(rows)
}

/// `config.partitionWarnings`: limits of which 70 % or more are used.
pub(super) async fn warnings(service: &Service) -> Result<Vec<Document>> {
    let mut rows = Vec::new();
    for insight in insights(service).await? {
        let warnings = match service.store.warnings(&insight).await {
            // Dropped just now.
            Err(CoreError::NotFound(_)) => continue,
            warnings => warnings?,
        };
        let ns = namespace(&insight);
        for (number, row) in (1..).zip(warnings.iter().map(warning)) {
            let id = doc! { "ns": &ns, "number": number };
            rows.push(with_id(id, &ns, row));
        }
    }
    Ok(rows)
}

async fn insights(service: &Service) -> Result<Vec<Insight>> {
    let mut insights = Vec::new();
    for name in service.store.list_containers(API, None).await? {
        match service.store.insight(&name).await {
            Ok(insight) => insights.push(insight),
            // Dropped just now.
            Err(CoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(insights)
}

fn namespace(insight: &Insight) -> String {
    format!("{}.{}", insight.name.database, insight.name.container)
}

fn with_id(id: Document, ns: &str, row: Document) -> Document {
    let mut document = doc! { "_id": id, "ns": ns };
    document.extend(row);
    document
}

fn partition(partition: &PartitionInsight) -> Document {
    let statistics = &partition.statistics;
    doc! {
        "partition": i64::from(statistics.partition),
        "firstToken": statistics.first,
        "lastToken": statistics.last,
        "documents": statistics.tally.items,
        "bytes": statistics.tally.bytes,
        "budget": partition.budget,
        "requestUnitsPerSecond": partition.request_units_per_second,
        "normalizedConsumption": partition.normalised_consumption,
        "requestUnits": partition.charged.request_units(),
        "requests": whole(partition.requests),
        "throttled": whole(partition.throttled),
    }
}

fn hot_key(hot: &HotKey) -> Document {
    doc! {
        "key": &hot.key,
        "partition": i64::from(hot.partition),
        "requestUnitsPerSecond": hot.request_units_per_second,
        "error": hot.error,
        "share": hot.share,
    }
}

fn large_key(large: &LargeKey) -> Document {
    doc! {
        "key": &large.key,
        "partition": i64::from(large.partition),
        "documents": large.tally.items,
        "bytes": large.tally.bytes,
    }
}

fn warning(warning: &Warning) -> Document {
    let mut shown = doc! {
        "limit": warning.limit.name(),
        "partition": i64::from(warning.partition),
    };
    if let Some(key) = &warning.key {
        shown.insert("key", key);
    }
    shown.extend(doc! { "used": warning.used, "message": &warning.message });
    shown
}

fn shown_throughput(throughput: Throughput) -> Document {
    let units = i64::from(throughput.units());
    match throughput {
        Throughput::Manual(_) => doc! { "manual": units },
        Throughput::Autoscale(_) => doc! { "autoscale": units },
    }
}

fn whole(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}
