//! Definitions that cannot be read: none is stored, and one that lies there already costs its own
//! container and nothing else.

use bytes::Bytes;
use tessera_core::definition::{NewContainer, NewIndex};
use tessera_core::engine::Engine;
use tessera_core::item::NewItem;
use tessera_core::key;
use tessera_core::provisioning::Throughput;
use tessera_core::rebuild::NewPlacement;
use tessera_core::write_set::WriteSet;
use tessera_core::{Error, Result, Store};

use crate::support::*;

fn with_schema(schema: &'static [u8]) -> NewContainer {
    NewContainer {
        schema: Bytes::from_static(schema),
        ..NewContainer::default()
    }
}

/// Puts other bytes in place of a container's catalog entry, as a faulty disk or another version
/// might have.
async fn damage(engine: &dyn Engine, container: &str, bytes: &[u8]) {
    let mut writes = WriteSet::default();
    let key = key::catalog(&name(container));
    writes.put(key, Bytes::copy_from_slice(bytes));
    let snapshot = engine.snapshot().await.unwrap();
    snapshot.commit(writes).await.unwrap();
}

/// The entry of a container, with its front end's schema made unreadable.
async fn with_unreadable_schema(engine: &dyn Engine, container: &str) -> Vec<u8> {
    let snapshot = engine.snapshot().await.unwrap();
    let stored = snapshot.get(&key::catalog(&name(container))).await;
    let mut stored = stored.unwrap().unwrap().to_vec();
    let json = u32::from_be_bytes(stored[..4].try_into().unwrap()) as usize;
    stored.truncate(4 + json);
    stored.extend_from_slice(UNREADABLE);
    stored
}

#[tokio::test]
async fn a_schema_that_does_not_read_back_is_refused_whichever_way_it_comes() {
    let store = open_store().await;
    let refused = |result: Result<()>, how: &str| {
        assert!(
            matches!(result, Err(Error::Corrupt(_))),
            "{how}: {result:?}"
        );
    };
    let unreadable = with_schema(b"?x");
    let created = store.create_container(&name("a"), &unreadable).await;
    refused(created.map(|_| ()), "create");
    let mut transaction = store.begin().await.unwrap();
    let created = transaction.create_container(&name("a"), &unreadable).await;
    refused(created.map(|_| ()), "create in a transaction");
    store
        .create_container(&name("b"), &with_schema(b"pk"))
        .await
        .unwrap();
    let altered_name = name("b");
    let altered = store.alter_schema(&altered_name, |_| Ok(Bytes::from_static(b"?y")));
    refused(altered.await.map(|_| ()), "alter");
    let placement = NewPlacement {
        schema: Bytes::from_static(b"?z"),
        ..NewPlacement::default()
    };
    let moved = store.relocate(&name("b"), &placement).await;
    refused(moved.map(|_| ()), "relocate");
    assert_eq!(store.all_containers().await.unwrap(), [name("b")]);
    assert_sound(&store, &name("b")).await;
}

/// What must go on beside a damaged container.
async fn others_work(store: &Store) {
    insert(store, &name("good"), item(7, "mail=a"))
        .await
        .unwrap();
    assert!(delete(store, &name("good"), locator(7)).await.unwrap());
    store.settle().await.unwrap();
    store.split_large_partitions().await.unwrap();
    let listed = store.list_containers(API, Some("db")).await.unwrap();
    assert_eq!(listed, [name("bad"), name("good")]);
    let described = store.describe_containers(API, "db", "", 10).await.unwrap();
    assert_eq!(described.len(), 2);
    for container in ["good", "bad"] {
        let insight = store.insight(&name(container)).await.unwrap();
        assert_eq!(insight.damage.is_some(), container == "bad");
        store.largest_keys(&name(container)).await.unwrap();
    }
    let shared = Some(Throughput::Manual(400));
    store.provision_database(API, "db", shared).await.unwrap();
    store.provision_database(API, "db", None).await.unwrap();
    let damaged = store.damaged_containers().await.unwrap();
    let names: Vec<_> = damaged.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, [name("bad")]);
}

#[tokio::test]
async fn a_damaged_definition_costs_its_own_container_alone_and_can_be_dropped() {
    let kinds: [&[u8]; 6] = [
        b"",
        b"\0\0",
        b"\0\0\0\x09{}",
        b"\0\0\0\x02{}",
        b"\xff\xff\xff\xff",
        b"schema",
    ];
    for kind in kinds {
        let store = open_store().await;
        let new = new_container(vec![NewIndex::unique("mail")], 2);
        for container in ["bad", "good"] {
            store
                .create_container(&name(container), &new)
                .await
                .unwrap();
        }
        let soon = NewItem {
            expires_at_ms: Some(1),
            ..item(1, "mail=b")
        };
        upsert(&store, &name("bad"), soon).await.unwrap();
        let storage = container(&store, &name("bad")).await.storage();
        let bytes = match kind {
            b"schema" => with_unreadable_schema(store.engine().as_ref(), "bad").await,
            bytes => bytes.to_vec(),
        };
        damage(store.engine().as_ref(), "bad", &bytes).await;
        let store = reopened(store).await;
        others_work(&store).await;
        if kind != b"schema" {
            let found = store.begin().await.unwrap().container(&name("bad")).await;
            let error = found.unwrap_err().to_string();
            assert!(
                error.contains("'test:db.bad'") && error.contains("drop it"),
                "{error}"
            );
            let again = store.create_container(&name("bad"), &new).await;
            assert!(matches!(again, Err(Error::Corrupt(_))));
        }
        store.drop_container(&name("bad")).await.unwrap();
        let gone = store.drop_container(&name("bad")).await;
        assert!(matches!(gone, Err(Error::NotFound(_))), "{gone:?}");
        store.settle().await.unwrap();
        assert_eq!(keys_in(&store, key::items(storage)).await, 0);
        assert_eq!(store.damaged_containers().await.unwrap(), []);
        store.create_container(&name("bad"), &new).await.unwrap();
        assert_sound(&store, &name("bad")).await;
    }
}

#[tokio::test]
async fn a_job_that_cannot_be_read_holds_up_no_other() {
    let store = open_store().await;
    let new = new_container(vec![], 1);
    store.create_container(&name("good"), &new).await.unwrap();
    for number in 0..20 {
        insert(&store, &name("good"), item(number, ""))
            .await
            .unwrap();
    }
    let mut writes = WriteSet::default();
    let key = key::system_key(key::system::JOB, &9u64.to_be_bytes());
    writes.put(key, Bytes::from_static(b"{}"));
    let snapshot = store.engine().snapshot().await.unwrap();
    snapshot.commit(writes).await.unwrap();
    assert_eq!(store.jobs().await.unwrap().len(), 0);
    store.settle().await.unwrap();
    store.split_partition(&name("good"), 0, None).await.unwrap();
    assert_eq!(container(&store, &name("good")).await.partitions.count(), 2);
}
