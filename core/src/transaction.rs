//! A transaction: reads of one moment and buffered writes, committed at once or not at all.
//!
//! One transaction may touch many containers and partitions. Reading items is in `crate::reading`,
//! writing them in `crate::writing`. A transaction that only reads is simply dropped.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::budget::Bill;
use crate::container::Container;
use crate::engine::{CommitOutcome, Page, Scan, Snapshot};
use crate::error::{Error, Result};
use crate::key::{self, StorageId};
use crate::name::ContainerName;
use crate::overlay;
use crate::store::Store;
use crate::throughput::Meter;
use crate::write_set::WriteSet;

/// Reads of one moment, and writes that wait for the commit.
pub struct Transaction {
    pub(crate) store: Store,
    pub(crate) snapshot: Box<dyn Snapshot>,
    pub(crate) writes: WriteSet,
    pub(crate) bill: Bill,
    pub(crate) now_ms: u64,
    /// Containers whose definition had to be read at this snapshot: to do that only once.
    looked_up: Vec<Arc<Container>>,
    guarded: SmallVec<[StorageId; 2]>,
}

/// A finished transaction.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The engine's version of the commit.
    pub version: u64,
    /// What was done and what it costs.
    pub meter: Meter,
}

impl Transaction {
    pub(crate) fn new(store: Store, snapshot: Box<dyn Snapshot>) -> Self {
        let now_ms = store.clock().now_ms();
        Self {
            bill: Bill::default(),
            store,
            snapshot,
            writes: WriteSet::default(),
            now_ms,
            looked_up: Vec::new(),
            guarded: SmallVec::new(),
        }
    }

    /// The container of this name, as of this transaction's moment.
    pub async fn container(&mut self, name: &ContainerName) -> Result<Arc<Container>> {
        if let Some(known) = self.looked_up.iter().find(|known| known.name == *name) {
            return Ok(Arc::clone(known));
        }
        let catalog = self.store.catalog();
        if let Some(certain) = catalog.certain(self.snapshot.version(), name) {
            return Ok(certain);
        }
        let container = catalog.look_up(self.snapshot.as_ref(), name).await?;
        let container = container.ok_or_else(|| Error::NotFound(format!("container '{name}'")))?;
        self.looked_up.push(Arc::clone(&container));
        Ok(container)
    }

    /// Milliseconds since 1970 at which expiry is judged.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// What was done so far and what it costs.
    pub fn meter(&self) -> &Meter {
        &self.bill.meter
    }

    /// Makes the commit durable before it is answered, whatever the engine's setting.
    pub fn demand_sync(&mut self) {
        self.writes.demand_sync();
    }

    /// Applies all writes, or none: [`Error::Conflict`] if another commit came between.
    pub async fn commit(self) -> Result<Committed> {
        let version = self.snapshot.version();
        let bill = self.bill;
        if self.writes.is_empty() && self.writes.guards().is_empty() {
            let meter = bill.settle();
            return Ok(Committed { version, meter });
        }
        match self.snapshot.commit(self.writes).await? {
            CommitOutcome::Done(version) => Ok(Committed {
                version,
                meter: bill.settle(),
            }),
            CommitOutcome::Conflict => Err(Error::Conflict),
            CommitOutcome::Unknown => Err(Error::OutcomeUnknown),
        }
    }

    /// Refuses the commit if the container's definition or partition map changed meanwhile: a
    /// cached definition can never miss a new index, and tallies always go to the right partition.
    pub(crate) fn guard_definition(&mut self, container: &Container) {
        let storage = container.storage();
        if !self.guarded.contains(&storage) {
            self.guarded.push(storage);
            self.writes.guard(key::definition_version(storage));
        }
    }

    /// Asks the partition of `token` for throughput: [`Error::Throttled`] if it has none left.
    pub(crate) fn admit(&mut self, container: &Container, token: i64) -> Result<()> {
        if container.definition.provisioned.is_none() {
            return Ok(());
        }
        let place = container.place(token);
        self.bill.admit(&self.store, container, place)
    }

    /// One key of the engine, with this transaction's own writes.
    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(overlay::get(self.snapshot.as_ref(), &self.writes, key).await?)
    }

    /// One page of the engine's keys, with this transaction's own writes.
    pub(crate) async fn scan_keys(&self, scan: &Scan) -> Result<Page> {
        Ok(overlay::scan(self.snapshot.as_ref(), &self.writes, scan).await?)
    }
}
