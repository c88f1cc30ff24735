//! Time for the core: a wall clock for expiry, a steady clock for rates and budgets, and versions
//! that only grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time. Clones share their state.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    last_version: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Source {
    /// The system's clocks, and the origin of the steady one.
    System { began: Instant, began_ms: u64 },
    /// A manual clock.
    Manual(Arc<Manual>),
}

/// A clock of tests, in milliseconds.
#[derive(Debug)]
struct Manual {
    wall: AtomicU64,
    steady: AtomicU64,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(Source::System {
            began: Instant::now(),
            began_ms: millis(since_1970()),
        })
    }

    /// A clock that stands still at `now_ms` until [`Self::advance`] moves it, for tests.
    pub fn manual(now_ms: u64) -> Self {
        Self::new(Source::Manual(Arc::new(Manual {
            wall: AtomicU64::new(now_ms),
            steady: AtomicU64::new(now_ms),
        })))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            last_version: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Lets time pass for a manual clock. The system's clock moves by itself.
    pub fn advance(&self, by_ms: u64) {
        if let Source::Manual(manual) = &self.source {
            manual.wall.fetch_add(by_ms, Ordering::Relaxed);
            manual.steady.fetch_add(by_ms, Ordering::Relaxed);
        }
    }

    /// Sets the wall clock of a manual clock, as an administrator or NTP does: no time passes.
    pub fn set_wall(&self, now_ms: u64) {
        if let Source::Manual(manual) = &self.source {
            manual.wall.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        match &self.source {
            Source::System { .. } => millis(since_1970()),
            Source::Manual(manual) => manual.wall.load(Ordering::Relaxed),
        }
    }

    /// Milliseconds that never jump when the wall clock is set: its time when this clock was made
    /// plus what has passed since. Comparable only within one clock.
    pub fn steady_ms(&self) -> u64 {
        match &self.source {
            Source::System { began, began_ms } => began_ms + millis(began.elapsed()),
            Source::Manual(manual) => manual.steady.load(Ordering::Relaxed),
        }
    }

    /// A version above every version given before and above `previous`: the time in microseconds if
    /// that is larger.
    pub fn next_version(&self, previous: u64) -> u64 {
        let floor = self.now_us().max(previous.saturating_add(1));
        let mut last = self.last_version.load(Ordering::Relaxed);
        loop {
            let next = floor.max(last.saturating_add(1));
            match self.last_version.compare_exchange_weak(
                last,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return next,
                Err(current) => last = current,
            }
        }
    }

    fn now_us(&self) -> u64 {
        match &self.source {
            Source::System { .. } => u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX),
            Source::Manual(manual) => manual.wall.load(Ordering::Relaxed).saturating_mul(1_000),
        }
    }
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Without the wide division of [`Duration::as_millis`]: every request comes here.
fn millis(duration: Duration) -> u64 {
    duration.as_secs() * 1_000 + u64::from(duration.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_even_when_time_stands_still() {
        let clock = Clock::manual(5);
        let first = clock.next_version(0);
        let second = clock.next_version(0);
        assert!(second > first);
        assert_eq!(clock.next_version(1_000_000), 1_000_001);
    }

    #[test]
    fn steady_time_does_not_follow_a_wall_clock_that_is_set() {
        let clock = Clock::manual(5_000);
        for wall in [0, 86_400_000, 1, u64::MAX / 2] {
            let before = clock.steady_ms();
            clock.set_wall(wall);
            assert_eq!((clock.now_ms(), clock.steady_ms()), (wall, before));
            clock.advance(7);
            assert_eq!((clock.now_ms(), clock.steady_ms()), (wall + 7, before + 7));
        }
        let system = Clock::system();
        assert!(system.steady_ms().abs_diff(system.now_ms()) < 60_000);
        assert!(system.steady_ms() <= system.steady_ms());
    }
}
