//! Traces of requests that asked for tracing. The latest are kept, as rows of `system_traces`.

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
/// A text in a trace is at most so long.
const LONGEST_TEXT: usize = 4_096;

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
                activity: shortened(activity.into()),
                elapsed_us: self.elapsed_us(),
            });
        }
    }

    /// Notes what the request came with.
    pub(crate) fn parameter(&mut self, name: &str, value: String) {
        self.parameters.push((name.to_owned(), shortened(value)));
    }

    /// Notes that it has ended.
    pub(crate) fn end(&mut self) {
        self.duration_us = self.elapsed_us();
    }

    fn elapsed_us(&self) -> i32 {
        i32::try_from(self.started.elapsed().as_micros()).unwrap_or(i32::MAX)
    }
}

/// Only the beginning of what is very long, such as a statement with its values.
fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('…');
        text.shrink_to_fit();
    }
    text
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

    #[test]
    fn long_texts_are_shortened() {
        let client: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let mut trace = Trace::begin(&Clock::manual(5), client, "QUERY");
        trace.step("é".repeat(LONGEST_TEXT));
        trace.parameter("query", "x".repeat(LONGEST_TEXT));
        assert_eq!(
            trace.steps[0].activity.chars().count(),
            LONGEST_TEXT / 2 + 1
        );
        assert_eq!(trace.parameters[0].1.len(), LONGEST_TEXT);
    }
}
