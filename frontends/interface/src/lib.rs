//! What the server hands to a front end, and what it expects of one.
//!
//! A front end is one protocol. The server accepts, limits, times out and decrypts; a front end
//! gets a byte stream and speaks. It never opens a socket, and it knows no other front end.

mod activity;
mod guarded;
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
pub use host::names_this_machine;
pub use logins::{Attempt, Guessing, LoginGate, Logins};
pub use strangers::{http_refusal, nosql_refusal, speaks_http, speaks_nosql};
pub use wanted::{Gone, Wanted};

/// One protocol, as the server sees it. Adding a front end is its crate and one row in the server's
/// table.
pub trait FrontEnd: Send + Sync + 'static {
    /// Speaks the protocol on one connection until either side ends it or `connection.shutdown`
    /// asks to finish what runs and close. Returning ends the connection; a panic costs this
    /// connection only.
    fn serve(&self, connection: Connection) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Bytes in both directions, plain or decrypted.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One accepted connection.
pub struct Connection {
    /// The bytes. A stalled or idle peer makes reads and writes fail with `TimedOut`.
    pub stream: Box<dyn Stream>,
    /// Where the front end says that a request runs, so that its peer is not taken for stalled.
    pub activity: Activity,
    /// Where the front end says who logs in, and whether that was right.
    pub gate: LoginGate,
    /// Who is at the other end.
    pub peer: SocketAddr,
    /// Number of this connection in this process, for logs.
    pub id: u64,
    /// Whether the bytes travel under TLS.
    pub tls: bool,
    /// Everything that listens in this process, for clients that came to the wrong port.
    pub listeners: Arc<[Listener]>,
    /// Tells when to finish the current request and close.
    pub shutdown: Shutdown,
}

/// Tells a connection to end: the server is stopping, or needs its place for another one.
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

    /// Waits until it is to end. A vanished server counts as stopping.
    pub async fn requested(&mut self) {
        // An error means that the sender is gone, which is a shutdown too.
        let _sender_gone = self.0.wait_for(|stop| *stop).await.is_err();
    }
}

/// What the server says about itself, for front ends that show it.
#[derive(Clone, Debug)]
pub struct About {
    /// The server's version.
    pub version: &'static str,
    /// Which engine holds the data: "rocks", "memory" or "postgres".
    pub engine: &'static str,
    /// When the process started.
    pub started: Instant,
    /// Everything that listens.
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
