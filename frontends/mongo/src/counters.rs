//! How often each command ran and failed, and what came and went: for `serverStatus` and `top`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use dashmap::DashMap;

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    commands: DashMap<&'static str, Count>,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

/// How often one command ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) total: u64,
    pub(crate) failed: u64,
    pub(crate) micros: u64,
}

impl Counters {
    pub(crate) fn ran(&self, command: &'static str, failed: bool, took: Duration) {
        let mut count = self.commands.entry(command).or_default();
        count.total += 1;
        count.failed += u64::from(failed);
        count.micros += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    }

    pub(crate) fn of(&self, command: &str) -> Count {
        self.commands
            .get(command)
            .map_or_else(Count::default, |count| *count)
    }

    /// Every command that ran, as `serverStatus` shows it.
    pub(crate) fn to_document(&self) -> Document {
        let mut rows: Vec<_> = self
            .commands
            .iter()
            .map(|row| (*row.key(), *row.value()))
            .collect();
        rows.sort_unstable_by_key(|(name, _)| *name);
        let mut document = Document::new();
        for (name, count) in rows {
            document.insert(
                name,
                doc! { "failed": signed(count.failed), "total": signed(count.total) },
            );
        }
        document
    }

    /// Counts of kinds of commands, as `serverStatus.opcounters` has them.
    pub(crate) fn by_kind(&self) -> Document {
        const KINDS: &[(&str, &[&str])] = &[
            ("insert", &["insert"]),
            ("query", &["find"]),
            ("update", &["update", "findAndModify"]),
            ("delete", &["delete"]),
            ("getmore", &["getMore"]),
        ];
        let mut rest: u64 = self.commands.iter().map(|row| row.total).sum();
        let mut document = Document::new();
        for (kind, commands) in KINDS {
            let total: u64 = commands.iter().map(|command| self.of(command).total).sum();
            rest = rest.saturating_sub(total);
            document.insert(*kind, signed(total));
        }
        document.insert("command", signed(rest));
        document
    }
}

/// A count as BSON has it.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, amount: usize) {
    count.fetch_add(u64::try_from(amount).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_by_name_and_kind() {
        let counters = Counters::default();
        for (command, failed) in [("find", false), ("find", true), ("ping", false)] {
            counters.ran(command, failed, Duration::from_micros(5));
        }
        let find = Count {
            total: 2,
            failed: 1,
            micros: 10,
        };
        assert_eq!(counters.of("find"), find);
        assert_eq!(counters.by_kind().get_i64("query").unwrap(), 2);
        assert_eq!(counters.by_kind().get_i64("command").unwrap(), 1);
        assert_eq!(
            counters.to_document().keys().collect::<Vec<_>>(),
            ["find", "ping"]
        );
    }
}
