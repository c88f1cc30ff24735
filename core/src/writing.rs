//! Writing items: the item, its index entries, unique claims, expiry mark and tallies, all in one
//! transaction, and the same again in the storage that a relocation is filling.

use std::sync::Arc;

use bytes::Bytes;

use crate::container::Container;
use crate::deadline::examine;
use crate::definition::RELOCATION_INDEX;
use crate::engine::BoxFuture;
use crate::error::{Error, Result};
use crate::item::{Item, NewItem};
use crate::key;
use crate::locator::Locator;
use crate::misfit::{Misfit, misfit_key};
use crate::model::IndexEntry;
use crate::reading::Entry;
use crate::throughput::price;
use crate::transaction::Transaction;
use crate::write_set::Tally;

/// Bytes of an item that count as much work as another item.
const BYTES_IN_ITEM: usize = 4_096;

impl Transaction {
    /// Stores an item where there is none. [`Error::AlreadyExists`] if there is one.
    pub async fn insert(&mut self, container: &Arc<Container>, new: NewItem) -> Result<Item> {
        self.admit(container, new.locator.token).await?;
        let old = self.stored(container, &new.locator).await?;
        if old.as_ref().is_some_and(|old| !old.is_expired(self.now_ms)) {
            return Err(Error::AlreadyExists("an item with this key".into()));
        }
        let item = self.stamp(old.as_ref(), new);
        self.store_item(container, old.as_ref(), &item).await?;
        Ok(item)
    }

    /// Stores an item, in place of the one that may be there.
    pub async fn upsert(&mut self, container: &Arc<Container>, new: NewItem) -> Result<Item> {
        self.admit(container, new.locator.token).await?;
        let old = self.stored(container, &new.locator).await?;
        let item = self.stamp(old.as_ref(), new);
        self.store_item(container, old.as_ref(), &item).await?;
        Ok(item)
    }

    /// Stores an item at a place that this transaction has read, in place of the one that may be
    /// there.
    pub async fn put(
        &mut self,
        container: &Arc<Container>,
        entry: &Entry,
        new: NewItem,
    ) -> Result<Item> {
        self.admit(container, new.locator.token).await?;
        let item = self.stamp(entry.stored(), new);
        self.store_item(container, entry.stored(), &item).await?;
        Ok(item)
    }

    /// Stores `new` in place of `old`, which this transaction has read at the same locator.
    pub async fn replace(
        &mut self,
        container: &Arc<Container>,
        old: &Item,
        new: NewItem,
    ) -> Result<Item> {
        debug_assert_eq!(
            old.locator, new.locator,
            "a moved item is removed and inserted"
        );
        self.admit(container, new.locator.token).await?;
        let item = self.stamp(Some(old), new);
        self.store_item(container, Some(old), &item).await?;
        Ok(item)
    }

    /// Removes `old`, which this transaction has read.
    pub async fn remove(&mut self, container: &Arc<Container>, old: &Item) -> Result<()> {
        self.admit(container, old.locator.token).await?;
        self.discard(container, old).await
    }

    /// Removes `old` without admission: background work is never throttled.
    pub(crate) async fn discard(&mut self, container: &Arc<Container>, old: &Item) -> Result<()> {
        self.apply(container, Some(old), None).await
    }

    /// Removes the item at `locator` and returns it, if there is a visible one.
    pub async fn delete(
        &mut self,
        container: &Arc<Container>,
        locator: &Locator,
    ) -> Result<Option<Item>> {
        let Some(old) = self.read(container, locator).await? else {
            return Ok(None);
        };
        self.remove(container, &old).await?;
        Ok(Some(old))
    }

    /// The new item, as the next version of `old`.
    fn stamp(&self, old: Option<&Item>, new: NewItem) -> Item {
        let previous = old.map_or(0, |old| old.version);
        Item {
            locator: new.locator,
            version: self.store.clock().next_version(previous),
            expires_at_ms: new.expires_at_ms,
            body: new.body,
        }
    }

    async fn store_item(
        &mut self,
        container: &Arc<Container>,
        old: Option<&Item>,
        item: &Item,
    ) -> Result<()> {
        let growth = tally_of(Some(item)).minus(tally_of(old));
        self.check_room(container, &item.locator, growth.bytes)
            .await?;
        self.apply(container, old, Some(item)).await
    }

    /// The one place where items change: `old` is the stored item, `new` the one to store.
    async fn apply(
        &mut self,
        container: &Arc<Container>,
        old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<()> {
        let bytes = new.or(old).map_or(0, Item::counted_bytes);
        examine(1 + bytes / BYTES_IN_ITEM).await?;
        self.guard_definition(container);
        if let (true, Some(item)) = (self.heeds_intents(), new.or(old)) {
            let key = container.item_key(&item.locator);
            let latched = (&container.name, &item.locator);
            Box::pin(self.intend(&key, Some(latched))).await?;
        }
        self.write_item(container, old, new);
        if !container.definition.indexes.is_empty() {
            self.write_index_entries(container, old, new).await?;
        }
        if let Some(feed) = &container.definition.feed {
            self.note_change(container, feed, old, new)?;
        }
        if let Some(shadow) = &container.shadow {
            Box::pin(self.mirror_or_note(shadow, old, new)).await?;
        }
        self.check_size()
    }

    /// Makes the commit depend on an item, present or absent, that this transaction read and does
    /// not write: a concurrent change of it is a conflict.
    pub async fn guard(&mut self, container: &Container, locator: &Locator) -> Result<()> {
        let key = container.item_key(locator);
        if self.heeds_intents() {
            self.intend(&key, Some((&container.name, locator))).await?;
        }
        self.writes.guard(key);
        Ok(())
    }

    /// Ends the recursion of futures: a shadow and an expired holder are written by `apply` again.
    fn apply_nested<'a>(
        &'a mut self,
        container: &'a Arc<Container>,
        old: Option<&'a Item>,
        new: Option<&'a Item>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.apply(container, old, new))
    }

    fn write_item(&mut self, container: &Container, old: Option<&Item>, new: Option<&Item>) {
        let Some(locator) = new.or(old).map(|item| &item.locator) else {
            return;
        };
        let key = container.item_key(locator);
        match new {
            Some(new) => self.writes.put(key, new.encode_value()),
            None => self.writes.delete(key),
        }
        let storage = container.storage();
        let expiry = |item: Option<&Item>| item.and_then(|item| item.expires_at_ms);
        if expiry(old) != expiry(new) {
            if let Some(at_ms) = expiry(old) {
                self.writes.delete(key::expiry(at_ms, storage, locator));
            }
            if let Some(at_ms) = expiry(new) {
                self.writes
                    .put(key::expiry(at_ms, storage, locator), Bytes::new());
            }
        }
        self.tally(container, locator, tally_of(new).minus(tally_of(old)));
        let bytes = |item: &Item| item.counted_bytes();
        let charge = match (old.map(bytes), new.map(bytes)) {
            (Some(old), Some(new)) => price::replace(old, new),
            (Some(bytes), None) | (None, Some(bytes)) => price::insert(bytes),
            (None, None) => return,
        };
        let place = container.place(locator.token);
        self.bill.meter.written(place, charge);
        self.warm(container, place.1, locator, charge);
    }

    /// Counts into the tallies of the physical partition, of its heir while it is being split or
    /// merged, and of the logical partition where those are counted.
    fn tally(&mut self, container: &Container, locator: &Locator, delta: Tally) {
        if delta.is_zero() {
            return;
        }
        let (storage, token) = (container.storage(), locator.token);
        let partition = container.partitions.locate(token);
        container.heat.add_bytes(partition.id, delta.bytes);
        self.writes
            .add(key::physical_tally(storage, partition.id), delta);
        if let Some(heir) = partition.heir(token) {
            self.writes.add(key::physical_tally(storage, heir), delta);
        }
        if container.definition.counts_logical_partitions {
            let logical = key::logical_tally(storage, token, &locator.partition_key);
            self.writes.add(logical, delta);
        }
    }

    async fn write_index_entries(
        &mut self,
        container: &Arc<Container>,
        old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<()> {
        let before = index_entries(container, old)?;
        let after = index_entries(container, new)?;
        let storage = container.storage();
        let (mut entries, mut claims) = (0, 0);
        if let Some(old) = old {
            for entry in before.iter().filter(|entry| !after.contains(entry)) {
                let key = key::index_entry(storage, entry.index, &entry.value, &old.locator);
                self.writes.delete(key);
                entries += 1;
                if is_unique(container, entry) {
                    Box::pin(self.release_claim(container, entry, &old.locator)).await?;
                    claims += 1;
                }
            }
        }
        if let Some(new) = new {
            for entry in after.iter().filter(|entry| !before.contains(entry)) {
                claims += usize::from(self.add_index_entry(container, entry, &new.locator).await?);
                entries += 1;
            }
        }
        if let Some(item) = new.or(old) {
            let place = container.place(item.locator.token);
            let charge = self.bill.meter.indexed(place, entries, claims);
            if entries > 0 {
                self.warm(container, place.1, &item.locator, charge);
            }
        }
        Ok(())
    }

    /// Makes this transaction conflict with others that contend for the same value of an index, for
    /// a rule of the front end that must hold across them. It leaves no entry.
    pub async fn contend(
        &mut self,
        container: &Container,
        index: key::IndexId,
        value: &[u8],
    ) -> Result<()> {
        let claim = key::claim(container.storage(), index, value);
        self.intend(&claim, None).await?;
        self.writes.guard(claim.clone());
        self.writes.delete(claim);
        Ok(())
    }

    /// Adds one entry, and its claim if the index is unique: returns whether there was a claim.
    pub(crate) async fn add_index_entry(
        &mut self,
        container: &Arc<Container>,
        entry: &IndexEntry,
        locator: &Locator,
    ) -> Result<bool> {
        let unique = is_unique(container, entry);
        if unique {
            Box::pin(self.take_claim(container, entry, locator)).await?;
        }
        let key = key::index_entry(container.storage(), entry.index, &entry.value, locator);
        self.writes.put(key, entry.covered.clone());
        Ok(unique)
    }

    /// Claims a unique value, unless another item has it.
    async fn take_claim(
        &mut self,
        container: &Arc<Container>,
        entry: &IndexEntry,
        locator: &Locator,
    ) -> Result<()> {
        let claim = key::claim(container.storage(), entry.index, &entry.value);
        self.intend(&claim, None).await?;
        self.release_expired_claim(container, &claim, locator)
            .await?;
        let holder = self.get(&claim).await?;
        if holder.is_some_and(|holder| holder != locator.encode()) {
            let index = container.definition.index_by_id(entry.index);
            let index = index.map_or_else(String::new, |index| index.name.clone());
            return Err(Error::DuplicateValue { index });
        }
        self.writes.put(claim, locator.encode());
        Ok(())
    }

    /// Releases a unique value. While its index is being built an item may not hold its own value
    /// yet, and another one may: that claim stays.
    async fn release_claim(
        &mut self,
        container: &Container,
        entry: &IndexEntry,
        locator: &Locator,
    ) -> Result<()> {
        let claim = key::claim(container.storage(), entry.index, &entry.value);
        self.intend(&claim, None).await?;
        if self
            .get(&claim)
            .await?
            .is_some_and(|holder| holder == locator.encode())
        {
            self.writes.delete(claim);
        }
        Ok(())
    }

    /// An item that has expired and was not removed yet must not hold a value against a new one.
    async fn release_expired_claim(
        &mut self,
        container: &Arc<Container>,
        claim: &[u8],
        locator: &Locator,
    ) -> Result<()> {
        let Some(holder) = self.get(claim).await? else {
            return Ok(());
        };
        let holder = Locator::decode(&holder)
            .ok_or_else(|| Error::Corrupt("a unique claim cannot be read".into()))?;
        if holder == *locator {
            return Ok(());
        }
        let item = self.stored(container, &holder).await?;
        let expired = item.filter(|item| item.is_expired(self.now_ms));
        match expired {
            Some(item) => self.apply_nested(container, Some(&item), None).await,
            None => Ok(()),
        }
    }

    /// Repeats a write in the storage that a relocation is filling. A claim there says which item
    /// of the old storage a place belongs to, so that two items that meet at one new place are
    /// noticed.
    async fn mirror(
        &mut self,
        shadow: &Arc<Container>,
        old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<()> {
        let copied = match old {
            Some(old) => self.copied(shadow, old).await?,
            None => None,
        };
        let moved = new.map(|new| relocated(shadow, new)).transpose()?;
        match (&copied, &moved) {
            (Some(before), Some(after)) if before.locator == after.locator => {
                self.apply_nested(shadow, Some(before), Some(after)).await
            }
            _ => {
                if let Some(before) = &copied {
                    self.writes
                        .delete(relocation_claim(shadow, &before.locator));
                    self.apply_nested(shadow, Some(before), None).await?;
                }
                if let (Some(after), Some(new)) = (&moved, new) {
                    self.place(shadow, &new.locator, after).await?;
                }
                Ok(())
            }
        }
    }

    /// Repeats a write; if the item does not fit there, that ends the relocation instead of this
    /// write.
    async fn mirror_or_note(
        &mut self,
        shadow: &Arc<Container>,
        old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<()> {
        let Err(error) = self.mirror(shadow, old, new).await else {
            return Ok(());
        };
        let misfit = Misfit::of(error)?;
        let key = misfit_key(shadow.storage());
        if self.get(&key).await?.is_none() {
            self.writes.put(key, misfit.encode()?);
        }
        Ok(())
    }

    /// The copy of `old` in the new storage, if it was copied already. If not, the absence of its
    /// claim is guarded: otherwise a copy made meanwhile would outlive the item.
    async fn copied(&mut self, shadow: &Arc<Container>, old: &Item) -> Result<Option<Item>> {
        // An item that cannot be placed was never copied; the relocation ends with that error.
        let Ok(place) = shadow.model.relocate(&shadow.definition, old) else {
            return Ok(None);
        };
        let claim = relocation_claim(shadow, &place);
        match self.get(&claim).await? {
            Some(source) if source == old.locator.encode() => self.stored(shadow, &place).await,
            _ => {
                self.writes.guard(claim);
                Ok(None)
            }
        }
    }

    /// Copies an item of the old storage to its place in the new one, unless it is there already.
    pub(crate) async fn place(
        &mut self,
        shadow: &Arc<Container>,
        source: &Locator,
        item: &Item,
    ) -> Result<()> {
        let claim = relocation_claim(shadow, &item.locator);
        match self.get(&claim).await? {
            None => {
                self.writes.put(claim, source.encode());
                self.apply_nested(shadow, None, Some(item)).await
            }
            Some(holder) if holder == source.encode() => Ok(()),
            Some(_) => Err(Error::DuplicateValue {
                index: "the new partition and row key".into(),
            }),
        }
    }
}

/// `item` as it will lie in the new storage.
pub(crate) fn relocated(shadow: &Container, item: &Item) -> Result<Item> {
    let locator = shadow.model.relocate(&shadow.definition, item)?;
    Ok(Item {
        locator,
        ..item.clone()
    })
}

/// The entries of an item in all indexes of its container, each once.
pub(crate) fn index_entries(container: &Container, item: Option<&Item>) -> Result<Vec<IndexEntry>> {
    let definition = &container.definition;
    let Some(item) = item else {
        return Ok(Vec::new());
    };
    let mut entries = container
        .model
        .index_entries(definition, &definition.indexes, item)?;
    entries.sort_unstable();
    entries.dedup_by(|a, b| (a.index, &a.value) == (b.index, &b.value));
    Ok(entries)
}

pub(crate) fn is_unique(container: &Container, entry: &IndexEntry) -> bool {
    let index = container.definition.index_by_id(entry.index);
    index.is_some_and(|index| index.unique)
}

pub(crate) fn tally_of(item: Option<&Item>) -> Tally {
    item.map_or_else(Tally::default, |item| Tally {
        items: 1,
        bytes: i64::try_from(item.counted_bytes()).unwrap_or(i64::MAX),
    })
}

fn relocation_claim(shadow: &Container, place: &Locator) -> Bytes {
    key::claim(shadow.storage(), RELOCATION_INDEX, &place.encode())
}
