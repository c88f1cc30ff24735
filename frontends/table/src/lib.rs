//! The Table front end: Azure Tables clients over HTTP.
//!
//! A request becomes a [`head::Head`] and a body; `address` finds the account and the resource,
//! `operation` the operation, `auth` checks the permission; a handler executes it through the core
//! and returns a [`reply::Reply`], which becomes HTTP again.

mod address;
mod answer;
mod auth;
mod batch;
mod change;
mod continuation_header;
mod entity;
mod error;
mod failure;
mod filter;
pub mod fuzzing;
mod handlers;
mod head;
mod header_names;
mod http;
mod model;
mod operation;
mod options;
mod query;
mod reply;
mod service;
mod shown;
mod stored_entity;
mod tables;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tessera_core::Store;
use tessera_frontend::{Connection, FrontEnd};

pub use auth::{Accounts, Bearer, BearerConfig, EMULATOR_KEY};
pub use model::{API, TableModel};
pub use tables::Mode;

use auth::Authenticator;
use handlers::Service;

/// The options of the front end.
#[derive(Clone)]
pub struct TableConfig {
    /// The emulated service.
    pub mode: Mode,
    /// The accounts and their keys.
    pub accounts: Accounts,
    /// The issuer of bearer tokens.
    pub bearer: Option<Bearer>,
}

/// The front end.
pub struct Table {
    service: Arc<Service>,
}

impl Table {
    /// A front end over `store`.
    pub fn new(store: Store, config: TableConfig) -> Self {
        let service = Service {
            store,
            mode: config.mode,
            authenticator: Authenticator::new(config.accounts, config.bearer),
        };
        Self {
            service: Arc::new(service),
        }
    }
}

impl FrontEnd for Table {
    fn serve(&self, connection: Connection) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(http::serve(Arc::clone(&self.service), connection))
    }
}
