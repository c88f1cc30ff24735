//! Logical sessions and what commands may carry.

use bson::{Document, doc};

use crate::client::{Client, Service};

async fn started(client: &mut Client) -> Document {
    let reply = client.must("admin", doc! { "startSession": 1 }).await;
    assert_eq!(reply.get_i32("timeoutMinutes").unwrap(), 30);
    reply.get_document("id").unwrap().clone()
}

async fn in_use(client: &mut Client) -> i32 {
    let status = client.must("admin", doc! { "serverStatus": 1 }).await;
    let cache = status.get_document("logicalSessionRecordCache").unwrap();
    cache.get_i32("activeSessionsCount").unwrap()
}

#[tokio::test]
async fn sessions_begin_by_use_and_end_on_request() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let one = started(&mut client).await;
    let two = started(&mut client).await;
    assert_ne!(one, two);
    assert_eq!(in_use(&mut client).await, 2);
    client
        .must("admin", doc! { "endSessions": [one.clone()] })
        .await;
    assert_eq!(in_use(&mut client).await, 1);
    // Used again, it is there again.
    client
        .must("admin", doc! { "ping": 1, "lsid": one.clone() })
        .await;
    assert_eq!(in_use(&mut client).await, 2);
    client
        .must("admin", doc! { "refreshSessions": [one, two.clone()] })
        .await;
    client.must("admin", doc! { "killSessions": [two] }).await;
    assert_eq!(in_use(&mut client).await, 1);
    client.must("admin", doc! { "killAllSessions": [] }).await;
    assert_eq!(in_use(&mut client).await, 0);
}

#[tokio::test]
async fn sessions_are_killed_by_pattern_and_by_owner() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let one = started(&mut client).await;
    started(&mut client).await;
    client
        .must(
            "admin",
            doc! { "killAllSessionsByPattern": [{ "lsid": one }] },
        )
        .await;
    assert_eq!(in_use(&mut client).await, 1);
    let nobody = doc! { "killAllSessions": [{ "user": "ada", "db": "admin" }] };
    client.must("admin", nobody).await;
    assert_eq!(in_use(&mut client).await, 1);
    client
        .must("admin", doc! { "killAllSessionsByPattern": [] })
        .await;
    assert_eq!(in_use(&mut client).await, 0);
}

#[tokio::test]
async fn what_is_not_a_session_is_refused() {
    let service = Service::plain().await;
    let mut client = service.connect();
    for (command, code) in [
        (doc! { "endSessions": 1 }, 14),
        (doc! { "killSessions": bson::Bson::Null }, 40414),
        (doc! { "endSessions": [1] }, 14),
        (doc! { "endSessions": [{}] }, 40414),
        (doc! { "endSessions": [{ "id": 1 }] }, 14),
        (doc! { "refreshSessions": [], "other": 1 }, 40415),
        (doc! { "startSession": 1, "writeConcern": { "w": 1 } }, 72),
        (
            doc! { "startSession": 1, "readConcern": { "level": "majority" } },
            72,
        ),
        (doc! { "killAllSessions": [{ "user": "ada" }] }, 40414),
        (doc! { "killAllSessionsByPattern": [{ "other": 1 }] }, 40415),
        (doc! { "ping": 1, "lsid": { "id": "x" } }, 14),
        (doc! { "ping": 1, "txnNumber": 1i64 }, 72),
    ] {
        assert_eq!(client.code(command.clone()).await, code, "{command}");
    }
    let lsid = started(&mut client).await;
    let numbered = doc! { "ping": 1, "lsid": lsid, "txnNumber": 1i64 };
    assert_eq!(client.code(numbered).await, 50768);
}

#[tokio::test]
async fn the_stable_api_is_kept() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let strict = |command: &str| doc! { command: 1, "apiVersion": "1", "apiStrict": true };
    assert_eq!(client.code(strict("ping")).await, 0);
    assert_eq!(client.code(strict("buildInfo")).await, 323);
    assert_eq!(
        client.code(doc! { "ping": 1, "apiVersion": "2" }).await,
        322
    );
}
