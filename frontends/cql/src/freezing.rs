//! Statements that are as long as they may be, beside a client that asks for little; and what ends
//! those that compute for long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::ErrorKind;
use crate::service::Service;
use crate::testing::{Client, Tester, query};
use crate::wire::{Response, Version};

/// How long the other client may wait.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How long a statement may take: the tests are not optimised.
const LATE: Duration = Duration::from_secs(30);

async fn filled() -> (Arc<Service>, Client) {
    let service = Arc::clone(&Tester::new().await.service);
    let mut client = Client::started(&service, Version::V4, None).await;
    for text in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1}",
        "CREATE TABLE k.t (k int PRIMARY KEY, t text, v varint, l list<int>, m map<text, text>, \
         f frozen<map<text, text>>)",
    ] {
        let response = client.query(text).await;
        assert!(!matches!(response, Response::Error(_)), "{response:?}");
    }
    (service, client)
}

fn many(count: usize, between: &str, each: impl Fn(usize) -> String) -> String {
    let parts: Vec<String> = (0..count).map(each).collect();
    parts.join(between)
}

/// How many parts a long statement has.
const N: usize = 20_000;

/// Statements of which some part is as long as the statement: a loop over it must count, and must
/// not look at every other part for each.
fn long_statements() -> Vec<String> {
    [long_writes(), long_reads(), long_definitions()].concat()
}

fn long_writes() -> Vec<String> {
    let pairs = |n: usize| many(n, ", ", |n| format!("'{n}': 'x'"));
    vec![
        format!(
            "UPDATE k.t SET t = 'x' WHERE k = 1 IF {}",
            many(N, " AND ", |_| "t = 'x'".into())
        ),
        format!(
            "UPDATE k.t SET t = 'x' WHERE k = 1 IF {}",
            many(N, " AND ", |n| format!("m['{n}'] = 'x'"))
        ),
        format!(
            "UPDATE k.t SET t = 'x' WHERE k = 1 IF t IN ({})",
            many(N, ", ", |n| format!("'{n}'"))
        ),
        format!(
            "DELETE FROM k.t WHERE k = 1 IF {}",
            many(N, " AND ", |_| "t = 'x'".into())
        ),
        format!("INSERT INTO k.t (k, m) VALUES (1, {{{}}})", pairs(N)),
        format!("INSERT INTO k.t (k, f) VALUES (1, {{{}}})", pairs(N)),
        format!(
            "INSERT INTO k.t (k, l) VALUES (1, [{}])",
            many(N, ", ", |n| n.to_string())
        ),
        format!(
            "UPDATE k.t SET l = l + [{}] WHERE k = 2",
            many(N, ", ", |n| n.to_string())
        ),
        format!(
            "UPDATE k.t SET l = l - [{}] WHERE k = 2",
            many(N, ", ", |n| n.to_string())
        ),
        format!(
            "UPDATE k.t SET {} WHERE k = 3",
            many(N, ", ", |n| format!("m['{n}'] = 'x'"))
        ),
        format!(
            "DELETE {} FROM k.t WHERE k = 3",
            many(N, ", ", |n| format!("m['{n}']"))
        ),
        format!(
            "INSERT INTO k.t JSON '{{\"k\": 1, \"m\": {{{}}}}}'",
            pairs(N).replace('\'', "\"")
        ),
        format!(
            "BEGIN UNLOGGED BATCH {} APPLY BATCH",
            many(2_000, " ", |n| format!("INSERT INTO k.t (k) VALUES ({n});"))
        ),
    ]
}

fn long_reads() -> Vec<String> {
    vec![
        format!(
            "SELECT * FROM k.t WHERE {} ALLOW FILTERING",
            many(N, " AND ", |n| format!("l CONTAINS {n}"))
        ),
        format!(
            "SELECT * FROM k.t WHERE {} ALLOW FILTERING",
            many(N, " AND ", |n| format!("m['{n}'] = 'x'"))
        ),
        format!(
            "SELECT * FROM k.t WHERE k IN ({})",
            many(N, ", ", |n| n.to_string())
        ),
        format!(
            "SELECT * FROM k.t WHERE {}",
            many(N, " AND ", |_| "k = 1".into())
        ),
        format!("SELECT {} FROM k.t", many(N, ", ", |_| "toJson(t)".into())),
        format!(
            "SELECT * FROM k.t WHERE token({}) > 1",
            many(N, ", ", |n| format!("c{n}"))
        ),
    ]
}

fn long_definitions() -> Vec<String> {
    let pairs = |n: usize| many(n, ", ", |n| format!("'{n}': 'x'"));
    vec![
        format!(
            "CREATE TABLE k.w (k int PRIMARY KEY, {})",
            many(N, ", ", |n| format!("c{n} int"))
        ),
        format!(
            "CREATE TABLE k.x (k int, PRIMARY KEY ({}))",
            many(N, ", ", |n| format!("c{n}"))
        ),
        format!(
            "CREATE TYPE k.u ({})",
            many(N, ", ", |n| format!("c{n} int"))
        ),
        format!(
            "ALTER TABLE k.t ADD ({})",
            many(N, ", ", |n| format!("c{n} frozen<nothing>"))
        ),
        format!(
            "ALTER TABLE k.t RENAME {}",
            many(N, " AND ", |n| format!("c{n} TO d{n}"))
        ),
        format!("ALTER TABLE k.t WITH compaction = {{{}}}", pairs(N)),
        format!(
            "ALTER TABLE k.t WITH {}",
            many(N, " AND ", |n| format!("p{n} = 1"))
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_statements_leave_room_for_others() {
    let (service, mut canary) = filled().await;
    for text in long_statements() {
        let shown: String = text.chars().take(90).collect();
        let mut client = Client::started(&service, Version::V4, None).await;
        let began = Instant::now();
        let hostile = tokio::spawn(async move { client.query(&text).await });
        let mut longest = Duration::ZERO;
        while !hostile.is_finished() {
            let asked = Instant::now();
            canary.query("SELECT k FROM k.t WHERE k = 0").await;
            longest = longest.max(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let took = began.elapsed();
        let answer = hostile.await.unwrap();
        assert!(longest < PATIENCE, "others waited {longest:?} for {shown}");
        assert!(took < LATE, "took {took:?}: {shown}");
        if let Response::Error(error) = answer {
            let refused = [
                ErrorKind::Invalid,
                ErrorKind::Syntax,
                ErrorKind::Configuration,
            ];
            assert!(refused.contains(&error.kind), "{error:?}: {shown}");
        }
    }
}

/// A statement that looks at each of many rows for long.
async fn endless(client: &mut Client) -> String {
    for key in 0..4_000 {
        let insert = format!("INSERT INTO k.t (k, l) VALUES ({key}, [1])");
        let response = client.query(&insert).await;
        assert_eq!(response, Response::Result(crate::wire::ResultBody::Void));
    }
    let conditions = many(50_000, " AND ", |_| "l CONTAINS 1".into());
    format!("SELECT k FROM k.t WHERE {conditions} ALLOW FILTERING")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computations_end_with_their_client_and_with_the_server() {
    let (service, mut other) = filled().await;
    let text = endless(&mut other).await;
    let held = Arc::strong_count(&service);
    let mut client = Client::started(&service, Version::V4, None).await;
    client.send(1, query(&text), false).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(Arc::strong_count(&service) > held, "it is done already");
    drop(client);
    let began = Instant::now();
    while Arc::strong_count(&service) > held {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "it goes on without its client"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let mut client = Client::started(&service, Version::V4, None).await;
    client.send(1, query(&text), false).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.stop();
    let answered = client.next().await.unwrap();
    let Response::Error(error) = answered.response else {
        panic!("it was done before the server stopped");
    };
    assert_eq!(error.kind, ErrorKind::Overloaded, "{error:?}");
}
