//! Snapshots of the RocksDB engine.
//!
//! Reads try memory first, on the caller's own thread; those that need the disk run on a blocking
//! thread.

use std::sync::Arc;

use bytes::Bytes;
use tessera_core::engine::{
    Answer, BoxFuture, CommitOutcome, Done, EngineError, EngineResult, Page, Scan, Settled,
    Snapshot,
};
use tessera_core::feed::stamp::Stamp;
use tessera_core::recent_commits::{Comparison, compare};
use tessera_core::write_set::WriteSet;

use super::CAPABILITIES;
use super::page::{PageBuilder, Progress};
use super::shared::Shared;
use super::view::{Reach, View};

/// More keys than this are looked up on a blocking thread, even if all are in memory.
const MAX_INLINE_KEYS: usize = 64;

/// All data as of one moment.
pub(super) struct RocksSnapshot {
    pub(super) view: Arc<View>,
    pub(super) shared: Arc<Shared>,
}

impl RocksSnapshot {
    /// Reads from memory never yield, so a task with many of them must be made to yield.
    async fn ready(&self) -> EngineResult<()> {
        tokio::task::coop::consume_budget().await;
        self.shared.check_open()
    }
}

impl Snapshot for RocksSnapshot {
    fn version(&self) -> u64 {
        self.view.version()
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>> {
        let in_memory = self.shared.check_open();
        match in_memory.and_then(|()| self.view.get(key, Reach::Memory)) {
            Ok(Some(value)) => Answer::ready(Ok(value)),
            Ok(None) => {
                let (view, key) = (Arc::clone(&self.view), Bytes::copy_from_slice(key));
                Answer::later(blocking(move || get_from_disk(&view, &key)))
            }
            Err(error) => Answer::ready(Err(error)),
        }
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            self.ready().await?;
            let mut values = Vec::with_capacity(keys.len());
            for key in keys.iter().take(MAX_INLINE_KEYS) {
                match self.view.get(key, Reach::Memory)? {
                    Some(value) => values.push(value),
                    None => break,
                }
            }
            if values.len() == keys.len() {
                return Ok(values);
            }
            let view = Arc::clone(&self.view);
            let rest: Vec<Bytes> = keys.iter().skip(values.len()).cloned().collect();
            blocking(move || {
                for key in &rest {
                    values.push(get_from_disk(&view, key)?);
                }
                Ok(values)
            })
            .await
        })
    }

    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>> {
        Box::pin(async move {
            self.ready().await?;
            let mut page = PageBuilder::new(scan);
            if page.fill(&self.view, Reach::Memory)? == Progress::Complete {
                return Ok(page.finish());
            }
            let view = Arc::clone(&self.view);
            blocking(move || {
                page.fill(&view, Reach::Disk)?;
                Ok(page.finish())
            })
            .await
        })
    }

    fn settled(&self) -> Answer<'_, EngineResult<Settled>> {
        let (epoch, version) = (self.shared.epoch(), self.view.version());
        // Only durable data may be shown.
        let synced = version.min(self.shared.synced());
        Answer::ready(Ok(Settled {
            through: Stamp::end_of(epoch, synced),
            newest: Stamp::end_of(epoch, version),
        }))
    }

    fn commit(
        self: Box<Self>,
        writes: WriteSet,
    ) -> BoxFuture<'static, EngineResult<CommitOutcome>> {
        Box::pin(async move {
            self.shared.check_open()?;
            CAPABILITIES.check(&writes)?;
            let version = self.view.version();
            if writes.is_empty() && writes.guards().is_empty() && !writes.sync_demanded() {
                return Ok(CommitOutcome::Done(Done::at(version)));
            }
            let shared = Arc::clone(&self.shared);
            let version = match shared.is_aging(version) {
                false => version,
                true => {
                    let now = Self {
                        view: shared.view()?,
                        shared: Arc::clone(&shared),
                    };
                    match compare(self.as_ref(), &now, &writes).await? {
                        Comparison::Unchanged => now.version(),
                        Comparison::Changed => return Ok(CommitOutcome::Conflict),
                        Comparison::Unknown => version,
                    }
                }
            };
            // Released before waiting: a view keeps RocksDB from dropping versions that only it
            // sees.
            drop(self);
            shared.commit(version, writes).await
        })
    }
}

fn get_from_disk(view: &View, key: &[u8]) -> EngineResult<Option<Bytes>> {
    Ok(view.get(key, Reach::Disk)?.flatten())
}

/// Runs work that may wait for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> EngineResult<T> + Send + 'static,
) -> EngineResult<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(EngineError::Unavailable(error.to_string())))
}
