//! `GET /api/polls`: the longest time for which one poll of a task occupied a worker thread. More
//! than some milliseconds means that a request computes on a worker.

use std::fmt::Write as _;

use hyper::{Method, StatusCode};
use serde::Serialize;
use tessera_core::deadline::{LONG_POLL, LongestPoll, long_polls, longest_polls};

use crate::metrics::label;
use crate::reply::Reply;
use crate::routes::Route;

pub(crate) const ROUTES: &[Route] = &[Route {
    method: Method::GET,
    path: "/api/polls",
    is_public: false,
    run: |_| Box::pin(async { Reply::json(StatusCode::OK, &Shown::now()) }),
}];

/// The JSON form.
#[derive(Serialize)]
struct Shown {
    /// How many polls took longer than `long_ms` since the server started.
    long: u64,
    long_ms: f64,
    longest: Vec<ShownPoll>,
}

/// The longest poll of the tasks of one kind.
#[derive(Serialize)]
struct ShownPoll {
    tasks: &'static str,
    operation: &'static str,
    ms: f64,
}

impl Shown {
    fn now() -> Self {
        let mut longest = longest_polls();
        longest.sort_by_key(|poll| std::cmp::Reverse(poll.took));
        let shown = |poll: LongestPoll| ShownPoll {
            tasks: poll.tasks,
            operation: poll.what,
            ms: poll.took.as_secs_f64() * 1_000.0,
        };
        Self {
            long: long_polls(),
            long_ms: LONG_POLL.as_secs_f64() * 1_000.0,
            longest: longest.into_iter().map(shown).collect(),
        }
    }
}

/// The same for Prometheus.
pub(crate) fn metrics() -> String {
    let mut text = String::from(
        "# HELP tessera_long_polls_total Polls of tasks that kept a thread for more than 10 ms.\n\
         # TYPE tessera_long_polls_total counter\n",
    );
    // Writing into a text cannot fail.
    let _infallible = writeln!(text, "tessera_long_polls_total {}", long_polls());
    text.push_str(
        "# HELP tessera_longest_poll_seconds Processor time of the longest poll of a task.\n\
         # TYPE tessera_longest_poll_seconds gauge\n",
    );
    for poll in longest_polls() {
        let labels = [label("tasks", poll.tasks), label("operation", poll.what)].join(",");
        let seconds = poll.took.as_secs_f64();
        let _infallible = writeln!(
            text,
            "tessera_longest_poll_seconds{{{labels}}} {seconds:.6}"
        );
    }
    text
}
