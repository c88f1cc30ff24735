//! One connection to the database, ready for everything the engine asks.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio_postgres::{Client, Error};
use tracing::debug;

use super::Flavour;
use super::address::Address;
use super::statements::Statements;
use super::stored_key::tally_mark;
use super::tls::Tls;

/// Plans that go by the key however small the table is, made once; and no wait without end.
const SESSION: &str = "
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
SET lock_timeout = '10s'";

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
    /// The mark of the tally rows that only this connection writes. Because no other does, they
    /// never conflict.
    pub(super) tally_mark: Vec<u8>,
    /// The number of the last commit that was sent.
    commits: AtomicI64,
    unusable: AtomicBool,
}

impl Connection {
    /// Connects to a database whose schema is there.
    pub(super) async fn open(
        address: &Address,
        tls: &Tls,
        flavour: Flavour,
    ) -> Result<Self, Error> {
        let client = connect(address, tls).await?;
        let take_slot = match flavour {
            Flavour::Postgres => {
                client.batch_execute(SESSION).await?;
                TAKE_SLOT
            }
            Flavour::Cockroach | Flavour::Yugabyte => DRAW_SLOT,
        };
        let (slot, identity, statements) = tokio::try_join!(
            client.query_one(take_slot, &[]),
            client.query_one(IDENTIFY, &[]),
            Statements::prepare(&client),
        )?;
        let slot = u32::try_from(slot.try_get::<_, i32>(0)?).unwrap_or_default();
        Ok(Self {
            id: identity.try_get(0)?,
            tally_mark: tally_mark(slot),
            commits: AtomicI64::new(0),
            unusable: AtomicBool::new(false),
            client,
            statements,
        })
    }

    /// A number for a commit that is about to be sent.
    pub(super) fn next_commit(&self) -> i64 {
        self.commits.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps this connection from being used again.
    pub(super) fn give_up(&self) {
        self.unusable.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.unusable.load(Ordering::Relaxed)
    }
}

/// A bare connection.
pub(super) async fn connect(address: &Address, tls: &Tls) -> Result<Client, Error> {
    let (client, connection) = address.config().connect(tls.clone()).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(%error, "a connection to the database ended");
        }
    });
    Ok(client)
}
