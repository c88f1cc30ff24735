//! Copying all data from one engine to another of any kind.
//!
//! The source is read at one moment, page by page. Each page is compared with what the target has
//! in the same range, and the differences are written; so an interrupted copy continues at the
//! first difference. At the end the target is read once more and compared by count and checksum.
//! Until then a mark in the target says that it is incomplete.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tessera_core::engine::{
    CommitOutcome, Engine, EngineError, EngineResult, KeyRange, Scan, Snapshot,
};
use tessera_core::write_set::WriteSet;

/// Behind every key of the core, which begin with a letter.
const MARK: &[u8] = b"\xfftessera unfinished copy";

/// How often a commit is retried after a conflict.
const ATTEMPTS: usize = 5;

/// Why data was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// An engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The target has data of its own.
    #[error("the target holds data that is not of an unfinished copy; choose an empty one")]
    NotEmpty,
    /// The source is itself an unfinished copy.
    #[error("the source holds an unfinished copy; finish that one first")]
    Unfinished,
    /// Another process writes to the target.
    #[error("another process writes to the target; stop the servers that use it, and try again")]
    Disturbed,
    /// The checksum of the target differs.
    #[error("the target has {found} entries with another checksum than the {expected} copied")]
    Different {
        /// Entries in the target.
        found: u64,
        /// Entries that were copied.
        expected: u64,
    },
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Entries read from the source.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Entries written to the target, without those that it had already.
    pub written: u64,
}

/// Whether a copy to this engine was begun and not finished.
pub async fn holds_unfinished_copy(engine: &dyn Engine) -> EngineResult<bool> {
    let snapshot = engine.snapshot().await?;
    Ok(snapshot.get(MARK).await?.is_some())
}

/// Copies everything, calls `progress` after each page, and returns the totals once the target is
/// verified. Entries of an unfinished copy in the target are used.
pub async fn copy(
    from: &dyn Engine,
    to: &dyn Engine,
    mut progress: impl FnMut(Copied),
) -> Result<Copied, CopyError> {
    if holds_unfinished_copy(from).await? {
        return Err(CopyError::Unfinished);
    }
    mark(to).await?;
    let source = from.snapshot().await?;
    // Done first; there are none without a log.
    let settled = source.settled().await.ok();
    let mut copied = Copied::default();
    let mut checksum = Checksum::default();
    let mut scan = Scan::new(everything()).in_passing();
    loop {
        let page = source.scan(&scan).await?;
        let mut range = scan.range.clone();
        let next = page.entries.last().map(|(last, _)| scan.after(last));
        if let Some(next) = next.as_ref().filter(|_| page.more) {
            range.end = Some(next.range.start.clone());
        }
        copied.written += make_equal(to, &range, &page.entries).await?;
        for (key, value) in &page.entries {
            checksum.add(key, value);
            copied.entries += 1;
            copied.bytes += (key.len() + value.len()) as u64;
        }
        progress(copied);
        match next {
            Some(next) if page.more => scan = next,
            _ => break,
        }
    }
    let found = sum(to.snapshot().await?.as_ref()).await?;
    if found != checksum {
        return Err(CopyError::Different {
            found: found.entries,
            expected: copied.entries,
        });
    }
    // Later commits of the source are not in the history of the target.
    let mut past = from.past_epochs().await?;
    past.extend(settled.map(|settled| settled.through));
    to.adopt_history(past).await?;
    change(to, |set| set.delete(Bytes::from_static(MARK))).await?;
    Ok(copied)
}

/// Every key but the mark.
fn everything() -> KeyRange {
    KeyRange::new(Bytes::new(), Bytes::from_static(MARK))
}

/// Marks an empty target, or finds the mark.
async fn mark(to: &dyn Engine) -> Result<(), CopyError> {
    let snapshot = to.snapshot().await?;
    if snapshot.get(MARK).await?.is_some() {
        return Ok(());
    }
    let mut any = Scan::new(KeyRange::all());
    (any.max_rows, any.keys_only) = (1, true);
    if !snapshot.scan(&any).await?.entries.is_empty() {
        return Err(CopyError::NotEmpty);
    }
    drop(snapshot);
    change(to, |set| set.put(Bytes::from_static(MARK), Bytes::new())).await
}

/// Makes a range of the target hold exactly these entries. Returns how many were written.
async fn make_equal(
    to: &dyn Engine,
    range: &KeyRange,
    entries: &[(Bytes, Bytes)],
) -> Result<u64, CopyError> {
    let there = all(to.snapshot().await?.as_ref(), range).await?;
    let missing = |(key, value): &&(Bytes, Bytes)| {
        let place = there.binary_search_by(|(other, _)| other.cmp(key));
        let same = place.ok().and_then(|place| there.get(place));
        same.is_none_or(|(_, other)| other != value)
    };
    let puts: Vec<&(Bytes, Bytes)> = entries.iter().filter(missing).collect();
    let is_kept = |key: &Bytes| {
        entries
            .binary_search_by(|(other, _)| other.cmp(key))
            .is_ok()
    };
    let deletes: Vec<&Bytes> = there
        .iter()
        .map(|(key, _)| key)
        .filter(|key| !is_kept(key))
        .collect();
    if !puts.is_empty() || !deletes.is_empty() {
        change(to, |set| {
            for (key, value) in &puts {
                set.put(key.clone(), value.clone());
            }
            for key in &deletes {
                set.delete((*key).clone());
            }
        })
        .await?;
    }
    Ok(puts.len() as u64)
}

/// Commits a change, without concurrent writers.
async fn change(to: &dyn Engine, change: impl Fn(&mut WriteSet)) -> Result<(), CopyError> {
    for _ in 0..ATTEMPTS {
        let mut set = WriteSet::default();
        change(&mut set);
        match to.snapshot().await?.commit(set).await? {
            CommitOutcome::Done(_) => return Ok(()),
            // Applied or not: the change is idempotent.
            CommitOutcome::Conflict | CommitOutcome::Unknown => {}
        }
    }
    Err(CopyError::Disturbed)
}

async fn all(snapshot: &dyn Snapshot, range: &KeyRange) -> EngineResult<Vec<(Bytes, Bytes)>> {
    let mut found = Vec::new();
    let mut scan = Scan::new(range.clone()).in_passing();
    loop {
        let page = snapshot.scan(&scan).await?;
        found.extend(page.entries);
        match found.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => return Ok(found),
        }
    }
}

async fn sum(snapshot: &dyn Snapshot) -> EngineResult<Checksum> {
    let mut checksum = Checksum::default();
    let mut scan = Scan::new(everything()).in_passing();
    loop {
        let page = snapshot.scan(&scan).await?;
        for (key, value) in &page.entries {
            checksum.add(key, value);
        }
        match page.entries.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => return Ok(checksum),
        }
    }
}

/// A digest over entries in their order.
#[derive(Default)]
struct Checksum {
    digest: Sha256,
    entries: u64,
}

impl Checksum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        for part in [key, value] {
            self.digest.update((part.len() as u64).to_be_bytes());
            self.digest.update(part);
        }
        self.entries += 1;
    }
}

impl PartialEq for Checksum {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
            && self.digest.clone().finalize() == other.digest.clone().finalize()
    }
}
