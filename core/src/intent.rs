//! Write intents: which keys the open transactions of clients are about to change.
//!
//! An open transaction lives across a client's round trips, so a write conflict with it should be
//! noticed at once and not at the commit: another open transaction is refused, a single statement
//! waits until the first one has ended. Intents are never needed for correctness, which is the
//! engine's check at the commit; so they are kept by the hash of their key, in this process alone,
//! in a bounded number, and those of a transaction past its deadline are ignored.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// Intents of all open transactions together.
const MAX_INTENTS: usize = 2_000_000;
/// One intent in the map of all, and in the set of its transaction.
const BYTES_PER_INTENT: usize = 48;

/// The intents of all open transactions of this process.
pub(crate) struct Intents {
    holders: DashMap<u64, Arc<Holder>>,
    /// Their number, counted apart, so that statements skip the map while it is empty.
    count: AtomicUsize,
    hasher: RandomState,
}

/// Behind an intent: one open transaction, and whether it has ended.
pub(crate) struct Holder {
    ended: watch::Sender<bool>,
    deadline: Instant,
}

impl Holder {
    fn new(lifetime: Duration) -> Arc<Self> {
        Arc::new(Self {
            ended: watch::Sender::new(false),
            deadline: Instant::now() + lifetime,
        })
    }

    fn is_over(&self) -> bool {
        *self.ended.borrow() || Instant::now() >= self.deadline
    }

    /// Waits until the transaction has ended or its time is over, at most until `limit`.
    pub(crate) async fn wait(&self, limit: Instant) {
        let mut ended = self.ended.subscribe();
        let ending = ended.wait_for(|ended| *ended);
        // In either case the waiter checks again.
        tokio::select! {
            _ = ending => {}
            () = tokio::time::sleep_until(self.deadline.min(limit)) => {}
        }
    }
}

/// Why an intent could not be noted.
pub(crate) enum Refusal {
    /// Another open transaction holds the key.
    Held(Arc<Holder>),
    /// There are too many intents already.
    Full,
}

impl Intents {
    pub(crate) fn new() -> Self {
        Self {
            holders: DashMap::new(),
            count: AtomicUsize::new(0),
            hasher: RandomState::new(),
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The error of [`Refusal::Full`].
    pub(crate) fn too_many(&self) -> Error {
        Error::TooLarge {
            what: "the write intents of all open transactions",
            size: self.count.load(Ordering::Relaxed) * BYTES_PER_INTENT,
            limit: MAX_INTENTS * BYTES_PER_INTENT,
        }
    }

    /// The open transaction that is about to change `key`, if there is one.
    pub(crate) fn holder(&self, key: &[u8]) -> Option<Arc<Holder>> {
        if self.is_empty() {
            return None;
        }
        let holder = self.holders.get(&self.hasher.hash_one(key))?;
        (!holder.is_over()).then(|| Arc::clone(&holder))
    }

    fn take(&self, hash: u64, taker: &Arc<Holder>) -> std::result::Result<(), Refusal> {
        match self.holders.entry(hash) {
            Entry::Occupied(mut held) => {
                if !held.get().is_over() {
                    return Err(Refusal::Held(Arc::clone(held.get())));
                }
                held.insert(Arc::clone(taker));
            }
            Entry::Vacant(free) => {
                if self.count.load(Ordering::Relaxed) >= MAX_INTENTS {
                    return Err(Refusal::Full);
                }
                self.count.fetch_add(1, Ordering::Relaxed);
                free.insert(Arc::clone(taker));
            }
        }
        Ok(())
    }

    fn release(&self, hash: u64, holder: &Arc<Holder>) {
        let own = |_: &u64, held: &Arc<Holder>| Arc::ptr_eq(held, holder);
        if self.holders.remove_if(&hash, own).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The intents of one open transaction, given up when it is dropped.
pub(crate) struct HeldIntents {
    intents: Arc<Intents>,
    holder: Arc<Holder>,
    hashes: HashSet<u64>,
}

impl HeldIntents {
    pub(crate) fn new(intents: Arc<Intents>, lifetime: Duration) -> Self {
        Self {
            intents,
            holder: Holder::new(lifetime),
            hashes: HashSet::new(),
        }
    }

    /// Records that the transaction is about to change `key`; returns whether that is new.
    pub(crate) fn take(&mut self, key: &[u8]) -> std::result::Result<bool, Refusal> {
        let hash = self.intents.hasher.hash_one(key);
        if self.hashes.contains(&hash) {
            return Ok(false);
        }
        self.intents.take(hash, &self.holder)?;
        self.hashes.insert(hash);
        Ok(true)
    }

    /// When the transaction's time is over.
    pub(crate) fn deadline(&self) -> Instant {
        self.holder.deadline
    }

    /// Refuses a transaction past its deadline: another one may have its intents by now.
    pub(crate) fn check_time(&self) -> Result<()> {
        if self.holder.is_over() {
            return Err(Error::Conflict);
        }
        Ok(())
    }
}

impl Drop for HeldIntents {
    fn drop(&mut self) {
        for hash in &self.hashes {
            self.intents.release(*hash, &self.holder);
        }
        self.holder.ended.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn takers(intents: &Arc<Intents>, count: usize) -> Vec<Option<HeldIntents>> {
        let taker = || HeldIntents::new(Arc::clone(intents), LONG);
        (0..count).map(|_| Some(taker())).collect()
    }

    proptest! {
        /// Against a plain map: a key has at most one holder, and only its holder's end frees it.
        #[test]
        fn intents_equal_a_map_of_owners(
            steps in prop::collection::vec((0usize..4, 0u8..6, any::<bool>()), 0..60),
        ) {
            let intents = Arc::new(Intents::new());
            let mut open = takers(&intents, 4);
            let mut owners = std::collections::HashMap::new();
            for (who, key, ends) in steps {
                if ends {
                    open[who] = None;
                    owners.retain(|_, owner| *owner != who);
                    open[who] = takers(&intents, 1).pop().unwrap();
                    continue;
                }
                let taken = open[who].as_mut().unwrap().take(&[key]);
                match owners.get(&key) {
                    Some(owner) if *owner != who => {
                        prop_assert!(matches!(taken, Err(Refusal::Held(_))));
                    }
                    owner => prop_assert_eq!(taken.ok(), Some(owner.is_none())),
                }
                owners.entry(key).or_insert(who);
                for key in 0..6 {
                    prop_assert_eq!(intents.holder(&[key]).is_some(), owners.contains_key(&key));
                }
                prop_assert_eq!(intents.count.load(Ordering::Relaxed), owners.len());
            }
            drop(open);
            prop_assert_eq!(intents.count.load(Ordering::Relaxed), 0);
            prop_assert!(intents.holders.is_empty());
        }
    }

    #[tokio::test]
    async fn a_transaction_beyond_its_time_holds_nothing() {
        let intents = Arc::new(Intents::new());
        let mut late = HeldIntents::new(Arc::clone(&intents), Duration::ZERO);
        late.take(b"k").ok().unwrap();
        assert!(intents.holder(b"k").is_none());
        assert_eq!(late.check_time(), Err(Error::Conflict));
        let mut next = HeldIntents::new(Arc::clone(&intents), LONG);
        assert!(matches!(next.take(b"k"), Ok(true)));
        drop(late);
        assert!(intents.holder(b"k").is_some(), "it was no longer its own");
    }

    #[tokio::test]
    async fn waiters_go_on_at_the_end_or_at_their_limit() {
        let intents = Arc::new(Intents::new());
        let mut open = HeldIntents::new(Arc::clone(&intents), LONG);
        open.take(b"k").ok().unwrap();
        let holder = intents.holder(b"k").unwrap();
        holder.wait(Instant::now()).await;
        let far = Instant::now() + LONG;
        let waiting = tokio::spawn(async move { holder.wait(far).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(open);
        tokio::time::timeout(LONG / 2, waiting)
            .await
            .unwrap()
            .unwrap();
    }
}
