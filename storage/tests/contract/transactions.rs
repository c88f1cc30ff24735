//! Behaviours of snapshots and commits: who sees what, and who may not commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tessera_core::engine::{CommitOutcome, Done, Engine, KeyRange, Scan};
use tessera_core::write_set::{Tally, WriteSet};

use crate::harness::{
    Harness, apply, bytes, collect, commit, is_done, put, range, read, read_tally, snapshot, writes,
};

pub(crate) async fn a_commit_is_seen_by_the_next_snapshot_and_not_by_an_older_one(
    harness: Harness,
) {
    let engine = harness.open();
    apply(&engine, put("a", "1")).await;
    let older = snapshot(&engine).await;
    apply(&engine, put("a", "2")).await;
    assert_eq!(older.get(b"a").await.unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(read(&engine, "a").await.as_deref(), Some("2"));
    assert_eq!(read(&engine, "absent").await, None);
}

pub(crate) async fn a_lost_update_is_refused(harness: Harness) {
    let engine = harness.open();
    apply(&engine, put("a", "0")).await;
    let first = snapshot(&engine).await;
    let second = snapshot(&engine).await;
    assert!(is_done(first.commit(put("a", "first")).await.unwrap()));
    let outcome = second.commit(put("a", "second")).await.unwrap();
    assert_eq!(outcome, CommitOutcome::Conflict);
    assert_eq!(read(&engine, "a").await.as_deref(), Some("first"));
}

pub(crate) async fn write_skew_is_refused_through_a_guard(harness: Harness) {
    let engine = harness.open();
    apply(&engine, put("doctor a", "on call")).await;
    apply(&engine, put("doctor b", "on call")).await;
    let leave = |leaving: &str, staying: &str| {
        writes(|set| {
            set.guard(bytes(staying));
            set.put(bytes(leaving), bytes("home"));
        })
    };
    let first = snapshot(&engine).await;
    let second = snapshot(&engine).await;
    assert!(is_done(
        first.commit(leave("doctor a", "doctor b")).await.unwrap()
    ));
    let outcome = second.commit(leave("doctor b", "doctor a")).await.unwrap();
    assert_eq!(outcome, CommitOutcome::Conflict);
    assert_eq!(read(&engine, "doctor b").await.as_deref(), Some("on call"));
}

pub(crate) async fn a_guard_on_an_absent_key_refuses_its_creation_meanwhile(harness: Harness) {
    let engine = harness.open();
    let guarded = writes(|set| {
        set.guard(bytes("absent"));
        set.put(bytes("other"), bytes("1"));
    });
    let undisturbed = snapshot(&engine).await;
    assert!(is_done(undisturbed.commit(guarded.clone()).await.unwrap()));
    let disturbed = snapshot(&engine).await;
    apply(&engine, put("absent", "now here")).await;
    assert_eq!(
        disturbed.commit(guarded).await.unwrap(),
        CommitOutcome::Conflict
    );
}

pub(crate) async fn guards_alone_are_checked(harness: Harness) {
    let engine = harness.open();
    let guards = writes(|set| set.guard(bytes("a")));
    let first = snapshot(&engine).await;
    let second = snapshot(&engine).await;
    assert!(is_done(first.commit(guards.clone()).await.unwrap()));
    apply(&engine, put("a", "1")).await;
    assert_eq!(
        second.commit(guards.clone()).await.unwrap(),
        CommitOutcome::Conflict
    );
    assert!(is_done(commit(&engine, guards).await));
}

pub(crate) async fn writes_to_other_keys_do_not_conflict(harness: Harness) {
    let engine = harness.open();
    let first = snapshot(&engine).await;
    let second = snapshot(&engine).await;
    assert!(is_done(first.commit(put("a", "1")).await.unwrap()));
    assert!(is_done(second.commit(put("b", "1")).await.unwrap()));
}

pub(crate) async fn an_old_transaction_of_untouched_keys_commits_beside_any_load(harness: Harness) {
    let engine = harness.open();
    apply(&engine, put("a", "0")).await;
    apply(&engine, put("guarded", "0")).await;
    apply(&engine, put("changed", "0")).await;
    let old = || async { snapshot(&engine).await };
    let (updates, inserts, deletes) = (old().await, old().await, old().await);
    let (guards_changed, overwrites, guards_created) = (old().await, old().await, old().await);
    // More than the embedded engines remember; a database of its own remembers in another way.
    let rounds = if engine.capabilities().shared { 2 } else { 40 };
    for round in 0..rounds {
        let unrelated = writes(|set| {
            for number in 0..5_000 {
                set.put(bytes(format!("unrelated {round} {number}")), bytes("x"));
            }
        });
        apply(&engine, unrelated).await;
    }
    apply(&engine, put("changed", "1")).await;
    apply(&engine, put("created", "1")).await;
    let guarding = |key: &str, written: &str| {
        writes(|set| {
            set.guard(bytes(key));
            set.put(bytes(written), bytes("1"));
        })
    };
    let absent = writes(|set| set.delete(bytes("absent")));
    assert!(is_done(
        updates.commit(guarding("guarded", "a")).await.unwrap()
    ));
    assert!(is_done(inserts.commit(put("b", "1")).await.unwrap()));
    assert!(is_done(deletes.commit(absent).await.unwrap()));
    for (snapshot, set) in [
        (guards_changed, guarding("changed", "c")),
        (overwrites, put("changed", "2")),
        (guards_created, guarding("created", "c")),
    ] {
        let outcome = snapshot.commit(set).await.unwrap();
        assert_eq!(outcome, CommitOutcome::Conflict);
    }
    assert_eq!(read(&engine, "a").await.as_deref(), Some("1"));
    assert_eq!(read(&engine, "changed").await.as_deref(), Some("1"));
    assert_eq!(read(&engine, "c").await, None);
}

pub(crate) async fn of_32_writers_of_one_unique_value_exactly_one_wins(harness: Harness) {
    let engine = harness.open();
    for round in 0..20 {
        let claim = format!("claim {round}");
        let mut writers = Vec::new();
        for writer in 0..32 {
            let (engine, claim) = (Arc::clone(&engine), claim.clone());
            writers.push(tokio::spawn(async move {
                let snapshot = snapshot(&engine).await;
                if snapshot.get(claim.as_bytes()).await.unwrap().is_some() {
                    return None;
                }
                let writes = put(&claim, &writer.to_string());
                is_done(snapshot.commit(writes).await.unwrap()).then_some(writer.to_string())
            }));
        }
        let mut winners = Vec::new();
        for writer in writers {
            winners.extend(writer.await.unwrap());
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(read(&engine, &claim).await, winners.pop());
    }
}

pub(crate) async fn tallies_of_32_writers_add_up_without_conflicts(harness: Harness) {
    const ADDITIONS: i64 = 50;
    let engine = harness.open();
    let mut writers = Vec::new();
    for writer in 0..32_i64 {
        let engine = Arc::clone(&engine);
        writers.push(tokio::spawn(async move {
            for addition in 0..ADDITIONS {
                let delta = Tally {
                    items: 1,
                    bytes: writer - addition,
                };
                let set = writes(|set| {
                    set.add(bytes("tally"), delta);
                    set.put(bytes(format!("{writer} {addition}")), bytes("x"));
                });
                apply(&engine, set).await;
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let sum: i64 = (0..32)
        .flat_map(|w| (0..ADDITIONS).map(move |a| w - a))
        .sum();
    let expected = Tally {
        items: 32 * ADDITIONS,
        bytes: sum,
    };
    assert_eq!(read_tally(&engine, "tally").await, Some(expected));
    let snapshot = snapshot(&engine).await;
    let scanned = collect(
        snapshot.as_ref(),
        Scan::new(KeyRange::prefix(&b"tally"[..])),
    )
    .await;
    assert_eq!(scanned, [(bytes("tally"), bytes(expected.encode()))]);
}

pub(crate) async fn tallies_follow_deletes_in_commit_order(harness: Harness) {
    let engine = harness.open();
    let one = Tally {
        items: 1,
        bytes: 10,
    };
    let add = || writes(|set| set.add(bytes("t"), one));
    apply(&engine, add()).await;
    apply(&engine, add()).await;
    assert_eq!(read_tally(&engine, "t").await, Some(one.plus(one)));
    apply(&engine, writes(|set| set.delete(bytes("t")))).await;
    assert_eq!(read_tally(&engine, "t").await, None);
    apply(&engine, add()).await;
    assert_eq!(read_tally(&engine, "t").await, Some(one));
    apply(&engine, writes(|set| set.delete_range(range("t", "u")))).await;
    assert_eq!(read_tally(&engine, "t").await, None);

    // Sent together, so that an engine which groups commits has them in one group. Commits that
    // overlap have an order only where one queue takes them all.
    if engine.capabilities().shared {
        return;
    }
    let mut commits = Vec::new();
    let delete_range = || writes(|set| set.delete_range(range("t", "u")));
    let sets = [add(), add(), delete_range(), add(), add(), add()];
    for set in sets {
        let snapshot = snapshot(&engine).await;
        let mut commit = snapshot.commit(set);
        // The first poll queues the commit, so the queue has them in this order.
        tokio::select! {
            biased;
            outcome = &mut commit => assert!(is_done(outcome.unwrap())),
            () = std::future::ready(()) => commits.push(commit),
        }
    }
    for commit in commits {
        assert!(is_done(commit.await.unwrap()));
    }
    let expected = one.plus(one).plus(one);
    assert_eq!(read_tally(&engine, "t").await, Some(expected));
}

const ACCOUNTS: usize = 50;
const START_BALANCE: i64 = 100;

fn account(number: usize) -> String {
    // Spread over the key space like partitions.
    format!("{:02x} account {number}", number * 37 % 256)
}

async fn transfer(engine: &Arc<dyn Engine>, from: usize, to: usize) -> CommitOutcome {
    let snapshot = snapshot(engine).await;
    let mut set = WriteSet::default();
    for (number, change) in [(from, -1), (to, 1)] {
        let key = account(number);
        let balance = snapshot.get(key.as_bytes()).await.unwrap().unwrap();
        let balance: i64 = std::str::from_utf8(&balance).unwrap().parse().unwrap();
        set.put(bytes(&key), bytes((balance + change).to_string()));
    }
    snapshot.commit(set).await.unwrap()
}

pub(crate) async fn the_sum_of_all_accounts_never_changes(harness: Harness) {
    let engine = harness.open();
    for number in 0..ACCOUNTS {
        apply(&engine, put(&account(number), &START_BALANCE.to_string())).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for _ in 0..2 {
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        readers.push(tokio::spawn(async move {
            let mut sums = 0;
            while !stop.load(Ordering::Relaxed) || sums == 0 {
                let snapshot = snapshot(&engine).await;
                let mut scan = Scan::new(KeyRange::all());
                scan.max_rows = 7;
                let balances = collect(snapshot.as_ref(), scan).await;
                let number =
                    |value: &[u8]| -> i64 { std::str::from_utf8(value).unwrap().parse().unwrap() };
                let sum: i64 = balances.iter().map(|(_, value)| number(value)).sum();
                assert_eq!(sum, START_BALANCE * i64::try_from(ACCOUNTS).unwrap());
                sums += 1;
            }
        }));
    }
    let mut writers = Vec::new();
    for writer in 0..8 {
        let engine = Arc::clone(&engine);
        writers.push(tokio::spawn(async move {
            for step in 0..100 {
                let from = (writer * 31 + step * 17) % ACCOUNTS;
                let to = (from + 1 + step % (ACCOUNTS - 1)) % ACCOUNTS;
                while !is_done(transfer(&engine, from, to).await) {}
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
}

pub(crate) async fn counters_incremented_with_retries_count_every_success(harness: Harness) {
    let engine = harness.open();
    apply(&engine, put("counter", "0")).await;
    let mut writers = Vec::new();
    for _ in 0..8 {
        let engine = Arc::clone(&engine);
        writers.push(tokio::spawn(async move {
            let mut successes = 0;
            while successes < 25 {
                let snapshot = snapshot(&engine).await;
                let value = snapshot.get(b"counter").await.unwrap().unwrap();
                let value: u64 = std::str::from_utf8(&value).unwrap().parse().unwrap();
                let set = put("counter", &(value + 1).to_string());
                successes += i32::from(is_done(snapshot.commit(set).await.unwrap()));
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(read(&engine, "counter").await.as_deref(), Some("200"));
}

pub(crate) async fn an_empty_commit_is_done(harness: Harness) {
    let engine = harness.open();
    assert!(is_done(commit(&engine, WriteSet::default()).await));
    let mut synced = WriteSet::default();
    synced.demand_sync();
    assert!(is_done(commit(&engine, synced.clone()).await));
    synced.put(bytes("a"), bytes("1"));
    assert!(is_done(commit(&engine, synced).await));
}

pub(crate) async fn versions_grow_and_snapshots_know_theirs(harness: Harness) {
    let engine = harness.open();
    let mut newest = snapshot(&engine).await.version();
    for _ in 0..10 {
        let outcome = commit(&engine, put("a", "1")).await;
        let CommitOutcome::Done(Done { version, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(version > newest, "{version} after {newest}");
        newest = version;
        let seen = snapshot(&engine).await.version();
        assert_eq!(seen, newest);
    }
}
