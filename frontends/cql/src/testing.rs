//! Statements run against a store in memory, for tests.

use std::sync::Arc;

use tessera_core::Store;
use tessera_core::memory::MemoryEngine;
use tessera_core::store::StoreOptions;

use crate::error::Result;
use crate::parser::parse;
use crate::service::{CqlConfig, Service};
use crate::session::Session;
use crate::statements::{Asking, Given};
use crate::wire::{Consistency, Parameters, ResultBody};

/// A server with one connection.
pub(crate) struct Tester {
    pub(crate) service: Arc<Service>,
    pub(crate) session: Session,
}

impl Tester {
    pub(crate) async fn new() -> Self {
        Self::with(CqlConfig::default()).await
    }

    pub(crate) async fn with(config: CqlConfig) -> Self {
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::open(engine, StoreOptions::default()).await.unwrap();
        Self {
            service: Arc::new(Service::new(store, config)),
            session: Session::new("127.0.0.1:1".parse().unwrap()),
        }
    }

    /// Another connection to the same server.
    pub(crate) fn another(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            session: Session::new("127.0.0.1:2".parse().unwrap()),
        }
    }

    /// Runs a statement.
    pub(crate) async fn run(&self, text: &str) -> Result<Given> {
        let parameters = Parameters::new(Consistency::One);
        let asking = Asking {
            service: &self.service,
            session: &self.session,
            parameters: &parameters,
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
