//! State that the engine, its snapshots and the commit thread share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;
use rocksdb::ErrorKind;
use tessera_core::engine::{CommitOutcome, EngineError, EngineResult};
use tessera_core::write_set::WriteSet;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use super::committer::{Commit, Message};
use super::database::Database;
use super::group_queue::GroupSender;
use super::view::View;

/// State that the engine, its snapshots and the commit thread share.
pub(super) struct Shared {
    /// The newest version that every new snapshot includes.
    committed: AtomicU64,
    /// Snapshots before this version are too old for the commit thread's window of recent commits,
    /// or will be soon.
    aging_before: AtomicU64,
    /// The newest version that is durable.
    synced: AtomicU64,
    /// The epoch of appended entries.
    epoch: AtomicU64,
    /// The open database. Changes of `newest` hold this lock.
    database: Mutex<Option<Arc<Database>>>,
    /// The view that new snapshots share until the next commit.
    newest: ArcSwapOption<View>,
    /// Why the engine stopped taking writes, once it has.
    failure: OnceLock<String>,
    closed: AtomicBool,
    runtime: OnceLock<Handle>,
    queue: GroupSender<Message>,
    /// Bytes of write sets that may still enter the queue.
    queue_room: Arc<Semaphore>,
    queue_capacity: usize,
}

impl Shared {
    pub(super) fn new(
        database: Arc<Database>,
        (epoch, version): (u64, u64),
        queue: GroupSender<Message>,
        queue_capacity: usize,
    ) -> Self {
        Self {
            committed: AtomicU64::new(version),
            aging_before: AtomicU64::new(0),
            synced: AtomicU64::new(version),
            epoch: AtomicU64::new(epoch),
            database: Mutex::new(Some(database)),
            newest: ArcSwapOption::empty(),
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            runtime: OnceLock::new(),
            queue,
            queue_room: Arc::new(Semaphore::new(queue_capacity)),
            queue_capacity,
        }
    }

    /// Refuses once the engine is closed.
    pub(super) fn check_open(&self) -> EngineResult<()> {
        if self.closed.load(Ordering::Acquire) {
            Err(closed())
        } else {
            Ok(())
        }
    }

    /// The open database.
    pub(super) fn database(&self) -> EngineResult<Arc<Database>> {
        self.check_open()?;
        self.lock().clone().ok_or_else(closed)
    }

    /// A view of everything committed so far.
    pub(super) fn view(&self) -> EngineResult<Arc<View>> {
        self.check_open()?;
        if let Some(view) = self.newest.load_full() {
            return Ok(view);
        }
        // Under the lock, so that a commit cannot be published between taking a view without it and
        // making that view the newest.
        let database = self.lock();
        if let Some(view) = self.newest.load_full() {
            return Ok(view);
        }
        let open = database.clone().ok_or_else(closed)?;
        // The version is read before the view is taken: a commit in between makes the view newer
        // than its version, which can cause a needless conflict but never miss one.
        let version = self.committed.load(Ordering::Acquire);
        let view = Arc::new(View::take(open, version));
        self.newest.store(Some(Arc::clone(&view)));
        drop(database);
        Ok(view)
    }

    /// Makes `version` the one that new snapshots see. Called after its data is written and before
    /// its writers are answered.
    pub(super) fn publish(&self, version: u64) {
        self.committed.store(version, Ordering::Release);
        let database = self.lock();
        let outdated = self.newest.swap(None);
        drop(database);
        // Outside the lock: the last owner of a view releases it in RocksDB, under RocksDB's own
        // mutex.
        drop(outdated);
    }

    /// The newest published version.
    pub(super) fn committed_version(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// The newest version that is synced.
    pub(super) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Records that everything up to this version is synced.
    pub(super) fn note_synced(&self, version: u64) {
        self.synced.store(version, Ordering::Release);
    }

    /// The epoch of appended entries.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Begins another epoch.
    pub(super) fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Whether a snapshot of this version must be compared with the newest data before it commits.
    pub(super) fn is_aging(&self, version: u64) -> bool {
        version < self.aging_before.load(Ordering::Acquire)
    }

    /// Sets the version from which on the commit thread's window is complete.
    pub(super) fn set_aging_before(&self, version: u64) {
        self.aging_before.store(version, Ordering::Release);
    }

    /// Refuses all further writes. The first cause stays.
    pub(super) fn fail(&self, cause: &rocksdb::Error) {
        let cause = format!(
            "{}; free space or repair the disk, then restart",
            cause.as_ref()
        );
        tracing::error!(%cause, "the storage engine turned read-only");
        self.failure.get_or_init(|| cause);
    }

    /// The refusal of writes after a failure.
    pub(super) fn failure(&self) -> Option<EngineError> {
        self.failure.get().cloned().map(EngineError::ReadOnly)
    }

    /// Hands a write set to the commit thread and waits for its answer; waits before that while the
    /// queue is full.
    pub(super) async fn commit(
        &self,
        base_version: u64,
        writes: WriteSet,
    ) -> EngineResult<CommitOutcome> {
        // A write set larger than the whole queue takes all of it.
        let bytes = writes.byte_size().clamp(1, self.queue_capacity);
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.queue_room)
            .acquire_many_owned(permits)
            .await;
        let room = room.map_err(|_| closed())?;
        if let (None, Ok(runtime)) = (self.runtime.get(), Handle::try_current()) {
            self.runtime.get_or_init(|| runtime);
        }
        let (waiting, answer) = oneshot::channel();
        let commit = Commit {
            base_version,
            writes,
            waiting,
            _room: room,
        };
        self.queue
            .send(Message::Commit(commit))
            .map_err(|_| closed())?;
        // The commit thread drops messages after its stop, unapplied.
        let (outcome, _writes) = answer.await.map_err(|_| closed())?;
        outcome
    }

    /// The runtime in which writers wait, or the first of several.
    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.runtime.get()
    }

    /// Refuses all further calls and tells the commit thread to finish. False if that was done
    /// before.
    pub(super) fn begin_close(&self) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.queue_room.close();
        // An error means that the thread is gone already.
        self.queue.send(Message::Stop).ok();
        true
    }

    /// Releases the database; it is closed when the last snapshot is gone too.
    pub(super) fn release_database(&self) -> Option<Arc<Database>> {
        let mut database = self.lock();
        self.newest.store(None);
        database.take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Database>>> {
        // A thread that panicked while holding the lock must not take the engine with it.
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a failed read.
pub(super) fn read_error(error: &rocksdb::Error) -> EngineError {
    let message = error.as_ref().to_owned();
    match error.kind() {
        ErrorKind::Corruption => EngineError::Corrupt(message),
        _ => EngineError::Unavailable(message),
    }
}

fn closed() -> EngineError {
    EngineError::Unavailable("it was closed".to_owned())
}
