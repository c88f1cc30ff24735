//! The feeds there are: a record for each, which outlives its container until its entries are gone.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::definition::{FeedDefinition, FeedId};
use super::stamp::Stamp;
use crate::definition::UnknownFields;
use crate::encoding::take_u64;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key::{self, system};
use crate::name::ContainerName;
use crate::transaction::Transaction;
use crate::walk::Walk;

/// What is known of a feed beside its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedEntry {
    /// The container's name, or its last one. Without a container that of a database, without a
    /// database that of an API, without an API all.
    pub name: ContainerName,
    /// Since when nothing is added: milliseconds since 1970.
    #[serde(default)]
    pub ended_ms: Option<u64>,
    /// For how long it is kept, if that was said.
    #[serde(default)]
    pub retention_ms: Option<u64>,
    #[serde(flatten)]
    unknown: UnknownFields,
}

impl FeedEntry {
    pub(crate) fn new(name: ContainerName, retention_ms: Option<u64>) -> Self {
        Self {
            name,
            ended_ms: None,
            retention_ms,
            unknown: UnknownFields::default(),
        }
    }

    pub(crate) fn save(&self, transaction: &mut Transaction, feed: FeedId) -> Result<()> {
        let json = serde_json::to_vec(self).map_err(|error| Error::Internal(error.to_string()))?;
        transaction.writes.put(entry_key(feed), json.into());
        Ok(())
    }

    fn decode(stored: &[u8]) -> Result<Self> {
        let damaged = |error| Error::Corrupt(format!("the record of a feed: {error}"));
        serde_json::from_slice(stored).map_err(damaged)
    }
}

/// Notes what a change of the catalog means for the record of its feed.
pub(super) fn note(
    transaction: &mut Transaction,
    feed: &FeedDefinition,
    control: &Control,
) -> Result<()> {
    let mut entry = FeedEntry::new(control.name.clone(), feed.retention_ms);
    entry.ended_ms = control.event.is_end().then_some(control.wall_ms);
    entry.save(transaction, feed.number)
}

/// Notes for how long a feed that there is is kept from now on, which alone is no event.
pub(super) async fn note_retention(
    transaction: &mut Transaction,
    feed: &FeedDefinition,
) -> Result<()> {
    let known = entry(transaction, feed.number).await?;
    if let Some(mut known) = known.filter(|known| known.retention_ms != feed.retention_ms) {
        known.retention_ms = feed.retention_ms;
        known.save(transaction, feed.number)?;
    }
    Ok(())
}

/// The record of one feed.
pub(crate) async fn entry(transaction: &Transaction, feed: FeedId) -> Result<Option<FeedEntry>> {
    let stored = transaction.get(&entry_key(feed)).await?;
    stored.map(|stored| FeedEntry::decode(&stored)).transpose()
}

/// All feeds there are.
pub(crate) async fn entries(transaction: &Transaction) -> Result<Vec<(FeedId, FeedEntry)>> {
    let mut walk = Walk::new(transaction, Scan::new(key::system_range(system::FEED)));
    let mut found = Vec::new();
    while let Some(page) = walk.next().await? {
        for (key, value) in page {
            let feed = key::parse_system(&key).and_then(|mut rest| take_u64(&mut rest));
            let feed = feed.ok_or_else(|| Error::Corrupt("the key of a feed".to_owned()))?;
            found.push((feed, FeedEntry::decode(&value)?));
        }
    }
    Ok(found)
}

/// Forgets a feed of which nothing is left.
pub(crate) fn forget(transaction: &mut Transaction, feed: FeedId) {
    for key in [entry_key(feed), floor_key(feed), seen_key(feed)] {
        transaction.writes.delete(key);
    }
}

/// Up to where the entries of a feed are gone.
pub(crate) async fn floor(transaction: &Transaction, feed: FeedId) -> Result<Stamp> {
    let stored = transaction.get(&floor_key(feed)).await?;
    let damaged = || Error::Corrupt("the end of what is left of a feed".to_owned());
    let floor = stored.map(|stored| Stamp::decode(&mut stored.as_ref()).ok_or_else(damaged));
    Ok(floor.transpose()?.unwrap_or_default())
}

pub(crate) fn set_floor(transaction: &mut Transaction, feed: FeedId, floor: Stamp) {
    transaction
        .writes
        .put(floor_key(feed), floor.encode().into());
}

/// When somebody followed a feed last: milliseconds since 1970.
pub(crate) async fn seen_ms(transaction: &Transaction, feed: FeedId) -> Result<Option<u64>> {
    let stored = transaction.get(&seen_key(feed)).await?;
    Ok(stored.and_then(|stored| take_u64(&mut stored.as_ref())))
}

pub(crate) fn set_seen(transaction: &mut Transaction, feed: FeedId, now_ms: u64) {
    let now = Bytes::copy_from_slice(&now_ms.to_be_bytes());
    transaction.writes.put(seen_key(feed), now);
}

pub(crate) fn entry_key(feed: FeedId) -> Bytes {
    key::system_key(system::FEED, &feed.to_be_bytes())
}

fn floor_key(feed: FeedId) -> Bytes {
    key::system_key(system::FEED_FLOOR, &feed.to_be_bytes())
}

fn seen_key(feed: FeedId) -> Bytes {
    key::system_key(system::FEED_SEEN, &feed.to_be_bytes())
}
