//! Statements run against a store in memory, for tests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tessera_core::Store;
use tessera_core::clock::Clock;
use tessera_core::memory::MemoryEngine;
use tessera_core::memory_budget::MemoryBudget;
use tessera_core::model::Model;
use tessera_core::store::StoreOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;

use crate::API;
use crate::error::Result;
use crate::execute::CqlModel;
use crate::parser::parse;
use crate::service::{CqlConfig, Service};
use crate::session::Session;
use crate::statements::{Asking, Given};
use crate::wire::testing::{Decoded, Wrapper};
use crate::wire::{
    Compression, Consistency, Parameters, Query, Request, RequestEnvelope, Response, ResultBody,
    Version,
};

/// A connection from here on which nothing was said.
pub(crate) fn session(peer: &str) -> Session {
    Session::new(
        peer.parse().unwrap(),
        false,
        tessera_frontend::testing::gate(),
    )
}

/// A connection over the protocol.
pub(crate) struct Client {
    stream: DuplexStream,
    wrapper: Wrapper,
    running: watch::Sender<bool>,
}

impl Client {
    /// A connection on which nothing was said.
    pub(crate) fn new(service: &Arc<Service>, version: Version) -> Self {
        let (stream, theirs) = tokio::io::duplex(1 << 16);
        let (running, stopping) = watch::channel(false);
        let connection = tessera_frontend::testing::connection(theirs, stopping);
        tokio::spawn(crate::connection::serve(Arc::clone(service), connection));
        Self {
            stream,
            wrapper: Wrapper::new(version),
            running,
        }
    }

    /// A connection after STARTUP.
    pub(crate) async fn started(
        service: &Arc<Service>,
        version: Version,
        compression: Option<&str>,
    ) -> Self {
        let mut client = Self::new(service, version);
        let response = client.start(compression).await;
        assert!(
            matches!(response, Response::Ready | Response::Authenticate(_)),
            "{response:?}"
        );
        client
    }

    pub(crate) async fn start(&mut self, compression: Option<&str>) -> Response {
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        options.extend(compression.map(|name| ("COMPRESSION", name)));
        let response = self.ask(Request::Startup(options)).await;
        if !matches!(response, Response::Error(_)) {
            self.wrapper
                .start(compression.and_then(Compression::from_name));
        }
        response
    }

    /// Has the connection end, as a server that stops does.
    pub(crate) fn stop(&self) {
        self.running.send_replace(true);
    }

    /// The response to a request.
    pub(crate) async fn ask(&mut self, request: Request<'_>) -> Response {
        self.send(1, request, false).await;
        let decoded = self.next().await.unwrap();
        assert_eq!(decoded.stream, 1);
        decoded.response
    }

    /// The response to a statement.
    pub(crate) async fn query(&mut self, text: &str) -> Response {
        self.ask(query(text)).await
    }

    pub(crate) async fn send(&mut self, stream: i16, request: Request<'_>, wants_tracing: bool) {
        let envelope = RequestEnvelope {
            request,
            payload: Vec::new(),
            wants_tracing,
        };
        let bytes = self.wrapper.wrap(stream, &envelope);
        self.stream.write_all(&bytes).await.unwrap();
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next response; none if the server has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Decoded> {
        loop {
            if let Some(decoded) = self.wrapper.next() {
                return Some(decoded);
            }
            let mut bytes = vec![0; 1 << 16];
            let read = self.stream.read(&mut bytes);
            let read = tokio::time::timeout(Duration::from_secs(10), read);
            match read.await.expect("an answer").unwrap_or(0) {
                0 => return None,
                count => self.wrapper.feed(&bytes[..count]),
            }
        }
    }
}

/// A statement as a request.
pub(crate) fn query(text: &str) -> Request<'_> {
    Request::Query(Query {
        query: text,
        parameters: Parameters::new(Consistency::One),
    })
}

/// A server with one connection.
pub(crate) struct Tester {
    pub(crate) service: Arc<Service>,
    pub(crate) session: Session,
    engine: Arc<MemoryEngine>,
}

impl Tester {
    pub(crate) async fn new() -> Self {
        Self::with(CqlConfig::default()).await
    }

    pub(crate) async fn with(config: CqlConfig) -> Self {
        Self::at(Clock::system(), config).await
    }

    /// One that goes by this clock.
    pub(crate) async fn at(clock: Clock, config: CqlConfig) -> Self {
        Self::of(
            Arc::new(MemoryEngine::new()),
            (clock, MemoryBudget::unlimited()),
            config,
        )
        .await
    }

    /// One with so little memory.
    pub(crate) async fn within(bytes: usize, config: CqlConfig) -> Self {
        let memory = MemoryBudget::new(bytes, 0);
        let engine = Arc::new(MemoryEngine::new());
        Self::of(engine, (Clock::system(), memory), config).await
    }

    async fn over(engine: Arc<MemoryEngine>, clock: Clock, config: CqlConfig) -> Self {
        Self::of(engine, (clock, MemoryBudget::unlimited()), config).await
    }

    async fn of(
        engine: Arc<MemoryEngine>,
        (clock, memory): (Clock, MemoryBudget),
        config: CqlConfig,
    ) -> Self {
        let model: Arc<dyn Model> = Arc::new(CqlModel::default());
        let options = StoreOptions {
            models: HashMap::from([(API.to_owned(), model)]),
            clock,
            memory,
            ..StoreOptions::default()
        };
        let opened = Arc::<MemoryEngine>::clone(&engine);
        let store = Store::open(opened, options).await.unwrap();
        Self {
            service: Arc::new(Service::new(store, config)),
            session: session("127.0.0.1:1"),
            engine,
        }
    }

    /// A server that starts on the same data.
    pub(crate) async fn restarted(&self) -> Self {
        let clock = self.service.store.clock().clone();
        let engine = Arc::clone(&self.engine);
        Self::over(engine, clock, self.service.config.clone()).await
    }

    /// The same in a new keyspace `k`, with what these statements make there.
    pub(crate) async fn in_keyspace(self, statements: &[&str]) -> Self {
        self.ok(&[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
             'replication_factor': 1}",
            "USE k",
        ])
        .await;
        self.ok(statements).await;
        self
    }

    /// Another server on the same store.
    pub(crate) fn beside(&self) -> Self {
        let store = self.service.store.clone();
        Self {
            service: Arc::new(Service::new(store, self.service.config.clone())),
            session: session("127.0.0.1:3"),
            engine: Arc::clone(&self.engine),
        }
    }

    /// Another connection to the same server.
    pub(crate) fn another(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            session: session("127.0.0.1:2"),
            engine: Arc::clone(&self.engine),
        }
    }

    /// Runs a statement.
    pub(crate) async fn run(&self, text: &str) -> Result<Given> {
        self.run_with(text, &Parameters::new(Consistency::One))
            .await
    }

    /// Runs a statement with these parameters.
    pub(crate) async fn run_with(&self, text: &str, parameters: &Parameters<'_>) -> Result<Given> {
        let asking = Asking {
            service: &self.service,
            session: &self.session,
            parameters,
            payload: &[],
            keyspace: self.session.keyspace(),
        };
        asking.run(&parse(text)?, &mut None).await
    }

    /// Runs statements that must succeed.
    pub(crate) async fn ok(&self, texts: &[&str]) -> Given {
        let mut given = Given::from(ResultBody::Void);
        for text in texts {
            given = self
                .run(text)
                .await
                .unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        given
    }

    /// The words with which a statement is refused.
    pub(crate) async fn refused(&self, text: &str) -> String {
        match self.run(text).await {
            Ok(given) => panic!("{text}: {given:?}"),
            Err(error) => error.message,
        }
    }
}
