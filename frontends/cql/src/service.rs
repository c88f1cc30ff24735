//! What all connections share.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use md5::{Digest as _, Md5};
use tessera_core::Store;

use crate::auth::{Roles, User};
use crate::catalog::{Catalog, Catalogs, mark_as_hash};
use crate::clients::Clients;
use crate::error::Result;
use crate::events::Events;
use crate::execute::{BatchLimits, NewestDeletion};
use crate::prepared::PreparedStatements;
use crate::traces::Traces;

/// How the front end is set up.
#[derive(Clone, Debug)]
pub struct CqlConfig {
    /// Where clients reach it, if that is known.
    pub address: Option<SocketAddr>,
    /// The name that clients are shown.
    pub cluster_name: String,
    /// Let nobody do anything before they have said who they are.
    pub requires_authentication: bool,
    /// Roles that may do everything.
    pub users: Vec<User>,
    /// From when on batches are warned of or refused.
    pub batches: BatchLimits,
}

impl Default for CqlConfig {
    fn default() -> Self {
        Self {
            address: None,
            cluster_name: "Tessera".to_owned(),
            requires_authentication: false,
            users: Vec::new(),
            batches: BatchLimits::default(),
        }
    }
}

/// The shared state.
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) config: CqlConfig,
    pub(crate) catalogs: Catalogs,
    pub(crate) prepared: PreparedStatements,
    pub(crate) roles: Roles,
    pub(crate) events: Events,
    pub(crate) traces: Traces,
    pub(crate) clients: Clients,
    pub(crate) newest_deletion: NewestDeletion,
    /// Where clients on this machine reach it.
    pub(crate) address: SocketAddr,
    /// Tells this server from others.
    pub(crate) host_id: [u8; 16],
    /// When it started, in seconds.
    pub(crate) generation: i32,
}

const DEFAULT_PORT: u16 = 9042;
/// How much room prepared statements may take.
const PREPARED_BYTES: usize = 64 << 20;

impl Service {
    pub(crate) fn new(store: Store, config: CqlConfig) -> Self {
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
        let address = reachable(config.address.unwrap_or(unspecified));
        let mut host_id: [u8; 16] = Md5::digest(format!("tessera {address}")).into();
        mark_as_hash(&mut host_id);
        let now_s = store.clock().now_ms() / 1_000;
        Self {
            catalogs: Catalogs::new(store.clone()),
            prepared: PreparedStatements::new(PREPARED_BYTES, store.memory().clone()),
            roles: Roles::new(store.clone(), &config.users),
            events: Events::default(),
            traces: Traces::default(),
            clients: Clients::default(),
            newest_deletion: NewestDeletion::since(store.clock().next_version(0)),
            store,
            config,
            address,
            host_id,
            generation: i32::try_from(now_s).unwrap_or(i32::MAX),
        }
    }

    /// The catalog in force.
    pub(crate) async fn catalog(&self) -> Result<Arc<Catalog>> {
        self.catalogs.current().await
    }
}

/// The address that clients may be told: one that means every interface is none.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
