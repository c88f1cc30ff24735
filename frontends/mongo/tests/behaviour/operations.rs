//! What runs: seeing it, stopping it, and what the server tells of itself.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, doc};
use tessera_core::Store;
use tessera_core::store::StoreOptions;
use tessera_mongo::MongoConfig;

use crate::client::{Client, Service};

/// A service in which every `hostInfo` takes long.
async fn slow() -> (Service, Client) {
    let service = Service::for_tests().await;
    let mut client = service.connect();
    client
        .must(
            "admin",
            doc! { "hello": 1, "client": { "application": { "name": "me" } } },
        )
        .await;
    (service, client)
}

#[tokio::test]
async fn a_waiting_command_is_seen_and_killed() {
    let (service, mut client) = slow().await;
    let mut waiting = service.connect();
    let version = client.must("admin", doc! { "hello": 1 }).await;
    let version = version.get_document("topologyVersion").unwrap().clone();
    let wait = doc! {
        "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000, "$db": "admin",
    };
    waiting.send_message(0, &wait).await;
    let seen = loop {
        let shown = client.must("admin", doc! { "currentOp": 1 }).await;
        let shown = shown.get_array("inprog").unwrap().clone();
        let seen = shown.iter().filter_map(Bson::as_document);
        let mut seen = seen.filter(|op| op.get_document("command").unwrap().contains_key("hello"));
        if let Some(seen) = seen.next().cloned() {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(seen.get_str("client").unwrap(), "127.0.0.1:5000");
    assert!(seen.get_bool("active").unwrap());
    let filtered = doc! { "currentOp": 1, "command.hello": 1 };
    let filtered = client.must("admin", filtered).await;
    assert_eq!(filtered.get_array("inprog").unwrap().len(), 1);

    let kill = doc! { "killOp": 1, "op": seen.get_i32("opid").unwrap() };
    client.must("admin", kill).await;
    let (_, reply) = waiting.receive().await.unwrap().message();
    assert_eq!(reply.get_i32("code").unwrap(), 11601);
    waiting.ping().await;
}

#[tokio::test]
async fn a_command_ends_when_its_time_is_over() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let version = client.must("admin", doc! { "hello": 1 }).await;
    let version = version.get_document("topologyVersion").unwrap().clone();
    let wait = doc! {
        "hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000, "maxTimeMS": 20,
    };
    assert_eq!(client.code(wait).await, 50);
    client.ping().await;
}

#[tokio::test]
async fn a_pipeline_ends_when_its_time_is_over() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let documents: Vec<Document> = (0..60).map(|n| doc! { "_id": n }).collect();
    let insert = doc! { "insert": "c", "documents": documents };
    client.must("admin", insert).await;
    let lookup = |pipeline: Vec<Document>| {
        doc! { "$lookup": { "from": "c", "pipeline": pipeline, "as": "x" } }
    };
    // Copies 216,000 documents sixty times, all in memory.
    let stage = lookup(vec![lookup(vec![lookup(Vec::new())])]);
    let command = doc! { "aggregate": "c", "pipeline": [stage], "cursor": {}, "maxTimeMS": 5 };
    assert_eq!(client.code(command).await, 50);
    client.ping().await;
}

#[tokio::test]
async fn idle_connections_are_shown_on_request() {
    let (service, mut client) = slow().await;
    let mut idle = service.connect();
    idle.ping().await;
    let all = client
        .must("admin", doc! { "currentOp": 1, "$all": true })
        .await;
    let all = all.get_array("inprog").unwrap();
    assert_eq!(all.len(), 2);
    let own = all[0].as_document().unwrap();
    assert_eq!(own.get_str("appName").unwrap(), "me");
    drop(idle);
}

async fn reply(command: Document) -> Document {
    Service::plain()
        .await
        .connect()
        .must("admin", command)
        .await
}

#[tokio::test]
async fn the_server_tells_what_it_is() {
    let build = reply(doc! { "buildInfo": 1 }).await;
    assert_eq!(build.get_str("version").unwrap(), "8.0.0");
    assert_eq!(build.get_array("versionArray").unwrap().len(), 4);
    let host = reply(doc! { "hostInfo": 1 }).await;
    assert!(
        host.get_document("system")
            .unwrap()
            .get_i32("numCores")
            .unwrap()
            > 0
    );
    let uri = reply(doc! { "whatsmyuri": 1 }).await;
    assert_eq!(uri.get_str("you").unwrap(), "127.0.0.1:5000");
    let log = reply(doc! { "getLog": "startupWarnings" }).await;
    assert!(log.get_array("log").unwrap().is_empty());
    let commands = reply(doc! { "listCommands": 1 }).await;
    let commands = commands.get_document("commands").unwrap();
    assert!(commands.contains_key("ping") && commands.contains_key("createUser"));
    let parameter = doc! { "getParameter": 1, "featureCompatibilityVersion": 1 };
    let parameter = reply(parameter).await;
    let version = parameter
        .get_document("featureCompatibilityVersion")
        .unwrap();
    assert_eq!(version.get_str("version").unwrap(), "8.0");
}

#[tokio::test]
async fn status_counts_what_was_done() {
    let service = Service::plain().await;
    let mut client = service.connect();
    client.ping().await;
    client.code(doc! { "getLog": "nothing" }).await;
    let status = client
        .must("admin", doc! { "serverStatus": 1, "mem": 0 })
        .await;
    assert!(!status.contains_key("mem"));
    let connections = status.get_document("connections").unwrap();
    assert_eq!(connections.get_i32("current").unwrap(), 1);
    let commands = status
        .get_document("metrics")
        .unwrap()
        .get_document("commands")
        .unwrap();
    let get_log = commands.get_document("getLog").unwrap();
    assert_eq!(get_log, &doc! { "failed": 1i64, "total": 1i64 });
    let requests = status
        .get_document("network")
        .unwrap()
        .get_i64("numRequests")
        .unwrap();
    assert_eq!(requests, 3);
}

#[tokio::test]
async fn parameters_are_changed_and_keep_their_types() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let set = |level: Bson| doc! { "setParameter": 1, "logLevel": level };
    let was = client.must("admin", set(2.into())).await;
    assert_eq!(was.get_i32("was").unwrap(), 0);
    let now = client
        .must("admin", doc! { "getParameter": 1, "logLevel": 1 })
        .await;
    assert_eq!(now.get_i32("logLevel").unwrap(), 2);
    for (command, code) in [
        (set("x".into()), 2),
        (set((-1).into()), 2),
        (doc! { "setParameter": 1 }, 72),
        (doc! { "setParameter": 1, "unknown": 1 }, 72),
        (doc! { "setParameter": 1, "enableTestCommands": 1 }, 20),
        (doc! { "getParameter": 1, "unknown": 1 }, 72),
        (doc! { "getParameter": "foo" }, 72),
    ] {
        assert_eq!(client.code(command.clone()).await, code, "{command}");
    }
    let all = client.must("admin", doc! { "getParameter": "*" }).await;
    assert!(all.len() > 10);
}

#[tokio::test]
async fn cursors_wait_as_long_as_the_parameter_says() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let documents: Vec<Document> = (0..5).map(|n| doc! { "_id": n }).collect();
    let insert = doc! { "insert": "c", "documents": documents };
    client.must("admin", insert).await;
    for (timeout, expected) in [(600_000, 0), (1, 43)] {
        let set = doc! { "setParameter": 1, "cursorTimeoutMillis": timeout };
        client.must("admin", set).await;
        let found = client
            .must("admin", doc! { "find": "c", "batchSize": 2 })
            .await;
        let id = found.get_document("cursor").unwrap().get_i64("id").unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let more = doc! { "getMore": id, "collection": "c" };
        assert_eq!(client.code(more).await, expected);
    }
}

#[tokio::test]
async fn validation_compares_documents_with_rules_and_indexes() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let documents: Vec<Document> = (0..5).map(|n| doc! { "_id": n, "a": n }).collect();
    let insert = doc! { "insert": "c", "documents": documents };
    client.must("test", insert).await;
    let index = doc! { "key": { "a": 1 }, "name": "i", "unique": true };
    let create = doc! { "createIndexes": "c", "indexes": [index] };
    client.must("test", create).await;
    let validate = doc! { "validate": "c" };
    let found = client.must("test", validate.clone()).await;
    assert!(found.get_bool("valid").unwrap());
    assert_eq!(found.get_i32("nNonCompliantDocuments").unwrap(), 0);
    let rules = doc! { "collMod": "c", "validator": { "a": { "$gt": 1 } } };
    client.must("test", rules).await;
    let found = client.must("test", validate.clone()).await;
    assert!(found.get_bool("valid").unwrap());
    assert_eq!(found.get_i32("nNonCompliantDocuments").unwrap(), 2);
    assert_eq!(found.get_array("warnings").unwrap().len(), 1);

    // A server that does not know what documents mean writes no entries.
    let engine = Arc::clone(service.store.engine());
    let store = Store::open(engine, StoreOptions::default()).await.unwrap();
    let blind = Service::over(store, MongoConfig::default());
    let insert = doc! { "insert": "c", "documents": [{ "_id": 9, "a": 9 }] };
    blind.connect().must("test", insert).await;
    let found = client.must("test", validate).await;
    assert!(!found.get_bool("valid").unwrap());
    assert!(!found.get_array("errors").unwrap().is_empty());
}

#[tokio::test]
async fn the_last_command_is_told_with_its_charge() {
    let service = Service::plain().await;
    let mut client = service.connect();
    client.ping().await;
    let told = client
        .must("admin", doc! { "getLastRequestStatistics": 1 })
        .await;
    assert_eq!(told.get_str("CommandName").unwrap(), "ping");
    assert_eq!(told.get_f64("RequestCharge").unwrap(), 0.0);
}

#[tokio::test]
async fn writes_wait_while_the_server_is_locked() {
    let service = Service::plain().await;
    let mut client = service.connect();
    assert_eq!(client.code(doc! { "fsyncUnlock": 1 }).await, 20);
    let locked = client
        .must("admin", doc! { "fsync": 1, "lock": true })
        .await;
    assert_eq!(locked.get_i64("lockCount").unwrap(), 1);
    let mut writer = service.connect();
    let write = doc! { "dropAllRolesFromDatabase": 1, "maxTimeMS": 20 };
    assert_eq!(writer.code(write.clone()).await, 50);
    writer.must("admin", doc! { "endSessions": [] }).await;
    client.ping().await;
    let unlocked = client.must("admin", doc! { "fsyncUnlock": 1 }).await;
    assert_eq!(unlocked.get_i64("lockCount").unwrap(), 0);
    assert_eq!(writer.code(write).await, 0);
}
