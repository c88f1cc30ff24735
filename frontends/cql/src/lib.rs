//! The Cassandra front end: cqlsh and the drivers over the CQL native protocol.
//!
//! Bytes become an envelope and a request (`wire`, `connection`), a request one or more statements
//! (`dispatch`, `statements`); a statement on rows becomes a plan (`plan`), which runs on the core
//! (`execute`); one that defines changes the catalog (`define`). Only `connection` touches the
//! socket.

mod auth;
mod catalog;
mod clients;
mod connection;
mod define;
mod describe;
mod dispatch;
mod error;
mod events;
mod execute;
mod failure;
#[cfg(test)]
mod freezing;
mod functions;
pub mod fuzzing;
mod granted;
mod ids;
#[cfg(test)]
mod memory_tests;
mod parser;
mod plan;
mod prepared;
mod row;
mod schema;
mod service;
mod session;
mod statement;
mod statements;
mod system;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod traces;
mod types;
mod wire;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tessera_core::Store;
use tessera_frontend::{Connection, FrontEnd};

pub use auth::User;
pub use execute::{BatchLimits, CqlModel};
pub use service::CqlConfig;

use service::Service;

/// The name of this API in the core's catalog.
pub const API: &str = "cql";

/// The front end.
pub struct Cql {
    service: Arc<Service>,
}

impl Cql {
    /// A front end over `store`.
    pub fn new(store: Store, config: CqlConfig) -> Self {
        let service = Arc::new(Service::new(store, config));
        // Without a runtime there are no logins to warn of.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let service = Arc::clone(&service);
            runtime.spawn(async move { auth::warn_of_roles(&service).await });
        }
        Self { service }
    }
}

impl FrontEnd for Cql {
    fn serve(&self, connection: Connection) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(connection::serve(Arc::clone(&self.service), connection))
    }
}
