//! Storing and removing single documents within a transaction, as the collection's options require.

use bson::{Document, RawDocument};
use tessera_core::Transaction;
use tessera_core::feed::writing::ChangeHint;
use tessera_core::item::{Item, NewItem};
use tessera_core::locator::Locator;
use tessera_core::reading::{PageRequest, Span};
use tessera_mongo_language::error::{Code, Error};
use tessera_mongo_language::update::Manner;

use crate::change_stream::payload;
use crate::data::Data;
use crate::execute::decode;
use crate::failure::{Failure, Result};
use crate::write::document::NewDocument;
use crate::write::target::Target;
use crate::write::{duplicate, prepared, validate};

/// Documents of a capped collection that are looked at in one step to make room.
const EVICTION_STEP: usize = 64;

/// Stores a document that is new.
pub(crate) async fn insert(
    data: &Data,
    transaction: &mut Transaction,
    target: &Target,
    new: &NewDocument,
    bypass_validation: bool,
) -> Result<Item> {
    let collection = &target.collection;
    if collection.validator.is_some() && !bypass_validation {
        validate::check(collection, &decode(&new.body)?, None)?;
    }
    let sequence = data.store.clock().next_version(0);
    let body = RawDocument::from_bytes(&new.body)?;
    let locator = collection.locate(&new.id, body, sequence)?;
    if collection.is_clustered() {
        check_record_id(data, &locator)?;
    }
    if collection.prepares_unique() {
        let document = decode(&new.body)?;
        prepared::check(transaction, target, (&locator, None), &document).await?;
    }
    let item = NewItem::new(locator, new.body.clone());
    let stored = transaction.insert(&target.container, item).await;
    let stored = stored.map_err(|error| duplicate::failure(target, &new.body, error))?;
    if collection.capped.is_some() {
        make_room(transaction, target, &stored).await?;
    }
    Ok(stored)
}

/// The `_id` of a clustered collection is what its documents lie by: it must fit into a key.
fn check_record_id(data: &Data, locator: &Locator) -> Result<()> {
    let limit = data.store.engine().capabilities().max_key_bytes;
    let size = locator.encode().len();
    if size <= limit {
        return Ok(());
    }
    let message = format!("RecordId too large: {size} bytes is over the limit of {limit}");
    Err(Failure::new(Code(5_894_900), message))
}

/// Stores a document in place of one that was read in the same transaction.
pub(crate) async fn replace(
    data: &Data,
    transaction: &mut Transaction,
    target: &Target,
    (old, before): (&Item, &Document),
    (after, manner, bypass_validation): (&Document, &Manner, bool),
) -> Result<Item> {
    let collection = &target.collection;
    if !bypass_validation {
        validate::check(collection, after, Some(before))?;
    }
    let new = NewDocument::updated(after)?;
    let body = RawDocument::from_bytes(&new.body)?;
    let locator = match &collection.shard_key {
        Some(_) => collection.locate(&new.id, body, 0)?,
        None => old.locator.clone(),
    };
    if locator == old.locator {
        if collection.prepares_unique() {
            let own = (&locator, Some(before));
            prepared::check(transaction, target, own, after).await?;
        }
        if target.container.definition.feed.is_some() {
            let documents = (before, after);
            if let Some(changed) = payload::of_update(collection, manner, documents, body)? {
                transaction.hint_change(ChangeHint::Update(Some(changed)));
            }
        }
        let item = NewItem::new(locator, new.body.clone());
        let replaced = transaction.replace(&target.container, old, item).await;
        return replaced.map_err(|error| duplicate::failure(target, &new.body, error));
    }
    // The document moves to another logical partition.
    transaction.remove(&target.container, old).await?;
    insert(data, transaction, target, &new, true).await
}

/// Removes a document that was read in the same transaction.
pub(crate) async fn remove(
    transaction: &mut Transaction,
    target: &Target,
    old: &Item,
) -> Result<()> {
    Ok(transaction.remove(&target.container, old).await?)
}

/// Removes the oldest documents of a capped collection until the rest is within its limits.
async fn make_room(transaction: &mut Transaction, target: &Target, newest: &Item) -> Result<()> {
    let Some(capped) = target.collection.capped else {
        return Ok(());
    };
    if signed(newest.body.len()) > capped.size {
        return Err(Failure::from(Error::new(
            Code::BAD_VALUE,
            "the document is larger than the capped collection",
        )));
    }
    let (mut items, mut size) = held(transaction, target, newest).await?;
    while capped.max.is_some_and(|max| items > max) || size > capped.size {
        let request = PageRequest {
            max_items: EVICTION_STEP,
            ..PageRequest::default()
        };
        let page = transaction
            .scan(&target.container, &Span::All, &request)
            .await?;
        let before = items;
        for oldest in page.items {
            let over = capped.max.is_some_and(|max| items > max) || size > capped.size;
            if !over || oldest.locator == newest.locator {
                break;
            }
            items -= 1;
            size -= signed(oldest.body.len());
            // The insert that makes room is what change streams tell.
            if target.container.definition.feed.is_some() {
                transaction.hint_change(ChangeHint::Silent);
            }
            transaction.remove(&target.container, &oldest).await?;
        }
        if items == before {
            break;
        }
    }
    Ok(())
}

/// How many documents a capped collection holds and how many bytes they have, `newest` among them,
/// which is all that the store's own count lacks unless this transaction wrote more.
async fn held(transaction: &mut Transaction, target: &Target, newest: &Item) -> Result<(i64, i64)> {
    let storage = target.container.storage();
    let work = transaction.meter().partitions().iter();
    let written: usize = work
        .filter(|(s, ..)| *s == storage)
        .map(|(_, _, w)| w.written)
        .sum();
    if written > 1 {
        return counted(transaction, target).await;
    }
    let statistics = transaction.statistics(&target.container).await?;
    let (mut items, mut bytes) = (1, signed(newest.counted_bytes()));
    for partition in statistics {
        items += partition.tally.items;
        bytes += partition.tally.bytes;
    }
    // The count has the keys as well, which the collection's limit does not.
    Ok((items, bytes - items * signed(newest.locator.key_bytes())))
}

async fn counted(transaction: &mut Transaction, target: &Target) -> Result<(i64, i64)> {
    let (mut items, mut size) = (0, 0);
    let mut continuation = None;
    loop {
        let request = PageRequest {
            max_items: 1_000,
            continuation: continuation.take(),
            ..PageRequest::default()
        };
        let page = transaction
            .scan(&target.container, &Span::All, &request)
            .await?;
        for item in &page.items {
            items += 1;
            size += signed(item.body.len());
        }
        match page.continuation {
            None => return Ok((items, size)),
            next => continuation = next,
        }
    }
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
