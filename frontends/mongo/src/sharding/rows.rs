//! Documents that the server itself keeps in collections of the database `config`, by their `_id`.

use std::sync::Arc;

use bson::{Bson, Document};
use tessera_core::definition::NewContainer;
use tessera_core::item::NewItem;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::{Container, Error as CoreError, Transaction};
use tessera_mongo_language::error::bad_value;

use crate::collection::{Collection, Namespace};
use crate::failure::{Failure, Result};
use crate::service::Service;

/// Stores a document in place of the one with the same `_id`.
pub(crate) async fn put(service: &Service, namespace: &Namespace, row: &Document) -> Result<()> {
    create_if_missing(service, namespace).await?;
    let id = row
        .get("_id")
        .ok_or_else(|| bad_value("the document has no _id"))?;
    let body = crate::batch::encode(row)?;
    let stored = service.store.run(&[], |transaction| {
        let (name, id, body) = (namespace.container.clone(), id.clone(), body.clone());
        Box::pin(async move {
            let container = transaction.container(&name).await?;
            let collection = Collection::decode(&container.definition.schema)?;
            let item = NewItem::new(collection.locate_id(&id), body);
            transaction.upsert(&container, item).await?;
            Ok::<_, Failure>(())
        })
    });
    stored.await.map(|_| ())
}

/// The document with this `_id`.
pub(crate) async fn get(
    service: &Service,
    namespace: &Namespace,
    id: &Bson,
) -> Result<Option<Document>> {
    let mut transaction = service.store.begin().await?;
    let Some(container) = find(&mut transaction, namespace).await? else {
        return Ok(None);
    };
    let collection = Collection::decode(&container.definition.schema)?;
    let item = transaction
        .read(&container, &collection.locate_id(id))
        .await?;
    let row = item.map(|item| Document::from_reader(item.body.as_ref()));
    Ok(row.transpose()?)
}

/// All documents, by `_id`.
pub(crate) async fn all(service: &Service, namespace: &Namespace) -> Result<Vec<Document>> {
    let mut transaction = service.store.begin().await?;
    let mut rows = Vec::new();
    let Some(container) = find(&mut transaction, namespace).await? else {
        return Ok(rows);
    };
    let mut page = PageRequest::default();
    loop {
        let found = transaction.scan(&container, &Span::All, &page).await?;
        for item in &found.items {
            rows.push(Document::from_reader(item.body.as_ref())?);
        }
        page.continuation = found.continuation;
        if page.continuation.is_none() {
            return Ok(rows);
        }
    }
}

async fn find(
    transaction: &mut Transaction,
    namespace: &Namespace,
) -> Result<Option<Arc<Container>>> {
    match transaction.container(&namespace.container).await {
        Ok(container) => Ok(Some(container)),
        Err(CoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn create_if_missing(service: &Service, namespace: &Namespace) -> Result<()> {
    let new = NewContainer {
        schema: Collection::new(Document::new())?.encode()?,
        ..NewContainer::default()
    };
    let mut transaction = service.store.begin().await?;
    if find(&mut transaction, namespace).await?.is_some() {
        return Ok(());
    }
    match service
        .store
        .create_container(&namespace.container, &new)
        .await
    {
        Ok(_) | Err(CoreError::AlreadyExists(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
