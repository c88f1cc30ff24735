//! Which plan a query gets, and how much it looks at.

use bson::{Bson, Document, doc};

use crate::client::Client;

async fn indexed(indexes: &[Document]) -> Client {
    let mut client = Client::new().await;
    let documents: Vec<Document> = (0..100)
        .map(|n| doc! { "_id": n, "a": n % 10, "b": n / 10, "s": format!("s{n:03}") })
        .collect();
    client
        .run("test", doc! { "insert": "c", "documents": documents })
        .await;
    for key in indexes {
        let spec = doc! { "key": key.clone(), "name": format!("{key}") };
        client
            .run("test", doc! { "createIndexes": "c", "indexes": [spec] })
            .await;
    }
    client
}

/// The stages of the plan from the top, keys and documents looked at, and documents found.
async fn explain(client: &mut Client, find: Document) -> (String, [i32; 3]) {
    let reply = client
        .run(
            "test",
            doc! { "explain": find, "verbosity": "executionStats" },
        )
        .await;
    let stats = reply.get_document("executionStats").unwrap();
    let number = |name| stats.get_i32(name).unwrap();
    let mut names = Vec::new();
    let mut stage = Some(stats.get_document("executionStages").unwrap());
    while let Some(current) = stage {
        names.push(current.get_str("stage").unwrap().to_owned());
        stage = current.get_document("inputStage").ok();
    }
    let counts = ["totalKeysExamined", "totalDocsExamined", "nReturned"].map(number);
    (names.join(" "), counts)
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn an_indexed_query_looks_at_what_it_returns() {
    let indexes = [doc! { "a": 1, "b": -1 }, doc! { "s": 1 }];
    let mut client = indexed(&indexes).await;
    for (find, stages, counts) in [
        (doc! { "filter": { "b": 3 } }, "COLLSCAN", [0, 100, 10]),
        (doc! { "filter": { "_id": 3 } }, "EXPRESS_IXSCAN", [1, 1, 1]),
        (
            doc! { "filter": { "_id": { "$gte": 90 } } },
            "FETCH IXSCAN",
            [10, 10, 10],
        ),
        (
            doc! { "filter": { "_id": { "$in": [5, 7, 500] } } },
            "FETCH IXSCAN",
            [2, 2, 2],
        ),
        (doc! { "filter": { "a": 3 } }, "FETCH IXSCAN", [10, 10, 10]),
        (
            doc! { "filter": { "a": 3, "b": 4 } },
            "FETCH IXSCAN",
            [1, 1, 1],
        ),
        (
            doc! { "filter": { "a": 3, "b": { "$gte": 8 } } },
            "FETCH IXSCAN",
            [2, 2, 2],
        ),
        (
            doc! { "filter": { "a": { "$in": [1, 2] }, "b": 4 } },
            "FETCH IXSCAN",
            [2, 2, 2],
        ),
        (
            doc! { "filter": { "s": { "$regex": "^s01" } } },
            "FETCH IXSCAN",
            [10, 10, 10],
        ),
        (
            doc! { "filter": { "a": 3 }, "sort": { "b": -1 } },
            "FETCH IXSCAN",
            [10, 10, 10],
        ),
        (
            doc! { "filter": { "a": 3 }, "sort": { "b": 1 } },
            "FETCH IXSCAN",
            [10, 10, 10],
        ),
        (
            doc! { "filter": { "a": 3 }, "sort": { "s": 1 } },
            "SORT FETCH IXSCAN",
            [10, 10, 10],
        ),
        (
            doc! { "sort": { "a": 1, "b": -1 }, "limit": 5 },
            "LIMIT FETCH IXSCAN",
            [5, 5, 5],
        ),
        (
            doc! { "sort": { "a": -1, "b": 1 }, "limit": 5 },
            "LIMIT FETCH IXSCAN",
            [5, 5, 5],
        ),
        (
            doc! { "sort": { "_id": -1 }, "limit": 5 },
            "LIMIT FETCH IXSCAN",
            [5, 5, 5],
        ),
        (
            doc! { "filter": { "a": 3 }, "projection": { "a": 1, "b": 1, "_id": 0 } },
            "PROJECTION_COVERED IXSCAN",
            [10, 0, 10],
        ),
        (
            doc! { "filter": { "$or": [{ "a": 3 }, { "s": "s003" }] } },
            "FETCH OR",
            [11, 11, 10],
        ),
        (
            doc! { "filter": { "a": 3 }, "hint": { "$natural": 1 } },
            "COLLSCAN",
            [0, 100, 10],
        ),
        (doc! { "filter": { "$alwaysFalse": 1 } }, "EOF", [0, 0, 0]),
    ] {
        let mut command = doc! { "find": "c" };
        command.extend(find.clone());
        let found = explain(&mut client, command).await;
        assert_eq!(found, (stages.to_owned(), counts), "{find}");
    }
}

#[tokio::test]
async fn arrays_are_found_by_each_element_and_once() {
    let mut client = Client::new().await;
    let spec = doc! { "key": { "a": 1 }, "name": "a_1" };
    client
        .run("test", doc! { "createIndexes": "c", "indexes": [spec] })
        .await;
    let documents = vec![
        doc! { "_id": 1, "a": [1, 5, 9] },
        doc! { "_id": 2, "a": 4 },
        doc! { "_id": 3, "a": [] },
    ];
    client
        .run("test", doc! { "insert": "c", "documents": documents })
        .await;
    for (filter, expected) in [
        (doc! { "a": 5 }, vec![1]),
        (doc! { "a": { "$gte": 1 } }, vec![1, 2]),
        // 9 is above and 1 below: different elements may meet different conditions.
        (doc! { "a": { "$gt": 7, "$lt": 3 } }, vec![1]),
        (
            doc! { "a": { "$elemMatch": { "$gt": 4, "$lt": 6 } } },
            vec![1],
        ),
        (doc! { "a": [1, 5, 9] }, vec![1]),
        (doc! { "a": [] }, vec![3]),
        (doc! { "a": Bson::Null }, vec![]),
    ] {
        let find =
            doc! { "find": "c", "filter": filter.clone(), "hint": "a_1", "sort": { "_id": 1 } };
        let found = client.batch("test", find).await;
        let ids: Vec<i32> = found.iter().map(|d| d.get_i32("_id").unwrap()).collect();
        assert_eq!(ids, expected, "{filter}");
    }
    // The last array goes, and the index is as if there had never been one.
    client
        .run(
            "test",
            doc! { "delete": "c", "deletes": [{ "q": { "_id": { "$in": [1, 3] } }, "limit": 0 }] },
        )
        .await;
    let both = doc! { "find": "c", "filter": { "a": { "$gt": 3, "$lt": 5 } } };
    let reply = client
        .run(
            "test",
            doc! { "explain": both, "verbosity": "queryPlanner" },
        )
        .await;
    let plan = reply
        .get_document("queryPlanner")
        .unwrap()
        .get_document("winningPlan")
        .unwrap();
    let scan = plan.get_document("inputStage").unwrap();
    let bounds = scan.get_document("indexBounds").unwrap();
    assert_eq!(bounds, &doc! { "a": ["(3, 5)"] });
}

#[tokio::test]
async fn partial_sparse_hashed_and_wildcard_indexes_serve_what_they_hold() {
    let mut client = Client::new().await;
    let documents: Vec<Document> = (0..50)
        .map(|n| match n % 2 {
            0 => doc! { "_id": n, "p": n, "h": n, "w": { "x": n } },
            _ => doc! { "_id": n, "q": n, "s": n },
        })
        .collect();
    client
        .run("test", doc! { "insert": "c", "documents": documents })
        .await;
    let partial =
        doc! { "key": { "p": 1 }, "name": "p", "partialFilterExpression": { "p": { "$gt": 20 } } };
    let sparse = doc! { "key": { "s": 1 }, "name": "s", "sparse": true };
    let hashed = doc! { "key": { "h": "hashed" }, "name": "h" };
    let wildcard = doc! { "key": { "w.$**": 1 }, "name": "w" };
    let hidden = doc! { "key": { "q": 1 }, "name": "q", "hidden": true };
    client
        .run(
            "test",
            doc! { "createIndexes": "c", "indexes": [partial, sparse, hashed, wildcard, hidden] },
        )
        .await;
    for (filter, stages, counts) in [
        (doc! { "p": { "$gt": 40 } }, "FETCH IXSCAN", [4, 4, 4]),
        (doc! { "p": { "$gt": 10 } }, "COLLSCAN", [0, 50, 19]),
        (doc! { "s": 5 }, "FETCH IXSCAN", [1, 1, 1]),
        (doc! { "s": Bson::Null }, "COLLSCAN", [0, 50, 25]),
        (doc! { "h": 8 }, "FETCH IXSCAN", [1, 1, 1]),
        (doc! { "h": { "$gt": 40 } }, "FETCH IXSCAN", [50, 50, 4]),
        (doc! { "w.x": 8 }, "FETCH IXSCAN", [1, 1, 1]),
        (doc! { "q": 5 }, "COLLSCAN", [0, 50, 1]),
    ] {
        let found = explain(&mut client, doc! { "find": "c", "filter": filter.clone() }).await;
        assert_eq!(found, (stages.to_owned(), counts), "{filter}");
    }
    assert_eq!(
        client
            .code("test", doc! { "find": "c", "hint": "none" })
            .await,
        2
    );
}
