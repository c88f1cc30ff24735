//! Who may compute for long: so many at once, the others in the order in which they came.

use std::collections::VecDeque;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use super::{Interruption, SLICE};

/// More than these do not wait: each holds a thread and what it has computed so far.
const MOST_WAITING: usize = 64;

/// How long a waiting computation sleeps before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// The turns of this process: half of its cores, so that the workers have the rest.
pub(super) static TURNS: LazyLock<Turns> =
    LazyLock::new(|| Turns::new(available_parallelism().map_or(1, |cores| cores.get() / 2)));

pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    free: usize,
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
            ..State::default()
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
            if state.free > 0 && state.waiting.front() == Some(&ticket) {
                state.free -= 1;
                break Ok(());
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
        now.duration_since(self.since) >= SLICE && !self.turns.lock().waiting.is_empty()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().free += 1;
        self.turns.changed.notify_all();
    }
}
