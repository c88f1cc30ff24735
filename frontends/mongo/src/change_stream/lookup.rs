//! The document that a change concerns, as it is when the event is read.

use bson::{Bson, Document};
use tessera_core::feed::policy::FeedScope;
use tessera_core::feed::reader::{Change, FeedItem};
use tessera_core::locator::Locator;

use crate::aggregate::environment::Environment;
use crate::execute::decode;
use crate::failure::Result;

/// The document as it is now; null if it is not there any more.
pub(super) async fn current(environment: &Environment, item: &FeedItem) -> Result<Bson> {
    let Change::Item(record) = &item.change else {
        return Ok(Bson::Null);
    };
    let body = read(environment, item, &record.locator).await?;
    Ok(match body {
        Some(document) => Bson::Document(document),
        None => Bson::Null,
    })
}

async fn read(
    environment: &Environment,
    item: &FeedItem,
    locator: &Locator,
) -> Result<Option<Document>> {
    let store = &environment.data.store;
    let scope = FeedScope::Container(item.term.name.clone());
    // Another collection of that name is not the one that changed.
    match store.feed_of(&scope).await {
        Ok(Some(feed)) if feed == item.feed => {}
        Ok(_) | Err(tessera_core::Error::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut transaction = store.begin().await?;
    let container = match transaction.container(&item.term.name).await {
        Err(tessera_core::Error::NotFound(_)) => return Ok(None),
        container => container?,
    };
    let found = transaction.read(&container, locator).await?;
    environment.note(transaction.meter().clone());
    found.map(|item| decode(&item.body)).transpose()
}
