//! What change streams tell of definitions to those who ask for expanded events.

use bson::{Bson, Document, doc};

use super::change_streams::{Asked, shop, short};
use crate::client::Client;

fn expanded(asked: Asked) -> Asked {
    asked.option("showExpandedEvents", true)
}

fn description(event: &Document) -> &Document {
    event.get_document("operationDescription").unwrap()
}

fn kinds(events: &[Document]) -> Vec<String> {
    events.iter().map(short).collect()
}

async fn index(client: &mut Client, name: &str) {
    let spec = doc! { "key": { name: 1 }, "name": name };
    client
        .run(
            "shop",
            doc! { "createIndexes": "orders", "indexes": [spec] },
        )
        .await;
}

async fn uuid(client: &mut Client, name: &str) -> Bson {
    let listed = doc! { "listCollections": 1, "filter": { "name": name } };
    let listed = client.batch("shop", listed).await;
    let info = listed[0].get_document("info").unwrap();
    info.get("uuid").unwrap().clone()
}

#[tokio::test]
async fn indexes_are_told_when_they_are_there_and_when_they_go() {
    let mut client = shop().await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1, "a": 1 }])
        .await;
    let mut watcher = expanded(Asked::collection()).open(&client).await;
    let mut plain = Asked::collection().open(&client).await;
    index(&mut client, "a").await;
    client
        .run("shop", doc! { "dropIndexes": "orders", "index": "a" })
        .await;
    let events = watcher.events().await;
    assert_eq!(kinds(&events), ["createIndexes", "dropIndexes"]);
    let uuid = uuid(&mut client, "orders").await;
    for event in &events {
        let spec = doc! { "v": 2, "key": { "a": 1 }, "name": "a" };
        assert_eq!(description(event), &doc! { "indexes": [spec] });
        assert_eq!(event.get("collectionUUID").unwrap(), &uuid);
        let names: Vec<_> = event.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "_id",
                "operationType",
                "clusterTime",
                "collectionUUID",
                "wallTime",
                "ns",
                "operationDescription"
            ]
        );
    }
    assert!(plain.events().await.is_empty());
}

#[tokio::test]
async fn an_index_that_cannot_be_built_was_never_there() {
    let mut client = shop().await;
    client
        .insert(
            "shop",
            "orders",
            vec![doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 1 }],
        )
        .await;
    let mut watcher = expanded(Asked::collection()).open(&client).await;
    let mut all = expanded(Asked::collection())
        .option("showSystemEvents", true)
        .open(&client)
        .await;
    let spec = doc! { "key": { "a": 1 }, "name": "a", "unique": true };
    let create = doc! { "createIndexes": "orders", "indexes": [spec] };
    assert_eq!(client.code("shop", create).await, 11_000);
    assert_eq!(watcher.told().await, [""; 0]);
    assert_eq!(all.told().await, ["startIndexBuild", "abortIndexBuild"]);
}

#[tokio::test]
async fn what_coll_mod_changes_is_told_with_how_it_was() {
    let mut client = shop().await;
    index(&mut client, "a").await;
    let mut watcher = expanded(Asked::collection()).open(&client).await;
    let validator = doc! { "a": { "$gt": 1 } };
    for change in [
        doc! {},
        doc! { "validator": validator.clone(), "validationLevel": "moderate" },
        doc! { "index": { "name": "a", "hidden": true } },
        doc! { "index": { "name": "a", "hidden": false } },
    ] {
        let mut command = doc! { "collMod": "orders" };
        command.extend(change);
        client.run("shop", command).await;
    }
    let events = watcher.events().await;
    assert_eq!(kinds(&events), ["modify"; 4]);
    let [nothing, rules, hidden, shown] = events.as_slice() else {
        panic!("{events:?}");
    };
    let state = |event: &Document| event.get_document("stateBeforeChange").unwrap().clone();
    let uuid = uuid(&mut client, "orders").await;
    assert_eq!(description(nothing), &doc! {});
    let before = doc! { "collectionOptions": { "uuid": uuid } };
    assert_eq!(state(nothing), before);
    assert_eq!(state(rules), before);
    assert_eq!(
        description(rules),
        &doc! {
            "validator": validator, "validationLevel": "moderate", "validationAction": "error",
        }
    );
    let index = |hidden: bool| doc! { "index": { "name": "a", "hidden": hidden } };
    assert_eq!(description(hidden), &index(true));
    assert_eq!(description(shown), &index(false));
    let options = |event: &Document| {
        let state = state(event);
        state.get_document("indexOptions").unwrap().clone()
    };
    assert_eq!(options(hidden), doc! { "hidden": false });
    assert_eq!(options(shown), doc! { "hidden": true });
}

#[tokio::test]
async fn what_comes_into_being_and_goes_is_told() {
    let mut client = shop().await;
    let mut watcher = expanded(Asked::database()).open(&client).await;
    let mut plain = Asked::database().open(&client).await;
    let capped = doc! { "create": "log", "capped": true, "size": 4_096 };
    client.run("shop", capped).await;
    let view = doc! { "create": "view", "viewOn": "log", "pipeline": [] };
    client.run("shop", view).await;
    client.run("shop", doc! { "drop": "view" }).await;
    client.run("shop", doc! { "drop": "log" }).await;
    let events = watcher.events().await;
    assert_eq!(kinds(&events), ["create", "create", "drop", "drop"]);
    let [log, view, ..] = events.as_slice() else {
        panic!("{events:?}");
    };
    let id_index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
    assert_eq!(
        description(log),
        &doc! { "capped": true, "size": 4_096, "idIndex": id_index }
    );
    assert_eq!(description(view), &doc! { "viewOn": "log", "pipeline": [] });
    assert_eq!(log.get_str("nsType").unwrap(), "collection");
    assert_eq!(view.get_str("nsType").unwrap(), "view");
    assert!(!view.contains_key("collectionUUID"));
    // Others hear of collections that go alone.
    assert_eq!(plain.told().await, ["drop"]);
}

#[tokio::test]
async fn renaming_tells_what_it_took_the_place_of() {
    let mut client = shop().await;
    client.run("shop", doc! { "create": "old" }).await;
    let mut watcher = expanded(Asked::collection()).open(&client).await;
    let gone = uuid(&mut client, "old").await;
    let rename = doc! { "renameCollection": "shop.orders", "to": "shop.old", "dropTarget": true };
    client.run("admin", rename).await;
    let events = watcher.events().await;
    assert_eq!(kinds(&events), ["rename", "invalidate"]);
    let to = doc! { "db": "shop", "coll": "old" };
    assert_eq!(
        description(&events[0]),
        &doc! { "to": to.clone(), "dropTarget": gone }
    );
    assert_eq!(events[0].get_document("to").unwrap(), &to);
    assert!(!events[1].contains_key("collectionUUID"));
}

#[tokio::test]
async fn shard_keys_are_told_as_they_change() {
    let mut client = shop().await;
    let mut watcher = expanded(Asked::collection()).open(&client).await;
    for (command, key) in [
        ("shardCollection", doc! { "a": 1 }),
        ("refineCollectionShardKey", doc! { "a": 1, "b": 1 }),
        ("reshardCollection", doc! { "c": "hashed" }),
    ] {
        client
            .run("admin", doc! { command: "shop.orders", "key": key })
            .await;
    }
    let told: Vec<_> = watcher
        .events()
        .await
        .into_iter()
        .filter(|event| event.get_str("operationType").unwrap().contains("hard"))
        .map(|event| {
            let description = description(&event);
            (
                short(&event),
                description.get_document("shardKey").unwrap().clone(),
                description.get_document("oldShardKey").ok().cloned(),
            )
        })
        .collect();
    let row = |kind: &str, key: Document, old: Option<Document>| (kind.to_owned(), key, old);
    assert_eq!(
        told,
        [
            row("shardCollection", doc! { "a": "hashed" }, None),
            row(
                "refineCollectionShardKey",
                doc! { "a": "hashed", "b": "hashed" },
                Some(doc! { "a": "hashed" })
            ),
            row(
                "reshardCollection",
                doc! { "c": "hashed" },
                Some(doc! { "a": "hashed", "b": "hashed" })
            ),
        ]
    );
}

/// Several events of one commit: whoever resumes behind one hears the rest.
#[tokio::test]
async fn every_event_of_one_change_can_be_resumed_behind() {
    let mut client = shop().await;
    let mut watcher = expanded(Asked::database()).open(&client).await;
    client
        .run(
            "admin",
            doc! { "shardCollection": "shop.new", "key": { "a": 1 } },
        )
        .await;
    let events = watcher.events().await;
    let told = kinds(&events);
    assert_eq!(told[..2], ["create", "shardCollection"]);
    for (at, event) in events.iter().enumerate() {
        let token = event.get_document("_id").unwrap().clone();
        let mut rest = expanded(Asked::database())
            .option("resumeAfter", token)
            .open(&client)
            .await;
        assert_eq!(rest.told().await, told[at + 1..], "behind {}", told[at]);
    }
}

#[tokio::test]
async fn changes_of_documents_tell_whose_they_are() {
    let mut client = shop().await;
    let mut watcher = expanded(Asked::collection()).open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1 }])
        .await;
    client.run("shop", doc! { "drop": "orders" }).await;
    let events = watcher.events().await;
    assert_eq!(kinds(&events), ["insert 1", "drop", "invalidate"]);
    let first = events[0].get("collectionUUID").unwrap();
    assert_eq!(events[1].get("collectionUUID").unwrap(), first);
}
