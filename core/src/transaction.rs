//! A transaction: reads of one moment and buffered writes, committed at once or not at all.
//!
//! One transaction may touch many containers and partitions. Reading items is in `crate::reading`,
//! writing them in `crate::writing`. A transaction that only reads is simply dropped. One that is
//! open across a client's round trips ([`Store::open_transaction`]) is an owned value with a
//! deadline, a bound on its bytes and write intents; when it is dropped, nothing of it is left.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::budget::{Bill, Waits};
use crate::catalog::Draft;
use crate::container::Container;
use crate::engine::{BoxFuture, CommitOutcome, Done, Page, Scan, Snapshot};
use crate::error::{Error, Result};
use crate::feed::stamp::Stamp;
use crate::feed::writing::FeedNotes;
use crate::intent::{HeldIntents, Holder, Refusal};
use crate::key::{self, PartitionId, StorageId};
use crate::latch::LatchedItem;
use crate::locator::Locator;
use crate::memory_budget::{Grant, MemoryBudget, OutOfMemory, Purpose};
use crate::name::ContainerName;
use crate::overlay;
use crate::partition_map::Partition;
use crate::store::Store;
use crate::throughput::{Charge, Meter};
use crate::write_set::WriteSet;

/// At the commit writes are in memory twice: as buffered, and as the engine takes them.
const WRITE_COPIES: usize = 2;
/// Bytes of a statement's writes that are covered by the memory guaranteed to its connection.
const GUARANTEED: u32 = 32 << 10;

/// Reads of one moment, and writes that wait for the commit.
pub struct Transaction {
    pub(crate) store: Store,
    pub(crate) snapshot: Box<dyn Snapshot>,
    pub(crate) writes: WriteSet,
    /// The memory of the writes.
    granted: Grant,
    /// Whether memory for them was refused.
    shortage: Option<OutOfMemory>,
    pub(crate) bill: Bill,
    pub(crate) now_ms: u64,
    /// The time at which its work counts as heat: see [`crate::clock::Clock::steady_ms`].
    steady_ms: u64,
    /// Containers whose definition was read at this snapshot, to read each only once.
    looked_up: Vec<Arc<Container>>,
    guarded: SmallVec<[StorageId; 2]>,
    /// Containers that the commit creates.
    pub(crate) created: Vec<Draft>,
    manner: Manner,
    /// The feeds that it writes to; none if it writes to none.
    pub(crate) feed: Option<Box<FeedNotes>>,
    /// The open transaction whose intent this one last conflicted with.
    blocked_by: Option<Arc<Holder>>,
}

/// How a transaction treats the write intents of open ones.
pub(crate) enum Manner {
    /// Ignores them: reads, and background work, for which the engine's check is enough.
    Heedless,
    /// A single statement, which waits for conflicting intents.
    Statement,
    /// Open across a client's round trips, with intents of its own.
    Open(HeldIntents),
}

/// The two ways in which a transaction is committed: most only write.
enum Ending<F> {
    Writes(F),
    Containers(BoxFuture<'static, Result<Committed>>),
}

/// The buffered writes of a transaction at some moment.
pub(crate) struct Savepoint {
    writes: WriteSet,
    guarded: SmallVec<[StorageId; 2]>,
}

/// A finished transaction.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The engine's version of the commit.
    pub version: u64,
    /// The last stamp that its entries of the change feed can have; none if it has none.
    pub stamp: Option<Stamp>,
    /// The work done and its cost.
    pub meter: Meter,
}

impl Transaction {
    pub(crate) fn new(store: Store, snapshot: Box<dyn Snapshot>, manner: Manner) -> Self {
        let (now_ms, steady_ms) = (store.clock().now_ms(), store.clock().steady_ms());
        Self {
            bill: Bill::default(),
            store,
            snapshot,
            writes: WriteSet::default(),
            granted: match manner {
                Manner::Heedless | Manner::Statement => {
                    Grant::new(Purpose::Transactions, GUARANTEED)
                }
                // There may be more of these than connections.
                Manner::Open(_) => Grant::new(Purpose::Transactions, 0),
            },
            shortage: None,
            now_ms,
            steady_ms,
            looked_up: Vec::new(),
            guarded: SmallVec::new(),
            created: Vec::new(),
            manner,
            feed: None,
            blocked_by: None,
        }
    }

    /// Begins again at this moment, without writes but with its intents: the conflicting writer has
    /// finished, and the intents keep out others. Only correct while the client has seen no result
    /// of it.
    pub async fn refresh(&mut self) -> Result<()> {
        let engine = self.store.engine();
        self.snapshot = match self.manner {
            Manner::Heedless | Manner::Statement => engine.snapshot().await?,
            Manner::Open(_) => engine.snapshot_to_keep().await?,
        };
        self.now_ms = self.store.clock().now_ms();
        self.tick();
        self.writes = WriteSet::default();
        self.granted.shrink(0);
        self.looked_up.clear();
        self.guarded.clear();
        self.created.clear();
        self.blocked_by = None;
        Ok(())
    }

    /// The buffered writes so far.
    pub(crate) fn save(&self) -> Savepoint {
        Savepoint {
            writes: self.writes.clone(),
            guarded: self.guarded.clone(),
        }
    }

    /// Discards the writes after this moment.
    pub(crate) fn undo(&mut self, to: Savepoint) {
        self.writes = to.writes;
        self.guarded = to.guarded;
        self.created.clear();
        self.blocked_by = None;
    }

    /// The bill of one statement, before another one runs, which is admitted by itself.
    pub(crate) fn take_bill(&mut self) -> Bill {
        self.looked_up.clear();
        if let Some(feed) = &mut self.feed {
            feed.end_statement();
        }
        std::mem::take(&mut self.bill)
    }

    /// Whether another statement may add to it: it is smaller than this and creates nothing.
    pub(crate) fn can_be_shared(&self, bytes: usize) -> bool {
        self.writes.byte_size() < bytes && self.created.is_empty()
    }

    /// The deadline of an open transaction. After it its writes and its commit are refused.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.manner {
            Manner::Open(intents) => Some(intents.deadline()),
            Manner::Heedless | Manner::Statement => None,
        }
    }

    /// Whether an [`Error::Conflict`] came from another transaction that is still open, so that
    /// [`Self::refresh`] would not help.
    pub fn is_blocked(&self) -> bool {
        self.blocked_by.is_some()
    }

    pub(crate) fn take_blocker(&mut self) -> Option<Arc<Holder>> {
        self.blocked_by.take()
    }

    /// The container of this name, as of this transaction's moment.
    pub async fn container(&mut self, name: &ContainerName) -> Result<Arc<Container>> {
        if let Some(known) = self.looked_up.iter().find(|known| known.name == *name) {
            return Ok(Arc::clone(known));
        }
        let catalog = self.store.catalog();
        let certain = catalog.certain(self.snapshot.version(), name);
        let container = match certain {
            Some(certain) => certain,
            None => {
                // Boxed, as every rare await: a future is as large as the largest that it may
                // await, and is copied whole to where it runs.
                let found = Box::pin(catalog.look_up(self.snapshot.as_ref(), name)).await?;
                let found = found.ok_or_else(|| Error::NotFound(format!("container '{name}'")))?;
                self.looked_up.push(Arc::clone(&found));
                found
            }
        };
        if container.is_bookkeeping {
            self.bill.meter.exempt(container.storage());
        }
        Ok(container)
    }

    /// The container that owns a storage, whatever its present name.
    pub(crate) async fn owner(&mut self, storage: StorageId) -> Result<Arc<Container>> {
        let missing = || Error::NotFound(format!("the container of storage {storage}"));
        let catalog = self.store.catalog();
        let owner = catalog.owner(self.snapshot.as_ref(), storage).await?;
        let container = self.container(&owner.ok_or_else(missing)?).await?;
        let is_owner = container.storage() == storage;
        is_owner.then_some(container).ok_or_else(missing)
    }

    /// Milliseconds since 1970 at which expiry is judged.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The work so far and its cost.
    pub fn meter(&self) -> &Meter {
        &self.bill.meter
    }

    /// Whether its commit would change nothing.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.created.is_empty()
    }

    /// Makes the commit durable before it is answered, whatever the engine's setting.
    pub fn demand_sync(&mut self) {
        self.writes.demand_sync();
    }

    /// Applies all writes, or none: [`Error::Conflict`] if another commit came between.
    pub fn commit(self) -> impl Future<Output = Result<Committed>> + Send {
        // Decided before the future is made, so that it need not hold the whole transaction.
        let ending = match self.created.is_empty() {
            true => Ending::Writes(self.commit_writes()),
            false => Ending::Containers(Box::pin(self.commit_with_containers())),
        };
        async move {
            match ending {
                Ending::Writes(commit) => commit.await,
                Ending::Containers(commit) => commit.await,
            }
        }
    }

    /// Applies the writes. The intents of an open transaction are held until that is done.
    pub(crate) fn commit_writes(mut self) -> impl Future<Output = Result<Committed>> + Send {
        // Taken apart before the future is made, which then holds only what it needs.
        let in_time = match &self.manner {
            Manner::Open(intents) => intents.check_time(),
            Manner::Heedless | Manner::Statement => Ok(()),
        };
        let wakes = self.finish_feed();
        let version = self.snapshot.version();
        let changes = !self.writes.is_empty() || !self.writes.guards().is_empty();
        let (bill, held, granted) = (self.bill, self.manner, self.granted);
        let commit = (in_time.is_ok() && changes).then(|| self.snapshot.commit(self.writes));
        async move {
            in_time?;
            let outcome = match commit {
                Some(commit) => commit.await?,
                None => CommitOutcome::Done(Done::at(version)),
            };
            drop((held, granted));
            match outcome {
                CommitOutcome::Done(Done { version, stamp }) => {
                    if let Some(wakes) = wakes {
                        wakes.tell();
                    }
                    Ok(Committed {
                        version,
                        stamp,
                        meter: bill.settle(),
                    })
                }
                CommitOutcome::Conflict => Err(Error::Conflict),
                CommitOutcome::Unknown => Err(Error::OutcomeUnknown),
            }
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

    /// Whether writes of this transaction must look at intents at all.
    pub(crate) fn heeds_intents(&self) -> bool {
        match self.manner {
            Manner::Heedless => false,
            Manner::Statement => !self.store.intents().is_empty(),
            Manner::Open(_) => true,
        }
    }

    /// Announces a change of `key`: [`Error::Conflict`] if an open transaction is about to change
    /// it. For an open transaction, also if the key was changed since its snapshot. `item`, if the
    /// key is an item's, tells which latch its writers hold.
    pub(crate) async fn intend(&mut self, key: &[u8], item: Option<LatchedItem<'_>>) -> Result<()> {
        let is_news = match &mut self.manner {
            Manner::Heedless => return Ok(()),
            Manner::Statement => {
                self.blocked_by = self.store.intents().holder(key);
                return self
                    .blocked_by
                    .as_ref()
                    .map_or(Ok(()), |_| Err(Error::Conflict));
            }
            Manner::Open(intents) => {
                intents.check_time()?;
                match intents.take(key) {
                    Ok(is_news) => is_news,
                    Err(Refusal::Held(holder)) => {
                        self.blocked_by = Some(holder);
                        return Err(Error::Conflict);
                    }
                    Err(Refusal::Full) => return Err(self.store.intents().too_many()),
                }
            }
        };
        if !is_news {
            return Ok(());
        }
        if let Some(item) = item {
            // Statements that checked before the intent was set hold this latch until they are
            // done.
            drop(self.store.latches().lock(&[item], false).await);
        }
        let newest = self.store.engine().snapshot().await?.get(key).await?;
        if newest != self.snapshot.get(key).await? {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// Refuses to buffer more of an open transaction than the engine would take at its commit, and
    /// more of any than there is memory for.
    pub(crate) fn check_size(&mut self) -> Result<()> {
        let size = self.writes.byte_size();
        let bytes = size.saturating_mul(WRITE_COPIES);
        if !matches!(self.manner, Manner::Open(_)) {
            let covered = self.granted.cover(self.store.memory(), bytes);
            self.shortage = covered.err();
            return Ok(covered?);
        }
        let limit = self.store.engine().capabilities().max_transaction_bytes;
        if size > limit {
            let what = "transaction";
            return Err(Error::TooLarge { what, size, limit });
        }
        Ok(self.granted.cover_exactly(self.store.memory(), bytes)?)
    }

    /// Whether it failed for lack of memory that others hold, and may still wait for it.
    pub(crate) fn may_find_memory_after(&self, until: Option<Instant>) -> bool {
        let is_passing = self.shortage.is_some_and(|refused| refused.is_passing());
        is_passing && until.is_none_or(|until| Instant::now() < until)
    }

    pub(crate) fn take_shortage(&mut self) -> Option<OutOfMemory> {
        self.shortage.take()
    }

    /// The memory that all requests share.
    pub fn memory(&self) -> &MemoryBudget {
        self.store.memory()
    }

    /// Makes a container that this transaction creates visible to it.
    pub(crate) fn remember(&mut self, container: Arc<Container>) {
        self.looked_up.retain(|known| known.name != container.name);
        self.looked_up.push(container);
    }

    /// Asks the partition of `token` for admission: [`Error::Throttled`] if it has no throughput
    /// left.
    pub(crate) async fn admit(&mut self, container: &Container, token: i64) -> Result<()> {
        if !container.has_throughput() {
            return Ok(());
        }
        let partition = container.partitions.locate(token);
        self.admit_to(container, partition).await
    }

    /// Asks a physical partition for admission. A statement does not wait for throughput here,
    /// where it has latches, but in [`Store::run`]. Boxed: few containers have throughput.
    pub(crate) fn admit_to<'a>(
        &'a mut self,
        container: &'a Container,
        partition: &'a Partition,
    ) -> BoxFuture<'a, Result<()>> {
        let is_statement = matches!(self.manner, Manner::Statement);
        let place = match is_statement {
            true => Waits::Elsewhere,
            false => Waits::Here,
        };
        Box::pin(self.bill.admit(&self.store, container, partition, place))
    }

    /// Counts what follows as heat of this moment: one transaction may read for minutes.
    pub(crate) fn tick(&mut self) {
        self.steady_ms = self.store.clock().steady_ms();
    }

    /// Adds the last charge to the heat of this partition.
    pub(crate) fn heat(&self, container: &Container, partition: PartitionId, charge: Charge) {
        let is_first = self.bill.meter.is_first();
        container
            .heat
            .charge(partition, charge, is_first, self.steady_ms);
    }

    /// Adds a charge to the heat of this partition and of one logical key in it.
    pub(crate) fn warm(
        &self,
        container: &Container,
        partition: PartitionId,
        locator: &Locator,
        charge: Charge,
    ) {
        self.heat(container, partition, charge);
        self.warm_key(container, locator.token, &locator.partition_key, charge);
    }

    /// Adds to the heat of a logical key what its partition's heat has already.
    pub(crate) fn warm_key(&self, container: &Container, token: i64, key: &[u8], charge: Charge) {
        container
            .heat
            .charge_key(token, key, charge, self.steady_ms);
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
