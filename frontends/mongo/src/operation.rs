//! Running operations and their connections, for `currentOp` and `killOp`.
//!
//! A connection runs one command at a time, so it has one place that its commands take in turn:
//! noting a command allocates nothing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bson::Document;
use bytes::Bytes;
use dashmap::DashMap;
use tessera_core::deadline::{Interruption, Watch};
use tessera_frontend::Shutdown;
use tokio::sync::Notify;

use crate::line::Line;
use crate::logical::SessionKey;

/// All open connections.
#[derive(Default)]
pub(crate) struct Connections {
    open: DashMap<u64, Arc<Place>>,
    created: AtomicU64,
    last_operation: AtomicU32,
}

/// One connection's place.
pub(crate) struct Place {
    pub(crate) connection: u64,
    pub(crate) peer: SocketAddr,
    state: Mutex<State>,
    kill: Notify,
}

#[derive(Default)]
struct State {
    client: Option<Document>,
    user: Option<String>,
    running: Option<Running>,
}

/// A command that runs.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    /// The command's document, as it was sent.
    pub(crate) body: Bytes,
    pub(crate) began: Instant,
    pub(crate) session: Option<SessionKey>,
    pub(crate) killed: bool,
}

/// Tells whether the command that runs on a connection is still wanted.
pub(crate) struct Wanted {
    pub(crate) place: Arc<Place>,
    pub(crate) shutdown: Shutdown,
    /// Where the client is; none where there is no connection.
    pub(crate) line: Option<Arc<Line>>,
}

impl Watch for Wanted {
    fn interruption(&self, is_long: bool) -> Option<Interruption> {
        if self.place.is_killed() || self.line.as_ref().is_some_and(|line| line.is_closed()) {
            return Some(Interruption::Cancelled);
        }
        // What is soon done is not cut off.
        (is_long && self.shutdown.is_requested()).then_some(Interruption::Shutdown)
    }
}

/// What is known of one connection at one moment.
pub(crate) struct Seen {
    pub(crate) place: Arc<Place>,
    pub(crate) client: Option<Document>,
    pub(crate) user: Option<String>,
    pub(crate) running: Option<Running>,
}

impl Connections {
    /// Notes a new connection.
    pub(crate) fn open(&self, connection: u64, peer: SocketAddr) -> Arc<Place> {
        let place = Arc::new(Place {
            connection,
            peer,
            state: Mutex::default(),
            kill: Notify::new(),
        });
        self.created.fetch_add(1, Ordering::Relaxed);
        self.open.insert(connection, Arc::clone(&place));
        place
    }

    /// Forgets a connection.
    pub(crate) fn close(&self, connection: u64) {
        self.open.remove(&connection);
    }

    pub(crate) fn total_created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    /// A number for a command, which `killOp` takes. Never 0.
    pub(crate) fn next_operation(&self) -> u32 {
        // The number goes into an int of BSON.
        const LARGEST: u32 = 0x7fff_fffe;
        self.last_operation.fetch_add(1, Ordering::Relaxed) % LARGEST + 1
    }

    /// All connections, by number.
    pub(crate) fn all(&self) -> Vec<Seen> {
        let places: Vec<Arc<Place>> = self.open.iter().map(|entry| Arc::clone(&entry)).collect();
        let seen = |place: Arc<Place>| {
            let state = place.lock();
            let (client, user) = (state.client.clone(), state.user.clone());
            let running = state.running.clone();
            drop(state);
            Seen {
                place,
                client,
                user,
                running,
            }
        };
        let mut all: Vec<Seen> = places.into_iter().map(seen).collect();
        all.sort_by_key(|seen| seen.place.connection);
        all
    }

    /// Stops the command of this number; false if there is none.
    pub(crate) fn kill(&self, operation: u32) -> bool {
        self.kill_where(|running| running.id == operation) > 0
    }

    /// Stops all commands that are like this.
    pub(crate) fn kill_where(&self, matches: impl Fn(&Running) -> bool) -> usize {
        let mut killed = 0;
        for entry in &self.open {
            let mut state = entry.lock();
            if let Some(running) = state.running.as_mut().filter(|running| matches(running)) {
                running.killed = true;
                entry.kill.notify_one();
                killed += 1;
            }
        }
        killed
    }
}

impl Place {
    /// Notes that a command begins.
    pub(crate) fn begin(&self, running: Running) {
        self.lock().running = Some(running);
    }

    /// Notes that the command ended; true if it was killed.
    pub(crate) fn end(&self) -> bool {
        let running = self.lock().running.take();
        running.is_some_and(|running| running.killed)
    }

    /// Waits until the running command is killed.
    pub(crate) async fn killed(&self) {
        loop {
            // A permit may be left from a command that ended just when it was killed.
            self.kill.notified().await;
            let state = self.lock();
            if state.running.as_ref().is_some_and(|running| running.killed) {
                return;
            }
        }
    }

    /// Whether the running command was killed.
    fn is_killed(&self) -> bool {
        let state = self.lock();
        state.running.as_ref().is_some_and(|running| running.killed)
    }

    pub(crate) fn set_client(&self, client: &Document) {
        self.lock().client = Some(client.clone());
    }

    pub(crate) fn set_user(&self, user: Option<String>) {
        self.lock().user = user;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete on its own.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn running(id: u32) -> Running {
        Running {
            id,
            name: "find",
            body: Bytes::new(),
            began: Instant::now(),
            session: None,
            killed: false,
        }
    }

    #[tokio::test]
    async fn only_the_command_that_is_meant_is_killed() {
        let connections = Connections::default();
        let peer = "127.0.0.1:1".parse().unwrap();
        let (one, two) = (connections.open(1, peer), connections.open(2, peer));
        one.begin(running(7));
        two.begin(running(8));
        assert!(!connections.kill(9));
        assert!(connections.kill(8));
        two.killed().await;
        assert!(two.end());
        assert!(!one.end());
        // The next command on the same connection is not the one that was killed.
        assert!(connections.all().iter().all(|seen| seen.running.is_none()));
        two.begin(running(10));
        let waited = tokio::time::timeout(Duration::from_millis(10), two.killed()).await;
        assert!(waited.is_err());
        connections.close(1);
        assert_eq!(
            (connections.all().len(), connections.total_created()),
            (1, 2)
        );
    }
}
