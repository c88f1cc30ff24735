//! Who may compute for long: so many at once, the others in the order in which they came.

use std::collections::VecDeque;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use super::{Interruption, SLICE};

/// More than these do not wait: each holds a thread and what it has computed so far.
const MOST_WAITING: usize = 64;

/// After this time without a look the turns that are taken count as lost.
const STUCK: Duration = Duration::from_millis(500);

/// How long a waiting computation sleeps before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// The turns of this process: half of its cores, so that the workers have the rest.
pub(super) static TURNS: LazyLock<Turns> =
    LazyLock::new(|| Turns::new(available_parallelism().map_or(1, |cores| cores.get() / 2)));

pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: usize,
    /// Turns beside those that nobody gives back, as it seems.
    lent: usize,
    /// When one was taken last, or its owner last looked whether it is over.
    progress: Instant,
    waiting: VecDeque<u64>,
    last_ticket: u64,
}

/// The right to compute, until it is dropped.
pub(super) struct Turn {
    turns: &'static Turns,
    since: Instant,
}

impl Turns {
    fn new(most: usize) -> Self {
        let state = State {
            free: most.max(1),
            lent: 0,
            progress: Instant::now(),
            waiting: VecDeque::new(),
            last_ticket: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete on its own.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn as long as it is wanted.
    pub(super) fn wait(
        &'static self,
        mut wanted: impl FnMut() -> Result<(), Interruption>,
    ) -> Result<Turn, Interruption> {
        let mut state = self.lock();
        if state.waiting.len() >= MOST_WAITING {
            return Err(Interruption::Crowded);
        }
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        state.waiting.push_back(ticket);
        let outcome = loop {
            if state.waiting.front() == Some(&ticket) {
                if state.free == 0 && state.progress.elapsed() > STUCK {
                    // Something counts no steps, which must not hold up all others.
                    state.lent += 1;
                    state.free += 1;
                }
                if state.free > 0 {
                    state.free -= 1;
                    state.progress = Instant::now();
                    break Ok(());
                }
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            let still = wanted();
            state = self.lock();
            if still.is_err() {
                break still;
            }
        };
        state.waiting.retain(|waiting| *waiting != ticket);
        drop(state);
        self.changed.notify_all();
        outcome.map(|()| Turn {
            turns: self,
            since: Instant::now(),
        })
    }
}

impl Turn {
    /// Whether it lasted long enough, and somebody else waits for one.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        if now.duration_since(self.since) < SLICE {
            return false;
        }
        let mut state = self.turns.lock();
        state.progress = now;
        !state.waiting.is_empty()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        match state.lent.checked_sub(1) {
            Some(lent) => state.lent = lent,
            None => state.free += 1,
        }
        drop(state);
        self.turns.changed.notify_all();
    }
}
