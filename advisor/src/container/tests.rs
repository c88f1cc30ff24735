//! Containers on the memory engine, with a model of `field=value` pairs.

use std::sync::Arc;

use tessera_core::definition::{Definition, IndexDefinition, NewContainer};
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::{IndexEntry, Model};
use tessera_core::store::StoreOptions;

use super::*;

struct Pairs;

impl Model for Pairs {
    fn index_entries(
        &self,
        _definition: &Definition,
        _indexes: &[IndexDefinition],
        _item: &Item,
    ) -> tessera_core::Result<Vec<IndexEntry>> {
        Ok(Vec::new())
    }

    fn relocate(&self, _target: &Definition, item: &Item) -> tessera_core::Result<Locator> {
        Ok(item.locator.clone())
    }

    fn partition_key_fields(&self, _definition: &Definition) -> Vec<String> {
        vec!["city".to_owned()]
    }

    fn describe(
        &self,
        _definition: &Definition,
        item: &Item,
        visit: &mut dyn FnMut(&str, ScalarRef<'_>),
    ) -> tessera_core::Result<bool> {
        let body = String::from_utf8_lossy(&item.body);
        for (name, value) in body.split(';').filter_map(|pair| pair.split_once('=')) {
            match value.parse() {
                Ok(number) => visit(name, ScalarRef::Integer(number)),
                Err(_) => visit(name, ScalarRef::Text(value)),
            }
        }
        Ok(!body.starts_with("hidden"))
    }
}

fn name() -> ContainerName {
    ContainerName::new("test", "d", "people")
}

/// Three thousand people, most of them in one city, at 20,000 RU/s.
async fn store(people: u32) -> Store {
    let model: Arc<dyn Model> = Arc::new(Pairs);
    let options = StoreOptions {
        models: [("test".to_owned(), model)].into(),
        ..StoreOptions::default()
    };
    let engine = Arc::new(MemoryEngine::new());
    let store = Store::open(engine, options).await.unwrap();
    let new = NewContainer {
        throughput: Some(Throughput::Manual(20_000)),
        ..NewContainer::default()
    };
    store.create_container(&name(), &new).await.unwrap();
    let mut transaction = store.begin().await.unwrap();
    let container = transaction.container(&name()).await.unwrap();
    for person in 0..people {
        let city = if person % 3 > 0 { "berlin" } else { "köln" };
        let locator = Locator::murmur3(city, person.to_be_bytes().to_vec());
        let body = format!("city={city};id={person};group={};at.day=mon", person % 500);
        let item = NewItem::new(locator, body);
        transaction.upsert(&container, item).await.unwrap();
    }
    let hidden = NewItem::new(Locator::murmur3("berlin", "hidden"), "hidden=1;id=7");
    transaction.upsert(&container, hidden).await.unwrap();
    transaction.commit().await.unwrap();
    store
}

async fn ask(store: &Store, question: &str) -> Result<Report, Refusal> {
    let question: Question = serde_json::from_str(question).unwrap();
    of_container(store, &name(), &question).await
}

fn titles(report: &Report) -> Vec<String> {
    report.candidates.iter().map(|it| it.title()).collect()
}

#[tokio::test]
async fn a_container_is_compared_with_what_it_could_be() {
    let store = store(3_000).await;
    let report = ask(&store, "{}").await.unwrap();
    let expected = ["city, the key it has — to watch", "id — good", "group — good"];
    assert_eq!(titles(&report), expected);
    assert_eq!((report.records, report.physical_partitions), (3_000, 2));
    assert_eq!(report.throughput, 20_000);
    let current = &report.candidates[0];
    assert_eq!(current.distinct.count, 2);
    assert_eq!(current.hottest[0].key, "berlin");
    assert_eq!(current.hottest[0].records, 2_000);
    // Stored items lie by token: their order says nothing of when they came.
    assert_eq!(current.throttling.in_file_order_at, None);
    assert_eq!(report.recommendation.key.as_deref(), Some("group"));
    let group = &report.candidates[2];
    assert_eq!((group.distinct.count, group.missing), (500, 0));

    let printed = report.print().unwrap();
    assert_eq!(printed.report["candidates"][0]["is_current"], true);
    assert!(
        printed.text.contains("Take group: it has 500 values"),
        "{}",
        printed.text
    );
    assert!(printed.svg.contains(">city, the key it has — to watch<"));
}

#[tokio::test]
async fn candidates_are_named_and_the_container_imagined_otherwise() {
    let store = store(1_500).await;
    let question =
        r#"{"keys": ["at.day", "city,group", "city"], "throughput": 50000, "growth": 2}"#;
    let report = ask(&store, question).await.unwrap();
    let expected = [
        "city, the key it has — poor",
        "at.day — poor",
        "city,group — good",
    ];
    assert_eq!(titles(&report), expected);
    assert_eq!((report.physical_partitions, report.growth), (5, 2.0));
    assert_eq!(report.candidates[1].distinct.count, 1);
    assert_eq!(report.candidates[1].hottest[0].key, "\"mon\"");

    let report = ask(&store, r#"{"keys": ["group", "nowhere"]}"#)
        .await
        .unwrap();
    assert_eq!(titles(&report).len(), 2);
    let absent = report.print().unwrap().absent.unwrap();
    let expected = "has a value in nowhere; fields with values are city, id, group";
    assert!(absent.ends_with(expected), "{absent}");
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused() {
    let empty = store(0).await;
    assert!(matches!(ask(&empty, "{}").await, Err(Refusal::Nothing(_))));
    for question in [
        r#"{"keys": ["a,,b"]}"#,
        r#"{"partitions": 0}"#,
        r#"{"growth": -1}"#,
        r#"{"partitions": 1, "throughput": 30000}"#,
    ] {
        let refused = ask(&empty, question).await;
        assert!(matches!(refused, Err(Refusal::Question(_))), "{question}");
    }
    let nobody = ContainerName::new("test", "d", "nobody");
    let refused = of_container(&empty, &nobody, &Question::default()).await;
    assert!(matches!(refused, Err(Refusal::Core(Error::NotFound(_)))));
}
