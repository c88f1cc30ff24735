//! Commands on plans: index filters, and clearing the plan cache, which is empty because each query
//! is planned anew.

use bson::{Bson, Document, RawBsonRef, doc};
use tessera_mongo_language::collation::Collation;
use tessera_mongo_language::error::bad_value;

use crate::access::{Access, Action};
use crate::collection::{Collection, Namespace};
use crate::command::Command;
use crate::commands::asked;
use crate::execute::query::Query;
use crate::failure::Result;
use crate::fields::type_name;
use crate::plan::filters::IndexFilter;
use crate::reply::Reply;
use crate::request::Request;
use crate::service::Service;
use crate::write::target::{Target, on_view};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        "planCacheClear",
        "Clears the plan cache of a collection.",
        Access::Collection(&[Action::PlanCacheWrite]),
        |service, _, request| Box::pin(clear(service, request)),
    ),
    Command::new(
        "planCacheClearFilters",
        "Removes index filters of a query shape, or all.",
        Access::Collection(&[Action::PlanCacheIndexFilter]),
        |service, _, request| Box::pin(clear_filters(service, request)),
    ),
    Command::new(
        "planCacheListFilters",
        "Lists index filters.",
        Access::Collection(&[Action::PlanCacheIndexFilter]),
        |service, _, request| Box::pin(list_filters(service, request)),
    ),
    Command::new(
        "planCacheSetFilter",
        "Sets the index filter of a query shape.",
        Access::Collection(&[Action::PlanCacheIndexFilter]),
        |service, _, request| Box::pin(set_filter(service, request)),
    ),
];

async fn clear(service: &Service, request: &Request<'_>) -> Result<Reply> {
    if let Some(target) = target(service, request).await? {
        query(service, request, &target.collection)?;
    }
    Ok(Reply::ok())
}

async fn clear_filters(service: &Service, request: &Request<'_>) -> Result<Reply> {
    if let Some(target) = target(service, request).await? {
        let query = query(service, request, &target.collection)?;
        target.collection.index_filters.clear(query.as_ref());
    }
    Ok(Reply::ok())
}

async fn list_filters(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let target = target(service, request).await?;
    let filters = target.map(|target| target.collection.index_filters.list());
    Ok(doc! { "filters": filters.unwrap_or_default() }.into())
}

async fn set_filter(service: &Service, request: &Request<'_>) -> Result<Reply> {
    let Some(target) = target(service, request).await? else {
        return Err(bad_value("no such collection").into());
    };
    let query = query(service, request, &target.collection)?;
    let query = query.ok_or_else(|| bad_value("required field query missing"))?;
    let filter = IndexFilter::new(&query, indexes(request)?);
    target.collection.index_filters.set(filter);
    Ok(Reply::ok())
}

async fn target(service: &Service, request: &Request<'_>) -> Result<Option<Target>> {
    let namespace = Namespace::new(request.database, request.collection()?)?;
    let mut transaction = service.store.begin().await?;
    let target = Target::find(&service.data, &mut transaction, &namespace).await?;
    match target {
        Some(target) if target.collection.view.is_some() => Err(on_view(&namespace)),
        target => Ok(target),
    }
}

/// The query whose shape is meant; none if the command names none.
fn query(
    service: &Service,
    request: &Request<'_>,
    collection: &Collection,
) -> Result<Option<Query>> {
    let Some(filter) = document(request, "query")? else {
        for name in ["sort", "projection", "collation"] {
            document(request, name)?;
        }
        return Ok(None);
    };
    let collation = match document(request, "collation")? {
        None => collection.collation.clone(),
        Some(empty) if empty.is_empty() => {
            return Err(bad_value("collation cannot be an empty document").into());
        }
        Some(collation) => Collation::parse(&collation)?,
    };
    let query = Query::by_filter(filter, asked::context(service, collation, None)?)?;
    let query = query.sorted(document(request, "sort")?.unwrap_or_default())?;
    let query = query.projected(document(request, "projection")?.unwrap_or_default())?;
    Ok(Some(query))
}

/// A field that is a document, or an array, which is one by its positions.
fn document(request: &Request<'_>, name: &str) -> Result<Option<Document>> {
    match request.body.get(name)? {
        None => Ok(None),
        Some(RawBsonRef::Document(found)) => Ok(Some(asked::owned(found)?)),
        Some(RawBsonRef::Array(found)) => {
            let mut document = Document::new();
            for (position, value) in found.into_iter().enumerate() {
                document.insert(position.to_string(), Bson::try_from(value?)?);
            }
            Ok(Some(document))
        }
        Some(other) => {
            let found = type_name(other.element_type());
            let message = format!("field {name} must be an object, not {found}");
            Err(bad_value(message).into())
        }
    }
}

fn indexes(request: &Request<'_>) -> Result<Vec<Bson>> {
    let wanted = "required field indexes must be an array of names and key patterns, at least one";
    let Some(RawBsonRef::Array(sent)) = request.body.get("indexes")? else {
        return Err(bad_value(wanted).into());
    };
    let mut indexes = Vec::new();
    for index in sent {
        match Bson::try_from(index?)? {
            Bson::Document(key) if key.is_empty() => {
                return Err(bad_value("an index cannot be an empty object").into());
            }
            index @ (Bson::Document(_) | Bson::String(_)) => {
                if !indexes.contains(&index) {
                    indexes.push(index);
                }
            }
            _ => return Err(bad_value(wanted).into()),
        }
    }
    if indexes.is_empty() {
        return Err(bad_value(wanted).into());
    }
    Ok(indexes)
}
