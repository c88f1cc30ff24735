//! The interface between the server and a front end.
//!
//! A front end implements one protocol. The server accepts, limits, times out and decrypts
//! connections; a front end gets a byte stream. It never opens a socket, and it depends on no other
//! front end.

mod activity;
mod guarded;
mod guessable;
mod host;
mod logins;
mod strangers;
pub mod testing;
mod wanted;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

pub use activity::{Activity, MIN_BYTES_PER_SECOND, Request, RequestId, Timeouts};
pub use guarded::guarded;
pub use guessable::guessable;
pub use host::names_this_machine;
pub use logins::{Attempt, Guessing, LoginGate, Logins};
pub use strangers::{http_refusal, nosql_refusal, speaks_http, speaks_nosql};
pub use wanted::{Gone, Wanted};

/// One protocol, as the server sees it. Adding a front end is its crate and one row in the server's
/// table.
pub trait FrontEnd: Send + Sync + 'static {
    /// Serves one connection until either side ends it or `connection.shutdown` asks it to finish
    /// the running requests and close. Returning ends the connection; a panic ends this connection
    /// only.
    fn serve(&self, connection: Connection) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Bytes in both directions, plain or decrypted.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One accepted connection.
pub struct Connection {
    /// The bytes. A stalled or idle peer makes reads and writes fail with `TimedOut`.
    pub stream: Box<dyn Stream>,
    /// Where the front end reports running requests, so that the peer does not count as stalled.
    pub activity: Activity,
    /// Where the front end reports logins and their outcome.
    pub gate: LoginGate,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// Number of this connection in this process, for logs.
    pub id: u64,
    /// Whether the bytes travel under TLS.
    pub tls: bool,
    /// All listeners of this process, for clients at the wrong port.
    pub listeners: Arc<[Listener]>,
    /// Signals when to finish the current request and close.
    pub shutdown: Shutdown,
}

/// Asks a connection to end: the server is stopping, or needs its place for another one.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// A shutdown signal that follows `receiver`: true means stop.
    pub fn new(receiver: watch::Receiver<bool>) -> Self {
        Self(receiver)
    }

    /// Whether to end.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the connection must end. A vanished server counts as stopping.
    pub async fn requested(&mut self) {
        // An error means that the sender is gone, which is a shutdown too.
        let _sender_gone = self.0.wait_for(|stop| *stop).await.is_err();
    }
}

/// Information about the server, for front ends that show it.
#[derive(Clone, Debug)]
pub struct About {
    /// The server's version.
    pub version: &'static str,
    /// Which engine holds the data: "rocks", "memory" or "postgres".
    pub engine: &'static str,
    /// When the process started.
    pub started: Instant,
    /// All listeners.
    pub listeners: Vec<Listener>,
}

/// One address on which a front end is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The front end's name, which is also the name of its setting.
    pub name: &'static str,
    /// The address with its real port.
    pub address: SocketAddr,
    /// Whether clients must speak TLS.
    pub tls: bool,
}
