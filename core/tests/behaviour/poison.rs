//! One thing that cannot be read stops nothing that goes on by itself: it stays, is named in the
//! log, and whatever stands behind it has its turn.

use bytes::Bytes;
use tessera_core::clock::Clock;
use tessera_core::definition::NewIndex;
use tessera_core::engine::Scan;
use tessera_core::item::NewItem;
use tessera_core::key::{self, StorageId, system};
use tessera_core::rebuild::NewPlacement;
use tessera_core::write_set::WriteSet;
use tessera_core::{Error, Result, Store};

use crate::support::*;

const NOW: u64 = 1_000_000;

/// What stands in the place of a value that cannot be read: cut at every length of its header, and
/// a body that the front end does not know.
fn damages() -> Vec<Vec<u8>> {
    let cut = (0..16).map(|length| vec![7; length]);
    let unknown_body = [&[0; 8], &NOW.to_be_bytes()[..], UNREADABLE].concat();
    cut.chain([unknown_body]).collect()
}

async fn put(store: &Store, key: Bytes, value: &[u8]) {
    let mut writes = WriteSet::default();
    writes.put(key, Bytes::copy_from_slice(value));
    let snapshot = store.engine().snapshot().await.unwrap();
    snapshot.commit(writes).await.unwrap();
}

/// Makes every third item unreadable; answers how many that are.
async fn poison(store: &Store, storage: StorageId, damage: &[u8]) -> usize {
    let snapshot = store.engine().snapshot().await.unwrap();
    let page = snapshot
        .scan(&Scan::new(key::items(storage)))
        .await
        .unwrap();
    let chosen: Vec<Bytes> = page.entries.into_iter().map(|(key, _)| key).collect();
    let chosen: Vec<&Bytes> = chosen.iter().step_by(3).collect();
    for key in &chosen {
        put(store, (*key).clone(), damage).await;
    }
    chosen.len()
}

async fn filled(clock: Clock, items: usize, expires_at_ms: Option<u64>) -> (Store, StorageId) {
    let store = open_store_at(clock).await;
    let new = new_container(vec![NewIndex::new("tag")], 1);
    store.create_container(&name("c"), &new).await.unwrap();
    for number in 0..items {
        let new = NewItem {
            expires_at_ms,
            ..item(number, format!("tag=t;mail=m{number}"))
        };
        insert(&store, &name("c"), new).await.unwrap();
    }
    let storage = container(&store, &name("c")).await.storage();
    (store, storage)
}

#[tokio::test]
async fn expiry_passes_by_what_it_cannot_read() {
    for damage in damages() {
        let clock = Clock::manual(NOW);
        let (store, storage) = filled(clock.clone(), 30, Some(NOW + 10)).await;
        // More than a step of marks, and one that is no mark at all.
        for number in 100..250 {
            let late = item(number, "tag=u").expiring_at(NOW + 20);
            insert(&store, &name("c"), late).await.unwrap();
        }
        let mut no_mark = key::expiries(0, NOW).start.to_vec();
        no_mark.extend_from_slice(b"\0\0\0\0\0\0\0\x01?");
        put(&store, no_mark.into(), b"").await;
        let poisoned = poison(&store, storage, &damage).await;
        clock.advance(30);
        store.settle().await.unwrap();
        assert_eq!(
            keys_in(&store, key::items(storage)).await,
            poisoned,
            "{damage:?}"
        );
        // Again and again, with new ones behind it.
        insert(&store, &name("c"), item(999, "tag=v").expiring_at(NOW + 31))
            .await
            .unwrap();
        clock.advance(10);
        store.settle().await.unwrap();
        assert_eq!(keys_in(&store, key::items(storage)).await, poisoned);
        // Dropping the container takes what could not be read with it.
        store.drop_container(&name("c")).await.unwrap();
        store.settle().await.unwrap();
        assert_eq!(keys_in(&store, key::items(storage)).await, 0);
    }
}

#[tokio::test]
async fn a_split_counts_what_it_cannot_read() {
    for damage in damages() {
        let (store, storage) = filled(Clock::manual(NOW), 60, None).await;
        let poisoned = poison(&store, storage, &damage).await;
        let (left, right) = store.split_partition(&name("c"), 0, None).await.unwrap();
        assert_eq!(store.jobs().await.unwrap(), []);
        let now = container(&store, &name("c")).await;
        let transaction = store.begin().await.unwrap();
        let rows = transaction.statistics(&now).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.tally.items).sum::<i64>(), 60);
        assert!(rows.iter().all(|row| row.tally.items > 0), "{rows:?}");
        drop(transaction);
        if damage.len() < 16 {
            let faults = store.verify(&name("c")).await.unwrap();
            let named = |fault: &&String| fault.contains("cannot be read");
            assert_eq!(faults.iter().filter(named).count(), poisoned);
        }
        store.merge_partitions(&name("c"), left).await.unwrap();
        let merged = container(&store, &name("c")).await;
        assert!(merged.partitions.get(right).is_none());
    }
}

#[tokio::test]
async fn a_survey_leaves_out_what_it_cannot_read() {
    for damage in damages() {
        let (store, storage) = filled(Clock::manual(NOW), 60, None).await;
        let poisoned = poison(&store, storage, &damage).await;
        let mut survey = store.survey(&name("c")).await.unwrap();
        let mut seen = 0;
        while let Some(items) = survey.next().await.unwrap() {
            seen += items.len();
        }
        // The body that the front end does not know is of an item that has expired by now.
        assert_eq!(seen, 60 - poisoned);
    }
}

/// How a rebuild ends beside items that cannot be read: undone, for a reason that names one, and
/// beside it others come to their end.
async fn ends_undone(damage: &[u8], index: bool) -> Result<()> {
    let (store, storage) = filled(Clock::manual(NOW - 1), 40, None).await;
    let fine = new_container(vec![], 1);
    store.create_container(&name("fine"), &fine).await.unwrap();
    insert(&store, &name("fine"), item(1, "mail=x")).await?;
    poison(&store, storage, damage).await;
    let new = NewIndex::new("mail");
    let placement = NewPlacement {
        schema: Bytes::from_static(b"mail"),
        partitions: 1,
        ..NewPlacement::default()
    };
    let job = match index {
        true => store.begin_index(&name("c"), &new, None).await?,
        false => store.begin_relocation(&name("c"), &placement).await?,
    };
    store.begin_index(&name("fine"), &new, None).await?;
    let ended = store.run_job(job).await;
    store.settle().await?;
    // The job of the other container is this process's own.
    for job in store.jobs().await? {
        store.run_job(job.id).await?;
    }
    assert_eq!(store.jobs().await?, []);
    assert_eq!(find(&store, &name("fine"), "mail", "x").await.len(), 1);
    let now = container(&store, &name("c")).await;
    assert!(now.definition.index("mail").is_none() && now.definition.relocation.is_none());
    ended
}

#[tokio::test]
async fn a_rebuild_that_meets_something_unreadable_is_undone_and_says_which() {
    for damage in damages() {
        for index in [true, false] {
            let error = ends_undone(&damage, index).await.unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{error}");
            let is_cut = damage.len() < 16;
            assert_eq!(
                error.to_string().contains("item of key 69"),
                is_cut,
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn an_index_of_values_beyond_a_limit_is_undone() {
    let store = open_store().await;
    let new = new_container(vec![], 1);
    store.create_container(&name("c"), &new).await.unwrap();
    let long = format!("mail={}", "x".repeat(300 << 10));
    insert(&store, &name("c"), item(1, long)).await.unwrap();
    let (container_name, index) = (name("c"), NewIndex::new("mail"));
    let built = store.create_index(&container_name, &index, None).await;
    let error = built.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(store.jobs().await.unwrap(), []);
    let now = container(&store, &name("c")).await;
    assert!(now.definition.index("mail").is_none());
}

#[tokio::test]
async fn the_reaper_passes_by_what_it_cannot_read() {
    for junk in [&b""[..], b"\0", b"junk", &[0xff; 11], &[0; 13]] {
        let (store, storage) = filled(Clock::manual(NOW), 20, None).await;
        // Before and behind what is really waiting.
        put(&store, key::system_key(system::REAP, junk), b"").await;
        let behind = [&[0xff][..], junk].concat();
        put(&store, key::system_key(system::REAP, &behind), b"").await;
        store.drop_container(&name("c")).await.unwrap();
        store.settle().await.unwrap();
        assert_eq!(keys_in(&store, key::items(storage)).await, 0, "{junk:?}");
    }
}

#[tokio::test]
async fn splitting_by_size_passes_by_what_it_cannot_read() {
    for junk in [&b""[..], b"{}", b"junk", &[0xff; 15], &[0; 17]] {
        let (store, storage) = filled(Clock::manual(NOW), 3, None).await;
        let new = new_container(vec![], 1);
        store.create_container(&name("large"), &new).await.unwrap();
        let body = "x".repeat(usize::try_from(MAX_PARTITION_BYTES).unwrap() / 10);
        for number in 0..12 {
            insert(&store, &name("large"), item(number, body.clone()))
                .await
                .unwrap();
        }
        // A damaged map, a damaged tally and a key that is neither, all of the container before.
        put(&store, key::partitions(storage).start, junk).await;
        put(&store, key::physical_tally(storage, 0), junk).await;
        let range = key::partitions(storage);
        let snapshot = store.engine().snapshot().await.unwrap();
        let map = snapshot.scan(&Scan::new(range)).await.unwrap();
        for (key, _) in map.entries {
            put(&store, key, junk).await;
        }
        store.split_large_partitions().await.unwrap();
        let large = container(&store, &name("large")).await;
        assert_eq!(large.partitions.count(), 2, "{junk:?}");
    }
}
