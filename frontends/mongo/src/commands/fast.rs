//! The fast path of the most frequent query: one document by its `_id`. It decodes only what it
//! needs, and sends documents as their stored bytes.

use bson::{Bson, RawBsonRef, RawDocument};
use tessera_core::Error as CoreError;
use tessera_core::locator::Locator;
use tessera_core::name::ContainerName;

use crate::API;
use crate::batch::{Batch, Turn};
use crate::collection::Collection;
use crate::failure::Result;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;
use crate::wire::document::elements;

/// Answers a `find` that asks for one document by its `_id` and for nothing else; none if it is not
/// such a one.
pub(crate) async fn find(
    service: &Service,
    session: &mut Session,
    request: &Request<'_>,
) -> Result<Option<Reply>> {
    let Some((name, id)) = simple_find(request)? else {
        return Ok(None);
    };
    let container = ContainerName::new(API, request.database, name);
    let mut transaction = service.store.begin().await?;
    let container = match transaction.container(&container).await {
        Err(CoreError::NotFound(_)) => return Ok(None),
        container => container?,
    };
    let collection = service.data.collections.of(&container.definition)?;
    let Some(locator) = locate(&collection, &id) else {
        return Ok(None);
    };
    let item = transaction.read(&container, &locator).await?;
    session.spent(transaction.meter());
    let body = item.as_ref().map(|item| &item.body);
    let mut batch = Batch::with_room(Turn::First, body.map_or(0, |body| body.len()));
    if let Some(body) = body {
        batch.push_raw(body);
    }
    let namespace = [request.database, ".", name].concat();
    Ok(Some(batch.reply(0, &namespace)?.into()))
}

/// The collection and the `_id` of a `find` by that alone.
fn simple_find<'a>(request: &Request<'a>) -> Result<Option<(&'a str, Bson)>> {
    if request.in_transaction() || request.snapshot().is_some() {
        return Ok(None);
    }
    let RawBsonRef::String(name) = request.argument() else {
        return Ok(None);
    };
    if name.is_empty() || name.contains(['$', '\0']) {
        return Ok(None);
    }
    let mut id = None;
    for element in request.arguments().filter(|element| !element.is_generic) {
        match (element.key, element.value) {
            ("filter", RawBsonRef::Document(filter)) => id = only_id(filter)?,
            ("limit" | "batchSize", RawBsonRef::Int32(1..) | RawBsonRef::Int64(1..))
            | ("singleBatch", RawBsonRef::Boolean(_)) => {}
            _ => return Ok(None),
        }
    }
    Ok(id.map(|id| (name, id)))
}

/// The value of a filter that is nothing but `{ _id: value }`.
pub(crate) fn only_id(filter: &RawDocument) -> Result<Option<Bson>> {
    let mut elements = elements(filter);
    let (Some(("_id", value)), None) = (elements.next(), elements.next()) else {
        return Ok(None);
    };
    let value = match value {
        // These may be operators or patterns, or are compared in other ways.
        RawBsonRef::Document(_)
        | RawBsonRef::Array(_)
        | RawBsonRef::RegularExpression(_)
        | RawBsonRef::Undefined
        | RawBsonRef::MinKey
        | RawBsonRef::MaxKey
        | RawBsonRef::Null => return Ok(None),
        value => value,
    };
    Ok(Some(Bson::try_from(value)?))
}

/// Where the document lies, if that follows from the `_id` alone.
pub(crate) fn locate(collection: &Collection, id: &Bson) -> Option<Locator> {
    let is_plain = collection.view.is_none() && collection.is_ordered_by_id();
    is_plain.then(|| {
        collection.id_index.accesses.count();
        collection.locate_id(id)
    })
}
