//! Latches for hot items: writers of one item queue up instead of conflicting again and again.
//!
//! Latches are never needed for correctness, which is the engine's: they only spare retries. Taken
//! for one statement's read-modify-write, never across a client's round trip, and always in the
//! order of the stripes, so that two statements cannot wait for each other.
//!
//! The holder of a latch may hand a value on to the next in the queue (`crate::convoy`), but only
//! to one that was already waiting at a given moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;
use tokio::sync::oneshot;

use crate::locator::Locator;
use crate::name::ContainerName;

/// Many, so that writers of different items seldom meet: half a megabyte.
const STRIPES: usize = 8_192;

/// A fixed number of latches, shared by all keys. `H` is the type of the value that is handed on.
pub(crate) struct Latches<H> {
    stripes: Box<[Mutex<Queue<H>>]>,
    /// Used by every write, so it is fast; it is seeded, so that clients cannot provoke collisions.
    hasher: ahash::RandomState,
}

/// An item as a hash.
pub(crate) type LatchedItem<'a> = (&'a ContainerName, &'a Locator);

/// Holds latches until dropped.
pub(crate) struct Latched<H>(SmallVec<[Turn<H>; 2]>);

/// The queue of one latch.
struct Queue<H> {
    held: bool,
    /// How many have waited so far.
    arrived: u64,
    waiting: VecDeque<Waiting<H>>,
}

struct Waiting<H> {
    /// Its number among all that ever waited.
    number: u64,
    /// Whether it takes a value that is handed on.
    joins: bool,
    turn: oneshot::Sender<Turn<H>>,
}

/// A held latch and the value that came with it. When dropped, it goes to the next in the queue.
struct Turn<H> {
    latches: Arc<Latches<H>>,
    stripe: usize,
    handed: Option<H>,
}

/// All tasks that waited for a latch up to some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    end: u64,
}

impl<H> Latches<H> {
    pub(crate) fn new() -> Self {
        let queue = || Queue {
            held: false,
            arrived: 0,
            waiting: VecDeque::new(),
        };
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::new(queue())).collect(),
            hasher: ahash::RandomState::new(),
        }
    }

    /// Waits for the latches of all `items`. A task that waits for a single one and joins may be
    /// handed a value with it.
    pub(crate) async fn lock(
        self: &Arc<Self>,
        items: &[LatchedItem<'_>],
        joins: bool,
    ) -> Latched<H> {
        let mut stripes: SmallVec<[usize; 4]> =
            items.iter().map(|item| self.position(item)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let joins = joins && stripes.len() == 1;
        let mut turns = SmallVec::new();
        for stripe in stripes {
            turns.push(self.take(stripe, joins).await);
        }
        Latched(turns)
    }

    fn position(&self, item: &LatchedItem<'_>) -> usize {
        let stripe = self.hasher.hash_one(item) % (self.stripes.len() as u64);
        usize::try_from(stripe).unwrap_or(0)
    }

    fn queue(&self, stripe: usize) -> Option<MutexGuard<'_, Queue<H>>> {
        let queue = self.stripes.get(stripe)?.lock();
        Some(queue.unwrap_or_else(PoisonError::into_inner))
    }

    fn turn(self: &Arc<Self>, stripe: usize, handed: Option<H>) -> Turn<H> {
        Turn {
            latches: Arc::clone(self),
            stripe,
            handed,
        }
    }

    async fn take(self: &Arc<Self>, stripe: usize, joins: bool) -> Turn<H> {
        loop {
            let waiting = self.queue(stripe).and_then(|mut queue| queue.enter(joins));
            let turn = match waiting {
                None => return self.turn(stripe, None),
                Some(turn) => turn.await,
            };
            // The holder passes the latch on before it drops the receiver that others wait with.
            if let Ok(turn) = turn {
                return turn;
            }
        }
    }
}

impl<H> Queue<H> {
    /// Takes the latch if it is free, or waits for it.
    fn enter(&mut self, joins: bool) -> Option<oneshot::Receiver<Turn<H>>> {
        if !self.held {
            self.held = true;
            return None;
        }
        let (turn, waiting) = oneshot::channel();
        self.waiting.push_back(Waiting {
            number: self.arrived,
            joins,
            turn,
        });
        self.arrived += 1;
        Some(waiting)
    }

    /// The next task that still waits; if there is none, the latch is free.
    fn leave(&mut self) -> Option<Waiting<H>> {
        let next = self.next(|_| true);
        self.held = next.is_some();
        next
    }

    /// The next task that still waits, if it is one of these.
    fn next(&mut self, wanted: impl Fn(&Waiting<H>) -> bool) -> Option<Waiting<H>> {
        while self.waiting.front()?.turn.is_closed() {
            self.waiting.pop_front();
        }
        self.waiting.pop_front_if(|next| wanted(next))
    }
}

impl<H> Latched<H> {
    /// The value that came with the latch.
    pub(crate) fn take_handed(&mut self) -> Option<H> {
        self.0.first_mut()?.handed.take()
    }

    /// The tasks that wait for the latch now; none if several latches are held or the queue is
    /// empty.
    pub(crate) fn crowd(&self) -> Option<Crowd> {
        let [turn] = self.0.as_slice() else {
            return None;
        };
        let queue = turn.latches.queue(turn.stripe)?;
        let crowd = Crowd { end: queue.arrived };
        (!queue.waiting.is_empty()).then_some(crowd)
    }

    /// Gives the latch to the next task, together with `handed`. The task must be one of this
    /// crowd, and join; otherwise everything stays here.
    pub(crate) fn hand_on(mut self, handed: H, crowd: Crowd) -> Result<(), (Self, H)> {
        let Some(mut turn) = self.0.pop() else {
            return Err((self, handed));
        };
        let next = turn.latches.queue(turn.stripe).and_then(|mut queue| {
            queue.next(|waiting| waiting.joins && waiting.number < crowd.end)
        });
        let Some(next) = next else {
            self.0.push(turn);
            return Err((self, handed));
        };
        turn.handed = Some(handed);
        // A task that has just given up drops what it was sent.
        drop(next.turn.send(turn));
        Ok(())
    }
}

impl<H> Drop for Turn<H> {
    fn drop(&mut self) {
        drop(self.handed.take());
        let next = self.latches.queue(self.stripe);
        if let Some(next) = next.and_then(|mut queue| queue.leave()) {
            drop(next.turn.send(self.latches.turn(self.stripe, None)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latches() -> (Arc<Latches<u32>>, ContainerName, Locator) {
        let name = ContainerName::new("test", "db", "c");
        (Arc::new(Latches::new()), name, Locator::murmur3("p", "r"))
    }

    /// A task that waits for the latch, and reports what it was handed and its name.
    fn waiting(
        (latches, name, locator): &(Arc<Latches<u32>>, ContainerName, Locator),
        joins: bool,
    ) -> tokio::task::JoinHandle<(Latched<u32>, Option<u32>)> {
        let (latches, name, locator) = (Arc::clone(latches), name.clone(), locator.clone());
        tokio::spawn(async move {
            let mut latched = latches.lock(&[(&name, &locator)], joins).await;
            let handed = latched.take_handed();
            (latched, handed)
        })
    }

    /// Lets all tasks run as far as they can.
    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_latch_goes_from_one_to_the_next_and_past_those_who_gave_up() {
        let all = latches();
        let (first, _) = waiting(&all, true).await.unwrap();
        let (gone, second, third) = (
            waiting(&all, true),
            waiting(&all, true),
            waiting(&all, true),
        );
        settle().await;
        gone.abort();
        settle().await;
        drop(first);
        let (second, handed) = second.await.unwrap();
        assert_eq!(handed, None);
        settle().await;
        assert!(!third.is_finished());
        drop(second);
        drop(third.await.unwrap());
        drop(waiting(&all, false).await.unwrap());
    }

    #[tokio::test]
    async fn only_those_of_a_crowd_are_handed_something() {
        let all = latches();
        let (first, _) = waiting(&all, true).await.unwrap();
        assert!(first.crowd().is_none());
        let second = waiting(&all, true);
        settle().await;
        let crowd = first.crowd().unwrap();
        let late = waiting(&all, true);
        settle().await;
        assert!(first.hand_on(7, crowd).is_ok());
        let (second, handed) = second.await.unwrap();
        assert_eq!(handed, Some(7));
        let (second, kept) = second.hand_on(8, crowd).unwrap_err();
        assert_eq!(kept, 8);
        drop(second);
        assert_eq!(late.await.unwrap().1, None);
    }

    #[tokio::test]
    async fn who_does_not_join_is_handed_nothing_and_keeps_its_place() {
        let all = latches();
        let (first, _) = waiting(&all, true).await.unwrap();
        let (second, third) = (waiting(&all, false), waiting(&all, true));
        settle().await;
        let crowd = first.crowd().unwrap();
        let (first, _) = first.hand_on(7, crowd).unwrap_err();
        drop(first);
        assert_eq!(second.await.unwrap().1, None);
        assert_eq!(third.await.unwrap().1, None);
    }

    #[tokio::test]
    async fn what_was_handed_to_one_who_gave_up_is_dropped_and_the_latch_goes_on() {
        let (latches, name, locator) = latches();
        let item: [LatchedItem<'_>; 1] = [(&name, &locator)];
        let first = latches.lock(&item, true).await;
        let mut second = Box::pin(latches.lock(&item, true));
        tokio::select! {
            biased;
            _ = &mut second => unreachable!("the latch is held"),
            () = tokio::task::yield_now() => {}
        }
        let crowd = first.crowd().unwrap();
        assert!(first.hand_on(7, crowd).is_ok());
        // It has the latch and never learns of it.
        drop(second);
        assert_eq!(latches.lock(&item, true).await.take_handed(), None);
    }
}
