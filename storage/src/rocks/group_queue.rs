//! The queue to the commit thread, which takes all items that can share one sync.
//!
//! While a group waits for more items its thread sleeps, and only the sender that completes the
//! group wakes it: a wake-up by each sender would take processor time from the others.

use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::grouping::Grouping;

/// No group is complete while the receiver does not wait for one.
const NOBODY_WAITS: isize = isize::MAX;

/// A queue whose receiver takes many items at once.
pub fn group_queue<T>() -> (GroupSender<T>, GroupReceiver<T>) {
    let (sender, receiver) = mpsc::channel();
    let counts = Arc::new(Counts {
        waiting: AtomicIsize::new(0),
        wanted: AtomicIsize::new(NOBODY_WAITS),
        receiver: OnceLock::new(),
    });
    let sender = GroupSender {
        items: sender,
        counts: Arc::clone(&counts),
    };
    let receiver = GroupReceiver {
        items: receiver,
        counts,
        grouping: Grouping::default(),
        company_until: None,
    };
    (sender, receiver)
}

struct Counts {
    /// Items sent whose group is not complete yet. A receiver that is quicker than the sender may
    /// make it negative for a moment.
    waiting: AtomicIsize,
    /// The number of those at which the receiver is woken.
    wanted: AtomicIsize,
    receiver: OnceLock<Thread>,
}

/// The sending side.
pub struct GroupSender<T> {
    items: Sender<T>,
    counts: Arc<Counts>,
}

impl<T> GroupSender<T> {
    /// Adds an item. Returns it if there is no receiver any more.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        self.items.send(item)?;
        let waiting = self.counts.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        if waiting >= self.counts.wanted.load(Ordering::SeqCst)
            && let Some(receiver) = self.counts.receiver.get()
        {
            receiver.unpark();
        }
        Ok(())
    }
}

/// The receiving side. Stays on one thread.
pub struct GroupReceiver<T> {
    items: Receiver<T>,
    counts: Arc<Counts>,
    grouping: Grouping,
    /// Until when the current group waits for more items, if that wait began before its first item
    /// was taken.
    company_until: Option<Instant>,
}

impl<T> GroupReceiver<T> {
    /// Waits for the first item of a group, for ever or for the given time. If `may_wait` and many
    /// are likely to come, the thread sleeps a little longer: each wake-up takes a processor from
    /// the senders behind it.
    pub fn first(
        &mut self,
        patience: Option<Duration>,
        may_wait: bool,
    ) -> Result<T, RecvTimeoutError> {
        self.counts.receiver.get_or_init(thread::current);
        let company = self.grouping.likely().filter(|_| may_wait);
        self.company_until = company.map(|(expected, company)| {
            let deadline = Instant::now() + company;
            self.sleep(expected, deadline);
            deadline
        });
        match patience {
            Some(patience) => self.items.recv_timeout(patience),
            None => self
                .items
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Passes the items behind the first one to `take`, until that returns that it is full, and if
    /// `may_wait`, waits a little for those that are likely to come: see [`Grouping`].
    pub fn gather(&mut self, may_wait: bool, mut take: impl FnMut(T) -> bool) {
        let mut group = 1;
        let begun = self.company_until.take().map(|deadline| (group, deadline));
        let mut room = self.drain(&mut group, &mut take);
        if may_wait
            && room
            && let Some((expected, patience)) = self.grouping.wait_for(group)
        {
            let (present, deadline) = begun.unwrap_or_else(|| (group, Instant::now() + patience));
            let mut in_time = true;
            while room && in_time && group < expected {
                in_time = self.sleep(expected, deadline);
                room = self.drain(&mut group, &mut take);
            }
            self.grouping.waited(present, group);
        }
        self.counts
            .waiting
            .fetch_sub(signed(group), Ordering::SeqCst);
    }

    /// Records that the last group, of this many items, is done, and how long that took. Called
    /// before its senders are answered, so that none of them has come back yet.
    pub fn finished(&mut self, group: usize, took: Duration) {
        let waiting = self.counts.waiting.load(Ordering::SeqCst);
        let waiting = usize::try_from(waiting).unwrap_or(0);
        self.grouping.wrote(group, took, waiting);
    }

    fn drain(&self, group: &mut usize, take: &mut impl FnMut(T) -> bool) -> bool {
        while let Ok(item) = self.items.try_recv() {
            *group += 1;
            if !take(item) {
                return false;
            }
        }
        true
    }

    /// Sleeps until the group can be complete; returns whether that was before the deadline.
    fn sleep(&self, expected: usize, deadline: Instant) -> bool {
        let expected = signed(expected);
        self.counts.wanted.store(expected, Ordering::SeqCst);
        let mut left = deadline.saturating_duration_since(Instant::now());
        while !left.is_zero() && self.counts.waiting.load(Ordering::SeqCst) < expected {
            thread::park_timeout(left);
            left = deadline.saturating_duration_since(Instant::now());
        }
        self.counts.wanted.store(NOBODY_WAITS, Ordering::SeqCst);
        !left.is_zero()
    }
}

fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a test may take, so that a wait to the end is noticed.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn gather(receiver: &mut GroupReceiver<u32>, may_wait: bool) -> Vec<u32> {
        let mut group = vec![receiver.first(None, may_wait).unwrap()];
        receiver.gather(may_wait, |item| {
            group.push(item);
            group.len() < 4
        });
        group
    }

    /// A queue whose last group had three items.
    fn queue() -> (GroupSender<u32>, GroupReceiver<u32>) {
        let (sender, mut receiver) = group_queue();
        for item in 0..3 {
            sender.send(item).unwrap();
        }
        assert_eq!(gather(&mut receiver, true), [0, 1, 2]);
        receiver.grouping.max_patience = PATIENCE;
        receiver.finished(3, 2 * PATIENCE);
        (sender, receiver)
    }

    #[test]
    fn the_sender_that_completes_a_group_ends_its_wait() {
        let (sender, mut receiver) = queue();
        sender.send(10).unwrap();
        let others = thread::spawn(move || {
            for item in [11, 12] {
                thread::sleep(Duration::from_millis(5));
                sender.send(item).unwrap();
            }
            sender
        });
        let began = Instant::now();
        assert_eq!(gather(&mut receiver, true), [10, 11, 12]);
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        drop(others.join().unwrap());
    }

    #[test]
    fn a_group_without_company_is_written_when_its_time_is_up() {
        let (sender, mut receiver) = queue();
        receiver.finished(3, Duration::from_millis(40));
        sender.send(10).unwrap();
        let began = Instant::now();
        assert_eq!(gather(&mut receiver, true), [10]);
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn nothing_waits_that_must_not_and_a_full_group_leaves_the_rest() {
        let (sender, mut receiver) = queue();
        for item in 10..16 {
            sender.send(item).unwrap();
        }
        assert_eq!(gather(&mut receiver, false), [10, 11, 12, 13]);
        receiver.finished(4, 2 * PATIENCE);
        assert_eq!(gather(&mut receiver, false), [14, 15]);
        drop(sender);
        assert_eq!(
            receiver.first(None, false),
            Err(RecvTimeoutError::Disconnected)
        );
    }
}
