//! Relocation: moving a live container to a new placement.

use crate::support::*;
use tessera_core::definition::NewIndex;
use tessera_core::key::{system, system_range};
use tessera_core::locator::Locator;
use tessera_core::rebuild::NewPlacement;
use tessera_core::{Error, Store};

async fn filled(items: usize) -> Store {
    let store = open_store().await;
    let indexes = vec![NewIndex::unique("mail"), NewIndex::new("tag")];
    store
        .create_container(&name("c"), &new_container(indexes, 1))
        .await
        .unwrap();
    for number in 0..items {
        insert(&store, &name("c"), item(number, document(number, 0)))
            .await
            .unwrap();
    }
    store
}

fn document(number: usize, change: usize) -> String {
    format!(
        "mail={number};tag={};city={};n={change}",
        number % 5,
        number % 11
    )
}

fn by_city() -> NewPlacement {
    NewPlacement {
        schema: "city".into(),
        partitions: 3,
        ..NewPlacement::default()
    }
}

#[tokio::test]
async fn a_relocated_container_holds_the_same_items_at_new_places() {
    let store = filled(600).await;
    let before = container(&store, &name("c")).await;
    let after = store.relocate(&name("c"), &by_city()).await.unwrap();
    assert_ne!(before.storage(), after.storage());
    assert_eq!(after.partitions.count(), 3);
    assert_eq!(all(&store, &name("c")).await.len(), 600);
    let moved = Locator::murmur3("4", "r4");
    assert_eq!(body(&store, &name("c"), &moved).await, Some(document(4, 0)));
    assert_eq!(find(&store, &name("c"), "mail", "4").await, [moved]);
    assert_sound(&store, &name("c")).await;
    store.settle().await.unwrap();
    for range in tessera_core::key::all_of_storage(before.storage()) {
        assert_eq!(keys_in(&store, range).await, 0, "the old storage is empty");
    }
    let claims = tessera_core::key::claims(after.storage(), 0);
    assert_eq!(
        keys_in(&store, claims).await,
        0,
        "and so are the claims of the move"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_beside_a_relocation_are_neither_refused_nor_lost() {
    let store = filled(1_500).await;
    let writers: Vec<_> = (0..8usize)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for step in 0..120usize {
                    let number = writer * 187 + step % 40;
                    let (store, name) = (&store, &name("c"));
                    // Placed by whatever definition is in force when the statement runs.
                    let done = store.run(&[], |transaction| {
                        let name = name.clone();
                        Box::pin(async move {
                            let container = transaction.container(&name).await?;
                            let by_city = container.definition.schema == "city";
                            let row = format!("r{number}");
                            let place = if by_city {
                                Locator::murmur3((number % 11).to_string(), row)
                            } else {
                                Locator::murmur3(format!("p{number}"), row)
                            };
                            if step % 5 == 4 {
                                transaction.delete(&container, &place).await?;
                            } else {
                                let body = document(number, step);
                                let new = tessera_core::item::NewItem::new(place, body);
                                transaction.upsert(&container, new).await?;
                            }
                            Ok::<_, Error>(())
                        })
                    });
                    done.await.unwrap();
                }
            })
        })
        .collect();
    store.relocate(&name("c"), &by_city()).await.unwrap();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_sound(&store, &name("c")).await;
    let expected_last: Vec<usize> = (0..8).map(|writer| writer * 187 + 35).collect();
    for number in expected_last {
        let place = Locator::murmur3((number % 11).to_string(), format!("r{number}"));
        assert_eq!(
            body(&store, &name("c"), &place).await,
            Some(document(number, 115))
        );
    }
}

#[tokio::test]
async fn an_item_without_the_new_key_ends_the_relocation_and_changes_nothing() {
    let store = filled(20).await;
    insert(&store, &name("c"), item(99, "mail=99"))
        .await
        .unwrap();
    let before = container(&store, &name("c")).await;
    let refused = store.relocate(&name("c"), &by_city()).await.unwrap_err();
    assert!(matches!(refused, Error::Rejected(_)), "{refused}");
    let after = container(&store, &name("c")).await;
    assert_eq!(before.storage(), after.storage());
    assert_eq!(after.definition.relocation, None);
    assert_eq!(all(&store, &name("c")).await.len(), 21);
    assert_sound(&store, &name("c")).await;
    assert_eq!(store.jobs().await.unwrap(), []);
}

#[tokio::test]
async fn two_items_that_meet_at_one_new_place_end_the_relocation() {
    let store = filled(5).await;
    for partition in ["a", "b"] {
        let place = Locator::murmur3(partition, "same row");
        let new = tessera_core::item::NewItem::new(place, format!("mail={partition};city=1"));
        insert(&store, &name("c"), new).await.unwrap();
    }
    let refused = store.relocate(&name("c"), &by_city()).await.unwrap_err();
    assert!(matches!(refused, Error::DuplicateValue { .. }), "{refused}");
    assert_eq!(all(&store, &name("c")).await.len(), 7);
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_crashed_relocation_is_resumed_by_the_next_process() {
    let store = filled(300).await;
    store
        .begin_relocation(&name("c"), &by_city())
        .await
        .unwrap();
    upsert(&store, &name("c"), item(7, document(7, 1)))
        .await
        .unwrap();
    delete(&store, &name("c"), locator(8)).await.unwrap();
    let store = reopened(store).await;
    store.settle().await.unwrap();
    let after = container(&store, &name("c")).await;
    assert_eq!(after.definition.schema, "city");
    assert_eq!(all(&store, &name("c")).await.len(), 299);
    let moved = Locator::murmur3("7", "r7");
    assert_eq!(body(&store, &name("c"), &moved).await, Some(document(7, 1)));
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_cancelled_relocation_leaves_the_container_as_it_was() {
    let store = filled(30).await;
    let before = container(&store, &name("c")).await;
    let job = store
        .begin_relocation(&name("c"), &by_city())
        .await
        .unwrap();
    assert_eq!(store.jobs().await.unwrap()[0].total, 30);
    store.cancel_job(job).await.unwrap();
    store.settle().await.unwrap();
    let after = container(&store, &name("c")).await;
    assert_eq!(
        (before.storage(), None),
        (after.storage(), after.definition.relocation)
    );
    assert_sound(&store, &name("c")).await;
}

#[tokio::test]
async fn a_write_that_does_not_fit_ends_the_relocation_and_not_itself() {
    for (what, misfit) in [
        ("an item without the new key", item(50, "mail=50")),
        (
            "an item at another one's new place",
            tessera_core::item::NewItem::new(Locator::murmur3("elsewhere", "r7"), "city=7"),
        ),
    ] {
        let store = filled(40).await;
        let job = store
            .begin_relocation(&name("c"), &by_city())
            .await
            .unwrap();
        upsert(&store, &name("c"), item(7, document(7, 1)))
            .await
            .unwrap();
        insert(&store, &name("c"), misfit.clone()).await.unwrap();
        upsert(&store, &name("c"), misfit).await.unwrap();
        let ended = store.run_job(job).await.unwrap_err();
        assert!(
            matches!(ended, Error::Rejected(_) | Error::DuplicateValue { .. }),
            "{what}: {ended}"
        );
        assert_eq!(
            container(&store, &name("c")).await.definition.relocation,
            None
        );
        assert_eq!(all(&store, &name("c")).await.len(), 41, "{what}");
        store.settle().await.unwrap();
        assert_sound(&store, &name("c")).await;
        let misfits = system_range(system::MISFIT);
        assert_eq!(keys_in(&store, misfits).await, 0, "{what}");
        delete(&store, &name("c"), locator(50)).await.unwrap();
        let elsewhere = Locator::murmur3("elsewhere", "r7");
        delete(&store, &name("c"), elsewhere).await.unwrap();
        store.relocate(&name("c"), &by_city()).await.unwrap();
        assert_sound(&store, &name("c")).await;
    }
}

#[tokio::test]
async fn a_relocation_may_change_the_indexes() {
    let store = filled(30).await;
    let placement = NewPlacement {
        new_indexes: vec![NewIndex::new("city")],
        dropped_indexes: vec!["tag".into()],
        ..by_city()
    };
    let moved = store.relocate(&name("c"), &placement).await.unwrap();
    let names: Vec<_> = moved
        .definition
        .indexes
        .iter()
        .map(|i| i.name.as_str())
        .collect();
    assert_eq!(names, ["mail", "city"]);
    assert_eq!(find(&store, &name("c"), "city", "4").await.len(), 3);
    assert_sound(&store, &name("c")).await;
}
