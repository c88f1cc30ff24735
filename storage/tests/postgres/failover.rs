//! The primary is killed under load and a standby takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tessera_core::engine::{CommitOutcome, Engine, KeyRange, Scan};
use tessera_core::write_set::Tally;
use tessera_storage::PostgresEngine;
use tokio::time::Instant;

use crate::cluster::{Cluster, new_schema_name};
use crate::{bytes, writes};

const WRITERS: usize = 8;

/// Commits numbered keys until told to stop, and returns which were answered.
async fn write(engine: Arc<PostgresEngine>, name: String, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let key = format!("{name} {number:06}");
        let set = writes(|set| {
            set.put(bytes(&key), bytes("x"));
            set.add(bytes("tally"), Tally { items: 1, bytes: 0 });
        });
        let committed = match engine.snapshot().await {
            Ok(snapshot) => snapshot.commit(set).await,
            Err(error) => Err(error),
        };
        match committed {
            Ok(CommitOutcome::Done(_)) => acknowledged.push(key),
            Ok(CommitOutcome::Conflict) => {}
            Ok(CommitOutcome::Unknown) => panic!("{key} was not resolved"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    acknowledged
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_service_comes_back() {
    let mut cluster = Cluster::start();
    let address = cluster.address(&new_schema_name()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    let mut engines = Vec::new();
    for server in 0..2 {
        let engine = Arc::new(PostgresEngine::connect(&address, 16).await.unwrap());
        for writer in 0..WRITERS {
            let name = format!("{server} {writer}");
            let stop = Arc::clone(&stop);
            writers.push(tokio::spawn(write(Arc::clone(&engine), name, stop)));
        }
        engines.push(engine);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    tokio::task::block_in_place(|| cluster.tell("kill-primary"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    tokio::task::block_in_place(|| cluster.tell("promote 1"));
    let promoted = Instant::now();
    for engine in &engines {
        loop {
            let snapshot = engine.snapshot().await.unwrap();
            let set = writes(|set| set.put(bytes("back"), bytes("again")));
            if let Ok(CommitOutcome::Done(_)) = snapshot.commit(set).await {
                break;
            }
        }
    }
    let back = promoted.elapsed();
    assert!(back < Duration::from_secs(10), "{back:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let snapshot = engines[0].snapshot().await.unwrap();
    let mut scan = Scan::new(KeyRange::new(bytes("0"), bytes("2")));
    let mut found = std::collections::BTreeSet::new();
    loop {
        let page = snapshot.scan(&scan).await.unwrap();
        found.extend(page.entries.iter().map(|(key, _)| key.clone()));
        match page.entries.last() {
            Some((last, _)) if page.more => scan = scan.after(last),
            _ => break,
        }
    }
    let lost = acknowledged
        .iter()
        .filter(|key| !found.contains(key.as_bytes()));
    assert_eq!(lost.count(), 0, "of {}", acknowledged.len());
    let tally = Tally::decode(&snapshot.get(b"tally").await.unwrap().unwrap()).unwrap();
    assert_eq!(usize::try_from(tally.items).unwrap(), found.len());
    let (answered, present) = (acknowledged.len(), found.len());
    assert_eq!(answered, present, "what was not answered was not done");
    println!("{answered} commits answered, back {back:?} after the promotion");
}
