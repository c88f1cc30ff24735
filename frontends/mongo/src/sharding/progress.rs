//! Resharding and index builds in `currentOp`.

use bson::{Document, doc};
use tessera_core::job::{Job, Task};

use crate::API;
use crate::collection::Namespace;
use crate::failure::Result;
use crate::service::Service;
use crate::sharding::layout::{Layout, uuid};

/// One document for each long operation under way.
pub(crate) async fn operations(service: &Service) -> Result<Vec<Document>> {
    let mut operations = Vec::new();
    for job in service.store.jobs().await? {
        if job.container.api != API {
            continue;
        }
        let namespace = Namespace {
            container: job.container.clone(),
        };
        match &job.task {
            Task::Relocate => operations.push(relocation(service, &namespace, &job).await?),
            Task::BuildIndex { index } => operations.push(doc! {
                "type": "op",
                "desc": format!("IndexBuildsCoordinatorMongod-{}", job.id),
                "op": "command",
                "ns": namespace.to_string(),
                "active": true,
                "command": { "createIndexes": namespace.collection(), "$db": namespace.database() },
                "msg": format!("Index Build: index {index}"),
                "progress": { "done": count(job.done), "total": count(job.total) },
            }),
            Task::Repartition { parents } => operations.push(doc! {
                "type": "op",
                "desc": format!("split-or-merge-{}", job.id),
                "op": "command",
                "ns": namespace.to_string(),
                "active": true,
                "msg": format!("handing over {} physical partitions", parents.len()),
            }),
        }
    }
    Ok(operations)
}

/// As MongoDB shows the receiving side of a resharding.
async fn relocation(service: &Service, namespace: &Namespace, job: &Job) -> Result<Document> {
    let layout = Layout::of(service, namespace).await?;
    let target = layout.as_ref().and_then(|layout| layout.moving_to.as_ref());
    let key = target
        .and_then(|target| target.shard_key.as_ref())
        .map(|key| key.key.clone());
    let was_sharded = layout.as_ref().is_some_and(Layout::is_sharded);
    let command = match (&key, was_sharded) {
        (None, _) => "unshardCollection",
        (Some(_), true) => "reshardCollection",
        (Some(_), false) => "shardCollection",
    };
    let mut originating = doc! { command: namespace.to_string() };
    if let Some(key) = key {
        originating.insert("key", key);
    }
    let bytes: i64 = layout
        .iter()
        .flat_map(|l| &l.partitions)
        .map(|p| p.tally.bytes)
        .sum();
    Ok(doc! {
        "type": "op",
        "desc": format!("ReshardingMetricsRecipientService-{}", job.id),
        "op": "command",
        "ns": namespace.to_string(),
        "active": true,
        "originatingCommand": originating,
        "reshardingUUID": uuid(&format!("job {}", job.id)),
        "recipientState": "cloning",
        "approxDocumentsToCopy": count(job.total),
        "documentsCopied": count(job.done),
        "approxBytesToCopy": bytes,
        "bytesCopied": proportion(bytes, job),
        "progress": { "done": count(job.done), "total": count(job.total) },
    })
}

/// The share of `bytes` that was copied, judged by the number of documents.
fn proportion(bytes: i64, job: &Job) -> i64 {
    let copied = i128::from(bytes) * i128::from(job.done) / i128::from(job.total.max(1));
    i64::try_from(copied).unwrap_or(bytes).min(bytes)
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
