//! How long a synced batch waits for more commits.
//!
//! A sync takes long compared with everything else, so it pays to wait a little for writers that
//! were just answered and are about to come back. A batch only waits if more writers were seen than
//! are queued, never for longer than a fraction of a sync, and not for a while after waits in vain:
//! a single writer never waits, and slow writers cost next to nothing.

use std::time::Duration;

/// The wait is at most this part of the last write: enough for writers that send the next write at
/// once, and a small loss for the others.
const FRACTION: u32 = 8;
/// The wait is never longer than this.
const MAX_PATIENCE: Duration = Duration::from_millis(1);
/// After waits in vain, at most this many batches do not wait.
const MAX_PAUSE: u32 = 64;

/// Decides when a batch waits for more commits.
#[derive(Debug)]
pub(super) struct Grouping {
    /// Concurrent writers: those of the last batch and those that queued meanwhile.
    expected: usize,
    last_write: Duration,
    /// Batches to go before waiting is tried again.
    pause: u32,
    next_pause: u32,
    pub(super) max_patience: Duration,
}

impl Default for Grouping {
    fn default() -> Self {
        Self {
            expected: 0,
            last_write: Duration::ZERO,
            pause: 0,
            next_pause: 0,
            max_patience: MAX_PATIENCE,
        }
    }
}

impl Grouping {
    /// How many commits a batch should wait for, and how long, given those already there.
    pub(super) fn wait_for(&mut self, present: usize) -> Option<(usize, Duration)> {
        if present >= self.expected {
            return None;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        self.likely()
    }

    /// How many commits are likely to come at once, and how long that may take; none if waiting was
    /// in vain lately.
    pub(super) fn likely(&self) -> Option<(usize, Duration)> {
        let patience = (self.last_write / FRACTION).min(self.max_patience);
        (self.pause == 0 && self.expected > 1).then_some((self.expected, patience))
    }

    /// Records a wait: with how many commits it began, and with how many it ended.
    pub(super) fn waited(&mut self, present: usize, gathered: usize) {
        let missing = self.expected.saturating_sub(present);
        let rewarded = (gathered - present) * 4 >= missing;
        self.next_pause = match rewarded {
            true => 0,
            false => (self.next_pause * 2).clamp(1, MAX_PAUSE),
        };
        self.pause = self.next_pause;
    }

    /// Records a finished batch: its size, how long it took to write, and how many commits queued
    /// meanwhile.
    pub(super) fn wrote(&mut self, batch: usize, took: Duration, queued: usize) {
        self.expected = batch + queued;
        self.last_write = took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(400);

    #[test]
    fn a_single_writer_never_waits() {
        let mut grouping = Grouping::default();
        for _ in 0..3 {
            assert_eq!(grouping.wait_for(1), None);
            grouping.wrote(1, SYNC, 0);
        }
    }

    #[test]
    fn a_batch_waits_for_the_writers_that_were_just_answered() {
        let mut grouping = Grouping::default();
        grouping.wrote(16, SYNC, 16);
        assert_eq!(grouping.wait_for(16), Some((32, SYNC / 8)));
        grouping.waited(16, 30);
        grouping.wrote(30, Duration::from_secs(1), 2);
        assert_eq!(grouping.wait_for(3), Some((32, MAX_PATIENCE)));
        assert_eq!(grouping.wait_for(32), None);
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut grouping = Grouping::default();
        let mut waits = 0;
        for _ in 0..1_000 {
            grouping.wrote(8, SYNC, 8);
            if grouping.wait_for(8).is_some() {
                waits += 1;
                grouping.waited(8, 8);
            }
        }
        assert!((10..30).contains(&waits), "{waits}");
    }
}
