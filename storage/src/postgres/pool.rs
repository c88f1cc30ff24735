//! The connections of one engine: opened when needed, used again, never more than allowed.
//!
//! A pool of our own, because what is pooled is more than a connection: it may come back inside a
//! transaction whose end is then only sent and not waited for, and whoever takes it next sends his
//! requests right behind.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tessera_core::engine::{EngineError, EngineResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Flavour;
use super::address::{Address, chain};
use super::connection::Connection;
use super::pipeline;
use super::tls::Tls;

/// How long a request waits for a connection when all are in use.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens and keeps connections.
pub(super) struct Pool {
    address: Address,
    tls: Tls,
    flavour: Flavour,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Arc<Connection>>>,
    closed: AtomicBool,
}

impl Pool {
    pub(super) fn new(address: Address, tls: Tls, flavour: Flavour, most: usize) -> Self {
        Self {
            address,
            tls,
            flavour,
            permits: Arc::new(Semaphore::new(most)),
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn flavour(&self) -> Flavour {
        self.flavour
    }

    pub(super) fn check_open(&self) -> EngineResult<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(EngineError::Unavailable("it was closed".to_owned()));
        }
        Ok(())
    }

    /// Refuses all work from now on. What is under way goes on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// A connection for as long as the lease is held.
    pub(super) async fn lease(self: &Arc<Self>) -> EngineResult<Lease> {
        let permit = tokio::time::timeout(PATIENCE, Arc::clone(&self.permits).acquire_owned());
        let Ok(Ok(permit)) = permit.await else {
            let cause = format!("no connection to {} became free", self.address);
            return Err(EngineError::Unavailable(cause));
        };
        self.check_open()?;
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => Arc::new(self.open().await?),
        };
        Ok(Lease {
            connection,
            in_transaction: AtomicBool::new(false),
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    /// A new connection that is not counted, for what must not wait for those that are.
    pub(super) async fn open(&self) -> EngineResult<Connection> {
        let opened = Connection::open(&self.address, &self.tls, self.flavour).await;
        opened.map_err(|error| {
            let cause = format!("cannot connect to {}: {}", self.address, chain(&error));
            EngineError::Unavailable(cause)
        })
    }

    /// Ends the connections that nobody uses, and returns them.
    pub(super) fn take_all_idle(&self) -> Vec<Arc<Connection>> {
        std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_idle(&self) -> Option<Arc<Connection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest first, so that those which are not needed stay unused.
        std::iter::from_fn(|| idle.pop()).find(|connection| connection.is_usable())
    }

    fn put_back(&self, connection: &Arc<Connection>) {
        if connection.is_usable() && self.check_open().is_ok() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(Arc::clone(connection));
        }
    }
}

/// A connection in use. It goes back when the lease is dropped, and a transaction ends with it.
pub(super) struct Lease {
    connection: Arc<Connection>,
    in_transaction: AtomicBool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Notes that a transaction begins, or that it ended.
    pub(super) fn set_in_transaction(&self, is_in: bool) {
        self.in_transaction.store(is_in, Ordering::Relaxed);
    }
}

impl Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.in_transaction.load(Ordering::Relaxed) {
            pipeline::send(self.connection.client.batch_execute("ROLLBACK"));
        }
        self.pool.put_back(&self.connection);
    }
}
