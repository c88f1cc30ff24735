//! Behaviours around the limits of an engine and its life: sizes, closing, reopening, copying.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tessera_core::engine::{CommitOutcome, EngineError, KeyRange, Scan};
use tessera_core::write_set::{Tally, WriteSet};

use crate::harness::{
    Harness, apply, bytes, collect, is_done, keys, put, range, read, read_tally, snapshot, writes,
};

pub(crate) async fn multi_get_answers_in_order(harness: Harness) {
    let engine = harness.open();
    let set = writes(|set| {
        for number in (0..300).step_by(2) {
            set.put(bytes(format!("k{number}")), bytes(number.to_string()));
        }
    });
    apply(&engine, set).await;
    let wanted: Vec<Bytes> = (0..300)
        .rev()
        .map(|number| bytes(format!("k{number}")))
        .collect();
    let found = snapshot(&engine).await.multi_get(&wanted).await.unwrap();
    let expected: Vec<Option<Bytes>> = (0..300_u32)
        .rev()
        .map(|number| number.is_multiple_of(2).then(|| bytes(number.to_string())))
        .collect();
    assert_eq!(found, expected);
    assert!(
        snapshot(&engine)
            .await
            .multi_get(&[])
            .await
            .unwrap()
            .is_empty()
    );
}

pub(crate) async fn long_keys_and_large_values_come_back_whole(harness: Harness) {
    let engine = harness.open();
    let limits = engine.capabilities();
    let key = Bytes::from(vec![b'k'; 64 << 10]);
    let value: Bytes = (0..16_u32 << 20)
        .map(|index| index.to_be_bytes()[3])
        .collect();
    assert!(limits.max_key_bytes >= key.len() && limits.max_value_bytes >= value.len());
    apply(&engine, writes(|set| set.put(key.clone(), value.clone()))).await;
    let snapshot = snapshot(&engine).await;
    assert_eq!(snapshot.get(&key).await.unwrap(), Some(value.clone()));
    let page = snapshot.scan(&Scan::new(KeyRange::all())).await.unwrap();
    assert!(page.entries == [(key, value)]);
}

pub(crate) async fn what_is_over_a_limit_is_refused_and_nothing_is_applied(harness: Harness) {
    let engine = harness.open();
    let limits = engine.capabilities();
    let long_key = Bytes::from(vec![b'k'; limits.max_key_bytes + 1]);
    let large_value = Bytes::from(vec![0; limits.max_value_bytes + 1]);
    let too_large = [
        ("key", writes(|set| set.put(long_key.clone(), bytes("x")))),
        ("key", writes(|set| set.guard(long_key.clone()))),
        (
            "key",
            writes(|set| set.delete_range(KeyRange::prefix(long_key.clone()))),
        ),
        (
            "value",
            writes(|set| set.put(bytes("k"), large_value.clone())),
        ),
        (
            "transaction",
            writes(|set| {
                let value = large_value.slice(1..);
                for number in 0..=limits.max_transaction_bytes / limits.max_value_bytes {
                    set.put(bytes(format!("k{number}")), value.clone());
                }
            }),
        ),
    ];
    for (expected, mut set) in too_large {
        set.put(bytes("companion"), bytes("x"));
        match snapshot(&engine).await.commit(set).await {
            Err(EngineError::TooLarge { what, size, limit }) => {
                assert_eq!(what, expected);
                assert!(size > limit);
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert!(keys(&engine, KeyRange::all()).await.is_empty());
    let longest = Bytes::from(vec![0xff; limits.max_key_bytes]);
    apply(&engine, writes(|set| set.put(longest.clone(), bytes("x")))).await;
    assert!(
        snapshot(&engine)
            .await
            .get(&longest)
            .await
            .unwrap()
            .is_some()
    );
    apply(&engine, writes(|set| set.delete_range(KeyRange::all()))).await;
    assert!(
        snapshot(&engine)
            .await
            .get(&longest)
            .await
            .unwrap()
            .is_none()
    );
}

pub(crate) async fn a_snapshot_held_over_many_commits_reads_its_moment_and_commits_or_conflicts(
    harness: Harness,
) {
    let engine = harness.open();
    apply(&engine, put("a", "old")).await;
    let untouched = snapshot(&engine).await;
    let touched = snapshot(&engine).await;
    apply(&engine, put("a", "new")).await;
    // More keys than the window of recent commits remembers.
    for round in 0..40 {
        let set = writes(|set| {
            for number in 0..10_000 {
                set.put(bytes(format!("filler {number} {round}")), bytes("x"));
            }
        });
        apply(&engine, set).await;
    }
    assert_eq!(
        touched.get(b"a").await.unwrap().as_deref(),
        Some(&b"old"[..])
    );
    let found = collect(touched.as_ref(), Scan::new(KeyRange::all())).await;
    assert_eq!(found, [(bytes("a"), bytes("old"))]);
    assert_eq!(
        touched.commit(put("a", "lost")).await.unwrap(),
        CommitOutcome::Conflict
    );
    // Nobody touched this key, but an engine that forgot may refuse.
    let outcome = untouched.commit(put("b", "1")).await.unwrap();
    assert_eq!(read(&engine, "b").await.is_some(), is_done(outcome));
    assert_eq!(read(&engine, "a").await.as_deref(), Some("new"));
}

pub(crate) async fn a_closed_engine_answers_unavailable(harness: Harness) {
    let engine = harness.open();
    apply(&engine, put("a", "1")).await;
    let held = snapshot(&engine).await;
    let other = snapshot(&engine).await;
    engine.close().await.unwrap();
    engine.close().await.unwrap();
    let unavailable = |error: EngineError| matches!(error, EngineError::Unavailable(_));
    assert!(unavailable(engine.snapshot().await.err().unwrap()));
    assert!(unavailable(
        engine.approximate_size(&KeyRange::all()).await.unwrap_err()
    ));
    assert!(unavailable(
        engine.checkpoint(&harness.path("copy")).await.unwrap_err()
    ));
    assert!(unavailable(held.get(b"a").await.unwrap_err()));
    assert!(unavailable(
        held.multi_get(&[bytes("a")]).await.unwrap_err()
    ));
    assert!(unavailable(
        held.scan(&Scan::new(KeyRange::all())).await.unwrap_err()
    ));
    assert!(unavailable(held.commit(put("a", "2")).await.unwrap_err()));
    assert!(unavailable(
        other.commit(WriteSet::default()).await.unwrap_err()
    ));
}

pub(crate) async fn closing_answers_every_waiting_commit(harness: Harness) {
    let engine = harness.open();
    let mut writers = Vec::new();
    for writer in 0..32 {
        let engine = Arc::clone(&engine);
        writers.push(tokio::spawn(async move {
            let mut acknowledged = 0;
            loop {
                let Ok(snapshot) = engine.snapshot().await else {
                    return acknowledged;
                };
                let set = put(&format!("{writer} {acknowledged}"), "x");
                match snapshot.commit(set).await {
                    Ok(outcome) if is_done(outcome) => acknowledged += 1,
                    Ok(outcome) => panic!("{outcome:?}"),
                    Err(EngineError::Unavailable(_)) => return acknowledged,
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    while !is_done(
        snapshot(&engine)
            .await
            .commit(put("last", "x"))
            .await
            .unwrap(),
    ) {}
    engine.close().await.unwrap();
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.push(writer.await.unwrap());
    }
    if harness.is_durable() {
        drop(engine);
        let engine = harness.open();
        for (writer, count) in acknowledged.iter().enumerate() {
            let found = keys(&engine, KeyRange::prefix(bytes(format!("{writer} "))))
                .await
                .len();
            // What was not acknowledged must not be there: these refusals came before applying.
            assert_eq!(found, *count, "writer {writer}");
        }
    }
}

pub(crate) async fn reopening_finds_everything(harness: Harness) {
    if !harness.is_durable() {
        return;
    }
    let engine = harness.open();
    let one = Tally { items: 1, bytes: 7 };
    for number in 0..200 {
        let set = writes(|set| {
            set.put(bytes(format!("k{number:03}")), bytes(number.to_string()));
            set.add(bytes("tally"), one);
        });
        apply(&engine, set).await;
    }
    apply(
        &engine,
        writes(|set| set.delete_range(range("k100", "k150"))),
    )
    .await;
    let version = snapshot(&engine).await.version();
    engine.close().await.unwrap();
    drop(engine);
    for _ in 0..3 {
        let engine = harness.open();
        assert_eq!(keys(&engine, KeyRange::prefix(bytes("k"))).await.len(), 150);
        assert_eq!(read(&engine, "k099").await.as_deref(), Some("99"));
        let expected = Tally {
            items: 200,
            bytes: 1_400,
        };
        assert_eq!(read_tally(&engine, "tally").await, Some(expected));
        assert!(snapshot(&engine).await.version() >= version);
        engine.close().await.unwrap();
    }
}

pub(crate) async fn an_engine_that_was_dropped_and_not_closed_opens_again_at_once(
    harness: Harness,
) {
    if !harness.is_durable() {
        return;
    }
    for round in 0..20 {
        let engine = harness.open();
        let key = |round: i32| format!("round {round}");
        if round > 0 {
            let before = read(&engine, &key(round - 1)).await;
            assert_eq!(before.as_deref(), Some("kept"));
        }
        apply(&engine, put(&key(round), "kept")).await;
        // The last one: nobody else holds it.
        drop(engine);
    }
}

pub(crate) async fn a_checkpoint_under_load_opens_and_is_consistent(harness: Harness) {
    let engine = harness.open();
    if !harness.has_checkpoints() {
        let refusal = engine.checkpoint(&harness.path("copy")).await.unwrap_err();
        assert!(matches!(refusal, EngineError::Unavailable(_)), "{refusal}");
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..4 {
        let (engine, stop) = (Arc::clone(&engine), Arc::clone(&stop));
        writers.push(tokio::spawn(async move {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                let set = writes(|set| {
                    for half in ["left", "right"] {
                        let key = format!("{half} {writer} {round}");
                        set.put(bytes(key), Bytes::from(vec![b'x'; 500]));
                    }
                    set.add(bytes("tally"), Tally { items: 2, bytes: 0 });
                });
                apply(&engine, set).await;
                round += 1;
            }
        }));
    }
    for copy in ["copy 1", "copy 2"] {
        apply(&engine, put(copy, "acknowledged before")).await;
        engine.checkpoint(&harness.path(copy)).await.unwrap();
        assert!(
            engine.checkpoint(&harness.path(copy)).await.is_err(),
            "it must not overwrite"
        );
        let opened = harness.open_at(copy);
        let halves = |half: &str| KeyRange::prefix(bytes(format!("{half} ")));
        let left = keys(&opened, halves("left")).await;
        let right = keys(&opened, halves("right")).await;
        let rest = |names: Vec<String>| -> Vec<String> {
            names
                .iter()
                .map(|name| name.split_once(' ').unwrap().1.to_owned())
                .collect()
        };
        let count = i64::try_from(left.len() + right.len()).unwrap();
        assert_eq!(rest(left), rest(right));
        let tally = read_tally(&opened, "tally").await.unwrap_or_default();
        assert_eq!(tally.items, count);
        assert_eq!(
            read(&opened, copy).await.as_deref(),
            Some("acknowledged before")
        );
        opened.close().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
}
