//! A moment of the whole store, which any number of readers may look at while it is kept.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{BoxFuture, CommitOutcome, EngineResult, Page, Scan, Snapshot};
use crate::error::Result;
use crate::store::Store;
use crate::transaction::{Manner, Transaction};
use crate::write_set::WriteSet;

/// All data as of one moment. Clones are handles to the same; when the last is dropped, the engine
/// may forget what was only there then.
#[derive(Clone)]
pub struct Moment {
    snapshot: Arc<dyn Snapshot>,
    now_ms: u64,
}

impl Store {
    /// Keeps this moment.
    pub async fn keep_moment(&self) -> Result<Moment> {
        let snapshot = self.engine().snapshot().await?;
        Ok(Moment {
            snapshot: Arc::from(snapshot),
            now_ms: self.clock().now_ms(),
        })
    }

    /// A transaction that reads what was there at a moment. It cannot write: its commit conflicts
    /// with whoever holds the moment.
    pub fn read_at(&self, moment: &Moment) -> Transaction {
        let snapshot = Box::new(Kept(Arc::clone(&moment.snapshot)));
        let mut transaction = Transaction::new(self.clone(), snapshot, Manner::Heedless);
        // What had not expired then is still there.
        transaction.now_ms = moment.now_ms;
        transaction
    }
}

/// A snapshot that others read as well.
struct Kept(Arc<dyn Snapshot>);

impl Snapshot for Kept {
    fn version(&self) -> u64 {
        self.0.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, EngineResult<Option<Bytes>>> {
        self.0.get(key)
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        self.0.multi_get(keys)
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        self.0.scan(scan)
    }

    fn commit(
        self: Box<Self>,
        _writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async { Ok(CommitOutcome::Conflict) })
    }
}
