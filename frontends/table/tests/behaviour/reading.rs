//! Queries look at what their filter leaves, and at no more: the charge tells.
//!
//! Asking a partition is 2.3 request units, each entity looked at 0.02. Between two partition keys
//! entities are found through the index of the keys, 0.02 for its entry, and read one by one, 1.0.

use crate::answer::Answer;
use crate::ask::{ask, query};
use crate::service::Service;

/// Together 10,000 entities.
const PARTITIONS: usize = 100;
const ROWS: usize = 100;

const POINT: f64 = 1.0;
const ASKED: f64 = 2.3;
const EXAMINED: f64 = 0.02;
const EXAMINED_BY_INDEX: f64 = 1.02;

fn check(filter: &str, pages: &[Answer], entities: usize, charges: &[f64]) {
    let found: usize = pages.iter().map(|page| page.keys().len()).sum();
    assert_eq!(found, entities, "{filter}");
    assert_eq!(pages.len(), charges.len(), "{filter}: pages");
    for (page, expected) in pages.iter().zip(charges) {
        let off = (page.charge() - expected).abs();
        assert!(
            off < 0.011,
            "{filter}: {} and not {expected}",
            page.charge()
        );
    }
}

#[tokio::test]
async fn only_what_the_filter_leaves_is_looked_at() {
    let service = Service::cosmos().await;
    service.fill("table", PARTITIONS, ROWS).await;
    let rows = |count: f64| ASKED + count * EXAMINED;
    for (filter, entities, charge) in [
        ("PartitionKey eq 'p042' and RowKey eq 'r007'", 1, POINT),
        ("RowKey eq 'r007' and 'p042' eq PartitionKey", 1, POINT),
        ("PartitionKey eq 'p042' and RowKey eq 'none'", 0, POINT),
        ("PartitionKey eq 'p042'", 100, rows(100.0)),
        ("PartitionKey eq 'none'", 0, rows(0.0)),
        ("PartitionKey eq 'p042' and n eq 2", 0, rows(100.0)),
        (
            "PartitionKey eq 'p042' and RowKey ge 'r010' and RowKey lt 'r020'",
            10,
            rows(10.0),
        ),
        (
            "PartitionKey eq 'p042' or PartitionKey eq 'p007'",
            200,
            2.0 * rows(100.0),
        ),
        (
            "(PartitionKey eq 'p042' and RowKey eq 'r1') \
             or PartitionKey eq 'p007' and RowKey eq 'r001'",
            1,
            2.0 * POINT,
        ),
        (
            "PartitionKey eq 'p042' and (RowKey eq 'r001' or RowKey eq 'r002')",
            2,
            2.0 * POINT,
        ),
        (
            "PartitionKey ge 'p010' and PartitionKey lt 'p012'",
            200,
            ASKED + 200.0 * EXAMINED_BY_INDEX,
        ),
        ("PartitionKey eq 'p1' and PartitionKey eq 'p2'", 0, 0.0),
    ] {
        let pages = service.pages("table", filter, 1_000).await;
        check(filter, &pages, entities, &[charge]);
    }
}

#[tokio::test]
async fn a_page_looks_at_about_what_it_returns() {
    let service = Service::cosmos().await;
    service.fill("table", PARTITIONS, ROWS).await;
    let partition = "PartitionKey eq 'p042'";
    let ten = ASKED + 10.0 * EXAMINED;
    let pages = service.pages("table", partition, 10).await;
    check(partition, &pages, 100, &[ten; 10]);
    let range = "PartitionKey ge 'p010' and PartitionKey lt 'p012'";
    let by_index = ASKED + 50.0 * EXAMINED_BY_INDEX;
    // A page that begins within a partition reads that one in place.
    let in_place = ASKED + 50.0 * EXAMINED;
    let charges = [by_index, in_place, ASKED + by_index, in_place, 2.0 * ASKED];
    let pages = service.pages("table", range, 50).await;
    check(range, &pages, 200, &charges);
    let whole = ask("GET", "/table()?$top=10");
    check("", &[service.must(whole).await], 10, &[ten]);

    // Where nothing matches, what is looked at grows with what was in vain, and ends with the data.
    let vain = query("table", "n eq 2", "&$top=1");
    let all = ASKED + (PARTITIONS * ROWS) as f64 * EXAMINED;
    let vain = service.must(vain).await;
    assert!(vain.keys().is_empty() && vain.next_page().is_none());
    assert!(
        (all..all + 25.0 * ASKED).contains(&vain.charge()),
        "{}",
        vain.charge()
    );
}
