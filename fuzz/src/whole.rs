//! Whole front ends over a store in memory: an input is what a client sends, and behind it comes a
//! request that must still be answered, unless the connection was closed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use tessera_console::Console;
use tessera_core::Store;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;
use tessera_cql::{Cql, CqlConfig, CqlModel};
use tessera_frontend::testing::connection;
use tessera_frontend::{About, FrontEnd};
use tessera_mongo::{Mongo, MongoConfig, MongoModel};
use tessera_table::{Accounts, Mode, Table, TableConfig, TableModel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::extended_json::{self, document};

/// After so many inputs everything begins anew: what they stored would only slow them down.
const INPUTS: usize = 5_000;

/// How long bytes that are no whole request are waited for, and anything at all.
const HESITATION: Duration = Duration::from_millis(15);
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a MongoDB command may take.
const MAX_TIME_MS: i32 = 50;

/// A server without sockets.
struct World {
    runtime: Runtime,
    mongo: Arc<dyn FrontEnd>,
    cql: Arc<dyn FrontEnd>,
    table: Arc<dyn FrontEnd>,
    console: Arc<dyn FrontEnd>,
    left: usize,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn models() -> HashMap<String, Arc<dyn Model>> {
    let mongo: Arc<dyn Model> = Arc::new(MongoModel::default());
    let cql: Arc<dyn Model> = Arc::new(CqlModel::default());
    let table: Arc<dyn Model> = Arc::new(TableModel);
    HashMap::from([
        (tessera_mongo::API.to_owned(), mongo),
        (tessera_cql::API.to_owned(), cql),
        (tessera_table::API.to_owned(), table),
    ])
}

impl World {
    fn new() -> Option<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().ok()?;
        let entered = runtime.enter();
        let options = StoreOptions {
            models: models(),
            ..StoreOptions::default()
        };
        let engine = Arc::new(MemoryEngine::new());
        let store = runtime.block_on(Store::open(engine, options)).ok()?;
        let about = About {
            version: "0",
            engine: "memory",
            started: Instant::now(),
            listeners: Vec::new(),
        };
        let table = TableConfig {
            mode: Mode::Storage,
            accounts: Accounts::emulator(),
            bearer: None,
        };
        let mongo = Mongo::new(store.clone(), MongoConfig::default()).ok()?;
        let world = Self {
            mongo: Arc::new(mongo),
            cql: Arc::new(Cql::new(store.clone(), CqlConfig::default())),
            table: Arc::new(Table::new(store.clone(), table)),
            console: Arc::new(Console::new(store, about, None)),
            left: INPUTS,
            runtime: {
                drop(entered);
                runtime
            },
        };
        world.fill();
        Some(world)
    }

    /// Gives inputs something to be about.
    fn fill(&self) {
        let rows = (0..20).map(|n| {
            doc! { "_id": n, "a": n % 3, "b": { "c": [n, { "d": n }] }, "s": "text" }
        });
        let insert = doc! { "insert": "c", "documents": rows.collect::<Vec<_>>(), "$db": "test" };
        let index = doc! { "key": { "a": 1, "b.c": -1 }, "name": "i" };
        let index = doc! { "createIndexes": "c", "indexes": [index], "$db": "test" };
        for command in [insert, index] {
            self.ask(Api::Mongo, &message(&command, 1));
        }
        for text in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
             'replication_factor': 1}",
            "CREATE TYPE k.u (x int, y frozen<list<text>>)",
            "CREATE TABLE k.t (p int, c text, s int static, v varint, d decimal, l list<int>, \
             m map<text, int>, u frozen<u>, PRIMARY KEY (p, c))",
            "CREATE INDEX ON k.t (v)",
            "INSERT INTO k.t (p, c, s, v, d, l, m) VALUES (1, 'a', 2, 3, 4.5, [1, 2], {'x': 1})",
        ] {
            self.ask(Api::Cql, &frames(text.as_bytes(), 4));
        }
    }

    fn ask(&self, api: Api, input: &[u8]) {
        let front_end = match api {
            Api::Mongo => &self.mongo,
            Api::Cql => &self.cql,
            Api::Table => &self.table,
            Api::Console => &self.console,
        };
        let front_end = Arc::clone(front_end);
        let asking = async move {
            let began = Instant::now();
            let (mut client, server) = duplex(1 << 20);
            let (stop, stopping) = watch::channel(false);
            let serving = tokio::spawn(async move {
                front_end.serve(connection(server, stopping)).await;
            });
            let sent = async {
                client.write_all(input).await?;
                client.write_all(&last_request(api)).await
            };
            // It may have been closed before all was sent.
            let _closed = tokio::time::timeout(HESITATION, sent).await.is_err();
            let mut answer = Vec::new();
            let mut is_answered = false;
            while !is_answered {
                let reading = tokio::time::timeout(HESITATION, client.read_buf(&mut answer));
                match reading.await {
                    Ok(Ok(0) | Err(_)) => break,
                    Ok(Ok(_)) => is_answered = is_last(api, &answer),
                    // It waits for the rest of something, or computes.
                    Err(_) => {
                        let _closed = client.shutdown().await.is_err();
                        stop.send_replace(true);
                    }
                }
                assert!(began.elapsed() < PATIENCE, "no answer and no end");
            }
            drop(client);
            stop.send_replace(true);
            let ended = tokio::time::timeout(PATIENCE, serving).await;
            assert!(ended.is_ok(), "the connection does not end");
        };
        self.runtime.block_on(asking);
    }
}

#[derive(Clone, Copy)]
enum Api {
    Mongo,
    Cql,
    Table,
    Console,
}

/// What is asked behind each input.
fn last_request(api: Api) -> Vec<u8> {
    match api {
        Api::Mongo => message(&doc! { "ping": 1, "$db": "admin" }, LAST),
        // OPTIONS, of which the answer is told by its code.
        Api::Cql => vec![4, 0, 0x7f, 0x7f, 5, 0, 0, 0, 0],
        Api::Table | Api::Console => {
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".to_vec()
        }
    }
}

const LAST: i32 = 0x7e57_1a57;

fn is_last(api: Api, answer: &[u8]) -> bool {
    let has = |part: &[u8]| answer.windows(part.len()).any(|window| window == part);
    match api {
        Api::Mongo => has(&LAST.to_le_bytes()),
        Api::Cql => has(&[0x84, 0, 0x7f, 0x7f]),
        // The connection is closed behind it.
        Api::Table | Api::Console => false,
    }
}

fn message(command: &Document, id: i32) -> Vec<u8> {
    let body = extended_json::bytes(command);
    let length = i32::try_from(21 + body.len()).unwrap_or(i32::MAX);
    let mut packet = Vec::with_capacity(body.len() + 21);
    for number in [length, id, 0, 2013, 0] {
        packet.extend_from_slice(&number.to_le_bytes());
    }
    packet.push(0);
    packet.extend_from_slice(&body);
    packet
}

/// STARTUP, and a QUERY for each line.
fn frames(text: &[u8], version: u8) -> Vec<u8> {
    let frame = |opcode: u8, stream: u8, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let mut frame = vec![version, 0, 0, stream, opcode];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(body);
        frame
    };
    let mut all = frame(1, 0, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0");
    for (line, stream) in text.split(|byte| *byte == b'\n').zip((1..=127).cycle()) {
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let mut body = length.to_be_bytes().to_vec();
        body.extend_from_slice(line);
        body.extend_from_slice(&[0, 1, 0]);
        all.extend(frame(7, stream, &body));
    }
    all
}

fn ask(api: Api, input: &[u8]) {
    // What a panic leaves is not used again.
    let kept = WORLD
        .with(|world| world.take())
        .filter(|world| world.left > 0);
    let Some(mut world) = kept.or_else(World::new) else {
        return;
    };
    world.left -= 1;
    world.ask(api, input);
    WORLD.with(|place| place.replace(Some(world)));
}

/// A command as JSON, or packets as they are.
pub(crate) fn mongo(bytes: &[u8]) {
    let Some(mut command) = document(bytes) else {
        return ask(Api::Mongo, bytes);
    };
    if !matches!(command.get("$db"), Some(Bson::String(_))) {
        command.insert("$db", "test");
    }
    command.insert("maxTimeMS", MAX_TIME_MS);
    ask(Api::Mongo, &message(&command, 1));
}

/// Statements, one on a line, or frames as they are.
pub(crate) fn cql(bytes: &[u8]) {
    match bytes.first() {
        Some(3..=5 | 0x42) => ask(Api::Cql, bytes),
        _ => ask(Api::Cql, &frames(bytes, 4)),
    }
}

pub(crate) fn table(bytes: &[u8]) {
    ask(Api::Table, bytes);
}

pub(crate) fn console(bytes: &[u8]) {
    ask(Api::Console, bytes);
}
