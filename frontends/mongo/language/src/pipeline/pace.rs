//! Turns of a long computation: a stage that works on what is in memory never waits for anything,
//! so it stops now and then to let others who run here, and time limits, have theirs.

use std::future::poll_fn;
use std::task::Poll;

/// Documents between two turns.
const TURN: usize = 1_000;

/// Counts what was done since the last turn.
#[derive(Default)]
pub(super) struct Pace {
    done: usize,
}

impl Pace {
    /// Notes that so many documents were made or looked at.
    pub(super) async fn worked(&mut self, documents: usize) {
        self.done += documents;
        if self.done >= TURN {
            self.done = 0;
            turn().await;
        }
    }
}

/// Lets others have their turn.
pub(super) async fn turn() {
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
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn much_work_is_done_in_turns() {
        let mut pace = Pace::default();
        let mut turns = 0;
        for _ in 0..10 {
            let mut working = pin!(pace.worked(TURN / 2));
            let mut context = Context::from_waker(Waker::noop());
            while working.as_mut().poll(&mut context).is_pending() {
                turns += 1;
            }
        }
        assert_eq!(turns, 5);
    }
}
