//! Renames, truncates, drops and restarts beside splits and index builds: nothing stays unfinished.

use crate::support::*;
use bytes::Bytes;
use proptest::prelude::*;
use tessera_core::definition::{IndexState, NewIndex};
use tessera_core::engine::Engine;
use tessera_core::job::JobId;
use tessera_core::key::{self, PartitionId, system};
use tessera_core::name::ContainerName;
use tessera_core::write_set::WriteSet;
use tessera_core::{Error, Store};

async fn filled(items: usize) -> Store {
    let store = open_store().await;
    store
        .create_container(&name("c"), &new_container(vec![], 2))
        .await
        .unwrap();
    for number in 0..items {
        insert(&store, &name("c"), item(number, format!("mail=m{number}")))
            .await
            .unwrap();
    }
    store
}

/// Nothing is half done, everything agrees, and partitions can be split again.
async fn assert_finished(store: &Store, container: &str) {
    let name = name(container);
    assert_eq!(store.jobs().await.unwrap(), []);
    let now = crate::support::container(store, &name).await;
    assert!(now.partitions.iter().all(|it| it.heirs.is_empty()));
    let states = now.definition.indexes.iter().map(|index| index.state);
    assert!(states.into_iter().all(|state| state == IndexState::Ready));
    assert_sound(store, &name).await;
    let id = now.partitions.locate(5).id;
    store.split_partition(&name, id, Some(5)).await.unwrap();
    assert_sound(store, &name).await;
}

/// Removes the records of all jobs, as earlier versions did after a rename or a truncate.
async fn lose_jobs(store: &Store) {
    let engine: &dyn Engine = store.engine().as_ref();
    let snapshot = engine.snapshot().await.unwrap();
    let mut writes = WriteSet::default();
    for job in store.jobs().await.unwrap() {
        writes.delete(key::system_key(system::JOB, &job.id.to_be_bytes()));
    }
    snapshot.commit(writes).await.unwrap();
}

/// Renames the container while a job is under way, which then goes on: in the same process, or in
/// the one that opens the data after it.
async fn renamed_meanwhile(store: Store, job: JobId, restarts: bool) -> Store {
    store
        .rename_container(&name("c"), &name("d"))
        .await
        .unwrap();
    insert(&store, &name("d"), item(77, "mail=late"))
        .await
        .unwrap();
    if restarts {
        let store = reopened(store).await;
        store.settle().await.unwrap();
        return store;
    }
    store.run_job(job).await.unwrap();
    store
}

#[tokio::test]
async fn a_split_goes_on_under_another_name() {
    for restarts in [false, true] {
        let store = filled(50).await;
        let split = store.begin_split(&name("c"), 0, None).await.unwrap();
        let store = renamed_meanwhile(store, split.job, restarts).await;
        assert_eq!(container(&store, &name("d")).await.partitions.count(), 3);
        assert_finished(&store, "d").await;
    }
}

#[tokio::test]
async fn an_index_is_built_under_another_name() {
    for restarts in [false, true] {
        let store = filled(50).await;
        let new = NewIndex::new("mail");
        let job = store.begin_index(&name("c"), &new, None).await.unwrap();
        let store = renamed_meanwhile(store, job, restarts).await;
        assert_eq!(find(&store, &name("d"), "mail", "late").await.len(), 1);
        assert_finished(&store, "d").await;
    }
}

#[tokio::test]
async fn truncating_completes_the_indexes_that_were_being_built() {
    for restarts in [false, true] {
        let mut store = filled(50).await;
        let new = NewIndex::unique("mail");
        let job = store.begin_index(&name("c"), &new, None).await.unwrap();
        store.begin_split(&name("c"), 1, None).await.unwrap();
        if restarts {
            store = reopened(store).await;
        }
        store.truncate_container(&name("c")).await.unwrap();
        insert(&store, &name("c"), item(1, "mail=m1"))
            .await
            .unwrap();
        if !restarts {
            let gone = store.run_job(job).await.unwrap_err();
            assert!(matches!(gone, Error::NotFound(_)), "{gone}");
        }
        assert_finished(&store, "c").await;
    }
}

#[tokio::test]
async fn what_has_lost_its_job_is_healed_at_the_next_start() {
    let store = filled(80).await;
    store.begin_split(&name("c"), 0, None).await.unwrap();
    let new = NewIndex::new("mail");
    store.begin_index(&name("c"), &new, None).await.unwrap();
    lose_jobs(&store).await;
    insert(&store, &name("c"), item(90, "mail=between"))
        .await
        .unwrap();
    let refused = store
        .split_partition(&name("c"), 0, None)
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Rejected(_)), "{refused}");
    let store = reopened(store).await;
    store.settle().await.unwrap();
    assert_eq!(find(&store, &name("c"), "mail", "m7").await.len(), 1);
    assert_finished(&store, "c").await;
}

#[tokio::test]
async fn a_job_that_cannot_be_read_disturbs_no_other() {
    let store = filled(20).await;
    let unknown = key::system_key(system::JOB, &1_000_000_u64.to_be_bytes());
    let mut writes = WriteSet::default();
    let task = br#"{"id":1000000,"container":"?","task":{"Levitate":{}}}"#;
    writes.put(unknown, Bytes::from_static(task));
    let snapshot = store.engine().snapshot().await.unwrap();
    snapshot.commit(writes).await.unwrap();
    store.begin_split(&name("c"), 0, None).await.unwrap();
    let store = reopened(store).await;
    store.settle().await.unwrap();
    assert_finished(&store, "c").await;
}

/// One thing that may happen beside a split or a build.
#[derive(Clone, Copy, Debug)]
enum Event {
    BeginSplit(u8),
    BeginMerge(u8),
    BeginIndex,
    DropIndex,
    Rename,
    Truncate,
    Insert(u8),
    Restart,
    LoseJobs,
    Settle,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => any::<u8>().prop_map(Event::BeginSplit),
        2 => any::<u8>().prop_map(Event::BeginMerge),
        3 => Just(Event::BeginIndex),
        1 => Just(Event::DropIndex),
        2 => Just(Event::Rename),
        2 => Just(Event::Truncate),
        4 => any::<u8>().prop_map(Event::Insert),
        2 => Just(Event::Restart),
        1 => Just(Event::LoseJobs),
        1 => Just(Event::Settle),
    ];
    prop::collection::vec(event, 1..14)
}

/// The number of some partition.
async fn pick(store: &Store, name: &ContainerName, which: u8) -> PartitionId {
    let partitions = container(store, name).await.partitions.clone();
    let chosen = usize::from(which) % partitions.count();
    partitions.iter().nth(chosen).unwrap().id
}

async fn happen(store: Store, current: &mut String, event: Event) -> Store {
    let at = name(current);
    // Refusals are part of the play: what counts is that everything is finished in the end.
    match event {
        Event::BeginSplit(which) => {
            let id = pick(&store, &at, which).await;
            store.begin_split(&at, id, None).await.ok();
        }
        Event::BeginMerge(which) => {
            let id = pick(&store, &at, which).await;
            store.begin_merge(&at, id).await.ok();
        }
        Event::BeginIndex => {
            store
                .begin_index(&at, &NewIndex::new("mail"), None)
                .await
                .ok();
        }
        Event::DropIndex => {
            store.drop_index(&at, "mail", None).await.ok();
        }
        Event::Rename => {
            let to = format!("{current}x");
            store.rename_container(&at, &name(&to)).await.unwrap();
            *current = to;
        }
        Event::Truncate => {
            store.truncate_container(&at).await.unwrap();
        }
        Event::Insert(number) => {
            let new = item(usize::from(number), format!("mail=m{number}"));
            upsert(&store, &at, new).await.unwrap();
        }
        Event::Restart => return reopened(store).await,
        Event::LoseJobs => lose_jobs(&store).await,
        Event::Settle => store.settle().await.unwrap(),
    }
    store
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_happens_in_between_everything_is_finished_after_a_restart(events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut store = filled(30).await;
            let mut current = "c".to_owned();
            for event in events {
                store = happen(store, &mut current, event).await;
            }
            let store = reopened(store).await;
            store.settle().await.unwrap();
            assert_finished(&store, &current).await;
        });
    }
}
