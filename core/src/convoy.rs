//! Convoys: statements that wait for the same latch run in one transaction and share its commit.
//!
//! A commit takes as long as the disk, and writers of one hot item would take their turns at that
//! pace. Instead the one whose turn it is hands its transaction on to the next, who sees what it
//! wrote and adds its own; the last one commits for all. All of them waited before the snapshot was
//! taken, so none of them reads anything older than itself. Each has a bill of its own, and one
//! that fails is undone and leaves the others alone. Nobody is answered before the commit, not
//! even with a failure, which may come from what the others wrote.

use tokio::sync::oneshot;

use crate::budget::Bill;
use crate::error::{Error, Result};
use crate::feed::stamp::Stamp;
use crate::latch::{Crowd, Latched, Latches};
use crate::store::Store;
use crate::transaction::{Committed, Savepoint, Transaction};

/// More statements than this do not share a commit: the first one waits for the last.
const MOST: usize = 64;
/// A transaction with so many bytes goes no further.
const ENOUGH_BYTES: usize = 1 << 20;

/// The latches of all items, which convoys are handed on with.
pub(crate) type ItemLatches = Latches<Convoy>;

/// A transaction on its way from one statement to the next.
pub(crate) struct Convoy {
    transaction: Box<Transaction>,
    /// Whose statements have run in it.
    members: Members,
    /// Who may still join; nobody if none.
    crowd: Option<Crowd>,
}

/// Those who wait to hear what becomes of a convoy. Dropped, it tells them to try again.
#[derive(Default)]
struct Members(Vec<oneshot::Sender<Verdict>>);

/// What became of a convoy.
enum Verdict {
    Committed {
        version: u64,
        stamp: Option<Stamp>,
    },
    /// Nothing of it is done, and why.
    Again(Error),
}

/// One statement in a convoy, or alone: it has the latch and the transaction.
pub(crate) struct Ride {
    latched: Latched<Convoy>,
    convoy: Convoy,
    /// What those before it have done; none if it is the first.
    before: Option<Savepoint>,
}

/// Why a statement is not committed.
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// Whether alone it might fare better.
    pub(crate) in_company: bool,
}

impl Ride {
    /// The first statement begins a transaction, which others join if it `joins` itself; they go on
    /// with what they were handed.
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
        // Asked before the snapshot is taken: whoever comes later must see a later one.
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

    /// What the statement runs in.
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
        // Boxed: few statements have company, and all would carry the room for it.
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
            // Only a server that ends does not wait for its commits.
            Err(_) => Err(Refused::alone(Error::OutcomeUnknown)),
        }
    }

    /// The statement has failed. Whether what it failed for stands: it may have been written by
    /// those before it, and must then be committed.
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

    /// The statement will run again: the others go on without it.
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
    /// To the next statement, or to the commit, which nobody can call off.
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
        // From here on it is not certain that nothing is done, so nobody is told to try again just
        // because this ends.
        let members = self.members.into_waiting();
        let verdict = match self.transaction.commit().await {
            Ok(committed) => Ok((committed.version, committed.stamp)),
            Err(Error::OutcomeUnknown) => return,
            Err(error) => Err(error),
        };
        drop(latched);
        for member in members {
            // One who is not there any more does not mind.
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
