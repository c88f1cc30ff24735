//! Requests that compute for as long as they can, beside a client that asks for one document at a
//! time.

use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};

use crate::client::{Client, Service};

/// How long a hostile request may take.
const LIMIT_MS: u64 = 250;

/// How long the other client may wait for a document. Without giving workers away it waits as long
/// as all hostile requests take together.
const PATIENCE: Duration = Duration::from_millis(1_000);

/// How late a request may notice that its time is over: the longest that counts no steps.
const LATE: Duration = Duration::from_secs(6);

fn range(count: i32) -> Bson {
    Bson::Document(doc! { "$range": [0, count] })
}

/// Loops within loops.
fn nested(operator: &str, depth: usize, count: i32) -> Bson {
    let mut inner = Bson::Int32(1);
    for _ in 0..depth {
        inner = Bson::Document(match operator {
            "$reduce" => doc! { "$reduce": {
                "input": range(count), "initialValue": 0, "in": { "$add": ["$$value", inner] },
            } },
            "$map" => doc! { "$size": { "$map": { "input": range(count), "in": inner } } },
            _ => doc! { "$size": { "$filter": { "input": range(count), "cond": inner } } },
        });
    }
    inner
}

fn aggregate(collection: &str, stage: Document) -> Document {
    doc! { "aggregate": collection, "pipeline": [stage], "cursor": {} }
}

fn project(collection: &str, expression: impl Into<Bson>) -> Document {
    aggregate(collection, doc! { "$project": { "x": expression.into() } })
}

fn find(collection: &str, filter: Document) -> Document {
    doc! { "find": collection, "filter": filter }
}

fn update(change: impl Into<Bson>) -> Document {
    doc! { "update": "ints", "updates": [{ "q": { "_id": 1 }, "u": change.into() }] }
}

fn each_in(array: &str, inner: Document) -> Document {
    project(
        "ints",
        doc! { "$size": { "$filter": { "input": array, "as": "e", "cond": inner } } },
    )
}

fn window(function: &str, argument: impl Into<Bson>) -> Document {
    let output = doc! { function: argument.into(), "window": { "documents": [-3_000, 3_000] } };
    aggregate(
        "many",
        doc! { "$setWindowFields": { "sortBy": { "_id": 1 }, "output": { "w": output } } },
    )
}

fn expressions() -> Vec<Document> {
    let mut all = Vec::new();
    for operator in ["$reduce", "$map", "$filter"] {
        for (depth, count) in [(3, 20_000), (5, 500)] {
            all.push(project("one", nested(operator, depth, count)));
        }
    }
    all.push(find(
        "one",
        doc! { "$expr": { "$gt": [nested("$reduce", 3, 20_000), 0] } },
    ));
    all.push(update(vec![
        doc! { "$set": { "x": nested("$reduce", 3, 20_000) } },
    ]));
    let far = doc! { "$add": ["$$e", 10_000_000] };
    all.push(each_in("$a", doc! { "$in": [far.clone(), "$a"] }));
    all.push(each_in(
        "$a",
        doc! { "$gt": [{ "$indexOfArray": ["$a", far.clone()] }, 0] },
    ));
    all.push(each_in("$a", doc! { "$setIsSubset": [[far], "$a"] }));
    all.push(each_in(
        "$a",
        doc! { "$gt": [{ "$size": { "$setUnion": ["$a", ["$$e"]] } }, 0] },
    ));
    all.push(each_in(
        "$a",
        doc! { "$sortArray": { "input": "$a", "sortBy": -1 } },
    ));
    all.push(each_in("$a", doc! { "$concatArrays": ["$a", "$a", "$a"] }));
    all.push(each_in("$a", doc! { "$zip": { "inputs": ["$a", "$a"] } }));
    all
}

fn texts() -> Vec<Document> {
    let mut all = Vec::new();
    for pattern in [
        "^(.*)\\1z",
        "^(?<x>.*)\\k<x>z",
        "^(a+)+$b",
        "(.*)(.*)\\2\\1z",
        "a*a*a*b",
    ] {
        all.push(find("text", doc! { "s": { "$regex": pattern } }));
        let matching = doc! { "$regexMatch": { "input": "$s", "regex": pattern } };
        all.push(project("text", matching));
    }
    let needle = format!("{}b", "a".repeat(50_000));
    let in_loop = |inner: Document| {
        project(
            "text",
            doc! { "$size": { "$map": { "input": range(100_000), "in": inner } } },
        )
    };
    all.push(in_loop(doc! { "$indexOfCP": ["$s", &needle] }));
    all.push(in_loop(doc! { "$indexOfBytes": ["$s", &needle] }));
    all.push(in_loop(doc! { "$size": { "$split": ["$s", "aab"] } }));
    all.push(in_loop(doc! { "$strLenBytes": {
        "$replaceAll": { "input": "$s", "find": needle, "replacement": "" },
    } }));
    all
}

fn others() -> Vec<Document> {
    let fresh: Vec<i32> = (2_000_000..2_060_000).collect();
    let path = format!("a{}", ".0".repeat(60));
    let mut all = vec![
        update(doc! { "$addToSet": { "a": { "$each": fresh.clone() } } }),
        update(doc! { "$pullAll": { "a": fresh.clone() } }),
        update(doc! { "$pull": { "a": { "$in": fresh.clone() } } }),
        update(doc! { "$push": { "a": { "$each": fresh.clone(), "$sort": -1 } } }),
        find("ints", doc! { "a": { "$all": fresh.clone() } }),
        find("ints", doc! { "a": { "$in": fresh.clone() } }),
        find(
            "ints",
            doc! { "$jsonSchema": { "properties": { "a": { "uniqueItems": true } } } },
        ),
        find(
            "ints",
            doc! { "$jsonSchema": { "properties": { "a": { "items": {
                "enum": fresh,
            } } } } },
        ),
        find("deep", doc! { path.clone(): 5 }),
        find("deep", doc! { path.clone(): { "$exists": false } }),
        find("deep", doc! { path.clone(): { "$gt": 5 } }),
        find("deep", doc! { path.clone(): { "$in": [5, 6] } }),
        doc! { "find": "deep", "sort": { path.clone(): 1 } },
        doc! { "find": "deep", "projection": { path.clone(): 1 } },
        doc! { "distinct": "deep", "key": path.clone() },
        project("deep", format!("${path}")),
    ];
    let within = doc! { "a": { "$elemMatch": { "0": -5 } } };
    all.push(find("nested", doc! { "$or": vec![within; 300] }));
    let patterns: Vec<Bson> = (0..20_000).map(pattern).collect();
    all.push(find("text", doc! { "s": { "$in": patterns } }));
    let bound: Document = (0..100_000)
        .map(|n| (format!("v{n}"), Bson::Int32(n)))
        .collect();
    all.push(project(
        "one",
        doc! { "$let": { "vars": bound, "in": vec!["$$v0"; 100_000] } },
    ));
    for function in ["$addToSet", "$push", "$max", "$sum", "$stdDevPop", "$lastN"] {
        let argument = match function {
            "$lastN" => Bson::Document(doc! { "input": "$y", "n": 500 }),
            _ => Bson::from("$y"),
        };
        all.push(window(function, argument));
    }
    all.push(window(
        "$median",
        doc! { "input": "$y", "method": "approximate" },
    ));
    all.push(window("$covariancePop", vec!["$y", "$x"]));
    all
}

fn pattern(number: i32) -> Bson {
    Bson::RegularExpression(bson::Regex {
        pattern: format!("{number}[a-y]+z").try_into().unwrap(),
        options: "".try_into().unwrap(),
    })
}

async fn filled() -> (Service, Client) {
    let service = Service::plain().await;
    let mut client = service.connect();
    let deep = (0..60).fold(Bson::Int32(1), |inner, _| {
        Bson::Array(vec![Bson::Document(doc! { "0": inner })])
    });
    let ints: Vec<i32> = (0..60_000).collect();
    let many: Vec<Document> = (0..4_000)
        .map(|n| doc! { "_id": n, "x": n % 7, "y": n })
        .collect();
    for (collection, documents) in [
        ("one", vec![doc! { "_id": 1 }]),
        ("text", vec![doc! { "_id": 1, "s": "a".repeat(300_000) }]),
        ("nested", vec![doc! { "_id": 1, "a": [1, ints.clone()] }]),
        ("ints", vec![doc! { "_id": 1, "a": ints }]),
        ("deep", vec![doc! { "_id": 1, "a": deep }]),
        ("many", many),
    ] {
        let insert = doc! { "insert": collection, "documents": documents };
        client.must("test", insert).await;
    }
    (service, client)
}

/// Runs each command on three connections at once, while a fourth one reads a document again and
/// again.
async fn beside_others(commands: Vec<Document>) {
    let (service, mut canary) = filled().await;
    for command in commands {
        let mut limited = command.clone();
        limited.insert("maxTimeMS", i64::try_from(LIMIT_MS).unwrap());
        let began = Instant::now();
        let hostile = |_| {
            let (mut client, limited) = (service.connect(), limited.clone());
            tokio::spawn(async move { client.run("test", limited).await })
        };
        let hostile: Vec<_> = (0..3).map(hostile).collect();
        let mut longest = Duration::ZERO;
        while !hostile.iter().all(tokio::task::JoinHandle::is_finished) {
            let asked = Instant::now();
            canary.must("test", find("one", doc! { "_id": 1 })).await;
            longest = longest.max(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let took = began.elapsed();
        let shown: String = command.to_string().chars().take(160).collect();
        assert!(longest < PATIENCE, "others waited {longest:?} for {shown}");
        assert!(took < LATE, "took {took:?}: {shown}");
        for hostile in hostile {
            let reply = hostile.await.unwrap();
            let code = reply.get_i32("code").unwrap_or_else(|_| {
                let errors = reply.get_array("writeErrors").ok();
                let first = errors.and_then(|errors| errors.first()?.as_document());
                first.map_or(0, |first| first.get_i32("code").unwrap())
            });
            // Done, or its time was over, or it was given up for its memory or its pattern, or it
            // has no order.
            let expected = [0, 50, 146, 16_746, 51_156, 112];
            assert!(expected.contains(&code), "{reply}: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_leave_room_for_others() {
    beside_others(expressions()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_in_texts_leave_room_for_others() {
    beside_others(texts()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_updates_and_windows_leave_room_for_others() {
    beside_others(others()).await;
}

/// Something in so many documents or arrays.
fn nested_in(depth: usize, value: &str, in_documents: bool) -> Bson {
    (0..depth).fold(Bson::from(value), |inner, _| match in_documents {
        true => Bson::Document(doc! { "a": inner }),
        false => Bson::Array(vec![inner]),
    })
}

/// Stages of which each puts what the one before made into more documents or arrays.
fn nesting() -> Vec<Document> {
    let arrays = nested_in(90, "$a", false);
    let push = doc! { "$push": nested_in(90, "$a", false) };
    let in_operator = doc! { "$ifNull": [nested_in(90, "$_id", false), 1] };
    let facet = vec![doc! { "$match": {} }];
    let again = vec![doc! { "$set": { "a": nested_in(80, "$$v", false) } }];
    vec![
        doc! { "$set": { "a": arrays.clone() } },
        doc! { "$set": { "a": nested_in(90, "$a", true) } },
        doc! { "$project": { "a": arrays } },
        doc! { "$project": { "a.b.c.d": "$$ROOT" } },
        doc! { "$replaceRoot": { "newRoot": nested_in(90, "$$ROOT", true) } },
        doc! { "$replaceWith": { "b": nested_in(90, "$$ROOT", true) } },
        doc! { "$group": { "_id": nested_in(90, "$_id", false) } },
        doc! { "$group": { "_id": nested_in(90, "$_id", true) } },
        doc! { "$group": { "_id": 1, "a": push.clone() } },
        doc! { "$group": { "_id": 1, "a": { "$addToSet": "$$ROOT" } } },
        doc! { "$setWindowFields": { "output": { "a": push } } },
        doc! { "$bucketAuto": { "groupBy": in_operator, "buckets": 1 } },
        doc! { "$facet": { "a": facet } },
        doc! { "$lookup": { "from": "one", "let": { "v": "$a" }, "pipeline": again, "as": "a" } },
        doc! { "$set": { "a": { "$arrayToObject": [[{ "k": "x", "v": "$$ROOT" }]] } } },
    ]
}

/// Once a pipeline of a hundred kilobytes ended the server: its stack was used up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_cannot_nest_without_end() {
    let (service, _) = filled().await;
    for stage in nesting() {
        let mut client = service.connect();
        for last in [
            doc! { "$count": "n" },
            doc! { "$match": { "$expr": { "$eq": ["$a", "$a"] } } },
            doc! { "$sort": { "a": 1 } },
        ] {
            let mut stages = vec![stage.clone(); 900];
            stages.push(last);
            let command = doc! { "aggregate": "one", "pipeline": stages, "cursor": {} };
            let reply = client.run("test", command).await;
            let code = reply.get_i32("code").unwrap_or(0);
            // Some are refused for the memory that they take.
            assert!(
                [15, 146, 292, 40237, 4_031_700].contains(&code),
                "{code}: {stage}"
            );
        }
        if stage.contains_key("$set") || stage.contains_key("$project") {
            let update = doc! { "q": { "_id": 1 }, "u": vec![stage.clone(); 900] };
            let reply = client
                .run("test", doc! { "update": "one", "updates": [update] })
                .await;
            let errors = reply.get_array("writeErrors").unwrap();
            let first = errors.first().and_then(Bson::as_document).unwrap();
            assert_eq!(first.get_i32("code").unwrap(), 15, "{stage}");
        }
    }
}

/// A command that goes on for hours.
fn endless() -> Document {
    project("one", nested("$reduce", 4, 100_000))
}

async fn running(client: &mut Client) -> Vec<i32> {
    let current = client.must("admin", doc! { "currentOp": 1 }).await;
    let all = current.get_array("inprog").unwrap().iter();
    let all = all.filter_map(Bson::as_document);
    all.filter(|seen| {
        seen.get_document("command")
            .is_ok_and(|c| c.contains_key("aggregate"))
    })
    .map(|seen| seen.get_i32("opid").unwrap())
    .collect()
}

async fn until_running(client: &mut Client, count: usize) -> Vec<i32> {
    let began = Instant::now();
    loop {
        let found = running(client).await;
        if found.len() == count {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{found:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computations_can_be_killed() {
    let (service, mut client) = filled().await;
    let hostile = |_| {
        let mut client = service.connect();
        tokio::spawn(async move { client.run("test", endless()).await })
    };
    let hostile: Vec<_> = (0..3).map(hostile).collect();
    for operation in until_running(&mut client, 3).await {
        client
            .must("admin", doc! { "killOp": 1, "op": operation })
            .await;
    }
    for hostile in hostile {
        assert_eq!(hostile.await.unwrap().get_i32("code").unwrap(), 11_601);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computations_end_with_their_client() {
    let (service, mut client) = filled().await;
    let mut hostile: Vec<Client> = (0..3).map(|_| service.connect()).collect();
    for client in &mut hostile {
        let mut command = endless();
        command.insert("$db", "test");
        client.send_message(0, &command).await;
    }
    until_running(&mut client, 3).await;
    drop(hostile);
    until_running(&mut client, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computations_end_with_the_server() {
    let (service, mut client) = filled().await;
    let mut other = service.connect();
    let hostile = tokio::spawn(async move { other.run("test", endless()).await });
    until_running(&mut client, 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    service.stop();
    let ended = tokio::time::timeout(Duration::from_secs(10), hostile).await;
    assert_eq!(ended.unwrap().unwrap().get_i32("code").unwrap(), 11_600);
}
