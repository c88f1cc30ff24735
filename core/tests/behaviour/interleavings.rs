//! Interleavings that decide whether nothing is lost, each forced at the moment that matters.

use std::sync::Arc;

use tessera_core::clock::Clock;
use tessera_core::definition::NewIndex;
use tessera_core::key::{system, system_range};
use tessera_core::rebuild::NewPlacement;
use tessera_core::write_set::{Write, WriteSet};
use tessera_core::{Error, Store};

use crate::interception::InterceptedEngine;
use crate::support::*;

async fn filled(count: usize) -> (Store, InterceptedEngine) {
    let engine = InterceptedEngine::default();
    let store = Store::open(Arc::new(engine.clone()), options(Clock::system()))
        .await
        .unwrap();
    store
        .create_container(&name("c"), &new_container(vec![], 1))
        .await
        .unwrap();
    for number in 0..count {
        let new = item(number, format!("city={};tag=a", number % 3));
        insert(&store, &name("c"), new).await.unwrap();
    }
    (store, engine)
}

fn by_city() -> NewPlacement {
    NewPlacement {
        schema: "city".into(),
        partitions: 1,
        ..NewPlacement::default()
    }
}

/// A page of a rebuild saves its job; so does its beginning, which writes no item.
fn is_page(writes: &WriteSet) -> bool {
    let jobs = system_range(system::JOB);
    let saves_job = writes
        .writes()
        .iter()
        .any(|(key, write)| jobs.contains(key) && matches!(write, Write::Put(_)));
    saves_job && writes.guards().len() > 1
}

/// The change that ends a job removes its record.
fn ends_job(writes: &WriteSet) -> bool {
    let jobs = system_range(system::JOB);
    writes
        .writes()
        .iter()
        .any(|(key, write)| jobs.contains(key) && *write == Write::Delete)
}

#[tokio::test]
async fn an_item_deleted_while_its_page_is_copied_stays_deleted() {
    let (store, engine) = filled(20).await;
    let writer = store.clone();
    engine.lay_ambush(is_page, move || {
        Box::pin(async move {
            assert!(delete(&writer, &name("c"), locator(5)).await.unwrap());
        })
    });
    store.relocate(&name("c"), &by_city()).await.unwrap();
    assert!(!engine.is_waiting());
    assert_eq!(all(&store, &name("c")).await.len(), 19);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_delete_begun_before_its_item_was_copied_leaves_no_ghost() {
    let (store, engine) = filled(20).await;
    let job = store
        .begin_relocation(&name("c"), &by_city())
        .await
        .unwrap();
    let mut earlier = store.begin().await.unwrap();
    let container = earlier.container(&name("c")).await.unwrap();
    earlier.delete(&container, &locator(5)).await.unwrap();
    // All pages are copied when the relocation is about to end.
    engine.lay_ambush(ends_job, move || {
        Box::pin(async move {
            assert_eq!(earlier.commit().await.unwrap_err(), Error::Conflict);
        })
    });
    store.run_job(job).await.unwrap();
    assert!(!engine.is_waiting());
    assert_eq!(all(&store, &name("c")).await.len(), 20);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn items_written_while_a_split_takes_over_are_counted_once() {
    let (store, engine) = filled(40).await;
    let writer = store.clone();
    engine.lay_ambush(ends_job, move || {
        Box::pin(async move {
            for number in 100..130 {
                insert(&writer, &name("c"), item(number, "late"))
                    .await
                    .unwrap();
            }
            delete(&writer, &name("c"), locator(3)).await.unwrap();
        })
    });
    store.split_partition(&name("c"), 0, Some(0)).await.unwrap();
    assert!(!engine.is_waiting());
    assert_sound(&store, &name("c")).await;

    let writer = store.clone();
    engine.lay_ambush(ends_job, move || {
        Box::pin(async move {
            insert(&writer, &name("c"), item(200, "later"))
                .await
                .unwrap();
        })
    });
    let first = container(&store, &name("c"))
        .await
        .partitions
        .iter()
        .next()
        .unwrap()
        .id;
    store.merge_partitions(&name("c"), first).await.unwrap();
    assert!(!engine.is_waiting());
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn an_index_entry_changed_while_its_page_is_added_is_the_newer_one() {
    let (store, engine) = filled(20).await;
    let writer = store.clone();
    engine.lay_ambush(is_page, move || {
        Box::pin(async move {
            upsert(&writer, &name("c"), item(4, "tag=b")).await.unwrap();
            delete(&writer, &name("c"), locator(5)).await.unwrap();
        })
    });
    store
        .create_index(&name("c"), &NewIndex::new("tag"), None)
        .await
        .unwrap();
    assert!(!engine.is_waiting());
    assert_eq!(find(&store, &name("c"), "tag", "b").await, [locator(4)]);
    assert_eq!(find(&store, &name("c"), "tag", "a").await.len(), 18);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_claim_of_another_item_survives_while_its_index_is_built() {
    let (store, _engine) = filled(0).await;
    insert(&store, &name("c"), item(1, "mail=x")).await.unwrap();
    let job = store
        .begin_index(&name("c"), &NewIndex::unique("mail"), None)
        .await
        .unwrap();
    insert(&store, &name("c"), item(2, "mail=x")).await.unwrap();
    upsert(&store, &name("c"), item(1, "mail=y")).await.unwrap();
    let refused = insert(&store, &name("c"), item(3, "mail=x")).await;
    assert!(
        matches!(refused, Err(Error::DuplicateValue { .. })),
        "{refused:?}"
    );
    store.run_job(job).await.unwrap();
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_relocation_cancelled_at_the_last_moment_does_not_switch_over() {
    let (store, engine) = filled(20).await;
    let job = store
        .begin_relocation(&name("c"), &by_city())
        .await
        .unwrap();
    let before = container(&store, &name("c")).await.storage();
    let other = store.clone();
    engine.lay_ambush(ends_job, move || {
        Box::pin(async move { other.cancel_job(job).await.unwrap() })
    });
    let ended = store.run_job(job).await.unwrap_err();
    assert!(matches!(ended, Error::NotFound(_)), "{ended}");
    assert!(!engine.is_waiting());
    assert_eq!(container(&store, &name("c")).await.storage(), before);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_misfit_written_at_the_last_moment_keeps_the_relocation_from_switching_over() {
    let (store, engine) = filled(20).await;
    let writer = store.clone();
    engine.lay_ambush(ends_job, move || {
        Box::pin(async move {
            let misfit = item(50, "tag=a");
            insert(&writer, &name("c"), misfit).await.unwrap();
        })
    });
    let ended = store.relocate(&name("c"), &by_city()).await.unwrap_err();
    assert!(matches!(ended, Error::Rejected(_)), "{ended}");
    assert!(!engine.is_waiting());
    assert_eq!(all(&store, &name("c")).await.len(), 21);
    assert_sound(&store, &name("c")).await;
}
