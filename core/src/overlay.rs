//! Reading one's own writes: a page of the snapshot with the buffered writes laid over it.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::engine::{EngineResult, Page, Scan, Snapshot};
use crate::write_set::{Write, WriteSet};

/// One key as the transaction sees it.
pub(crate) async fn get(
    snapshot: &dyn Snapshot,
    writes: &WriteSet,
    key: &[u8],
) -> EngineResult<Option<Bytes>> {
    match writes.effect(key) {
        Some(Write::Put(value)) => Ok(Some(value.clone())),
        Some(Write::Delete) => Ok(None),
        None => snapshot.get(key).await,
    }
}

/// One page of a range as the transaction sees it.
pub(crate) async fn scan(
    snapshot: &dyn Snapshot,
    writes: &WriteSet,
    scan: &Scan,
) -> EngineResult<Page> {
    if writes.is_empty() {
        return snapshot.scan(scan).await;
    }
    let mut rest = scan.clone();
    loop {
        let stored = snapshot.scan(&rest).await?;
        let last_stored = stored.entries.last().map(|(key, _)| key.clone());
        let merged = merge(stored, writes, &rest);
        match last_stored {
            // Every stored entry of the page was deleted by the transaction: read on.
            Some(last) if merged.entries.is_empty() && merged.more => rest = rest.after(&last),
            _ => return Ok(merged),
        }
    }
}

/// Lays the writes over a page. Only writes within the part of the range that the page covers
/// count; those behind its last key belong to later pages.
fn merge(stored: Page, writes: &WriteSet, scan: &Scan) -> Page {
    let mut covered = scan.range.clone();
    if let (true, Some((last, _))) = (stored.more, stored.entries.last()) {
        let rest = scan.after(last).range;
        if scan.reverse {
            covered.start = last.clone();
        } else {
            covered.end = Some(rest.start);
        }
    }
    let mut merged: BTreeMap<Bytes, Bytes> = stored
        .entries
        .into_iter()
        .filter(|(key, _)| writes.effect(key).is_none())
        .collect();
    let upper = covered
        .end
        .as_deref()
        .map_or(Bound::Unbounded, Bound::Excluded);
    if !covered.is_empty() {
        let bounds = (Bound::Included(covered.start.as_ref()), upper);
        for (key, write) in writes.writes().range(bounds) {
            if let Write::Put(value) = write {
                let value = if scan.keys_only {
                    Bytes::new()
                } else {
                    value.clone()
                };
                merged.insert(key.clone(), value);
            }
        }
    }
    let in_order: Vec<(Bytes, Bytes)> = if scan.reverse {
        merged.into_iter().rev().collect()
    } else {
        merged.into_iter().collect()
    };
    cut(in_order, stored.more, scan)
}

/// Holds a merged page to the bounds of the scan.
fn cut(mut entries: Vec<(Bytes, Bytes)>, more: bool, scan: &Scan) -> Page {
    let mut bytes = 0;
    let within_bytes = entries.iter().position(|(key, value)| {
        bytes += key.len() + value.len();
        bytes >= scan.max_bytes
    });
    let keep = within_bytes
        .map_or(entries.len(), |last| last + 1)
        .min(scan.max_rows);
    let cut_off = keep < entries.len();
    entries.truncate(keep);
    Page {
        entries,
        more: more || cut_off,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{Engine, KeyRange};
    use crate::memory::MemoryEngine;

    fn key(number: u8) -> Bytes {
        vec![number].into()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Put(u8, u8),
        Delete(u8),
        DeleteRange(u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..20u8, any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
            (0..20u8).prop_map(Step::Delete),
            (0..20u8, 0..20u8).prop_map(|(a, b)| Step::DeleteRange(a, b)),
        ];
        prop::collection::vec(step, 0..25)
    }

    fn apply(steps: &[Step], writes: &mut WriteSet, model: &mut BTreeMap<Bytes, Bytes>) {
        for step in steps {
            match *step {
                Step::Put(k, v) => {
                    writes.put(key(k), key(v));
                    model.insert(key(k), key(v));
                }
                Step::Delete(k) => {
                    writes.delete(key(k));
                    model.remove(&key(k));
                }
                Step::DeleteRange(from, to) => {
                    let range = KeyRange::new(key(from), key(to));
                    model.retain(|k, _| !range.contains(k));
                    writes.delete_range(range);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn pages_over_buffered_writes_equal_a_plain_map(
            stored in steps(),
            buffered in steps(),
            reverse: bool,
            max_rows in 1usize..5,
            max_bytes in 1usize..8,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let engine = MemoryEngine::new();
                let (mut model, mut writes) = (BTreeMap::new(), WriteSet::default());
                apply(&stored, &mut writes, &mut model);
                engine.snapshot().await.unwrap().commit(writes).await.unwrap();

                let mut writes = WriteSet::default();
                apply(&buffered, &mut writes, &mut model);
                let snapshot = engine.snapshot().await.unwrap();
                let mut next = Scan::new(KeyRange::new(key(2), key(18)));
                (next.reverse, next.max_rows, next.max_bytes) = (reverse, max_rows, max_bytes);
                let mut seen = Vec::new();
                loop {
                    let page = scan(snapshot.as_ref(), &writes, &next).await.unwrap();
                    assert!(page.entries.len() <= max_rows);
                    let last = page.entries.last().map(|(key, _)| key.clone());
                    seen.extend(page.entries);
                    match last {
                        Some(last) if page.more => next = next.after(&last),
                        _ => break,
                    }
                }
                let mut expected: Vec<_> =
                    model.into_iter().filter(|(k, _)| (2..18).contains(&k[0])).collect();
                if reverse {
                    expected.reverse();
                }
                assert_eq!(seen, expected);
            });
        }
    }
}
