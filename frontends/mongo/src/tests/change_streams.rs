//! What clients see of change streams, through commands.

use bson::{Bson, Document, doc};

use crate::client::{Client, documents};

/// A stream that a client follows.
pub(super) struct Watcher {
    pub(super) client: Client,
    database: &'static str,
    collection: &'static str,
    cursor: i64,
    /// Behind what it may be resumed.
    pub(super) token: Document,
    /// Events of the first batch.
    first: Vec<Document>,
}

/// What a stream is opened on, with which options and what stages behind it.
pub(super) struct Asked {
    database: &'static str,
    collection: Option<&'static str>,
    options: Document,
    stages: Vec<Document>,
}

impl Asked {
    pub(super) fn collection() -> Self {
        Self {
            database: "shop",
            collection: Some("orders"),
            options: Document::new(),
            stages: Vec::new(),
        }
    }

    pub(super) fn database() -> Self {
        Self {
            collection: None,
            ..Self::collection()
        }
    }

    pub(super) fn cluster() -> Self {
        Self {
            database: "admin",
            options: doc! { "allChangesForCluster": true },
            ..Self::database()
        }
    }

    pub(super) fn option(mut self, name: &str, value: impl Into<Bson>) -> Self {
        self.options.insert(name, value);
        self
    }

    pub(super) fn stage(mut self, stage: Document) -> Self {
        self.stages.push(stage);
        self
    }

    fn command(&self) -> Document {
        let mut pipeline = vec![doc! { "$changeStream": self.options.clone() }];
        pipeline.extend(self.stages.clone());
        let over = self.collection.map_or(Bson::Int32(1), Bson::from);
        doc! { "aggregate": over, "pipeline": pipeline, "cursor": {} }
    }

    pub(super) async fn open(self, client: &Client) -> Watcher {
        let mut client = client.another();
        let reply = client.run(self.database, self.command()).await;
        let cursor = reply.get_document("cursor").unwrap();
        Watcher {
            client,
            database: self.database,
            collection: self.collection.unwrap_or("$cmd.aggregate"),
            cursor: cursor.get_i64("id").unwrap(),
            token: cursor.get_document("postBatchResumeToken").unwrap().clone(),
            first: documents(&reply, "firstBatch"),
        }
    }

    pub(super) async fn code(self, client: &Client) -> i32 {
        client.another().code(self.database, self.command()).await
    }
}

impl Watcher {
    pub(super) fn get_more(&self) -> Document {
        doc! { "getMore": self.cursor, "collection": self.collection, "maxTimeMS": 200 }
    }

    /// The next events, until there are none for a while.
    pub(super) async fn events(&mut self) -> Vec<Document> {
        let mut events = std::mem::take(&mut self.first);
        while self.cursor != 0 {
            let reply = self.client.run(self.database, self.get_more()).await;
            let cursor = reply.get_document("cursor").unwrap();
            self.cursor = cursor.get_i64("id").unwrap();
            self.token = cursor.get_document("postBatchResumeToken").unwrap().clone();
            let next = documents(&reply, "nextBatch");
            if next.is_empty() {
                break;
            }
            events.extend(next);
        }
        events
    }

    /// The kinds of the next events, each with the `_id` of its document.
    pub(super) async fn told(&mut self) -> Vec<String> {
        let events = self.events().await;
        events.iter().map(short).collect()
    }
}

pub(super) fn short(event: &Document) -> String {
    let kind = event.get_str("operationType").unwrap();
    match event.get_document("documentKey") {
        Ok(key) => format!("{kind} {}", key.get("_id").unwrap()),
        Err(_) => kind.to_owned(),
    }
}

pub(super) async fn shop() -> Client {
    let mut client = Client::new().await;
    client.run("shop", doc! { "create": "orders" }).await;
    client
}

pub(super) async fn update(client: &mut Client, id: i32, update: impl Into<Bson>) {
    let update = doc! { "q": { "_id": id }, "u": update.into(), "upsert": true };
    client
        .run("shop", doc! { "update": "orders", "updates": [update] })
        .await;
}

pub(super) async fn delete(client: &mut Client, id: i32) {
    let delete = doc! { "q": { "_id": id }, "limit": 1 };
    client
        .run("shop", doc! { "delete": "orders", "deletes": [delete] })
        .await;
}

#[tokio::test]
async fn every_write_is_an_event() {
    let mut client = shop().await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 0 }])
        .await;
    let mut watcher = Asked::collection().open(&client).await;
    client
        .insert(
            "shop",
            "orders",
            vec![doc! { "_id": 1, "a": 1 }, doc! { "_id": 2 }],
        )
        .await;
    update(
        &mut client,
        1,
        doc! { "$set": { "a": 2 }, "$unset": { "x": 1 } },
    )
    .await;
    update(&mut client, 2, doc! { "b": 1 }).await;
    update(&mut client, 3, doc! { "$set": { "c": 1 } }).await;
    delete(&mut client, 0).await;
    let events = watcher.events().await;
    let told: Vec<String> = events.iter().map(short).collect();
    let kinds = [
        "insert 1",
        "insert 2",
        "update 1",
        "replace 2",
        "insert 3",
        "delete 0",
    ];
    assert_eq!(told, kinds);
    let [first, _, updated, replaced, ..] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        first.get_document("fullDocument").unwrap(),
        &doc! { "_id": 1, "a": 1 }
    );
    assert_eq!(
        first.get_document("ns").unwrap(),
        &doc! { "db": "shop", "coll": "orders" }
    );
    assert!(first.get_datetime("wallTime").is_ok() && first.get_timestamp("clusterTime").is_ok());
    let description =
        doc! { "updatedFields": { "a": 2 }, "removedFields": [], "truncatedArrays": [] };
    assert_eq!(
        updated.get_document("updateDescription").unwrap(),
        &description
    );
    assert!(!updated.contains_key("fullDocument"));
    assert_eq!(
        replaced.get_document("fullDocument").unwrap(),
        &doc! { "_id": 2, "b": 1 }
    );
    let times: Vec<_> = events
        .iter()
        .map(|it| it.get_timestamp("clusterTime").unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[tokio::test]
async fn updates_that_change_nothing_and_failed_writes_are_no_events() {
    let mut client = shop().await;
    let mut watcher = Asked::collection().open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1, "a": 1 }])
        .await;
    update(&mut client, 1, doc! { "$set": { "a": 1 } }).await;
    let twice = doc! { "insert": "orders", "documents": [{ "_id": 1 }] };
    assert_eq!(client.code("shop", twice).await, 11_000);
    assert_eq!(watcher.told().await, ["insert 1"]);
}

#[tokio::test]
async fn updates_can_show_the_document_as_it_is_now() {
    let mut client = shop().await;
    let asked = || Asked::collection().option("fullDocument", "updateLookup");
    let mut watcher = asked().open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1 }, doc! { "_id": 2 }])
        .await;
    update(&mut client, 1, doc! { "$set": { "a": 1 } }).await;
    update(&mut client, 1, doc! { "$set": { "b": 1 } }).await;
    update(&mut client, 2, doc! { "$set": { "a": 1 } }).await;
    delete(&mut client, 2).await;
    let events = watcher.events().await;
    let shown: Vec<_> = events
        .iter()
        .filter(|event| event.get_str("operationType").unwrap() == "update")
        .map(|event| event.get("fullDocument").unwrap().clone())
        .collect();
    let now = Bson::from(doc! { "_id": 1, "a": 1, "b": 1 });
    assert_eq!(shown, [now.clone(), now, Bson::Null]);
}

#[tokio::test]
async fn a_stream_is_resumed_behind_any_event_and_any_batch() {
    let mut client = shop().await;
    let mut watcher = Asked::collection().open(&client).await;
    let begin = watcher.token.clone();
    for id in 0..5 {
        client
            .insert("shop", "orders", vec![doc! { "_id": id }])
            .await;
    }
    let events = watcher.events().await;
    let all: Vec<String> = events.iter().map(short).collect();
    assert_eq!(all.len(), 5);
    for option in ["resumeAfter", "startAfter"] {
        for (position, event) in events.iter().enumerate() {
            let token = event.get_document("_id").unwrap().clone();
            let mut again = Asked::collection()
                .option(option, token)
                .open(&client)
                .await;
            assert_eq!(again.told().await, all[position + 1..]);
        }
        let mut again = Asked::collection()
            .option(option, begin.clone())
            .open(&client)
            .await;
        assert_eq!(again.told().await, all);
    }
    // At the same position on any other scope as well, once that is followed.
    let mut idle = Asked::collection().option("resumeAfter", watcher.token.clone());
    idle.stages.clear();
    let mut idle = idle.open(&client).await;
    assert!(idle.events().await.is_empty());
    client
        .insert("shop", "orders", vec![doc! { "_id": 9 }])
        .await;
    assert_eq!(idle.told().await, ["insert 9"]);
}

#[tokio::test]
async fn a_stream_begins_with_the_first_event_at_a_time() {
    let mut client = shop().await;
    let mut watcher = Asked::collection().open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1 }])
        .await;
    let reply = client.run("admin", doc! { "ping": 1 }).await;
    let time = reply.get_timestamp("operationTime").unwrap();
    client
        .insert("shop", "orders", vec![doc! { "_id": 2 }])
        .await;
    let events = watcher.events().await;
    // What came just before in the same second may be told again, but nothing is left out.
    let asked = |time| Asked::collection().option("startAtOperationTime", time);
    let told = asked(time).open(&client).await.told().await;
    assert_eq!(told.last().map(String::as_str), Some("insert 2"));
    for (position, event) in events.iter().enumerate() {
        let time = event.get_timestamp("clusterTime").unwrap();
        let told = asked(time).open(&client).await.told().await;
        let behind: Vec<String> = events[position..].iter().map(short).collect();
        assert!(told.ends_with(&behind), "{told:?}");
    }
    let old = bson::Timestamp {
        time: time.time - 3_600,
        increment: 1,
    };
    assert_eq!(asked(old).code(&client).await, 286);
    let later = bson::Timestamp {
        time: time.time + 3_600,
        increment: 1,
    };
    let mut later = asked(later).open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 3 }])
        .await;
    assert!(later.told().await.is_empty());
}

#[tokio::test]
async fn idle_streams_advance() {
    let mut client = shop().await;
    let mut watcher = Asked::collection().open(&client).await;
    client.run("shop", doc! { "create": "other" }).await;
    let before = watcher.token.clone();
    for id in 0..3 {
        client
            .insert("shop", "other", vec![doc! { "_id": id }])
            .await;
    }
    assert!(watcher.events().await.is_empty());
    assert_ne!(watcher.token, before);
}

#[tokio::test]
async fn a_collection_that_goes_ends_its_stream() {
    for (command, kind) in [
        (("shop", doc! { "drop": "orders" }), "drop"),
        (
            (
                "admin",
                doc! { "renameCollection": "shop.orders", "to": "shop.old" },
            ),
            "rename",
        ),
    ] {
        let mut client = shop().await;
        let mut watcher = Asked::collection().open(&client).await;
        client
            .insert("shop", "orders", vec![doc! { "_id": 1 }])
            .await;
        client.run(command.0, command.1).await;
        let events = watcher.events().await;
        let told: Vec<String> = events.iter().map(short).collect();
        assert_eq!(told, ["insert 1", kind, "invalidate"]);
        assert_eq!(watcher.cursor, 0);
        let end = events[2].get_document("_id").unwrap().clone();
        let resumed = Asked::collection().option("resumeAfter", end.clone());
        assert_eq!(resumed.code(&client).await, 260);
        let mut next = Asked::collection()
            .option("startAfter", end)
            .open(&client)
            .await;
        client
            .insert("shop", "orders", vec![doc! { "_id": 2 }])
            .await;
        assert_eq!(next.told().await, ["insert 2"]);
        // An event before the end is no end.
        let drop = events[1].get_document("_id").unwrap().clone();
        let again = Asked::collection().option("resumeAfter", drop);
        assert_eq!(again.code(&client).await, 0);
    }
}

#[tokio::test]
async fn databases_and_the_cluster_are_watched_as_a_whole() {
    let mut client = shop().await;
    let mut database = Asked::database().open(&client).await;
    let mut cluster = Asked::cluster().open(&client).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1 }])
        .await;
    client.insert("shop", "new", vec![doc! { "_id": 2 }]).await;
    client
        .insert("store", "items", vec![doc! { "_id": 3 }])
        .await;
    client.run("shop", doc! { "drop": "orders" }).await;
    assert_eq!(database.told().await, ["insert 1", "insert 2", "drop"]);
    let told = cluster.told().await;
    assert_eq!(told, ["insert 1", "insert 2", "insert 3", "drop"]);
    client.run("shop", doc! { "dropDatabase": 1 }).await;
    assert_eq!(
        database.told().await,
        ["drop", "dropDatabase", "invalidate"]
    );
    assert_eq!(cluster.told().await, ["drop", "dropDatabase"]);
    assert_eq!((database.cursor == 0, cluster.cursor == 0), (true, false));
}

#[tokio::test]
async fn a_collection_can_be_watched_before_it_is_there() {
    let mut client = Client::new().await;
    let mut watcher = Asked::collection().open(&client).await;
    client
        .insert("shop", "others", vec![doc! { "_id": 0 }])
        .await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 1 }])
        .await;
    assert_eq!(watcher.told().await, ["insert 1"]);
}

#[tokio::test]
async fn the_pipeline_sees_events_and_keeps_their_ids() {
    let mut client = shop().await;
    let matching = doc! { "$match": { "operationType": "insert", "fullDocument.a": { "$gt": 1 } } };
    let project = doc! { "$project": { "a": "$fullDocument.a" } };
    let asked = Asked::collection().stage(matching).stage(project);
    let mut watcher = asked.open(&client).await;
    let no_id = Asked::collection().stage(doc! { "$project": { "_id": 0 } });
    let no_id = no_id.open(&client).await;
    client
        .insert(
            "shop",
            "orders",
            (0..4).map(|a| doc! { "_id": a, "a": a }).collect(),
        )
        .await;
    let events = watcher.events().await;
    let values: Vec<i32> = events
        .iter()
        .map(|event| event.get_i32("a").unwrap())
        .collect();
    assert_eq!(values, [2, 3]);
    assert_eq!(
        no_id.client.another().code("shop", no_id.get_more()).await,
        280
    );
    for stage in ["$group", "$sort", "$lookup", "$out", "$limit"] {
        let asked = Asked::collection().stage(doc! { stage: { "_id": 1 } });
        assert_ne!(asked.code(&client).await, 0, "{stage}");
    }
    let unwind = Asked::collection().stage(doc! { "$unwind": "$a" });
    assert_eq!(unwind.code(&client).await, 20);
}

#[tokio::test]
async fn events_of_a_transaction_tell_its_session() {
    let mut client = shop().await;
    let mut watcher = Asked::collection().open(&client).await;
    let mut session = client.another().in_session(7);
    let part = |command: Document, starts: bool| {
        let mut command = command;
        command.insert("txnNumber", 1_i64);
        command.insert("autocommit", false);
        if starts {
            command.insert("startTransaction", true);
        }
        command
    };
    let insert = |id: i32| doc! { "insert": "orders", "documents": [{ "_id": id }] };
    session.run("shop", part(insert(1), true)).await;
    session.run("shop", part(insert(2), false)).await;
    client
        .insert("shop", "orders", vec![doc! { "_id": 3 }])
        .await;
    session
        .run("admin", part(doc! { "commitTransaction": 1 }, false))
        .await;
    let events = watcher.events().await;
    let told: Vec<String> = events.iter().map(short).collect();
    assert_eq!(told, ["insert 3", "insert 1", "insert 2"]);
    assert!(!events[0].contains_key("txnNumber"));
    for event in &events[1..] {
        assert_eq!(event.get_i64("txnNumber").unwrap(), 1);
        let lsid = event.get_document("lsid").unwrap();
        assert_eq!(lsid.get_binary_generic("uid").unwrap().len(), 32);
    }
    assert_eq!(events[1].get("clusterTime"), events[2].get("clusterTime"));
}

#[tokio::test]
async fn a_waiting_stream_is_woken_by_a_write() {
    let mut client = shop().await;
    let mut watcher = Asked::collection().open(&client).await;
    for id in 0..5 {
        let mut more = watcher.get_more();
        more.insert("maxTimeMS", 60_000);
        let (reply, ()) = tokio::join!(
            watcher.client.run("shop", more),
            client.insert("shop", "orders", vec![doc! { "_id": id }]),
        );
        let told: Vec<String> = documents(&reply, "nextBatch").iter().map(short).collect();
        assert_eq!(told, [format!("insert {id}")]);
    }
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let mut client = shop().await;
    let view = doc! { "create": "view", "viewOn": "orders", "pipeline": [] };
    client.run("shop", view).await;
    let on = |database, collection| Asked {
        database,
        collection,
        ..Asked::collection()
    };
    assert_eq!(on("shop", Some("view")).code(&client).await, 166);
    assert_eq!(on("admin", Some("x")).code(&client).await, 73);
    assert_eq!(on("config", None).code(&client).await, 73);
    let local = Asked::collection();
    let mut command = local.command();
    command.insert("readConcern", doc! { "level": "local" });
    assert_eq!(client.code("shop", command).await, 72);
    let forged = doc! { "_data": "01009999" };
    let forged = Asked::collection().option("resumeAfter", forged);
    assert_eq!(forged.code(&client).await, 260);
}
