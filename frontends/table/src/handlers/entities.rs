//! Operations on entities.

use std::ops::Bound;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ETAG, LOCATION};
use tessera_core::item::Item;

use super::tables::with_preference;
use super::{Call, Service, answer};
use crate::address::EntityAddress;
use crate::auth::{self, Action, EntityName};
use crate::change::{Change, Condition, Kind, read_body};
use crate::continuation_header;
use crate::entity::{self, DateTime, EntityLink};
use crate::error::{Code, Result, ServiceError};
use crate::failure::Failure;
use crate::filter::{self, Bounds, KeyRange, Piece};
use crate::head::Head;
use crate::header_names;
use crate::model;
use crate::operation::Operation;
use crate::options::{self, Format, Prefer};
use crate::query::{EntityQuery, MAX_ENTITIES};
use crate::reply::Reply;
use crate::stored_entity::StoredEntity;
use crate::tables::{self, Mode};

/// `GET /table(PartitionKey='…',RowKey='…')`.
pub(super) async fn get(call: &Call<'_>, entity: &EntityAddress) -> Result<Reply> {
    call.allow(Action::ReadEntity(EntityName::of(entity)))?;
    let (service, head) = (call.service, call.head);
    let format = Format::of_answer(head)?;
    let container = tables::container(service.mode, head.account, &entity.table)?;
    let locator = model::locator(&entity.partition_key, &entity.row_key);
    let mut transaction = service.store.begin().await?;
    let container = transaction.container(&container).await?;
    let stored = transaction.read(&container, &locator).await?;
    let charge = transaction.meter().charge();
    let stored =
        stored.ok_or_else(|| ServiceError::from(Code::ResourceNotFound).costing(charge))?;
    let reply = single(head, (StatusCode::OK, format), &entity.table, &stored)?;
    Ok(reply.costing(charge))
}

/// The change of an operation.
pub(super) fn read_change(
    service: &Service,
    head: &Head<'_>,
    operation: Operation,
    body: &[u8],
) -> Result<Change> {
    let limits = service.limits();
    match operation {
        Operation::InsertEntity(table) => {
            let incoming = read_body(Format::of_body(head)?, body)?;
            Change::insert(table, incoming, limits)
        }
        Operation::UpdateEntity(entity, update) => {
            let condition = Condition::of(&head.headers)?;
            let incoming = read_body(Format::of_body(head)?, body)?;
            Change::update(entity, update, incoming, condition, limits)
        }
        Operation::DeleteEntity(entity) => {
            let condition = Condition::of(&head.headers)?;
            let condition = condition.ok_or(Code::MissingRequiredHeader)?;
            Ok(Change {
                entity,
                kind: Kind::Delete(condition),
            })
        }
        _ => Err(Code::InvalidInput.because("a batch changes entities only")),
    }
}

/// Inserts, updates or deletes one entity.
pub(super) async fn change(call: &Call<'_>, operation: Operation) -> Result<Reply> {
    let (service, head) = (call.service, call.head);
    let change = read_change(service, head, operation, &call.body)?;
    call.allow(change.action())?;
    let change = Arc::new(change);
    let EntityAddress {
        table,
        partition_key,
        row_key,
    } = &change.entity;
    let name = Arc::new(tables::container(service.mode, head.account, table)?);
    let locator = model::locator(partition_key, row_key);
    let limits = service.limits();
    let changed_items = [(&*name, &locator)];
    let outcome = service.store.run(&changed_items, |transaction| {
        let (name, change) = (Arc::clone(&name), Arc::clone(&change));
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            let applied = change.apply(transaction, &container, limits).await;
            applied.map_err(|failure| {
                let charge = transaction.meter().charge();
                failure.map(|refusal| refusal.costing(charge))
            })
        })
    });
    let outcome = outcome
        .await
        .map_err(|failure: Failure| ServiceError::from(failure))?;
    let reply = changed(head, &change, outcome.value.as_ref())?;
    Ok(reply.costing(outcome.meter.charge()))
}

/// The answer to a change.
pub(super) fn changed(head: &Head<'_>, change: &Change, stored: Option<&Item>) -> Result<Reply> {
    let Some(stored) = stored else {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    };
    let without_content = || {
        let etag = entity::etag(DateTime::from_version(stored.version));
        Reply::empty(StatusCode::NO_CONTENT).with(&ETAG, &etag)
    };
    if !matches!(change.kind, Kind::Insert(_)) {
        return Ok(without_content());
    }
    let prefer = Prefer::of(head);
    let location = entity_url(head, &change.entity);
    let reply = if prefer == Some(Prefer::ReturnNoContent) {
        without_content().with(&header_names::DATA_SERVICE_ID, &location)
    } else {
        let format = Format::of_answer(head)?;
        let created = (StatusCode::CREATED, format);
        single(head, created, &change.entity.table, stored)?
    };
    Ok(with_preference(reply.with(&LOCATION, &location), prefer))
}

/// One entity as an answer.
fn single(
    head: &Head<'_>,
    (status, format): (StatusCode, Format),
    table: &str,
    stored: &Item,
) -> Result<Reply> {
    let select = options::select(head)?;
    let stored = StoredEntity::of(stored).ok_or(Code::InternalError)?;
    let body = answer(head, format).entity(table, select.as_ref(), stored.view());
    let etag = entity::etag(stored.view().timestamp);
    Ok(Reply::new(status, format.content_type(false), body).with(&ETAG, &etag))
}

/// `GET /table()`.
pub(super) async fn query(call: &Call<'_>, table: &str) -> Result<Reply> {
    call.allow(Action::QueryEntities { table })?;
    let (service, head) = (call.service, call.head);
    let format = Format::of_answer(head)?;
    let select = options::select(head)?;
    let query = entity_query(call, table)?;
    let page = query.run(&service.store).await?;
    let entities: Option<Vec<StoredEntity<'_>>> = page.items.iter().map(StoredEntity::of).collect();
    let entities = entities.ok_or(Code::InternalError)?;
    let views = entities.iter().map(|entity| *entity.view());
    let body = answer(head, format).entities(table, select.as_ref(), views);
    let reply = Reply::new(StatusCode::OK, format.content_type(true), body);
    let mut reply = reply.holding(page.granted);
    if let Some(last) = page.continuation {
        for (name, key) in [
            (&header_names::NEXT_PARTITION_KEY, &last.partition_key),
            (&header_names::NEXT_ROW_KEY, &last.row_key),
        ] {
            let key = std::str::from_utf8(key).map_err(|_| Code::InternalError)?;
            let token = continuation_header::encode(key);
            reply = reply.with(name, &token);
        }
    }
    Ok(reply.costing(page.charge))
}

fn entity_query(call: &Call<'_>, table: &str) -> Result<EntityQuery> {
    let (service, head) = (call.service, call.head);
    let filter = filter::parse(head.query.get("$filter").unwrap_or_default())?;
    let limit = match service.mode {
        Mode::Storage => Some(MAX_ENTITIES),
        Mode::Cosmos => None,
    };
    let max_entities = options::top(head, limit)?.unwrap_or(MAX_ENTITIES);
    let allowed = call.grant.key_range().map(allowed_range);
    let allowed = allowed.unwrap_or_default();
    let pieces = filter::plan(filter.as_ref(), &[allowed]);
    let unsorted = service.mode == Mode::Cosmos && is_whole_table(&pieces);
    let (pieces, after) = match continuation_header::read_keys(head)? {
        None => (pieces, None),
        Some((partition_key, row_key)) if unsorted => {
            (pieces, Some(model::locator(&partition_key, &row_key)))
        }
        Some((partition_key, row_key)) => {
            // The first row key that can come behind this one.
            let next = format!("{row_key}\0");
            let rest = KeyRange {
                from: Some((&partition_key, Some(&next))),
                to: None,
            };
            (filter::plan(filter.as_ref(), &[allowed, rest]), None)
        }
    };
    Ok(EntityQuery {
        container: tables::container(service.mode, head.account, table)?,
        filter,
        pieces,
        max_entities,
        unsorted,
        after,
    })
}

fn is_whole_table(pieces: &[Piece]) -> bool {
    let unbounded = |bounds: &Bounds| {
        matches!(
            (&bounds.from, &bounds.to),
            (Bound::Unbounded, Bound::Unbounded)
        )
    };
    matches!(pieces, [Piece::Partitions(bounds)] if unbounded(bounds))
}

/// The keys that a signature allows.
fn allowed_range(range: &auth::KeyRange) -> KeyRange<'_> {
    KeyRange {
        from: range_end(&range.start),
        to: range_end(&range.end),
    }
}

fn range_end(
    (partition_key, row_key): &(Option<String>, Option<String>),
) -> Option<(&str, Option<&str>)> {
    Some((partition_key.as_deref()?, row_key.as_deref()))
}

fn entity_url(head: &Head<'_>, entity: &EntityAddress) -> String {
    let link = EntityLink {
        table: &entity.table,
        partition_key: &entity.partition_key,
        row_key: &entity.row_key,
    };
    format!("{}/{link}", head.origin())
}
