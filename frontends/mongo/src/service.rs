//! What all connections share.

use std::net::SocketAddr;
use std::time::Instant;

use tessera_core::Store;

use crate::data::Data;

/// How the front end is set up.
#[derive(Clone, Debug, Default)]
pub struct MongoConfig {
    /// The version of the server that runs this.
    pub version: &'static str,
    /// Present a replica set of one member, of this name, instead of a sharded cluster's router.
    pub replica_set: Option<String>,
    /// Allow commands that only tests need.
    pub test_commands: bool,
    /// Where clients reach it, if that is known.
    pub address: Option<SocketAddr>,
    /// Let nobody do anything before they have said who they are.
    pub requires_authentication: bool,
}

/// The shared state.
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) config: MongoConfig,
    pub(crate) started: Instant,
    /// What the commands on data share.
    pub(crate) data: Data,
}

impl Service {
    pub(crate) fn new(store: Store, config: MongoConfig) -> Self {
        Self {
            data: Data::new(store.clone()),
            store,
            config,
            started: Instant::now(),
        }
    }
}
