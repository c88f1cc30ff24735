//! Time for the core: wall clock for expiry, and versions that only grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time. Clones share their state.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    last_version: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    /// Stands at this many milliseconds until it is moved.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::new(Source::System)
    }

    /// A clock that stands still at `now_ms` until [`Self::advance`] moves it, for tests of expiry.
    pub fn manual(now_ms: u64) -> Self {
        Self::new(Source::Manual(Arc::new(AtomicU64::new(now_ms))))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            last_version: Arc::new(AtomicU64::new(0)),
        }
    }

    /// Moves a manual clock forward. The system's clock moves by itself.
    pub fn advance(&self, by_ms: u64) {
        if let Source::Manual(now) = &self.source {
            now.fetch_add(by_ms, Ordering::Relaxed);
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.now_us() / 1_000
    }

    /// A version above every version given before and above `previous`: the time in microseconds
    /// where that is so already.
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
            Source::System => {
                let elapsed = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
            }
            Source::Manual(now) => now.load(Ordering::Relaxed).saturating_mul(1_000),
        }
    }
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
}
