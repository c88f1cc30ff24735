//! PostgreSQL as an engine, for data that several servers share.
//!
//! All data is in one table ordered by key, see `postgres/stored_key.rs`. A snapshot is a
//! transaction at REPEATABLE READ, and a commit ends that transaction; the database itself refuses
//! the second of two writers. Several servers may share one database.
//!
//! Tallies never conflict because each connection adds to rows that no other one writes, and
//! readers take the sum. In the background their rows are folded into one: `postgres/tidy.rs`.

mod address;
mod commit;
mod connection;
mod database;
mod failure;
mod guard;
mod hints;
mod log;
mod newer;
mod news;
mod page;
mod pipeline;
mod plan;
mod pool;
mod reach;
mod snapshot;
mod statements;
mod stored_key;
mod tidy;
mod tls;
mod unknown;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tessera_core::engine::{
    Answer, BoxFuture, Capabilities, Engine, EngineError, EngineResult, KeyRange, News, Snapshot,
    SnapshotScope,
};
use tessera_core::feed::stamp::Stamp;
use tokio::sync::{Mutex, RwLock};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, SimpleQueryMessage};
use tracing::{debug, info};

use self::connection::Connection;
use self::failure::Failure;
use self::hints::Hints;
use self::news::Listener;
use self::plan::Bounds;
use self::pool::Pool;
use self::snapshot::PostgresSnapshot;
use self::tidy::Tidying;
use self::tls::Tls;

pub use self::address::Address;
pub use self::database::ConnectError;

const CAPABILITIES: Capabilities = Capabilities {
    snapshot_scope: SnapshotScope::Global,
    shared: true,
    max_key_bytes: 256 << 10,
    max_value_bytes: 32 << 20,
    max_transaction_bytes: 256 << 20,
    constant_range_deletes: false,
    keeps_log_by_time: true,
};

/// Up to how many rows the size of a range is counted and not estimated.
const COUNTED_ROWS: u64 = 20_000;

/// How long a monitor waits for the database.
const PROBING: Duration = Duration::from_millis(1_500);

/// How long closing waits for the database.
const CLOSING: Duration = Duration::from_secs(2);

/// The product behind the PostgreSQL protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Postgres,
    Cockroach,
    Yugabyte,
}

impl Flavour {
    /// How a transaction with snapshot reads and without lost updates begins.
    fn begin(self) -> &'static str {
        match self {
            Self::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Self::Cockroach | Self::Yugabyte => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

/// An engine on a database that other servers may use at the same time.
pub struct PostgresEngine {
    shared: Arc<Shared>,
    /// None where the database does not support notifications.
    listener: Option<Listener>,
    tidying: Tidying,
}

struct Shared {
    pool: Arc<Pool>,
    /// Counts the commits of this engine, from a number that no earlier one can have reached. A
    /// snapshot includes all that were answered before it was taken.
    version: AtomicU64,
    /// Held by each commit, and by closing.
    commits: RwLock<()>,
    /// Tells this engine's own announcements from those of others.
    name: String,
    /// Tells other servers that something was appended.
    hints: Hints,
    /// Finds rows that are newer than a snapshot.
    onlooker: Mutex<Option<Connection>>,
    /// Checks that the database answers, apart from the connections of requests.
    prober: Mutex<Option<Connection>>,
}

impl PostgresEngine {
    /// Connects, with at most this many connections at a time, and creates the tables if there are
    /// none.
    pub async fn connect(address: &Address, most: usize) -> Result<Self, ConnectError> {
        let tls = Tls::new(address.roots()).map_err(|cause| ConnectError::Unreachable {
            address: address.to_string(),
            cause,
        })?;
        let database = database::prepare(address, &tls).await?;
        info!(product = database.product, "connected to {address}");
        let name = news::new_name();
        let listener = (database.flavour == Flavour::Postgres)
            .then(|| Listener::start(address.clone(), tls.clone(), name.clone()));
        let pool = Pool::new(address.clone(), tls, database.flavour, most);
        Ok(Self {
            listener,
            tidying: Tidying::default(),
            shared: Arc::new(Shared {
                pool: Arc::new(pool),
                version: AtomicU64::new(database.version),
                commits: RwLock::default(),
                hints: Hints::default(),
                name,
                onlooker: Mutex::default(),
                prober: Mutex::default(),
            }),
        })
    }

    async fn size(&self, range: &KeyRange) -> EngineResult<u64> {
        self.shared.pool.check_open()?;
        if range.is_empty() {
            return Ok(0);
        }
        let lease = self.shared.pool.lease().await?;
        lease
            .answer(sample(&lease, &Bounds::new(range)))
            .await
            .map_err(Failure::into_engine_error)
    }

    fn begin(&self, is_kept: bool) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        Answer::ready(self.shared.pool.check_open().map(|()| {
            let version = self.shared.version.load(Ordering::Acquire);
            let snapshot = PostgresSnapshot::new(Arc::clone(&self.shared), version, is_kept);
            Box::new(snapshot) as Box<dyn Snapshot>
        }))
    }

    /// Has the database write something, on a connection of its own.
    async fn ask(&self) -> EngineResult<()> {
        let pool = &self.shared.pool;
        pool.check_open()?;
        let mut prober = self.shared.prober.lock().await;
        let connection = match prober.take() {
            Some(connection) if connection.is_usable() && !connection.is_old() => connection,
            _ => pool.open().await?,
        };
        let (record, number) = (&connection.statements.record, connection.next_commit());
        let parameters: [&(dyn ToSql + Sync); 2] = [&connection.id, &number];
        let written = connection
            .answer(connection.client.query(record, &parameters))
            .await;
        written.map_err(Failure::into_engine_error)?;
        *prober = Some(connection);
        Ok(())
    }

    /// Deletes this engine's rows from the table of connections. If that fails, they are removed
    /// later.
    async fn forget_connections(&self) {
        let idle = self.shared.pool.take_all_idle();
        let onlooker = self.shared.onlooker.lock().await.take();
        let prober = self.shared.prober.lock().await.take();
        let all = idle.iter().map(Arc::as_ref);
        let all = all.chain(&onlooker).chain(&prober);
        let ids: Vec<&[u8]> = all.map(|connection| connection.id.as_slice()).collect();
        if let Some(connection) = idle.first() {
            let forget = "DELETE FROM tessera_connection WHERE id = ANY($1)";
            let forgotten = async { connection.client.execute(forget, &[&ids]).await };
            let reach = self.shared.pool.reach();
            if let Err(error) = reach.answer_within(CLOSING, forgotten).await {
                debug!(%error, "connections were not forgotten");
            }
        }
    }
}

impl Engine for PostgresEngine {
    fn snapshot(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        self.begin(false)
    }

    fn snapshot_to_keep(&self) -> Answer<'_, EngineResult<Box<dyn Snapshot>>> {
        self.begin(true)
    }

    fn probe(&self) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async {
            let asked = tokio::time::timeout(PROBING, self.ask()).await;
            asked.unwrap_or_else(|_elapsed| {
                let cause = format!("the database did not answer within {PROBING:?}");
                Err(EngineError::Unavailable(cause))
            })
        })
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn approximate_size<'a>(&'a self, range: &'a KeyRange) -> BoxFuture<'a, EngineResult<u64>> {
        Box::pin(self.size(range))
    }

    fn checkpoint<'a>(&'a self, _path: &'a Path) -> BoxFuture<'a, EngineResult<()>> {
        Box::pin(async {
            self.shared.pool.check_open()?;
            let cause = "the data is in PostgreSQL: copy it with pg_dump or pg_basebackup";
            Err(EngineError::Unavailable(cause.to_owned()))
        })
    }

    fn news(&self) -> Option<News> {
        self.listener.as_ref().map(Listener::news)
    }

    fn tend_log(&self, before_ms: u64) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async move {
            let lease = self.shared.pool.lease().await?;
            if lease.epoch.is_none() {
                return Ok(());
            }
            let tended = lease.answer(log::tend(&lease, before_ms)).await;
            tended.map_err(Failure::into_engine_error)
        })
    }

    fn hint_log(&self) {
        self.shared.hints.tell(&self.shared);
    }

    fn adopt_history(&self, past: Vec<Stamp>) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async move {
            let lease = self.shared.pool.lease().await?;
            if lease.epoch.is_none() {
                return Ok(());
            }
            let adopted = lease.answer(log::adopt_history(&lease.client, &past)).await;
            adopted.map_err(Failure::into_engine_error)?;
            // The open connections are of the epoch before.
            lease.give_up();
            drop(self.shared.pool.take_all_idle());
            Ok(())
        })
    }

    fn past_epochs(&self) -> BoxFuture<'_, EngineResult<Vec<Stamp>>> {
        Box::pin(async {
            let lease = self.shared.pool.lease().await?;
            if lease.epoch.is_none() {
                return Ok(Vec::new());
            }
            let past = lease.answer(log::past_epochs(&lease.client)).await;
            past.map_err(Failure::into_engine_error)
        })
    }

    fn tidy(&self) -> BoxFuture<'_, EngineResult<bool>> {
        Box::pin(self.tidying.step(&self.shared))
    }

    fn close(&self) -> BoxFuture<'_, EngineResult<()>> {
        Box::pin(async {
            self.shared.pool.close();
            self.shared.hints.stop();
            if let Some(listener) = &self.listener {
                listener.stop();
            }
            let _no_commit_is_under_way = self.shared.commits.write().await;
            self.forget_connections().await;
            Ok(())
        })
    }
}

/// Counts the bytes of a range; a range of many rows is estimated from the planner's row count.
async fn sample(connection: &Connection, range: &Bounds<'_>) -> Result<u64, Error> {
    let hex = |bytes: &[u8]| -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("'\\x{digits}'::bytea")
    };
    let (start, end) = (hex(range.start.0), hex(range.end().0));
    let place = format!("FROM tessera_data WHERE key >= {start} AND key < {end}");
    let counted = format!(
        "SELECT count(*), coalesce(sum(size), 0) FROM (SELECT octet_length(key) \
         + coalesce(octet_length(tail), 0) + coalesce(octet_length(value), 16) AS size {place} \
         LIMIT {COUNTED_ROWS}) sample"
    );
    let number = |messages: &[SimpleQueryMessage], column: usize| -> u64 {
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(column),
            _ => None,
        });
        row.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let sample = connection.client.simple_query(&counted).await?;
    let (rows, bytes) = (number(&sample, 0), number(&sample, 1));
    if rows < COUNTED_ROWS {
        return Ok(bytes);
    }
    let explained = connection
        .client
        .simple_query(&format!("EXPLAIN SELECT 1 {place}"))
        .await?;
    let expected = explained.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => expected_rows(row.get(0)?),
        _ => None,
    });
    Ok(bytes / rows * expected.unwrap_or_default().max(rows))
}

/// The number in `… (cost=0.42..8.44 rows=17 width=4)`.
fn expected_rows(plan: &str) -> Option<u64> {
    let (_, behind) = plan.split_once("rows=")?;
    behind.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planners_expectation_is_read_from_its_plan() {
        let plan = "Index Scan using a on b  (cost=0.42..8.44 rows=1700 width=4)";
        assert_eq!(expected_rows(plan), Some(1_700));
        assert_eq!(expected_rows("Index Cond: (key = 1)"), None);
    }
}
