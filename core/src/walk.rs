//! Walking over a range page by page: the inside of every loop over stored entries, uncounted.

use bytes::Bytes;

use crate::engine::Scan;
use crate::error::{Error, Result};
use crate::item::Item;
use crate::key;
use crate::transaction::Transaction;

/// A walk over a range, as one transaction sees it. Memory stays bounded by one page.
pub(crate) struct Walk<'a> {
    transaction: &'a Transaction,
    next: Option<Scan>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(transaction: &'a Transaction, scan: Scan) -> Self {
        Self {
            transaction,
            next: Some(scan),
        }
    }

    /// The next page of keys and values; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<(Bytes, Bytes)>>> {
        let Some(scan) = self.next.take() else {
            return Ok(None);
        };
        let page = self.transaction.scan_keys(&scan).await?;
        if let (true, Some((last, _))) = (page.more, page.entries.last()) {
            self.next = Some(scan.after(last));
        }
        Ok(Some(page.entries))
    }
}

/// The item in a key and its value.
pub(crate) fn item(key: &Bytes, value: Bytes) -> Result<Item> {
    let item = key::parse_item(key).and_then(|locator| Item::decode_value(locator, value));
    item.ok_or_else(|| Error::Corrupt(format!("the item of key {} cannot be read", hex(key))))
}

/// The item in a key and its value; none, with a log line, if it cannot be read. For work that
/// continues without it.
pub(crate) fn readable_item(key: &Bytes, value: Bytes) -> Option<Item> {
    item(key, value)
        .inspect_err(|error| tracing::warn!(%error, "left out"))
        .ok()
}

/// A key in readable form, shortened if it is long.
pub(crate) fn hex(key: &[u8]) -> String {
    const SHOWN: usize = 128;
    let digits = key.iter().take(SHOWN).map(|byte| format!("{byte:02x}"));
    let cut = if key.len() > SHOWN { "…" } else { "" };
    digits.chain([cut.to_owned()]).collect()
}
