//! One connection to the database, ready for everything the engine asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::{Client, Error};
use tracing::debug;

use super::Flavour;
use super::address::Address;
use super::failure::Failure;
use super::log;
use super::pipeline;
use super::reach::Reach;
use super::statements::Statements;
use super::stored_key::Slot;
use super::tls::Tls;

/// Plans that go by the key however small the table is, made once.
const SESSION: &str = "
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;";

/// A lock that is not granted in this time is a conflict, and no longer than half of the time that
/// an answer may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

const IDENTIFY: &str = "INSERT INTO tessera_connection (id, commits, fenced, opened)
    VALUES (decode(replace(gen_random_uuid()::text, '-', ''), 'hex'), 0, false, now())
    RETURNING id";

/// The lowest slot that no other connection holds. The lock ends with the connection.
const TAKE_SLOT: &str = "SELECT slot FROM generate_series(0, 99999) slot
    WHERE pg_try_advisory_lock(1413829459, slot) LIMIT 1";

/// Without advisory locks; two connections with one slot only wait for each other.
const DRAW_SLOT: &str = "SELECT floor(random() * 100000)::int AS slot";

/// A connection with its prepared statements.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) statements: Statements,
    /// Names this connection in `tessera_connection`.
    pub(super) id: Vec<u8>,
    /// Marks the tally rows that only this connection writes. Because no other does, they never
    /// conflict.
    pub(super) slot: Slot,
    /// The epoch of what it appends; none where there is no log.
    pub(super) epoch: Option<i64>,
    reach: Arc<Reach>,
    /// From then on it is not used again: its row in `tessera_connection` must never get old.
    retires: Instant,
    /// The number of the last commit that was sent.
    commits: AtomicI64,
    unusable: AtomicBool,
    task: AbortHandle,
}

impl Connection {
    /// Connects to a database whose schema is there.
    pub(super) async fn open(
        address: &Address,
        tls: &Tls,
        flavour: Flavour,
        reach: &Arc<Reach>,
    ) -> Result<Self, Failure> {
        let patience = reach.answer_timeout();
        // Boxed: preparing all statements at once is a large future, and rare.
        let set_up = Box::pin(Self::set_up(address, tls, flavour, reach));
        let opened = reach.answer_within(patience, set_up).await;
        match &opened {
            Ok(_) | Err(Failure::Crowded(_)) => reach.note_answer(),
            Err(failure) => reach.note_lost(&failure.to_string()),
        }
        opened
    }

    async fn set_up(
        address: &Address,
        tls: &Tls,
        flavour: Flavour,
        reach: &Arc<Reach>,
    ) -> Result<Self, Error> {
        let (client, task) = connect(address, tls).await?;
        let take_slot = match flavour {
            Flavour::Postgres => {
                let lock_timeout = LOCK_TIMEOUT.min(reach.answer_timeout() / 2).as_millis();
                let session = format!("{SESSION} SET lock_timeout = {lock_timeout}");
                client.batch_execute(&session).await?;
                TAKE_SLOT
            }
            Flavour::Cockroach | Flavour::Yugabyte => DRAW_SLOT,
        };
        let (slot, identity, statements) = tokio::try_join!(
            client.query_one(take_slot, &[]),
            client.query_one(IDENTIFY, &[]),
            Statements::prepare(&client, flavour),
        )?;
        let epoch = match flavour {
            Flavour::Postgres => Some(log::epoch(&client).await?),
            Flavour::Cockroach | Flavour::Yugabyte => None,
        };
        let slot = u32::try_from(slot.try_get::<_, i32>(0)?).unwrap_or_default();
        // Connections that were opened together do not all go together.
        let age = address.connection_age();
        let age = age - age / 100 * (slot % 25);
        Ok(Self {
            id: identity.try_get(0)?,
            slot: Slot(slot),
            epoch,
            reach: Arc::clone(reach),
            retires: Instant::now() + age,
            commits: AtomicI64::new(0),
            unusable: AtomicBool::new(false),
            client,
            statements,
            task,
        })
    }

    /// What the database answers to `request`. A connection that does not answer in time is ended.
    pub(super) async fn answer<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let answer = self.wait(request).await?;
        answer.map_err(|error| Failure::of(&error))
    }

    /// The same, of several requests.
    pub(super) async fn wait<T>(&self, requests: impl Future<Output = T>) -> Result<T, Failure> {
        let answer = self.reach.wait(self.reach.answer_timeout(), requests).await;
        match &answer {
            Ok(_) => self.reach.note_answer(),
            Err(_) => self.give_up(),
        }
        answer
    }

    /// A number for a commit that is about to be sent.
    pub(super) fn next_commit(&self) -> i64 {
        self.commits.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends this connection without waiting for the answers that it still owes.
    pub(super) fn give_up(&self) {
        self.unusable.store(true, Ordering::Relaxed);
        self.task.abort();
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.unusable.load(Ordering::Relaxed)
    }

    pub(super) fn is_old(&self) -> bool {
        Instant::now() >= self.retires
    }

    /// Takes the row of this connection away, without waiting. All its commits were answered, or
    /// nobody will ask about them.
    pub(super) fn forget(&self) {
        let id: String = self.id.iter().map(|byte| format!("{byte:02x}")).collect();
        let forget = format!("DELETE FROM tessera_connection WHERE id = decode('{id}', 'hex')");
        pipeline::send(self.client.batch_execute(&forget));
    }
}

/// A connection that nobody uses any more still waits for the answers that it owes, which may never
/// come.
impl Drop for Connection {
    fn drop(&mut self) {
        let (task, patience) = (self.task.clone(), self.reach.answer_timeout());
        if let Ok(runtime) = Handle::try_current()
            && !task.is_finished()
        {
            runtime.spawn(async move {
                tokio::time::sleep(patience).await;
                task.abort();
            });
        }
    }
}

/// A bare connection, and the task that works for it.
pub(super) async fn connect(address: &Address, tls: &Tls) -> Result<(Client, AbortHandle), Error> {
    let (client, connection) = address.config().connect(tls.clone()).await?;
    let task = tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(%error, "a connection to the database ended");
        }
    });
    Ok((client, task.abort_handle()))
}
