//! Whatever is accepted as a definition is read back as it was: collections, views, validators,
//! indexes, users and roles, made up at random, from the bytes alone and through a store that is
//! opened again. `TESSERA_DEFINITIONS=1000000` makes more of them.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use tessera_core::memory::MemoryEngine;

use super::made_up::MadeUp;
use crate::client::{Client, documents};
use crate::collection::Collection;
use crate::index::IndexSpec;
use crate::wire::document::check;

/// How many definitions are made up.
fn cases() -> u64 {
    let wanted = std::env::var("TESSERA_DEFINITIONS").ok();
    wanted
        .and_then(|wanted| wanted.parse().ok())
        .unwrap_or(2_000)
}

/// One of so many definitions goes through commands and a store.
const STORED_EACH: u64 = 20;
/// Collections in one store.
const IN_ONE_STORE: u64 = 10;

#[test]
fn accepted_definitions_read_back_from_their_bytes() {
    let (mut accepted, mut indexed) = (0, 0);
    for case in 0..cases() {
        let mut made_up = MadeUp::of(case);
        let options = made_up.options();
        let Ok(mut collection) = Collection::new(options.clone()) else {
            continue;
        };
        accepted += 1;
        for _ in 0..made_up.below(4) {
            let asked = made_up.index();
            if let Ok(spec) = IndexSpec::parse(&asked, &collection.collation) {
                indexed += 1;
                collection.indexes.push(Arc::new(spec));
            }
        }
        let stored = collection.encode();
        let stored = stored.unwrap_or_else(|error| panic!("case {case}: {error:?} {options}"));
        let again = Collection::decode(&stored).unwrap();
        assert_eq!(bytes(&again.options), bytes(&collection.options), "{case}");
        assert_eq!(again.collation, collection.collation, "{case}");
        assert_eq!(again.indexes.len(), collection.indexes.len(), "{case}");
        for (read, made) in again.indexes.iter().zip(&collection.indexes) {
            assert_eq!(bytes(&read.document), bytes(&made.document), "{case}");
            assert_eq!(read.fields, made.fields, "{case}");
            assert_eq!(read.collation, made.collation, "{case}");
        }
    }
    assert!(accepted * 4 > cases(), "{accepted} accepted");
    assert!(indexed * 8 > cases(), "{indexed} indexes");
}

/// NaN is not equal to itself, its bytes are.
fn bytes(document: &Document) -> Vec<u8> {
    document.to_vec().unwrap()
}

/// Everything that is defined, as clients see it.
async fn listed(client: &mut Client) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let reply = client.run("db", doc! { "listCollections": 1 }).await;
    for shown in documents(&reply, "firstBatch") {
        let name = shown.get_str("name").unwrap().to_owned();
        assert!(!shown.to_string().contains("damaged"), "{shown}");
        if shown.get_str("type").unwrap() == "collection" {
            let indexes = client.run("db", doc! { "listIndexes": &name }).await;
            let indexes = documents(&indexes, "firstBatch");
            all.extend(indexes.iter().map(bytes));
        }
        all.push(bytes(&shown));
    }
    for (command, list) in [("usersInfo", "users"), ("rolesInfo", "roles")] {
        let reply = client
            .run(
                "db",
                doc! { command: 1, "showPrivileges": true, "showAuthenticationRestrictions": true },
            )
            .await;
        let shown = reply.get(list).unwrap().clone();
        all.push(bytes(&doc! { list: shown }));
    }
    let rows = client.find("config", "collections", doc! {}).await;
    all.extend(rows.iter().map(bytes));
    all
}

/// Sends a command if a message may be so; answers whether it was accepted.
async fn accepted(client: &mut Client, command: Document) -> bool {
    let is_message = command.to_vec().is_ok_and(|bytes| check(&bytes).is_ok());
    is_message && client.code("db", command).await == 0
}

#[tokio::test]
async fn accepted_definitions_are_there_when_the_store_is_opened_again() {
    let (stores, mut there) = (cases() / STORED_EACH / IN_ONE_STORE, 0);
    for store in 0..stores.max(1) {
        let engine = Arc::new(MemoryEngine::new());
        let mut client = Client::on(Arc::<MemoryEngine>::clone(&engine)).await;
        for number in 0..IN_ONE_STORE {
            let mut made_up = MadeUp::of(store * IN_ONE_STORE + number + 1);
            let name = made_up.name();
            let mut create = doc! { "create": &name };
            create.extend(made_up.options());
            if !accepted(&mut client, create).await {
                continue;
            }
            there += 1;
            for _ in 0..made_up.below(3) {
                let indexes = doc! { "createIndexes": &name, "indexes": [made_up.index()] };
                accepted(&mut client, indexes).await;
            }
            let mut change = doc! { "collMod": &name };
            change.extend(made_up.changes());
            accepted(&mut client, change).await;
            accepted(&mut client, made_up.user()).await;
            accepted(&mut client, made_up.role()).await;
            if made_up.below(4) == 0 {
                let key = made_up.shard_key();
                let place = format!("db.{name}");
                let shard = doc! { "shardCollection": place, "key": key };
                if shard.to_vec().is_ok_and(|bytes| check(&bytes).is_ok()) {
                    client.code("admin", shard).await;
                }
            }
        }
        let before = listed(&mut client).await;
        let mut again = Client::on(engine).await;
        assert_eq!(listed(&mut again).await, before, "store {store}");
        assert_eq!(again.service.store.damaged_containers().await.unwrap(), []);
        again.run("db", doc! { "dropDatabase": 1 }).await;
        assert_eq!(
            again
                .service
                .store
                .all_containers()
                .await
                .unwrap()
                .iter()
                .filter(|name| name.database == "db")
                .count(),
            0
        );
    }
    assert!(there > 0);
}

#[tokio::test]
async fn nesting_is_accepted_up_to_one_depth_and_read_back_at_it() {
    let engine = Arc::new(MemoryEngine::new());
    let mut client = Client::on(Arc::<MemoryEngine>::clone(&engine)).await;
    let forms: [fn(Bson) -> Bson; 8] = [
        |inner| doc! { "$and": [inner] }.into(),
        |inner| doc! { "$or": [inner, { "a": 1 }] }.into(),
        |inner| doc! { "$nor": [inner] }.into(),
        |inner| doc! { "a": { "$elemMatch": inner } }.into(),
        |inner| doc! { "a": { "$not": { "$elemMatch": inner } } }.into(),
        |inner| doc! { "a": inner }.into(),
        |inner| doc! { "a": [inner] }.into(),
        |inner| doc! { "a": { "$in": [inner] } }.into(),
    ];
    let mut accepted_depths = 0;
    for (number, form) in forms.iter().enumerate() {
        for depth in (1..=210).step_by(3) {
            let filter = (0..depth).fold(Bson::from(doc! { "b": 1 }), |inner, _| form(inner));
            let name = format!("c{number}-{depth}");
            let create = doc! { "create": &name, "validator": filter.clone() };
            if accepted(&mut client, create).await {
                accepted_depths += 1;
                // Documents are checked against it, and the answer is no mistake of ours.
                let insert = doc! { "insert": &name, "documents": [{ "_id": 1 }] };
                assert!(
                    [0, 121].contains(&client.code("db", insert).await),
                    "{name}"
                );
            }
            let stages = vec![doc! { "$match": filter }];
            let view = doc! { "create": format!("v{name}"), "viewOn": "x", "pipeline": stages };
            accepted(&mut client, view).await;
        }
    }
    assert!(accepted_depths > 100, "{accepted_depths}");
    let before = listed(&mut client).await;
    let mut again = Client::on(engine).await;
    assert_eq!(listed(&mut again).await, before);
}

/// What must go on beside damaged collections.
async fn others_work(client: &mut Client) {
    for (database, command) in [
        ("admin", doc! { "listDatabases": 1 }),
        ("db", doc! { "dbStats": 1 }),
        ("db", doc! { "listCollections": 1, "nameOnly": true }),
        ("admin", doc! { "top": 1 }),
        ("admin", doc! { "checkMetadataConsistency": 1 }),
        ("admin", doc! { "listShards": 1 }),
        ("config", doc! { "find": "collections" }),
        ("config", doc! { "find": "chunks" }),
        ("config", doc! { "find": "partitions" }),
        ("config", doc! { "find": "hotKeys" }),
        ("config", doc! { "find": "largeKeys" }),
        ("config", doc! { "find": "partitionWarnings" }),
        ("config", doc! { "find": "shards" }),
        ("db", doc! { "find": "good" }),
        ("db", doc! { "insert": "good", "documents": [{ "_id": 2 }] }),
        (
            "db",
            doc! { "aggregate": "good", "pipeline": [], "cursor": {} },
        ),
    ] {
        client.run(database, command).await;
    }
}

#[tokio::test]
async fn a_damaged_collection_is_listed_and_dropped_and_costs_no_other() {
    use bytes::Bytes;
    use tessera_core::engine::Engine as _;
    use tessera_core::key;
    use tessera_core::name::ContainerName;
    use tessera_core::write_set::WriteSet;

    let engine = Arc::new(MemoryEngine::new());
    let mut client = Client::on(Arc::<MemoryEngine>::clone(&engine)).await;
    for name in ["bad", "good"] {
        client.insert("db", name, vec![doc! { "_id": 1 }]).await;
        let shard = doc! { "shardCollection": format!("db.s{name}"), "key": { "a": "hashed" } };
        client.run("admin", shard).await;
    }
    for bad in ["bad", "sbad"] {
        let name = key::catalog(&ContainerName::new(crate::API, "db", bad));
        let snapshot = engine.snapshot().await.unwrap();
        let mut stored = snapshot.get(&name).await.unwrap().unwrap().to_vec();
        let json = u32::from_be_bytes(stored[..4].try_into().unwrap()) as usize;
        stored.truncate(if bad == "bad" { 4 + json } else { 3 });
        let mut writes = WriteSet::default();
        writes.put(name, Bytes::from(stored));
        snapshot.commit(writes).await.unwrap();
    }
    let mut client = Client::on(engine).await;
    let shown = client.batch("db", doc! { "listCollections": 1 }).await;
    let damage = |shown: &Document| shown.get_document("info").unwrap().contains_key("damaged");
    let damaged: Vec<(&str, bool)> = shown
        .iter()
        .map(|it| (it.get_str("name").unwrap(), damage(it)))
        .collect();
    assert_eq!(
        damaged,
        [
            ("bad", true),
            ("good", false),
            ("sbad", true),
            ("sgood", false)
        ]
    );
    others_work(&mut client).await;
    crate::expiry::remove_expired(&client.service.data)
        .await
        .unwrap();
    for bad in ["bad", "sbad"] {
        let reply = client.send("db", doc! { "find": bad }).await;
        let message = reply.get_str("errmsg").unwrap();
        assert!(
            message.contains(&format!("db.{bad}")) && message.contains("drop"),
            "{message}"
        );
        client.run("db", doc! { "drop": bad }).await;
        assert_eq!(
            client.find("db", bad, doc! {}).await,
            Vec::<Document>::new()
        );
        client.insert("db", bad, vec![doc! { "_id": 7 }]).await;
    }
    let names = client.batch("db", doc! { "listCollections": 1 }).await;
    assert!(!names.iter().any(damage));
}

#[test]
fn a_definition_has_a_largest_size() {
    let large = "x".repeat(17 << 20);
    let options = doc! { "validator": { "a": large } };
    let collection = Collection::new(options).unwrap();
    assert_eq!(collection.encode().unwrap_err().code.0, 10_334);
}
