//! A server with little memory: bodies that there is none for are refused as when it is busy, pages
//! are shorter, and all comes back.

use serde_json::json;

use crate::ask::{batch, create_table, put};
use crate::service::{Service, key};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn bodies_are_refused_and_small_requests_go_on() {
    let service = Service::within(2 * MIB).await;
    service.must(create_table("things")).await;
    for kilobytes in [600, 650, 700, 750, 800, 850, 900, 950, 1_000, 1_010] {
        let changes: Vec<_> = (0..kilobytes / 25)
            .map(|row| {
                let value = json!({ "v": "x".repeat(25_000) });
                put("things", ("p", &key('r', row)), &value)
            })
            .collect();
        let answer = service.ask(batch(&changes)).await;
        assert_eq!(answer.status, 503, "{kilobytes}: {answer:?}");
        service
            .must(put("things", ("p", "small"), &json!({ "v": 1 })))
            .await;
        assert!(service.store.memory().peak() <= 2 * MIB);
    }
    assert_eq!(service.store.memory().used(), 0);
}

#[tokio::test]
async fn pages_are_shorter_where_memory_is_short() {
    let service = Service::within(4 * MIB).await;
    service.must(create_table("things")).await;
    for row in 0..60 {
        let value = json!({ "v": "x".repeat(30_000) });
        service
            .must(put("things", ("p", &key('r', row)), &value))
            .await;
    }
    let pages = service.pages("things", "", 1_000).await;
    assert!(pages.len() > 1, "{}", pages.len());
    let entities: usize = pages
        .iter()
        .map(|page| page.body.matches("RowKey\":").count())
        .sum();
    assert_eq!(entities, 60);
    drop(pages);
    assert!(service.store.memory().peak() <= 4 * MIB);
}
