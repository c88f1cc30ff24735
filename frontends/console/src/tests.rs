//! The console over a store in memory, as a client sees it.

use std::time::Instant;

use tessera_core::deadline::measured;
use tessera_core::definition::NewContainer;
use tessera_core::engine::Engine;
use tessera_core::item::NewItem;
use tessera_core::locator::Locator;
use tessera_core::memory::MemoryEngine;
use tessera_core::name::ContainerName;
use tessera_core::provisioning::Throughput;
use tessera_core::store::StoreOptions;
use tessera_frontend::Listener;
use tessera_frontend::testing::connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::watch;

use super::*;

mod feeds;

async fn console(engine: Arc<dyn Engine>) -> Console {
    let address = "127.0.0.1:8080".parse().unwrap();
    let listeners = vec![Listener {
        name: "console",
        address,
        tls: false,
    }];
    let about = About {
        version: "1.2.3",
        engine: "memory",
        started: Instant::now(),
        listeners,
    };
    let store = Store::open(engine, StoreOptions::default()).await.unwrap();
    Console::new(store, about, None)
}

/// Sends `request`, which must ask for the connection to be closed, and returns all that comes.
async fn exchange(console: &Console, request: &str) -> String {
    let (mut client, server) = duplex(1 << 16);
    let (_stop, stopping) = watch::channel(false);
    let connection = connection(server, stopping);
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let (_, read) = tokio::join!(
        console.serve(connection),
        client.read_to_string(&mut answer)
    );
    read.unwrap();
    answer
}

async fn check(console: &Console, request_line: &str, expected: &[&str]) {
    check_with(console, request_line, "host: localhost", "", expected).await;
}

async fn check_with(
    console: &Console,
    request_line: &str,
    headers: &str,
    body: &str,
    expected: &[&str],
) {
    let length = body.len();
    let request = format!(
        "{request_line} HTTP/1.1\r\n{headers}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    let answer = exchange(console, &request).await;
    for part in expected {
        assert!(answer.contains(part), "{part:?} is not in {answer}");
    }
}

#[tokio::test]
async fn health_follows_the_engine() {
    let engine = Arc::new(MemoryEngine::new());
    let console = console(engine.clone()).await;
    let healthy = [
        "HTTP/1.1 200 OK",
        "\"status\":\"ok\"",
        "\"version\":\"1.2.3\"",
    ];
    check(&console, "GET /health", &healthy).await;
    let listeners = "\"listeners\":{\"console\":{\"address\":\"127.0.0.1:8080\",\"tls\":false}}";
    check(&console, "GET /health", &[listeners, "x-request-id: 1-1"]).await;
    engine.close().await.unwrap();
    let closed = [
        "HTTP/1.1 503 ",
        "\"status\":\"unavailable\"",
        "\"reason\":\"the storage",
    ];
    check(&console, "GET /health", &closed).await;
}

#[tokio::test]
async fn unknown_pages_and_methods_are_refused_in_json() {
    let console = console(Arc::new(MemoryEngine::new())).await;
    check(
        &console,
        "GET /nowhere",
        &["HTTP/1.1 404 ", "application/json", "/health"],
    )
    .await;
    check(
        &console,
        "DELETE /health",
        &["HTTP/1.1 405 ", "allow: GET, HEAD\r\n"],
    )
    .await;
    let head = exchange(&console, "HEAD /health HTTP/1.0\r\n\r\n").await;
    assert!(
        head.starts_with("HTTP/1.0 200 OK") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn partition_keys_are_advised_on() {
    let console = console(Arc::new(MemoryEngine::new())).await;
    let name = ContainerName::new("test", "d", "c");
    let new = NewContainer::default();
    console.store.create_container(&name, &new).await.unwrap();
    let asking = "POST /api/containers/test/d/c/advice";
    let json = "host: localhost\r\ncontent-type: application/json";
    for (body, expected) in [
        ("{}", &["HTTP/1.1 404 ", "holds no records"][..]),
        (
            r#"{"key": "a"}"#,
            &["HTTP/1.1 400 ", "the body must be like"],
        ),
        (
            r#"{"keys": ["a,,b"]}"#,
            &["HTTP/1.1 400 ", "empty field name"],
        ),
    ] {
        check_with(&console, asking, json, body, expected).await;
    }
    let mut transaction = console.store.begin().await.unwrap();
    let container = transaction.container(&name).await.unwrap();
    for row in 0..10_u8 {
        let item = NewItem::new(Locator::murmur3("only", vec![row]), "x");
        transaction.upsert(&container, item).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let answer = [
        "HTTP/1.1 200 OK",
        "\"absent\":null",
        "its partition key — to watch",
        "\"key\":\"only\"",
        "<svg ",
    ];
    let question = r#"{"partitions": 1}"#;
    check_with(&console, asking, json, question, &answer).await;
    let nobody = "POST /api/containers/test/d/x/advice";
    check_with(&console, nobody, json, "{}", &["HTTP/1.1 404 "]).await;
    check(&console, asking, &["HTTP/1.1 415 "]).await;
}

#[tokio::test]
async fn requests_on_one_connection_are_answered_in_turn() {
    let console = console(Arc::new(MemoryEngine::new())).await;
    let request = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
    let last = "GET /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answers = exchange(&console, &format!("{request}{request}{last}")).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert!(answers.contains("x-request-id: 1-3"), "{answers}");
}

const JSON: &str = "host: 127.0.0.1:8080\r\ncontent-type: application/json";

/// A console over a container `a b` with one item.
async fn filled() -> Console {
    let console = console(Arc::new(MemoryEngine::new())).await;
    let name = ContainerName::new("table", "account", "a b");
    let new = NewContainer {
        throughput: Some(Throughput::Manual(400)),
        counts_logical_partitions: true,
        ..NewContainer::default()
    };
    console.store.create_container(&name, &new).await.unwrap();
    let mut transaction = console.store.begin().await.unwrap();
    let container = transaction.container(&name).await.unwrap();
    let item = NewItem::new(Locator::murmur3("ada", "1"), "x");
    transaction.insert(&container, item).await.unwrap();
    transaction.commit().await.unwrap();
    console
}

#[tokio::test]
async fn containers_are_listed_and_shown() {
    let console = filled().await;
    let name = r#""api":"table","database":"account","container":"a b""#;
    check(
        &console,
        "GET /api/containers",
        &["200 OK", name, r#""items":1"#],
    )
    .await;
    let path = "GET /api/containers/table/account/a%20b";
    let hot = r#""hot_keys":[{"key":"ada","partition":0,"#;
    let large = r#""large_keys":[{"key":"ada","partition":0,"items":1,"#;
    let throughput = r#""throughput":{"mode":"manual","request_units_per_second":400}"#;
    check(&console, path, &["200 OK", name, hot, large, throughput]).await;
    check(
        &console,
        "GET /api/containers/table/account/b",
        &["404", "does not exist"],
    )
    .await;
    let container = r#"api="table",database="account",container="a b",partition="0""#;
    let lines = [
        format!("tessera_partition_request_units_total{{{container}}} 5.5"),
        format!("tessera_partition_requests_total{{{container}}} 1"),
        format!("tessera_hot_key_request_units_per_second{{{container},key=\"ada\"}} "),
        format!("tessera_large_key_bytes{{{container},key=\"ada\"}} "),
    ];
    let mut expected = vec!["200 OK", "text/plain; version=0.0.4"];
    expected.extend(lines.iter().map(String::as_str));
    check(&console, "GET /metrics", &expected).await;
}

#[tokio::test]
async fn a_planted_long_poll_is_shown() {
    let console = filled().await;
    let spinning = async {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
    };
    let operation = Deadline::new(None, None).named("planted");
    measured("tests", operation.run(spinning)).await;
    let labels = r#"tessera_longest_poll_seconds{tasks="tests",operation="planted"} 0."#;
    check(&console, "GET /metrics", &["200 OK", labels]).await;
    let shown = r#"{"tasks":"tests","operation":"planted","ms":"#;
    check(
        &console,
        "GET /api/polls",
        &["200 OK", shown, r#""long_ms":10.0"#],
    )
    .await;
}

#[tokio::test]
async fn what_only_the_server_needs_is_not_shown() {
    let console = filled().await;
    let name = ContainerName::new("mongo-system", "sessions", "writes");
    let new = NewContainer::default();
    console.store.create_container(&name, &new).await.unwrap();
    for path in ["/api/containers", "/api/databases", "/metrics"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = exchange(&console, &request).await;
        assert!(
            answer.contains("a b") || path == "/api/databases",
            "{answer}"
        );
        assert!(!answer.contains("mongo-system"), "{answer}");
    }
}

#[tokio::test]
async fn containers_are_changed() {
    let console = filled().await;
    for (action, body, expected) in [
        (
            "throughput",
            r#"{"manual":20000}"#,
            r#""request_units_per_second":20000"#,
        ),
        (
            "throughput",
            r#"{"autoscale":1000}"#,
            r#""mode":"autoscale""#,
        ),
        (
            "throughput",
            r#"{"manual":401}"#,
            "must be a multiple of 100 from 400",
        ),
        ("throughput", r#"{"manual":"x"}"#, "the body must be like"),
        ("throughput", r#"{"unlimited":false}"#, "the body must be"),
        (
            "throughput",
            r#"{"unlimited":true}"#,
            r#""throughput":null"#,
        ),
        ("merge", r#"{"partition":1}"#, r#""partitions":[{"id":3,"#),
        ("split", r#"{"partition":99}"#, "404"),
        ("split", r#"{"partition":3,"at":0}"#, "unknown field"),
    ] {
        let line = format!("POST /api/containers/table/account/a%20b/{action}");
        check_with(&console, &line, JSON, body, &[expected]).await;
    }
}

#[tokio::test]
async fn databases_share_throughput() {
    let console = filled().await;
    let list = "GET /api/databases";
    let none = r#"{"api":"table","database":"account","containers":1,"throughput":null}"#;
    check(&console, list, &["200 OK", none]).await;
    let provision = "POST /api/databases/table/account/throughput";
    let some = r#""throughput":{"mode":"manual","request_units_per_second":20000}"#;
    check_with(
        &console,
        provision,
        JSON,
        r#"{"manual":20000}"#,
        &["200 OK", some],
    )
    .await;
    check_with(&console, provision, JSON, r#"{"manual":1}"#, &["400"]).await;
    let container = "/api/containers/table/account/a%20b";
    let own = format!("GET {container}");
    check(&console, &own, &[r#""shared":null"#, r#""budget":400.0"#]).await;
    let free = format!("POST {container}/throughput");
    let shared = r#""shared":{"mode":"manual","request_units_per_second":20000}"#;
    let unlimited = r#"{"unlimited":true}"#;
    check_with(
        &console,
        &free,
        JSON,
        unlimited,
        &[shared, r#""budget":10000.0"#],
    )
    .await;
    check_with(&console, provision, JSON, unlimited, &["200 OK", none]).await;
}

#[tokio::test]
async fn other_sites_and_other_machines_are_refused() {
    let mut console = filled().await;
    let list = "GET /api/containers";
    let split = "POST /api/containers/table/account/a%20b/split";
    let evil = "host: evil.example\r\ncontent-type: application/json";
    let form = "host: localhost\r\ncontent-type: text/plain";
    let body = r#"{"partition":0}"#;
    check_with(&console, list, evil, "", &["403", "for localhost only"]).await;
    check_with(&console, split, evil, body, &["403"]).await;
    check_with(&console, split, form, body, &["415", "must be JSON"]).await;
    for (site, expected) in [
        ("cross-site", "403"),
        ("same-site", "403"),
        ("same-origin", "200 OK"),
        ("none", "200 OK"),
    ] {
        let headers = format!("host: localhost\r\nsec-fetch-site: {site}");
        check_with(&console, list, &headers, "", &[expected]).await;
        check_with(&console, "GET /health", &headers, "", &["200 OK"]).await;
    }
    console.admin_key = Some("a key that is long".to_owned());
    check_with(
        &console,
        list,
        evil,
        "",
        &["401", "www-authenticate: Bearer"],
    )
    .await;
    let bearer = "host: tessera.example\r\nauthorization: Bearer a key that is long";
    check_with(&console, list, bearer, "", &["200 OK"]).await;
    check_with(
        &console,
        list,
        &bearer.replace("long", "short"),
        "",
        &["401"],
    )
    .await;
}

#[tokio::test]
async fn the_page_is_there_and_may_load_nothing_from_elsewhere() {
    let console = console(Arc::new(MemoryEngine::new())).await;
    let policy = "content-security-policy: default-src 'none'";
    check(
        &console,
        "GET /",
        &["200 OK", "text/html", policy, "<title>Tessera</title>"],
    )
    .await;
    check(
        &console,
        "GET /console.js",
        &["200 OK", "text/javascript", "use strict"],
    )
    .await;
    check(
        &console,
        "GET /console.css",
        &["200 OK", "text/css", "prefers-color-scheme"],
    )
    .await;
    check(&console, "POST /", &["405", "allow: GET, HEAD"]).await;
}
