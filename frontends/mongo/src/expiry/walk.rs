//! Documents whose time no index knows: those of a clustered collection that go by the date in
//! their `_id`, and those that go by their last change, as an index on `_ts` asks for in Cosmos DB.
//!
//! They are found by looking at the documents. When they were last changed is remembered of the one
//! that goes first: until its time has come none can go, because later changes have later times.

use std::ops::Bound;
use std::sync::Arc;

use bson::{Bson, DateTime, RawBsonRef, RawDocument};
use dashmap::DashMap;
use tessera_core::Transaction;
use tessera_core::item::Item;
use tessera_core::key::StorageId;
use tessera_core::locator::Locator;
use tessera_core::reading::{PageRequest, Span};

use crate::collection::Collection;
use crate::data::Data;
use crate::failure::{Failure, Result};
use crate::write::target::Target;

/// The field by which Cosmos DB shows the last change of a document.
const CHANGED: &str = "_ts";

/// When the documents of a collection go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// So many seconds after the date in their `_id`.
    AfterId(i64),
    /// So many seconds after they were last changed.
    AfterChange(i64),
}

/// The last change of the document that goes first, of collections that were looked through.
#[derive(Default)]
pub(crate) struct Oldest(DashMap<StorageId, i64>);

/// The rules of a collection.
pub(super) fn rules(collection: &Collection) -> Vec<Rule> {
    let mut rules = Vec::new();
    if let Ok(seconds) = collection.options.get_i64("expireAfterSeconds") {
        rules.push(Rule::AfterId(seconds));
    }
    for index in &collection.indexes {
        let only = (index.fields.as_slice(), index.expire_after_seconds);
        if let ([field], Some(seconds)) = only
            && field.path == CHANGED
        {
            rules.push(Rule::AfterChange(seconds));
        }
    }
    rules
}

impl Rule {
    /// The moment up to which documents of it are gone.
    fn before_ms(self, now_ms: u64) -> i64 {
        let (Self::AfterId(seconds) | Self::AfterChange(seconds)) = self;
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        now_ms.saturating_sub(seconds.saturating_mul(1_000))
    }

    /// The moment that a document's time is counted from; none if it never goes.
    fn moment_ms(self, item: &Item) -> Option<i64> {
        let document = RawDocument::from_bytes(&item.body).ok()?;
        match self {
            Self::AfterId(_) => match document.get("_id").ok()?? {
                RawBsonRef::DateTime(date) => Some(date.timestamp_millis()),
                _ => None,
            },
            // One that has such a field of its own goes by the index, or not at all.
            Self::AfterChange(_) if document.get(CHANGED).ok()?.is_some() => None,
            Self::AfterChange(_) => i64::try_from(item.version / 1_000).ok(),
        }
    }

    fn is_due(self, item: &Item, before_ms: i64) -> bool {
        self.moment_ms(item).is_some_and(|at| at <= before_ms)
    }

    /// Where documents may lie whose time has come.
    fn span(self, collection: &Collection, before_ms: i64) -> Span {
        if !collection.is_ordered_by_id() || matches!(self, Self::AfterChange(_)) {
            return Span::All;
        }
        let place = |ms| collection.locate_id(&Bson::DateTime(DateTime::from_millis(ms)));
        let (first, last) = (place(i64::MIN), place(before_ms));
        Span::Rows {
            token: first.token,
            partition_key: first.partition_key,
            from: Bound::Included(first.row_key),
            to: Bound::Included(last.row_key),
        }
    }

    /// Removes the documents of a collection whose time has come; answers how many.
    pub(super) async fn apply(self, data: &Data, target: &Target) -> Result<u64> {
        let before_ms = self.before_ms(data.store.clock().now_ms());
        let oldest = &data.oldest_changes.0;
        let storage = target.container.storage();
        let is_by_change = matches!(self, Self::AfterChange(_));
        if is_by_change && oldest.get(&storage).is_some_and(|at| *at > before_ms) {
            return Ok(0);
        }
        // What is written from now on is newer than this.
        let mut first = i64::try_from(data.store.clock().now_ms()).unwrap_or(i64::MAX);
        let span = self.span(&target.collection, before_ms);
        let mut page = PageRequest::default();
        let mut removed = 0;
        loop {
            let mut transaction = data.store.begin().await?;
            let container = transaction.container(&target.namespace.container).await?;
            let found = transaction.scan(&container, &span, &page).await?;
            drop(transaction);
            let mut due = Vec::new();
            for item in &found.items {
                match self.moment_ms(item) {
                    Some(at) if at <= before_ms => due.push(item.locator.clone()),
                    Some(at) => first = first.min(at),
                    None => {}
                }
            }
            for due in due.chunks(super::STEP) {
                removed += self.remove(data, target, due).await?;
            }
            page.continuation = found.continuation;
            if page.continuation.is_none() {
                break;
            }
        }
        if is_by_change {
            oldest.insert(storage, first);
        }
        Ok(removed)
    }

    async fn remove(self, data: &Data, target: &Target, due: &[Locator]) -> Result<u64> {
        let asked = Arc::new((target.namespace.container.clone(), due.to_vec()));
        let run = data.store.run(&[], move |transaction: &mut Transaction| {
            let asked = Arc::clone(&asked);
            Box::pin(async move {
                let (name, due) = asked.as_ref();
                let container = transaction.container(name).await?;
                let before_ms = self.before_ms(transaction.now_ms());
                let mut removed = 0;
                for item in transaction.read_many(&container, due).await? {
                    // It may have been changed since it was found.
                    let item = item.filter(|item| self.is_due(item, before_ms));
                    if let Some(item) = item {
                        transaction.remove(&container, &item).await?;
                        removed += 1;
                    }
                }
                Ok::<_, Failure>(removed)
            })
        });
        Ok(run.await?.value)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use tessera_core::clock::Clock;

    use super::*;
    use crate::client::Client;
    use crate::expiry::remove_expired;

    /// Long enough after 1970 that dates may lie before.
    const BEGIN_MS: u64 = 1_700_000_000_000;

    fn date(ms: u64) -> Bson {
        Bson::DateTime(DateTime::from_millis(i64::try_from(ms).unwrap()))
    }

    async fn ids(client: &mut Client, collection: &str) -> Vec<Bson> {
        let found = client.find("test", collection, doc! {}).await;
        let ids = found.iter().map(|it| it.get("_id").unwrap().clone());
        ids.collect()
    }

    #[tokio::test]
    async fn an_index_on_the_last_change_expires_documents_by_it() {
        let clock = Clock::manual(BEGIN_MS);
        let mut client = Client::at(clock.clone()).await;
        for number in 0..5 {
            client
                .insert("test", "c", vec![doc! { "_id": number }])
                .await;
        }
        let own = vec![
            doc! { "_id": 8, "_ts": 3 },
            doc! { "_id": 9, "_ts": date(BEGIN_MS) },
        ];
        client.insert("test", "c", own).await;
        let index = doc! { "key": { "_ts": 1 }, "name": "_ts_1", "expireAfterSeconds": 10 };
        let create = doc! { "createIndexes": "c", "indexes": [index] };
        client.run("test", create).await;
        clock.advance(8_000);
        assert_eq!(remove_expired(&client.service.data).await.unwrap(), 0);
        let set = doc! { "q": { "_id": 3 }, "u": { "$set": { "a": 1 } } };
        client
            .run("test", doc! { "update": "c", "updates": [set] })
            .await;
        clock.advance(3_000);
        assert_eq!(remove_expired(&client.service.data).await.unwrap(), 5);
        assert_eq!(
            ids(&mut client, "c").await,
            [Bson::Int32(3), Bson::Int32(8)]
        );
        client.insert("test", "c", vec![doc! { "_id": 10 }]).await;
        clock.advance(8_000);
        assert_eq!(remove_expired(&client.service.data).await.unwrap(), 1);
        // A shorter time counts at once.
        let change = doc! { "keyPattern": { "_ts": 1 }, "expireAfterSeconds": 1 };
        client
            .run("test", doc! { "collMod": "c", "index": change })
            .await;
        assert_eq!(remove_expired(&client.service.data).await.unwrap(), 1);
        assert_eq!(ids(&mut client, "c").await, [Bson::Int32(8)]);
    }

    #[tokio::test]
    async fn a_clustered_collection_expires_documents_by_their_id() {
        let clock = Clock::manual(BEGIN_MS);
        let mut client = Client::at(clock.clone()).await;
        let clustered = doc! { "key": { "_id": 1 }, "unique": true };
        let create = doc! { "create": "c", "clusteredIndex": clustered, "expireAfterSeconds": 10 };
        client.run("test", create).await;
        let others: Vec<Document> = vec![
            doc! { "_id": 1 },
            doc! { "_id": "2001" },
            doc! { "_id": bson::oid::ObjectId::from_bytes([0; 12]) },
            doc! { "_id": null },
            doc! { "_id": { "a": date(0) } },
        ];
        client.insert("test", "c", others).await;
        for ms in [
            0,
            BEGIN_MS - 10_001,
            BEGIN_MS - 10_000,
            BEGIN_MS - 9_999,
            BEGIN_MS,
        ] {
            client
                .insert("test", "c", vec![doc! { "_id": date(ms) }])
                .await;
        }
        assert_eq!(remove_expired(&client.service.data).await.unwrap(), 3);
        clock.advance(9_999);
        assert_eq!(remove_expired(&client.service.data).await.unwrap(), 1);
        let off = doc! { "collMod": "c", "expireAfterSeconds": "off" };
        client.run("test", off).await;
        clock.advance(9_999);
        assert_eq!(remove_expired(&client.service.data).await.unwrap(), 0);
        assert_eq!(ids(&mut client, "c").await.len(), 6);
    }
}
