//! `split` and `mergeChunks`: more or fewer physical partitions of a sharded collection.

use bson::{Document, RawBsonRef};
use tessera_mongo_language::error::{Code, bad_value};

use crate::access::{Access, Action};
use crate::collection::Namespace;
use crate::command::Command;
use crate::failure::{Failure, Result};
use crate::fields::{ARRAY, DOCUMENT, Field, Fields, optional, required};
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::sharding::collections::{namespace, needs};
use crate::sharding::layout::Layout;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "split",
        "Splits a chunk: a physical partition of a sharded collection.",
        Access::Decide(|request| needs(request, Action::SplitChunk)),
        |service, _, request| Box::pin(split(service, request)),
    ),
    Command::new(
        "mergeChunks",
        "Merges neighbouring chunks: physical partitions of a sharded collection.",
        Access::Decide(|request| needs(request, Action::SplitChunk)),
        |service, _, request| Box::pin(merge_chunks(service, request)),
    ),
];

async fn split(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[
        optional("find", DOCUMENT),
        optional("middle", DOCUMENT),
        optional("bounds", ARRAY),
    ];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = namespace(request)?;
    let layout = sharded_layout(service, &namespace).await?;
    let (token, at) = if let Some(find) = fields.document("find") {
        let shard_key = layout.collection.shard_key.as_ref();
        let placed = shard_key
            .map(|shard_key| shard_key.place(find))
            .transpose()?;
        (placed.map_or(0, |(token, _)| token), None)
    } else if let Some(middle) = fields.document("middle") {
        let token = Layout::token_of_bound(&Document::try_from(middle)?);
        let token = token.ok_or_else(|| bad_value("'middle' must be a hash within a chunk"))?;
        (token, Some(token))
    } else if let Some(bounds) = fields.array("bounds") {
        (bound(bounds.get(0)?)?.unwrap_or(i64::MIN), None)
    } else {
        return Err(bad_value("need to specify find/bounds or middle").into());
    };
    let mut partitions = layout.partitions.iter();
    let chunk = partitions.find(|chunk| chunk.first <= token && token <= chunk.last);
    let chunk = chunk.ok_or_else(|| bad_value("no chunk holds this key"))?;
    let name = &namespace.container;
    let done = service
        .store
        .split_partition(name, chunk.partition, at)
        .await;
    done.map(|_| Reply::ok()).map_err(repartition_failure)
}

async fn merge_chunks(service: &Service, request: &Request<'_>) -> Result<Reply> {
    const FIELDS: &[Field] = &[required("bounds", ARRAY)];
    let fields = Fields::of(request, FIELDS)?;
    let namespace = namespace(request)?;
    let layout = sharded_layout(service, &namespace).await?;
    let missing = || bad_value("'bounds' must be the two bounds of what is to be merged");
    let bounds = fields.array("bounds").ok_or_else(missing)?;
    let from = bound(bounds.get(0)?)?.unwrap_or(i64::MIN);
    let to = bound(bounds.get(1)?)?.map_or(i64::MAX, |behind| behind.saturating_sub(1));
    let within = layout
        .partitions
        .iter()
        .filter(|p| from <= p.first && p.last <= to);
    let count = within.clone().count();
    let first = within.map(|partition| partition.partition).next();
    let (Some(mut merged), true) = (first, count > 1) else {
        return Err(bad_value("there are no neighbouring chunks within these bounds").into());
    };
    for _ in 1..count {
        let next = service
            .store
            .merge_partitions(&namespace.container, merged)
            .await;
        merged = next.map_err(repartition_failure)?;
    }
    Ok(Reply::ok())
}

async fn sharded_layout(service: &Service, namespace: &Namespace) -> Result<Layout> {
    let layout = Layout::of(service, namespace).await?;
    layout.filter(Layout::is_sharded).ok_or_else(|| {
        let message = format!("Namespace {namespace} is not sharded");
        Failure::new(Code::NAMESPACE_NOT_SHARDED, message)
    })
}

fn bound(value: Option<RawBsonRef<'_>>) -> Result<Option<i64>> {
    match value.and_then(|value| value.as_document()) {
        Some(bound) => Ok(Layout::token_of_bound(&Document::try_from(bound)?)),
        None => Err(bad_value("the bounds of chunks are documents").into()),
    }
}

fn repartition_failure(error: tessera_core::Error) -> Failure {
    match error {
        tessera_core::Error::Rejected(cause) => Failure::new(Code::COMMAND_FAILED, cause),
        other => other.into(),
    }
}
