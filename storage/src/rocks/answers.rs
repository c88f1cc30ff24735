//! Telling many writers that their commits are done.
//!
//! Waking an async task from outside of its runtime costs more than waking it from within, and the
//! commit thread has better things to do. So it wakes a few writers, and each of those wakes some
//! others before it goes on.

use tessera_core::engine::{CommitOutcome, EngineResult};
use tessera_core::write_set::WriteSet;
use tokio::sync::oneshot;

/// How many writers one writer answers, itself included.
const CHAIN: usize = 16;

/// Where one writer waits.
pub(super) type Waiting = oneshot::Sender<Answer>;

/// What one writer is told.
pub(super) struct Answer {
    pub(super) outcome: EngineResult<CommitOutcome>,
    /// The write set comes back: freeing it is the writer's work, not the commit thread's.
    _writes: WriteSet,
    /// Answers to others. Dropping them, on whatever way, passes them on.
    _others: Others,
}

/// Everything that the commit thread has to tell.
#[derive(Default)]
pub(super) struct Answers(Vec<(Waiting, EngineResult<CommitOutcome>, WriteSet)>);

impl Answers {
    pub(super) fn with_capacity(commits: usize) -> Self {
        Self(Vec::with_capacity(commits))
    }

    pub(super) fn add(
        &mut self,
        waiting: Waiting,
        outcome: EngineResult<CommitOutcome>,
        writes: WriteSet,
    ) {
        self.0.push((waiting, outcome, writes));
    }

    /// Tells everyone.
    pub(super) fn send(mut self) {
        while !self.0.is_empty() {
            let rest = self.0.len().saturating_sub(CHAIN);
            let mut chain = self.0.split_off(rest);
            if let Some(first) = chain.pop() {
                answer(first, Others(chain));
            }
        }
    }
}

#[derive(Default)]
struct Others(Vec<(Waiting, EngineResult<CommitOutcome>, WriteSet)>);

impl Drop for Others {
    fn drop(&mut self) {
        for other in self.0.drain(..) {
            answer(other, Self::default());
        }
    }
}

fn answer(
    (waiting, outcome, writes): (Waiting, EngineResult<CommitOutcome>, WriteSet),
    others: Others,
) {
    let answer = Answer {
        outcome,
        _writes: writes,
        _others: others,
    };
    // Nobody listens any more if the writer gave up waiting; its commit stands all the same, and
    // the answers to others that come back with the error are passed on by dropping them.
    drop(waiting.send(answer));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_answered_although_some_gave_up() {
        let writers = 3 * CHAIN + 5;
        for gave_up in [0, 1, 2, CHAIN] {
            let mut answers = Answers::with_capacity(writers);
            let mut waiting = Vec::new();
            for version in 0..writers as u64 {
                let (sender, receiver) = oneshot::channel();
                let outcome = Ok(CommitOutcome::Done(version));
                answers.add(sender, outcome, WriteSet::default());
                waiting.push((version, receiver));
            }
            if gave_up > 0 {
                waiting.retain(|(version, _)| version % gave_up as u64 != 0);
            }
            answers.send();
            // Whoever was told something tells others, in whatever order they look.
            let mut told = 0;
            while !waiting.is_empty() {
                let before = waiting.len();
                waiting.retain_mut(|(version, receiver)| match receiver.try_recv() {
                    Ok(answer) => {
                        assert_eq!(answer.outcome, Ok(CommitOutcome::Done(*version)));
                        told += 1;
                        false
                    }
                    Err(_) => true,
                });
                assert!(waiting.len() < before, "{} are not told", waiting.len());
            }
            assert!(told > 0 || gave_up == 1);
        }
    }
}
