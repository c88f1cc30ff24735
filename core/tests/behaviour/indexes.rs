//! Indexes: kept with the items, unique where asked, built beside running writers.

use crate::support::*;
use bytes::Bytes;
use tessera_core::definition::{IndexState, NewIndex};
use tessera_core::rebuild::SchemaSwap;
use tessera_core::{Error, Store, key};

async fn store_with(indexes: Vec<NewIndex>) -> Store {
    let store = open_store().await;
    store
        .create_container(&name("c"), &new_container(indexes, 2))
        .await
        .unwrap();
    store
}

#[tokio::test]
async fn entries_follow_their_items() {
    let store = store_with(vec![NewIndex::new("tag")]).await;
    insert(&store, &name("c"), item(1, "tag=a;tag=b"))
        .await
        .unwrap();
    insert(&store, &name("c"), item(2, "tag=b")).await.unwrap();
    assert_eq!(find(&store, &name("c"), "tag", "b").await.len(), 2);
    upsert(&store, &name("c"), item(1, "tag=c")).await.unwrap();
    assert_eq!(find(&store, &name("c"), "tag", "a").await, []);
    assert_eq!(find(&store, &name("c"), "tag", "b").await, [locator(2)]);
    assert!(delete(&store, &name("c"), locator(2)).await.unwrap());
    assert_eq!(find(&store, &name("c"), "tag", "b").await, []);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_unique_value_is_held_until_its_item_gives_it_up() {
    let store = store_with(vec![NewIndex::unique("mail")]).await;
    insert(&store, &name("c"), item(1, "mail=a")).await.unwrap();
    let duplicate = Error::DuplicateValue {
        index: "mail".to_owned(),
    };
    let refused = insert(&store, &name("c"), item(2, "mail=a")).await;
    assert_eq!(refused, Err(duplicate));
    upsert(&store, &name("c"), item(1, "mail=a;other=1"))
        .await
        .unwrap();
    upsert(&store, &name("c"), item(1, "mail=b")).await.unwrap();
    insert(&store, &name("c"), item(2, "mail=a")).await.unwrap();
    delete(&store, &name("c"), locator(2)).await.unwrap();
    insert(&store, &name("c"), item(3, "mail=a")).await.unwrap();
    assert_sound(&store, &name("c")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thirty_two_writers_of_one_unique_value_exactly_one_wins() {
    let store = store_with(vec![NewIndex::unique("mail")]).await;
    let writers: Vec<_> = (0..32)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { insert(&store, &name("c"), item(number, "mail=a")).await })
        })
        .collect();
    let mut won = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(()) => won += 1,
            Err(error) => assert!(matches!(error, Error::DuplicateValue { .. }), "{error}"),
        }
    }
    assert_eq!(won, 1);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_built_while_eight_writers_run_misses_nothing() {
    let store = store_with(vec![]).await;
    for number in 0..2_000 {
        insert(
            &store,
            &name("c"),
            item(number, format!("tag={}", number % 7)),
        )
        .await
        .unwrap();
    }
    let writers: Vec<_> = (0..8usize)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for step in 0..150usize {
                    let number = (step * 8 + writer) * 2 % 3_000;
                    if step % 3 == 0 {
                        delete(&store, &name("c"), locator(number)).await.unwrap();
                    } else {
                        let new = item(number, format!("tag={}", step % 5));
                        upsert(&store, &name("c"), new).await.unwrap();
                    }
                }
            })
        })
        .collect();
    let built = store
        .create_index(&name("c"), &NewIndex::new("tag"), None)
        .await
        .unwrap();
    assert_eq!(
        built.definition.index("tag").unwrap().state,
        IndexState::Ready
    );
    for writer in writers {
        writer.await.unwrap();
    }
    let mut indexed = 0;
    for value in 0..7 {
        indexed += find(&store, &name("c"), "tag", &value.to_string())
            .await
            .len();
    }
    assert_eq!(indexed, all(&store, &name("c")).await.len());
    assert_sound(&store, &name("c")).await;
    assert_eq!(store.jobs().await.unwrap(), []);
}

#[tokio::test]
async fn a_unique_index_over_equal_values_is_refused_and_leaves_nothing_behind() {
    let store = store_with(vec![]).await;
    for number in 0..3 {
        insert(&store, &name("c"), item(number, "mail=same"))
            .await
            .unwrap();
    }
    let refused = store
        .create_index(&name("c"), &NewIndex::unique("mail"), None)
        .await;
    assert!(
        matches!(refused, Err(Error::DuplicateValue { .. })),
        "{refused:?}"
    );
    assert_eq!(container(&store, &name("c")).await.definition.indexes, []);
    assert_eq!(store.jobs().await.unwrap(), []);
    insert(&store, &name("c"), item(4, "mail=same"))
        .await
        .unwrap();
    store.settle().await.unwrap();
    let storage = container(&store, &name("c")).await.storage();
    assert_eq!(keys_in(&store, key::index(storage, 1)).await, 0);
    assert_eq!(keys_in(&store, key::claims(storage, 1)).await, 0);
}

#[tokio::test]
async fn a_crashed_build_is_resumed_by_the_next_process() {
    let store = store_with(vec![]).await;
    for number in 0..700 {
        insert(&store, &name("c"), item(number, "tag=a"))
            .await
            .unwrap();
    }
    store
        .begin_index(&name("c"), &NewIndex::new("tag"), None)
        .await
        .unwrap();
    let store = reopened(store).await;
    let building = container(&store, &name("c")).await;
    assert_eq!(
        building.definition.index("tag").unwrap().state,
        IndexState::Building
    );
    store.settle().await.unwrap();
    assert_eq!(find(&store, &name("c"), "tag", "a").await.len(), 700);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_dropped_index_leaves_no_entries() {
    let store = store_with(vec![NewIndex::unique("mail"), NewIndex::new("tag")]).await;
    for number in 0..50 {
        let new = item(number, format!("mail={number};tag=a"));
        insert(&store, &name("c"), new).await.unwrap();
    }
    store.drop_index(&name("c"), "mail", None).await.unwrap();
    store.settle().await.unwrap();
    let storage = container(&store, &name("c")).await.storage();
    assert_eq!(keys_in(&store, key::index(storage, 1)).await, 0);
    assert_eq!(keys_in(&store, key::claims(storage, 1)).await, 0);
    assert_eq!(find(&store, &name("c"), "tag", "a").await.len(), 50);
    let again = store
        .drop_index(&name("c"), "mail", None)
        .await
        .unwrap_err();
    assert!(matches!(again, Error::NotFound(_)), "{again}");
}

fn swap(from: &'static str, to: &'static str) -> Option<SchemaSwap> {
    Some(SchemaSwap {
        from: from.into(),
        to: to.into(),
    })
}

#[tokio::test]
async fn an_index_never_takes_a_changed_schema_with_it() {
    let (store, c) = (store_with(vec![]).await, name("c"));
    let tag = NewIndex::new("tag");
    let mail = NewIndex::new("mail");
    store
        .create_index(&c, &tag, swap("pk", "pk;tag"))
        .await
        .unwrap();
    // Both were made from what was there before the first.
    let late = store.create_index(&c, &mail, swap("pk", "pk;mail"));
    assert_eq!(late.await.unwrap_err(), Error::Conflict);
    let late = store.drop_index(&c, "tag", swap("pk", "pk"));
    assert_eq!(late.await.unwrap_err(), Error::Conflict);
    let definition = container(&store, &c).await.definition.clone();
    assert_eq!(definition.schema, "pk;tag");
    assert!(definition.index("tag").is_some() && definition.index("mail").is_none());
    assert_eq!(store.jobs().await.unwrap(), []);

    let (left, right) = tokio::join!(
        store.create_index(&c, &mail, swap("pk;tag", "pk;tag;mail")),
        store.drop_index(&c, "tag", swap("pk;tag", "pk")),
    );
    assert_eq!(
        [&left, &right].iter().filter(|done| done.is_ok()).count(),
        1
    );
    let definition = container(&store, &c).await.definition.clone();
    let names: Vec<_> = definition.indexes.iter().map(|index| &index.name).collect();
    let named: String = names.iter().map(|name| format!(";{name}")).collect();
    assert_eq!(definition.schema, format!("pk{named}"));
}

#[tokio::test]
async fn an_index_that_cannot_be_built_leaves_the_schema_with_it() {
    let (store, c) = (store_with(vec![]).await, name("c"));
    for number in 0..3 {
        insert(&store, &c, item(number, "mail=same")).await.unwrap();
    }
    let new = NewIndex::unique("mail");
    let begun = store.begin_index(&c, &new, swap("pk", "pk;mail"));
    begun.await.unwrap();
    assert_eq!(container(&store, &c).await.definition.schema, "pk;mail");
    // Whoever finishes it after a crash finds out.
    let store = reopened(store).await;
    store.settle().await.unwrap();
    assert_eq!(store.jobs().await.unwrap(), []);
    let definition = container(&store, &c).await.definition.clone();
    assert_eq!(
        (definition.schema, definition.indexes),
        (Bytes::from_static(b"pk"), vec![])
    );
}
