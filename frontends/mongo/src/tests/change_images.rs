//! What change streams show of documents as they were before and after changes.

use bson::{Bson, Document, doc};
use tessera_core::clock::Clock;

use super::change_streams::{Asked, delete, shop, update};
use crate::client::Client;

async fn images(client: &mut Client, enabled: bool) {
    let options = doc! { "enabled": enabled };
    let command = doc! { "collMod": "orders", "changeStreamPreAndPostImages": options };
    client.run("shop", command).await;
}

fn asked(before: &str, after: &str) -> Asked {
    Asked::collection()
        .option("fullDocumentBeforeChange", before)
        .option("fullDocument", after)
}

/// Of each event what it shows: before and after; `-` if it does not have the field.
fn shown(events: &[Document]) -> Vec<String> {
    let field = |event: &Document, name: &str| match event.get(name) {
        Some(value) => value.to_string().replace('"', ""),
        None => "-".to_owned(),
    };
    let event = |event: &Document| {
        let kind = event.get_str("operationType").unwrap();
        let before = field(event, "fullDocumentBeforeChange");
        format!("{kind} {before} {}", field(event, "fullDocument"))
    };
    events.iter().map(event).collect()
}

/// An insert, an update, a replacing and a removal of the same document.
async fn changes(client: &mut Client, id: i32) {
    client
        .insert("shop", "orders", vec![doc! { "_id": id }])
        .await;
    update(client, id, doc! { "$set": { "a": 1 } }).await;
    update(client, id, doc! { "b": 1 }).await;
    delete(client, id).await;
}

#[tokio::test]
async fn images_are_as_documents_were_when_they_changed() {
    let mut client = shop().await;
    images(&mut client, true).await;
    for mode in ["whenAvailable", "required"] {
        let mut watcher = asked(mode, mode).open(&client).await;
        changes(&mut client, 1).await;
        assert_eq!(
            shown(&watcher.events().await),
            [
                "insert - { _id: 1 }",
                "update { _id: 1 } { _id: 1, a: 1 }",
                "replace { _id: 1, a: 1 } { _id: 1, b: 1 }",
                "delete { _id: 1, b: 1 } -",
            ],
            "{mode}"
        );
    }
    let mut watcher = Asked::collection().open(&client).await;
    changes(&mut client, 1).await;
    let plain = shown(&watcher.events().await);
    assert_eq!(
        plain,
        [
            "insert - { _id: 1 }",
            "update - -",
            "replace - { _id: 1, b: 1 }",
            "delete - -"
        ]
    );
}

#[tokio::test]
async fn what_is_not_kept_is_null_or_ends_the_stream() {
    let mut client = shop().await;
    let mut watcher = asked("whenAvailable", "whenAvailable").open(&client).await;
    changes(&mut client, 1).await;
    assert_eq!(
        shown(&watcher.events().await),
        [
            "insert - { _id: 1 }",
            "update null null",
            "replace null { _id: 1, b: 1 }",
            "delete null -",
        ]
    );
    for (before, after, told) in [("required", "default", 1), ("off", "required", 1)] {
        let mut watcher = asked(before, after).open(&client).await;
        changes(&mut client, 2).await;
        // What came before is told, and the stream can be resumed behind it.
        let first = watcher.client.run("shop", watcher.get_more()).await;
        let batch = first.get_document("cursor").unwrap().get_array("nextBatch");
        assert_eq!(batch.unwrap().len(), told);
        let get_more = watcher.get_more();
        let failed = watcher.client.send("shop", get_more.clone()).await;
        assert_eq!(failed.get_i32("code").unwrap(), 47, "{failed}");
        assert_eq!(failed.get_str("codeName").unwrap(), "NoMatchingDocument");
        assert!(!failed.contains_key("errorLabels"));
        assert_eq!(watcher.client.code("shop", get_more).await, 43);
    }
    // What the pipeline leaves out need not be kept.
    let inserts = doc! { "$match": { "operationType": "insert" } };
    let mut watcher = asked("required", "required")
        .stage(inserts)
        .open(&client)
        .await;
    changes(&mut client, 4).await;
    assert_eq!(watcher.told().await, ["insert 4"]);
    // A removal has nothing after it, an insert nothing before it.
    let mut watcher = asked("off", "required").open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 3 }])
        .await;
    update(&mut client, 3, doc! { "b": 1 }).await;
    delete(&mut client, 3).await;
    assert_eq!(watcher.told().await, ["insert 3", "replace 3", "delete 3"]);
}

#[tokio::test]
async fn images_are_kept_from_when_they_are_asked_for_until_they_are_not() {
    let mut client = shop().await;
    let mut watcher = asked("whenAvailable", "default").open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1, "n": 0 }])
        .await;
    let set = |n: i32| doc! { "$set": { "n": n } };
    update(&mut client, 1, set(1)).await;
    images(&mut client, true).await;
    update(&mut client, 1, set(2)).await;
    images(&mut client, false).await;
    update(&mut client, 1, set(3)).await;
    let events = shown(&watcher.events().await);
    assert_eq!(
        events,
        [
            "insert - { _id: 1, n: 0 }",
            "update null -",
            "update { _id: 1, n: 1 } -",
            "update null -",
        ]
    );
}

/// A collection that keeps them has a feed before anybody follows it.
#[tokio::test]
async fn images_from_before_the_first_stream_are_shown() {
    let mut client = Client::new().await;
    let create = doc! { "create": "orders", "changeStreamPreAndPostImages": { "enabled": true } };
    let created = client.run("shop", create.clone()).await;
    let begin = created.get_timestamp("operationTime").unwrap();
    changes(&mut client, 1).await;
    let mut watcher = asked("required", "required")
        .option("startAtOperationTime", begin)
        .open(&client)
        .await;
    assert_eq!(watcher.events().await.len(), 4);
    // Creating it again is no error, with other options it is.
    client.run("shop", create).await;
    let other = doc! { "create": "orders", "changeStreamPreAndPostImages": { "enabled": false } };
    assert_eq!(client.code("shop", other).await, 48);
}

#[tokio::test]
async fn listed_collections_show_that_they_keep_images() {
    let mut client = shop().await;
    let options = async |client: &mut Client| {
        let listed = client
            .batch(
                "shop",
                doc! { "listCollections": 1, "filter": { "name": "orders" } },
            )
            .await;
        listed[0].get_document("options").unwrap().clone()
    };
    assert_eq!(options(&mut client).await, doc! {});
    images(&mut client, true).await;
    let kept = doc! { "changeStreamPreAndPostImages": { "enabled": true } };
    assert_eq!(options(&mut client).await, kept);
    images(&mut client, false).await;
    assert_eq!(options(&mut client).await, doc! {});
}

#[tokio::test]
async fn what_cannot_keep_images_is_refused() {
    let mut client = shop().await;
    client
        .run("shop", doc! { "create": "v", "viewOn": "orders" })
        .await;
    let option = |mut command: Document, enabled: Bson| {
        command.insert("changeStreamPreAndPostImages", doc! { "enabled": enabled });
        command
    };
    let view = || doc! { "create": "w", "viewOn": "orders", "pipeline": [] };
    for (database, command, code) in [
        ("shop", option(doc! { "create": "a" }, 1.into()), 14),
        ("shop", option(doc! { "create": "a" }, "true".into()), 14),
        ("shop", option(doc! { "create": "a" }, Bson::Null), 40_414),
        ("shop", option(view(), true.into()), 72),
        ("shop", option(view(), false.into()), 0),
        ("shop", option(doc! { "collMod": "v" }, true.into()), 72),
        ("shop", option(doc! { "collMod": "v" }, false.into()), 72),
        ("shop", option(doc! { "collMod": "orders" }, 1.0.into()), 14),
        ("admin", option(doc! { "create": "a" }, true.into()), 72),
        ("admin", option(doc! { "create": "a" }, false.into()), 0),
        ("config", option(doc! { "create": "a" }, true.into()), 72),
    ] {
        let told = command.to_string();
        assert_eq!(client.code(database, command).await, code, "{told}");
    }
    let unknown =
        doc! { "create": "b", "changeStreamPreAndPostImages": { "enabled": true, "x": 1 } };
    assert_eq!(client.code("shop", unknown).await, 40_415);
}

#[tokio::test]
async fn images_expire_after_the_time_that_the_cluster_keeps_them() {
    let clock = Clock::manual(1_700_000_000_000);
    let mut client = Client::at(clock.clone()).await;
    client.run("shop", doc! { "create": "orders" }).await;
    images(&mut client, true).await;
    let mut watcher = asked("whenAvailable", "default").open(&client).await;
    let expiry = |seconds: Bson| {
        let images = doc! { "expireAfterSeconds": seconds };
        doc! { "setClusterParameter": { "changeStreamOptions": { "preAndPostImages": images } } }
    };
    client.run("admin", expiry(100.into())).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1 }])
        .await;
    delete(&mut client, 1).await;
    clock.advance(60_000);
    client
        .insert("shop", "orders", vec![doc! { "_id": 2 }])
        .await;
    delete(&mut client, 2).await;
    clock.advance(60_000);
    let events = shown(&watcher.events().await);
    assert_eq!(events[1], "delete null -");
    assert_eq!(events[3], "delete { _id: 2 } -");
    let get = doc! { "getClusterParameter": "changeStreamOptions" };
    let set = |reply: &Document| {
        let parameters = reply.get_array("clusterParameters").unwrap();
        let parameter = parameters[0].as_document().unwrap();
        let images = parameter.get_document("preAndPostImages").unwrap();
        images.get("expireAfterSeconds").unwrap().clone()
    };
    assert_eq!(
        set(&client.run("admin", get.clone()).await),
        Bson::Int64(100)
    );
    client.run("admin", expiry("off".into())).await;
    assert_eq!(set(&client.run("admin", get).await), Bson::from("off"));
}

#[tokio::test]
async fn parameters_of_the_cluster_are_checked() {
    let mut client = Client::new().await;
    let set = |value: Bson| doc! { "setClusterParameter": { "changeStreamOptions": value } };
    let expiry =
        |seconds: Bson| set(doc! { "preAndPostImages": { "expireAfterSeconds": seconds } }.into());
    let get = |names: Bson| doc! { "getClusterParameter": names };
    for (command, code) in [
        (expiry(0.into()), 2),
        (expiry((-1).into()), 2),
        (expiry(true.into()), 2),
        (expiry("on".into()), 2),
        (expiry(Bson::Null), 2),
        (expiry(Bson::Double(f64::NAN)), 2),
        (set("x".into()), 2),
        (set(doc! {}.into()), 2),
        (set(doc! { "preAndPostImages": null }.into()), 2),
        (set(doc! { "$bad": 1 }.into()), 52),
        (doc! { "setClusterParameter": {} }, 4),
        (doc! { "setClusterParameter": null }, 40_414),
        (doc! { "setClusterParameter": { "logLevel": {} } }, 4),
        (doc! { "setClusterParameter": { "a": {}, "b": {} } }, 72),
        (get("unknown".into()), 4),
        (get("".into()), 4),
        (get(Bson::Array(vec!["*".into()])), 4),
        (get(Bson::Array(vec![])), 2),
        (get(Bson::Array(vec![1.into()])), 14),
        (get(Bson::Null), 14),
        (get(1.into()), 14),
        (get("*".into()), 0),
        (expiry(7_200.0.into()), 0),
    ] {
        let told = command.to_string();
        assert_eq!(client.code("admin", command).await, code, "{told}");
    }
    assert_eq!(client.code("shop", get("*".into())).await, 13);
}

/// The store turns a feed on for images alone, and only for those who ask.
#[tokio::test]
async fn who_does_not_ask_for_images_has_no_feed() {
    let client = shop().await;
    let store = client.service.store.clone();
    let has_feed = async || {
        let mut transaction = store.begin().await.unwrap();
        let name = tessera_core::name::ContainerName::new(crate::API, "shop", "orders");
        let container = transaction.container(&name).await.unwrap();
        container.definition.feed.is_some()
    };
    assert!(!has_feed().await);
    let mut other = client.another();
    images(&mut other, true).await;
    assert!(has_feed().await);
}
