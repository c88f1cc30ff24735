//! Commands run against a store in memory, for tests.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bson::{Document, RawDocument, RawDocumentBuf};
use bytes::Bytes;
use tessera_core::Store;
use tessera_core::memory::MemoryEngine;
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;
use tessera_frontend::Shutdown;
use tokio::sync::watch;

use crate::dispatch::{Answer, Incoming};
use crate::service::{MongoConfig, Service};
use crate::session::Session;
use crate::{API, MongoModel, dispatch};

/// A server with one connection.
pub(crate) struct Tester {
    pub(crate) service: Arc<Service>,
    session: Session,
    /// Kept, because connections close when it is gone.
    _stop: watch::Sender<bool>,
}

impl Tester {
    pub(crate) async fn new() -> Self {
        let model: Arc<dyn Model> = Arc::new(MongoModel::default());
        let options = StoreOptions {
            models: HashMap::from([(API.to_owned(), model)]),
            ..StoreOptions::default()
        };
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine, options).await.unwrap();
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let service = Arc::new(Service::new(store, MongoConfig::default()).unwrap());
        let (stop, stopping) = watch::channel(false);
        let session = Session::new(&service, (1, peer, false), Shutdown::new(stopping));
        Self {
            service,
            session,
            _stop: stop,
        }
    }

    /// Runs a command on the database `test`.
    pub(crate) async fn run(&mut self, command: Document) -> Document {
        self.run_on("test", command).await
    }

    /// Runs a command on a database.
    pub(crate) async fn run_on(&mut self, database: &str, mut command: Document) -> Document {
        command.insert("$db", database);
        let body = RawDocumentBuf::try_from(&command).unwrap();
        let packet = Bytes::from(body.into_bytes());
        let body = RawDocument::from_bytes(&packet).unwrap();
        let asked = Incoming {
            body,
            sequences: Vec::new(),
            database: None,
            packet: &packet,
            exhaust: false,
        };
        let asked = asked.parse();
        match dispatch::answer(&self.service, &mut self.session, &asked).await {
            Answer::Reply(reply) | Answer::MoreToCome(reply) => {
                Document::try_from(reply.as_ref()).unwrap()
            }
            Answer::Close => panic!("the connection is closed: {command}"),
        }
    }

    /// Runs a command that must succeed.
    pub(crate) async fn ok(&mut self, command: Document) -> Document {
        let reply = self.run(command.clone()).await;
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{command}: {reply}");
        assert!(!reply.contains_key("writeErrors"), "{command}: {reply}");
        reply
    }

    /// The code with which a command, or its first statement, fails; 0 if it does not.
    pub(crate) async fn code(&mut self, command: Document) -> i32 {
        let reply = self.run(command).await;
        let statement = reply.get_array("writeErrors").ok();
        let statement =
            statement.and_then(|errors| errors.first()?.as_document()?.get_i32("code").ok());
        reply.get_i32("code").ok().or(statement).unwrap_or(0)
    }

    /// The documents of a command's first batch.
    pub(crate) async fn batch(&mut self, command: Document) -> Vec<Document> {
        let reply = self.ok(command).await;
        documents(&reply, "firstBatch")
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
