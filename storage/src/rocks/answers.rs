//! Answering many writers after a commit.
//!
//! Waking an async task from outside of its runtime costs more than from within, and delays the
//! commit thread. So if there are many writers, a task of their runtime answers them.

use tessera_core::engine::{CommitOutcome, EngineResult};
use tessera_core::write_set::WriteSet;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Up to this many are answered by the commit thread itself.
const FEW: usize = 4;

/// The channel to one waiting writer.
pub(super) type Waiting = oneshot::Sender<Answer>;

/// The outcome, and the write set: freeing that is the writer's work, not the commit thread's.
pub(super) type Answer = (EngineResult<CommitOutcome>, WriteSet);

/// The answers to all writers. Dropping this sends them, so that no writer is left waiting if the
/// task that should do it is dropped.
pub(super) struct Answers(Vec<(Waiting, Answer)>);

impl Answers {
    pub(super) fn with_capacity(commits: usize) -> Self {
        Self(Vec::with_capacity(commits))
    }

    pub(super) fn add(&mut self, waiting: Waiting, answer: Answer) {
        self.0.push((waiting, answer));
    }

    /// Sends all answers; many of them in a task of `runtime`.
    pub(super) fn send(self, runtime: Option<&Handle>) {
        match runtime {
            Some(runtime) if self.0.len() > FEW => {
                runtime.spawn(async move { drop(self) });
            }
            _ => drop(self),
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        for (waiting, answer) in self.0.drain(..) {
            // The writer may have stopped waiting; its commit stands all the same.
            waiting.send(answer).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use tessera_core::engine::Done;

    use super::*;

    fn check(writers: u64, runtime: Option<&Handle>) {
        let mut answers = Answers::with_capacity(1);
        let mut waiting = Vec::new();
        for version in 0..writers {
            let (sender, receiver) = oneshot::channel();
            let outcome = Ok(CommitOutcome::Done(Done::at(version)));
            answers.add(sender, (outcome, WriteSet::default()));
            waiting.push(receiver);
        }
        drop(waiting.remove(0));
        answers.send(runtime);
        for (receiver, version) in waiting.into_iter().zip(1..) {
            let (outcome, _) = receiver.blocking_recv().unwrap();
            assert_eq!(outcome, Ok(CommitOutcome::Done(Done::at(version))));
        }
    }

    #[test]
    fn everyone_is_answered_with_a_runtime_without_and_with_one_that_is_gone() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        for writers in [2, 100] {
            check(writers, None);
            check(writers, Some(&handle));
        }
        drop(runtime);
        check(100, Some(&handle));
    }
}
