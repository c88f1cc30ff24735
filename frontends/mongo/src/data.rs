//! State that the commands on data share: the store, decoded collections, open cursors and open
//! transactions.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use tessera_core::Store;
use tokio::sync::{Mutex, MutexGuard};

use crate::collection::{Collections, Namespace};
use crate::cursor::Cursors;
use crate::expiry::walk::Oldest;
use crate::logical::SessionKey;
use crate::snapshot::Snapshots;
use crate::transaction::Transactions;

/// How many changes of schemas may go on at once, at most.
const SCHEMA_LOCKS: usize = 64;

/// The state of the commands on data. Clones are handles to the same.
#[derive(Clone)]
pub(crate) struct Data {
    pub(crate) store: Store,
    shared: Arc<Shared>,
}

/// What is behind the handles.
pub(crate) struct Shared {
    pub(crate) collections: Collections,
    pub(crate) cursors: Cursors,
    pub(crate) transactions: Transactions,
    pub(crate) snapshots: Snapshots,
    /// What the removal of expired documents remembers.
    pub(crate) oldest_changes: Oldest,
    schema_locks: Vec<Mutex<()>>,
}

impl std::ops::Deref for Data {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Data {
    pub(crate) fn new(store: Store) -> Self {
        let shared = Shared {
            collections: Collections::default(),
            cursors: Cursors::new(store.memory().clone()),
            transactions: Transactions::default(),
            snapshots: Snapshots::default(),
            oldest_changes: Oldest::default(),
            schema_locks: (0..SCHEMA_LOCKS).map(|_| Mutex::new(())).collect(),
        };
        Self {
            store,
            shared: Arc::new(shared),
        }
    }

    /// Lets changes of one collection's schema, which read it and write it again, wait for each
    /// other.
    pub(crate) async fn lock_schema(&self, namespace: &Namespace) -> Option<MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        let position = usize::try_from(hasher.finish() % SCHEMA_LOCKS as u64).unwrap_or(0);
        let lock = self.shared.schema_locks.get(position)?;
        Some(lock.lock().await)
    }

    /// Ends what a session has open, because the session ends.
    pub(crate) fn end_session(&self, session: SessionKey) {
        self.cursors.end_session(session);
        self.transactions.end_session(session);
    }
}
