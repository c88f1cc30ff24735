//! A table with provisioned throughput, in Cosmos: who asks too much is told when to come back.

use serde_json::json;
use tessera_core::clock::Clock;
use tessera_table::Mode;

use crate::answer::Answer;
use crate::ask::{Ask, ask, batch, create_table, put, query};
use crate::service::Service;

const PROVISIONED: f64 = 400.0;

/// Somewhere in a second, at a time that entities can have.
const START_MS: u64 = 1_800_000_000_250;

fn write(row: usize) -> Ask {
    put("table", ("p", &row.to_string()), &json!({ "n": 1 }))
}

async fn service(mode: Mode) -> (Service, Clock) {
    let clock = Clock::manual(START_MS);
    let service = Service::new(mode, clock.clone()).await;
    let create = create_table("table").with("x-ms-offer-throughput", "400");
    service.must(create).await;
    (service, clock)
}

/// Writes until there is nothing left in this second; answers how many writes passed, what they
/// cost, and the refusal.
async fn exhaust(service: &Service, first_row: usize) -> (usize, f64, Answer) {
    let mut spent = 0.0;
    for row in first_row.. {
        let answer = service.ask(write(row)).await;
        if answer.status == 429 {
            return (row - first_row, spent, answer);
        }
        assert_eq!(answer.status, 204, "{answer:?}");
        spent += answer.charge();
    }
    unreachable!()
}

#[tokio::test]
async fn a_second_has_400_request_units_and_the_next_one_too() {
    let (service, clock) = service(Mode::Cosmos).await;
    let (passed, spent, refused) = exhaust(&service, 0).await;
    assert!(
        (PROVISIONED..PROVISIONED + 10.0).contains(&spent),
        "{spent}"
    );
    assert_eq!(refused.code(), "TooManyRequests");
    assert_eq!(refused.json()["odata.error"]["code"], "TooManyRequests");
    assert_eq!(refused.header("x-ms-retry-after-ms"), "750");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.charge(), 0.0);

    clock.advance(749);
    assert_eq!(service.ask(write(passed)).await.status, 429);
    assert_eq!(service.ask(query("table", "", "")).await.status, 429);
    clock.advance(1);
    let all = service.must(query("table", "", "")).await;
    assert_eq!(all.keys().len(), passed, "what was refused was not done");
    let (again, _, _) = exhaust(&service, passed).await;
    assert!(again > 0);
}

#[tokio::test]
async fn a_batch_is_refused_inside_its_answer() {
    let (service, clock) = service(Mode::Cosmos).await;
    let (passed, _, _) = exhaust(&service, 0).await;
    let changes = batch(&[write(1_000), write(1_001)]);
    let refused = service.ask(changes.clone()).await;
    assert_eq!(refused.status, 202);
    for part in [
        "HTTP/1.1 429 Too Many Requests\r\n",
        "x-ms-retry-after-ms: 750\r\n",
        "\"code\":\"TooManyRequests\"",
        "\"value\":\"0:",
    ] {
        assert!(refused.body.contains(part), "{part} in {}", refused.body);
    }
    clock.advance(750);
    let all = service.must(query("table", "", "")).await;
    assert_eq!(all.keys().len(), passed, "nothing of the batch was done");
    service.must(changes).await;
}

#[tokio::test]
async fn other_tables_are_not_held_back() {
    let (service, _clock) = service(Mode::Cosmos).await;
    exhaust(&service, 0).await;
    service.must(create_table("other")).await;
    let change = put("other", ("p", "r"), &json!({}));
    service.must(change).await;
}

#[tokio::test]
async fn throughput_comes_in_hundreds_from_400_on() {
    let (service, _clock) = service(Mode::Cosmos).await;
    for (number, units) in ["300", "450", "-1", "many", ""].into_iter().enumerate() {
        let create = create_table(&format!("table{number}"));
        let create = create.with("x-ms-offer-throughput", units);
        let refused = service.ask(create).await;
        assert_eq!(refused.code(), "InvalidHeaderValue", "{units}");
    }
    let autoscale = "x-ms-cosmos-offer-autopilot-settings";
    for (settings, status) in [
        (r#"{"maxThroughput": 4000}"#, 201),
        (r#"{"maxThroughput": 4500}"#, 400),
        ("4000", 400),
    ] {
        let create = create_table("scaled").with(autoscale, settings);
        assert_eq!(service.ask(create).await.status, status, "{settings}");
    }
}

#[tokio::test]
async fn throughput_is_shown_with_its_table() {
    let (service, _clock) = service(Mode::Cosmos).await;
    let autoscale = "x-ms-cosmos-offer-autopilot-settings";
    let scaled = create_table("scaled").with(autoscale, r#"{"maxThroughput": 4000}"#);
    service.must(scaled).await;
    service.must(create_table("free")).await;
    for (table, manual, settings) in [
        ("table", "400", ""),
        ("scaled", "", r#"{"maxThroughput":4000}"#),
        ("free", "", ""),
    ] {
        let found = service
            .must(ask("GET", format!("/Tables('{table}')")))
            .await;
        assert_eq!(found.header("x-ms-offer-throughput"), manual, "{table}");
        assert_eq!(found.header(autoscale), settings, "{table}");
    }
}

#[tokio::test]
async fn storage_never_holds_back() {
    let (service, _clock) = service(Mode::Storage).await;
    for row in 0..300 {
        service.must(write(row)).await;
    }
    let all = service.must(ask("GET", "/table()")).await;
    assert_eq!(all.keys().len(), 300);
}
