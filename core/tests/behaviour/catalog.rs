//! The catalog: creating, dropping, renaming and truncating containers beside their users.

use std::sync::Arc;

use crate::support::*;
use bytes::Bytes;
use tessera_core::definition::NewContainer;
use tessera_core::memory::MemoryEngine;
use tessera_core::name::ContainerName;
use tessera_core::reading::{PageRequest, Span};
use tessera_core::write_set::WriteSet;
use tessera_core::{Error, Store, key};

async fn store_with_c() -> Store {
    let store = open_store().await;
    store
        .create_container(&name("c"), &new_container(vec![], 1))
        .await
        .unwrap();
    store
}

#[tokio::test]
async fn definitions_are_listed_in_pages_without_the_database_itself() {
    let store = store_with_c().await;
    store
        .create_database(API, "db", Bytes::from_static(b"options"))
        .await
        .unwrap();
    for container in ["a", "b", "d"] {
        let new = NewContainer {
            schema: Bytes::from(container),
            ..NewContainer::default()
        };
        store
            .create_container(&name(container), &new)
            .await
            .unwrap();
    }
    let check = async |from: &str, limit: usize, expected: &[&str]| {
        let page = store.describe_containers(API, "db", from, limit).await;
        let page = page.unwrap();
        let names: Vec<&str> = page.iter().map(|(name, _)| &*name.container).collect();
        assert_eq!(names, expected, "{from} {limit}");
        page
    };
    check("", 3, &["a", "b", "c"]).await;
    check("b", 2, &["b", "c"]).await;
    check("e", 2, &[]).await;
    let last = check("c\0", 9, &["d"]).await;
    let (_, definition) = &last[0];
    assert_eq!(
        definition.as_ref().unwrap().schema,
        Bytes::from_static(b"d")
    );
}

#[tokio::test]
async fn names_are_unique_and_found_by_listing() {
    let store = store_with_c().await;
    let again = store
        .create_container(&name("c"), &new_container(vec![], 1))
        .await
        .unwrap_err();
    assert!(matches!(again, Error::AlreadyExists(_)), "{again}");
    store
        .create_container(&name("b"), &new_container(vec![], 1))
        .await
        .unwrap();
    let listed = store.list_containers(API, Some("db")).await.unwrap();
    assert_eq!(listed, [name("b"), name("c")]);
    assert_eq!(store.list_containers("other", None).await.unwrap(), []);
    let missing = store.drop_container(&name("x")).await.unwrap_err();
    assert_eq!(missing.to_string(), "container 'test:db.x' does not exist");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_creators_of_one_name_exactly_one_succeeds() {
    let store = open_store().await;
    let creators: Vec<_> = (0..16)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                store
                    .create_container(&name("c"), &new_container(vec![], 1))
                    .await
                    .is_ok()
            })
        })
        .collect();
    let mut created = 0;
    for creator in creators {
        created += usize::from(creator.await.unwrap());
    }
    assert_eq!(created, 1);
}

#[tokio::test]
async fn a_dropped_container_leaves_nothing_behind() {
    let store = store_with_c().await;
    for number in 0..3_000 {
        insert(&store, &name("c"), item(number, "x")).await.unwrap();
    }
    let storage = container(&store, &name("c")).await.storage();
    store.drop_container(&name("c")).await.unwrap();
    let gone = store
        .begin()
        .await
        .unwrap()
        .container(&name("c"))
        .await
        .unwrap_err();
    assert!(matches!(gone, Error::NotFound(_)), "{gone}");
    store.settle().await.unwrap();
    for range in key::all_of_storage(storage) {
        assert_eq!(keys_in(&store, range).await, 0);
    }
    assert_eq!(
        keys_in(&store, key::system_range(key::system::REAP)).await,
        0
    );
    let created = store
        .create_container(&name("c"), &new_container(vec![], 1))
        .await
        .unwrap();
    assert_ne!(created.storage(), storage, "storage ids are never reused");
    assert_eq!(all(&store, &name("c")).await, []);
}

#[tokio::test]
async fn truncate_empties_and_rename_keeps() {
    let store = store_with_c().await;
    insert(&store, &name("c"), item(1, "x")).await.unwrap();
    store
        .rename_container(&name("c"), &name("d"))
        .await
        .unwrap();
    assert_eq!(all(&store, &name("d")).await.len(), 1);
    assert!(
        store
            .begin()
            .await
            .unwrap()
            .container(&name("c"))
            .await
            .is_err()
    );
    store
        .create_container(&name("c"), &new_container(vec![], 1))
        .await
        .unwrap();
    let taken = store
        .rename_container(&name("c"), &name("d"))
        .await
        .unwrap_err();
    assert!(matches!(taken, Error::AlreadyExists(_)), "{taken}");
    store.truncate_container(&name("d")).await.unwrap();
    assert_eq!(all(&store, &name("d")).await, []);
    insert(&store, &name("d"), item(1, "y")).await.unwrap();
    store.settle().await.unwrap();
    assert_eq!(all(&store, &name("d")).await.len(), 1);
    assert_sound(&store, &name("d")).await;
}

/// Renames onto a name that is taken, again and again, while others read what has that name.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_container_takes_the_place_of_another_in_one_moment() {
    const ROUNDS: usize = 100;
    let store = store_with_c().await;
    insert(&store, &name("c"), item(1, "0")).await.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let readers = (0..3).map(|_| {
        let (store, stopped) = (store.clone(), stopped.clone());
        tokio::spawn(async move {
            let (mut newest, mut reads) = (0, 0);
            while !*stopped.borrow() {
                // Whatever is there is one of them, whole, and never an older one than before.
                let found = all(&store, &name("c")).await;
                assert_eq!(found.len(), 1);
                let body: usize = str::from_utf8(&found[0].body).unwrap().parse().unwrap();
                assert!(body >= newest, "{body} after {newest}");
                newest = body;
                reads += 1;
                tokio::task::yield_now().await;
            }
            reads
        })
    });
    let readers: Vec<_> = readers.collect();
    for round in 1..=ROUNDS {
        let next = name(&format!("next{round}"));
        store
            .create_container(&next, &new_container(vec![], 1))
            .await
            .unwrap();
        insert(&store, &next, item(1, round.to_string()))
            .await
            .unwrap();
        store.replace_container(&next, &name("c")).await.unwrap();
        assert!(store.begin().await.unwrap().container(&next).await.is_err());
    }
    stop.send(true).unwrap();
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    store.settle().await.unwrap();
    assert_eq!(store.all_containers().await.unwrap(), [name("c")]);
    assert_sound(&store, &name("c")).await;
    let store = reopened(store).await;
    assert_eq!(
        body(&store, &name("c"), &locator(1)).await.unwrap(),
        ROUNDS.to_string()
    );
}

#[tokio::test]
async fn a_replacement_that_fails_leaves_what_was_there() {
    let store = store_with_c().await;
    insert(&store, &name("c"), item(1, "x")).await.unwrap();
    let missing = store.replace_container(&name("nothing"), &name("c")).await;
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    let itself = store.replace_container(&name("c"), &name("c")).await;
    assert!(matches!(itself, Err(Error::AlreadyExists(_))), "{itself:?}");
    store
        .create_container(&name("d"), &new_container(vec![], 1))
        .await
        .unwrap();
    let refused = store
        .replace_container_if(&name("d"), &name("c"), |there| {
            Err(Error::Rejected(format!("'{}' has changed", there.name)))
        })
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("has changed"), "{refused}");
    assert_eq!(all(&store, &name("c")).await.len(), 1);
    assert_eq!(all(&store, &name("d")).await, []);
    // A writer that knew the old one does not write to where nobody looks any more.
    let mut transaction = store.begin().await.unwrap();
    let old = transaction.container(&name("c")).await.unwrap();
    transaction.insert(&old, item(2, "x")).await.unwrap();
    store
        .replace_container(&name("d"), &name("c"))
        .await
        .unwrap();
    assert_eq!(transaction.commit().await.unwrap_err(), Error::Conflict);
    assert_eq!(all(&store, &name("c")).await, []);
    // With nothing there it is a renaming.
    store
        .replace_container(&name("c"), &name("e"))
        .await
        .unwrap();
    assert_eq!(store.all_containers().await.unwrap(), [name("e")]);
}

#[tokio::test]
async fn a_writer_that_holds_an_old_definition_conflicts() {
    let store = store_with_c().await;
    let mut transaction = store.begin().await.unwrap();
    let old = transaction.container(&name("c")).await.unwrap();
    transaction.insert(&old, item(1, "x")).await.unwrap();
    store.truncate_container(&name("c")).await.unwrap();
    assert_eq!(transaction.commit().await.unwrap_err(), Error::Conflict);
    assert_eq!(all(&store, &name("c")).await, []);
}

#[tokio::test]
async fn a_transaction_sees_the_container_of_its_own_moment() {
    let store = store_with_c().await;
    insert(&store, &name("c"), item(1, "x")).await.unwrap();
    let mut earlier = store.begin().await.unwrap();
    store.truncate_container(&name("c")).await.unwrap();
    store.settle().await.unwrap();
    let container = earlier.container(&name("c")).await.unwrap();
    let page = earlier
        .scan(&container, &Span::All, &PageRequest::default())
        .await
        .unwrap();
    assert_eq!(page.items.len(), 1, "the truncate came later");
}

#[tokio::test]
async fn everything_is_found_again_by_another_store_on_the_same_engine() {
    let engine = Arc::new(MemoryEngine::new());
    let options = || options(tessera_core::clock::Clock::system());
    let first = Store::open(engine.clone(), options()).await.unwrap();
    first
        .create_container(&name("c"), &new_container(vec![], 3))
        .await
        .unwrap();
    insert(&first, &name("c"), item(1, "x")).await.unwrap();
    drop(first);
    let second = Store::open(engine, options()).await.unwrap();
    assert_eq!(container(&second, &name("c")).await.partitions.count(), 3);
    assert_eq!(all(&second, &name("c")).await.len(), 1);
    let other = second
        .create_container(&name("d"), &new_container(vec![], 1))
        .await
        .unwrap();
    assert_ne!(
        other.storage(),
        container(&second, &name("c")).await.storage()
    );
    assert_sound(&second, &name("c")).await;
}

#[tokio::test]
async fn data_of_a_newer_format_is_refused() {
    let engine = Arc::new(MemoryEngine::new());
    use tessera_core::engine::Engine;
    let mut writes = WriteSet::default();
    writes.put(key::system_key(key::system::FORMAT, &[]), "3".into());
    engine
        .snapshot()
        .await
        .unwrap()
        .commit(writes)
        .await
        .unwrap();
    let options = options(tessera_core::clock::Clock::system());
    let Err(refused) = Store::open(engine, options).await else {
        panic!("it was opened");
    };
    assert!(refused.to_string().contains("format 3"), "{refused}");
}

#[tokio::test]
async fn databases_exist_on_their_own_and_take_their_containers_with_them() {
    let store = open_store().await;
    let in_database = NewContainer {
        requires_database: true,
        ..NewContainer::default()
    };
    let missing = store
        .create_container(&name("c"), &in_database)
        .await
        .unwrap_err();
    assert_eq!(missing.to_string(), "database 'test:db' does not exist");
    store
        .create_database(API, "db", "options".into())
        .await
        .unwrap();
    let again = store
        .create_database(API, "db", "x".into())
        .await
        .unwrap_err();
    assert!(matches!(again, Error::AlreadyExists(_)), "{again}");
    for container in ["c", "d"] {
        store
            .create_container(&name(container), &in_database)
            .await
            .unwrap();
    }
    assert_eq!(store.list_databases(API).await.unwrap(), ["db"]);
    assert_eq!(
        store.list_containers(API, None).await.unwrap(),
        [name("c"), name("d")]
    );
    for (database, expected) in [("db", "options, altered"), ("new", "none, altered")] {
        let altered = store.alter_database(API, database, |schema| {
            let schema = schema.unwrap_or_else(|| "none".into());
            Ok([&schema, &b", altered"[..]].concat().into())
        });
        altered.await.unwrap();
        let schema = store.database(API, database).await.unwrap();
        assert_eq!(schema, Some(expected.into()));
    }
    store.drop_database(API, "new").await.unwrap();
    store.drop_database(API, "db").await.unwrap();
    assert_eq!(
        store.list_databases(API).await.unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(store.list_containers(API, None).await.unwrap(), []);
    let gone = store.drop_database(API, "db").await.unwrap_err();
    assert!(matches!(gone, Error::NotFound(_)), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_container_is_left_in_a_database_that_was_dropped() {
    let store = open_store().await;
    for round in 0..30 {
        let database = format!("db{round}");
        store
            .create_database(API, &database, Bytes::new())
            .await
            .unwrap();
        let creators: Vec<_> = (0..4)
            .map(|number| {
                let (store, database) = (store.clone(), database.clone());
                tokio::spawn(async move {
                    let name = ContainerName::new(API, database, format!("c{number}"));
                    let new = NewContainer {
                        requires_database: true,
                        ..NewContainer::default()
                    };
                    match store.create_container(&name, &new).await {
                        Ok(_) | Err(Error::NotFound(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        store.drop_database(API, &database).await.unwrap();
        for creator in creators {
            creator.await.unwrap();
        }
        let left = store.list_containers(API, Some(&database)).await.unwrap();
        assert_eq!(left, [], "round {round}");
    }
}

#[tokio::test]
async fn definitions_stay_as_they_are_once_a_newer_server_changed_the_format() {
    let store = open_store().await;
    let new = new_container(vec![], 1);
    store.create_container(&name("c"), &new).await.unwrap();
    let mut writes = WriteSet::default();
    let format = key::system_key(key::system::FORMAT, &[]);
    writes.put(format, Bytes::from_static(b"3"));
    let snapshot = store.engine().snapshot().await.unwrap();
    snapshot.commit(writes).await.unwrap();
    let refusals = [
        store.create_container(&name("d"), &new).await.map(|_| ()),
        store.drop_container(&name("c")).await,
        store.truncate_container(&name("c")).await.map(|_| ()),
        store
            .rename_container(&name("c"), &name("d"))
            .await
            .map(|_| ()),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap_err();
        assert!(matches!(refusal, Error::Rejected(_)), "{refusal}");
    }
}
