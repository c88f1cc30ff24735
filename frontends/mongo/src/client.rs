//! A client without a socket, for tests: commands go in as documents and come out as replies.

use std::collections::HashMap;
use std::sync::Arc;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, RawDocument, doc};
use bytes::Bytes;
use tessera_core::Store;
use tessera_core::clock::Clock;
use tessera_core::engine::Engine;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;
use tessera_frontend::{Shutdown, testing};
use tokio::sync::watch;

use crate::dispatch::{Answer, Incoming};
use crate::service::{MongoConfig, Service};
use crate::session::{Link, Session};
use crate::{API, MongoModel, dispatch};

/// One connection of a client.
pub(crate) struct Client {
    pub(crate) service: Arc<Service>,
    session: Session,
    /// What every command carries.
    pub(crate) generic: Document,
    /// Kept, because connections close when it is gone.
    _stop: watch::Sender<bool>,
}

impl Client {
    /// A client of a server that has nothing yet.
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(MemoryEngine::new())).await
    }

    /// A client of a server on this engine.
    pub(crate) async fn on(engine: Arc<dyn Engine>) -> Self {
        Self::opened(engine, Clock::system()).await
    }

    /// A client of a server with a clock of its own.
    pub(crate) async fn at(clock: Clock) -> Self {
        Self::opened(Arc::new(MemoryEngine::new()), clock).await
    }

    async fn opened(engine: Arc<dyn Engine>, clock: Clock) -> Self {
        let model: Arc<dyn Model> = Arc::new(MongoModel::default());
        let options = StoreOptions {
            models: HashMap::from([(API.to_owned(), model)]),
            clock,
            ..StoreOptions::default()
        };
        let store = Store::open(engine, options).await.unwrap();
        Self::with(store, MongoConfig::default())
    }

    /// A client of a server that presents a replica set, which has an oplog.
    pub(crate) async fn of_replica_set() -> Self {
        let client = Self::new().await;
        let config = MongoConfig {
            replica_set: Some("rs0".to_owned()),
            ..MongoConfig::default()
        };
        Self::with(client.service.store.clone(), config)
    }

    fn with(store: Store, config: MongoConfig) -> Self {
        Self::of(Arc::new(Service::new(store, config).unwrap()))
    }

    fn of(service: Arc<Service>) -> Self {
        let (stop, stopping) = watch::channel(false);
        let peer = "127.0.0.1:1".parse().unwrap();
        let link = Link {
            connection: 1,
            peer,
            shutdown: Shutdown::new(stopping),
            gate: testing::gate(),
            line: None,
        };
        let session = Session::new(&service, link);
        Self {
            service,
            session,
            generic: Document::new(),
            _stop: stop,
        }
    }

    /// Another connection to the same server.
    pub(crate) fn another(&self) -> Self {
        Self::of(Arc::clone(&self.service))
    }

    /// The same client in a session of this number.
    pub(crate) fn in_session(mut self, number: u8) -> Self {
        let id = Bson::Binary(Binary {
            subtype: BinarySubtype::Uuid,
            bytes: vec![number; 16],
        });
        self.generic = doc! { "lsid": { "id": id } };
        self
    }

    /// The reply to a command, whether it went well or not.
    pub(crate) async fn send(&mut self, database: &str, command: Document) -> Document {
        let mut body = command;
        body.insert("$db", database);
        for (name, value) in &self.generic {
            body.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let packet = Bytes::from(body.to_vec().unwrap());
        let incoming = Incoming {
            body: RawDocument::from_bytes(&packet).unwrap(),
            sequences: Vec::new(),
            database: None,
            packet: &packet,
            exhaust: false,
        };
        let mut asked = incoming.parse();
        match dispatch::answer(&self.service, &mut self.session, &mut asked).await {
            Answer::Reply(reply) => Document::try_from(reply.as_ref()).unwrap(),
            Answer::MoreToCome(_) | Answer::Close => panic!("{body}"),
        }
    }

    /// The reply to a command that must go well.
    pub(crate) async fn run(&mut self, database: &str, command: Document) -> Document {
        let text = command.to_string();
        let reply = self.send(database, command).await;
        assert!(!reply.contains_key("code"), "{text}: {reply}");
        assert!(!reply.contains_key("writeErrors"), "{text}: {reply}");
        reply
    }

    /// The code with which a command fails, as a whole or in its first statement; 0 if it does not.
    pub(crate) async fn code(&mut self, database: &str, command: Document) -> i32 {
        let reply = self.send(database, command).await;
        let first = |errors: &Vec<Bson>| errors.first()?.as_document()?.get_i32("code").ok();
        let statement = reply.get_array("writeErrors").ok().and_then(first);
        reply.get_i32("code").ok().or(statement).unwrap_or(0)
    }

    /// The documents of a command's first batch.
    pub(crate) async fn batch(&mut self, database: &str, command: Document) -> Vec<Document> {
        let reply = self.run(database, command).await;
        documents(&reply, "firstBatch")
    }

    /// All documents that a filter finds.
    pub(crate) async fn find(
        &mut self,
        database: &str,
        collection: &str,
        filter: Document,
    ) -> Vec<Document> {
        let command = doc! { "find": collection, "filter": filter, "batchSize": 100_000 };
        let reply = self.run(database, command).await;
        let cursor = reply.get_document("cursor").unwrap();
        assert_eq!(cursor.get_i64("id").unwrap(), 0);
        documents(&reply, "firstBatch")
    }

    /// Inserts documents.
    pub(crate) async fn insert(
        &mut self,
        database: &str,
        collection: &str,
        documents: Vec<Document>,
    ) {
        let command = doc! { "insert": collection, "documents": documents };
        self.run(database, command).await;
    }
}

/// The documents of a batch.
pub(crate) fn documents(reply: &Document, name: &str) -> Vec<Document> {
    let cursor = reply.get_document("cursor").unwrap();
    let batch = cursor.get_array(name).unwrap().iter();
    batch
        .map(|document| document.as_document().unwrap().clone())
        .collect()
}
