//! What happened while requests ran that asked for it. The latest are kept, as rows of
//! `system_traces`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tessera_core::clock::Clock;

use crate::ids::time_uuid;

/// So many traces are kept.
const KEPT: usize = 1_000;
/// A trace has at most so many steps.
const STEPS: usize = 1_000;

/// The latest traces.
#[derive(Default)]
pub(crate) struct Traces {
    kept: Mutex<VecDeque<Arc<Trace>>>,
}

impl Traces {
    /// Keeps the trace of a request that has ended.
    pub(crate) fn keep(&self, trace: Trace) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::new(trace));
    }

    pub(crate) fn all(&self) -> Vec<Arc<Trace>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(Arc::clone).collect()
    }
}

/// One request that is or was traced.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) id: [u8; 16],
    pub(crate) client: SocketAddr,
    /// What kind of request it is.
    pub(crate) request: &'static str,
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) started_ms: u64,
    pub(crate) duration_us: i32,
    pub(crate) steps: Vec<Step>,
    started: Instant,
    clock: Clock,
}

/// One step of it.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) id: [u8; 16],
    pub(crate) activity: String,
    pub(crate) elapsed_us: i32,
}

impl Trace {
    pub(crate) fn begin(clock: &Clock, client: SocketAddr, request: &'static str) -> Self {
        Self {
            id: time_uuid(clock),
            client,
            request,
            parameters: Vec::new(),
            started_ms: clock.now_ms(),
            duration_us: 0,
            steps: Vec::new(),
            started: Instant::now(),
            clock: clock.clone(),
        }
    }

    /// Notes a step.
    pub(crate) fn step(&mut self, activity: impl Into<String>) {
        if self.steps.len() < STEPS {
            self.steps.push(Step {
                id: time_uuid(&self.clock),
                activity: activity.into(),
                elapsed_us: self.elapsed_us(),
            });
        }
    }

    /// Notes that it has ended.
    pub(crate) fn end(&mut self) {
        self.duration_us = self.elapsed_us();
    }

    fn elapsed_us(&self) -> i32 {
        i32::try_from(self.started.elapsed().as_micros()).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept() {
        let (clock, traces) = (Clock::manual(5), Traces::default());
        let client: SocketAddr = "127.0.0.1:1".parse().unwrap();
        for _ in 0..KEPT + 2 {
            let mut trace = Trace::begin(&clock, client, "QUERY");
            (0..STEPS + 1).for_each(|_| trace.step("a step"));
            trace.end();
            traces.keep(trace);
        }
        assert_eq!(traces.all().len(), KEPT);
        assert_eq!(traces.all()[0].steps.len(), STEPS);
    }
}
