//! Collects what a process prints and waits for a line of it.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The lines that a process printed so far, on all the streams that are followed.
///
/// Each stream is drained by a thread of its own, so that the process never blocks on a full pipe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    printed: Mutex<Printed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Printed {
    lines: Vec<String>,
    open_streams: usize,
}

impl Output {
    /// Follows a stream until its end.
    pub(crate) fn follow(&self, stream: impl Read + Send + 'static) {
        self.printed().open_streams += 1;
        let output = self.clone();
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream
                .read_until(b'\n', &mut line)
                .is_ok_and(|length| length > 0)
            {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                output.printed().lines.push(text);
                output.0.changed.notify_all();
                line.clear();
            }
            output.printed().open_streams -= 1;
            output.0.changed.notify_all();
        });
    }

    /// Waits until `find` sees in some line what it looks for. `None` when the streams have ended
    /// without it, or after `timeout`.
    pub(crate) fn wait_for<T>(
        &self,
        find: impl Fn(&str) -> Option<T>,
        timeout: Duration,
    ) -> Option<T> {
        let deadline = Instant::now() + timeout;
        let mut printed = self.printed();
        loop {
            if let Some(found) = printed.lines.iter().find_map(|line| find(line)) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if printed.open_streams == 0 || left.is_zero() {
                return None;
            }
            let woken = self.0.changed.wait_timeout(printed, left);
            printed = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// The lines behind the first `seen`, once there are some, or after a moment; of a process that
    /// has ended, all that are still to come.
    pub(crate) fn lines_from(&self, seen: usize, ended: bool) -> Vec<String> {
        const MOMENT: Duration = Duration::from_millis(50);
        if ended {
            drop(self.last_words());
        }
        let mut printed = self.printed();
        if printed.lines.len() <= seen && !ended {
            let woken = self.0.changed.wait_timeout(printed, MOMENT);
            printed = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        printed.lines.iter().skip(seen).cloned().collect()
    }

    /// Everything printed so far.
    pub(crate) fn text(&self) -> String {
        self.printed().lines.join("\n")
    }

    /// Everything that a process printed which has ended: its last words may still be in the pipe.
    pub(crate) fn last_words(&self) -> String {
        const IN_THE_PIPE: Duration = Duration::from_secs(1);
        let _nothing: Option<()> = self.wait_for(|_| None, IN_THE_PIPE);
        self.text()
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        // A panicking test leaves whole lines behind.
        self.0
            .printed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::time::Duration;

    use super::Output;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn finds_a_line_and_stops_waiting_at_the_end() {
        let output = Output::default();
        output.follow(Cursor::new(b"one\ntwo \xff\nthree"));
        let seen = |word: &'static str| move |line: &str| line.starts_with(word).then_some(());
        assert_eq!(output.wait_for(seen("three"), LONG), Some(()));
        assert_eq!(output.wait_for(seen("four"), LONG), None);
        assert_eq!(output.last_words(), "one\ntwo \u{fffd}\nthree");
    }

    #[test]
    fn waits_no_longer_than_asked() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let output = Output::default();
        output.follow(reader);
        assert_eq!(
            output.wait_for(|_| Some(()), Duration::from_millis(10)),
            None
        );
    }
}
