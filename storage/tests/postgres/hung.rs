//! A database that does not answer and closes nothing: a stopped process, as a lost host would be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tessera_core::engine::{CommitOutcome, Engine, EngineError};
use tessera_storage::{Address, PostgresEngine};

use crate::cluster::{Cluster, new_schema_name};
use crate::put;

const ANSWER: Duration = Duration::from_secs(2);

async fn get(engine: &dyn Engine) -> Result<Option<bytes::Bytes>, EngineError> {
    engine.snapshot().await?.get(b"key").await
}

/// That the answer came in time, and that it is the error that says what happened.
fn check(began: Instant, outcome: Result<Option<bytes::Bytes>, EngineError>) {
    let took = began.elapsed();
    assert!(took < ANSWER + Duration::from_secs(2), "{took:?}");
    let error = outcome.unwrap_err();
    assert!(matches!(error, EngineError::Unavailable(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("did not answer within 2s"), "{text}");
    assert!(text.contains("127.0.0.1:"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_does_not_answer_is_noticed_and_used_again() {
    let mut cluster = Cluster::start();
    let schema = new_schema_name();
    cluster.address(&schema).await;
    let url = cluster.url_of_database("postgres");
    let url = format!("{url}&options=-csearch_path%3D{schema}&answer_timeout=2");
    let engine = PostgresEngine::connect(&Address::parse(&url).unwrap(), 8).await;
    let engine: Arc<dyn Engine> = Arc::new(engine.unwrap());
    let snapshot = engine.snapshot().await.unwrap();
    let done = snapshot.commit(put("key", "before")).await.unwrap();
    assert!(matches!(done, CommitOutcome::Done(_)));
    engine.probe().await.unwrap();
    // One that has read already, one that begins, one that needs a new connection, and a commit.
    let begun = engine.snapshot().await.unwrap();
    begun.get(b"key").await.unwrap();
    let committing = engine.snapshot().await.unwrap();
    committing.get(b"key").await.unwrap();
    for round in 0..2 {
        tokio::task::block_in_place(|| cluster.tell("stop-primary"));
        let began = Instant::now();
        let (one, other) = tokio::join!(get(engine.as_ref()), get(engine.as_ref()));
        check(began, one);
        check(began, other);
        if round == 0 {
            let began = Instant::now();
            check(began, begun.get(b"key").await);
        }
        let began = Instant::now();
        assert!(engine.probe().await.is_err());
        assert!(began.elapsed() < Duration::from_secs(2));
        tokio::task::block_in_place(|| cluster.tell("continue-primary"));
        let back = get(engine.as_ref()).await.unwrap();
        assert_eq!(back.as_deref(), Some(&b"before"[..]), "{round}");
        engine.probe().await.unwrap();
    }
    tokio::task::block_in_place(|| cluster.tell("stop-primary"));
    let commit = tokio::spawn(committing.commit(put("key", "after")));
    tokio::time::sleep(ANSWER * 2).await;
    tokio::task::block_in_place(|| cluster.tell("continue-primary"));
    let outcome = commit.await.unwrap().unwrap();
    let found = get(engine.as_ref()).await.unwrap();
    let is_there = found.as_deref() == Some(&b"after"[..]);
    assert_ne!(outcome, CommitOutcome::Unknown);
    assert_eq!(matches!(outcome, CommitOutcome::Done(_)), is_there);
}
