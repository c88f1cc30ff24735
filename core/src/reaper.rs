//! The reaper: deletes in the background what a drop, a truncate or a rebuild left behind.
//!
//! Dropping a container only forgets its storage id and notes it here. The reaper then deletes the
//! data. Few leftovers are deleted key by key, because range tombstones would make later reads slow
//! if ten thousand small containers came and went. Many are deleted as one range, without reading
//! them, where the engine does that in constant time; elsewhere in bounded steps.

use bytes::Bytes;

use crate::background::FullLook;
use crate::encoding::{take_u32, take_u64};
use crate::engine::{KeyRange, Scan};
use crate::error::{Error, Result};
use crate::key::{self, IndexId, StorageId, system};
use crate::store::Store;
use crate::walk::hex;

/// Keys looked at in one step.
const STEP_KEYS: usize = 2_000;

/// Stands for the whole storage in place of an index.
const WHOLE_STORAGE: u32 = u32::MAX;

/// The key under which a storage id, or one index of it, waits for its data to be deleted.
pub(crate) fn reap_key(storage: StorageId, index: Option<IndexId>) -> Bytes {
    let mut rest = storage.to_be_bytes().to_vec();
    rest.extend_from_slice(&index.unwrap_or(WHOLE_STORAGE).to_be_bytes());
    key::system_key(system::REAP, &rest)
}

fn parse_reap_key(key: &[u8]) -> Option<(StorageId, Option<IndexId>)> {
    let mut rest = key::parse_system(key)?;
    let storage = take_u64(&mut rest)?;
    let index = take_u32(&mut rest)?;
    Some((storage, (index != WHOLE_STORAGE).then_some(index)))
}

/// The position of the reaper: storage ids only grow, so most of what was reaped lies before it.
#[derive(Default)]
pub(crate) struct Reaper {
    position: Option<Bytes>,
    full_look: FullLook,
}

impl Reaper {
    /// Deletes everything that waits now.
    pub(crate) async fn reap_all(&mut self, store: &Store) -> Result<()> {
        if self.full_look.is_due() {
            self.position = None;
        }
        loop {
            let waiting = self.waiting(store).await?;
            if waiting.is_empty() {
                return Ok(());
            }
            for key in waiting {
                match reap(store, &key).await {
                    Ok(()) => {}
                    Err(error) if error.is_of_engine() => return Err(error),
                    // It stays until the next full scan, and does not stop those that follow.
                    Err(error) => {
                        let key = hex(&key);
                        tracing::warn!(key, %error, "what was dropped cannot be deleted and stays");
                    }
                }
                self.position = Some(key);
            }
        }
    }

    async fn waiting(&self, store: &Store) -> Result<Vec<Bytes>> {
        let mut scan = Scan::new(key::system_range(system::REAP));
        scan.keys_only = true;
        if let Some(position) = &self.position {
            scan = scan.after(position);
        }
        let page = store.begin().await?.scan_keys(&scan).await?;
        Ok(page.entries.into_iter().map(|(key, _)| key).collect())
    }
}

/// Deletes the data that one key names.
async fn reap(store: &Store, key: &Bytes) -> Result<()> {
    let parsed = parse_reap_key(key);
    let (storage, index) = parsed.ok_or_else(|| Error::Corrupt("a reaper's key".into()))?;
    for range in ranges(storage, index) {
        while delete_step(store, &range).await? {}
    }
    delete_key(store, key.clone()).await
}

fn ranges(storage: StorageId, index: Option<IndexId>) -> Vec<KeyRange> {
    match index {
        None => key::all_of_storage(storage).into(),
        Some(index) => vec![key::index(storage, index), key::claims(storage, index)],
    }
}

/// Deletes one step of a range; returns whether there is more.
async fn delete_step(store: &Store, range: &KeyRange) -> Result<bool> {
    let mut transaction = store.begin().await?;
    let mut scan = Scan::new(range.clone()).in_passing();
    (scan.keys_only, scan.max_rows) = (true, STEP_KEYS);
    let page = transaction.scan_keys(&scan).await?;
    let mut more = page.more;
    match page.entries.last() {
        None => return Ok(false),
        Some(_) if page.more && store.engine().capabilities().constant_range_deletes => {
            transaction.writes.delete_range(range.clone());
            more = false;
        }
        Some((last, _)) if page.more => {
            let behind = scan.after(last).range.start;
            transaction
                .writes
                .delete_range(KeyRange::new(range.start.clone(), behind));
        }
        Some(_) => {
            for (key, _) in &page.entries {
                transaction.writes.delete(key.clone());
            }
        }
    }
    match transaction.commit().await {
        Ok(_) => Ok(more),
        Err(Error::Conflict) => Ok(true),
        Err(error) => Err(error),
    }
}

async fn delete_key(store: &Store, key: Bytes) -> Result<()> {
    store
        .run(&[], move |transaction| {
            transaction.writes.delete(key.clone());
            Box::pin(async { Ok::<_, Error>(()) })
        })
        .await?;
    Ok(())
}
