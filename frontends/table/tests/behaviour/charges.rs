//! Request charges: in every answer of Cosmos, in none of Table storage.

use serde_json::json;

use crate::ask::{Ask, ask, batch, create_table, entity, put, query};
use crate::service::Service;

/// Keys and other properties take a few bytes of the first KiB too.
const ALMOST_1_KIB: usize = 1_000;
/// An insert of 1 KiB is 5.5; the entry in the index of the keys is 0.25.
const INSERT: f64 = 5.75;

fn of_size(row: &str, bytes: usize) -> Ask {
    put("table", ("p", row), &json!({ "text": "x".repeat(bytes) }))
}

fn get(row: &str) -> Ask {
    ask("GET", entity("table", ("p", row)))
}

fn delete(row: &str) -> Ask {
    ask("DELETE", entity("table", ("p", row))).with("if-match", "*")
}

/// Every kind of answer there is, refusals included.
fn everything() -> Vec<Ask> {
    vec![
        create_table("table"),
        create_table("table"),
        ask("GET", "/Tables"),
        of_size("r", 10),
        get("r"),
        get("missing"),
        query("table", "PartitionKey eq 'p'", ""),
        query("table", "nonsense", ""),
        ask("GET", "/missing()"),
        batch(&[of_size("1", 10), of_size("2", 10)]),
        batch(&[of_size("1", 10), delete("missing")]),
        batch(&[get("r")]),
        ask("PUT", entity("table", ("p", "r"))).sending("{}").with(
            "if-match",
            "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"",
        ),
        ask("POST", "/table").sending("{}"),
        get("r").signed_by("one", "AAAA"),
        get("r").signed_by("nobody", "AAAA"),
        ask("BREW", "/table"),
        ask("GET", "/table()?$filter=%ff"),
        ask("OPTIONS", "/table").with("origin", "http://a.example"),
        delete("r"),
        ask("DELETE", "/Tables('table')"),
    ]
}

#[tokio::test]
async fn every_answer_of_cosmos_says_what_it_cost() {
    let service = Service::cosmos().await;
    for ask in everything() {
        let asked = format!("{} {}", ask.method, ask.target);
        let charge = service.ask(ask).await.charge();
        assert!((0.0..100.0).contains(&charge), "{asked}: {charge}");
    }
}

#[tokio::test]
async fn storage_knows_no_charges() {
    let service = Service::storage().await;
    for ask in everything() {
        let answer = service.ask(ask).await;
        for name in ["x-ms-request-charge", "x-ms-retry-after-ms", "retry-after"] {
            assert_eq!(answer.headers.get(name), None, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn the_published_prices_are_asked() {
    let service = Service::cosmos().await;
    service.must(create_table("table")).await;
    let insert = ask("POST", "/table").sending(
        json!({ "PartitionKey": "p", "RowKey": "1k", "text": "x".repeat(ALMOST_1_KIB) })
            .to_string(),
    );
    assert_eq!(service.must(insert).await.charge(), INSERT);
    assert_eq!(service.must(get("1k")).await.charge(), 1.0);
    // An update reads what it replaces.
    let replaced = service.must(of_size("1k", ALMOST_1_KIB)).await;
    assert_eq!(replaced.charge(), 12.0);
    assert_eq!(service.must(delete("1k")).await.charge(), 1.0 + INSERT);

    for property in ["a", "b"] {
        let text = "x".repeat(30_000);
        let merge = ask("MERGE", entity("table", ("p", "60k")));
        let merge = merge.sending(json!({ property: text }).to_string());
        service.must(merge).await;
    }
    let large = service.must(get("60k")).await.charge();
    assert!((6.0..6.6).contains(&large), "{large}");
}

#[tokio::test]
async fn a_batch_costs_what_its_operations_do() {
    let service = Service::cosmos().await;
    service.must(create_table("table")).await;
    let single = service.must(of_size("0", 10)).await.charge();
    let two = service.must(batch(&[of_size("1", 10), of_size("2", 10)]));
    assert_eq!(two.await.charge(), 2.0 * single);
}

#[tokio::test]
async fn refusals_cost_what_was_done_for_them() {
    let service = Service::cosmos().await;
    service.must(create_table("table")).await;
    assert_eq!(service.ask(get("missing")).await.charge(), 1.0);
    assert_eq!(service.ask(delete("missing")).await.charge(), 1.0);
    let undone = batch(&[of_size("1", 10), delete("missing")]);
    let undone = service.ask(undone).await;
    assert!(undone.body.contains("ResourceNotFound"), "{undone:?}");
    assert!(undone.charge() > INSERT, "{}", undone.charge());
    let unread = service.ask(get("r").signed_by("one", "AAAA")).await;
    assert_eq!(unread.charge(), 0.0);
}
