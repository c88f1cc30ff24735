//! TTL indexes: a round every minute removes expired documents, by the index itself, so that a
//! change of the index counts at once.

pub(crate) mod walk;

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, DateTime};
use bytes::Bytes;
use tessera_core::Error as CoreError;
use tessera_core::continuation::Continuation;
use tessera_core::definition::{Definition, IndexState};
use tessera_core::key::IndexId;
use tessera_core::locator::Locator;
use tessera_core::reading::{IndexSpan, PageRequest};
use tessera_mongo_language::path::{Path, values_at};

use crate::API;
use crate::collection::{Collection, Namespace};
use crate::data::Data;
use crate::execute::decode;
use crate::failure::{Failure, Result};
use crate::index::{IndexSpec, keys};
use crate::write::target::Target;

/// How often expired documents are looked for.
pub(crate) const ROUND: Duration = Duration::from_secs(60);
/// Documents removed in one transaction.
const STEP: usize = 100;
/// After which time without a word another server does this for all.
const TERM: Duration = Duration::from_secs(150);

/// Looks for expired documents for as long as the data is there.
pub(crate) async fn run(data: Data) {
    loop {
        tokio::time::sleep(ROUND).await;
        let removed = match data.store.leads("mongo expiry", TERM).await {
            Ok(true) => remove_expired(&data).await.map(drop),
            Ok(false) => Ok(()),
            Err(error) => Err(error.into()),
        };
        if let Err(failure) = removed {
            let cause = &failure.error.message;
            tracing::warn!(%cause, "expired documents could not be removed");
        }
    }
}

/// Removes every document whose time has come; answers how many.
pub(crate) async fn remove_expired(data: &Data) -> Result<u64> {
    let (mut removed, mut after) = (0, None);
    loop {
        let page = data.store.next_containers(API, after.as_ref()).await?;
        let Some((last, _)) = page.last() else {
            return Ok(removed);
        };
        after = Some(last.clone());
        for (name, definition) in page {
            // Most collections have no such rule, and then nothing more is read of them.
            if !definition.is_ok_and(|definition| expires(&definition)) {
                continue;
            }
            let namespace = Namespace::unchecked(&name.database, &name.container);
            match remove_from(data, &namespace).await {
                Ok(count) => removed += count,
                // One collection that cannot be cleared keeps the others from nothing.
                Err(failure) => {
                    let cause = &failure.error.message;
                    tracing::warn!(%namespace, %cause, "expired documents could not be removed");
                }
            }
        }
    }
}

/// Whether documents of a collection go by themselves.
fn expires(definition: &Definition) -> bool {
    Collection::decode(&definition.schema).is_ok_and(|collection| {
        let mut indexes = collection.indexes.iter();
        indexes.any(|spec| spec.expire_after_seconds.is_some())
            || !walk::rules(&collection).is_empty()
    })
}

async fn remove_from(data: &Data, namespace: &Namespace) -> Result<u64> {
    let mut transaction = data.store.begin().await?;
    let Some(target) = Target::readable(data, &mut transaction, namespace).await? else {
        return Ok(0);
    };
    let mut removed = 0;
    let live = target.collection.live_indexes(&target.container.definition);
    let expiring: Vec<(Arc<IndexSpec>, IndexId, i64)> = live
        .filter(|(_, _, state)| *state == IndexState::Ready)
        .filter_map(|(spec, id, _)| Some((Arc::clone(spec), id, spec.expire_after_seconds?)))
        .collect();
    for rule in walk::rules(&target.collection) {
        removed += rule.apply(data, &target).await?;
    }
    for (spec, index, seconds) in expiring {
        let removal = Removal {
            namespace: namespace.clone(),
            spec,
            index,
            seconds,
        };
        removed += Arc::new(removal).run(data).await?;
    }
    Ok(removed)
}

/// What one index says of one collection.
struct Removal {
    namespace: Namespace,
    spec: Arc<IndexSpec>,
    index: IndexId,
    seconds: i64,
}

impl Removal {
    /// Goes through the index page by page. What cannot be removed stays and is passed by.
    async fn run(self: Arc<Self>, data: &Data) -> Result<u64> {
        let mut request = PageRequest {
            max_items: STEP,
            ..PageRequest::default()
        };
        let mut removed = 0;
        loop {
            let (found, next) = self.found(data, &request).await?;
            removed += self.remove_found(data, &found).await;
            match next {
                Some(_) => request.continuation = next,
                None => return Ok(removed),
            }
        }
    }

    /// The next documents whose time may have come, and where to go on.
    async fn found(
        &self,
        data: &Data,
        request: &PageRequest,
    ) -> Result<(Vec<Locator>, Option<Continuation>)> {
        let mut transaction = data.store.begin().await?;
        let target = Target::find(data, &mut transaction, &self.namespace).await?;
        let Some(target) = target else {
            return Ok((Vec::new(), None));
        };
        let span = self.span(self.before_ms(&transaction));
        let container = &target.container;
        let page = match transaction.scan_index(container, &span, request).await {
            // The index or the whole collection is another one by now.
            Err(CoreError::NotFound(_) | CoreError::InvalidContinuation(_)) => {
                return Ok((Vec::new(), None));
            }
            page => page?,
        };
        let mut locators: Vec<Locator> = page.hits.into_iter().map(|hit| hit.locator).collect();
        locators.sort();
        locators.dedup();
        Ok((locators, page.continuation))
    }

    /// Removes them together, or one by one where one stands in the way of the others.
    async fn remove_found(self: &Arc<Self>, data: &Data, found: &[Locator]) -> u64 {
        if found.is_empty() {
            return 0;
        }
        if let Ok(removed) = self.remove_together(data, found).await {
            return removed;
        }
        let mut removed = 0;
        for locator in found {
            let alone = std::slice::from_ref(locator);
            match self.remove_together(data, alone).await {
                Ok(count) => removed += count,
                Err(failure) => {
                    let (namespace, cause) = (&self.namespace, &failure.error.message);
                    tracing::warn!(
                        %namespace, ?locator, %cause,
                        "a document that expired cannot be removed, and stays"
                    );
                }
            }
        }
        removed
    }

    async fn remove_together(self: &Arc<Self>, data: &Data, locators: &[Locator]) -> Result<u64> {
        let asked = Arc::new((Arc::clone(self), data.clone(), locators.to_vec()));
        let outcome = data.store.run(&[], move |transaction| {
            let asked = Arc::clone(&asked);
            Box::pin(async move {
                let (removal, data, locators) = asked.as_ref();
                removal.remove(data, transaction, locators).await
            })
        });
        Ok(outcome.await?.value)
    }

    fn before_ms(&self, transaction: &tessera_core::Transaction) -> i64 {
        let now_ms = i64::try_from(transaction.now_ms()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(self.seconds.saturating_mul(1_000))
    }

    async fn remove(
        &self,
        data: &Data,
        transaction: &mut tessera_core::Transaction,
        locators: &[Locator],
    ) -> Result<u64> {
        let Some(target) = Target::find(data, transaction, &self.namespace).await? else {
            return Ok(0);
        };
        let before_ms = self.before_ms(transaction);
        let mut removed = 0;
        for item in transaction.read_many(&target.container, locators).await? {
            let Some(item) = item else {
                continue;
            };
            let document = decode(&item.body)?;
            if expires_at(&self.spec, &document).is_some_and(|at| at <= before_ms) {
                transaction.remove(&target.container, &item).await?;
                removed += 1;
            }
        }
        Ok::<_, Failure>(removed)
    }

    /// The entries with dates up to a moment.
    fn span(&self, before_ms: i64) -> IndexSpan {
        let encoded = |ms: i64| {
            let date = Bson::DateTime(DateTime::from_millis(ms));
            let mut out = vec![keys::VALUE];
            let order = self.spec.fields.first().map(|field| field.order);
            let order = order.unwrap_or(crate::index::Order::Ascending);
            keys::put_field(&mut out, &date, order, &self.spec.collation);
            Bytes::from(out)
        };
        let (first, last) = (encoded(i64::MIN), encoded(before_ms));
        let (from, to) = if first <= last {
            (first, last)
        } else {
            (last, first)
        };
        IndexSpan {
            index: self.index,
            from: Bound::Included(from),
            to: Bound::Included(to),
        }
    }
}

/// The earliest date in the index's field.
fn expires_at(spec: &IndexSpec, document: &bson::Document) -> Option<i64> {
    let path = Path::parse(&spec.fields.first()?.path);
    let dates = values_at(document, &path).into_iter().flatten();
    let date = |value: &Bson| match value {
        Bson::DateTime(date) => Some(date.timestamp_millis()),
        Bson::Array(values) => values
            .iter()
            .filter_map(|value| match value {
                Bson::DateTime(date) => Some(date.timestamp_millis()),
                _ => None,
            })
            .min(),
        _ => None,
    };
    dates.filter_map(date).min()
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use tessera_core::clock::Clock;
    use tessera_core::engine::{KeyRange, Scan};
    use tessera_core::key;
    use tessera_core::write_set::WriteSet;

    use super::*;
    use crate::client::Client;

    /// Makes every second stored document of a collection something that is none.
    async fn poison(client: &Client, collection: &str, junk: &[u8]) -> usize {
        let store = &client.service.data.store;
        let name = Namespace::unchecked("test", collection).container;
        let mut transaction = store.begin().await.unwrap();
        let storage = transaction
            .container(&name)
            .await
            .unwrap()
            .definition
            .storage;
        let items: KeyRange = key::items(storage);
        let snapshot = store.engine().snapshot().await.unwrap();
        let page = snapshot.scan(&Scan::new(items)).await.unwrap();
        let mut writes = WriteSet::default();
        let chosen: Vec<_> = page.entries.into_iter().step_by(2).collect();
        for (key, _) in &chosen {
            writes.put(key.clone(), Bytes::copy_from_slice(junk));
        }
        snapshot.commit(writes).await.unwrap();
        chosen.len()
    }

    #[tokio::test]
    async fn documents_that_cannot_be_read_keep_none_from_going() {
        let header = [0; 16];
        let junks = [
            vec![],
            vec![1; 3],
            vec![1; 15],
            header.to_vec(),
            [&header[..], b"\x05\0\0\0"].concat(),
            [&header[..], b"\xff\xff\xff\xff\0"].concat(),
            [&header[..], b"junk"].concat(),
            [&header[..], b"\x0c\0\0\0\x10a\0\0\0\0\0"].concat(),
            [&header[..], &[0xff; 40]].concat(),
            [&header[..], b"\x08\0\0\0\x99a\0\0"].concat(),
        ];
        for junk in junks {
            let clock = Clock::manual(1_700_000_000_000);
            let mut client = Client::at(clock.clone()).await;
            let index = doc! { "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 1 };
            let create = doc! { "createIndexes": "c", "indexes": [index] };
            client.run("test", create).await;
            // More than one step of them, with others of the collection among them.
            let at = DateTime::from_millis(1_700_000_000_000);
            let documents = (0..350).map(|number| doc! { "_id": number, "at": at });
            client.insert("test", "c", documents.collect()).await;
            let poisoned = poison(&client, "c", &junk).await;
            clock.advance(5_000);
            let removed = remove_expired(&client.service.data).await.unwrap();
            assert_eq!(removed, 350 - poisoned as u64, "{junk:?}");
            assert_eq!(remove_expired(&client.service.data).await.unwrap(), 0);
        }
    }
}
