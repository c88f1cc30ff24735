//! Open connections, for `system_views.clients`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::session::Session;

/// All connections, by the order in which they came.
#[derive(Default)]
pub(crate) struct Clients {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    sessions: BTreeMap<u64, Arc<Session>>,
    /// How many have come so far.
    count: u64,
}

/// A connection that is listed until this is dropped.
pub(crate) struct Listed<'c> {
    clients: &'c Clients,
    number: u64,
}

impl Clients {
    /// Lists a connection.
    pub(crate) fn list(&self, session: &Arc<Session>) -> Listed<'_> {
        let mut open = self.open();
        open.count += 1;
        let number = open.count;
        open.sessions.insert(number, Arc::clone(session));
        Listed {
            clients: self,
            number,
        }
    }

    /// All that are listed.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.open().sessions.values().cloned().collect()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.clients.open().sessions.remove(&self.number);
    }
}
