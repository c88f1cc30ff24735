//! Expiry: removes items whose time has come. They are invisible from that moment on in any case;
//! removing them by ordinary transactions keeps indexes, claims and statistics right.

use bytes::Bytes;

use crate::background::FullLook;
use crate::catalog::relocation_key;
use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::key;
use crate::store::Store;
use crate::transaction::Transaction;

/// Items removed in one transaction.
const STEP_ITEMS: usize = 64;

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
                // One item was being written or cannot be removed: take them one by one, so that it
                // does not hold up the rest.
                Err(error) if concerns_one_item(&error) => {
                    for mark in marks.chunks(1) {
                        removed += remove_marked(store, mark).await.or_else(leave_for_later)?;
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

/// Whether other items may well be removed: one was being written, or it, or the definition of its
/// container, cannot be read.
fn concerns_one_item(error: &Error) -> bool {
    matches!(
        error,
        Error::Conflict | Error::Corrupt(_) | Error::Rejected(_)
    )
}

/// Such an item stays until a later round.
fn leave_for_later(error: Error) -> Result<usize> {
    if concerns_one_item(&error) {
        Ok(0)
    } else {
        Err(error)
    }
}

async fn remove_marked(store: &Store, marks: &[Bytes]) -> Result<usize> {
    let mut transaction = store.begin().await?;
    let mut removed = 0;
    for mark in marks {
        removed += usize::from(remove_one(&mut transaction, mark).await?);
    }
    transaction.commit().await?;
    Ok(removed)
}

async fn remove_one(transaction: &mut Transaction, mark: &Bytes) -> Result<bool> {
    let parsed = key::parse_expiry(mark);
    let (at_ms, storage, locator) =
        parsed.ok_or_else(|| Error::Corrupt("an expiry mark cannot be read".into()))?;
    let catalog = std::sync::Arc::clone(transaction.store.catalog());
    let Some(name) = catalog
        .owner(transaction.snapshot.as_ref(), storage)
        .await?
    else {
        // Marks in a storage that is still being filled wait until it is taken over; otherwise the
        // storage is gone, and with it the item.
        if transaction.get(&relocation_key(storage)).await?.is_none() {
            transaction.writes.delete(mark.clone());
        }
        return Ok(false);
    };
    let container = transaction.container(&name).await?;
    let item = transaction.stored(&container, &locator).await?;
    match item.filter(|item| item.expires_at_ms == Some(at_ms)) {
        Some(item) => {
            transaction.discard(&container, &item).await?;
            Ok(true)
        }
        None => {
            transaction.writes.delete(mark.clone());
            Ok(false)
        }
    }
}
