//! Behaviours of what is appended: stamps, their order, and how far it is complete.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tessera_core::engine::{CommitOutcome, Done, Engine, EngineError, KeyRange, Scan};
use tessera_core::feed::stamp::Stamp;
use tessera_core::write_set::WriteSet;

use crate::harness::{Harness, apply, bytes, collect, commit, is_done, put, writes};

fn append(prefix: &str, values: &[&str]) -> WriteSet {
    writes(|set| {
        for value in values {
            set.append(bytes(prefix), bytes(value));
        }
    })
}

async fn append_now(engine: &Arc<dyn Engine>, prefix: &str, values: &[&str]) -> Done {
    match commit(engine, append(prefix, values)).await {
        CommitOutcome::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

/// All entries behind a prefix, with their stamps, up to where they are complete.
async fn entries(engine: &Arc<dyn Engine>, prefix: &str) -> (Vec<(Stamp, Bytes)>, Stamp) {
    let snapshot = engine.snapshot().await.unwrap();
    let settled = snapshot.settled().await.unwrap();
    assert!(settled.through <= settled.newest);
    let found = collect(
        snapshot.as_ref(),
        Scan::new(KeyRange::prefix(bytes(prefix))),
    )
    .await;
    let entry = |(key, value): (Bytes, Bytes)| (Stamp::split(&key).unwrap().1, value);
    let mut found: Vec<_> = found.into_iter().map(entry).collect();
    found.retain(|(stamp, _)| *stamp <= settled.through);
    (found, settled.through)
}

/// The same, once everything that was committed is complete.
async fn settled_entries(engine: &Arc<dyn Engine>, prefix: &str) -> Vec<(Stamp, Bytes)> {
    let newest = engine
        .snapshot()
        .await
        .unwrap()
        .settled()
        .await
        .unwrap()
        .newest;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (found, through) = entries(engine, prefix).await;
        if through >= newest {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "{through:?} does not reach {newest:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn values(entries: &[(Stamp, Bytes)]) -> Vec<&[u8]> {
    entries.iter().map(|(_, value)| value.as_ref()).collect()
}

pub(crate) async fn entries_come_with_their_commit_in_the_order_of_the_calls(harness: Harness) {
    let engine = harness.open();
    let mut set = append("l1", &["one", "two"]);
    set.put(bytes("a"), bytes("1"));
    set.append(bytes("l2"), bytes("three"));
    let CommitOutcome::Done(done) = commit(&engine, set).await else {
        panic!("refused");
    };
    let found = settled_entries(&engine, "l").await;
    assert_eq!(values(&found), [&b"one"[..], b"two", b"three"]);
    let stamp = done.stamp.unwrap();
    for ((found, _), entry) in found.iter().zip(0..) {
        assert!(found.is_same_commit(stamp) && *found < stamp);
        assert_eq!(found.entry, entry);
    }
    assert_eq!(append_now(&engine, "l1", &[]).await.stamp, None);
    let empty = commit(&engine, put("a", "2")).await;
    assert!(matches!(
        empty,
        CommitOutcome::Done(Done { stamp: None, .. })
    ));
}

pub(crate) async fn stamps_of_commits_that_follow_each_other_grow(harness: Harness) {
    let engine = harness.open();
    let mut last = Stamp::START;
    for number in 0..20 {
        let stamp = append_now(&engine, "l1", &["a", "b"]).await.stamp.unwrap();
        assert!(stamp > last, "{number}");
        last = stamp;
    }
    let found = settled_entries(&engine, "l1").await;
    assert_eq!(found.len(), 40);
    assert!(found.is_sorted_by(|(one, _), (other, _)| one < other));
}

pub(crate) async fn appending_never_conflicts_and_a_refused_commit_appends_nothing(
    harness: Harness,
) {
    let engine = harness.open();
    let first = engine.snapshot().await.unwrap();
    let second = engine.snapshot().await.unwrap();
    assert_eq!(first.get(b"k").await.unwrap(), None);
    assert_eq!(second.get(b"k").await.unwrap(), None);
    apply(&engine, append("l1", &["between"])).await;
    assert!(is_done(
        first.commit(append("l1", &["first"])).await.unwrap()
    ));
    apply(&engine, put("k", "1")).await;
    let mut refused = append("l1", &["refused"]);
    refused.put(bytes("k"), bytes("2"));
    let outcome = second.commit(refused).await.unwrap();
    assert_eq!(outcome, CommitOutcome::Conflict);
    let found = settled_entries(&engine, "l1").await;
    assert_eq!(values(&found), [&b"between"[..], b"first"]);
}

pub(crate) async fn the_log_is_read_as_anything_else_and_removed_by_ranges(harness: Harness) {
    let engine = harness.open();
    apply(&engine, put("a", "1")).await;
    apply(&engine, put("m", "1")).await;
    for number in 0..5 {
        append_now(&engine, "l1", &[&format!("{number}")]).await;
    }
    append_now(&engine, "l2", &["other"]).await;
    let snapshot = engine.snapshot().await.unwrap();
    let mut scan = Scan::new(KeyRange::new(&b"a"[..], &b"n"[..]));
    scan.max_rows = 2;
    let all = collect(snapshot.as_ref(), scan.clone()).await;
    assert_eq!(all.len(), 8);
    assert!(all.is_sorted_by(|(one, _), (other, _)| one < other));
    scan.reverse = true;
    let mut reversed = collect(snapshot.as_ref(), scan).await;
    reversed.reverse();
    assert_eq!(reversed, all);
    let (third, value) = all.get(3).unwrap().clone();
    assert_eq!(snapshot.get(&third).await.unwrap(), Some(value.clone()));
    let several = [bytes("a"), third.clone(), bytes("l0")];
    let several = snapshot.multi_get(&several).await.unwrap();
    assert_eq!(several, [Some(bytes("1")), Some(value), None]);
    drop(snapshot);
    let (first, _) = all.get(1).unwrap().clone();
    apply(&engine, writes(|set| set.delete(first.clone()))).await;
    let until = KeyRange::new(bytes("l1"), third);
    apply(&engine, writes(|set| set.delete_range(until.clone()))).await;
    assert_eq!(
        values(&settled_entries(&engine, "l1").await),
        [b"2", b"3", b"4"]
    );
    assert_eq!(settled_entries(&engine, "l2").await.len(), 1);
}

pub(crate) async fn only_what_belongs_to_the_log_can_be_appended(harness: Harness) {
    let engine = harness.open();
    let refused = |set: WriteSet| {
        let engine = Arc::clone(&engine);
        async move { engine.snapshot().await.unwrap().commit(set).await }
    };
    let outside = refused(append("a", &["x"])).await;
    assert!(matches!(outside, Err(EngineError::Unavailable(_))));
    let long = "l".repeat(1_001);
    let long = refused(append(&long, &["x"])).await;
    assert!(matches!(
        long,
        Err(EngineError::TooLarge { what: "key", .. })
    ));
    let most = "l".repeat(1_000);
    append_now(&engine, &most, &["x"]).await;
    let large = "x".repeat(3 << 20);
    append_now(&engine, "l1", &[&large, &large, "small"]).await;
    let found = settled_entries(&engine, "l1").await;
    let sizes: Vec<usize> = found.iter().map(|(_, value)| value.len()).collect();
    assert_eq!(sizes, [3 << 20, 3 << 20, 5]);
}

const WRITERS: usize = 32;
const COMMITS: usize = 12;

/// What one commit appends: in two places, and its writer's and its own number in each entry.
fn appended_by(writer: usize, number: usize) -> WriteSet {
    writes(|set| {
        for entry in 0..=number % 3 {
            let prefix = if entry % 2 == 0 { "l1" } else { "l2" };
            set.append(bytes(prefix), bytes(format!("{writer} {number} {entry}")));
        }
        set.put(bytes(format!("writer {writer}")), bytes(number.to_string()));
    })
}

pub(crate) async fn a_follower_beside_32_writers_sees_each_commit_once_whole_and_in_order(
    harness: Harness,
) {
    let engine = harness.open();
    let done = Arc::new(AtomicBool::new(false));
    let follower = tokio::spawn(follow(Arc::clone(&engine), Arc::clone(&done)));
    let writers = (0..WRITERS).map(|writer| {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            for number in 0..COMMITS {
                apply(&engine, appended_by(writer, number)).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    done.store(true, Ordering::Release);
    let seen = follower.await.unwrap();
    assert!(seen.is_sorted_by(|(one, _), (other, _)| one < other));
    let mut commits: BTreeMap<Stamp, Vec<String>> = BTreeMap::new();
    for (stamp, value) in seen {
        let value = String::from_utf8(value.to_vec()).unwrap();
        commits
            .entry(stamp.end_of_commit())
            .or_default()
            .push(value);
    }
    assert_eq!(commits.len(), WRITERS * COMMITS);
    let mut next = [0; WRITERS];
    for mut entries in commits.into_values() {
        entries.sort();
        let first = entries.first().unwrap();
        let (writer, _) = first.split_once(' ').unwrap();
        let writer: usize = writer.parse().unwrap();
        let place = next.get_mut(writer).unwrap();
        let expected = (0..=*place % 3).map(|entry| format!("{writer} {place} {entry}"));
        assert_eq!(entries, expected.collect::<Vec<_>>());
        *place += 1;
    }
}

/// Follows both places until the writers are done and all is complete.
async fn follow(engine: Arc<dyn Engine>, done: Arc<AtomicBool>) -> Vec<(Stamp, Bytes)> {
    let mut seen = Vec::new();
    let mut position = Stamp::START;
    loop {
        let was_done = done.load(Ordering::Acquire);
        let snapshot = engine.snapshot().await.unwrap();
        let settled = snapshot.settled().await.unwrap();
        assert!(
            settled.through >= position,
            "what was complete stays complete"
        );
        let mut page = Vec::new();
        for prefix in ["l1", "l2"] {
            let range = KeyRange::prefix(bytes(prefix));
            for (key, value) in collect(snapshot.as_ref(), Scan::new(range)).await {
                let (_, stamp) = Stamp::split(&key).unwrap();
                if position < stamp && stamp <= settled.through {
                    page.push((stamp, value));
                }
            }
        }
        page.sort();
        seen.extend(page);
        position = settled.through;
        if was_done && settled.through >= settled.newest {
            return seen;
        }
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn stamps_go_on_after_a_restart_and_begin_anew_in_a_checkpoint(harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let engine = harness.open();
    assert_eq!(engine.past_epochs().await.unwrap(), []);
    let first = append_now(&engine, "l1", &["before"]).await.stamp.unwrap();
    if harness.has_checkpoints() {
        engine.checkpoint(&harness.path("copy")).await.unwrap();
        let later = append_now(&engine, "l1", &["discarded"])
            .await
            .stamp
            .unwrap();
        let copy = harness.open_at("copy");
        let past = copy.past_epochs().await.unwrap();
        let [end] = past.as_slice() else {
            panic!("{past:?}");
        };
        assert!(first <= *end && *end < later, "{first:?} {end:?} {later:?}");
        let another = append_now(&copy, "l1", &["another"]).await.stamp.unwrap();
        assert!(another.epoch > first.epoch);
        assert_eq!(
            values(&settled_entries(&copy, "l1").await),
            [&b"before"[..], b"another"]
        );
        copy.close().await.unwrap();
    }
    engine.close().await.unwrap();
    drop(engine);
    let engine = harness.open();
    assert_eq!(engine.past_epochs().await.unwrap(), []);
    let second = append_now(&engine, "l1", &["after"]).await.stamp.unwrap();
    assert!(second > first && second.epoch == first.epoch);
    let found = settled_entries(&engine, "l1").await;
    assert_eq!(found.first().unwrap().1, "before");
    assert_eq!(found.last().unwrap().1, "after");
}

pub(crate) async fn a_copy_begins_an_epoch_behind_those_of_its_source(harness: Harness) {
    let engine = harness.open();
    let first = append_now(&engine, "l1", &["copied"]).await.stamp.unwrap();
    settled_entries(&engine, "l1").await;
    let target: Arc<dyn Engine> = Arc::new(tessera_storage::MemoryEngine::new());
    tessera_storage::copy::copy(engine.as_ref(), target.as_ref(), |_| {})
        .await
        .unwrap();
    let later = append_now(&engine, "l1", &["not copied"])
        .await
        .stamp
        .unwrap();
    let past = target.past_epochs().await.unwrap();
    let [end] = past.as_slice() else {
        panic!("{past:?}");
    };
    assert!(first <= *end && *end < later);
    let another = append_now(&target, "l1", &["another"]).await.stamp.unwrap();
    assert!(another.epoch > first.epoch);
    assert_eq!(
        values(&settled_entries(&target, "l1").await),
        [&b"copied"[..], b"another"]
    );
}

pub(crate) async fn tending_the_log_keeps_what_is_new(harness: Harness) {
    let engine = harness.open();
    append_now(&engine, "l1", &["unprepared"]).await;
    for before_ms in [0, 1_000_000] {
        engine.tend_log(before_ms).await.unwrap();
    }
    append_now(&engine, "l1", &["prepared"]).await;
    engine.tend_log(1_000_000).await.unwrap();
    let found = settled_entries(&engine, "l1").await;
    assert_eq!(values(&found), [&b"unprepared"[..], b"prepared"]);
    if engine.capabilities().keeps_log_by_time {
        let in_a_year = 4_000_000_000_000;
        engine.tend_log(in_a_year).await.unwrap();
        assert_eq!(settled_entries(&engine, "l1").await, []);
    }
}
