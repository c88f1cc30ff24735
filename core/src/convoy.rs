//! Convoys: statements that wait for the same latch run in one transaction and share its commit.
//!
//! A commit takes as long as a sync of the disk, and without convoys the writers of one hot item
//! would take turns at that pace. Instead the statement that holds the latch hands its transaction
//! to the next one, which sees the earlier writes and adds its own; the last one commits for all.
//! All of them began to wait before the snapshot was taken, so none reads data older than its own
//! start. Each has a bill of its own, and one that fails is undone without affecting the others. No
//! statement is answered before the commit, failed ones included, because the failure may depend on
//! uncommitted writes of the others.

use tokio::sync::oneshot;

use crate::budget::Bill;
use crate::error::{Error, Result};
use crate::feed::stamp::Stamp;
use crate::latch::{Crowd, Latched, Latches};
use crate::store::Store;
use crate::transaction::{Committed, Savepoint, Transaction};

/// The most statements that share a commit, because the first one waits for the last.
const MOST: usize = 64;
/// A transaction of this many bytes is not handed on.
const ENOUGH_BYTES: usize = 1 << 20;

/// The latches of all items, with which convoys are handed on.
pub(crate) type ItemLatches = Latches<Convoy>;

/// A transaction on its way from one statement to the next.
pub(crate) struct Convoy {
    transaction: Box<Transaction>,
    /// The statements that have run in it.
    members: Members,
    /// The statements that may still join; none if it takes no more.
    crowd: Option<Crowd>,
}

/// The statements that wait for the outcome of a convoy. If this is dropped, they try again.
#[derive(Default)]
struct Members(Vec<oneshot::Sender<Verdict>>);

/// The outcome of a convoy.
enum Verdict {
    Committed {
        version: u64,
        stamp: Option<Stamp>,
    },
    /// Nothing was applied, and why.
    Again(Error),
}

/// One statement in a convoy, or alone: it has the latch and the transaction.
pub(crate) struct Ride {
    latched: Latched<Convoy>,
    convoy: Convoy,
    /// The transaction of the statements before it; none if it is the first.
    before: Option<Savepoint>,
}

/// Why a statement is not committed.
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// Whether it may succeed if it runs alone.
    pub(crate) in_company: bool,
}

impl Ride {
    /// The first statement begins a transaction, which others may join if it `joins` itself; the
    /// others continue the one they were handed.
    pub(crate) async fn begin(
        store: &Store,
        mut latched: Latched<Convoy>,
        joins: bool,
    ) -> Result<Self> {
        if let Some(convoy) = latched.take_handed() {
            let before = Some(convoy.transaction.save());
            return Ok(Self {
                latched,
                convoy,
                before,
            });
        }
        // Collected before the snapshot is taken: statements that come later need a later snapshot.
        let crowd = latched.crowd().filter(|_| joins);
        let convoy = Convoy {
            transaction: store.begin_statement().await?,
            members: Members::default(),
            crowd,
        };
        Ok(Self {
            latched,
            convoy,
            before: None,
        })
    }

    /// The transaction that the statement runs in.
    pub(crate) fn transaction(&mut self) -> &mut Transaction {
        &mut self.convoy.transaction
    }

    /// The statement has run: commits it, with all who join.
    pub(crate) async fn commit(self) -> std::result::Result<Committed, Refused> {
        if self.is_alone() {
            let committed = self.convoy.transaction.commit().await;
            drop(self.latched);
            return committed.map_err(Refused::alone);
        }
        // Boxed: few statements share a commit, and the future of each would be larger.
        Box::pin(self.commit_in_company()).await
    }

    fn is_alone(&self) -> bool {
        self.before.is_none() && self.convoy.crowd.is_none()
    }

    async fn commit_in_company(mut self) -> std::result::Result<Committed, Refused> {
        let bill: Bill = self.convoy.transaction.take_bill();
        let verdict = self.convoy.members.add();
        self.convoy.go_on(self.latched);
        match verdict.await {
            Ok(Verdict::Committed { version, stamp }) => Ok(Committed {
                version,
                stamp,
                meter: bill.settle(),
            }),
            Ok(Verdict::Again(error)) => Err(Refused {
                error,
                in_company: true,
            }),
            // The commit is lost only when the server is shutting down.
            Err(_) => Err(Refused::alone(Error::OutcomeUnknown)),
        }
    }

    /// The statement has failed. Returns whether the failure stands: its cause may be an
    /// uncommitted write of an earlier statement, which must be committed first.
    pub(crate) async fn fail(self) -> bool {
        match self.before {
            None => true,
            Some(_) => Box::pin(self.fail_in_company()).await,
        }
    }

    async fn fail_in_company(mut self) -> bool {
        let verdict = self.convoy.members.add();
        self.leave();
        matches!(verdict.await, Ok(Verdict::Committed { .. }))
    }

    /// The statement will run again: the others continue without it.
    pub(crate) fn leave(mut self) {
        if let Some(before) = self.before {
            drop(self.convoy.transaction.take_bill());
            self.convoy.transaction.undo(before);
            self.convoy.go_on(self.latched);
        }
    }
}

impl Refused {
    fn alone(error: Error) -> Self {
        Self {
            error,
            in_company: false,
        }
    }
}

impl Convoy {
    /// Hands the transaction to the next statement, or commits it, which cannot be cancelled.
    fn go_on(self, latched: Latched<Self>) {
        let (latched, convoy) = match self.crowd.filter(|_| self.has_room()) {
            None => (latched, self),
            Some(crowd) => match latched.hand_on(self, crowd) {
                Ok(()) => return,
                Err(kept) => kept,
            },
        };
        crate::deadline::spawn("commit", convoy.commit(latched));
    }

    fn has_room(&self) -> bool {
        self.members.0.len() < MOST && self.transaction.can_be_shared(ENOUGH_BYTES)
    }

    async fn commit(self, latched: Latched<Self>) {
        // From here on the commit may have been applied, so dropping this must not make the others
        // try again.
        let members = self.members.into_waiting();
        let verdict = match self.transaction.commit().await {
            Ok(committed) => Ok((committed.version, committed.stamp)),
            Err(Error::OutcomeUnknown) => return,
            Err(error) => Err(error),
        };
        drop(latched);
        for member in members {
            // The receiver may be gone; ignore the error.
            drop(member.send(match &verdict {
                Ok((version, stamp)) => Verdict::Committed {
                    version: *version,
                    stamp: *stamp,
                },
                Err(error) => Verdict::Again(error.clone()),
            }));
        }
    }
}

impl Members {
    fn add(&mut self) -> oneshot::Receiver<Verdict> {
        let (member, verdict) = oneshot::channel();
        self.0.push(member);
        verdict
    }

    fn into_waiting(mut self) -> Vec<oneshot::Sender<Verdict>> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for member in self.0.drain(..) {
            drop(member.send(Verdict::Again(Error::Conflict)));
        }
    }
}
