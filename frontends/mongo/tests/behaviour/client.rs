//! A front end on the memory engine, and a client that speaks its protocol.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use tessera_core::Store;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;
use tessera_frontend::{
    Activity, Connection, FrontEnd as _, LoginGate, Logins, Shutdown, Timeouts,
};
use tessera_mongo::{API, Mongo, MongoConfig, MongoModel, User};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) const MESSAGE: i32 = 2013;
pub(crate) const QUERY: i32 = 2004;
pub(crate) const COMPRESSED: i32 = 2012;

pub(crate) const MORE_TO_COME: u32 = 2;
pub(crate) const EXHAUST_ALLOWED: u32 = 1 << 16;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A service without sockets.
#[derive(Clone)]
pub(crate) struct Service {
    mongo: Arc<Mongo>,
    pub(crate) store: Store,
    stop: Arc<watch::Sender<bool>>,
    connections: Arc<AtomicU64>,
    logins: Arc<Logins>,
}

impl Service {
    pub(crate) async fn new(config: MongoConfig) -> Self {
        let engine = Arc::new(MemoryEngine::new());
        let model: Arc<dyn Model> = Arc::new(MongoModel::default());
        let options = StoreOptions {
            models: HashMap::from([(API.to_owned(), model)]),
            ..StoreOptions::default()
        };
        let store = Store::open(engine, options).await.unwrap();
        Self::over(store, config)
    }

    /// A service on data that is there already.
    pub(crate) fn over(store: Store, config: MongoConfig) -> Self {
        Self {
            mongo: Arc::new(Mongo::new(store.clone(), config).unwrap()),
            store,
            stop: Arc::new(watch::channel(false).0),
            connections: Arc::default(),
            logins: Arc::default(),
        }
    }

    pub(crate) async fn plain() -> Self {
        Self::new(MongoConfig::default()).await
    }

    /// One whose tests may make commands fail.
    pub(crate) async fn for_tests() -> Self {
        Self::new(MongoConfig {
            test_commands: true,
            ..MongoConfig::default()
        })
        .await
    }

    /// One where everyone must log in, and `root` with the password `secret` can.
    pub(crate) async fn guarded() -> Self {
        Self::new(MongoConfig {
            requires_authentication: true,
            users: vec![User {
                name: "root".to_owned(),
                password: "secret".to_owned(),
            }],
            ..MongoConfig::default()
        })
        .await
    }

    pub(crate) fn connect(&self) -> Client {
        self.connect_from("127.0.0.1:5000")
    }

    pub(crate) fn connect_from(&self, peer: &str) -> Client {
        const BUFFER_BYTES: usize = 1 << 16;
        let (stream, server) = duplex(BUFFER_BYTES);
        let timeouts = Timeouts {
            idle: None,
            stalled: Duration::from_secs(10),
        };
        let id = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let activity = Activity::new(id, timeouts);
        let peer: SocketAddr = peer.parse().unwrap();
        let logins = Arc::clone(&self.logins);
        let connection = Connection {
            stream: Box::new(server),
            gate: LoginGate::new(logins, "mongo", peer.ip(), activity.clone()),
            activity,
            peer,
            id,
            tls: false,
            listeners: Arc::default(),
            shutdown: Shutdown::new(self.stop.subscribe()),
        };
        let mongo = Arc::clone(&self.mongo);
        let served = tokio::spawn(async move { mongo.serve(connection).await });
        Client {
            stream,
            served,
            last_id: 0,
        }
    }

    /// Asks all connections to end.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// One packet from the server.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) response_to: i32,
    pub(crate) request_id: i32,
    pub(crate) op_code: i32,
    pub(crate) body: Vec<u8>,
}

impl Packet {
    /// The flags and the document of a plain message.
    pub(crate) fn message(&self) -> (u32, Document) {
        assert_eq!(self.op_code, MESSAGE, "{self:?}");
        let flags = u32::from_le_bytes(*self.body.first_chunk().unwrap());
        assert_eq!(self.body[4], 0, "one section, the body");
        (flags, Document::from_reader(&self.body[5..]).unwrap())
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: DuplexStream,
    pub(crate) served: JoinHandle<()>,
    last_id: i32,
}

/// A packet of any kind.
pub(crate) fn packet(request_id: i32, op_code: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(16 + body.len()).unwrap();
    let mut packet = Vec::new();
    for number in [length, request_id, 0, op_code] {
        packet.extend_from_slice(&number.to_le_bytes());
    }
    packet.extend_from_slice(body);
    packet
}

/// What follows the header of a message.
pub(crate) fn message_body(flags: u32, document: &Document) -> Vec<u8> {
    let mut body = flags.to_le_bytes().to_vec();
    body.push(0);
    body.extend(document.to_vec().unwrap());
    body
}

impl Client {
    pub(crate) async fn send(&mut self, packet: &[u8]) {
        self.stream.write_all(packet).await.unwrap();
    }

    /// Sends a message; answers its number.
    pub(crate) async fn send_message(&mut self, flags: u32, document: &Document) -> i32 {
        self.last_id += 1;
        let sent = packet(self.last_id, MESSAGE, &message_body(flags, document));
        self.send(&sent).await;
        self.last_id
    }

    /// The next packet; none if the server closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Packet> {
        let received = async {
            let mut header = [0; 16];
            self.stream.read_exact(&mut header).await.ok()?;
            let number = |at: usize| i32::from_le_bytes(*header[at..].first_chunk().unwrap());
            let mut body = vec![0; usize::try_from(number(0)).unwrap() - 16];
            self.stream.read_exact(&mut body).await.ok()?;
            Some(Packet {
                request_id: number(4),
                response_to: number(8),
                op_code: number(12),
                body,
            })
        };
        tokio::time::timeout(PATIENCE, received).await.unwrap()
    }

    /// Runs a command on a database; whatever the answer is.
    pub(crate) async fn run(&mut self, database: &str, command: Document) -> Document {
        let mut command = command;
        command.insert("$db", database);
        let id = self.send_message(0, &command).await;
        let reply = self.receive().await.expect("a reply");
        assert_eq!(reply.response_to, id);
        reply.message().1
    }

    /// Runs a command whose bytes are given, which may be no proper document.
    pub(crate) async fn run_bytes(&mut self, document: &[u8]) -> Document {
        self.last_id += 1;
        let body = [&[0; 5], document].concat();
        let sent = packet(self.last_id, MESSAGE, &body);
        self.send(&sent).await;
        self.receive().await.expect("a reply").message().1
    }

    /// Runs a command that must succeed.
    pub(crate) async fn must(&mut self, database: &str, command: Document) -> Document {
        let reply = self.run(database, command.clone()).await;
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{command}: {reply}");
        reply
    }

    /// The code with which a command on `admin` fails; 0 if it succeeds.
    pub(crate) async fn code(&mut self, command: Document) -> i32 {
        self.run("admin", command)
            .await
            .get_i32("code")
            .unwrap_or(0)
    }

    pub(crate) async fn ping(&mut self) {
        self.must("admin", doc! { "ping": 1 }).await;
    }
}
