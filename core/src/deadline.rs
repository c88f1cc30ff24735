//! Bounds of one operation: its time, its cancellation, its share of threads and of memory.
//!
//! Every loop whose length a client decides calls [`step`]. A step is a decrement of a counter;
//! only every [`STEPS_BETWEEN_LOOKS`] of them the clock and the operation's [`Watch`] are looked
//! at. What is counted belongs to the operation whose [`Deadline`] is being polled on this thread,
//! as tokio's own budget does: a comparison deep within a sort need not be handed anything.
//!
//! A computation cannot yield in its middle. When one poll has taken more than [`IN_PLACE`], its
//! worker is given away: tokio moves the worker's queue to another thread, and the rest of the poll
//! goes on as a thread of its own, of which only so many run at once (`turns`). So what is short
//! pays nothing, what is long needs neither ownership of its inputs nor a second start, and
//! no computation keeps others from being answered.

mod memory;
mod polls;
mod sorting;
mod turns;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::memory_budget::{Grant, MemoryBudget, OutOfMemory};
pub use polls::{LONG_POLL, LongestPoll, long_polls, longest_polls, measured, spawn};

use memory::{COVERED, Memory};
pub use memory::{Held, cover, grant, keep, leave_to_answer};
pub use sorting::sort_by;
use turns::{TURNS, Turn};

/// Steps between two looks at the clock. A step is some ten to a hundred nanoseconds of work.
pub const STEPS_BETWEEN_LOOKS: u32 = 1_000;

/// So many steps at once are long work that is about to begin, and have no place on a worker.
const LONG_WORK: usize = 10_000;

/// So many bytes take longer than a millisecond to be gone through, if it is done a few times.
const LARGE: usize = 256 << 10;

/// How long a poll may compute on a worker.
pub const IN_PLACE: Duration = Duration::from_millis(1);

/// How long a thread that gave its worker away sleeps at a time, and in all, until somebody else
/// runs tasks. A worker that nobody took comes back after that: with it the tasks would stand still
/// if there is no other one.
const GIVE_AWAY: Duration = Duration::from_micros(100);
const GIVEN_AWAY: Duration = Duration::from_millis(50);

/// How long a computation goes on before it lets another one have its turn.
const SLICE: Duration = Duration::from_millis(50);

/// How often the operation's own watch is asked, which may cost a system call.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(20);

/// Why an operation may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Interruption {
    /// Its time is over.
    #[error("operation exceeded time limit")]
    TimeLimit,
    /// Somebody asked for its end, or nobody is there any more to take the answer.
    #[error("operation was interrupted")]
    Cancelled,
    /// The server stops.
    #[error("interrupted at shutdown")]
    Shutdown,
    /// Too many others compute as long as this one.
    #[error("too many operations that compute for long; try again later")]
    Crowded,
    /// Its values take too much memory.
    #[error(transparent)]
    Memory(OutOfMemory),
}

/// Tells whether an operation is still wanted.
pub trait Watch: Send + Sync {
    /// Why the operation should end. `is_long` if it computes for longer than others may wait.
    fn interruption(&self, is_long: bool) -> Option<Interruption>;
}

/// The bounds of one operation.
///
/// In a box, because each poll moves them to its thread and back.
pub struct Deadline(Box<State>);

struct State {
    limit: Option<Instant>,
    /// A limit that counts from the first look, for operations that mostly end before it.
    patience: Option<Duration>,
    /// What the operation is, for those who look why a poll was long.
    what: &'static str,
    watch: Option<Arc<dyn Watch>>,
    interrupted: Option<Interruption>,
    /// When the poll that goes on was first looked at.
    began: Option<Instant>,
    asked: Option<Instant>,
    turn: Option<Turn>,
    /// When the worker is given away again, should it have come back.
    give_away: Option<Instant>,
    is_long: bool,
    memory: Memory,
}

thread_local! {
    /// Steps until the next look. Without an operation there is nothing to look at.
    static LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    /// The operation that is polled on this thread.
    static CURRENT: RefCell<Option<Box<State>>> = const { RefCell::new(None) };
}

impl Deadline {
    /// The bounds of an operation that begins now.
    pub fn new(limit: Option<Duration>, watch: Option<Arc<dyn Watch>>) -> Self {
        Self(Box::new(State {
            limit: limit.and_then(|limit| Instant::now().checked_add(limit)),
            patience: None,
            what: "",
            watch,
            interrupted: None,
            began: None,
            asked: None,
            turn: None,
            give_away: None,
            is_long: false,
            memory: Memory::new(),
        }))
    }

    /// The bounds of an operation that may compute for so long, counted from when it has computed
    /// for longer than most do: so those need not look at the clock.
    pub fn patient(patience: Duration, watch: Option<Arc<dyn Watch>>) -> Self {
        let mut deadline = Self::new(None, watch);
        deadline.0.patience = Some(patience);
        deadline
    }

    /// The same for an operation of this name, which is shown if one of its polls is long.
    #[must_use]
    pub fn named(mut self, what: &'static str) -> Self {
        self.0.what = what;
        self
    }

    /// The same, with a part of this memory.
    #[must_use]
    pub fn within(mut self, budget: MemoryBudget) -> Self {
        self.0.memory.within(budget);
        self
    }

    /// Runs an operation within these bounds.
    pub async fn run<F: Future>(self, operation: F) -> F::Output {
        self.run_for_answer(operation).await.0
    }

    /// Runs an operation, and answers what its answer takes too: [`leave_to_answer`].
    pub async fn run_for_answer<F: Future>(self, operation: F) -> (F::Output, Option<Grant>) {
        let mut operation = pin!(operation);
        let mut deadline = Some(self.0);
        poll_fn(move |context| {
            let polled = {
                let _entered = Entered::new(&mut deadline);
                operation.as_mut().poll(context)
            };
            polled.map(|output| {
                let deadline = deadline.as_mut();
                (
                    output,
                    deadline.and_then(|deadline| deadline.memory.answer.take()),
                )
            })
        })
        .await
    }
}

impl State {
    fn look(&mut self) -> Result<(), Interruption> {
        if let Some(interruption) = self.interrupted {
            return Err(interruption);
        }
        let now = Instant::now();
        let outcome = self.check(now).and_then(|()| self.make_way(now));
        self.interrupted = outcome.err();
        outcome
    }

    fn check(&mut self, now: Instant) -> Result<(), Interruption> {
        if let Some(patience) = self.patience.take() {
            self.limit = now.checked_add(patience);
        }
        if self.limit.is_some_and(|limit| now >= limit) {
            return Err(Interruption::TimeLimit);
        }
        let asked = *self.asked.get_or_insert(now);
        if let Some(watch) = &self.watch
            && now.duration_since(asked) >= BETWEEN_QUESTIONS
        {
            self.asked = Some(now);
            return watch.interruption(self.is_long).map_or(Ok(()), Err);
        }
        Ok(())
    }

    /// Gives the worker away if this poll took its time, and the turn if it had it for long.
    fn make_way(&mut self, now: Instant) -> Result<(), Interruption> {
        let began = *self.began.get_or_insert(now);
        if now.duration_since(began) < IN_PLACE || !on_worker() {
            return Ok(());
        }
        self.is_long = true;
        if self.turn.as_ref().is_some_and(|turn| turn.is_over(now)) {
            self.turn = None;
        }
        let has_turn = self.turn.is_some();
        if has_turn && self.give_away.is_some_and(|next| now < next) {
            return Ok(());
        }
        polls::give_away();
        let outcome = tokio::task::block_in_place(|| {
            if !has_turn {
                self.turn = Some(TURNS.wait(|| self.check(Instant::now()))?);
            }
            wait_for_others();
            Ok(())
        });
        // Whether the worker is gone cannot be asked. Giving nothing away costs nothing, so it is
        // done again at growing distances.
        let now = Instant::now();
        self.give_away = now.checked_add(now.duration_since(began));
        outcome
    }
}

/// Whether this thread may have a worker that others wait for.
fn on_worker() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Sleeps until somebody runs a task, which this thread does not while it gives its worker away.
fn wait_for_others() {
    let began = Instant::now();
    let runs = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&runs);
    // Nobody waits for it.
    drop(tokio::spawn(
        async move { told.store(true, Ordering::Relaxed) },
    ));
    while !runs.load(Ordering::Relaxed) && began.elapsed() < GIVEN_AWAY {
        std::thread::sleep(GIVE_AWAY);
    }
}

/// An operation on this thread, for one poll.
struct Entered<'a> {
    home: &'a mut Option<Box<State>>,
    outer: Option<Box<State>>,
    left: u32,
    covered: usize,
}

impl<'a> Entered<'a> {
    fn new(home: &'a mut Option<Box<State>>) -> Self {
        if let Some(deadline) = home {
            polls::note(deadline.what);
        }
        let room = home
            .as_ref()
            .map_or(usize::MAX, |deadline| deadline.memory.room());
        let outer = CURRENT.replace(home.take());
        let left = LEFT.replace(STEPS_BETWEEN_LOOKS);
        let covered = COVERED.replace(room);
        Self {
            home,
            outer,
            left,
            covered,
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        *self.home = CURRENT.replace(self.outer.take());
        LEFT.set(self.left);
        COVERED.set(self.covered);
        if let Some(deadline) = self.home {
            deadline.memory.rest();
            deadline.began = None;
            deadline.turn = None;
            deadline.give_away = None;
        }
    }
}

/// Counts so many steps of the operation that runs here, and says if it may not go on. Many steps
/// are counted before the work is done.
#[inline]
pub fn step(count: usize) -> Result<(), Interruption> {
    let left = LEFT.get() as usize;
    if let Some(rest) = left.checked_sub(count) {
        LEFT.set(u32::try_from(rest).unwrap_or(u32::MAX));
        return Ok(());
    }
    look(count)
}

/// Does what is linear in so many bytes and cannot be interrupted, as expanding and checking them,
/// or writing a reply. If these are many, the worker is given away for as long as it takes.
pub fn apart<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < LARGE || !on_worker() {
        return work();
    }
    polls::give_away();
    tokio::task::block_in_place(work)
}

/// Says what the operation does that runs here, for those who look why a poll was long.
pub fn doing(what: &'static str) {
    polls::note(what);
    CURRENT.with_borrow_mut(|current| {
        if let Some(deadline) = current {
            deadline.what = what;
        }
    });
}

/// Counts steps where nothing can be refused, as in a comparison: the next [`step`] will say it.
#[inline]
pub fn note(count: usize) {
    // What is interrupted stays so.
    let _said_later = step(count);
}

#[cold]
fn look(count: usize) -> Result<(), Interruption> {
    CURRENT.with_borrow_mut(|current| {
        let Some(deadline) = current else {
            LEFT.set(u32::MAX);
            return Ok(());
        };
        if count >= LONG_WORK {
            deadline.began = Instant::now().checked_sub(IN_PLACE).or(deadline.began);
        }
        let outcome = deadline.look();
        // What is interrupted is so at every step.
        LEFT.set(outcome.map_or(0, |()| STEPS_BETWEEN_LOOKS));
        outcome
    })
}

/// Lets others who run on this thread have their turn, if this poll took its time. For loops that
/// never wait for anything else.
///
/// A poll that gave its worker away keeps nobody waiting. It goes on: it would have to give away
/// another worker for what is left of its work, or drop on it what it made.
pub async fn pause() {
    let is_due = CURRENT.with_borrow_mut(|current| match current {
        Some(deadline) if deadline.turn.is_some() => {
            deadline.memory.rest();
            COVERED.set(deadline.memory.room());
            false
        }
        Some(deadline) => {
            let began = deadline.began;
            began.is_some_and(|began| began.elapsed() >= IN_PLACE)
        }
        None => false,
    });
    if is_due {
        yield_once().await;
    }
}

/// Steps for one item that is read or written: some microseconds of work.
pub(crate) const ITEM_STEPS: usize = 20;

/// Counts so many items of the operation that looks at them, and pauses: what it looks at may all
/// be in memory, so that it would never wait.
pub(crate) async fn examine(items: usize) -> Result<(), Interruption> {
    step(items.saturating_mul(ITEM_STEPS))?;
    pause().await;
    Ok(())
}

async fn yield_once() {
    let mut waited = false;
    poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
