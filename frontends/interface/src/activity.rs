//! The state of a connection, which decides how long its peer may stay silent.
//!
//! Only a front end knows where a request ends, only the server may close a stalled connection.
//! This type connects both: the stream reports bytes, the front end reports requests, and
//! [`Activity::deadline`] says when the server should close the connection. A plain request-reply
//! protocol needs no reports of the front end: bytes begin a request, a reply ends it. A front end
//! that keeps reading while requests run (HTTP, CQL) must hold a [`Request`] for each of them.
//!
//! Every request changes the state several times, and the clock is read only when a deadline is
//! asked for: by the read that waits next. Where requests are held, a read waits already and asks
//! when its timer fires. So the end of such a request is dated at once, or its connection would
//! seem to be idle from then on.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request or reply that is transferred at this pace is slow, not stalled. One byte at a time is
/// stalled.
pub const MIN_BYTES_PER_SECOND: u64 = 32 * 1024;

/// No request may take longer to arrive, whatever its pace: it holds memory meanwhile.
const LONGEST_ARRIVAL: Duration = Duration::from_secs(600);

/// From this size on the times of bytes are recorded: before, they extend the deadline by next to
/// nothing.
const WORTH_NOTING: u64 = 64 * 1024;

/// How long a peer may stay silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Between requests. None: without limit.
    pub idle: Option<Duration>,
    /// Inside a request, inside a reply, and before the first request.
    pub stalled: Duration,
}

/// The state of one connection. Clones share it.
#[derive(Clone, Debug)]
pub struct Activity {
    connection: u64,
    timeouts: Timeouts,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Whether the peer is authenticated.
    identified: AtomicBool,
}

#[derive(Debug)]
struct State {
    running: usize,
    started: u64,
    waiting: Waiting,
    /// None: nobody has asked since it changed.
    since: Option<Instant>,
    bytes: u64,
    /// When the last bytes of a large request came.
    last: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    ForRequest,
    ForRestOfRequest,
}

impl Activity {
    /// A connection that was opened just now. It counts as inside a request: a peer that connects
    /// and says nothing is stalled, not idle.
    pub fn new(connection: u64, timeouts: Timeouts) -> Self {
        let state = State {
            running: 0,
            started: 0,
            waiting: Waiting::ForRestOfRequest,
            since: Some(Instant::now()),
            bytes: 0,
            last: None,
        };
        let shared = Shared {
            state: Mutex::new(state),
            identified: AtomicBool::new(false),
        };
        Self {
            connection,
            timeouts,
            shared: Arc::new(shared),
        }
    }

    /// Records that the peer is authenticated.
    pub fn identify(&self) {
        self.shared.identified.store(true, Ordering::Relaxed);
    }

    /// Whether the peer is authenticated.
    pub fn is_identified(&self) -> bool {
        self.shared.identified.load(Ordering::Relaxed)
    }

    /// For the server: since when the connection is idle. None while requests run, and within one.
    pub fn idle_since(&self) -> Option<Instant> {
        let mut state = self.lock();
        let is_idle = state.running == 0
            && match state.waiting {
                Waiting::ForRequest => true,
                // A connection without a request so far.
                Waiting::ForRestOfRequest => state.bytes == 0,
            };
        is_idle.then(|| state.since(Instant::now()))
    }

    /// Records that a whole request has arrived. Until the returned value is dropped the peer may
    /// stay silent.
    pub fn begin(&self) -> Request {
        let mut state = self.lock();
        state.running += 1;
        state.started += 1;
        let id = RequestId {
            connection: self.connection,
            number: state.started,
        };
        drop(state);
        Request {
            id,
            activity: self.clone(),
        }
    }

    /// For the server's stream: `count` bytes came from the peer. Whether they may be late, which
    /// the first ones of a request are not.
    pub fn received(&self, count: usize) -> bool {
        let mut state = self.lock();
        let begins = state.waiting == Waiting::ForRequest;
        if begins {
            state.wait(Waiting::ForRestOfRequest);
        }
        state.bytes = state
            .bytes
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        if state.bytes >= WORTH_NOTING {
            state.last = Some(Instant::now());
        }
        !begins
    }

    /// For the server's stream: bytes went to the peer.
    pub fn sent(&self) {
        let mut state = self.lock();
        let is_dated = state.waiting == Waiting::ForRequest && state.since.is_some();
        state.wait(Waiting::ForRequest);
        if is_dated {
            state.since(Instant::now());
        }
    }

    /// For the server's stream: the deadline of a read that waits now. None while requests run.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        if state.running > 0 {
            return None;
        }
        let stalled = self.timeouts.stalled;
        match state.waiting {
            Waiting::ForRequest => state.since(now).checked_add(self.timeouts.idle?),
            Waiting::ForRestOfRequest => {
                let earned = Duration::from_secs(state.bytes / MIN_BYTES_PER_SECOND);
                let patience = stalled
                    .saturating_add(earned)
                    .min(LONGEST_ARRIVAL.max(stalled));
                let by_pace = state.since(now).checked_add(patience);
                // Earlier bytes do not extend the deadline any more.
                let by_silence = state.last.and_then(|last| last.checked_add(stalled));
                by_pace.into_iter().chain(by_silence).min()
            }
        }
    }

    /// The limits this connection lives under.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is complete on its own, so a panic elsewhere cannot leave
        // half of one.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait(&mut self, waiting: Waiting) {
        self.waiting = waiting;
        self.since = None;
        self.bytes = 0;
        self.last = None;
    }

    /// Since when it is so: from when somebody asks first.
    fn since(&mut self, now: Instant) -> Instant {
        *self.since.get_or_insert(now)
    }
}

/// A request that runs. Dropping it ends it, also when its task panics.
#[derive(Debug)]
pub struct Request {
    id: RequestId,
    activity: Activity,
}

impl Request {
    /// Names the request in logs and replies.
    pub fn id(&self) -> RequestId {
        self.id
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.running = state.running.saturating_sub(1);
        if state.running == 0 {
            state.wait(Waiting::ForRequest);
            state.since(Instant::now());
        }
    }
}

/// The number of a connection in this process and of a request on it, shown as `12-3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    connection: u64,
    number: u64,
}

impl RequestId {
    /// The number of the connection, and of the request on it.
    pub fn numbers(self) -> (u64, u64) {
        (self.connection, self.number)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.connection, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(1_000);
    const STALLED: Duration = Duration::from_secs(10);

    fn activity() -> Activity {
        Activity::new(
            7,
            Timeouts {
                idle: Some(IDLE),
                stalled: STALLED,
            },
        )
    }

    /// Checks how long from now the deadline is, to within the second this test may take.
    fn check(activity: &Activity, expected: Duration) {
        let now = Instant::now();
        let left = activity
            .deadline(now)
            .unwrap()
            .saturating_duration_since(now);
        assert!(
            left <= expected && left + Duration::from_secs(1) > expected,
            "{left:?}"
        );
    }

    #[test]
    fn silence_is_judged_by_where_the_peer_fell_silent() {
        let activity = activity();
        check(&activity, STALLED);
        activity.received(5);
        check(&activity, STALLED);
        activity.sent();
        check(&activity, IDLE);
        activity.received(1);
        check(&activity, STALLED);
    }

    #[test]
    fn single_bytes_buy_no_time_and_real_progress_does() {
        let activity = activity();
        for _ in 0..1_000 {
            activity.received(1);
        }
        check(&activity, STALLED);
        activity.received(320 * 1024);
        check(&activity, STALLED);
        // Ten seconds ago the same would have extended the deadline until now.
        let long_ago = Instant::now().checked_sub(STALLED + Duration::from_secs(5));
        activity.lock().since = long_ago;
        check(&activity, Duration::from_secs(5));
    }

    /// However much came before: 47 MB once extended it by 98 minutes.
    #[test]
    fn silence_after_much_is_as_short_as_any_and_no_request_takes_for_ever() {
        for megabytes in [1, 2, 5, 10, 16, 20, 30, 40, 47, 48, 500] {
            let activity = activity();
            activity.received(megabytes << 20);
            check(&activity, STALLED);
            let state = || activity.lock();
            state().since = Instant::now().checked_sub(LONGEST_ARRIVAL);
            state().last = Some(Instant::now());
            let now = Instant::now();
            assert!(activity.deadline(now).unwrap() <= now, "{megabytes}");
        }
    }

    #[test]
    fn idle_is_who_owes_nothing_and_asks_nothing() {
        let activity = activity();
        assert!(activity.idle_since().is_some());
        activity.received(5);
        assert_eq!(activity.idle_since(), None);
        let running = activity.begin();
        activity.sent();
        assert_eq!(activity.idle_since(), None);
        drop(running);
        assert!(activity.idle_since().is_some());
        activity.received(1);
        assert_eq!(activity.idle_since(), None);
    }

    #[test]
    fn no_deadline_while_any_request_runs() {
        let activity = activity();
        activity.received(5);
        let (first, second) = (activity.begin(), activity.begin());
        assert_eq!(
            (first.id().to_string(), second.id().to_string()),
            ("7-1".into(), "7-2".into())
        );
        drop(first);
        assert_eq!(activity.deadline(Instant::now()), None);
        drop(second);
        check(&activity, IDLE);
    }

    #[test]
    fn a_connection_is_idle_since_its_last_request_ended_whoever_asks_when() {
        let activity = activity();
        activity.received(5);
        let request = activity.begin();
        let before = Instant::now();
        drop(request);
        activity.sent();
        let after = Instant::now();
        std::thread::sleep(Duration::from_millis(5));
        let since = activity.idle_since().unwrap();
        assert!((before..=after).contains(&since));
    }

    #[test]
    fn without_an_idle_limit_only_stalls_end_a_connection() {
        let activity = Activity::new(
            1,
            Timeouts {
                idle: None,
                stalled: STALLED,
            },
        );
        activity.sent();
        assert_eq!(activity.deadline(Instant::now()), None);
        activity.received(1);
        check(&activity, STALLED);
    }
}
