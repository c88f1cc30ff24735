//! `$batch`: several changes of one partition as one transaction, or one read.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HOST};
use tessera_core::item::Item;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;
use tessera_core::throughput::Charge;

use super::entities::{changed, read_change};
use super::{Call, Service, entities};
use crate::address;
use crate::batch::{self, Ids, Part, PartReply};
use crate::change::Change;
use crate::error::{Code, Result, ServiceError};
use crate::failure::Failure;
use crate::head::Head;
use crate::model;
use crate::operation::Operation;
use crate::options;
use crate::reply::Reply;
use crate::tables::{self, Mode};

/// One operation of a batch.
struct Step<'p> {
    head: Head<'p>,
    operation: Operation,
    body: &'p Bytes,
    content_id: Option<&'p str>,
}

/// `POST /$batch`.
pub(super) async fn run(call: &Call<'_>) -> Result<Reply> {
    call.service.limits().check_batch(call.body.len())?;
    let content_type = call.head.header(&CONTENT_TYPE).unwrap_or_default();
    let parts = batch::read(content_type, &call.body)?;
    let steps: Result<Vec<Step<'_>>> = parts
        .iter()
        .enumerate()
        .map(|(position, part)| step(call, part).map_err(|refusal| refusal.at(position)))
        .collect();
    let answered = match steps {
        Ok(steps) if steps.iter().any(|step| step.head.method == Method::GET) => {
            return read_one(call, steps).await;
        }
        Ok(steps) => change_all(call, &steps).await,
        Err(refusal) => Err(refusal),
    };
    let (replies, charge) = match answered {
        Ok(answered) => answered,
        // Errors outside of any operation are answers of the request and not of the batch.
        Err(refusal) if refusal.operation.is_none() => return Err(refusal),
        Err(refusal) => {
            let form = options::error_form(call.head);
            let reply = Reply::refusal(&refusal, form, call.id, call.service.now());
            let charge = reply.charge;
            (vec![part_reply(reply, None)], charge)
        }
    };
    let ids = Ids {
        batch: call.id,
        changeset: Some(call.id),
    };
    let (content_type, body) = batch::write(ids, &replies);
    Ok(multipart(&content_type, body).costing(charge))
}

fn multipart(content_type: &str, body: Vec<u8>) -> Reply {
    let mut reply = Reply::empty(StatusCode::ACCEPTED).with(&CONTENT_TYPE, content_type);
    reply.body = body.into();
    reply
}

/// The operation of a part. Its address may be a whole URL or just a path.
fn step<'p>(call: &Call<'p>, part: &'p Part) -> Result<Step<'p>> {
    let (host, path_and_query) = match part.target.split_once("://") {
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        None => (
            call.head.host(),
            part.target.strip_prefix('/').unwrap_or(&part.target),
        ),
    };
    let (path, query) = path_and_query
        .split_once('?')
        .unwrap_or((path_and_query, ""));
    let own_account = call.head.account;
    let address = address::locate(host, path, |name| {
        (name == own_account).then_some(own_account)
    })?;
    let mut headers = part.headers.clone();
    if let (false, Some(host)) = (headers.contains_key(HOST), call.head.headers.get(HOST)) {
        headers.insert(HOST, host.clone());
    }
    let head = Head {
        method: part.method.clone(),
        path,
        query: address::query(query)?,
        headers,
        account: address.account,
        path_style: address.path_style,
        speaks_atom: call.head.speaks_atom,
        tls: call.head.tls,
        peer: call.head.peer,
    };
    Ok(Step {
        operation: Operation::of(&head, address.resource)?,
        head,
        body: &part.body,
        content_id: part.content_id.as_deref(),
    })
}

/// A batch of one read.
async fn read_one(call: &Call<'_>, steps: Vec<Step<'_>>) -> Result<Reply> {
    let [step] = <[Step<'_>; 1]>::try_from(steps)
        .map_err(|_| Code::InvalidInput.because("a batch holds either one query or changes"))?;
    let inner = Call {
        service: call.service,
        head: &step.head,
        body: Bytes::new(),
        grant: call.grant.clone(),
        id: call.id,
    };
    let reply = match &step.operation {
        Operation::GetEntity(entity) => entities::get(&inner, entity).await,
        Operation::QueryEntities(table) => entities::query(&inner, table).await,
        _ => Err(Code::InvalidInput.because("a batch reads entities only")),
    };
    let reply = reply.unwrap_or_else(|refusal| {
        let form = options::error_form(&step.head);
        Reply::refusal(&refusal.at(0), form, call.id, call.service.now())
    });
    let ids = Ids {
        batch: call.id,
        changeset: None,
    };
    let charge = reply.charge;
    let (content_type, body) = batch::write(ids, &[part_reply(reply, step.content_id)]);
    Ok(multipart(&content_type, body).costing(charge))
}

async fn change_all(call: &Call<'_>, steps: &[Step<'_>]) -> Result<(Vec<PartReply>, Charge)> {
    let mut changes = Vec::with_capacity(steps.len());
    for (position, step) in steps.iter().enumerate() {
        let change = read_change(call.service, &step.head, step.operation.clone(), step.body);
        let change = change.map_err(|refusal| refusal.at(position))?;
        let allowed = call.grant.check(change.action());
        allowed.map_err(|refusal| refusal.at(position))?;
        changes.push(change);
    }
    check_group(call.service.mode, &changes)?;
    let (stored, charge) = apply_all(call.service, call.head.account, changes.into()).await?;
    let replies = steps.iter().zip(&stored);
    let replies: Result<_> = replies
        .map(|(step, (change, item))| {
            let reply = changed(&step.head, change, item.as_ref())?;
            Ok(part_reply(reply, step.content_id))
        })
        .collect();
    Ok((replies?, charge))
}

/// All changes must be of one partition of one table, and each of another entity.
fn check_group(mode: Mode, changes: &[Change]) -> Result<()> {
    let Some(first) = changes.first().map(|change| &change.entity) else {
        return Ok(());
    };
    let mut seen = HashSet::new();
    for (position, change) in changes.iter().enumerate() {
        let entity = &change.entity;
        if !tables::same_name(mode, &entity.table, &first.table)
            || entity.partition_key != first.partition_key
        {
            let code = Code::CommandsInBatchActOnDifferentPartitions;
            let refusal = code.because("on one table and one PartitionKey");
            return Err(refusal.at(position));
        }
        if !seen.insert(&entity.row_key) {
            let message = format!(
                "A command with RowKey '{}' is already present in the batch. An entity can appear \
                 only once in a batch.",
                entity.row_key
            );
            return Err(ServiceError::new(Code::InvalidDuplicateRow, message).at(position));
        }
    }
    Ok(())
}

type Applied = Vec<(Change, Option<Item>)>;

async fn apply_all(
    service: &Service,
    account: &str,
    changes: Arc<[Change]>,
) -> Result<(Applied, Charge)> {
    let Some(first) = changes.first() else {
        return Ok((Vec::new(), Charge::default()));
    };
    let name: Arc<ContainerName> = Arc::new(tables::container(
        service.mode,
        account,
        &first.entity.table,
    )?);
    let locators: Vec<Locator> = changes
        .iter()
        .map(|change| model::locator(&change.entity.partition_key, &change.entity.row_key))
        .collect();
    let items: Vec<_> = locators.iter().map(|locator| (&*name, locator)).collect();
    let limits = service.limits();
    let outcome = service.store.run(&items, |transaction| {
        let (name, changes) = (Arc::clone(&name), Arc::clone(&changes));
        Box::pin(async move {
            let container = transaction.container(&name).await;
            let container =
                container.map_err(|error| Failure::from(error).map(|refusal| refusal.at(0)))?;
            let mut stored = Vec::with_capacity(changes.len());
            for (position, change) in changes.iter().enumerate() {
                let applied = change.apply(transaction, &container, limits).await;
                stored.push(applied.map_err(|failure| {
                    let charge = transaction.meter().charge();
                    failure.map(|refusal| refusal.at(position).costing(charge))
                })?);
            }
            Ok(stored)
        })
    });
    let outcome = outcome
        .await
        .map_err(|failure: Failure| ServiceError::from(failure))?;
    let applied = changes.iter().cloned().zip(outcome.value).collect();
    Ok((applied, outcome.meter.charge()))
}

/// The headers of an answer inside a batch, as the service has them.
const PART_HEADERS: [&str; 7] = [
    "Content-Type",
    "ETag",
    "Location",
    "DataServiceId",
    "Preference-Applied",
    "x-ms-error-code",
    "x-ms-retry-after-ms",
];

fn part_reply(reply: Reply, content_id: Option<&str>) -> PartReply {
    let mut headers = vec![("DataServiceVersion", "3.0;".to_owned())];
    for name in PART_HEADERS {
        let value = reply
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            headers.push((name, value.to_owned()));
        }
    }
    PartReply {
        status: reply.status,
        headers,
        body: reply.body.into(),
        content_id: content_id.map(str::to_owned),
    }
}
