//! The SQL of the engine, and its prepared form on one connection.
//!
//! Everything is prepared before it is used: the driver sends a statement that it has to prepare
//! first only after an answer, and then a COMMIT that was sent behind it would overtake it.

use tokio_postgres::{Client, Error, Statement};

use super::Flavour;
use super::log::{DATA_AND_LOG, LogStatements};

/// The tables of version 1. `tessera_entry` holds the data, see `stored_key`; in version 2 it is
/// divided into what changes often and the rest, under the name `tessera_data`.
/// `tessera_connection` has a row for each connection with the number of its last commit, which
/// tells after a lost connection whether that commit happened. `tessera_guard` came with version 2,
/// see `guard`, and has another name since version 3.
pub(super) const SCHEMA: &str = "
CREATE TABLE tessera_entry (
    key bytea NOT NULL,
    mark bytea NOT NULL,
    tail bytea,
    value bytea,
    items bigint,
    bytes bigint,
    PRIMARY KEY (key, mark)
);
CREATE TABLE tessera_connection (
    id bytea PRIMARY KEY,
    commits bigint NOT NULL,
    fenced boolean NOT NULL,
    opened timestamptz NOT NULL
);
CREATE TABLE tessera_schema (version bigint PRIMARY KEY);
INSERT INTO tessera_schema VALUES (1);
";

const GET: &str = "SELECT value, items, bytes FROM tessera_data
    WHERE key = $1 AND mark >= $2 AND mark < $3";

const MULTI_GET: &str = "SELECT u.position, e.value, e.items, e.bytes
    FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY u(key, mark, position)
    JOIN tessera_data e
    ON e.key = u.key AND e.mark >= u.mark AND e.mark < u.mark || '\\x02'::bytea";

const LOCK_GUARDS: &str = "SELECT 1 FROM tessera_guards
    WHERE bucket = ANY($1::int[]) AND slot = $2 FOR SHARE";

/// In the order of the rows, so that two who do this wait for each other and never both.
const TURN_GUARDS: &str = "UPDATE tessera_guards g SET turn = turn + 1
    FROM (SELECT bucket, slot FROM tessera_guards WHERE bucket = ANY($1::int[])
        ORDER BY bucket, slot FOR UPDATE) locked
    WHERE g.bucket = locked.bucket AND g.slot = locked.slot";

const SHARE: &str = "SELECT 1 FROM unnest($1::bytea[], $2::bytea[]) u(key, mark)
    JOIN tessera_data e ON e.key = u.key AND e.mark = u.mark FOR SHARE OF e";

const CLAIM: &str = "INSERT INTO tessera_data (key, mark)
    SELECT u.key, u.mark FROM unnest($1::bytea[], $2::bytea[]) u(key, mark)
    WHERE NOT EXISTS
        (SELECT 1 FROM tessera_data e WHERE e.key = u.key AND e.mark = u.mark)";

const UNCLAIM: &str = "DELETE FROM tessera_data e
    USING unnest($1::bytea[], $2::bytea[]) u(key, mark)
    WHERE e.key = u.key AND e.mark = u.mark AND e.value IS NULL";

const INSERT: &str = "INSERT INTO tessera_data (key, mark, tail, value)
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[])";

const PUT: &str = "WITH input AS (
        SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[])
            u(key, mark, tail, value)
    ), updated AS (
        UPDATE tessera_data e SET value = u.value FROM input u
        WHERE e.key = u.key AND e.mark = u.mark
    )
    INSERT INTO tessera_data (key, mark, tail, value) SELECT * FROM input u
    WHERE NOT EXISTS
        (SELECT 1 FROM tessera_data e WHERE e.key = u.key AND e.mark = u.mark)";

const DELETE: &str = "DELETE FROM tessera_data e
    USING unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY u(key, mark, position)
    WHERE e.key = u.key AND e.mark >= u.mark AND e.mark < u.mark || '\\x02'::bytea
    RETURNING u.position, e.items IS NOT NULL OR octet_length(e.value) = 16";

const DELETE_RANGE: &str = "DELETE FROM tessera_data
    WHERE key >= $1 AND key <= $3
    AND (key > $1 OR coalesce(tail, '') >= $2) AND (key < $3 OR coalesce(tail, '') < $4)";

const ADD: &str = "INSERT INTO tessera_data AS e (key, mark, tail, items, bytes)
    SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[])
    ON CONFLICT (key, mark) DO UPDATE
    SET items = e.items + excluded.items, bytes = e.bytes + excluded.bytes";

/// Fails where this connection was taken for dead.
const RECORD: &str = "WITH recorded AS (
        UPDATE tessera_connection SET commits = $2
        WHERE id = $1 AND NOT fenced RETURNING 1
    ) SELECT 1 / count(*) FROM recorded";

/// The statements of one connection.
pub(super) struct Statements {
    pub(super) get: Statement,
    pub(super) multi_get: Statement,
    pub(super) lock_guards: Statement,
    pub(super) turn_guards: Statement,
    pub(super) share: Statement,
    pub(super) claim: Statement,
    pub(super) unclaim: Statement,
    pub(super) insert: Statement,
    pub(super) put: Statement,
    pub(super) delete: Statement,
    pub(super) delete_range: Statement,
    pub(super) add: Statement,
    pub(super) record: Statement,
    /// None where there is no log.
    pub(super) log: Option<LogStatements>,
    scans: Scans,
    /// The same over the data and the log; over the data alone where there is no log.
    log_scans: Scans,
}

impl Statements {
    /// Prepares all, in one round trip.
    pub(super) async fn prepare(client: &Client, flavour: Flavour) -> Result<Self, Error> {
        let read = async {
            tokio::try_join!(
                client.prepare(GET),
                client.prepare(MULTI_GET),
                prepare_scans(client, flavour),
            )
        };
        let guard = async {
            tokio::try_join!(
                client.prepare(LOCK_GUARDS),
                client.prepare(TURN_GUARDS),
                client.prepare(SHARE),
                client.prepare(CLAIM),
                client.prepare(UNCLAIM),
            )
        };
        let write = async {
            tokio::try_join!(
                client.prepare(INSERT),
                client.prepare(PUT),
                client.prepare(DELETE),
                client.prepare(DELETE_RANGE),
            )
        };
        let log = async {
            Ok(match flavour {
                Flavour::Postgres => Some(LogStatements::prepare(client).await?),
                Flavour::Cockroach | Flavour::Yugabyte => None,
            })
        };
        let count = async { tokio::try_join!(client.prepare(ADD), client.prepare(RECORD)) };
        let (read, guard, write, count, log) = tokio::try_join!(read, guard, write, count, log)?;
        let (get, multi_get, (scans, log_scans)) = read;
        let (lock_guards, turn_guards, share, claim, unclaim) = guard;
        let (insert, put, delete, delete_range) = write;
        let (add, record) = count;
        Ok(Self {
            get,
            multi_get,
            lock_guards,
            turn_guards,
            share,
            claim,
            unclaim,
            insert,
            put,
            delete,
            delete_range,
            add,
            record,
            log,
            scans,
            log_scans,
        })
    }

    /// The scan of this kind.
    pub(super) fn scan(&self, kind: ScanKind) -> &Statement {
        let scans = match kind.with_log {
            true => &self.log_scans,
            false => &self.scans,
        };
        scans
            .pick(kind.reverse)
            .pick(kind.keys_only)
            .pick(kind.whole_keys)
    }
}

/// Something for each answer to a question.
struct Choice<T> {
    no: T,
    yes: T,
}

impl<T> Choice<T> {
    fn pick(&self, answer: bool) -> &T {
        if answer { &self.yes } else { &self.no }
    }
}

type Scans = Choice<Choice<Choice<Statement>>>;

async fn prepare_scans(client: &Client, flavour: Flavour) -> Result<(Scans, Scans), Error> {
    let has_log = flavour == Flavour::Postgres;
    tokio::try_join!(scans_of(client, false), scans_of(client, has_log))
}

async fn scans_of(client: &Client, with_log: bool) -> Result<Scans, Error> {
    let one = async |reverse, keys_only, whole_keys| {
        let kind = ScanKind {
            reverse,
            keys_only,
            whole_keys,
            with_log,
        };
        client.prepare(&kind.sql()).await
    };
    let two = async |reverse, keys_only| {
        let (no, yes) = tokio::try_join!(
            one(reverse, keys_only, false),
            one(reverse, keys_only, true)
        )?;
        Ok::<_, Error>(Choice { no, yes })
    };
    let four = async |reverse| {
        let (no, yes) = tokio::try_join!(two(reverse, false), two(reverse, true))?;
        Ok::<_, Error>(Choice { no, yes })
    };
    let (no, yes) = tokio::try_join!(four(false), four(true))?;
    Ok(Choice { no, yes })
}

/// The forms that a scan takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanKind {
    pub(super) reverse: bool,
    pub(super) keys_only: bool,
    /// By the whole key, with a sort among long keys of one head, instead of by the index alone.
    pub(super) whole_keys: bool,
    /// Of the log as well.
    pub(super) with_log: bool,
}

impl ScanKind {
    /// The range, at most so many rows, and of those the ones before which there are fewer bytes
    /// than allowed.
    fn sql(self) -> String {
        let direction = if self.reverse { "DESC" } else { "ASC" };
        let table = match self.with_log {
            true => DATA_AND_LOG,
            false => "tessera_data",
        };
        let order = if self.whole_keys {
            format!("key {direction}, coalesce(tail, '') {direction}, mark {direction}")
        } else if self.with_log {
            // In the order of the indexes of both; a key is in one of them.
            format!("key {direction}")
        } else {
            format!("key {direction}, mark {direction}")
        };
        let value = if self.keys_only {
            "NULL::bytea"
        } else {
            "value"
        };
        let tails = if self.whole_keys {
            "AND (key > $1 OR coalesce(tail, '') >= $2) AND (key < $3 OR coalesce(tail, '') < $4)"
        } else {
            // The parameters keep their places and types.
            "AND key < $3 AND $2::bytea = $4::bytea"
        };
        format!(
            "SELECT key, mark, tail, value, items, bytes FROM (
                SELECT *, sum(size) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING) - size
                    AS before
                FROM (
                    SELECT key, mark, tail, {value} AS value, items, bytes,
                        octet_length(key) + coalesce(octet_length(tail), 0)
                        + coalesce(octet_length({value}), 0) AS size
                    FROM {table} WHERE key >= $1 AND key <= $3 {tails}
                    ORDER BY {order} LIMIT $5
                ) limited
            ) sized WHERE before < $6 ORDER BY {order}"
        )
    }
}
