//! The MongoDB front end: mongosh and the drivers over their wire protocol.
//!
//! Bytes become a message (`wire`), a message a `request::Request`; the dispatcher finds its row in
//! the table of commands, checks authorization and arguments, and runs it; a `reply::Reply` becomes
//! bytes again. Only `connection` touches the socket.

mod access;
mod aggregate;
mod auth;
mod batch;
mod change_stream;
#[cfg(test)]
mod client;
mod cluster_time;
mod collection;
mod command;
mod commands;
mod concern;
mod connection;
mod context;
mod counters;
mod cursor;
mod data;
mod dispatch;
mod execute;
mod expiry;
mod fail_point;
mod failure;
mod fields;
pub mod fuzzing;
mod index;
mod labels;
mod line;
mod listing;
mod logical;
mod model;
mod operation;
mod oplog;
mod parameters;
mod plan;
mod reply;
mod request;
mod rules;
mod service;
mod session;
mod sharding;
mod snapshot;
mod system;
#[cfg(test)]
mod tests;
mod top;
mod transaction;
mod wire;
mod write;
mod write_lock;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tessera_core::Store;
use tessera_frontend::{Connection, FrontEnd};

pub use auth::Configured as User;
pub use model::MongoModel;
pub use service::MongoConfig;

use service::Service;

/// The name of this API in the core's catalog.
pub const API: &str = "mongo";

/// The front end.
pub struct Mongo {
    service: Arc<Service>,
}

impl Mongo {
    /// A front end over `store`. Refuses users whose passwords cannot be used.
    pub fn new(store: Store, config: MongoConfig) -> Result<Self, String> {
        let service = Arc::new(Service::new(store, config)?);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(expiry::run(service.data.clone()));
            let told = Arc::clone(&service);
            runtime.spawn(async move { told.users.warn_of_damaged(&told.store).await });
        }
        Ok(Self { service })
    }
}

impl FrontEnd for Mongo {
    fn serve(&self, connection: Connection) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(connection::serve(Arc::clone(&self.service), connection))
    }
}
