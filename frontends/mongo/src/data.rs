//! What the commands on data share: the store, decoded collections, open cursors and open
//! transactions.

use std::sync::Arc;

use tessera_core::Store;
use tokio::sync::watch;

use crate::collection::Collections;
use crate::cursor::Cursors;
use crate::logical::SessionId;
use crate::transaction::Transactions;

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
    /// Counts the writes to capped collections, for cursors that wait at their end.
    pub(crate) capped_writes: watch::Sender<u64>,
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
            cursors: Cursors::default(),
            transactions: Transactions::default(),
            capped_writes: watch::Sender::new(0),
        };
        Self {
            store,
            shared: Arc::new(shared),
        }
    }

    /// Ends what a session has open, because the session ends.
    pub(crate) fn end_session(&self, session: SessionId) {
        self.cursors.end_session(session);
        self.transactions.end_session(session);
    }
}
