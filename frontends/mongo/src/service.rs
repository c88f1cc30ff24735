//! State that all connections share.

use std::net::SocketAddr;
use std::time::Instant;

use tessera_core::Store;

use crate::auth::{Configured, Users};
use crate::cluster_time::ClusterTime;
use crate::counters::Counters;
use crate::data::Data;
use crate::fail_point::FailPoints;
use crate::failure::Failure;
use crate::logical::{LogicalSessions, SessionKey};
use crate::operation::Connections;
use crate::parameters::Parameters;
use crate::request::Request;
use crate::top::Top;
use crate::transaction::Scope;
use crate::write_lock::WriteLock;

/// How the front end is set up.
#[derive(Clone, Debug, Default)]
pub struct MongoConfig {
    /// The version of the server that runs this.
    pub version: &'static str,
    /// Where clients reach it, if that is known.
    pub address: Option<SocketAddr>,
    /// Present a replica set of one member, of this name, instead of a sharded cluster's router.
    pub replica_set: Option<String>,
    /// Allow commands that only tests need.
    pub test_commands: bool,
    /// Let nobody do anything before they have said who they are.
    pub requires_authentication: bool,
    /// Users who may do everything.
    pub users: Vec<Configured>,
    /// The settings in force, for `getCmdLineOpts`: names and what may be shown of their values.
    pub settings: Vec<(String, String)>,
}

/// The shared state.
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) config: MongoConfig,
    pub(crate) started: Instant,
    /// Tells this process from others, as clients see it in `topologyVersion`.
    pub(crate) process_id: bson::oid::ObjectId,
    pub(crate) users: Users,
    pub(crate) sessions: LogicalSessions,
    pub(crate) connections: Connections,
    pub(crate) cluster_time: ClusterTime,
    pub(crate) counters: Counters,
    pub(crate) top: Top,
    pub(crate) fail_points: FailPoints,
    pub(crate) parameters: Parameters,
    pub(crate) write_lock: WriteLock,
    /// What the commands on data share.
    pub(crate) data: Data,
}

impl Service {
    pub(crate) fn new(store: Store, config: MongoConfig) -> Result<Self, String> {
        let cluster_time = ClusterTime::new(store.clock());
        Ok(Self {
            data: Data::new(store.clone()),
            store,
            users: Users::new(&config.users)?,
            config,
            started: Instant::now(),
            process_id: bson::oid::ObjectId::new(),
            sessions: LogicalSessions::default(),
            connections: Connections::default(),
            cluster_time,
            counters: Counters::default(),
            top: Top::default(),
            fail_points: FailPoints::default(),
            parameters: Parameters::default(),
            write_lock: WriteLock::default(),
        })
    }

    /// The scope in which a command reads: a moment, its session's transaction, or now.
    pub(crate) async fn reading_scope(&self, request: &Request<'_>) -> Result<Scope, Failure> {
        match request.snapshot() {
            Some(asked) => Ok(Scope::At(self.data.snapshots.at(self, asked).await?)),
            None => self.data.transactions.scope(self, request).await,
        }
    }

    /// Ends sessions and whatever is open in them.
    pub(crate) fn end_sessions(&self, keys: &[SessionKey]) {
        for key in keys {
            self.sessions.end(key);
            self.data.end_session(*key);
        }
    }

    /// Ends sessions, whatever is open in them, and the commands that run in them.
    pub(crate) fn kill_sessions(&self, keys: &[SessionKey]) {
        let among = |session: Option<SessionKey>| session.is_some_and(|key| keys.contains(&key));
        self.connections
            .kill_where(|running| among(running.session));
        self.end_sessions(keys);
    }
}
