//! Behaviours of scans and range deletes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tessera_core::engine::{CommitOutcome, Engine, KeyRange, Scan};
use tessera_core::write_set::WriteSet;

use crate::harness::{
    Harness, apply, bytes, collect, is_done, keys, put, range, read, snapshot, writes,
};

async fn fill(engine: &Arc<dyn Engine>, names: &[&str]) {
    let set = writes(|set| {
        for name in names {
            set.put(bytes(name), bytes(format!("value of {name}")));
        }
    });
    apply(engine, set).await;
}

fn scan(range: KeyRange) -> Scan {
    Scan::new(range)
}

fn names(entries: &[(Bytes, Bytes)]) -> Vec<&str> {
    entries
        .iter()
        .map(|(key, _)| std::str::from_utf8(key).unwrap())
        .collect()
}

pub(crate) async fn scans_return_the_range_in_order_and_in_reverse(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["b", "d", "a", "c", "b\0", "bb"]).await;
    let snapshot = snapshot(&engine).await;
    let rows = [
        (KeyRange::all(), vec!["a", "b", "b\0", "bb", "c", "d"]),
        (range("b", "c"), vec!["b", "b\0", "bb"]),
        (range("b\0", "d"), vec!["b\0", "bb", "c"]),
        (KeyRange::prefix(bytes("b")), vec!["b", "b\0", "bb"]),
        (
            KeyRange {
                start: bytes("bb"),
                end: None,
            },
            vec!["bb", "c", "d"],
        ),
        (range("x", "z"), vec![]),
    ];
    for (range, mut expected) in rows {
        let mut scan = scan(range);
        let page = snapshot.scan(&scan).await.unwrap();
        assert_eq!(names(&page.entries), expected);
        assert!(page.entries.iter().all(|(key, value)| {
            value
                .strip_prefix(b"value of ")
                .is_some_and(|name| name == key.as_ref())
        }));
        scan.reverse = true;
        expected.reverse();
        let page = snapshot.scan(&scan).await.unwrap();
        assert_eq!(names(&page.entries), expected);
    }
}

pub(crate) async fn pages_are_bounded_by_rows_and_by_bytes(harness: Harness) {
    let engine = harness.open();
    let set = writes(|set| {
        for number in 0..20 {
            set.put(bytes(format!("{number:02}")), bytes([b'x'; 98]));
        }
    });
    apply(&engine, set).await;
    let snapshot = snapshot(&engine).await;
    for reverse in [false, true] {
        let mut by_rows = scan(KeyRange::all());
        (by_rows.reverse, by_rows.max_rows) = (reverse, 7);
        let page = snapshot.scan(&by_rows).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (7, true));
        // 100 bytes each: the fourth brings the page to 400, beyond 350.
        let mut by_bytes = scan(KeyRange::all());
        (by_bytes.reverse, by_bytes.max_bytes) = (reverse, 350);
        let page = snapshot.scan(&by_bytes).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (4, true));
        for bounded in [by_rows, by_bytes] {
            let all = collect(snapshot.as_ref(), bounded).await;
            let mut found = names(&all);
            if reverse {
                found.reverse();
            }
            let expected: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
            assert_eq!(found, expected);
        }
        let mut whole = scan(KeyRange::all());
        whole.reverse = reverse;
        assert!(!snapshot.scan(&whole).await.unwrap().more);
    }
}

pub(crate) async fn a_page_has_at_least_one_entry(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["a", "b"]).await;
    let mut tiny = scan(KeyRange::all());
    (tiny.max_rows, tiny.max_bytes) = (0, 0);
    let page = snapshot(&engine).await.scan(&tiny).await.unwrap();
    assert_eq!((names(&page.entries), page.more), (vec!["a"], true));
}

pub(crate) async fn keys_only_scans_leave_values_out(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["a", "b", "c"]).await;
    let mut keys_only = scan(KeyRange::all());
    (keys_only.keys_only, keys_only.max_bytes) = (true, 3);
    let page = snapshot(&engine).await.scan(&keys_only).await.unwrap();
    assert_eq!(names(&page.entries), ["a", "b", "c"]);
    assert!(page.entries.iter().all(|(_, value)| value.is_empty()));
}

pub(crate) async fn empty_ranges_hold_nothing(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["a", "b", "c"]).await;
    for empty in [range("b", "b"), range("c", "a"), range("", "")] {
        for reverse in [false, true] {
            let mut scan = scan(empty.clone());
            scan.reverse = reverse;
            let page = snapshot(&engine).await.scan(&scan).await.unwrap();
            assert!(page.entries.is_empty() && !page.more);
        }
        assert_eq!(engine.approximate_size(&empty).await.unwrap(), 0);
        apply(&engine, writes(|set| set.delete_range(empty))).await;
    }
    assert_eq!(keys(&engine, KeyRange::all()).await, ["a", "b", "c"]);
}

pub(crate) async fn long_scans_page_through_everything_once(harness: Harness) {
    let engine = harness.open();
    let name = |number: usize| format!("{number:06}");
    for chunk in 0..10 {
        let set = writes(|set| {
            for number in chunk * 1_000..(chunk + 1) * 1_000 {
                set.put(bytes(name(number)), bytes([b'v'; 300]));
            }
        });
        apply(&engine, set).await;
    }
    let snapshot = snapshot(&engine).await;
    for (reverse, max_rows) in [(false, 1_000), (true, 1_000), (false, 333), (true, 9_999)] {
        let mut scan = scan(KeyRange::all());
        (scan.reverse, scan.max_rows, scan.max_bytes) = (reverse, max_rows, 1 << 20);
        let mut all = collect(snapshot.as_ref(), scan).await;
        if reverse {
            all.reverse();
        }
        let expected: Vec<String> = (0..10_000).map(name).collect();
        assert_eq!(names(&all), expected);
        assert!(all.iter().all(|(_, value)| value.len() == 300));
    }
}

pub(crate) async fn scans_under_concurrent_writes_see_one_moment(harness: Harness) {
    const ROWS: usize = 500;
    let engine = harness.open();
    let stop = Arc::new(AtomicBool::new(false));
    let write_round = |round: usize| {
        writes(|set| {
            for row in 0..ROWS {
                set.put(bytes(format!("row {row:04}")), bytes(round.to_string()));
            }
            // One row comes and goes.
            set.delete(bytes(format!("row {:04} extra", (round - 1) % ROWS)));
            set.put(
                bytes(format!("row {:04} extra", round % ROWS)),
                bytes(round.to_string()),
            );
        })
    };
    apply(&engine, write_round(1)).await;
    let writer = tokio::spawn({
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        async move {
            let mut round = 2;
            while !stop.load(Ordering::Relaxed) {
                apply(&engine, write_round(round)).await;
                round += 1;
            }
        }
    });
    for number in 0..40 {
        let snapshot = snapshot(&engine).await;
        let mut scan = scan(KeyRange::all());
        (scan.max_rows, scan.reverse) = (64, number % 2 == 0);
        let rows = collect(snapshot.as_ref(), scan).await;
        assert_eq!(rows.len(), ROWS + 1);
        let (_, first) = rows.first().unwrap();
        assert!(rows.iter().all(|(_, value)| value == first));
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

pub(crate) async fn a_range_delete_removes_exactly_its_range(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["a", "b", "b1", "c", "d"]).await;
    apply(&engine, writes(|set| set.delete_range(range("b", "c")))).await;
    assert_eq!(keys(&engine, KeyRange::all()).await, ["a", "c", "d"]);
    assert_eq!(read(&engine, "b1").await, None);
}

pub(crate) async fn a_range_delete_and_puts_apply_in_the_order_of_the_calls(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["a", "b", "c"]).await;
    let set = writes(|set| {
        set.put(bytes("b before"), bytes("covered"));
        set.delete_range(range("b", "c"));
        set.put(bytes("b after"), bytes("kept"));
    });
    apply(&engine, set).await;
    assert_eq!(keys(&engine, KeyRange::all()).await, ["a", "b after", "c"]);
}

pub(crate) async fn a_range_delete_without_end_removes_the_rest(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["a", "b", "c"]).await;
    let highest = Bytes::from(vec![0xff; 100]);
    apply(&engine, writes(|set| set.put(highest.clone(), bytes("x")))).await;
    let rest = KeyRange {
        start: bytes("b"),
        end: None,
    };
    apply(&engine, writes(|set| set.delete_range(rest))).await;
    assert_eq!(keys(&engine, KeyRange::all()).await, ["a"]);
}

fn delete_range(start: &str, end: &str) -> WriteSet {
    writes(|set| set.delete_range(range(start, end)))
}

/// Commits `newer` after the snapshot of `attempt` and tells whether `attempt` was refused.
async fn is_refused(engine: &Arc<dyn Engine>, newer: WriteSet, attempt: WriteSet) -> bool {
    let snapshot = snapshot(engine).await;
    apply(engine, newer).await;
    snapshot.commit(attempt).await.unwrap() == CommitOutcome::Conflict
}

pub(crate) async fn a_range_delete_conflicts_with_a_newer_write_in_it(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["b", "c"]).await;
    assert!(is_refused(&engine, put("b", "2"), delete_range("a", "c")).await);
    assert!(!is_refused(&engine, put("c", "2"), delete_range("a", "c")).await);
    assert!(is_refused(&engine, put("absent before", "1"), delete_range("a", "c")).await);
    // The first key belongs to a range, and a key may be longer than what an engine sorts by.
    assert!(is_refused(&engine, put("a", "1"), delete_range("a", "c")).await);
    let long = "b".repeat(5_000);
    assert!(is_refused(&engine, put(&long, "1"), delete_range("bb", "c")).await);
    assert!(!is_refused(&engine, put(&long, "2"), delete_range("bc", "c")).await);
    let delete = |key: &str| writes(|set| set.delete(bytes(key)));
    assert!(is_refused(&engine, delete(&long), delete_range("bb", "c")).await);
    fill(&engine, &["b"]).await;
    assert!(is_refused(&engine, delete("b"), delete_range("a", "c")).await);
    apply(&engine, delete_range("a", "c")).await;
    assert_eq!(keys(&engine, KeyRange::all()).await, ["c"]);
}

pub(crate) async fn a_write_conflicts_with_a_newer_range_delete_over_it(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["b", "b1", "c"]).await;
    let guard = |key: &str| writes(|set| set.guard(bytes(key)));
    assert!(is_refused(&engine, delete_range("a", "c"), put("b", "2")).await);
    fill(&engine, &["b1"]).await;
    assert!(is_refused(&engine, delete_range("a", "c"), guard("b1")).await);
    assert!(!is_refused(&engine, delete_range("a", "c"), put("c", "2")).await);
    assert!(!is_refused(&engine, delete_range("a", "c"), guard("c")).await);
    assert_eq!(keys(&engine, KeyRange::all()).await, ["c"]);
}

pub(crate) async fn overlapping_range_deletes_conflict(harness: Harness) {
    let engine = harness.open();
    fill(&engine, &["b"]).await;
    assert!(is_refused(&engine, delete_range("a", "c"), delete_range("b", "d")).await);
    fill(&engine, &["b"]).await;
    assert!(is_refused(&engine, delete_range("b", "d"), delete_range("a", "c")).await);
    fill(&engine, &["a", "b"]).await;
    assert!(!is_refused(&engine, delete_range("a", "b"), delete_range("b", "c")).await);
}

pub(crate) async fn scans_skip_long_runs_of_deleted_keys(harness: Harness) {
    let engine = harness.open();
    let name = |number: usize| bytes(format!("k{number:06}"));
    let fill = writes(|set| (0..5_000).for_each(|number| set.put(name(number), bytes("x"))));
    apply(&engine, fill).await;
    let delete = writes(|set| (10..4_990).for_each(|number| set.delete(name(number))));
    apply(&engine, delete).await;
    let snapshot = snapshot(&engine).await;
    for reverse in [false, true] {
        let mut scan = scan(KeyRange::all());
        (scan.reverse, scan.max_rows) = (reverse, 15);
        let found = collect(snapshot.as_ref(), scan).await;
        assert_eq!(found.len(), 20);
    }
}

pub(crate) async fn approximate_size_follows_the_data(harness: Harness) {
    let engine = harness.open();
    for number in 0..10 {
        // Bytes that do not compress, in two ranges of unequal size.
        let mut state = 88_172_645_463_325_252_u64 + number;
        let mut noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()
        };
        let value: Vec<u8> = (0..12_500).flat_map(|_| noise()).collect();
        apply(
            &engine,
            writes(|set| set.put(bytes(format!("a{number}")), value.into())),
        )
        .await;
        assert!(is_done(
            snapshot(&engine)
                .await
                .commit(put(&format!("b{number}"), "small"))
                .await
                .unwrap()
        ));
    }
    let large = engine.approximate_size(&range("a", "b")).await.unwrap();
    let small = engine.approximate_size(&range("b", "c")).await.unwrap();
    assert!((800_000..1_500_000).contains(&large), "{large}");
    assert!(small < 100_000, "{small}");
}
