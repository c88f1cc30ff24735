//! Keys longer than an entry of a B-tree, and tallies in pieces.

use std::sync::Arc;

use bytes::Bytes;
use tessera_core::engine::{CommitOutcome, Engine, KeyRange, Scan};
use tessera_core::write_set::{Tally, WriteSet};

use crate::cluster::{Cluster, new_schema_name};
use crate::{bytes, put, writes};

async fn apply(engine: &Arc<dyn Engine>, set: WriteSet) {
    let snapshot = engine.snapshot().await.unwrap();
    let outcome = snapshot.commit(set).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Done(_)), "{outcome:?}");
}

async fn found(engine: &Arc<dyn Engine>, mut scan: Scan) -> Vec<Bytes> {
    let snapshot = engine.snapshot().await.unwrap();
    let mut found = Vec::new();
    loop {
        let page = snapshot.scan(&scan).await.unwrap();
        found.extend(page.entries.iter().map(|(key, _)| key.clone()));
        match page.entries.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => return found,
        }
    }
}

/// Keys with one head of 2,000 bytes and more, in their order, among short ones.
fn keys() -> Vec<Bytes> {
    let head = vec![b'h'; 2_000];
    let long = |tail: &[u8]| Bytes::from([head.as_slice(), tail].concat());
    let mut keys = vec![bytes("a"), long(b"")];
    keys.extend((0..50_u8).map(|number| long(&[number])));
    keys.extend([long(&[60; 5_000]), long(&[61; 70_000]), bytes("z")]);
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn long_keys_with_one_head_keep_their_order() {
    let engine = Cluster::shared().open(&new_schema_name());
    let keys = keys();
    // Backwards, so that the order is not that of their coming.
    for key in keys.iter().rev() {
        apply(&engine, writes(|set| set.put(key.clone(), bytes("v")))).await;
    }
    for (from, to) in [
        (0, keys.len()),
        (1, 30),
        (5, 6),
        (2, keys.len() - 1),
        (7, 7),
    ] {
        let range = match keys.get(to) {
            Some(end) => KeyRange::new(keys[from].clone(), end.clone()),
            None => KeyRange {
                start: keys[from].clone(),
                end: None,
            },
        };
        for max_rows in [1, 7, 1_000] {
            let mut scan = Scan::new(range.clone());
            scan.max_rows = max_rows;
            assert!(found(&engine, scan.clone()).await == keys[from..to]);
            (scan.reverse, scan.keys_only) = (true, true);
            let mut backwards = found(&engine, scan).await;
            backwards.reverse();
            assert!(backwards == keys[from..to]);
        }
    }
    let middle = KeyRange::new(keys[10].clone(), keys[20].clone());
    apply(&engine, writes(|set| set.delete_range(middle))).await;
    apply(&engine, writes(|set| set.delete(keys[30].clone()))).await;
    let rest = [&keys[..10], &keys[20..30], &keys[31..]].concat();
    assert!(found(&engine, Scan::new(KeyRange::all())).await == rest);
    let values = engine.snapshot().await.unwrap().multi_get(&keys).await;
    let present = values
        .unwrap()
        .iter()
        .filter(|value| value.is_some())
        .count();
    assert_eq!(present, rest.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_keys_conflict_like_others() {
    let engine = Cluster::shared().open(&new_schema_name());
    let keys = keys();
    let put = |key: &Bytes| writes(|set| set.put(key.clone(), bytes("v")));
    let guard = |key: &Bytes| writes(|set| set.guard(key.clone()));
    apply(&engine, put(&keys[3])).await;
    for (newer, attempt, is_refused) in [
        (put(&keys[3]), put(&keys[3]), true),
        (put(&keys[3]), guard(&keys[3]), true),
        (put(&keys[4]), guard(&keys[4]), true),
        (put(&keys[5]), put(&keys[6]), false),
        (put(&keys[7]), guard(&keys[8]), false),
    ] {
        let snapshot = engine.snapshot().await.unwrap();
        snapshot.get(b"begin").await.unwrap();
        apply(&engine, newer).await;
        let outcome = snapshot.commit(attempt).await.unwrap();
        assert_eq!(outcome == CommitOutcome::Conflict, is_refused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tally_is_deleted_with_all_that_was_added_or_not_at_all() {
    let engine = Cluster::shared().open(&new_schema_name());
    let one = Tally { items: 1, bytes: 1 };
    let add = || writes(|set| set.add(bytes("tally"), one));
    apply(&engine, add()).await;
    let delete = || writes(|set| set.delete(bytes("tally")));
    let delete_range = || writes(|set| set.delete_range(KeyRange::prefix(bytes("t"))));
    for (delete, read) in [
        (delete(), "other"),
        (delete_range(), "other"),
        (delete(), "tally"),
        (delete_range(), "tally"),
    ] {
        let snapshot = engine.snapshot().await.unwrap();
        snapshot.get(read.as_bytes()).await.unwrap();
        // While the snapshot holds its connection, this comes from another one.
        apply(&engine, add()).await;
        let outcome = snapshot.commit(delete).await.unwrap();
        assert_eq!(outcome, CommitOutcome::Conflict);
    }
    apply(&engine, writes(|set| set.delete(bytes("tally")))).await;
    let left = engine
        .snapshot()
        .await
        .unwrap()
        .get(b"tally")
        .await
        .unwrap();
    assert_eq!(left, None);
    let outcome = async |set: WriteSet| {
        let snapshot = engine.snapshot().await.unwrap();
        snapshot.get(b"begin").await.unwrap();
        apply(&engine, put("created", "meanwhile")).await;
        snapshot.commit(set).await.unwrap()
    };
    let absent = writes(|set| set.delete(bytes("created")));
    assert_eq!(outcome(absent).await, CommitOutcome::Conflict);
    let other = writes(|set| set.delete(bytes("never there")));
    assert!(matches!(outcome(other).await, CommitOutcome::Done(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_never_hold_a_part_of_a_tally() {
    let engine = Cluster::shared().open(&new_schema_name());
    let one = Tally { items: 1, bytes: 1 };
    let mut held = Vec::new();
    for _ in 0..5 {
        // Each addition comes from another connection, because the ones before are held.
        for name in ["b", "c"] {
            apply(&engine, writes(|set| set.add(bytes(name), one))).await;
        }
        let snapshot = engine.snapshot().await.unwrap();
        snapshot.get(b"begin").await.unwrap();
        held.push(snapshot);
    }
    // As a copy leaves a tally behind: a value, to which is added.
    let start = Bytes::copy_from_slice(&Tally { items: 3, bytes: 3 }.encode());
    apply(&engine, writes(|set| set.put(bytes("b"), start))).await;
    let add = |name: &str| writes(|set| set.add(bytes(name), Tally { items: 3, bytes: 3 }));
    apply(&engine, add("c")).await;
    for name in ["a", "d"] {
        apply(&engine, put(name, "plain")).await;
    }
    let sum = Bytes::copy_from_slice(&Tally { items: 8, bytes: 8 }.encode());
    for max_rows in 1..6 {
        for reverse in [false, true] {
            let mut scan = Scan::new(KeyRange::all());
            (scan.max_rows, scan.reverse) = (max_rows, reverse);
            assert_eq!(found(&engine, scan.clone()).await.len(), 4);
            let snapshot = engine.snapshot().await.unwrap();
            scan.range.start = bytes("b");
            scan.range.end = Some(bytes(if reverse { "d" } else { "z" }));
            let page = snapshot.scan(&scan).await.unwrap();
            let (_, value) = page.entries.first().unwrap();
            assert_eq!(*value, sum, "{max_rows} {reverse}");
            let both = snapshot.multi_get(&[bytes("c"), bytes("b")]).await;
            assert_eq!(both.unwrap(), [Some(sum.clone()), Some(sum.clone())]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tallies_have_keys_of_any_length() {
    let engine = Cluster::shared().open(&new_schema_name());
    let one = Tally { items: 1, bytes: 5 };
    for length in [1, 1_999, 2_000, 2_001, 2_048, 4_000, 20_000, 200_000] {
        let key = Bytes::from(vec![b't'; length]);
        // The same head, and neither the same key.
        let neighbour = Bytes::from([&key[..length - 1], b"u"].concat());
        let mut held = Vec::new();
        for _ in 0..3 {
            apply(&engine, writes(|set| set.add(key.clone(), one))).await;
            apply(&engine, writes(|set| set.add(neighbour.clone(), one))).await;
            let snapshot = engine.snapshot().await.unwrap();
            snapshot.get(b"begin").await.unwrap();
            held.push(snapshot);
        }
        drop(held);
        let expected = Some(bytes(one.plus(one).plus(one).encode()));
        let snapshot = engine.snapshot().await.unwrap();
        assert_eq!(snapshot.get(&key).await.unwrap(), expected, "{length}");
        let both = [neighbour.clone(), key.clone()];
        let both = snapshot.multi_get(&both).await.unwrap();
        assert_eq!(both, [expected.clone(), expected.clone()], "{length}");
        let scan = Scan::new(KeyRange::prefix(key.clone()));
        let page = snapshot.scan(&scan).await.unwrap();
        let scanned = page.entries.into_iter().find(|(found, _)| *found == key);
        assert_eq!(scanned.map(|(_, value)| value), expected, "{length}");
        drop(snapshot);
        apply(&engine, writes(|set| set.delete(key.clone()))).await;
        let snapshot = engine.snapshot().await.unwrap();
        assert_eq!(snapshot.get(&key).await.unwrap(), None, "{length}");
        assert_eq!(snapshot.get(&neighbour).await.unwrap(), expected);
        drop(snapshot);
        let range = KeyRange::new(neighbour.clone(), bytes("z"));
        apply(&engine, writes(|set| set.delete_range(range))).await;
    }
}
