//! The commit thread: drains the queue, decides conflicts, writes one batch, syncs once, answers
//! all.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use rocksdb::WriteOptions;
use tessera_core::engine::{CommitOutcome, Done, EngineError, EngineResult};
use tessera_core::feed::stamp::Stamp;
use tessera_core::recent_commits::RecentCommits;
use tessera_core::write_set::WriteSet;
use tokio::sync::OwnedSemaphorePermit;

use super::answers::{Answers, Waiting};
use super::batch::Batch;
use super::database::Database;
use super::filters::Filters;
use super::free_space::FreeSpace;
use super::group_queue::GroupReceiver;
use super::shared::Shared;
use super::synced_mark::SyncedMark;
use crate::Durability;

/// Longest time that an answered commit stays unsynced under [`Durability::Periodic`].
const SYNC_INTERVAL: Duration = Duration::from_millis(100);
/// Commits beyond this wait for the next batch, so that a flood of large ones does not delay the
/// answer to small ones without end.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// A message to the commit thread.
#[expect(
    clippy::large_enum_variant,
    reason = "all but the last message are commits, so a box would only cost an allocation"
)]
pub(super) enum Message {
    /// Commit a write set.
    Commit(Commit),
    /// Finish the queue, sync, and end.
    Stop,
}

/// A queued write set and its waiting writer.
pub(super) struct Commit {
    pub(super) base_version: u64,
    pub(super) writes: WriteSet,
    pub(super) waiting: Waiting,
    /// Its place in the queue, given back when the commit is dropped.
    pub(super) _room: OwnedSemaphorePermit,
}

/// The messages of one batch.
struct Gathered {
    commits: Vec<Commit>,
    bytes: usize,
    stopping: bool,
}

impl Gathered {
    fn new(first: Commit) -> Self {
        Self {
            bytes: first.writes.byte_size(),
            commits: vec![first],
            stopping: false,
        }
    }

    /// Adds a message; returns whether there is room for another.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Commit(commit) => {
                self.bytes += commit.writes.byte_size();
                self.commits.push(commit);
            }
            Message::Stop => self.stopping = true,
        }
        !self.stopping && self.bytes < MAX_BATCH_BYTES
    }
}

/// The state of the commit thread. It alone writes to the database.
pub(super) struct Committer {
    database: Arc<Database>,
    filters: Filters,
    shared: Arc<Shared>,
    queue: GroupReceiver<Message>,
    recent: RecentCommits,
    version: u64,
    durability: Durability,
    /// Since when there are writes that are not synced.
    unsynced_since: Option<Instant>,
    /// Everything up to this sequence number of RocksDB is synced.
    synced_sequence: u64,
    mark: SyncedMark,
    space: FreeSpace,
}

/// The database that the commit thread writes to.
pub(super) struct Target {
    pub(super) database: Arc<Database>,
    pub(super) filters: Filters,
    pub(super) mark: SyncedMark,
    pub(super) space: FreeSpace,
}

impl Committer {
    pub(super) fn new(
        target: Target,
        shared: Arc<Shared>,
        queue: GroupReceiver<Message>,
        recent: RecentCommits,
        durability: Durability,
    ) -> Self {
        let version = shared.committed_version();
        let Target {
            database,
            filters,
            mark,
            space,
        } = target;
        // Opening flushes and syncs the contents of the log.
        let synced_sequence = database.latest_sequence_number();
        Self {
            database,
            filters,
            shared,
            queue,
            recent,
            version,
            durability,
            unsynced_since: None,
            synced_sequence,
            mark,
            space,
        }
    }

    /// Serves the queue until told to stop.
    pub(super) fn run(mut self) {
        let mut stopping = false;
        while !stopping {
            match self.wait() {
                Ok(Message::Commit(first)) => stopping = self.commit_all_waiting(first),
                Err(RecvTimeoutError::Timeout) => self.sync(),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => stopping = true,
            }
        }
        if self.unsynced_since.is_some() {
            self.sync();
        }
        self.mark.keep();
    }

    fn wait(&mut self) -> Result<Message, RecvTimeoutError> {
        let patience = self
            .unsynced_since
            .map(|since| SYNC_INTERVAL.saturating_sub(since.elapsed()));
        self.queue.first(patience, self.groups())
    }

    /// Commits `first` and the messages behind it. Returns whether a stop was among them.
    fn commit_all_waiting(&mut self, first: Commit) -> bool {
        let mut gathered = Gathered::new(first);
        let may_wait = self.groups();
        self.queue
            .gather(may_wait, |message| gathered.take(message));
        self.commit(gathered.commits, gathered.bytes);
        gathered.stopping
    }

    /// Whether a batch is synced before it is answered, so that larger groups are cheaper.
    fn groups(&self) -> bool {
        self.durability == Durability::Group
    }

    fn commit(&mut self, commits: Vec<Commit>, bytes: usize) {
        let start = Instant::now();
        self.space.look_before(start, bytes);
        let next_version = self.version + 1;
        let mut batch = Batch::new(self.synced_sequence, bytes);
        let mut stamp = Stamp {
            epoch: self.shared.epoch(),
            version: next_version,
            ..Stamp::START
        };
        let outcomes: Vec<EngineResult<CommitOutcome>> = commits
            .iter()
            .map(|commit| self.decide(commit, &mut stamp, &mut batch))
            .collect();
        let is_applied = |outcome: &EngineResult<CommitOutcome>| match outcome {
            Ok(CommitOutcome::Done(done)) => done.version == next_version,
            _ => false,
        };
        let sync_demanded = commits.iter().any(|commit| commit.writes.sync_demanded());
        let written = if outcomes.iter().any(is_applied) {
            self.write(batch, next_version, sync_demanded)
        } else if sync_demanded {
            if self.unsynced_since.is_some() {
                self.sync();
            }
            self.refusal().map_or(Ok(()), Err)
        } else {
            Ok(())
        };
        self.queue.finished(commits.len(), start.elapsed());
        let mut answers = Answers::with_capacity(commits.len());
        for (commit, outcome) in commits.into_iter().zip(outcomes) {
            let outcome = match &written {
                // It may be in the log, and is then there when the engine is opened again.
                Err(_) if is_applied(&outcome) => Ok(CommitOutcome::Unknown),
                Err(error) if commit.writes.sync_demanded() => Err(error.clone()),
                _ => outcome,
            };
            answers.add(commit.waiting, (outcome, commit.writes));
        }
        self.shared.set_aging_before(self.recent.aging_before());
        answers.send(self.shared.runtime());
        self.filters.check(&self.database);
    }

    /// Decides one commit, and adds it to the batch if it may be applied. `stamp` is the first of
    /// the next one that is.
    fn decide(
        &mut self,
        commit: &Commit,
        stamp: &mut Stamp,
        batch: &mut Batch,
    ) -> EngineResult<CommitOutcome> {
        let writes = &commit.writes;
        // Checked before conflicts: the failed batch is remembered as if it had been committed, and
        // retries of it must not see a conflict for ever.
        if let Some(failure) = self.shared.failure().filter(|_| !writes.is_empty()) {
            return Err(failure);
        }
        if self.recent.conflicts(commit.base_version, writes) {
            return Ok(CommitOutcome::Conflict);
        }
        if writes.is_empty() {
            return Ok(CommitOutcome::Done(Done::at(self.version)));
        }
        if let Some(refusal) = self.space.refusal_of(writes) {
            return Err(refusal);
        }
        self.recent.record(stamp.version, writes);
        batch.apply(writes, *stamp);
        let appended = !writes.appended().is_empty();
        let done = Done {
            version: stamp.version,
            stamp: appended.then(|| stamp.end_of_commit()),
        };
        stamp.commit += 1;
        Ok(CommitOutcome::Done(done))
    }

    /// Why the engine refuses writes, or some of them.
    fn refusal(&self) -> Option<EngineError> {
        let is_low = self.space.is_low();
        let failure = self.shared.failure();
        failure.or_else(|| is_low.then(|| self.space.refusal()))
    }

    /// Writes the batch. After a failure the batch is not visible, but it may be in the log, so
    /// that later batches could be lost with it: writing ends here.
    fn write(
        &mut self,
        batch: Batch,
        version: u64,
        sync_demanded: bool,
    ) -> Result<(), EngineError> {
        let overdue = self
            .unsynced_since
            .is_some_and(|since| since.elapsed() >= SYNC_INTERVAL);
        let sync = self.groups() || sync_demanded || overdue;
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        if let Err(error) = self.database.write_opt(batch.finish(), &options) {
            self.shared.fail(&error);
            return self.shared.failure().map_or(Ok(()), Err);
        }
        // A synced write also syncs everything before it.
        if sync {
            self.note_sync(version);
        } else if self.unsynced_since.is_none() {
            self.unsynced_since = Some(Instant::now());
        }
        self.version = version;
        self.shared.publish(version);
        Ok(())
    }

    fn sync(&mut self) {
        match self.database.flush_wal(true) {
            Ok(()) => self.note_sync(self.version),
            Err(error) => {
                self.unsynced_since = None;
                self.shared.fail(&error);
            }
        }
    }

    fn note_sync(&mut self, version: u64) {
        self.unsynced_since = None;
        self.shared.note_synced(version);
        // This is the only writer, so this is the last write that was just synced.
        self.synced_sequence = self.database.latest_sequence_number();
        self.mark.note(self.synced_sequence);
    }
}
