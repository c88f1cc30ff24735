//! The background: no kind of work waits for another, and stopping waits for none.

use std::sync::Arc;
use std::time::Duration;

use crate::interception::InterceptedEngine;
use crate::support::*;
use tessera_core::background::Background;
use tessera_core::clock::Clock;
use tessera_core::write_set::WriteSet;
use tessera_core::{Store, key};

const NOW: u64 = 1_000_000;
const ENOUGH: Duration = Duration::from_secs(20);

/// Only the reaper deletes ranges.
fn reaps(writes: &WriteSet) -> bool {
    !writes.range_deletes().is_empty()
}

async fn dropped_and_expiring() -> (Store, InterceptedEngine, Clock) {
    let (engine, clock) = (InterceptedEngine::default(), Clock::manual(NOW));
    let store = Store::open(Arc::new(engine.clone()), options(clock.clone()))
        .await
        .unwrap();
    for container in ["c", "dropped"] {
        store
            .create_container(&name(container), &new_container(vec![], 1))
            .await
            .unwrap();
    }
    let expiring = item(1, "x").expiring_at(NOW + 500);
    insert(&store, &name("c"), expiring).await.unwrap();
    for number in 0..3_000 {
        let new = item(number, "x");
        insert(&store, &name("dropped"), new).await.unwrap();
    }
    store.drop_container(&name("dropped")).await.unwrap();
    (store, engine, clock)
}

#[tokio::test]
async fn expiry_goes_on_while_the_reaper_is_stuck_and_both_stop_at_once() {
    let (store, engine, clock) = dropped_and_expiring().await;
    engine.lay_ambush(reaps, || Box::pin(std::future::pending()));
    let background = Background::start(store.clone());
    clock.advance(1_000);
    let expired = async {
        while engine.is_waiting() || keys_in(&store, key::expiries(0, u64::MAX - 1)).await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(ENOUGH, expired).await.unwrap();
    tokio::time::timeout(ENOUGH, background.stop())
        .await
        .unwrap();
    store.settle().await.unwrap();
    assert_sound(&store, &name("c")).await;
}
