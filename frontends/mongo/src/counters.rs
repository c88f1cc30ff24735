//! Counts of commands, failures and traffic, for `serverStatus`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bson::{Document, doc};

use crate::commands;

/// Counts since the start.
#[derive(Debug)]
pub(crate) struct Counters {
    /// A row for each command there is, so that counting needs no lock.
    commands: BTreeMap<&'static str, Row>,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

/// How often one command ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) total: u64,
    pub(crate) failed: u64,
}

#[derive(Debug, Default)]
struct Row {
    total: AtomicU64,
    failed: AtomicU64,
}

impl Row {
    fn read(&self) -> Count {
        Count {
            total: self.total.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commands: commands::all()
                .map(|command| (command.name, Row::default()))
                .collect(),
            requests: AtomicU64::default(),
            bytes_in: AtomicU64::default(),
            bytes_out: AtomicU64::default(),
        }
    }
}

impl Counters {
    pub(crate) fn ran(&self, command: &'static str, failed: bool) {
        let Some(row) = self.commands.get(command) else {
            return;
        };
        row.total.fetch_add(1, Ordering::Relaxed);
        row.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    pub(crate) fn of(&self, command: &str) -> Count {
        self.commands
            .get(command)
            .map_or_else(Count::default, Row::read)
    }

    /// Every command that ran, as `serverStatus` shows it.
    pub(crate) fn to_document(&self) -> Document {
        let mut document = Document::new();
        for (name, row) in &self.commands {
            let Count { failed, total, .. } = row.read();
            if total > 0 {
                let counts = doc! { "failed": signed(failed), "total": signed(total) };
                document.insert(*name, counts);
            }
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
        let mut rest: u64 = self.commands.values().map(|row| row.read().total).sum();
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
            counters.ran(command, failed);
        }
        let find = Count {
            total: 2,
            failed: 1,
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
