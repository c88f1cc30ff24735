//! Behaviours of tidying up: what nobody needs goes, and nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tessera_core::engine::{CommitOutcome, Engine, Scan};
use tessera_core::key;
use tessera_core::write_set::{Tally, WriteSet};

use crate::harness::{Harness, apply, collect, is_done, snapshot, writes};

const WRITERS: i64 = 8;

/// Partition keys of several lengths: the last ones are longer than a B-tree takes.
fn tally_key(number: i64) -> Bytes {
    let lengths = [1, 8, 60, 1_900, 1_990, 2_100, 9_000];
    let length = lengths[usize::try_from(number).unwrap() % lengths.len()];
    let mut partition_key = vec![7; length];
    partition_key.extend_from_slice(&number.to_be_bytes());
    key::logical_tally(3, number, &partition_key)
}

fn added(keys: impl Iterator<Item = i64>, items: i64) -> WriteSet {
    let bytes = items * 10;
    writes(|set| {
        for number in keys {
            set.add(tally_key(number), Tally { items, bytes });
        }
    })
}

/// What was written since one pass may wait for the next.
async fn tidy_all(engine: &Arc<dyn Engine>) {
    for _ in 0..2 {
        while engine.tidy().await.unwrap() {}
    }
}

/// Commits from fresh snapshots, until it is not refused.
async fn insist(engine: &Arc<dyn Engine>, writes: &WriteSet) {
    loop {
        let snapshot = snapshot(engine).await;
        if is_done(snapshot.commit(writes.clone()).await.unwrap()) {
            return;
        }
    }
}

/// Adds to the same keys from several tasks at once, so that several connections do.
async fn add_from_all(engine: &Arc<dyn Engine>, keys: i64, items: i64) {
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let engine = Arc::clone(engine);
        writers.push(tokio::spawn(async move {
            insist(&engine, &added(0..keys, items)).await;
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// What all tallies say: those of nothing may be there or not.
async fn sums(engine: &Arc<dyn Engine>) -> Vec<(Bytes, Tally)> {
    let snapshot = snapshot(engine).await;
    let found = collect(snapshot.as_ref(), Scan::new(key::tallies())).await;
    let found = found
        .into_iter()
        .map(|(key, value)| (key, Tally::decode(&value).unwrap()));
    found.filter(|(_, tally)| !tally.is_zero()).collect()
}

fn expected(keys: impl Iterator<Item = i64>, items: i64) -> Vec<(Bytes, Tally)> {
    let bytes = items * 10;
    let mut all: Vec<_> = keys
        .map(|number| (tally_key(number), Tally { items, bytes }))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

pub(crate) async fn tidying_leaves_every_sum_as_it_is(harness: Harness) {
    let engine = harness.open();
    add_from_all(&engine, 40, 3).await;
    for _ in 0..3 {
        tidy_all(&engine).await;
        assert_eq!(sums(&engine).await, expected(0..40, 3 * WRITERS));
    }
    // Additions to what was folded, and to what comes anew.
    add_from_all(&engine, 60, -2).await;
    tidy_all(&engine).await;
    let left = sums(&engine).await;
    let anew = expected(40..60, -2 * WRITERS);
    let all: Vec<_> = expected(0..40, WRITERS).into_iter().chain(anew).collect();
    assert_eq!(left.len(), all.len());
    assert!(all.iter().all(|entry| left.contains(entry)));
}

pub(crate) async fn a_tally_of_nothing_is_gone_after_tidying(harness: Harness) {
    let engine = harness.open();
    add_from_all(&engine, 2_500, 1).await;
    apply(&engine, added(0..2_500, -WRITERS)).await;
    apply(&engine, added(5_000..5_003, 4)).await;
    tidy_all(&engine).await;
    assert_eq!(sums(&engine).await, expected(5_000..5_003, 4));
    if engine.capabilities().shared {
        let snapshot = snapshot(&engine).await;
        let found = collect(snapshot.as_ref(), Scan::new(key::tallies())).await;
        assert_eq!(found.len(), 3);
    }
}

pub(crate) async fn tidying_beside_writers_loses_nothing(harness: Harness) {
    let engine = harness.open();
    let done = Arc::new(AtomicBool::new(false));
    let mut tidying = Vec::new();
    // Two servers may both believe that it is theirs to do.
    for _ in 0..2 {
        let (engine, done) = (Arc::clone(&engine), Arc::clone(&done));
        tidying.push(tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                engine.tidy().await.unwrap();
                tokio::task::yield_now().await;
            }
        }));
    }
    for round in 0..20 {
        add_from_all(&engine, 10, 1).await;
        // Up to nothing in every other round, which is when rows go.
        if round % 2 == 1 {
            insist(&engine, &added(0..10, -2 * WRITERS)).await;
            assert_eq!(sums(&engine).await, []);
        } else {
            assert_eq!(sums(&engine).await, expected(0..10, WRITERS));
        }
    }
    done.store(true, Ordering::Relaxed);
    for task in tidying {
        task.await.unwrap();
    }
}

pub(crate) async fn an_old_snapshot_reads_and_commits_beside_tidying(harness: Harness) {
    let engine = harness.open();
    add_from_all(&engine, 20, 2).await;
    let (reader, adder, deleter) = (
        snapshot(&engine).await,
        snapshot(&engine).await,
        snapshot(&engine).await,
    );
    apply(&engine, added(10..20, -2 * WRITERS)).await;
    tidy_all(&engine).await;
    let seen = reader.get(&tally_key(15)).await.unwrap().unwrap();
    assert_eq!(Tally::decode(&seen).unwrap().items, 2 * WRITERS);
    let outcome = adder.commit(added(0..20, 5)).await.unwrap();
    assert!(is_done(outcome), "tallies never conflict: {outcome:?}");
    tidy_all(&engine).await;
    // A delete of what changed since is refused, or takes all of it.
    let delete = writes(|set| set.delete(tally_key(3)));
    let outcome = deleter.commit(delete).await.unwrap();
    let left = sums(&engine).await;
    let is_left = left.iter().any(|(key, _)| *key == tally_key(3));
    assert_eq!(is_left, outcome == CommitOutcome::Conflict);
    let others = left.iter().filter(|(key, _)| *key != tally_key(3));
    assert_eq!(
        others.map(|(_, tally)| tally.items).sum::<i64>(),
        9 * (2 * WRITERS + 5) + 50
    );
}

pub(crate) async fn what_only_looks_like_a_tally_stays(harness: Harness) {
    let engine = harness.open();
    let inside = key::tallies().start;
    let odd = Bytes::from([&inside[..], b"odd"].concat());
    let zero = Bytes::copy_from_slice(&Tally::default().encode());
    let set = writes(|set| {
        set.put(Bytes::from_static(b"m zero"), zero.clone());
        set.put(Bytes::from_static(b"o zero"), zero.clone());
        set.put(odd.clone(), Bytes::from_static(b"not a tally"));
    });
    apply(&engine, set).await;
    // A tally that came with a copy is a plain value, to which is added.
    let copied = Tally {
        items: 4,
        bytes: 40,
    }
    .encode();
    let copies = writes(|set| {
        for number in 0..10 {
            set.put(tally_key(number), Bytes::copy_from_slice(&copied));
        }
    });
    apply(&engine, copies).await;
    tidy_all(&engine).await;
    apply(&engine, added(0..5, -4)).await;
    apply(&engine, added(5..7, 1)).await;
    tidy_all(&engine).await;
    for number in 0..10 {
        let value = snapshot(&engine).await.get(&tally_key(number)).await;
        let value = value.unwrap().map(|value| Tally::decode(&value).unwrap());
        let items = value.unwrap_or_default().items;
        let expected = if number < 5 {
            0
        } else {
            4 + i64::from(number < 7)
        };
        assert_eq!(items, expected, "{number}");
    }
    let snapshot = snapshot(&engine).await;
    for key in [&b"m zero"[..], b"o zero"] {
        assert_eq!(snapshot.get(key).await.unwrap(), Some(zero.clone()));
    }
    let odd = snapshot.get(&odd).await.unwrap();
    assert_eq!(odd.as_deref(), Some(&b"not a tally"[..]));
}
