//! What the commands on data share: decoded collections, open cursors and open transactions.

use tokio::sync::watch;

use crate::collection::Collections;
use crate::cursor::Cursors;
use crate::transaction::Transactions;

/// The state of the commands on data.
pub(crate) struct Data {
    pub(crate) collections: Collections,
    pub(crate) cursors: Cursors,
    pub(crate) transactions: Transactions,
    /// Counts the writes to capped collections, for cursors that wait at their end.
    pub(crate) capped_writes: watch::Sender<u64>,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            collections: Collections::default(),
            cursors: Cursors::default(),
            transactions: Transactions::default(),
            capped_writes: watch::Sender::new(0),
        }
    }
}

impl Data {
    /// Ends what a session has open, because the session ends.
    pub(crate) fn end_session(&self, session: crate::logical::SessionId) {
        self.cursors.end_session(session);
        self.transactions.end_session(session);
    }
}
