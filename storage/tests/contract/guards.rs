//! Behaviours of guards: what a commit is refused for although it would change nothing of it.

use std::sync::Arc;
use std::time::Duration;

use tessera_core::engine::{CommitOutcome, Engine, KeyRange, Scan, Snapshot};
use tessera_core::key;
use tessera_core::write_set::{Tally, WriteSet};

use crate::harness::{
    Harness, apply, bytes, collect, commit, is_done, put, read, snapshot, writes,
};

/// Keys of several lengths and of several kinds of the core's.
fn names() -> Vec<String> {
    let mut names: Vec<String> = ["absent", "u claim", "v version", "n tally", "i", "~"]
        .map(str::to_owned)
        .into();
    for length in [63, 1_999, 2_000, 2_001, 9_000] {
        names.push("k".repeat(length));
    }
    names
}

fn contend(key: &str) -> WriteSet {
    writes(|set| {
        set.guard(bytes(key));
        set.delete(bytes(key));
    })
}

/// Contends, and changes something else besides.
fn contend_and_put(key: &str, other: &str) -> WriteSet {
    let mut set = contend(key);
    set.put(bytes(other), bytes("x"));
    set
}

/// Two snapshots of one moment, of which the first may look at the key.
async fn two(
    engine: &Arc<dyn Engine>,
    key: &str,
    looks: bool,
) -> (Box<dyn Snapshot>, Box<dyn Snapshot>) {
    let pair = (snapshot(engine).await, snapshot(engine).await);
    if looks {
        pair.0.get(key.as_bytes()).await.unwrap();
        pair.1.get(key.as_bytes()).await.unwrap();
    }
    pair
}

pub(crate) async fn two_guarded_deletes_of_one_absent_key_conflict(harness: Harness) {
    let engine = harness.open();
    for key in names() {
        for looks in [false, true] {
            let (first, second) = two(&engine, &key, looks).await;
            let outcome = first.commit(contend_and_put(&key, "first")).await.unwrap();
            assert!(is_done(outcome), "{key} {looks}");
            let outcome = second.commit(contend_and_put(&key, "second")).await;
            assert_eq!(outcome, Ok(CommitOutcome::Conflict), "{key} {looks}");
            assert_eq!(read(&engine, "second").await, None);
            assert_eq!(read(&engine, &key).await, None);
        }
    }
}

pub(crate) async fn a_guarded_delete_conflicts_with_a_newer_put(harness: Harness) {
    let engine = harness.open();
    for key in names() {
        for looks in [false, true] {
            let (deleter, other) = two(&engine, &key, looks).await;
            assert!(is_done(other.commit(put(&key, "new")).await.unwrap()));
            let outcome = deleter.commit(contend(&key)).await;
            assert_eq!(outcome, Ok(CommitOutcome::Conflict), "{key} {looks}");
            assert_eq!(read(&engine, &key).await.as_deref(), Some("new"));
            apply(&engine, writes(|set| set.delete(bytes(&key)))).await;
        }
    }
}

pub(crate) async fn two_puts_of_one_absent_key_conflict(harness: Harness) {
    let engine = harness.open();
    for key in names() {
        for (looks, guards) in [(false, false), (false, true), (true, false), (true, true)] {
            let (first, second) = two(&engine, &key, looks).await;
            let set = |value: &str| {
                let mut set = put(&key, value);
                if guards {
                    set.guard(bytes(&key));
                }
                set
            };
            assert!(is_done(first.commit(set("first")).await.unwrap()), "{key}");
            let outcome = second.commit(set("second")).await;
            assert_eq!(outcome, Ok(CommitOutcome::Conflict), "{key} {looks}");
            assert_eq!(read(&engine, &key).await.as_deref(), Some("first"));
            apply(&engine, writes(|set| set.delete(bytes(&key)))).await;
        }
    }
}

pub(crate) async fn two_guarded_deletes_of_one_present_key_conflict(harness: Harness) {
    let engine = harness.open();
    for key in names() {
        for looks in [false, true] {
            apply(&engine, put(&key, "here")).await;
            let (first, second) = two(&engine, &key, looks).await;
            assert!(is_done(first.commit(contend(&key)).await.unwrap()));
            let outcome = second.commit(contend(&key)).await;
            assert_eq!(outcome, Ok(CommitOutcome::Conflict), "{key} {looks}");
        }
    }
}

pub(crate) async fn a_guarded_delete_that_was_never_committed_refuses_nobody(harness: Harness) {
    let engine = harness.open();
    for key in names() {
        let (dropped, second) = two(&engine, &key, true).await;
        drop(dropped);
        // Refused for something else: nothing of it is left.
        let refused = snapshot(&engine).await;
        apply(&engine, put("other", "newer")).await;
        let outcome = refused.commit(contend_and_put(&key, "other")).await;
        assert_eq!(outcome, Ok(CommitOutcome::Conflict));
        assert!(
            is_done(second.commit(contend(&key)).await.unwrap()),
            "{key}"
        );
    }
}

pub(crate) async fn a_refused_guarded_delete_succeeds_from_a_fresh_snapshot(harness: Harness) {
    let engine = harness.open();
    for key in names() {
        let (first, second) = two(&engine, &key, false).await;
        assert!(is_done(first.commit(contend(&key)).await.unwrap()));
        assert!(!is_done(second.commit(contend(&key)).await.unwrap()));
        for _ in 0..3 {
            apply(&engine, contend(&key)).await;
        }
    }
}

pub(crate) async fn a_guarded_delete_and_a_range_delete_apply_both(harness: Harness) {
    let engine = harness.open();
    for key in names() {
        apply(&engine, put(&key, "old")).await;
        let (first, second) = two(&engine, &key, false).await;
        let range = writes(|set| {
            set.delete_range(KeyRange::prefix(bytes(&key)));
            set.guard(bytes(&key));
        });
        assert!(is_done(first.commit(range).await.unwrap()), "{key}");
        let outcome = second.commit(contend(&key)).await;
        assert_eq!(outcome, Ok(CommitOutcome::Conflict), "{key}");
        assert_eq!(read(&engine, &key).await, None);
    }
}

/// The rule of the test: one entry for each value.
async fn add_unless_there(engine: &Arc<dyn Engine>, value: &str, writer: usize) -> bool {
    let snapshot = snapshot(engine).await;
    let entries = Scan::new(KeyRange::prefix(bytes(format!("x {value} "))));
    if !collect(snapshot.as_ref(), entries).await.is_empty() {
        return false;
    }
    let mut set = contend(&format!("u {value}"));
    set.put(bytes(format!("x {value} {writer}")), bytes("x"));
    is_done(snapshot.commit(set).await.unwrap())
}

pub(crate) async fn contenders_for_an_absent_key_keep_a_rule_among_them(harness: Harness) {
    let engine = harness.open();
    for round in 0..20 {
        let mut writers = Vec::new();
        for writer in 0..8 {
            let engine = Arc::clone(&engine);
            writers.push(tokio::spawn(async move {
                add_unless_there(&engine, &format!("value {round}"), writer).await
            }));
        }
        let mut winners = 0;
        for writer in writers {
            winners += usize::from(writer.await.unwrap());
        }
        assert_eq!(winners, 1, "of value {round}");
    }
}

pub(crate) async fn an_old_contender_for_an_absent_key_is_refused(harness: Harness) {
    let engine = harness.open();
    // The contended key alone, beside others, and beside so many that they are compared in parts.
    for beside in [0, 1, 700] {
        let contending = || {
            writes(|set| {
                for number in 0..beside {
                    set.put(bytes(format!("beside {number}")), bytes("x"));
                }
                set.guard(bytes("absent"));
                set.delete(bytes("absent"));
            })
        };
        apply(&engine, contending()).await;
        let old = engine.snapshot_to_keep().await.unwrap();
        assert_eq!(old.get(b"never written").await, Ok(None));
        apply(&engine, contending()).await;
        grow_old(&engine).await;
        let outcome = old.commit(contending()).await.unwrap();
        assert_eq!(outcome, CommitOutcome::Conflict, "{beside}");
        assert!(is_done(commit(&engine, contending()).await));
    }
}

/// Makes the snapshots that are open so old that the engine compares what they write with the
/// newest data: an embedded one by more commits than it remembers, a database by time.
async fn grow_old(engine: &Arc<dyn Engine>) {
    if engine.capabilities().shared {
        return tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for round in 0..40 {
        let unrelated = writes(|set| {
            for number in 0..5_000 {
                set.put(bytes(format!("unrelated {round} {number}")), bytes("x"));
            }
        });
        apply(engine, unrelated).await;
    }
}

pub(crate) async fn a_guarded_version_key_conflicts_with_every_change_of_it(harness: Harness) {
    let engine = harness.open();
    for (storage, looks) in [
        (0, true),
        (1, false),
        (255, true),
        (1 << 40, false),
        (u64::MAX, true),
    ] {
        let version = key::definition_version(storage);
        let put = |value: &str| writes(|set| set.put(version.clone(), bytes(value)));
        let changes: [(&str, WriteSet); 5] = [
            ("create", put("1")),
            ("change", put("2")),
            ("drop", writes(|set| set.delete(version.clone()))),
            ("create again", put("3")),
            (
                "drop all",
                writes(|set| set.delete_range(KeyRange::prefix(version.clone()))),
            ),
        ];
        for (name, change) in changes {
            let guarded = writes(|set| {
                set.guard(version.clone());
                set.put(bytes(name), bytes("x"));
            });
            let (early, late) = (snapshot(&engine).await, snapshot(&engine).await);
            if looks {
                late.get(&version).await.unwrap();
            }
            let outcome = early.commit(guarded.clone()).await.unwrap();
            assert!(is_done(outcome), "{storage} {name}");
            apply(&engine, change).await;
            apply(&engine, writes(|set| set.delete(bytes(name)))).await;
            let only_guarded = writes(|set| {
                set.guard(version.clone());
                set.put(bytes("never"), bytes("x"));
            });
            let outcome = late.commit(only_guarded).await;
            assert_eq!(outcome, Ok(CommitOutcome::Conflict), "{storage} {name}");
            assert_eq!(read(&engine, "never").await, None);
        }
    }
}

pub(crate) async fn writers_that_guard_one_key_do_not_conflict(harness: Harness) {
    let engine = harness.open();
    let version = key::definition_version(7);
    apply(&engine, writes(|set| set.put(version.clone(), bytes("1")))).await;
    let mut writers = Vec::new();
    for writer in 0..16 {
        let (engine, version) = (Arc::clone(&engine), version.clone());
        writers.push(tokio::spawn(async move {
            for step in 0..10 {
                let snapshot = snapshot(&engine).await;
                snapshot.get(&version).await.unwrap();
                let set = writes(|set| {
                    set.guard(version.clone());
                    set.put(bytes(format!("i {writer} {step}")), bytes("x"));
                    set.add(bytes("n"), Tally { items: 1, bytes: 1 });
                });
                assert!(is_done(snapshot.commit(set).await.unwrap()));
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}
