//! What is remembered of connections: long enough to tell how a commit ended, and not for ever.

use std::sync::Arc;
use std::time::Duration;

use tessera_core::engine::{CommitOutcome, Engine};
use tessera_storage::{Address, PostgresEngine};

use crate::cluster::{Cluster, new_schema_name};
use crate::proxy::{Fault, Proxy};
use crate::put;

/// How a commit ends whose answer is lost, while its connection is so old and so many servers start
/// before anybody can ask; and whether it was done.
async fn outcome(fault: Fault, age: &str, starts: usize) -> (CommitOutcome, bool) {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    let proxy = Proxy::start(cluster.primary_port()).await;
    let through = cluster.address_through(proxy.port, &schema).await;
    let direct = cluster.address(&schema).await;
    let engine: Arc<dyn Engine> = Arc::new(PostgresEngine::connect(&through, 4).await.unwrap());
    let warm = engine.snapshot().await.unwrap().commit(put("warm", "up"));
    assert!(matches!(warm.await.unwrap(), CommitOutcome::Done(_)));
    let watcher = PostgresEngine::connect(&direct, 2).await.unwrap();
    cluster
        .run(&format!(
            "UPDATE {schema}.tessera_connection SET opened = now() - interval '{age}'"
        ))
        .await;
    proxy.arm(fault);
    proxy.shut(true);
    let snapshot = engine.snapshot().await.unwrap();
    let commit = tokio::spawn(snapshot.commit(put("key", "value")));
    // Until the commit has arrived, or was lost on its way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..starts {
        PostgresEngine::connect(&direct, 2).await.unwrap();
    }
    proxy.shut(false);
    let outcome = commit.await.unwrap().unwrap();
    let found = watcher.snapshot().await.unwrap().get(b"key").await.unwrap();
    (outcome, found.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_never_concluded_from_a_row_that_is_not_there() {
    for age in [
        "0 s", "1 hour", "25 hours", "47 hours", "3 days", "400 days",
    ] {
        for starts in [0, 1, 2, 3] {
            let (done, found) = outcome(Fault::CutBehind, age, starts).await;
            assert!(found, "{age} {starts}");
            assert_ne!(done, CommitOutcome::Conflict, "{age} {starts}");
            let is_remembered = starts < 2 || !age.ends_with("days");
            let is_done = matches!(done, CommitOutcome::Done(_));
            assert!(is_done || !is_remembered, "{age} {starts} {done:?}");
            let (lost, found) = outcome(Fault::CutBefore, age, starts).await;
            assert!(!found, "{age} {starts}");
            assert!(!matches!(lost, CommitOutcome::Done(_)), "{age} {starts}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_connections_are_replaced_and_forgotten() {
    let (cluster, schema) = (Cluster::shared(), new_schema_name());
    cluster.address(&schema).await;
    let url = cluster.url_of_database("postgres");
    let url = format!("{url}&options=-csearch_path%3D{schema}&connection_age=1");
    let engine = PostgresEngine::connect(&Address::parse(&url).unwrap(), 4).await;
    let engine = engine.unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for round in 0..4 {
        let snapshot = engine.snapshot().await.unwrap();
        let outcome = snapshot
            .commit(put("key", &round.to_string()))
            .await
            .unwrap();
        assert!(matches!(outcome, CommitOutcome::Done(_)));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let known = known_connections(&schema).await;
        assert!(known.len() <= 2, "{known:?}");
        ids.extend(known);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(ids.len() >= 4, "{ids:?}");
}

async fn known_connections(schema: &str) -> Vec<Vec<u8>> {
    let url = Cluster::shared().url_of_database("postgres");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let query = format!("SELECT id FROM {schema}.tessera_connection");
    let rows = client.query(&query, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}
