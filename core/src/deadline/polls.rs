//! The longest poll of a task: for how much processor time one kept its worker from others.
//!
//! Every task of the server runs within [`measured`]. Reading a thread's processor time is a system
//! call, so it is read only when a tick of the coarse clock, some milliseconds, has passed: at the
//! first poll of a thread within a tick, and at the end of a poll that lasted beyond its tick. What
//! is noted may therefore be too long by what the thread did earlier in that tick, and never too
//! short. A poll that gives its worker away (see [`super`]) ends there.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::task::JoinHandle;

/// A poll that takes longer than this is counted as long.
pub const LONG_POLL: Duration = Duration::from_millis(10);

/// What a poll does until somebody says more.
const CONNECTION: &str = "connection";

/// The longest polls of all tasks of one kind since the server started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongestPoll {
    /// Whose tasks: a front end's name, or what works in the background.
    pub tasks: &'static str,
    /// What was done last in it: the kind of the command, nothing of its values.
    pub what: &'static str,
    /// The processor time of its thread.
    pub took: Duration,
}

static LONGEST: Mutex<Vec<LongestPoll>> = Mutex::new(Vec::new());
static LONG_POLLS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The tick in which this thread's processor time was read, and that time.
    static TICK: Cell<Timespec> = const { Cell::new(Timespec { tv_sec: 0, tv_nsec: 0 }) };
    static USED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Whose poll keeps a worker on this thread. None outside of polls, and after giving it away.
    static POLLED: Cell<Option<&'static str>> = const { Cell::new(None) };
    static WHAT: Cell<&'static str> = const { Cell::new(CONNECTION) };
}

/// The longest poll of each kind of tasks.
pub fn longest_polls() -> Vec<LongestPoll> {
    longest().clone()
}

/// How many polls took more than [`LONG_POLL`].
pub fn long_polls() -> u64 {
    LONG_POLLS.load(Ordering::Relaxed)
}

fn longest() -> MutexGuard<'static, Vec<LongestPoll>> {
    // Every change under the lock is complete on its own.
    LONGEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a task whose polls are measured.
pub async fn measured<F: Future>(tasks: &'static str, task: F) -> F::Output {
    let mut task = pin!(task);
    poll_fn(move |context| {
        let _measured = Measured::begin(tasks);
        task.as_mut().poll(context)
    })
    .await
}

/// Spawns a task whose polls are measured.
pub fn spawn<F>(tasks: &'static str, task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(measured(tasks, task))
}

/// Says what the poll on this thread does.
pub(super) fn note(what: &'static str) {
    WHAT.set(what);
}

/// Notes that the poll on this thread no longer keeps a worker.
pub(super) fn give_away() {
    if let Some(tasks) = POLLED.take() {
        end(tasks);
    }
}

/// A poll, unless it is within another one.
struct Measured {
    is_outermost: bool,
}

impl Measured {
    fn begin(tasks: &'static str) -> Self {
        let is_outermost = POLLED.get().is_none();
        if is_outermost {
            POLLED.set(Some(tasks));
            WHAT.set(CONNECTION);
            let tick = clock_gettime(ClockId::MonotonicCoarse);
            if tick != TICK.get() {
                read(tick);
            }
        }
        Self { is_outermost }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if self.is_outermost {
            give_away();
        }
    }
}

/// Notes how long a poll took, if it lasted beyond its tick.
fn end(tasks: &'static str) {
    let tick = clock_gettime(ClockId::MonotonicCoarse);
    if tick == TICK.get() {
        return;
    }
    let before = USED.get();
    let took = read(tick).saturating_sub(before);
    keep(LongestPoll {
        tasks,
        what: WHAT.get(),
        took,
    });
}

/// Reads this thread's processor time.
fn read(tick: Timespec) -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let used = Duration::try_from(used).unwrap_or_default();
    TICK.set(tick);
    USED.set(used);
    used
}

#[cold]
fn keep(poll: LongestPoll) {
    if poll.took > LONG_POLL {
        LONG_POLLS.fetch_add(1, Ordering::Relaxed);
    }
    let mut longest = longest();
    match longest.iter_mut().find(|known| known.tasks == poll.tasks) {
        Some(known) if known.took >= poll.took => {}
        Some(known) => *known = poll,
        None => longest.push(poll),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::{Deadline, step};
    use super::*;

    /// Longer than a coarse clock's tick anywhere.
    const PLANTED: Duration = Duration::from_millis(60);

    fn spin(time: Duration) {
        let began = clock_gettime(ClockId::ThreadCPUTime);
        let until = Duration::try_from(began).unwrap() + time;
        while Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap() < until {
            std::hint::spin_loop();
        }
    }

    fn longest_of(tasks: &str) -> Option<LongestPoll> {
        let mut all = longest_polls().into_iter();
        all.rfind(|poll| poll.tasks == tasks)
    }

    #[tokio::test]
    async fn a_planted_poll_is_noted_with_what_it_was() {
        let before = long_polls();
        let operation = Deadline::new(None, None).named("planted");
        measured("planted", async {
            tokio::task::yield_now().await;
            operation.run(async { spin(PLANTED) }).await;
        })
        .await;
        let longest = longest_of("planted").unwrap();
        assert_eq!(longest.what, "planted");
        assert!(longest.took >= PLANTED, "{longest:?}");
        assert!(longest.took < PLANTED * 5, "{longest:?}");
        assert!(long_polls() > before);
        // A shorter one does not take its place.
        measured("planted", async { spin(PLANTED / 2) }).await;
        assert_eq!(longest_of("planted"), Some(longest));
    }

    #[tokio::test]
    async fn sleeping_and_many_short_polls_are_not_long() {
        measured("asleep", async {
            std::thread::sleep(PLANTED);
            for _ in 0..60 {
                spin(Duration::from_millis(1));
                tokio::task::yield_now().await;
            }
        })
        .await;
        let longest = longest_of("asleep").unwrap();
        assert!(longest.took < PLANTED / 2, "{longest:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_poll_that_gives_its_worker_away_is_short() {
        let computing = measured("generous", async {
            let deadline = Deadline::new(None, None).named("computing");
            let compute = async {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(300) {
                    spin(Duration::from_micros(100));
                    step(1_000).unwrap();
                }
            };
            deadline.run(compute).await;
        });
        tokio::spawn(computing).await.unwrap();
        let took = longest_of("generous").map_or(Duration::ZERO, |longest| longest.took);
        assert!(took < Duration::from_millis(100), "{took:?}");
    }
}
