//! Commands that fail because a test wants them to.

use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};

use crate::client::{Client, Service};

async fn fail(client: &mut Client, mode: impl Into<Bson>, data: Document) {
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data };
    client.must("admin", command).await;
}

#[tokio::test]
async fn commands_fail_as_often_as_asked() {
    let service = Service::for_tests().await;
    let mut client = service.connect();
    let data = doc! { "failCommands": ["ping"], "errorCode": 11600 };
    fail(&mut client, doc! { "times": 2 }, data).await;
    for expected in [11600, 11600, 0] {
        assert_eq!(client.code(doc! { "ping": 1 }).await, expected);
    }
    assert_eq!(client.code(doc! { "whatsmyuri": 1 }).await, 0);
}

#[tokio::test]
async fn labels_follow_from_the_code_or_are_given() {
    let service = Service::for_tests().await;
    let mut client = service.connect();
    let data = doc! { "failCommands": ["ping"], "errorCode": 16500 };
    fail(&mut client, "alwaysOn", data.clone()).await;
    let reply = client.run("admin", doc! { "ping": 1 }).await;
    assert!(
        !reply.contains_key("errorLabels"),
        "of who says nothing of backpressure"
    );
    client
        .must("admin", doc! { "hello": 1, "backpressure": "2" })
        .await;
    let reply = client.run("admin", doc! { "ping": 1 }).await;
    let expected = ["SystemOverloadedError", "RetryableError"].map(Bson::from);
    assert_eq!(reply.get_array("errorLabels").unwrap(), &expected);

    let mut data = data;
    data.insert("errorLabels", vec!["Mine"]);
    fail(&mut client, "alwaysOn", data).await;
    let reply = client.run("admin", doc! { "ping": 1 }).await;
    assert_eq!(
        reply.get_array("errorLabels").unwrap(),
        &[Bson::from("Mine")]
    );
}

#[tokio::test]
async fn connections_are_closed_and_commands_wait() {
    let service = Service::for_tests().await;
    let mut client = service.connect();
    let data = doc! { "failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 50 };
    fail(&mut client, doc! { "times": 1 }, data).await;
    let began = Instant::now();
    client.ping().await;
    assert!(began.elapsed() >= Duration::from_millis(50));

    let data = doc! { "failCommands": ["ping"], "closeConnection": true };
    fail(&mut client, doc! { "times": 1 }, data).await;
    client
        .send_message(0, &doc! { "ping": 1, "$db": "admin" })
        .await;
    assert!(client.receive().await.is_none());
    service.connect().ping().await;
}

#[tokio::test]
async fn a_command_may_be_done_and_its_concern_not_met() {
    let service = Service::for_tests().await;
    let mut client = service.connect();
    let error = doc! { "code": 91, "errmsg": "stopping" };
    let data = doc! { "failCommands": ["dropAllRolesFromDatabase"], "writeConcernError": error };
    fail(&mut client, doc! { "times": 1 }, data).await;
    let reply = client
        .must("admin", doc! { "dropAllRolesFromDatabase": 1 })
        .await;
    assert_eq!(
        reply
            .get_document("writeConcernError")
            .unwrap()
            .get_i32("code")
            .unwrap(),
        91
    );
    let concern = doc! { "dropAllRolesFromDatabase": 1, "writeConcern": { "w": 3 } };
    let reply = client.must("admin", concern).await;
    assert_eq!(
        reply
            .get_document("writeConcernError")
            .unwrap()
            .get_i32("code")
            .unwrap(),
        100
    );
}

#[tokio::test]
async fn only_servers_for_tests_can_be_made_to_fail() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let command = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    assert_eq!(client.code(command).await, 59);
    let parameter = doc! { "getParameter": 1, "enableTestCommands": 1 };
    let shown = client.must("admin", parameter).await;
    assert!(!shown.get_bool("enableTestCommands").unwrap());
}
