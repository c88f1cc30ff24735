//! Indexes that are to become unique (`prepareUnique`): existing duplicates stay, new ones are
//! refused.

use std::collections::HashSet;
use std::ops::Bound;

use bson::{Bson, Document, doc};
use tessera_core::Transaction;
use tessera_core::key::IndexId;
use tessera_core::locator::Locator;
use tessera_core::reading::{IndexHit, IndexSpan, PageRequest};

use crate::execute::decode;
use crate::failure::Result;
use crate::index::{IndexSpec, keys};
use crate::write::duplicate;
use crate::write::target::Target;

/// Index entries that are looked at in one step.
const STEP: usize = 1_000;
/// The most values that are told to be there more than once.
const MAX_VIOLATIONS: usize = 1_000;

/// Refuses a document that brings a value which another one has. `own` is where it will lie, and
/// `before` what it was.
pub(crate) async fn check(
    transaction: &mut Transaction,
    target: &Target,
    (own, before): (&Locator, Option<&Document>),
    after: &Document,
) -> Result<()> {
    let live = target.collection.live_indexes(&target.container.definition);
    for (spec, index, _) in live.filter(|(spec, ..)| spec.prepare_unique) {
        let held = match before {
            Some(before) => keys::of(spec, before)?.entries,
            None => Vec::new(),
        };
        let held: HashSet<_> = held.into_iter().map(|(value, _)| value).collect();
        for (value, _) in keys::of(spec, after)?.entries {
            if held.contains(&value) {
                continue;
            }
            // Whoever brings the same value at the same time would not see this one.
            transaction
                .contend(&target.container, index, &value)
                .await?;
            if is_held(transaction, target, (index, &value), own).await? {
                let value = keys::key_of_value(spec, after, &value).unwrap_or_default();
                return Err(duplicate::of_value(&target.namespace, spec, &value));
            }
        }
    }
    Ok(())
}

async fn is_held(
    transaction: &mut Transaction,
    target: &Target,
    (index, value): (IndexId, &[u8]),
    own: &Locator,
) -> Result<bool> {
    let span = IndexSpan {
        index,
        from: Bound::Included(value.to_vec().into()),
        to: Bound::Included(value.to_vec().into()),
    };
    let request = PageRequest {
        max_items: 2,
        ..PageRequest::default()
    };
    let page = transaction
        .scan_index(&target.container, &span, &request)
        .await?;
    let others = page.hits.iter().filter(|hit| hit.locator != *own);
    let others: Vec<Locator> = others.map(|hit| hit.locator.clone()).collect();
    let read = transaction.read_many(&target.container, &others).await?;
    Ok(read.into_iter().any(|item| item.is_some()))
}

/// The documents that keep an index from being unique: `[{ ids: […] }, …]`, one for each value.
pub(crate) async fn violations(
    transaction: &mut Transaction,
    target: &Target,
    spec: &IndexSpec,
) -> Result<Vec<Bson>> {
    let mut live = target.collection.live_indexes(&target.container.definition);
    let Some((_, index, _)) = live.find(|(live, ..)| live.name == spec.name) else {
        return Ok(Vec::new());
    };
    let span = IndexSpan {
        index,
        from: Bound::Unbounded,
        to: Bound::Unbounded,
    };
    let (mut found, mut same) = (Vec::new(), Vec::<IndexHit>::new());
    let mut continuation = None;
    loop {
        let request = PageRequest {
            max_items: STEP,
            continuation: continuation.take(),
            ..PageRequest::default()
        };
        let page = transaction
            .scan_index(&target.container, &span, &request)
            .await?;
        for hit in page.hits {
            if same.first().is_some_and(|first| first.value != hit.value) {
                found.extend(violation(transaction, target, &same).await?);
                same.clear();
            }
            same.push(hit);
        }
        continuation = page.continuation;
        if continuation.is_none() || found.len() >= MAX_VIOLATIONS {
            found.extend(violation(transaction, target, &same).await?);
            return Ok(found);
        }
    }
}

/// The documents of one value, if there are several.
async fn violation(
    transaction: &mut Transaction,
    target: &Target,
    same: &[IndexHit],
) -> Result<Option<Bson>> {
    if same.len() < 2 {
        return Ok(None);
    }
    let locators: Vec<Locator> = same.iter().map(|hit| hit.locator.clone()).collect();
    let items = transaction.read_many(&target.container, &locators).await?;
    let mut ids = Vec::new();
    for item in items.into_iter().flatten() {
        ids.extend(decode(&item.body)?.remove("_id"));
    }
    Ok((ids.len() > 1).then(|| Bson::Document(doc! { "ids": ids })))
}
