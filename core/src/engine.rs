//! The contract under the core: an ordered, transactional key-value store.
//!
//! An engine gives consistent snapshots; a snapshot reads, and finally takes a [`WriteSet`] to
//! commit against the moment it was taken. What an engine owes:
//!
//! * **Snapshot reads.** Everything read through one [`Snapshot`] is of one moment, and a snapshot
//!   taken after a commit was answered sees that commit. Where others write to the same data
//!   ([`Capabilities::shared`]), that moment may be as late as the first read or the commit.
//! * **First committer wins.** A commit is refused with [`CommitOutcome::Conflict`] when a key it
//!   puts, deletes, guards or covers with a range delete was changed by a commit after its
//!   snapshot, or came or went. Refusing more than that is allowed, refusing less is not; only a
//!   key that came and was gone again by the commit may count as unchanged. Tallies never conflict.
//! * **All or nothing.** A commit is seen whole by every later snapshot, also after a crash. It is
//!   durable when answered, as far as the engine's durability setting says;
//!   [`WriteSet::demand_sync`] always syncs.
//! * **Appended entries** ([`WriteSet::append`]) get keys that end with their stamps, visible with
//!   their commit. Of two commits of which one was answered before the other began, or that write
//!   the same key, the earlier has the smaller stamp. Below [`Settled::through`] nothing will ever
//!   appear any more.
//! * **Bounded pages.** A scan returns at most the rows and bytes asked for, and at least one entry
//!   where there is one, so that a caller always advances.
//!
//! `storage/tests/contract.rs` holds every engine to this.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::task::coop;

use crate::feed::stamp::Stamp;
use crate::key;
use crate::write_set::{Write, WriteSet};

/// The health check reads any key. Whether the engine still accepts writes is checked without
/// writing anything.
const PROBE_KEY: &[u8] = b"s";

/// The longest prefix of an appended key: with its stamp it fits an entry of any index.
pub const MAX_LOG_PREFIX_BYTES: usize = 1_000;

/// A boxed future, as engine methods return it: the trait stays usable as `dyn`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Answers that every request needs are mostly there at once, and then need no boxed future.
pub struct Answer<'a, T>(AnswerState<'a, T>);

enum AnswerState<'a, T> {
    Ready(T),
    Later(BoxFuture<'a, T>),
    Given,
}

impl<'a, T> Answer<'a, T> {
    /// An answer that is there.
    pub fn ready(answer: T) -> Self {
        Self(AnswerState::Ready(answer))
    }

    /// An answer that is awaited.
    pub fn later(answer: impl Future<Output = T> + Send + 'a) -> Self {
        Self(AnswerState::Later(Box::pin(answer)))
    }
}

impl<T: Unpin> Future for Answer<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let state = &mut self.get_mut().0;
        if let AnswerState::Later(answer) = state {
            return answer.as_mut().poll(context);
        }
        // An answer that is there never yields, so a task with many of them must be made to yield.
        ready!(coop::poll_proceed(context)).made_progress();
        match std::mem::replace(state, AnswerState::Given) {
            AnswerState::Ready(answer) => Poll::Ready(answer),
            AnswerState::Later(_) | AnswerState::Given => Poll::Pending,
        }
    }
}

/// What other servers announced.
pub type News = broadcast::Receiver<Bytes>;

/// What an engine method answers.
pub type EngineResult<T> = Result<T, EngineError>;

/// An ordered transactional key-value store. Used as `Arc<dyn Engine>`.
pub trait Engine: Send + Sync + 'static {
    /// A consistent view of everything committed so far.
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>>;

    /// A view that is kept while a client thinks: of an open transaction, or of a moment. Where it
    /// takes something that is scarce, an engine gives it only so many of these, and refuses more
    /// with [`EngineError::Unavailable`], here or with the first read.
    fn snapshot_to_keep(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        self.snapshot()
    }

    /// Whether the engine can read and write right now, for monitors. Does not wait for other work.
    fn probe(&self) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async {
            let snapshot = self.snapshot().await?;
            snapshot.get(PROBE_KEY).await?;
            let mut nothing = WriteSet::default();
            nothing.demand_sync();
            snapshot.commit(nothing).await.map(drop)
        })
    }

    /// What this engine can do and how large things may be.
    fn capabilities(&self) -> Capabilities;

    /// How many bytes its caches and buffers take now; none where it has none of its own.
    fn memory_used(&self) -> Option<usize> {
        None
    }

    /// Roughly how many bytes a range takes on disk. For display and for choosing, never for
    /// limits.
    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>>;

    /// Writes a consistent copy of all data to `path`, which must not exist yet, while work goes
    /// on.
    fn checkpoint<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, EngineResult<()>>;

    /// Receives the keys that other servers announce ([`WriteSet::announce`]) soon after their
    /// commits: hints, of which some may get lost. An empty key says that some may have been lost.
    /// None where no other server writes, or the engine cannot tell.
    fn news(&self) -> Option<News> {
        None
    }

    /// Keeps the place where appended entries go in order: makes room for those to come, and lets
    /// go of all that were committed before `before_ms`, in milliseconds since 1970, where they are
    /// kept by their time ([`Capabilities::keeps_log_by_time`]). Called now and then by one server.
    fn tend_log(&self, _before_ms: u64) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Tells other servers, soon and not for each commit, that something was appended: they receive
    /// [`key::LOG`] as news. A hint, which may get lost.
    fn hint_log(&self) {}

    /// Begins another epoch of data that was copied from elsewhere, where these were the ends of
    /// the epochs: what its source commits later is another history.
    fn adopt_history(&self, _past: Vec<Stamp>) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async { Ok(()) })
    }

    /// The epochs that ended, each with the last stamp that belongs to this data, oldest first. A
    /// position of such an epoch beyond that is one of a history that was discarded.
    fn past_epochs(&self) -> BoxFuture<'_, EngineResult<Vec<Stamp>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Cleans up a bounded part of what writers leave behind that no reader sees, where the engine
    /// has such things; answers whether the pass over all of it goes on. What was written since the
    /// pass before may be left for the next. One server at a time does this for all, and nothing
    /// goes wrong if two do.
    fn tidy(&self) -> BoxFuture<'_, EngineResult<bool>> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Flushes and closes. Later calls answer [`EngineError::Unavailable`].
    fn close(&self) -> BoxFuture<'_, EngineResult<()>>;
}

/// All data as of one moment. An owned value: it may be held across requests.
pub trait Snapshot: Send + Sync {
    /// A commit version that this snapshot is known to include, in the numbers of
    /// [`CommitOutcome::Done`]. 0 where the engine cannot tell; then nothing may be concluded from
    /// it.
    fn version(&self) -> u64;

    /// The value of one key.
    fn get<'a>(&'a self, key: &'a [u8]) -> Answer<'a, EngineResult<Option<Bytes>>>;

    /// The values of many keys, in their order.
    fn multi_get<'a>(
        &'a self,
        keys: &'a [Bytes],
    ) -> BoxFuture<'a, EngineResult<Vec<Option<Bytes>>>>;

    /// One bounded page of a range.
    fn scan<'a>(&'a self, scan: &'a Scan) -> BoxFuture<'a, EngineResult<Page>>;

    /// How far this snapshot shows all that was appended. Where others write to the same data it
    /// must be asked for before the first read. [`EngineError::Unavailable`] where nothing can be
    /// appended.
    fn settled(&self) -> Answer<'_, EngineResult<Settled>> {
        let cause = "this engine keeps no change log; use rocks, memory or PostgreSQL";
        Answer::ready(Err(EngineError::Unavailable(cause.to_owned())))
    }

    /// Commits `writes` against this moment.
    fn commit(self: Box<Self>, writes: WriteSet)
    -> BoxFuture<'static, EngineResult<CommitOutcome>>;
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Applied.
    Done(Done),
    /// Refused: a written or guarded key changed since the snapshot. Nothing was applied.
    Conflict,
    /// The engine cannot tell (a connection lost during the commit). Never answered by embedded
    /// engines.
    Unknown,
}

/// A commit that was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The engine-wide commit version.
    pub version: u64,
    /// The last stamp that its appended entries can have; none if there were none, or if the answer
    /// was lost and the commit not.
    pub stamp: Option<Stamp>,
}

impl Done {
    /// A commit that appended nothing.
    pub fn at(version: u64) -> Self {
        Self {
            version,
            stamp: None,
        }
    }
}

/// How far a snapshot shows what was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// At or below this stamp nothing will appear any more, and the snapshot shows all of it.
    pub through: Stamp,
    /// At or above every stamp of a commit that was answered before. What lies between both may be
    /// incomplete.
    pub newest: Stamp,
}

/// A half-open range of keys: `start <= key < end`. No `end` means to the end of the key space.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// First key of the range.
    pub start: Bytes,
    /// First key after the range.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// The range `start <= key < end`.
    pub fn new(start: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self {
            start: start.into(),
            end: Some(end.into()),
        }
    }

    /// Every key there is.
    pub fn all() -> Self {
        Self {
            start: Bytes::new(),
            end: None,
        }
    }

    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start: Bytes = prefix.into();
        let end = prefix_successor(&start);
        Self { start, end }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_ref() && self.end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end <= &self.start)
    }
}

/// The smallest key greater than every key that begins with `prefix`; none when all its bytes are
/// `ff`.
pub fn prefix_successor(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut successor = prefix.get(..=last)?.to_vec();
    *successor.last_mut()? += 1;
    Some(successor.into())
}

/// What a scan should return.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The keys to visit.
    pub range: KeyRange,
    /// From the end of the range to its start.
    pub reverse: bool,
    /// At most this many entries.
    pub max_rows: usize,
    /// Stop after the entry that brings keys and values to this many bytes.
    pub max_bytes: usize,
    /// Leave the values out: they come back empty.
    pub keys_only: bool,
    /// The scan reads its data once, so it does not replace other data in caches.
    pub in_passing: bool,
}

impl Scan {
    /// A forward scan of `range` in pages of at most 1,000 entries and 1 MiB.
    pub fn new(range: KeyRange) -> Self {
        Self {
            range,
            reverse: false,
            max_rows: 1_000,
            max_bytes: 1 << 20,
            keys_only: false,
            in_passing: false,
        }
    }

    /// The same scan, for data that is read once.
    #[must_use]
    pub fn in_passing(mut self) -> Self {
        self.in_passing = true;
        self
    }

    /// The same scan, continued behind `last`, the last key of the page before.
    pub fn after(&self, last: &Bytes) -> Self {
        let mut next = self.clone();
        if self.reverse {
            next.range.end = Some(last.clone());
        } else {
            let mut start = Vec::with_capacity(last.len() + 1);
            start.extend_from_slice(last);
            start.push(0);
            next.range.start = start.into();
        }
        next
    }
}

/// One page of a scan.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Keys and values in scan order.
    pub entries: Vec<(Bytes, Bytes)>,
    /// Whether a bound ended the page before the range did. The next page may still be empty.
    pub more: bool,
}

/// Over how much data one snapshot is consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotScope {
    /// Over everything.
    Global,
    /// Only within one physical partition.
    Partition,
}

/// What an engine can do. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// How much one snapshot covers.
    pub snapshot_scope: SnapshotScope,
    /// Whether other servers write to the same data. If not, caches need no check inside reads.
    pub shared: bool,
    /// The longest key.
    pub max_key_bytes: usize,
    /// The largest value.
    pub max_value_bytes: usize,
    /// The largest write set.
    pub max_transaction_bytes: usize,
    /// Whether deleting a range takes the same time however much it holds.
    pub constant_range_deletes: bool,
    /// Whether appended entries are kept by the time of their commit, so that old ones go together:
    /// see [`Engine::tend_log`].
    pub keeps_log_by_time: bool,
}

impl Capabilities {
    /// Refuses a write set with a key, a value or a sum of all beyond the limits. Every engine
    /// calls this first.
    pub fn check(&self, writes: &WriteSet) -> EngineResult<()> {
        let check = |what: &'static str, size: usize, limit: usize| {
            if size > limit {
                Err(EngineError::TooLarge { what, size, limit })
            } else {
                Ok(())
            }
        };
        let ranges = writes.range_deletes().iter();
        let ends_of_ranges = ranges.flat_map(|range| [Some(&range.start), range.end.as_ref()]);
        let keys = writes.writes().keys().chain(writes.guards().keys());
        let keys = keys
            .chain(writes.tallies().keys())
            .chain(ends_of_ranges.flatten());
        for key in keys {
            check("key", key.len(), self.max_key_bytes)?;
        }
        for write in writes.writes().values() {
            if let Write::Put(value) = write {
                check("value", value.len(), self.max_value_bytes)?;
            }
        }
        for appended in writes.appended() {
            check("key", appended.prefix.len(), MAX_LOG_PREFIX_BYTES)?;
            check("value", appended.value.len(), self.max_value_bytes)?;
            if !key::is_log(&appended.prefix) {
                let cause = "what is appended belongs to the change log".to_owned();
                return Err(EngineError::Unavailable(cause));
            }
        }
        check(
            "transaction",
            writes.byte_size(),
            self.max_transaction_bytes,
        )
    }
}

/// Why an engine could not do its work. Few on purpose: one variant for each different reaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Not reachable, closing or closed. Trying again may help.
    #[error("the storage engine is unavailable: {0}")]
    Unavailable(String),
    /// The engine stopped taking writes to protect what it has, after a failed sync or on a full
    /// disk.
    #[error("the storage engine is read-only: {0}")]
    ReadOnly(String),
    /// Stored bytes are not what was written.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// A key, value or write set beyond [`Capabilities`].
    #[error("{what} of {size} bytes is over the engine's limit of {limit}")]
    TooLarge {
        /// What was too large: "key", "value" or "transaction".
        what: &'static str,
        /// Its size.
        size: usize,
        /// The most the engine takes.
        limit: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_successor_steps_over_trailing_ff() {
        let check = |prefix: &[u8], expected: Option<&[u8]>| {
            assert_eq!(prefix_successor(prefix).as_deref(), expected, "{prefix:x?}");
        };
        check(b"a", Some(b"b"));
        check(b"a\xff", Some(b"b"));
        check(b"a\xfe", Some(b"a\xff"));
        check(b"\xff\xff", None);
        check(b"", None);
    }

    #[test]
    fn prefix_range_holds_exactly_the_keys_with_that_prefix() {
        let range = KeyRange::prefix(&b"ab"[..]);
        for (key, inside) in [
            ("ab", true),
            ("ab\u{7f}", true),
            ("aa", false),
            ("ac", false),
        ] {
            assert_eq!(range.contains(key.as_bytes()), inside, "{key}");
        }
        assert!(KeyRange::prefix(&b""[..]).contains(b"anything"));
    }
}
