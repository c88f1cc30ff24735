//! Requests that take as much memory as they can, of a server that has little: they are refused,
//! nothing goes beyond the budget, and all of it comes back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use tessera_core::Store;
use tessera_core::memory::MemoryEngine;
use tessera_core::memory_budget::{MemoryBudget, Purpose};
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;
use tessera_mongo::{API, MongoConfig, MongoModel, User};
use tokio::io::AsyncReadExt as _;

use crate::client::{Client, Service, message_body, packet};

const MIB: usize = 1 << 20;
/// What all requests have in these tests.
const BUDGET: usize = 32 * MIB;
/// How long memory may take to come back.
const PATIENCE: Duration = Duration::from_secs(20);

const MESSAGE: i32 = 2013;
const COMPRESSED: i32 = 2012;

/// Codes of a request that there is no memory for, or that is too large for anyone.
const REFUSALS: &[i32] = &[146, 292, 433, 10334, 16493, 17419, 4568, 4031700];

async fn small(config: MongoConfig) -> Service {
    let model: Arc<dyn Model> = Arc::new(MongoModel::default());
    let options = StoreOptions {
        models: HashMap::from([(API.to_owned(), model)]),
        memory: MemoryBudget::new(BUDGET, 0),
        ..StoreOptions::default()
    };
    let engine = Arc::new(MemoryEngine::new());
    Service::over(Store::open(engine, options).await.unwrap(), config)
}

/// Waits until nothing is taken any more.
async fn comes_back(service: &Service) {
    let began = Instant::now();
    while service.store.memory().used() > 0 {
        let memory = service.store.memory();
        let taken: Vec<_> = memory.taken().filter(|taken| taken.used > 0).collect();
        assert!(began.elapsed() < PATIENCE, "{taken:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn first_code(reply: &Document) -> i32 {
    let first = |errors: &Vec<Bson>| errors.first()?.as_document()?.get_i32("code").ok();
    let code = reply.get_i32("code").ok();
    code.or_else(|| first(reply.get_array("writeErrors").ok()?))
        .unwrap_or(0)
}

fn range(count: i32) -> Document {
    doc! { "$range": [0, count] }
}

/// `$let` within `$let`, each with `copies` of what the outer one has.
fn lets(depth: usize, copies: usize, count: i32) -> Document {
    let copied = |name: &str| vec![Bson::from(format!("$${name}")); copies];
    let mut inner = Bson::from(copied(&format!("v{depth}")));
    for level in (1..=depth).rev() {
        let value = match level {
            1 => Bson::from(range(count)),
            _ => Bson::from(copied(&format!("v{}", level - 1))),
        };
        let vars = Document::from_iter([(format!("v{level}"), value)]);
        inner = Bson::from(doc! { "$let": { "vars": vars, "in": inner } });
    }
    inner.as_document().unwrap().clone()
}

fn reduce(initial: impl Into<Bson>, inner: impl Into<Bson>) -> Document {
    doc! { "$reduce": { "input": range(60), "initialValue": initial.into(), "in": inner.into() } }
}

/// Expressions whose values grow.
fn growing() -> Vec<Document> {
    vec![
        lets(3, 4, 400_000),
        lets(2, 30, 100_000),
        lets(5, 8, 10_000),
        reduce(doc! { "a": "x" }, doc! { "a": "$$value", "b": "$$value" }),
        reduce(
            doc! { "k": 1 },
            doc! { "k": ["$$value", "$$value", "$$value"] },
        ),
        reduce("x", doc! { "$concat": ["$$value", "$$value"] }),
        reduce(vec!["x"], doc! { "$concatArrays": ["$$value", "$$value"] }),
        doc! { "$map": { "input": range(3_000), "in": range(3_000) } },
        doc! { "$filter": { "input": range(4_000_000), "cond": true } },
        doc! { "$zip": { "inputs": [range(500_000), range(500_000), range(500_000)] } },
        doc! { "$objectToArray": { "a": lets(2, 20, 50_000) } },
        doc! { "$reverseArray": range(4_000_000) },
        doc! { "$sortArray": { "input": range(4_000_000), "sortBy": -1 } },
        doc! { "$setUnion": [range(2_000_000), range(2_000_000)] },
        doc! { "$concatArrays": [range(900_000), range(900_000), range(900_000)] },
    ]
}

#[tokio::test]
async fn values_that_grow_are_refused_and_given_back() {
    let service = small(MongoConfig::default()).await;
    let mut client = service.connect();
    client
        .must("d", doc! { "insert": "k", "documents": [{ "_id": 1 }] })
        .await;
    for expression in growing() {
        let stage = doc! { "$set": { "z": expression.clone() } };
        let update = doc! { "q": { "_id": 1 }, "u": [stage.clone()] };
        for command in [
            doc! { "aggregate": "k", "pipeline": [stage, { "$count": "n" }], "cursor": {} },
            doc! { "update": "k", "updates": [update] },
            doc! { "find": "k", "filter": { "$expr": { "$eq": [expression, 1] } } },
        ] {
            let reply = client.run("d", command.clone()).await;
            let code = first_code(&reply);
            // A comparison need not hold what it compares.
            let is_compared = code == 0 && command.contains_key("find");
            assert!(
                REFUSALS.contains(&code) || is_compared,
                "{command}: {reply}"
            );
        }
        assert!(service.store.memory().peak() <= BUDGET);
        comes_back(&service).await;
        client
            .must("d", doc! { "find": "k", "filter": { "_id": 1 } })
            .await;
    }
}

/// Filters with more patterns than there is memory for, compiled.
fn patterns() -> Vec<Document> {
    let pattern = |n: i32| {
        Bson::RegularExpression(bson::Regex {
            pattern: format!("{n}").try_into().unwrap(),
            options: "".try_into().unwrap(),
        })
    };
    let all: Vec<Bson> = (0..5_000).map(pattern).collect();
    let fields: Vec<Document> = all.iter().map(|one| doc! { "s": one }).collect();
    let not: Vec<Document> = all
        .iter()
        .map(|one| doc! { "s": { "$not": one } })
        .collect();
    let named: Document = (0..5_000)
        .map(|n| (format!("p{n}"), Bson::Document(doc! {})))
        .collect();
    vec![
        doc! { "s": { "$in": all.clone() } },
        doc! { "s": { "$nin": all.clone() } },
        doc! { "s": { "$all": all } },
        doc! { "$or": fields.clone() },
        doc! { "$nor": fields.clone() },
        doc! { "$and": fields.clone() },
        doc! { "a": { "$elemMatch": { "$or": fields } } },
        doc! { "$or": not },
        doc! { "$jsonSchema": { "patternProperties": named } },
    ]
}

#[tokio::test]
async fn patterns_and_paths_are_counted_and_given_back() {
    let service = small(MongoConfig::default()).await;
    let mut client = service.connect();
    let document = doc! { "_id": 1, "s": "x", "a": vec![1; 300_000] };
    let insert = doc! { "insert": "k", "documents": [document] };
    client.must("d", insert).await;
    let mut commands = Vec::new();
    for filter in patterns() {
        commands.push(doc! { "find": "k", "filter": filter.clone() });
        commands.push(doc! { "delete": "k", "deletes": [{ "q": filter, "limit": 1 }] });
    }
    for operator in ["$inc", "$set", "$mul", "$max"] {
        let update = doc! { "q": { "_id": 1 }, "u": { operator: { "a.$[]": 2 } } };
        commands.push(doc! { "update": "k", "updates": [update] });
    }
    for command in commands {
        let reply = client.run("d", command.clone()).await;
        let shown: String = command.to_string().chars().take(120).collect();
        assert_eq!(first_code(&reply), 146, "{reply}: {shown}");
        assert!(service.store.memory().peak() <= BUDGET, "{shown}");
        comes_back(&service).await;
    }
}

fn window(operator: &str, documents: [i32; 2]) -> Document {
    doc! { "$setWindowFields": { "sortBy": { "_id": 1 }, "output": { "p": {
        operator: "$y", "window": { "documents": documents.to_vec() },
    } } } }
}

/// Pipelines whose stages keep much.
fn keeping() -> Vec<Vec<Document>> {
    let unions = || vec![doc! { "$unionWith": "k" }; 8];
    let after_unions = |stage: Document| [unions(), vec![stage]].concat();
    let all = doc! { "$push": "$$ROOT" };
    vec![
        vec![window("$push", [-3_000, 3_000])],
        vec![window("$addToSet", [-3_000, 3_000])],
        vec![window("$push", [-5_000, 0])],
        vec![window("$push", [0, 5_000])],
        after_unions(doc! { "$sort": { "p": 1, "_id": -1 } }),
        after_unions(doc! { "$group": { "_id": null, "d": all.clone() } }),
        after_unions(doc! { "$group": { "_id": "$y", "d": all } }),
        after_unions(doc! { "$bucketAuto": { "groupBy": "$y", "buckets": 3 } }),
        after_unions(doc! { "$facet": { "a": [{ "$match": {} }] } }),
        after_unions(doc! { "$sample": { "size": 1_000_000 } }),
        after_unions(doc! { "$setWindowFields": { "output": { "n": { "$sum": 1 } } } }),
        vec![
            doc! { "$limit": 3 },
            doc! { "$lookup": { "from": "k", "pipeline": unions(), "as": "x" } },
        ],
        vec![
            doc! { "$limit": 3 },
            doc! { "$set": { "a": range(900_000) } },
            doc! { "$unwind": "$a" },
            doc! { "$sort": { "a": -1 } },
        ],
    ]
}

#[tokio::test]
async fn stages_that_keep_much_are_refused_and_given_back() {
    let service = small(MongoConfig::default()).await;
    let mut client = service.connect();
    for start in (0..6_000).step_by(500) {
        let document = |id: i32| doc! { "_id": id, "y": id, "p": "x".repeat(500) };
        let documents: Vec<Document> = (start..start + 500).map(document).collect();
        client
            .must("d", doc! { "insert": "k", "documents": documents })
            .await;
    }
    for pipeline in keeping() {
        let command = doc! { "aggregate": "k", "pipeline": pipeline, "cursor": { "batchSize": 1 } };
        let reply = client.run("d", command.clone()).await;
        assert!(REFUSALS.contains(&first_code(&reply)), "{command}: {reply}");
        assert!(service.store.memory().peak() <= BUDGET);
        comes_back(&service).await;
    }
}

#[tokio::test]
async fn cursors_and_transactions_share_what_there_is_and_give_it_back() {
    let service = small(MongoConfig::default()).await;
    let mut client = service.connect();
    let large = |id: i32| doc! { "_id": id, "p": "x".repeat(MIB) };
    for id in 0..8 {
        client
            .must("d", doc! { "insert": "k", "documents": [large(id)] })
            .await;
    }
    let mut cursors = Vec::new();
    let refused = loop {
        let find = doc! { "find": "k", "sort": { "p": 1, "_id": -1 }, "batchSize": 1 };
        let reply = client.run("d", find).await;
        let Ok(cursor) = reply.get_document("cursor") else {
            break first_code(&reply);
        };
        cursors.push(Bson::Int64(cursor.get_i64("id").unwrap()));
        assert!(cursors.len() < 10, "nothing refuses");
    };
    assert!(REFUSALS.contains(&refused), "{refused}");
    assert!(!cursors.is_empty());
    client
        .must("d", doc! { "killCursors": "k", "cursors": cursors })
        .await;
    comes_back(&service).await;

    let session = |number: u8| Binary {
        subtype: BinarySubtype::Uuid,
        bytes: vec![number; 16],
    };
    let mut refusals = 0;
    for number in 0..2 {
        let reply = client
            .run(
                "d",
                doc! {
                    "insert": "t", "documents": [large(100 + i32::from(number))],
                    "lsid": { "id": session(number) }, "txnNumber": 1_i64,
                    "startTransaction": true, "autocommit": false,
                },
            )
            .await;
        let mut refused = first_code(&reply) != 0;
        for id in 0..12 {
            if refused {
                break;
            }
            let more = doc! {
                "insert": "t", "documents": [large(1_000 + i32::from(number) * 10 + id)],
                "lsid": { "id": session(number) }, "txnNumber": 1_i64, "autocommit": false,
            };
            refused = first_code(&client.run("d", more).await) != 0;
        }
        refusals += usize::from(refused);
    }
    assert!(refusals >= 1, "{refusals}");
    let sessions: Vec<Document> = (0..2)
        .map(|number| doc! { "id": session(number) })
        .collect();
    client.must("admin", doc! { "endSessions": sessions }).await;
    comes_back(&service).await;
}

async fn guarded() -> Service {
    small(MongoConfig {
        requires_authentication: true,
        users: vec![User {
            name: "root".to_owned(),
            password: "secret".to_owned(),
        }],
        ..MongoConfig::default()
    })
    .await
}

/// A message that says it expands to so many bytes.
fn compressed(claimed: i32) -> Vec<u8> {
    let mut body = MESSAGE.to_le_bytes().to_vec();
    body.extend(claimed.to_le_bytes());
    body.push(2);
    body.extend([0; 32]);
    packet(1, COMPRESSED, &body)
}

async fn is_closed(client: &mut Client) -> bool {
    let mut rest = Vec::new();
    let closed = client.stream.read_to_end(&mut rest);
    tokio::time::timeout(PATIENCE, closed).await.is_ok()
}

#[tokio::test]
async fn before_the_login_nothing_large_is_read_or_expanded() {
    let service = guarded().await;
    for length in [
        16_385,
        20_000,
        100_000,
        1 << 20,
        16_000_000,
        30_000_000,
        48_000_000_i32,
    ] {
        for kind in [MESSAGE, 2004, COMPRESSED, 2005] {
            let mut client = service.connect();
            let header = [length, 1, 0, kind].map(i32::to_le_bytes).concat();
            client.send(&header).await;
            assert!(is_closed(&mut client).await, "{length} {kind}");
        }
    }
    for claimed in [16_385, 20_000, 1 << 20, 16_000_000, 47_000_000_i32] {
        let mut client = service.connect();
        let hello = doc! { "hello": 1, "compression": ["zlib"] };
        client.must("admin", hello).await;
        client.send(&compressed(claimed)).await;
        assert!(is_closed(&mut client).await, "{claimed}");
    }
    assert!(service.store.memory().peak() <= 64 << 10);
}

#[tokio::test]
async fn a_hello_waits_with_little_and_ends_with_its_client() {
    let service = small(MongoConfig::default()).await;
    let mut client = service.connect();
    let known = client.must("admin", doc! { "hello": 1 }).await;
    let known = known.get_document("topologyVersion").unwrap();
    let waiting = |filling: usize| {
        doc! {
            "hello": 1, "topologyVersion": known.clone(), "maxAwaitTimeMS": 600_000_i64,
            "comment": "x".repeat(filling),
        }
    };
    for filling in [17_000, 100_000, MIB, 4 * MIB] {
        let reply = client.run("admin", waiting(filling)).await;
        assert_eq!(first_code(&reply), 2, "{filling}: {reply}");
    }
    let mut leaving = service.connect();
    let mut hello = waiting(10);
    hello.insert("$db", "admin");
    leaving
        .send(&packet(1, MESSAGE, &message_body(0, &hello)))
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let served = std::mem::replace(&mut leaving.served, tokio::spawn(async {}));
    drop(leaving);
    tokio::time::timeout(PATIENCE, served)
        .await
        .unwrap()
        .unwrap();
    comes_back(&service).await;
}

#[tokio::test]
async fn large_messages_wait_for_memory_and_are_refused_if_there_will_be_none() {
    let service = small(MongoConfig::default()).await;
    let insert = |id: i32, megabytes: usize| {
        doc! {
            "insert": "k", "$db": "d",
            "documents": [{ "_id": id, "p": "x".repeat(megabytes * MIB) }],
        }
    };
    // More than any request may have: the message is taken off the wire, and the next is answered.
    let mut client = service.connect();
    for megabytes in [17, 20, 30, 40] {
        let reply = client.run("d", insert(1, megabytes)).await;
        assert_eq!(first_code(&reply), 146, "{megabytes}: {reply}");
        client.ping().await;
    }
    // Each fits, and all together do not: they take their turns.
    let mut running = Vec::new();
    for id in 0..12 {
        let mut client = service.connect();
        let insert = insert(id, 5);
        running.push(tokio::spawn(async move { client.run("d", insert).await }));
    }
    for running in running {
        let reply = running.await.unwrap();
        assert_eq!(first_code(&reply), 0, "{reply}");
    }
    assert!(service.store.memory().peak() <= BUDGET);
    comes_back(&service).await;
}

#[tokio::test]
async fn replies_that_are_not_taken_count_until_their_clients_go() {
    let service = small(MongoConfig::default()).await;
    let mut client = service.connect();
    for id in 0..12 {
        let document = doc! { "_id": id, "p": "x".repeat(MIB) };
        client
            .must("d", doc! { "insert": "k", "documents": [document] })
            .await;
    }
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut client = service.connect();
        let find = doc! { "find": "k", "batchSize": 100, "$db": "d" };
        client.send_message(0, &find).await;
        silent.push(client);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let memory = service.store.memory();
    let replies = memory
        .taken()
        .find(|taken| taken.purpose == Purpose::Replies);
    assert!(replies.unwrap().used > 4 * MIB, "{memory:?}");
    assert!(memory.peak() <= BUDGET);
    // Small requests go on.
    let one = doc! { "find": "k", "filter": { "_id": "none" } };
    client.must("d", one).await;
    let killed = silent.len();
    drop(silent);
    assert_eq!(killed, 20);
    let began = Instant::now();
    let replies = || {
        let mut taken = service.store.memory().taken();
        taken
            .find(|taken| taken.purpose == Purpose::Replies)
            .unwrap()
            .used
    };
    while replies() > 0 {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The log is read from its beginning, so what is answered backwards is kept first.
#[tokio::test]
async fn a_log_that_is_read_backwards_is_counted_and_given_back() {
    let service = small(MongoConfig {
        replica_set: Some("rs0".to_owned()),
        ..MongoConfig::default()
    })
    .await;
    let mut client = service.connect();
    let backwards = |limit: i64| {
        doc! { "find": "oplog.rs", "sort": { "$natural": -1 }, "limit": limit, "batchSize": 1 }
    };
    // The first reading turns it on.
    client.must("local", backwards(1)).await;
    for number in 0..20 {
        let document = doc! { "_id": number, "text": "x".repeat(MIB) };
        let insert = doc! { "insert": "k", "documents": [document] };
        client.must("d", insert).await;
    }
    for limit in [0, 15, 20, 1_000_000_000] {
        let reply = client.run("local", backwards(limit)).await;
        assert_eq!(first_code(&reply), 146, "{limit}: {reply}");
        assert!(service.store.memory().peak() <= BUDGET, "{limit}");
        comes_back(&service).await;
    }
    let reply = client.must("local", backwards(3)).await;
    let cursor = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    assert!(service.store.memory().used() > 0);
    let kill = doc! { "killCursors": "oplog.rs", "cursors": [cursor] };
    client.must("local", kill).await;
    comes_back(&service).await;
}
