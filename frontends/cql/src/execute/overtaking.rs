//! Writes that a newer deletion has overtaken.
//!
//! A deletion of many rows takes away what it hides, and is forgotten after its grace. A row that
//! is written behind its back, with an older time, would then be back. So each deletion makes its
//! time known before it looks for rows; and a write that has an older time looks again, once it is
//! made, at what its partition's deletions leave of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use tessera_core::locator::Locator;
use tessera_core::throughput::Charge;

use super::Context;
use super::keys::RECORD_KEY;
use super::write::Write;
use crate::catalog::Place;
use crate::failure::Failure;

/// The newest time of a deletion of many rows.
#[derive(Debug)]
pub(crate) struct NewestDeletion(AtomicI64);

impl NewestDeletion {
    /// Those from before this moment are not known.
    pub(crate) fn since(now_micros: u64) -> Self {
        let now = i64::try_from(now_micros).unwrap_or(i64::MAX);
        Self(AtomicI64::new(now))
    }

    /// Notes the deletions among these. Of those that are far ahead only so much as is not kept for
    /// ever: they need no care.
    pub(super) fn note(&self, writes: &[Write]) {
        for write in writes.iter().filter(|write| write.deletes_many()) {
            let ahead = write.stamp.now.saturating_add(1).saturating_mul(1_000_000);
            let timestamp = write.stamp.timestamp.min(ahead);
            self.0.fetch_max(timestamp, Ordering::SeqCst);
        }
    }

    /// Whether a deletion may hide what this has written. Also of a write that looked for one: it
    /// does not conflict with a deletion that is on its way.
    fn has_overtaken(&self, write: &Write) -> bool {
        write.stamp.timestamp <= self.0.load(Ordering::SeqCst) && write.writes_rows()
    }
}

/// Takes away what deletions hide of writes that were made.
pub(super) async fn forget_hidden(
    writes: &Arc<[Write]>,
    context: &Context<'_>,
) -> Result<Charge, Failure> {
    let service = context.service;
    let is_overtaken = |write: &&Write| service.newest_deletion.has_overtaken(write);
    let overtaken = writes.iter().filter(is_overtaken);
    let mut records = Vec::new();
    for write in overtaken {
        if let Place::Stored { name, .. } = &write.plan.relation.place {
            let record =
                |(token, key): &(i64, Bytes)| Locator::row(*token, key.clone(), RECORD_KEY);
            records.extend(write.keys.iter().map(|key| (name, record(key))));
        }
    }
    if records.is_empty() {
        return Ok(Charge::default());
    }
    // Deletions that are on their way hold these, so that what they say is there afterwards.
    let latched: Vec<_> = records
        .iter()
        .map(|(name, record)| (*name, record))
        .collect();
    let forgotten = service.store.run(&latched, |transaction| {
        let writes = Arc::clone(writes);
        Box::pin(async move {
            for write in writes.iter().filter(|write| write.writes_rows()) {
                write.purge_hidden(transaction).await?;
            }
            Ok::<(), Failure>(())
        })
    });
    Ok(forgotten.await?.meter.charge())
}
