//! Statements that wait for the same item share a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tessera_core::clock::Clock;
use tessera_core::engine::BoxFuture;
use tessera_core::store::Outcome;
use tessera_core::transaction::Transaction;
use tessera_core::{Error, Result, Store};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::interception::InterceptedEngine;
use crate::support::{
    assert_sound, body, insert, item, locator, name, new_container, options, upsert,
};

/// The item that everybody wants.
const HOT: usize = 1;
/// An item beside it.
const OTHER: usize = 2;

/// A store whose hot item is `0`, and its engine.
async fn store() -> (Store, InterceptedEngine) {
    let engine = InterceptedEngine::default();
    let opened = Store::open(Arc::new(engine.clone()), options(Clock::system()));
    let store = opened.await.unwrap();
    store
        .create_container(&name("c"), &new_container(vec![], 1))
        .await
        .unwrap();
    insert(&store, &name("c"), item(HOT, "0")).await.unwrap();
    (store, engine)
}

type Task<T> = JoinHandle<Result<Outcome<T>>>;

/// A statement of its own task that changes the hot item.
fn spawn<T, F>(store: &Store, statement: F) -> Task<T>
where
    F: for<'a> Fn(&'a mut Transaction) -> BoxFuture<'a, Result<T>> + Send + Sync + 'static,
    T: Send + 'static,
{
    let store = store.clone();
    tokio::spawn(async move {
        let (container, hot) = (name("c"), locator(HOT));
        store.run(&[(&container, &hot)], statement).await
    })
}

/// Counts one up. What it was before.
async fn increment(transaction: &mut Transaction) -> Result<usize> {
    let container = transaction.container(&name("c")).await?;
    let old = transaction.read(&container, &locator(HOT)).await?.unwrap();
    let count: usize = std::str::from_utf8(&old.body).unwrap().parse().unwrap();
    let new = item(HOT, (count + 1).to_string());
    transaction.replace(&container, &old, new).await?;
    Ok(count)
}

fn spawn_increment(store: &Store) -> Task<usize> {
    spawn(store, |transaction| Box::pin(increment(transaction)))
}

/// Holds the next commit back, with whoever makes it, until the semaphore has a permit; all who
/// are spawned meanwhile wait for that one.
async fn hold(store: &Store, engine: &InterceptedEngine) -> (Task<usize>, Arc<Semaphore>) {
    let release = Arc::new(Semaphore::new(0));
    let gate = Arc::clone(&release);
    engine.lay_ambush(
        |_| true,
        move || Box::pin(async move { drop(gate.acquire().await) }),
    );
    let first = spawn_increment(store);
    while engine.is_waiting() {
        tokio::task::yield_now().await;
    }
    (first, release)
}

/// Lets all tasks run as far as they can.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn hot(store: &Store) -> Option<String> {
    body(store, &name("c"), &locator(HOT)).await
}

#[tokio::test]
async fn those_who_wait_share_a_commit_and_each_pays_for_itself() {
    let (store, engine) = store().await;
    let before = engine.commits();
    let (first, release) = hold(&store, &engine).await;
    let others: Vec<_> = (0..20).map(|_| spawn_increment(&store)).collect();
    settle().await;
    release.add_permits(1);
    let first = first.await.unwrap().unwrap();
    let mut seen = Vec::new();
    for other in others {
        let outcome = other.await.unwrap().unwrap();
        assert_eq!(outcome.meter.charge(), first.meter.charge());
        assert!(outcome.version > first.version);
        seen.push(outcome.value);
    }
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
    assert_eq!(hot(&store).await.unwrap(), "21");
    assert_eq!(engine.commits() - before, 2);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn one_that_fails_is_undone_and_leaves_the_others_alone() {
    let (store, engine) = store().await;
    let (first, release) = hold(&store, &engine).await;
    let before = spawn_increment(&store);
    let failing = spawn(&store, |transaction| {
        Box::pin(async move {
            increment(transaction).await?;
            let container = transaction.container(&name("c")).await?;
            transaction.insert(&container, item(OTHER, "never")).await?;
            Err::<(), _>(Error::Rejected("on purpose".into()))
        })
    });
    let behind = spawn_increment(&store);
    settle().await;
    release.add_permits(1);
    first.await.unwrap().unwrap();
    assert_eq!(before.await.unwrap().unwrap().value, 1);
    let refused = failing.await.unwrap().unwrap_err();
    assert_eq!(refused, Error::Rejected("on purpose".into()));
    assert_eq!(behind.await.unwrap().unwrap().value, 2);
    assert_eq!(hot(&store).await.unwrap(), "3");
    assert_eq!(body(&store, &name("c"), &locator(OTHER)).await, None);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn the_first_and_the_last_may_fail_too() {
    let (store, engine) = store().await;
    let (first, release) = hold(&store, &engine).await;
    let spawn_failing = || {
        spawn(&store, |_| {
            Box::pin(async { Err::<(), _>(Error::Rejected("on purpose".into())) })
        })
    };
    let failing = [spawn_failing(), spawn_failing()];
    let middle = spawn_increment(&store);
    let last = spawn_failing();
    settle().await;
    release.add_permits(1);
    first.await.unwrap().unwrap();
    for failing in failing.into_iter().chain([last]) {
        failing.await.unwrap().unwrap_err();
    }
    assert_eq!(middle.await.unwrap().unwrap().value, 1);
    assert_eq!(hot(&store).await.unwrap(), "2");
}

#[tokio::test]
async fn a_conflict_is_one_for_all_and_nothing_is_lost() {
    let (store, engine) = store().await;
    let (first, release) = hold(&store, &engine).await;
    let others: Vec<_> = (0..10).map(|_| spawn_increment(&store)).collect();
    settle().await;
    // The first one is through its ambush; this is for the commit of the others.
    let writer = store.clone();
    engine.lay_ambush(
        |_| true,
        move || {
            Box::pin(async move { upsert(&writer, &name("c"), item(HOT, "100")).await.unwrap() })
        },
    );
    release.add_permits(1);
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert!(!engine.is_waiting());
    assert_eq!(hot(&store).await.unwrap(), "110");
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn nobody_is_refused_for_what_is_never_committed() {
    let (store, engine) = store().await;
    let (first, release) = hold(&store, &engine).await;
    let has_run = Arc::new(AtomicBool::new(false));
    let doubtful = spawn(&store, move |transaction| {
        let again = has_run.swap(true, Ordering::Relaxed);
        Box::pin(async move {
            let container = transaction.container(&name("c")).await?;
            if !again {
                transaction
                    .insert(&container, item(OTHER, "doubtful"))
                    .await?;
            }
            increment(transaction).await
        })
    });
    let behind = spawn(&store, |transaction| {
        Box::pin(async move {
            let container = transaction.container(&name("c")).await?;
            transaction.insert(&container, item(OTHER, "certain")).await
        })
    });
    settle().await;
    let writer = store.clone();
    engine.lay_ambush(
        |_| true,
        move || {
            Box::pin(async move { upsert(&writer, &name("c"), item(HOT, "100")).await.unwrap() })
        },
    );
    release.add_permits(1);
    first.await.unwrap().unwrap();
    doubtful.await.unwrap().unwrap();
    behind.await.unwrap().unwrap();
    let other = body(&store, &name("c"), &locator(OTHER)).await;
    assert_eq!(other.unwrap(), "certain");
    assert_eq!(hot(&store).await.unwrap(), "101");
}

#[tokio::test]
async fn one_that_is_called_off_in_the_middle_takes_nobody_with_it() {
    let (store, engine) = store().await;
    let (first, release) = hold(&store, &engine).await;
    let before = spawn_increment(&store);
    let stuck = spawn(&store, |transaction| {
        Box::pin(async move {
            increment(transaction).await?;
            std::future::pending::<Result<()>>().await
        })
    });
    let behind = spawn_increment(&store);
    settle().await;
    release.add_permits(1);
    first.await.unwrap().unwrap();
    settle().await;
    assert!(!before.is_finished() && !behind.is_finished());
    stuck.abort();
    let mut seen = [
        before.await.unwrap().unwrap().value,
        behind.await.unwrap().unwrap().value,
    ];
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
    assert_eq!(hot(&store).await.unwrap(), "3");
}

#[tokio::test]
async fn nobody_reads_what_is_older_than_itself() {
    let (store, engine) = store().await;
    let (first, release) = hold(&store, &engine).await;
    // The second one begins a transaction for itself and the third, and takes its time.
    let gate = Arc::new(Semaphore::new(0));
    let slow = Arc::clone(&gate);
    let second = spawn(&store, move |transaction| {
        let slow = Arc::clone(&slow);
        Box::pin(async move {
            drop(slow.acquire().await);
            increment(transaction).await
        })
    });
    let third = spawn_increment(&store);
    settle().await;
    release.add_permits(1);
    first.await.unwrap().unwrap();
    settle().await;
    insert(&store, &name("c"), item(OTHER, "news"))
        .await
        .unwrap();
    let late = spawn(&store, |transaction| {
        Box::pin(async move {
            let container = transaction.container(&name("c")).await?;
            let other = transaction.read(&container, &locator(OTHER)).await?;
            increment(transaction).await?;
            Ok(other.is_some())
        })
    });
    settle().await;
    gate.add_permits(1);
    second.await.unwrap().unwrap();
    third.await.unwrap().unwrap();
    assert!(late.await.unwrap().unwrap().value);
    assert_eq!(hot(&store).await.unwrap(), "4");
}
