//! The table of appended entries, and how far they are complete.
//!
//! Entries lie in a table of their own, divided by the time of their commit, so that old ones are
//! dropped as a whole and leave nothing to clean up beside the data. Keys of the log that were put
//! and not appended, as by a copy, are in the table of the data; reads look at both.
//!
//! **Stamps.** The version in a stamp is the number of the transaction, taken inside the commit,
//! behind its snapshot: of two commits of which the second has seen the first, the second has the
//! larger number. They become visible in another order. What is below the smallest number of a
//! transaction under way *in this database*, prepared ones included, is complete; writers elsewhere
//! in the cluster delay nothing.
//!
//! **Epochs.** Numbers start again where a discarded history has gone on, so the timeline and the
//! identity of the database have an epoch each. Both cannot change under a connection that writes.
//! An epoch ends with its last entry that is here: numbers behind it may be of commits that a
//! standby never got, or of others that came since, so what stands there proves nothing.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tessera_core::engine::Settled;
use tessera_core::feed::stamp::Stamp;
use tokio_postgres::{Client, Error, Row, Statement};
use tracing::debug;

use super::connection::Connection;

/// Seconds of one part of the table.
const PERIOD_SECONDS: u64 = 6 * 60 * 60;

/// How many parts to come are there ahead of their time.
const AHEAD: u64 = 2;

/// The tables.
pub(super) const TABLES: &str = "
CREATE TABLE tessera_log (
    period int NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (key, period)
) PARTITION BY RANGE (period);
CREATE TABLE tessera_log_rest PARTITION OF tessera_log DEFAULT;
CREATE TABLE tessera_epoch (
    epoch bigint PRIMARY KEY,
    identity text NOT NULL UNIQUE,
    ended bigint
);";

/// What tells this history from others: the cluster, the database, the table, the timeline.
const IDENTITY: &str = "(SELECT system_identifier FROM pg_control_system()) || '/'
    || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/'
    || 'tessera_epoch'::regclass::oid || '/'
    || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)";

/// The part of the table that entries of this moment go to.
const PERIOD: &str = "floor(extract(epoch FROM now()) / 21600)::int";

/// The arithmetic keeps numbers apart that have only their lower half, from 2^31 before the next
/// number to 2^31 behind it. The snapshot of the statement is older than what it sees of sessions.
const SETTLED: &str = "
SELECT next, (
    SELECT min(((x.number - (next & 4294967295) + 6442450944) & 4294967295) - 2147483648) FROM (
        SELECT backend_xid::text::bigint FROM pg_stat_activity
            WHERE backend_xid IS NOT NULL AND datname = current_database()
        UNION ALL
        SELECT transaction::text::bigint FROM pg_prepared_xacts
            WHERE database = current_database()
    ) x(number)
) FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n";

/// `int4send(0)`: each commit has a number of its own.
const APPEND: &str = "
WITH entry AS (SELECT pg_current_xact_id()::text::bigint AS version),
added AS (
    INSERT INTO tessera_log (period, key, value)
    SELECT floor(extract(epoch FROM now()) / 21600)::int,
        u.prefix || int8send($3::bigint) || int8send(entry.version) || int4send(0)
            || int4send((u.position - 1 + $4::bigint)::int),
        u.value
    FROM entry, unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY u(prefix, value, position)
)
SELECT version FROM entry";

const GET: &str = "SELECT value, items, bytes FROM tessera_data
    WHERE key = $1 AND mark >= $2 AND mark < $3
    UNION ALL SELECT value, NULL::bigint, NULL::bigint FROM tessera_log WHERE key = $1";

const DELETE: &str = "DELETE FROM tessera_log WHERE key = ANY($1::bytea[])";

const DELETE_RANGE: &str = "DELETE FROM tessera_log WHERE key >= $1 AND key < $2";

/// What scans read where the log may be among it, as a table.
pub(super) const DATA_AND_LOG: &str = "(
    SELECT key, mark, tail, value, items, bytes FROM tessera_data
    UNION ALL SELECT key, '\\x'::bytea, NULL::bytea, value, NULL::bigint, NULL::bigint
        FROM tessera_log) data_and_log";

/// The statements of the log, prepared.
pub(super) struct LogStatements {
    pub(super) append: Statement,
    pub(super) settled: Statement,
    pub(super) get: Statement,
    pub(super) delete: Statement,
    pub(super) delete_range: Statement,
}

impl LogStatements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let (append, settled, get, delete, delete_range) = tokio::try_join!(
            client.prepare(APPEND),
            client.prepare(SETTLED),
            client.prepare(GET),
            client.prepare(DELETE),
            client.prepare(DELETE_RANGE),
        )?;
        Ok(Self {
            append,
            settled,
            get,
            delete,
            delete_range,
        })
    }
}

/// The epoch of the history that a connection writes to. The first connection of it begins it.
pub(super) async fn epoch(client: &Client) -> Result<i64, Error> {
    let query = format!("SELECT epoch FROM tessera_epoch WHERE identity = {IDENTITY}");
    if let Some(row) = client.query_opt(&query, &[]).await? {
        return row.try_get(0);
    }
    begin_epoch(client).await?;
    client.query_one(&query, &[]).await?.try_get(0)
}

/// Ends the epochs before, and begins one unless another server has done so.
async fn begin_epoch(client: &Client) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let least = now.unwrap_or_default().as_millis();
    let recent = last_version(&format!("AND period >= {PERIOD} - 1"));
    let any = last_version("");
    client
        .batch_execute(&format!(
            "BEGIN;
            LOCK TABLE tessera_epoch IN SHARE ROW EXCLUSIVE MODE;
            UPDATE tessera_epoch e SET ended = coalesce(({recent}), ({any}), 0)
                WHERE ended IS NULL AND identity <> {IDENTITY};
            INSERT INTO tessera_epoch
                SELECT greatest({least}, (SELECT max(epoch) + 1 FROM tessera_epoch)), {IDENTITY}
                ON CONFLICT (identity) DO NOTHING;
            COMMIT"
        ))
        .await
}

/// The query for the last version in epoch `e` of entries for which this holds as well.
fn last_version(condition: &str) -> String {
    format!(
        "SELECT ('x' || encode(substr(key, length(key) - 15, 8), 'hex'))::bit(64)::bigint
            FROM tessera_log
            WHERE substr(key, length(key) - 23, 8) = int8send(e.epoch) {condition}
            ORDER BY 1 DESC LIMIT 1"
    )
}

/// Begins another epoch behind these, which are those of a copy's source. Connections that are open
/// stay in the one before.
pub(super) async fn adopt_history(client: &Client, past: &[Stamp]) -> Result<(), Error> {
    let mut adopt = String::from("BEGIN; DELETE FROM tessera_epoch;");
    for end in past {
        let (epoch, version) = (end.epoch, end.version);
        // A String takes everything.
        let _written = write!(
            adopt,
            "INSERT INTO tessera_epoch VALUES ({epoch}, 'copied {epoch}', {version});"
        )
        .is_ok();
    }
    adopt.push_str("COMMIT");
    client.batch_execute(&adopt).await?;
    begin_epoch(client).await
}

/// The ends of the epochs that ended, oldest first.
pub(super) async fn past_epochs(client: &Client) -> Result<Vec<Stamp>, Error> {
    let query = "SELECT epoch, ended FROM tessera_epoch WHERE ended IS NOT NULL ORDER BY epoch";
    let rows = client.query(query, &[]).await?;
    let end = |row: &Row| Ok(Stamp::end_of(number(row, 0)?, number(row, 1)?));
    rows.iter().map(end).collect()
}

/// How far the log is complete for a snapshot that begins after `row` was answered.
pub(super) fn settled(row: &Row, epoch: i64) -> Result<Settled, Error> {
    let next: i64 = row.try_get(0)?;
    let oldest: Option<i64> = row.try_get(1)?;
    let through = next + oldest.unwrap_or(0).min(0) - 1;
    let end = |version: i64| Stamp::end_of(epoch.unsigned_abs(), version.unsigned_abs());
    Ok(Settled {
        through: end(through),
        newest: end(next - 1),
    })
}

/// The stamp behind all entries of the commit of this version.
pub(super) fn stamp(epoch: i64, version: i64) -> Stamp {
    Stamp {
        epoch: epoch.unsigned_abs(),
        version: version.unsigned_abs(),
        ..Stamp::START
    }
    .end_of_commit()
}

fn number(row: &Row, column: usize) -> Result<u64, Error> {
    Ok(row.try_get::<_, i64>(column)?.unsigned_abs())
}

/// Makes the parts of the table that are needed soon, and drops those that ended before
/// `before_ms`. Each on its own, and gives up at once where another holds the table: it is asked
/// again.
pub(super) async fn tend(connection: &Connection, before_ms: u64) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let period = now.unwrap_or_default().as_secs() / PERIOD_SECONDS;
    let client = &connection.client;
    let query = "SELECT relname::text FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
        WHERE inhparent = 'tessera_log'::regclass";
    let rows = client.query(query, &[]).await?;
    let names: Result<Vec<String>, Error> = rows.iter().map(|row| row.try_get(0)).collect();
    let parse = |name: &String| name.strip_prefix("tessera_log_p")?.parse::<u64>().ok();
    let there: Vec<u64> = names?.iter().filter_map(parse).collect();
    for wanted in (period..=period + AHEAD).filter(|wanted| !there.contains(wanted)) {
        let next = wanted + 1;
        let make = format!(
            "CREATE TABLE IF NOT EXISTS tessera_log_p{wanted} PARTITION OF tessera_log
                FOR VALUES FROM ({wanted}) TO ({next})"
        );
        change_table(client, &make).await;
    }
    let has_ended = |period: &&u64| (**period + 1) * PERIOD_SECONDS * 1_000 <= before_ms;
    for ended in there.iter().filter(has_ended) {
        change_table(
            client,
            &format!("DROP TABLE IF EXISTS tessera_log_p{ended}"),
        )
        .await;
    }
    let oldest = before_ms / 1_000 / PERIOD_SECONDS;
    let forget = format!("DELETE FROM tessera_log_rest WHERE period < {oldest}");
    client.batch_execute(&forget).await
}

/// Waits for others only shortly: those who come behind it would wait too.
const TABLE_PATIENCE: Duration = Duration::from_millis(300);

async fn change_table(client: &Client, change: &str) {
    let patience = TABLE_PATIENCE.as_millis();
    let all = format!("BEGIN; SET LOCAL lock_timeout = {patience}; {change}; COMMIT");
    if let Err(error) = client.batch_execute(&all).await {
        debug!(%error, change, "the parts of the change log stay as they are for now");
        // An error here means that the connection is gone.
        let _ended = client.batch_execute("ROLLBACK").await.is_ok();
    }
}
