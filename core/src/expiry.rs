//! Expiry: removes items whose time has come. They are invisible from that moment on in any case;
//! removing them by ordinary transactions keeps indexes, claims and statistics right.

use bytes::Bytes;

use crate::background::FullLook;
use crate::catalog::{decode_version, relocation_key};
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::item::Item;
use crate::key::{self, StorageId};
use crate::locator::Locator;
use crate::name::ContainerName;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::walk::hex;

/// Items removed in one transaction.
const STEP_ITEMS: usize = 64;

/// Items read at once: they may be large.
const READ_ITEMS: usize = 16;

/// A mark may be committed a little after its time.
const LATE_MS: u64 = 5_000;

/// Remembers up to which time marks were removed. Items may be written that have expired already,
/// so marks may appear before that.
#[derive(Default)]
pub(crate) struct Expirer {
    from_ms: u64,
    full_look: FullLook,
}

impl Expirer {
    /// Removes every item that has expired by now; answers how many.
    pub(crate) async fn remove_expired(&mut self, store: &Store) -> Result<usize> {
        let now_ms = store.clock().now_ms();
        if self.full_look.is_due() {
            self.from_ms = 0;
        }
        let mut removed = 0;
        let mut scan = Scan::new(key::expiries(self.from_ms, now_ms));
        (scan.keys_only, scan.max_rows) = (true, STEP_ITEMS);
        loop {
            let page = store.begin().await?.scan_keys(&scan).await?;
            let marks: Vec<Bytes> = page.entries.into_iter().map(|(key, _)| key).collect();
            match remove_marked(store, &marks).await {
                Ok(count) => removed += count,
                // One item was being written or cannot be removed: remove them one by one, so that
                // it does not delay the rest.
                Err(error) if concerns_one_item(&error) => {
                    for mark in marks.chunks(1) {
                        removed += match remove_marked(store, mark).await {
                            Ok(count) => count,
                            Err(error) => leave_for_later(mark, error)?,
                        };
                    }
                }
                Err(error) => return Err(error),
            }
            match marks.last() {
                Some(last) if page.more => scan = scan.after(last),
                _ => break,
            }
        }
        self.from_ms = now_ms.saturating_sub(LATE_MS);
        Ok(removed)
    }
}

/// Whether other items can still be removed: this one was being written, or it or its container's
/// definition cannot be read or does not fit. If the engine failed, the next would fail as well.
fn concerns_one_item(error: &Error) -> bool {
    !error.is_of_engine()
}

/// Such an item stays until a later round scans everything again, once a minute.
fn leave_for_later(marks: &[Bytes], error: Error) -> Result<usize> {
    if !concerns_one_item(&error) {
        return Err(error);
    }
    if error != Error::Conflict {
        let key = marks.first().map(|mark| hex(mark)).unwrap_or_default();
        tracing::warn!(key, %error, "an item that expired cannot be removed, and stays");
    }
    Ok(0)
}

async fn remove_marked(store: &Store, marks: &[Bytes]) -> Result<usize> {
    let mut transaction = store.begin().await?;
    let mut removed = 0;
    for marks in marks.chunks(READ_ITEMS) {
        for marked in read(&transaction, marks).await? {
            removed += usize::from(remove_one(&mut transaction, marked).await?);
        }
    }
    transaction.commit().await?;
    Ok(removed)
}

/// A mark with what it stands for.
struct Marked {
    mark: Bytes,
    at_ms: u64,
    storage: StorageId,
    locator: Locator,
    /// The container that owns the storage; none if it is gone, or not taken over yet.
    owner: Option<ContainerName>,
    /// The item as it is stored.
    item: Option<Bytes>,
}

/// Reads the items that marks stand for, in one round trip.
async fn read(transaction: &Transaction, marks: &[Bytes]) -> Result<Vec<Marked>> {
    let mut keys = Vec::with_capacity(marks.len() * 2);
    let mut parsed = Vec::with_capacity(marks.len());
    for mark in marks {
        let (at_ms, storage, locator) = key::parse_expiry(mark)
            .ok_or_else(|| Error::Corrupt("an expiry mark cannot be read".into()))?;
        keys.push(key::definition_version(storage));
        keys.push(key::item(storage, &locator));
        parsed.push((mark, at_ms, storage, locator));
    }
    let mut values = transaction.snapshot.multi_get(&keys).await?.into_iter();
    let mut marked = Vec::with_capacity(marks.len());
    for (mark, at_ms, storage, locator) in parsed {
        let version = values.next().flatten();
        let owner = version.and_then(|version| decode_version(&version));
        marked.push(Marked {
            mark: mark.clone(),
            at_ms,
            storage,
            locator,
            owner: owner.map(|(_, name)| name),
            item: values.next().flatten(),
        });
    }
    Ok(marked)
}

async fn remove_one(transaction: &mut Transaction, marked: Marked) -> Result<bool> {
    let Some(name) = marked.owner else {
        // Marks in a storage that is still being filled wait until it is taken over; otherwise the
        // storage is gone, and with it the item.
        let relocation = relocation_key(marked.storage);
        if transaction.get(&relocation).await?.is_none() {
            transaction.writes.delete(marked.mark);
        }
        return Ok(false);
    };
    let container = transaction.container(&name).await?;
    let item = marked.item.map(|value| {
        Item::decode_value(marked.locator, value)
            .ok_or_else(|| Error::Corrupt("an item cannot be read".into()))
    });
    match item
        .transpose()?
        .filter(|item| item.expires_at_ms == Some(marked.at_ms))
    {
        Some(item) => {
            transaction.discard(&container, &item).await?;
            Ok(true)
        }
        None => {
            transaction.writes.delete(marked.mark);
            Ok(false)
        }
    }
}
