//! Accepting connections: limits, TLS, timeouts, and one task for each connection.
//!
//! At the limit an idle connection gives way to a new one: see `places`.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tessera_core::deadline::measured;
use tessera_core::memory_budget::{MemoryBudget, Purpose};
use tessera_frontend::{
    Activity, Connection, FrontEnd, Listener, LoginGate, Logins, Shutdown, Stream, Timeouts,
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{Instrument, debug, debug_span, warn};

use crate::error::Error;
use crate::front_ends::Row;
use crate::lingering::{Left, Lingering};
use crate::places::Places;
use crate::timed_stream::TimedStream;

/// Connections that the kernel queues while others are being accepted.
const BACKLOG: u32 = 1_024;

/// The pause after a failed accept: without free file descriptors it fails again at once.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Memory of each connection from its beginning to its end: its buffers, and small requests.
const CONNECTION_BYTES: usize = 32 << 10;

/// At most one log line about the same problem in this time.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(10);

/// How long a new connection waits for the place of one that was asked to end.
const PLACE_TIMEOUT: Duration = Duration::from_secs(2);
/// After this time without a place another idle connection is asked to give way.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A bound address that does not accept connections yet, so that a port in use is found before the
/// data is opened, and no client connects before that.
pub(crate) struct Reserved {
    pub(crate) row: &'static Row,
    asked: SocketAddr,
    socket: TcpSocket,
}

impl Reserved {
    /// Binds the address `asked` for the front end in `row`.
    pub(crate) fn new(row: &'static Row, asked: SocketAddr) -> Result<Self, Error> {
        let socket = reserve(asked).map_err(|error| cannot_listen(row, asked, &error))?;
        Ok(Self { row, asked, socket })
    }

    /// Starts to accept connections.
    pub(crate) fn listen(self) -> Result<TcpListener, Error> {
        let (row, asked) = (self.row, self.asked);
        self.socket
            .listen(BACKLOG)
            .map_err(|error| cannot_listen(row, asked, &error))
    }

    /// The address with its real port.
    pub(crate) fn address(&self) -> Result<SocketAddr, Error> {
        self.socket
            .local_addr()
            .map_err(|error| cannot_listen(self.row, self.asked, &error))
    }
}

fn reserve(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // Without this a restart would have to wait for the old connections' last packets to time out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn cannot_listen(row: &Row, address: SocketAddr, error: &io::Error) -> Error {
    let name = row.setting.name;
    let cause = match error.kind() {
        io::ErrorKind::AddrInUse => "another program already uses this address".to_owned(),
        io::ErrorKind::PermissionDenied => "ports below 1024 need special permission".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    };
    Error::Failed(format!(
        "cannot listen on {address} for {name}: {cause}; choose another with --{name} ADDR \
         (port 0 takes a free one, off closes it)"
    ))
}

/// State that all connections of one front end share.
pub(crate) struct Acceptor {
    pub(crate) name: &'static str,
    pub(crate) front_end: Arc<dyn FrontEnd>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) timeouts: Timeouts,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) places: Arc<Places>,
    /// Shared by all front ends.
    pub(crate) memory: MemoryBudget,
    /// Shared by all front ends.
    pub(crate) logins: Arc<Logins>,
    pub(crate) listeners: Arc<[Listener]>,
    pub(crate) shutdown: Shutdown,
    /// Shared by all front ends: a connection's number names it in the whole process.
    pub(crate) connection_ids: Arc<AtomicU64>,
}

impl Acceptor {
    /// Accepts until the server stops, then waits for the connections to end. Dropping this future
    /// cuts them off.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        let mut shutdown = self.shutdown.clone();
        let mut connections = JoinSet::new();
        let mut complaint = Complaint::default();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // The panic hook has already logged what went wrong, inside the connection's span.
                Some(_ended) = connections.join_next() => continue,
                () = shutdown.requested() => break,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer, &mut connections, &mut complaint),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    complaint.make(|missed| {
                        warn!(front_end = self.name, %error, missed, "cannot accept connections");
                    });
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        self.places.stop();
        while connections.join_next().await.is_some() {}
    }

    fn admit(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        connections: &mut JoinSet<()>,
        complaint: &mut Complaint,
    ) {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        if permit.is_none() && !self.places.make_room() {
            complaint.make(|missed| {
                warn!(
                    front_end = self.name, %peer, missed,
                    "connection refused: max-connections are open, and none of them is idle"
                );
            });
            return;
        }
        let id = self.connection_ids.fetch_add(1, Ordering::Relaxed) + 1;
        // Entering and leaving the span costs each request, and only detailed logs need it.
        let span = debug_span!("connection", id, front_end = self.name, %peer);
        let acceptor = Arc::clone(self);
        let accepted = Accepted {
            stream,
            peer,
            id,
            permit,
        };
        let served = acceptor.connection(accepted).instrument(span);
        connections.spawn(measured(self.name, served));
    }

    async fn connection(self: Arc<Self>, accepted: Accepted) {
        let Accepted {
            stream,
            peer,
            id,
            permit,
        } = accepted;
        let Some(_permit) = self.permit(permit).await else {
            return debug!("refused: no idle connection gave way in time");
        };
        let guaranteed = self.memory.grant(Purpose::Connections, CONNECTION_BYTES);
        let _guaranteed = match guaranteed {
            Ok(guaranteed) => guaranteed,
            Err(error) => return debug!(%error, "refused"),
        };
        debug!("opened");
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "cannot turn off delayed sending");
        }
        let activity = Activity::new(id, self.timeouts);
        let place = self.places.take(id, activity.clone());
        let shutdown = place.shutdown.clone();
        let (stream, left) = match &self.tls {
            None => prepared(stream, &activity),
            Some(tls) => match self.handshake(tls, stream, shutdown.clone()).await {
                Ok(stream) => prepared(stream, &activity),
                Err(error) => return debug!(%error, "no TLS connection"),
            },
        };
        let tls = self.tls.is_some();
        let logins = Arc::clone(&self.logins);
        let connection = Connection {
            stream,
            gate: LoginGate::new(logins, self.name, peer.ip(), activity.clone()),
            activity,
            peer,
            id,
            tls,
            listeners: Arc::clone(&self.listeners),
            shutdown: shutdown.clone(),
        };
        self.front_end.serve(connection).await;
        // If the server stops or needs the place, there is no answer that the client must read.
        if !shutdown.is_requested() {
            left.linger().await;
        }
        debug!("closed");
    }

    async fn handshake(
        &self,
        tls: &TlsAcceptor,
        stream: TcpStream,
        mut shutdown: Shutdown,
    ) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
        tokio::select! {
            finished = tokio::time::timeout(self.timeouts.stalled, tls.accept(stream)) => finished?,
            () = shutdown.requested() => Err(io::Error::other("it was asked to end")),
        }
    }

    /// The permit of a connection, which may have to wait until another one has given way.
    async fn permit(&self, permit: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        if permit.is_some() {
            return permit;
        }
        let until = Instant::now() + PLACE_TIMEOUT;
        let mut waiting = pin!(Arc::clone(&self.permits).acquire_owned());
        loop {
            match tokio::time::timeout(ASK_AGAIN, waiting.as_mut()).await {
                Ok(permit) => return permit.ok(),
                Err(_) if Instant::now() >= until => return None,
                // The place may have gone to one that came just when it was free.
                Err(_) => {
                    self.places.make_room();
                }
            }
        }
    }
}

/// The stream for the front end, and its remains afterwards.
fn prepared<S: Stream + 'static>(stream: S, activity: &Activity) -> (Box<dyn Stream>, Left) {
    let (stream, left) = Lingering::new(stream);
    let stream = TimedStream::new(stream, activity.clone());
    (Box::new(stream), left)
}

/// A connection that was just accepted.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    id: u64,
    /// None while another connection is asked to end.
    permit: Option<OwnedSemaphorePermit>,
}

/// A peer that disconnected before it was accepted does not affect the next one.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// Keeps a repeated warning from filling the log.
#[derive(Default)]
struct Complaint {
    last: Option<Instant>,
    missed: u64,
}

impl Complaint {
    /// Runs `log` with the number of warnings suppressed since the last one, or suppresses this
    /// one.
    fn make(&mut self, log: impl FnOnce(u64)) {
        if self
            .last
            .is_some_and(|last| last.elapsed() < COMPLAINT_INTERVAL)
        {
            self.missed += 1;
            return;
        }
        log(self.missed);
        *self = Self {
            last: Some(Instant::now()),
            missed: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::watch;

    use super::*;

    /// Panics on its first connection and greets on later ones.
    struct Clumsy;

    impl FrontEnd for Clumsy {
        fn serve(
            &self,
            mut connection: Connection,
        ) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(async move {
                assert_ne!(connection.id, 1, "clumsy");
                connection.stream.write_all(b"hello").await.unwrap();
            })
        }
    }

    #[tokio::test]
    async fn a_panic_costs_only_its_own_connection() {
        let (stop, stopping) = watch::channel(false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = Acceptor {
            name: "clumsy",
            front_end: Arc::new(Clumsy),
            tls: None,
            timeouts: Timeouts {
                idle: None,
                stalled: Duration::from_secs(10),
            },
            permits: Arc::new(Semaphore::new(1)),
            places: Arc::default(),
            memory: MemoryBudget::unlimited(),
            logins: Arc::default(),
            listeners: Arc::default(),
            shutdown: Shutdown::new(stopping),
            connection_ids: Arc::default(),
        };
        let permits = acceptor.permits.clone();
        let running = tokio::spawn(Arc::new(acceptor).run(listener));
        for expected in ["", "hello", "hello"] {
            let mut text = String::new();
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, expected);
            // The one place is given back, also by the connection that panicked.
            drop(permits.acquire().await.unwrap());
        }
        stop.send_replace(true);
        running.await.unwrap();
    }

    #[test]
    fn repeated_complaints_are_counted_not_logged() {
        let mut complaint = Complaint::default();
        let mut logged = Vec::new();
        for _ in 0..5 {
            complaint.make(|missed| logged.push(missed));
        }
        complaint.last = Instant::now().checked_sub(COMPLAINT_INTERVAL);
        complaint.make(|missed| logged.push(missed));
        assert_eq!(logged, [0, 4]);
    }
}
