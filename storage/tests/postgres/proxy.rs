//! A proxy before the database: it counts and delays answers, records what is sent, and cuts
//! connections at the worst moment.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::Instant;

/// What happens to the next COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The connection is cut before it reaches the database.
    CutBefore,
    /// The connection is cut when its answer comes back.
    CutBehind,
}

/// A proxy on a port of its own.
#[derive(Clone)]
pub(crate) struct Proxy {
    state: Arc<Mutex<State>>,
    pub(crate) port: u16,
}

struct State {
    fault: Fault,
    delay: Duration,
    /// Whether new connections have to wait.
    is_shut: bool,
    sent: Vec<u8>,
}

impl Proxy {
    /// Listens, and passes everything on to the database on this port.
    pub(crate) async fn start(database: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            state: Arc::new(Mutex::new(State {
                fault: Fault::None,
                delay: Duration::ZERO,
                is_shut: false,
                sent: Vec::new(),
            })),
        };
        let accepting = proxy.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                while accepting.state.lock().unwrap().is_shut {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let database = TcpStream::connect(("127.0.0.1", database)).await.unwrap();
                client.set_nodelay(true).unwrap();
                database.set_nodelay(true).unwrap();
                tokio::spawn(accepting.clone().pass(client, database));
            }
        });
        proxy
    }

    pub(crate) fn arm(&self, fault: Fault) {
        self.state.lock().unwrap().fault = fault;
    }

    /// Lets new connections wait, or not any more.
    pub(crate) fn shut(&self, is_shut: bool) {
        self.state.lock().unwrap().is_shut = is_shut;
    }

    /// Delays every answer.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.state.lock().unwrap().delay = delay;
    }

    /// What clients sent since the last call.
    pub(crate) fn take_sent(&self) -> Vec<u8> {
        std::mem::take(&mut self.state.lock().unwrap().sent)
    }

    async fn pass(self, client: TcpStream, database: TcpStream) {
        let (from_client, to_client) = client.into_split();
        let (from_database, to_database) = database.into_split();
        let cut = Arc::new(tokio::sync::Notify::new());
        let forward = self
            .clone()
            .forward(from_client, to_database, Arc::clone(&cut));
        // Whichever side ends takes the other with it.
        tokio::select! {
            () = forward => {}
            () = self.backward(from_database, to_client, cut) => {}
        }
    }

    async fn forward(
        self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        cut: Arc<tokio::sync::Notify>,
    ) {
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = from.read(&mut buffer).await.unwrap_or(0);
            let Some(sent) = buffer.get(..count).filter(|sent| !sent.is_empty()) else {
                return;
            };
            let fault = {
                let mut state = self.state.lock().unwrap();
                state.sent.extend_from_slice(sent);
                match holds(sent, b"COMMIT\0") {
                    true => std::mem::replace(&mut state.fault, Fault::None),
                    false => Fault::None,
                }
            };
            match fault {
                Fault::None => {}
                Fault::CutBefore => return,
                Fault::CutBehind => cut.notify_one(),
            }
            if to.write_all(sent).await.is_err() {
                return;
            }
        }
    }

    async fn backward(
        self,
        mut from: OwnedReadHalf,
        to: OwnedWriteHalf,
        cut: Arc<tokio::sync::Notify>,
    ) {
        let mut buffer = vec![0; 1 << 20];
        let mut must_cut = false;
        let (answers, delayed) = mpsc::unbounded_channel();
        let delivery = deliver(delayed, to);
        tokio::pin!(delivery);
        loop {
            let count = tokio::select! {
                biased;
                () = cut.notified() => {
                    must_cut = true;
                    continue;
                }
                count = from.read(&mut buffer) => count.unwrap_or(0),
                () = &mut delivery => return,
            };
            let Some(answer) = buffer.get(..count).filter(|answer| !answer.is_empty()) else {
                return;
            };
            if must_cut {
                // The tag of the answer to COMMIT: the database has done it.
                if holds(answer, b"COMMIT\0") {
                    return;
                }
                continue;
            }
            let delay = self.state.lock().unwrap().delay;
            answers
                .send((Instant::now() + delay, answer.to_vec()))
                .unwrap();
        }
    }
}

/// Passes each answer on when its time has come: the wire is long, not narrow.
async fn deliver(mut answers: UnboundedReceiver<(Instant, Vec<u8>)>, mut to: OwnedWriteHalf) {
    while let Some((time, answer)) = answers.recv().await {
        tokio::time::sleep_until(time).await;
        if to.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
