//! What Cosmos does otherwise than Table storage, apart from what it charges.

use std::collections::BTreeSet;

use serde_json::json;

use crate::ask::{ask, batch, create_table, entity, put};
use crate::service::Service;

#[tokio::test]
async fn a_whole_table_comes_in_no_order_and_complete() {
    let service = Service::cosmos().await;
    service.fill("table", 40, 5).await;
    let pages = service.pages("table", "", 7).await;
    assert!(pages.iter().all(|page| page.keys().len() <= 7));
    let keys: Vec<_> = pages.iter().flat_map(|page| page.keys()).collect();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!((keys.len(), distinct.len()), (200, 200));
    assert!(!keys.is_sorted());

    let sorted = Service::storage().await;
    sorted.fill("table", 40, 5).await;
    let pages = sorted.pages("table", "", 7).await;
    let keys: Vec<_> = pages.iter().flat_map(|page| page.keys()).collect();
    assert_eq!(keys, distinct.into_iter().cloned().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_filter_on_properties_pages_through_all_of_it() {
    let service = Service::cosmos().await;
    service.fill("table", 40, 5).await;
    let pages = service
        .pages("table", "n eq 1 and RowKey ge 'r003'", 9)
        .await;
    let keys: Vec<_> = pages.iter().flat_map(|page| page.keys()).collect();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!((keys.len(), distinct.len()), (80, 80));
}

#[tokio::test]
async fn a_page_may_have_more_than_1000_entities_if_it_is_asked_for() {
    let service = Service::cosmos().await;
    service.fill("table", 12, 100).await;
    let large = service.must(ask("GET", "/table()?$top=1100")).await;
    assert_eq!(large.keys().len(), 1_100);
    let usual = service.must(ask("GET", "/table()")).await;
    assert_eq!(usual.keys().len(), 1_000);

    let storage = Service::storage().await;
    storage.must(create_table("table")).await;
    let refused = storage.ask(ask("GET", "/table()?$top=1001")).await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidInput"));
}

#[tokio::test]
async fn names_of_tables_differ_by_case() {
    let service = Service::cosmos().await;
    service.must(create_table("Some")).await;
    service.must(create_table("some")).await;
    service
        .must(put("some", ("p", "r"), &json!({ "n": 1 })))
        .await;
    let found = service.must(ask("GET", "/some()")).await.keys().len();
    let other = service.must(ask("GET", "/Some()")).await.keys().len();
    assert_eq!((found, other), (1, 0));

    let across = batch(&[
        put("some", ("p", "1"), &json!({})),
        put("Some", ("p", "2"), &json!({})),
    ]);
    let refused = service.ask(across).await;
    let code = "CommandsInBatchActOnDifferentPartitions";
    assert!(refused.body.contains(code), "{refused:?}");
    assert_eq!(service.must(ask("GET", "/some()")).await.keys().len(), 1);

    let storage = Service::storage().await;
    storage.must(create_table("Some")).await;
    let again = storage.ask(create_table("some")).await;
    assert_eq!(again.code(), "TableAlreadyExists");
}

#[tokio::test]
async fn row_keys_have_at_most_255_bytes() {
    let service = Service::cosmos().await;
    service.must(create_table("table")).await;
    let longest = "x".repeat(255);
    service
        .must(put("table", ("p", &longest), &json!({})))
        .await;
    for too_long in ["x".repeat(256), "%C3%A4".repeat(128)] {
        let refused = service
            .ask(put("table", ("p", &too_long), &json!({})))
            .await;
        let expected = (400, "PropertyValueTooLarge");
        assert_eq!((refused.status, refused.code()), expected);
    }
}

#[tokio::test]
async fn batches_have_at_most_2_mib() {
    let text = "x".repeat(30_000);
    let change = |row: usize| put("table", ("p", &row.to_string()), &json!({ "text": text }));
    let changes: Vec<_> = (0..75).map(change).collect();
    let (cosmos, storage) = (Service::cosmos().await, Service::storage().await);
    for (service, status) in [(cosmos, 413), (storage, 202)] {
        service.must(create_table("table")).await;
        assert_eq!(service.ask(batch(&changes)).await.status, status);
        assert_eq!(service.must(batch(&changes[..60])).await.status, 202);
    }
}

#[tokio::test]
async fn what_only_storage_has_is_refused() {
    let service = Service::cosmos().await;
    service.must(create_table("table")).await;
    for (method, target) in [
        ("GET", "/?restype=service&comp=properties"),
        ("PUT", "/?restype=service&comp=properties"),
        ("GET", "/?restype=service&comp=stats"),
        ("GET", "/table?comp=acl"),
        ("PUT", "/table?comp=acl"),
    ] {
        let refused = service.ask(ask(method, target)).await;
        let expected = (501, "NotImplemented");
        assert_eq!((refused.status, refused.code()), expected, "{target}");
    }
    let atom = ask("GET", "/table()").with("x-ms-version", "2013-08-15");
    let mut atom = atom.with("accept", "application/atom+xml");
    atom.headers.remove(0);
    let refused = service.ask(atom).await;
    let expected = (415, "AtomFormatNotSupported");
    assert_eq!((refused.status, refused.code()), expected);
    assert!(refused.header("content-type").contains("json"));
    assert_eq!(
        service
            .ask(put("table", ("p", "r"), &json!({ "etag": 1 })))
            .await
            .code(),
        "PropertyNameInvalid"
    );
    assert_eq!(
        service
            .ask(ask("GET", entity("table", ("p", "r"))))
            .await
            .status,
        404
    );
}
