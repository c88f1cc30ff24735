//! A stream that fails instead of waiting for a peer that has stalled.
//!
//! Reads fail at the deadline of the connection's [`Activity`]. Writes fail when they have waited
//! for the stall timeout; each byte that the peer takes extends the deadline. Timers are set late
//! and checked when they fire, so that a busy connection hardly touches them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tessera_frontend::{Activity, MIN_BYTES_PER_SECOND};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;
use tokio::time::Sleep;

/// `inner` under the timeouts of `activity`.
pub(crate) struct TimedStream<S> {
    inner: S,
    activity: Activity,
    read_timer: Option<Pin<Box<Sleep>>>,
    /// Whom the timer of reads is set to wake.
    wakes: Option<Waker>,
    /// Set while a write waits.
    write_timer: Option<Pin<Box<Sleep>>>,
    /// The deadline of a peer that takes bytes slowly. None while it is quick.
    write_due: Option<Instant>,
}

impl<S> TimedStream<S> {
    pub(crate) fn new(inner: S, activity: Activity) -> Self {
        Self {
            inner,
            activity,
            read_timer: None,
            wakes: None,
            write_timer: None,
            write_due: None,
        }
    }

    fn is_late(&self) -> bool {
        let now = Instant::now();
        let deadline = self.activity.deadline(now);
        deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Called when a read has to wait: ready once it has waited too long.
    fn poll_read_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            let now = Instant::now();
            let deadline = self.activity.deadline(now);
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Poll::Ready(timed_out("the client was silent for too long"));
            }
            // A request that begins or ends while this read waits moves the deadline without a
            // wake-up. So check again at the earliest deadline that this could bring.
            let timeouts = self.activity.timeouts();
            let stalled = deadline.unwrap_or_else(|| now + timeouts.stalled);
            let look_again = timeouts
                .idle
                .map_or(stalled, |idle| stalled.min(now + idle));
            let timer = timer(&mut self.read_timer, look_again);
            if timer.is_elapsed() || look_again < timer.deadline().into_std() {
                timer.as_mut().reset(look_again.into());
                self.wakes = None;
            }
            // To poll it costs every request more than all of the above.
            if self
                .wakes
                .as_ref()
                .is_some_and(|wakes| wakes.will_wake(cx.waker()))
            {
                return Poll::Pending;
            }
            // Without budget it answers before it is set.
            let is_set = coop::has_budget_remaining();
            if timer.as_mut().poll(cx).is_pending() {
                self.wakes = is_set.then(|| cx.waker().clone());
                return Poll::Pending;
            }
        }
    }

    /// Only bytes of a reply count. A flush does not: hyper flushes in the middle of reading a
    /// request.
    fn note_sent(&mut self, outcome: &Poll<io::Result<usize>>) {
        let Poll::Ready(Ok(count)) = outcome else {
            return;
        };
        if *count > 0 {
            self.activity.sent();
        }
        if let Some(due) = self.write_due {
            let full = Instant::now() + self.activity.timeouts().stalled;
            let count = u64::try_from(*count).unwrap_or(u64::MAX);
            let earned = count.saturating_mul(1_000_000) / MIN_BYTES_PER_SECOND;
            let due = due.checked_add(Duration::from_micros(earned));
            // A peer that has caught up counts as never slow.
            self.write_due = due.filter(|due| *due < full);
        }
    }

    /// Passes the outcome of a write on, unless it has waited too long.
    fn check_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.write_timer = None;
            return outcome;
        }
        let stalled: Duration = self.activity.timeouts().stalled;
        let due = *self
            .write_due
            .get_or_insert_with(|| Instant::now() + stalled);
        ready!(timer(&mut self.write_timer, due).as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client took nothing for too long")))
    }
}

fn timer(slot: &mut Option<Pin<Box<Sleep>>>, first: Instant) -> &mut Pin<Box<Sleep>> {
    slot.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(first.into())))
}

fn timed_out(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, message)
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(outcome) = Pin::new(&mut self.inner).poll_read(cx, buffer) {
            let count = buffer.filled().len().saturating_sub(before);
            // A peer that never pauses is always ready: the deadline must hold for it too.
            if count > 0 && self.activity.received(count) && self.is_late() {
                return Poll::Ready(Err(timed_out("the client sent its request too slowly")));
            }
            return Poll::Ready(outcome);
        }
        self.poll_read_deadline(cx).map(Err)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.note_sent(&outcome);
        self.check_write(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.note_sent(&outcome);
        self.check_write(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.check_write(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.check_write(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tessera_frontend::Timeouts;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const STALLED: Duration = Duration::from_millis(50);
    const IDLE: Duration = Duration::from_millis(150);

    fn pair() -> (TimedStream<DuplexStream>, DuplexStream, Activity) {
        let (server, client) = duplex(16);
        let activity = Activity::new(
            1,
            Timeouts {
                idle: Some(IDLE),
                stalled: STALLED,
            },
        );
        (TimedStream::new(server, activity.clone()), client, activity)
    }

    fn poll_byte(
        stream: &mut TimedStream<DuplexStream>,
        mut context: Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut byte = [0];
        Pin::new(stream).poll_read(&mut context, &mut ReadBuf::new(&mut byte))
    }

    async fn check_read_fails_after(stream: &mut TimedStream<DuplexStream>, expected: Duration) {
        let started = Instant::now();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(
            started.elapsed() + Duration::from_millis(5) > expected,
            "{:?}",
            started.elapsed()
        );
    }

    #[tokio::test]
    async fn a_stall_ends_a_request_sooner_than_idling_ends_a_connection() {
        let (mut stream, mut client, _) = pair();
        check_read_fails_after(&mut stream, STALLED).await;
        stream.write_all(b"reply").await.unwrap();
        check_read_fails_after(&mut stream, IDLE).await;
        stream.write_all(b"reply").await.unwrap();
        client.write_all(b"r").await.unwrap();
        stream.read_u8().await.unwrap();
        check_read_fails_after(&mut stream, STALLED).await;
    }

    #[tokio::test]
    async fn dripping_single_bytes_does_not_keep_a_request_open() {
        let (mut stream, mut client, _) = pair();
        let drip = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                tokio::time::sleep(STALLED / 10).await;
            }
        });
        let started = Instant::now();
        while stream.read_u8().await.is_ok() {}
        assert!(started.elapsed() < STALLED * 20);
        drop(stream);
        drip.await.unwrap();
    }

    #[tokio::test]
    async fn a_running_request_may_outlast_every_timeout() {
        let (mut stream, _client, activity) = pair();
        let request = activity.begin();
        let waited = tokio::time::timeout(IDLE * 3, stream.read_u8()).await;
        assert!(waited.is_err(), "the read should still wait");
        drop(request);
        check_read_fails_after(&mut stream, IDLE).await;
    }

    /// The timer is set for whoever reads now, also where tokio lets nothing be ready any more.
    #[tokio::test]
    async fn a_read_that_another_task_goes_on_with_ends_as_well() {
        for spends_budget in [false, true] {
            let (mut stream, mut client, _) = pair();
            client.write_all(b"r").await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_all(b"reply").await.unwrap();
            let noop = Context::from_waker(Waker::noop());
            assert!(poll_byte(&mut stream, noop).is_pending());
            let reading = tokio::spawn(async move {
                while spends_budget && coop::has_budget_remaining() {
                    coop::consume_budget().await;
                }
                let own = poll_fn(|cx| {
                    Poll::Ready(poll_byte(&mut stream, Context::from_waker(cx.waker())))
                });
                assert!(own.await.is_pending());
                stream.read_u8().await
            });
            let error = reading.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{spends_budget}");
        }
    }

    #[tokio::test]
    async fn a_request_that_ends_while_a_read_waits_starts_the_idle_time() {
        let timeouts = Timeouts {
            idle: Some(IDLE),
            stalled: Duration::from_secs(1_000),
        };
        let (server, _client) = duplex(16);
        let activity = Activity::new(1, timeouts);
        let mut stream = TimedStream::new(server, activity.clone());
        let reading = tokio::spawn(async move { stream.read_u8().await });
        // The read is polled before this task goes on: there is only one thread.
        tokio::task::yield_now().await;
        drop(activity.begin());
        let error = reading.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_ends_the_write() {
        let (mut stream, _client, _) = pair();
        let error = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_takes_single_bytes_ends_the_write_and_one_that_takes_many_does_not() {
        for (at_once, is_ended) in [(1, true), (10_000, false)] {
            let (server, mut client) = duplex(at_once);
            let activity = Activity::new(
                1,
                Timeouts {
                    idle: None,
                    stalled: STALLED,
                },
            );
            let mut stream = TimedStream::new(server, activity);
            let taking = tokio::spawn(async move {
                let mut taken = vec![0; at_once];
                while client.read_exact(&mut taken).await.is_ok() {
                    tokio::time::sleep(STALLED / 5).await;
                }
            });
            let sent = stream.write_all(&vec![0; at_once * 20]).await;
            assert_eq!(sent.is_err(), is_ended, "{at_once}");
            drop(stream);
            taking.await.unwrap();
        }
    }
}
