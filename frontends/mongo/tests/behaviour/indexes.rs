//! Indexes over the wire: those that are to become unique, hidden ones, how often they are used,
//! and which of them queries may use.

use bson::{Bson, Decimal128, Document, bson, doc};

use crate::client::{Client, Service};

/// A collection `c` of ten documents with these indexes.
async fn with_indexes(indexes: Vec<Document>) -> (Service, Client) {
    let service = Service::plain().await;
    let mut client = service.connect();
    let documents: Vec<Document> = (0..10)
        .map(|n| doc! { "_id": n, "a": n, "b": n % 3, "c": n })
        .collect();
    let insert = doc! { "insert": "c", "documents": documents };
    client.must("test", insert).await;
    let create = doc! { "createIndexes": "c", "indexes": indexes };
    client.must("test", create).await;
    (service, client)
}

fn index(key: Document, name: &str, more: Document) -> Document {
    let mut index = doc! { "key": key, "name": name };
    index.extend(more);
    index
}

/// The code of a command or of the first of its statements; 0 if all went well.
async fn code(client: &mut Client, command: Document) -> i32 {
    let reply = client.run("test", command).await;
    let first = reply.get_array("writeErrors").ok().and_then(|e| e.first());
    let first = first.and_then(Bson::as_document);
    first.unwrap_or(&reply).get_i32("code").unwrap_or(0)
}

fn change_index(change: Document) -> Document {
    let mut index = doc! { "name": "i" };
    index.extend(change);
    doc! { "collMod": "c", "index": index }
}

fn insert(document: Document) -> Document {
    doc! { "insert": "c", "documents": [document] }
}

#[tokio::test]
async fn an_index_is_prepared_and_becomes_unique() {
    let (_service, mut client) = with_indexes(vec![index(doc! { "b": 1 }, "i", doc! {})]).await;
    let prepare = change_index(doc! { "prepareUnique": true });
    let unique = change_index(doc! { "unique": true });
    assert_eq!(code(&mut client, unique.clone()).await, 72);
    assert_eq!(
        code(&mut client, insert(doc! { "_id": 20, "b": 1 })).await,
        0
    );
    let prepared = client.must("test", prepare).await;
    assert_eq!(
        prepared.get("prepareUnique_new"),
        Some(&Bson::Boolean(true))
    );

    let update = |id: i32, change: Document| {
        let update = doc! { "q": { "_id": id }, "u": { "$set": change } };
        doc! { "update": "c", "updates": [update] }
    };
    for (command, expected) in [
        (insert(doc! { "_id": 30, "b": 1 }), 11_000),
        (insert(doc! { "_id": 30, "b": 77 }), 0),
        (insert(doc! { "_id": 31, "b": 77 }), 11_000),
        (update(30, doc! { "b": 2 }), 11_000),
        // What is there twice may stay, and change elsewhere.
        (update(1, doc! { "b": 1, "x": 1 }), 0),
        (update(30, doc! { "b": 78 }), 0),
    ] {
        assert_eq!(
            code(&mut client, command.clone()).await,
            expected,
            "{command}"
        );
    }

    let refused = client.run("test", unique.clone()).await;
    assert_eq!(refused.get_i32("code").unwrap(), 359);
    let violations = refused.get_array("violations").unwrap();
    assert_eq!(violations.len(), 3);
    assert_eq!(violations[0], bson!({ "ids": [0, 3, 6, 9] }));
    let mut dry = unique.clone();
    dry.insert("dryRun", true);
    assert_eq!(code(&mut client, dry).await, 359);
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "_id": { "$lt": 25 } }, "limit": 0 }] };
    client.must("test", delete).await;
    let converted = client.must("test", unique).await;
    assert_eq!(converted.get("unique_new"), Some(&Bson::Boolean(true)));
    let listed = client.must("test", doc! { "listIndexes": "c" }).await;
    let listed = listed
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch");
    let listed = listed.unwrap()[1].as_document().unwrap();
    assert_eq!(listed.get("unique"), Some(&Bson::Boolean(true)));
    assert_eq!(listed.get("prepareUnique"), None);
    assert_eq!(code(&mut client, insert(doc! { "b": 78 })).await, 11_000);
}

/// While an index becomes unique, nobody brings a value that is there, and the index is never gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_becomes_unique_beside_writers() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let prepared = index(doc! { "b": 1 }, "i", doc! { "prepareUnique": true });
    let create = doc! { "createIndexes": "c", "indexes": [prepared] };
    client.must("test", create).await;
    let documents: Vec<_> = (0..2_000).map(|id| doc! { "_id": id, "b": id }).collect();
    let fill = doc! { "insert": "c", "documents": documents };
    client.must("test", fill).await;
    let mut writer = service.connect();
    let writing = tokio::spawn(async move {
        for id in 10_000..10_400 {
            let again = insert(doc! { "_id": id, "b": id % 2_000 });
            assert_eq!(code(&mut writer, again).await, 11_000, "{id}");
            let listed = writer.must("test", doc! { "listIndexes": "c" }).await;
            let listed = listed.get_document("cursor").unwrap();
            let listed = listed.get_array("firstBatch").unwrap();
            let mut names = listed
                .iter()
                .map(|it| it.as_document().unwrap().get_str("name"));
            assert!(
                names.any(|name| name.is_ok_and(|name| name == "i")),
                "{listed:?}"
            );
        }
    });
    let unique = change_index(doc! { "unique": true });
    client.must("test", unique).await;
    writing.await.unwrap();
    let listed = client.must("test", doc! { "listIndexes": "c" }).await;
    let listed = listed
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch");
    let listed = listed.unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let found = doc! { "find": "c", "filter": { "b": 7 }, "hint": "i" };
    let found = client.must("test", found).await;
    let found = found
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch");
    assert_eq!(found.unwrap().len(), 1);
}

#[tokio::test]
async fn only_one_of_many_writers_brings_a_value_to_a_prepared_index() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let prepared = index(doc! { "b": 1 }, "i", doc! { "prepareUnique": true });
    let create = doc! { "createIndexes": "c", "indexes": [prepared] };
    client.must("test", create).await;
    for value in 0..10 {
        let writers = (0..8).map(|writer| {
            let mut client = service.connect();
            let document = doc! { "_id": value * 100 + writer, "b": value };
            tokio::spawn(async move { code(&mut client, insert(document)).await })
        });
        let mut stored = 0;
        for writer in writers.collect::<Vec<_>>() {
            let code = writer.await.unwrap();
            assert!([0, 11_000].contains(&code), "{code}");
            stored += i32::from(code == 0);
        }
        assert_eq!(stored, 1);
    }
}

async fn operations(client: &mut Client) -> Vec<(String, i64)> {
    let stage = doc! { "$indexStats": {} };
    let stats = doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    let reply = client.must("test", stats).await;
    let cursor = reply.get_document("cursor").unwrap();
    let found = cursor.get_array("firstBatch").unwrap().iter();
    let counted = found.map(|found| {
        let found = found.as_document().unwrap();
        let accesses = found.get_document("accesses").unwrap();
        let name = found.get_str("name").unwrap().to_owned();
        (name, accesses.get_i64("ops").unwrap())
    });
    counted.collect()
}

#[tokio::test]
async fn uses_of_indexes_are_counted() {
    let a = index(doc! { "a": 1 }, "i", doc! {});
    let b = index(doc! { "b": 1 }, "j", doc! {});
    let (_service, mut client) = with_indexes(vec![a.clone(), b]).await;
    let uses = |id, i, j| {
        let uses = [("_id_", id), ("i", i), ("j", j)];
        uses.map(|(name, uses)| (name.to_owned(), uses)).to_vec()
    };
    assert_eq!(operations(&mut client).await, uses(0, 0, 0));
    for filter in [
        doc! { "_id": 1 },
        doc! { "a": 1 },
        doc! { "b": 1 },
        doc! { "b": 2 },
    ] {
        client
            .must("test", doc! { "find": "c", "filter": filter })
            .await;
    }
    let explain =
        doc! { "explain": { "find": "c", "filter": { "a": 1 } }, "verbosity": "queryPlanner" };
    client.must("test", explain).await;
    assert_eq!(operations(&mut client).await, uses(1, 1, 2));
    client
        .must("test", change_index(doc! { "hidden": false }))
        .await;
    assert_eq!(operations(&mut client).await, uses(1, 1, 2));
    client
        .must("test", change_index(doc! { "hidden": true }))
        .await;
    assert_eq!(operations(&mut client).await, uses(1, 0, 2));
    client
        .must("test", change_index(doc! { "hidden": false }))
        .await;
    let drop = doc! { "dropIndexes": "c", "index": "j" };
    client.must("test", drop).await;
    let b = index(doc! { "b": 1 }, "j", doc! {});
    let again = doc! { "createIndexes": "c", "indexes": [b] };
    client.must("test", again).await;
    assert_eq!(operations(&mut client).await, uses(1, 0, 0));
    let other = index(doc! { "a": 1 }, "i", doc! { "hidden": true });
    let other = doc! { "createIndexes": "c", "indexes": [other] };
    assert_eq!(code(&mut client, other).await, 85);
}

async fn explained(client: &mut Client, find: Document) -> Document {
    let explain = doc! { "explain": find, "verbosity": "allPlansExecution" };
    client.must("test", explain).await
}

/// Whether a filter is set, and the index or the stage that is used.
fn plan(explained: &Document) -> (bool, String) {
    let planner = explained.get_document("queryPlanner").unwrap();
    let mut stage = planner.get_document("winningPlan").unwrap();
    while let Ok(input) = stage.get_document("inputStage") {
        stage = input;
    }
    let used = stage.get_str("indexName").or(stage.get_str("stage"));
    let set = planner.get_bool("indexFilterSet").unwrap();
    (set, used.unwrap().to_owned())
}

#[tokio::test]
async fn index_filters_say_which_indexes_a_shape_may_use() {
    let ab = index(doc! { "a": 1, "b": 1 }, "ab", doc! {});
    let ac = index(doc! { "a": 1, "c": 1 }, "ac", doc! {});
    let (_service, mut client) = with_indexes(vec![ab, ac]).await;
    let find = |a: i32| doc! { "find": "c", "filter": { "a": a } };
    let set =
        |indexes: Bson| doc! { "planCacheSetFilter": "c", "query": { "a": 5 }, "indexes": indexes };
    let list = doc! { "planCacheListFilters": "c" };
    let before = explained(&mut client, find(1)).await;
    assert!(!plan(&before).0);
    for (indexes, used) in [
        (bson!([{ "a": 1, "c": 1 }]), "ac"),
        (bson!(["ab"]), "ab"),
        (bson!([{ "nothing": 1 }]), "COLLSCAN"),
    ] {
        client.must("test", set(indexes.clone())).await;
        let shown = explained(&mut client, find(1)).await;
        assert_eq!(plan(&shown), (true, used.to_owned()));
        let mut hinted = find(2);
        hinted.insert("hint", doc! { "a": 1, "b": 1 });
        assert_eq!(plan(&explained(&mut client, hinted).await).1, used);
        let listed = client.must("test", list.clone()).await;
        let filters = listed.get_array("filters").unwrap();
        let expected =
            bson!({ "query": { "a": 5 }, "sort": {}, "projection": {}, "indexes": indexes });
        assert_eq!(filters, &vec![expected]);
    }
    let other = doc! { "find": "c", "filter": { "a": 1, "b": 1 } };
    assert_eq!(
        plan(&explained(&mut client, other).await),
        (false, "ab".to_owned())
    );
    let clear = doc! { "planCacheClearFilters": "c", "query": { "a": { "$gt": 1 } } };
    client.must("test", clear).await;
    assert!(plan(&explained(&mut client, find(1)).await).0);
    let clear = doc! { "planCacheClearFilters": "c", "query": { "a": 0 } };
    client.must("test", clear).await;
    assert!(!plan(&explained(&mut client, find(1)).await).0);
    for (command, expected) in [
        (doc! { "planCacheClear": "c" }, 0),
        (doc! { "planCacheClear": "none" }, 0),
        (doc! { "planCacheClear": 1 }, 73),
        (doc! { "planCacheClear": "c", "query": 1 }, 2),
        (doc! { "planCacheListFilters": "none" }, 0),
        (
            doc! { "planCacheSetFilter": "none", "query": {}, "indexes": ["x"] },
            2,
        ),
        (doc! { "planCacheSetFilter": "c", "indexes": ["x"] }, 2),
        (
            doc! { "planCacheSetFilter": "c", "query": {}, "indexes": [] },
            2,
        ),
        (
            doc! { "planCacheSetFilter": "c", "query": {}, "indexes": [1] },
            2,
        ),
        (
            doc! { "planCacheSetFilter": "c", "query": { "$x": 1 }, "indexes": ["x"] },
            2,
        ),
    ] {
        assert_eq!(
            code(&mut client, command.clone()).await,
            expected,
            "{command}"
        );
    }
}

#[tokio::test]
async fn plans_that_were_not_chosen_are_tried_and_shown() {
    let ab = index(doc! { "a": 1, "b": 1 }, "ab", doc! {});
    let ac = index(doc! { "a": 1, "c": 1 }, "ac", doc! {});
    let ad = index(doc! { "a": 1, "d": 1 }, "ad", doc! { "hidden": true });
    let (_service, mut client) = with_indexes(vec![ab, ac, ad]).await;
    let find = doc! { "find": "c", "filter": { "a": { "$gte": 5 } } };
    let shown = explained(&mut client, find).await;
    let planner = shown.get_document("queryPlanner").unwrap();
    assert_eq!(planner.get_array("rejectedPlans").unwrap().len(), 1);
    let stats = shown.get_document("executionStats").unwrap();
    let tried = stats.get_array("allPlansExecution").unwrap();
    assert_eq!(tried.len(), 2);
    for tried in tried {
        let tried = tried.as_document().unwrap();
        assert_eq!(tried.get_i32("totalKeysExamined").unwrap(), 5);
    }
}

#[tokio::test]
async fn a_projection_may_show_the_key_of_the_index() {
    let (_service, mut client) = with_indexes(vec![index(doc! { "a": 1 }, "i", doc! {})]).await;
    for (filter, shown) in [
        (doc! { "a": 5 }, doc! { "_id": 5, "k": { "a": 5 } }),
        (doc! { "c": 5 }, doc! { "_id": 5 }),
    ] {
        let projection = doc! { "_id": 1, "k": { "$meta": "indexKey" } };
        let find = doc! { "find": "c", "filter": filter, "projection": projection };
        let reply = client.must("test", find).await;
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(
            cursor.get_array("firstBatch").unwrap(),
            &vec![Bson::from(shown)]
        );
    }
}

#[tokio::test]
async fn clustered_collections_have_errors_of_their_own() {
    let service = Service::plain().await;
    let mut client = service.connect();
    let clustered = doc! { "key": { "_id": 1 }, "unique": true };
    let create = doc! { "create": "c", "clusteredIndex": clustered };
    client.must("test", create).await;
    let decimal = |text: &str| Bson::from(text.parse::<Decimal128>().unwrap());
    for (id, again, expected) in [
        (bson!(1), bson!(1.0), 11_000),
        (bson!(f64::NAN), decimal("NaN"), 50_819),
        (bson!(f64::INFINITY), decimal("Infinity"), 50_826),
        (decimal("1E+6000"), decimal("1E+6000"), 11_000),
    ] {
        assert_eq!(code(&mut client, insert(doc! { "_id": id })).await, 0);
        assert_eq!(
            code(&mut client, insert(doc! { "_id": again })).await,
            expected
        );
    }
    let long = "x".repeat(9 << 20);
    assert_eq!(
        code(&mut client, insert(doc! { "_id": long })).await,
        5_894_900
    );
    let expire = doc! { "keyPattern": { "_id": 1 }, "expireAfterSeconds": 60 };
    let change = doc! { "collMod": "c", "index": expire };
    assert_eq!(code(&mut client, change).await, 27);
}

#[tokio::test]
async fn a_wildcard_index_that_is_hinted_at_finds_what_is_there() {
    let all = index(doc! { "$**": 1 }, "all", doc! {});
    let (_service, mut client) = with_indexes(vec![all]).await;
    let documents = bson!([
        { "_id": 20, "d": null }, { "_id": 21, "d": [] }, { "_id": 22, "d": {} },
        { "_id": 23, "d": { "e": 1, "0": 7 } }, { "_id": 24, "d": [{ "e": 1 }, 7] },
        { "_id": 25, "dd": 1 }, { "_id": 26, "d": [7, 8] },
    ]);
    let insert = doc! { "insert": "c", "documents": documents };
    client.must("test", insert).await;
    for (filter, ids) in [
        (
            doc! { "d": { "$exists": true } },
            vec![20, 21, 22, 23, 24, 26],
        ),
        (doc! { "d": { "$ne": null } }, vec![21, 22, 23, 24, 26]),
        (doc! { "d": [] }, vec![21]),
        (doc! { "d": {} }, vec![22]),
        (doc! { "d.0": 7 }, vec![23, 26]),
        (doc! { "d.e": { "$exists": true } }, vec![23, 24]),
    ] {
        let find =
            doc! { "find": "c", "filter": filter.clone(), "sort": { "_id": 1 }, "hint": "all" };
        let reply = client.must("test", find).await;
        let cursor = reply.get_document("cursor").unwrap();
        let found = cursor.get_array("firstBatch").unwrap().iter();
        let found = found.map(|row| row.as_document().unwrap().get_i32("_id").unwrap());
        assert_eq!(found.collect::<Vec<_>>(), ids, "{filter}");
    }
}
