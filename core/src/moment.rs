//! A snapshot of the whole store that any number of readers share while it is kept.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::engine::{
    Answer, BoxFuture, CommitOutcome, Engine, EngineResult, Page, Scan, Settled, Snapshot,
};
use crate::error::Result;
use crate::recent_commits::{Comparison, compare};
use crate::store::Store;
use crate::transaction::{Manner, Transaction};
use crate::write_set::WriteSet;

/// All data as of one moment. Clones are handles to the same snapshot; when the last is dropped,
/// the engine may remove the versions that only it needs.
#[derive(Clone)]
pub struct Moment {
    snapshot: Arc<dyn Snapshot>,
    now_ms: u64,
}

impl Store {
    /// Takes a snapshot of this moment.
    pub async fn keep_moment(&self) -> Result<Moment> {
        let snapshot = self.engine().snapshot_to_keep().await?;
        Ok(Moment {
            snapshot: Arc::from(snapshot),
            now_ms: self.clock().now_ms(),
        })
    }

    /// A transaction that reads the data of a moment.
    pub fn read_at(&self, moment: &Moment) -> Box<Transaction> {
        self.begin_at(moment, Manner::Heedless)
    }

    /// Like [`Self::open_transaction`], at a moment that may have passed.
    pub fn open_transaction_at(&self, moment: &Moment, lifetime: Duration) -> Box<Transaction> {
        self.begin_at(moment, self.open_manner(lifetime))
    }

    fn begin_at(&self, moment: &Moment, manner: Manner) -> Box<Transaction> {
        let snapshot = Box::new(Kept {
            snapshot: Arc::clone(&moment.snapshot),
            engine: Arc::clone(self.engine()),
        });
        let mut transaction = Box::new(Transaction::new(self.clone(), snapshot, manner));
        // Items that had not expired then are still visible.
        transaction.now_ms = moment.now_ms;
        transaction
    }
}

/// A snapshot with several readers.
struct Kept {
    snapshot: Arc<dyn Snapshot>,
    engine: Arc<dyn Engine>,
}

impl Snapshot for Kept {
    fn version(&self) -> u64 {
        self.snapshot.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>> {
        self.snapshot.get(key)
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        self.snapshot.multi_get(keys)
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        self.snapshot.scan(scan)
    }

    fn settled(&self) -> Answer<'_, EngineResult<Settled>> {
        self.snapshot.settled()
    }

    fn commit(
        self: Box<Self>,
        writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async move {
            // The shared snapshot stays with its readers. If everything that is written or guarded
            // is unchanged since, the commit can be based on a new snapshot.
            let now = self.engine.snapshot().await?;
            match compare(self.snapshot.as_ref(), now.as_ref(), &writes).await? {
                Comparison::Unchanged => now.commit(writes).await,
                Comparison::Changed | Comparison::Unknown => Ok(CommitOutcome::Conflict),
            }
        })
    }
}
