//! Surveys: all items once, without a charge, beside whatever else happens.

use tessera_core::Error;
use tessera_core::clock::Clock;
use tessera_core::definition::NewContainer;
use tessera_core::model::ScalarRef;
use tessera_core::provisioning::Throughput;

use crate::support::*;

#[tokio::test]
async fn every_item_is_seen_once_and_nobody_pays() {
    let clock = Clock::manual(60_000_000);
    let store = open_store_at(clock.clone()).await;
    let new = NewContainer {
        throughput: Some(Throughput::Manual(400)),
        ..new_container(vec![], 1)
    };
    store.create_container(&name("c"), &new).await.unwrap();
    for number in 0..2_500 {
        let body = format!("city=c{};mail=m{number}", number % 7);
        insert(&store, &name("c"), item(number, body))
            .await
            .unwrap();
        clock.advance(1_000);
    }
    insert(&store, &name("c"), item(9_999, "gone=1").expiring_at(1))
        .await
        .unwrap();
    clock.advance(10_000);
    let before = store.insight(&name("c")).await.unwrap();
    let mut survey = store.survey(&name("c")).await.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut pages = 0;
    while let Some(items) = survey.next().await.unwrap() {
        pages += 1;
        for item in &items {
            let mut fields = Vec::new();
            let is_record = survey.container().describe(item, &mut |path, value| {
                let ScalarRef::Text(text) = value else {
                    panic!("{value:?}")
                };
                fields.push(format!("{path} {text}"));
            });
            assert!(is_record.unwrap());
            assert_eq!(fields.len(), 2);
            assert!(seen.insert(fields.concat()), "{fields:?} twice");
        }
        if pages == 1 {
            // What the container becomes meanwhile does not matter.
            store.split_partition(&name("c"), 0, None).await.unwrap();
        }
    }
    assert_eq!((seen.len(), pages), (2_500, 3));
    assert_eq!(survey.container().key_fields(), ["pk"]);
    let after = store.insight(&name("c")).await.unwrap();
    let charged = |insight: &tessera_core::insight::Insight| {
        let charges = insight.partitions.iter().map(|it| it.charged.milli_units());
        charges.sum::<u64>()
    };
    // A split divides what was charged, and rounds.
    assert!(charged(&after) <= charged(&before));
}

#[tokio::test]
async fn a_container_that_becomes_another_ends_the_survey() {
    let store = open_store().await;
    store
        .create_container(&name("c"), &new_container(vec![], 1))
        .await
        .unwrap();
    for number in 0..1_200 {
        insert(&store, &name("c"), item(number, "a=1"))
            .await
            .unwrap();
    }
    let mut survey = store.survey(&name("c")).await.unwrap();
    assert_eq!(survey.next().await.unwrap().unwrap().len(), 1_000);
    store.drop_container(&name("c")).await.unwrap();
    assert!(matches!(survey.next().await, Err(Error::NotFound(_))));
    let mut survey = {
        store
            .create_container(&name("c"), &new_container(vec![], 1))
            .await
            .unwrap();
        store.survey(&name("c")).await.unwrap()
    };
    assert_eq!(survey.next().await.unwrap().unwrap().len(), 0);
    assert!(survey.next().await.unwrap().is_none());
    assert!(matches!(
        store.survey(&name("d")).await,
        Err(Error::NotFound(_))
    ));
}
