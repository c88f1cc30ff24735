//! What goes over the wire: how often, in which order, and what happens when it breaks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tessera_core::engine::{CommitOutcome, Engine, KeyRange, Scan};
use tessera_core::write_set::Tally;
use tessera_storage::PostgresEngine;
use tokio::time::Instant;

use crate::cluster::{Cluster, new_schema_name};
use crate::proxy::{Fault, Proxy};
use crate::{bytes, put, writes};

/// Long enough that a busy machine does not make one round trip look like two.
const DELAY: Duration = Duration::from_millis(300);

async fn engine_behind_proxy() -> (PostgresEngine, Proxy) {
    let cluster = Cluster::shared();
    let proxy = Proxy::start(cluster.primary_port()).await;
    let address = cluster
        .address_through(proxy.port, &new_schema_name())
        .await;
    let engine = PostgresEngine::connect(&address, 8).await.unwrap();
    let snapshot = engine.snapshot().await.unwrap();
    let outcome = snapshot.commit(put("warm", "up")).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Done(_)), "{outcome:?}");
    (engine, proxy)
}

/// How often something is measured again that took longer than it should.
const ATTEMPTS: usize = 5;

/// How many answers were waited for one after the other: the fewest of some attempts, because a
/// busy machine makes them look like more and never like fewer.
async fn round_trips<T>(proxy: &Proxy, expected: u128, work: impl AsyncFn(usize) -> T) -> u128 {
    let mut fewest = u128::MAX;
    for attempt in 0..ATTEMPTS {
        proxy.set_delay(DELAY);
        let began = Instant::now();
        work(attempt).await;
        let took = began.elapsed();
        proxy.set_delay(Duration::ZERO);
        // The end of the last snapshot is answered in this time.
        tokio::time::sleep(DELAY * 2).await;
        fewest = fewest.min(took.as_millis() / DELAY.as_millis());
        if fewest <= expected {
            break;
        }
    }
    fewest
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_and_writes_take_as_few_round_trips_as_can_be() {
    let (engine, proxy) = engine_behind_proxy().await;
    let snapshot = async || engine.snapshot().await.unwrap();
    for attempt in 0..ATTEMPTS {
        let present = put(&format!("present {attempt}"), "1");
        snapshot().await.commit(present).await.unwrap();
    }
    let one_read = async |_: usize| snapshot().await.get(b"warm").await.unwrap();
    assert_eq!(round_trips(&proxy, 1, one_read).await, 1);
    let keys: Vec<Bytes> = (0..100).map(|number| bytes(format!("{number}"))).collect();
    let many_reads = async |_: usize| snapshot().await.multi_get(&keys).await.unwrap();
    assert_eq!(round_trips(&proxy, 1, many_reads).await, 1);
    let scan = Scan::new(KeyRange::all());
    let page = async |_: usize| snapshot().await.scan(&scan).await.unwrap();
    assert_eq!(round_trips(&proxy, 1, page).await, 1);

    let blind = async |_: usize| snapshot().await.commit(put("a", "1")).await.unwrap();
    assert_eq!(round_trips(&proxy, 1, blind).await, 1);
    let insert = async |attempt: usize| {
        let absent = format!("absent {attempt}");
        let snapshot = snapshot().await;
        snapshot.get(b"warm").await.unwrap();
        snapshot.get(absent.as_bytes()).await.unwrap();
        let set = writes(|set| {
            set.guard(bytes("warm"));
            set.guard(bytes("not looked at"));
            set.put(bytes(absent), bytes("1"));
            set.add(bytes("tally"), Tally { items: 1, bytes: 1 });
        });
        let outcome = snapshot.commit(set).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Done(_)));
    };
    assert_eq!(round_trips(&proxy, 3, insert).await, 3);
    let delete = async |attempt: usize| {
        let present = format!("present {attempt}");
        let snapshot = snapshot().await;
        snapshot.get(present.as_bytes()).await.unwrap();
        let set = writes(|set| set.delete(bytes(present)));
        let outcome = snapshot.commit(set).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Done(_)));
    };
    assert_eq!(round_trips(&proxy, 2, delete).await, 2);
}

/// The kinds of messages that a client sent, and the texts of those that carry one.
fn messages(mut sent: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let [kind, a, b, c, d, ..] = sent {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (message, rest) = sent.split_at(length + 1);
        found.push(match kind {
            b'Q' => String::from_utf8_lossy(&message[5..message.len() - 1]).into_owned(),
            _ => char::from(*kind).to_string(),
        });
        sent = rest;
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_never_overtakes_the_writes() {
    let (engine, proxy) = engine_behind_proxy().await;
    proxy.take_sent();
    let set = writes(|set| {
        set.guard(bytes("guarded"));
        set.add(bytes("tally"), Tally { items: 1, bytes: 1 });
        // More than one statement carries.
        for number in 0..10_u8 {
            set.put(vec![number].into(), vec![number; 1 << 20].into());
        }
    });
    let snapshot = engine.snapshot().await.unwrap();
    let outcome = snapshot.commit(set).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Done(_)));
    let sent = messages(&proxy.take_sent());
    let expected = {
        // Bind, execute, sync: guards twice, values four times, the end of guards, tally, record.
        let statement = ["B", "E", "S"];
        let mut all = vec!["BEGIN ISOLATION LEVEL REPEATABLE READ"];
        all.extend(statement.iter().cycle().take(3 * 9));
        all.push("COMMIT");
        all
    };
    assert_eq!(sent, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let (engine, proxy) = engine_behind_proxy().await;
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let tally = Tally { items: 1, bytes: 1 };
    for (round, fault, is_done) in [
        (1, Fault::CutBehind, true),
        (2, Fault::CutBefore, false),
        (3, Fault::CutBehind, true),
        (4, Fault::None, true),
    ] {
        proxy.arm(fault);
        let mut set = put(&format!("round {round}"), "x");
        set.add(bytes("tally"), tally);
        let snapshot = engine.snapshot().await.unwrap();
        let outcome = snapshot.commit(set).await.unwrap();
        assert_eq!(
            matches!(outcome, CommitOutcome::Done(_)),
            is_done,
            "{fault:?} {outcome:?}"
        );
        assert!(is_done || outcome == CommitOutcome::Conflict, "{outcome:?}");
        let snapshot = engine.snapshot().await.unwrap();
        let found = snapshot.get(format!("round {round}").as_bytes()).await;
        assert_eq!(found.unwrap().is_some(), is_done, "{fault:?}");
    }
    let snapshot = engine.snapshot().await.unwrap();
    let found = snapshot.get(b"tally").await.unwrap().unwrap();
    let expected = tally.plus(tally).plus(tally);
    assert_eq!(Tally::decode(&found), Some(expected));
}
