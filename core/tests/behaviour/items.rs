//! Items: reading and writing them in transactions, and what that costs.

use std::ops::Bound;

use crate::support::*;
use bytes::Bytes;
use tessera_core::definition::NewIndex;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::reading::{IndexSpan, PageRequest, Span};
use tessera_core::throughput::price;
use tessera_core::{Error, Store};

async fn store_with(indexes: Vec<NewIndex>, partitions: u32) -> Store {
    let store = open_store().await;
    store
        .create_container(&name("c"), &new_container(indexes, partitions))
        .await
        .unwrap();
    store
}

#[tokio::test]
async fn a_transaction_reads_its_own_writes_and_nobody_elses() {
    let store = store_with(vec![], 2).await;
    insert(&store, &name("c"), item(1, "old")).await.unwrap();
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name("c")).await.unwrap();
    transaction
        .upsert(&container, item(1, "new"))
        .await
        .unwrap();
    transaction
        .insert(&container, item(2, "two"))
        .await
        .unwrap();
    upsert(&store, &name("c"), item(3, "elsewhere"))
        .await
        .unwrap();

    let own = transaction
        .read(&container, &locator(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(own.body, "new");
    let page = transaction
        .scan(&container, &Span::All, &PageRequest::default())
        .await
        .unwrap();
    assert_eq!(page.items.len(), 2, "its own two, not the third one");
    let seen = transaction
        .read_many(&container, &[locator(2), locator(3)])
        .await
        .unwrap();
    assert!(seen[0].is_some() && seen[1].is_none());
    transaction.commit().await.unwrap();
    assert_eq!(all(&store, &name("c")).await.len(), 3);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn insert_refuses_a_key_that_is_taken() {
    let store = store_with(vec![], 1).await;
    insert(&store, &name("c"), item(1, "a")).await.unwrap();
    let error = insert(&store, &name("c"), item(1, "b")).await.unwrap_err();
    assert!(matches!(error, Error::AlreadyExists(_)), "{error}");
    assert_eq!(
        body(&store, &name("c"), &locator(1)).await.as_deref(),
        Some("a")
    );
}

#[tokio::test]
async fn versions_grow_with_each_write() {
    let store = store_with(vec![], 1).await;
    let mut last = 0;
    for _ in 0..5 {
        upsert(&store, &name("c"), item(1, "same")).await.unwrap();
        let version = all(&store, &name("c")).await[0].version;
        assert!(version > last);
        last = version;
    }
}

#[tokio::test]
async fn the_second_of_two_writers_conflicts() {
    let store = store_with(vec![], 1).await;
    let mut first = store.begin().await.unwrap();
    let mut second = store.begin().await.unwrap();
    for transaction in [&mut first, &mut second] {
        let container = transaction.container(&name("c")).await.unwrap();
        transaction.upsert(&container, item(1, "x")).await.unwrap();
    }
    first.commit().await.unwrap();
    assert_eq!(second.commit().await.unwrap_err(), Error::Conflict);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_tasks_increment_one_counter_and_nothing_is_lost() {
    const TASKS: usize = 32;
    const EACH: usize = 20;
    let store = store_with(vec![], 1).await;
    insert(&store, &name("c"), item(1, "0")).await.unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let (container, counter) = (name("c"), locator(1));
                let changed = [(&container, &counter)];
                for _ in 0..EACH {
                    let increment = store.run(&changed, |transaction| {
                        Box::pin(async move {
                            let container = transaction.container(&name("c")).await?;
                            let old = transaction.read(&container, &locator(1)).await?.unwrap();
                            let count: usize =
                                std::str::from_utf8(&old.body).unwrap().parse().unwrap();
                            let new = item(1, (count + 1).to_string());
                            transaction.replace(&container, &old, new).await
                        })
                    });
                    increment.await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected = (TASKS * EACH).to_string();
    assert_eq!(body(&store, &name("c"), &locator(1)).await, Some(expected));
}

#[tokio::test]
async fn charges_follow_from_what_was_done() {
    let store = store_with(vec![NewIndex::new("tag"), NewIndex::unique("mail")], 1).await;
    let run = |body: &'static str| {
        let store = store.clone();
        async move {
            let outcome = store
                .run(&[], move |transaction| {
                    Box::pin(async move {
                        let container = transaction.container(&name("c")).await?;
                        transaction.upsert(&container, item(1, body)).await
                    })
                })
                .await
                .unwrap();
            outcome.meter.charge().milli_units()
        }
    };
    let insert = price::insert(10).milli_units();
    let entry = price::INDEX_ENTRY_WRITTEN.milli_units();
    let claim = price::UNIQUE_CLAIM_WRITTEN.milli_units();
    assert_eq!(run("tag=a;tag=b;mail=m").await, insert + 3 * entry + claim);
    assert_eq!(
        run("tag=a;tag=b;mail=m").await,
        2 * insert,
        "no index entry changed"
    );
    assert_eq!(
        run("tag=a;mail=n").await,
        2 * insert + 3 * entry + 2 * claim
    );

    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name("c")).await.unwrap();
    transaction.read(&container, &locator(1)).await.unwrap();
    transaction.read(&container, &locator(2)).await.unwrap();
    assert_eq!(
        transaction.meter().charge().milli_units(),
        2_000,
        "a miss costs as a small read"
    );
}

#[tokio::test]
async fn a_query_by_index_costs_more_as_partitions_multiply() {
    let mut charges = Vec::new();
    for partitions in [1, 4] {
        let store = store_with(vec![NewIndex::new("tag")], partitions).await;
        for number in 0..10 {
            insert(&store, &name("c"), item(number, "tag=a"))
                .await
                .unwrap();
        }
        let mut transaction = store.begin().await.unwrap();
        let container = transaction.container(&name("c")).await.unwrap();
        let id = container.definition.index("tag").unwrap().id;
        let span = IndexSpan::equal(id, &b"a"[..]);
        let page = transaction
            .scan_index(&container, &span, &PageRequest::default())
            .await
            .unwrap();
        assert_eq!(page.hits.len(), 10);
        assert_eq!(transaction.meter().examined_entries(), 10);
        assert_eq!(transaction.meter().partitions().len(), partitions as usize);
        charges.push(transaction.meter().charge().milli_units());
    }
    let fan_out = price::QUERIED_PARTITION.milli_units();
    assert_eq!(charges[1] - charges[0], 3 * fan_out);
}

#[tokio::test]
async fn one_logical_partition_is_one_range_in_row_key_order() {
    let store = store_with(vec![], 4).await;
    for row in ["b", "a", "c", "d"] {
        for partition in ["p", "q"] {
            let new = NewItem::new(Locator::murmur3(partition, row), row);
            insert(&store, &name("c"), new).await.unwrap();
        }
    }
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name("c")).await.unwrap();
    let rows = |from: Bound<&'static str>, to: Bound<&'static str>| Span::Rows {
        token: Locator::murmur3("p", "").token,
        partition_key: Bytes::from_static(b"p"),
        from: from.map(Bytes::from_static_str),
        to: to.map(Bytes::from_static_str),
    };
    for (span, expected) in [
        (rows(Bound::Unbounded, Bound::Unbounded), "abcd"),
        (rows(Bound::Included("b"), Bound::Included("c")), "bc"),
        (rows(Bound::Excluded("b"), Bound::Unbounded), "cd"),
        (rows(Bound::Unbounded, Bound::Excluded("c")), "ab"),
        (rows(Bound::Excluded("c"), Bound::Included("b")), ""),
    ] {
        for reverse in [false, true] {
            let page = PageRequest {
                reverse,
                ..PageRequest::default()
            };
            let found = transaction.scan(&container, &span, &page).await.unwrap();
            let bodies = found.items.iter().map(|item| item.body.as_ref());
            let mut seen = String::from_utf8(bodies.collect::<Vec<_>>().concat()).unwrap();
            if reverse {
                seen = seen.chars().rev().collect();
            }
            assert_eq!(seen, expected, "{span:?}");
        }
    }
    assert_eq!(
        transaction.meter().partitions().len(),
        1,
        "one partition was asked"
    );
}

trait FromStaticStr {
    fn from_static_str(text: &'static str) -> Self;
}

impl FromStaticStr for Bytes {
    fn from_static_str(text: &'static str) -> Self {
        Self::from_static(text.as_bytes())
    }
}

#[tokio::test]
async fn a_continuation_of_another_container_query_or_direction_is_refused() {
    let store = store_with(vec![], 1).await;
    store
        .create_container(&name("d"), &new_container(vec![], 1))
        .await
        .unwrap();
    for number in 0..3 {
        insert(&store, &name("c"), item(number, "x")).await.unwrap();
    }
    let mut transaction = store.begin().await.unwrap();
    let first = transaction.container(&name("c")).await.unwrap();
    let other = transaction.container(&name("d")).await.unwrap();
    let mut page = PageRequest {
        max_items: 1,
        ..PageRequest::default()
    };
    let found = transaction.scan(&first, &Span::All, &page).await.unwrap();
    page.continuation = found.continuation;
    let wrong = transaction
        .scan(&other, &Span::All, &page)
        .await
        .unwrap_err();
    assert!(matches!(wrong, Error::InvalidContinuation(_)), "{wrong}");
    let token = locator(7).token;
    let elsewhere = Span::Tokens(token, token);
    let wrong = transaction
        .scan(&first, &elsewhere, &page)
        .await
        .unwrap_err();
    assert!(matches!(wrong, Error::InvalidContinuation(_)), "{wrong}");
    page.reverse = true;
    let wrong = transaction
        .scan(&first, &Span::All, &page)
        .await
        .unwrap_err();
    assert!(matches!(wrong, Error::InvalidContinuation(_)), "{wrong}");
}
