//! The connections of one engine: opened when needed, used again, never more than allowed.
//!
//! A pool of our own, because what is pooled is more than a connection: it may come back inside a
//! transaction whose end is then only sent and not waited for, and whoever takes it next sends his
//! requests right behind.
//!
//! What is kept while a client thinks (open transactions, moments) has at most half of them, so
//! that statements, which hold one only while they run, always get their turn.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tessera_core::engine::{EngineError, EngineResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Flavour;
use super::address::Address;
use super::connection::Connection;
use super::failure::Failure;
use super::pipeline;
use super::reach::Reach;
use super::tls::Tls;

/// How long a request waits for a connection when all are in use.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one that will be kept waits for another that is: those end when their clients say so.
const PATIENCE_TO_KEEP: Duration = Duration::from_secs(5);

/// Where the database has none left to give, it is asked again after so many looks for one of ours
/// that came back.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Fewer could not be divided.
const FEWEST: usize = 2;

/// Opens and keeps connections.
pub(super) struct Pool {
    address: Address,
    tls: Tls,
    flavour: Flavour,
    reach: Arc<Reach>,
    permits: Arc<Semaphore>,
    permits_to_keep: Arc<Semaphore>,
    most_kept: usize,
    idle: Mutex<Vec<Arc<Connection>>>,
    closed: AtomicBool,
}

impl Pool {
    pub(super) fn new(address: Address, tls: Tls, flavour: Flavour, most: usize) -> Self {
        let most = most.max(FEWEST);
        let most_kept = most / 2;
        Self {
            reach: Arc::new(Reach::new(&address)),
            address,
            tls,
            flavour,
            permits: Arc::new(Semaphore::new(most)),
            permits_to_keep: Arc::new(Semaphore::new(most_kept)),
            most_kept,
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn flavour(&self) -> Flavour {
        self.flavour
    }

    pub(super) fn reach(&self) -> &Reach {
        &self.reach
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

    /// A connection for something that is kept while a client thinks.
    pub(super) async fn lease_to_keep(self: &Arc<Self>) -> EngineResult<Lease> {
        let permits = Arc::clone(&self.permits_to_keep);
        let permit = tokio::time::timeout(PATIENCE_TO_KEEP, permits.acquire_owned());
        let Ok(Ok(permit)) = permit.await else {
            let cause = format!(
                "{} transactions and snapshots are open, and no more may hold a connection to {}: \
                 try again when one has ended, or set engine-connections higher",
                self.most_kept, self.address
            );
            return Err(EngineError::Unavailable(cause));
        };
        let mut lease = self.lease().await?;
        lease.permit_to_keep = Some(permit);
        Ok(lease)
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
            None => self.open_or_wait().await?,
        };
        Ok(Lease {
            connection,
            in_transaction: AtomicBool::new(false),
            taken: Instant::now(),
            pool: Arc::clone(self),
            permit_to_keep: None,
            _permit: permit,
        })
    }

    /// A new connection that is not counted, for what must not wait for those that are.
    pub(super) async fn open(&self) -> EngineResult<Connection> {
        let opened = self.try_open().await;
        opened.map_err(|failure| self.not_connected(&failure))
    }

    async fn try_open(&self) -> Result<Connection, Failure> {
        Connection::open(&self.address, &self.tls, self.flavour, &self.reach).await
    }

    /// A new connection, or one that another request gave back meanwhile: others use the database
    /// as well, and it may have fewer to give than this pool is allowed.
    async fn open_or_wait(&self) -> EngineResult<Arc<Connection>> {
        let began = Instant::now();
        loop {
            let failure = match self.try_open().await {
                Ok(connection) => return Ok(Arc::new(connection)),
                Err(failure) => failure,
            };
            let is_crowded = matches!(failure, Failure::Crowded(_));
            if !is_crowded || began.elapsed() >= PATIENCE {
                return Err(self.not_connected(&failure));
            }
            for _ in 0..LOOKS {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                if let Some(connection) = self.take_idle() {
                    return Ok(connection);
                }
            }
        }
    }

    fn not_connected(&self, failure: &Failure) -> EngineError {
        EngineError::Unavailable(format!("cannot connect to {}: {failure}", self.address))
    }

    /// Ends the connections that nobody uses, and returns them.
    pub(super) fn take_all_idle(&self) -> Vec<Arc<Connection>> {
        std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_idle(&self) -> Option<Arc<Connection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest first, so that those which are not needed stay unused.
        std::iter::from_fn(|| idle.pop()).find(|connection| is_fit(connection))
    }

    fn put_back(&self, connection: &Arc<Connection>) {
        if self.check_open().is_ok() && is_fit(connection) {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(Arc::clone(connection));
        }
    }
}

/// Whether a connection may be used again. One that is too old is ended.
fn is_fit(connection: &Connection) -> bool {
    if !connection.is_usable() {
        return false;
    }
    if connection.is_old() {
        connection.forget();
        return false;
    }
    true
}

/// A connection in use. It goes back when the lease is dropped, and a transaction ends with it.
pub(super) struct Lease {
    connection: Arc<Connection>,
    in_transaction: AtomicBool,
    taken: Instant,
    pool: Arc<Pool>,
    permit_to_keep: Option<OwnedSemaphorePermit>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// For how long the connection has been in use.
    pub(super) fn age(&self) -> Duration {
        self.taken.elapsed()
    }

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
