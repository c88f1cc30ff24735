//! Who has how much of the server's memory: one budget, and grants of it.
//!
//! Everything that holds a client's bytes holds a [`Grant`], which gives them back on drop. What is
//! small is part of what each connection is guaranteed, and costs a comparison: the shared count is
//! touched only beyond that, and in [`CHUNK`]s. No purpose may have all of it, so that what cursors
//! keep leaves room for requests, and what was let in can be finished when nothing more is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// So much is taken from what all share at a time.
pub const CHUNK: usize = 64 << 10;

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What each connection is guaranteed: its buffers and small requests.
    Connections,
    /// Bodies of requests, as they came and expanded.
    Requests,
    /// Answers that are being made, or not taken by their clients yet.
    Replies,
    /// Values that a computation makes.
    Values,
    /// What sorts, groups and other stages keep until they have seen everything.
    Sorts,
    /// What is kept between two batches of an answer.
    Cursors,
    /// Writes that were not committed yet.
    Transactions,
    /// Statements that were prepared, and plans.
    Plans,
    /// Definitions of containers, and what is counted of their use.
    Catalog,
}

impl Purpose {
    /// Every purpose there is.
    pub const ALL: [Self; 9] = [
        Self::Connections,
        Self::Requests,
        Self::Replies,
        Self::Values,
        Self::Sorts,
        Self::Cursors,
        Self::Transactions,
        Self::Plans,
        Self::Catalog,
    ];

    /// What metrics and the console call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::Replies => "replies",
            Self::Values => "values",
            Self::Sorts => "sorts",
            Self::Cursors => "cursors",
            Self::Transactions => "transactions",
            Self::Plans => "plans",
            Self::Catalog => "catalog",
        }
    }

    /// How many sixteenths of the budget may be taken for this. What stays while a client thinks
    /// (sorts, cursors, open transactions) leaves room for what others begin.
    fn sixteenths(self) -> usize {
        match self {
            Self::Plans => 2,
            Self::Cursors | Self::Sorts => 6,
            Self::Requests => 8,
            Self::Replies | Self::Transactions => 10,
            Self::Values => 12,
            Self::Connections | Self::Catalog => 16,
        }
    }

    /// How many sixteenths may be taken in all when something is taken for this: what begins
    /// something leaves the last to what goes on.
    fn sixteenths_of_all(self) -> usize {
        match self {
            Self::Requests | Self::Sorts | Self::Replies => 14,
            _ => 16,
        }
    }
}

/// There is no memory left for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no memory is left for {}: {wanted} bytes were asked for, {used} of {limit} are taken \
     (memory-limit); try again later, or with less at once",
    purpose.name()
)]
pub struct OutOfMemory {
    /// What it was for.
    pub purpose: Purpose,
    /// How many bytes were asked for.
    pub wanted: usize,
    /// How many were taken.
    pub used: usize,
    /// How many there are.
    pub limit: usize,
}

impl OutOfMemory {
    /// Whether it could succeed if nobody else had anything.
    pub fn is_passing(&self) -> bool {
        self.wanted <= part(self.limit, self.purpose.sixteenths())
    }
}

/// The memory of a server. Clones are handles to the same budget.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Shared>);

struct Shared {
    limit: usize,
    /// What the engine has for its caches and buffers, which is apart.
    engine: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
    counts: [Count; Purpose::ALL.len()],
    /// Those who wait for memory, and how they hear of some.
    waiting: AtomicUsize,
    freed: Notify,
}

#[derive(Default)]
struct Count {
    used: AtomicUsize,
    peak: AtomicUsize,
    refused: AtomicU64,
    /// What is there without a grant.
    noted: AtomicUsize,
}

/// What is taken for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What for.
    pub purpose: Purpose,
    /// How many bytes are taken now.
    pub used: usize,
    /// The most at any time.
    pub peak: usize,
    /// How often there was none left.
    pub refused: u64,
}

impl MemoryBudget {
    /// A budget of so many bytes, beside what the engine has.
    pub fn new(limit: usize, engine: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            engine,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            counts: Default::default(),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        }))
    }

    /// A budget that nothing exhausts.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX / 32, 0)
    }

    /// How many bytes there are.
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// How many bytes the engine has for its caches and buffers.
    pub fn engine(&self) -> usize {
        self.0.engine
    }

    /// How many bytes are taken now.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most that was taken at any time.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// What is taken for each purpose.
    pub fn taken(&self) -> impl Iterator<Item = Taken> + '_ {
        let counts = Purpose::ALL.into_iter().zip(&self.0.counts);
        counts.map(|(purpose, count)| Taken {
            purpose,
            used: count.used.load(Ordering::Relaxed),
            peak: count.peak.load(Ordering::Relaxed),
            refused: count.refused.load(Ordering::Relaxed),
        })
    }

    /// So many bytes for this purpose, exactly.
    pub fn grant(&self, purpose: Purpose, bytes: usize) -> Result<Grant, OutOfMemory> {
        let mut grant = Grant::new(purpose, 0);
        grant.cover_exactly(self, bytes)?;
        Ok(grant)
    }

    /// So many bytes are there for this purpose, asked for or not: what must be, but can be made
    /// less when somebody hears of it.
    pub fn note(&self, purpose: Purpose, bytes: usize) {
        let Some(count) = self.count(purpose) else {
            return;
        };
        let before = count.noted.swap(bytes, Ordering::Relaxed);
        // Wrapping, as both are changed by what was there before.
        let change = bytes.wrapping_sub(before);
        let used = count.used.fetch_add(change, Ordering::Relaxed);
        count
            .peak
            .fetch_max(used.wrapping_add(change), Ordering::Relaxed);
        self.0.used.fetch_add(change, Ordering::Relaxed);
    }

    /// Waits until there may be room for what was refused, but not for ever.
    pub(crate) async fn wait_for(&self, refused: OutOfMemory, until: Instant) {
        let _counted = Waiting::new(self);
        let limit = self.0.limit;
        let all = part(limit, refused.purpose.sixteenths_of_all());
        let own = part(limit, refused.purpose.sixteenths());
        let used = || {
            let count = self.count(refused.purpose);
            count.map_or(0, |count| count.used.load(Ordering::Relaxed))
        };
        loop {
            let freed = self.0.freed.notified();
            // Asked after it is certain that the next return is heard.
            let has_room = self.used().saturating_add(refused.wanted) <= all
                && used().saturating_add(refused.wanted) <= own;
            if has_room || tokio::time::timeout_at(until, freed).await.is_err() {
                return;
            }
        }
    }

    fn count(&self, purpose: Purpose) -> Option<&Count> {
        self.0.counts.get(purpose as usize)
    }

    fn take(&self, purpose: Purpose, bytes: usize) -> Result<(), OutOfMemory> {
        let limit = self.0.limit;
        let refused = |used| OutOfMemory {
            purpose,
            wanted: bytes,
            used,
            limit,
        };
        let Some(count) = self.count(purpose) else {
            return Err(refused(self.used()));
        };
        let own = add_within(&count.used, bytes, part(limit, purpose.sixteenths()));
        let own = own.map_err(refused)?;
        let all = part(limit, purpose.sixteenths_of_all());
        let all = add_within(&self.0.used, bytes, all).map_err(|used| {
            count.used.fetch_sub(bytes, Ordering::Relaxed);
            refused(used)
        })?;
        count.peak.fetch_max(own, Ordering::Relaxed);
        self.0.peak.fetch_max(all, Ordering::Relaxed);
        Ok(())
    }

    fn refuse(&self, purpose: Purpose) {
        if let Some(count) = self.count(purpose) {
            count.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn give_back(&self, purpose: Purpose, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::SeqCst);
        if let Some(count) = self.count(purpose) {
            count.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            self.0.freed.notify_waiters();
        }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, limit) = (self.used(), self.limit());
        write!(formatter, "MemoryBudget({used} of {limit})")
    }
}

fn part(limit: usize, sixteenths: usize) -> usize {
    limit / 16 * sixteenths
}

/// Adds, and answers the sum, or what there was if the sum were more than `most`.
fn add_within(used: &AtomicUsize, bytes: usize, most: usize) -> Result<usize, usize> {
    let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
    let added = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    added.map(|before| before + bytes)
}

/// Bytes of the budget, given back on drop.
#[derive(Debug)]
pub struct Grant {
    purpose: Purpose,
    /// What need not be taken from the budget, because its connection has it already.
    guaranteed: u32,
    /// How many bytes it covers, what is guaranteed included.
    covered: usize,
    /// None as long as nothing was taken.
    budget: Option<MemoryBudget>,
}

impl Grant {
    /// Nothing yet but what the connection has already.
    pub fn new(purpose: Purpose, guaranteed: u32) -> Self {
        Self {
            purpose,
            guaranteed,
            covered: guaranteed as usize,
            budget: None,
        }
    }

    /// Whether it has anything of the budget.
    pub fn is_taken(&self) -> bool {
        self.covered > self.guaranteed as usize
    }

    /// How many bytes it covers.
    pub fn covered(&self) -> usize {
        self.covered
    }

    /// Makes it cover so many bytes in all.
    #[inline]
    pub fn cover(&mut self, budget: &MemoryBudget, bytes: usize) -> Result<(), OutOfMemory> {
        if bytes <= self.covered {
            return Ok(());
        }
        self.grow(budget, bytes)
    }

    #[cold]
    fn grow(&mut self, budget: &MemoryBudget, bytes: usize) -> Result<(), OutOfMemory> {
        // What grows has more to come: an eighth more, so that it is seldom asked for.
        let ample = bytes
            .saturating_add(bytes / 8)
            .checked_next_multiple_of(CHUNK);
        let taken = match ample {
            Some(ample) => self
                .take(budget, ample)
                .or_else(|_| self.take(budget, bytes)),
            None => self.take(budget, bytes),
        };
        taken.inspect_err(|_| budget.refuse(self.purpose))
    }

    /// Makes it cover so many bytes in all, and takes no more than that.
    pub fn cover_exactly(
        &mut self,
        budget: &MemoryBudget,
        bytes: usize,
    ) -> Result<(), OutOfMemory> {
        if bytes <= self.covered {
            return Ok(());
        }
        self.take(budget, bytes)
            .inspect_err(|_| budget.refuse(self.purpose))
    }

    /// Makes it cover so many bytes in all, and waits for them if others may give some back.
    pub async fn wait_to_cover(
        &mut self,
        budget: &MemoryBudget,
        bytes: usize,
        longest: Duration,
    ) -> Result<(), OutOfMemory> {
        if bytes <= self.covered {
            return Ok(());
        }
        match self.take(budget, bytes) {
            Ok(()) => Ok(()),
            Err(refused) if refused.is_passing() => {
                Box::pin(self.wait(budget, bytes, longest)).await
            }
            Err(refused) => {
                budget.refuse(self.purpose);
                Err(refused)
            }
        }
    }

    async fn wait(
        &mut self,
        budget: &MemoryBudget,
        bytes: usize,
        longest: Duration,
    ) -> Result<(), OutOfMemory> {
        let until = Instant::now() + longest;
        let _counted = Waiting::new(budget);
        loop {
            let freed = budget.0.freed.notified();
            // Asked again after it is certain that the next return is heard.
            let Err(refused) = self.take(budget, bytes) else {
                return Ok(());
            };
            if tokio::time::timeout_at(until, freed).await.is_err() {
                budget.refuse(self.purpose);
                return Err(refused);
            }
        }
    }

    fn take(&mut self, budget: &MemoryBudget, bytes: usize) -> Result<(), OutOfMemory> {
        budget.take(self.purpose, bytes - self.covered)?;
        self.covered = bytes;
        if self.budget.is_none() {
            self.budget = Some(budget.clone());
        }
        Ok(())
    }

    /// Gives back what is beyond so many bytes.
    #[inline]
    pub fn shrink(&mut self, bytes: usize) {
        let left = bytes.max(self.guaranteed as usize);
        if let Some(budget) = self.budget.as_ref().filter(|_| left < self.covered) {
            budget.give_back(self.purpose, self.covered - left);
            self.covered = left;
        }
    }

    /// Goes on for another purpose, whatever that may take.
    #[must_use]
    pub fn become_for(mut self, purpose: Purpose) -> Self {
        if let Some(budget) = &self.budget {
            let bytes = self.covered - self.guaranteed as usize;
            if let (Some(from), Some(to)) = (budget.count(self.purpose), budget.count(purpose)) {
                from.used.fetch_sub(bytes, Ordering::Relaxed);
                let used = to.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
                to.peak.fetch_max(used, Ordering::Relaxed);
            }
        }
        self.purpose = purpose;
        self
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // What is guaranteed was never taken.
        self.shrink(0);
    }
}

/// One who waits, counted.
struct Waiting<'a>(&'a MemoryBudget);

impl<'a> Waiting<'a> {
    fn new(budget: &'a MemoryBudget) -> Self {
        budget.0.waiting.fetch_add(1, Ordering::SeqCst);
        Self(budget)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
