//! Indexes by whose dates documents go: a round every minute removes those whose time has come, by
//! the index itself, so that a change of the index counts at once.

pub(crate) mod walk;

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, DateTime};
use bytes::Bytes;
use tessera_core::Error as CoreError;
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
    for (spec, id, seconds) in expiring {
        loop {
            let step = Step {
                namespace: namespace.clone(),
                spec: Arc::clone(&spec),
                index: id,
                seconds,
            };
            let count = step.run(data).await?;
            removed += count;
            if count == 0 {
                break;
            }
        }
    }
    Ok(removed)
}

/// One transaction of the removal.
struct Step {
    namespace: Namespace,
    spec: Arc<IndexSpec>,
    index: IndexId,
    seconds: i64,
}

impl Step {
    async fn run(self, data: &Data) -> Result<u64> {
        let step = Arc::new(self);
        let handle = data.clone();
        let outcome = data.store.run(&[], move |transaction| {
            let (step, data) = (Arc::clone(&step), handle.clone());
            Box::pin(async move { step.remove(&data, transaction).await })
        });
        Ok(outcome.await?.value)
    }

    async fn remove(
        &self,
        data: &Data,
        transaction: &mut tessera_core::Transaction,
    ) -> Result<u64> {
        let Some(target) = Target::find(data, transaction, &self.namespace).await? else {
            return Ok(0);
        };
        let now_ms = i64::try_from(transaction.now_ms()).unwrap_or(i64::MAX);
        let before_ms = now_ms.saturating_sub(self.seconds.saturating_mul(1_000));
        let span = self.span(before_ms);
        let request = PageRequest {
            max_items: STEP,
            ..PageRequest::default()
        };
        let page = match transaction
            .scan_index(&target.container, &span, &request)
            .await
        {
            Err(CoreError::NotFound(_)) => return Ok(0),
            page => page?,
        };
        let mut locators: Vec<Locator> = page.hits.into_iter().map(|hit| hit.locator).collect();
        locators.sort();
        locators.dedup();
        let mut removed = 0;
        for item in transaction.read_many(&target.container, &locators).await? {
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
