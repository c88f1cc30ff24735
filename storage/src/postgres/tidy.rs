//! Folding the rows of tallies: many into one, and those of nothing into none.
//!
//! Each connection adds to a row of its own, so a key has as many rows as connections wrote it, and
//! would keep them when all that it counted is gone. Additions commute: any rows of a key may be
//! replaced by one with their sum, whatever is added to others at the same moment. That one has a
//! mark which no connection has, so that no writer ever meets it. A writer that meets a row at the
//! very moment at which it goes is refused, and tries again; so rows that were written since the
//! pass before began, and those that a writer holds, are left alone. Readers see the rows of before
//! or of after, which have the same sum.

use tessera_core::engine::EngineResult;
use tessera_core::key;
use tokio::sync::Mutex;

use super::failure::Failure;
use super::stored_key::FOLDED;
use super::{Flavour, Shared};

/// How many keys one step looks at.
const STEP_KEYS: i64 = 1_000;

/// Looks at the next keys behind `$1` and before `$2`, and folds what has several rows or counts
/// nothing, and was not written by transaction `$5` or a later one. Rows are counted again once
/// they are locked: only what is locked is replaced. A tally that came with a copy is a value, and
/// is counted too.
const FOLD: &str = "
WITH page AS MATERIALIZED (
    SELECT DISTINCT key FROM tessera_data WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3
), upto AS MATERIALIZED (
    SELECT (SELECT key FROM page ORDER BY key DESC LIMIT 1) AS key, count(*) AS keys FROM page
), counted AS MATERIALIZED (
    SELECT key, CASE WHEN octet_length(mark) >= 33 THEN substring(mark FROM 1 FOR 33)
            ELSE ''::bytea END AS name,
        coalesce(items, ('x' || encode(substring(value FROM 1 FOR 8), 'hex'))::bit(64)::bigint)
            AS items,
        coalesce(bytes, ('x' || encode(substring(value FROM 9 FOR 8), 'hex'))::bit(64)::bigint)
            AS bytes,
        age(xmin) > pg_snapshot_xmax(pg_current_snapshot())::text::bigint - $5 AS is_idle
    FROM tessera_data
    WHERE key > $1 AND key <= (SELECT key FROM upto)
        AND (items IS NOT NULL OR octet_length(value) = 16)
), chosen AS MATERIALIZED (
    SELECT key, name FROM counted GROUP BY key, name
    HAVING bool_and(is_idle)
        AND (count(*) > 1 OR (sum(items) = 0 AND sum(bytes) = 0))
), locked AS MATERIALIZED (
    SELECT e.key, e.mark, e.tail, c.name, e.mark = c.name || $4::bytea AS is_folded,
        coalesce(e.items, ('x' || encode(substring(e.value FROM 1 FOR 8), 'hex'))::bit(64)::bigint)
            AS items,
        coalesce(e.bytes, ('x' || encode(substring(e.value FROM 9 FOR 8), 'hex'))::bit(64)::bigint)
            AS bytes
    FROM chosen c JOIN tessera_data e
        ON e.key = c.key AND e.mark >= c.name AND e.mark < c.name || '\\x02'::bytea
    WHERE e.items IS NOT NULL OR octet_length(e.value) = 16
    FOR UPDATE OF e SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT *, sum(items) OVER one = 0 AND sum(bytes) OVER one = 0 AS is_nothing,
        count(*) OVER one > 1 AND abs(sum(items) OVER one) < 9e18
            AND abs(sum(bytes) OVER one) < 9e18 AS is_several
    FROM locked WINDOW one AS (PARTITION BY key, name)
), deleted AS (
    DELETE FROM tessera_data e USING judged j
    WHERE e.key = j.key AND e.mark = j.mark AND (is_nothing OR (is_several AND NOT is_folded))
), folded AS (
    INSERT INTO tessera_data AS e (key, mark, tail, items, bytes)
    SELECT key, name || $4::bytea, (array_agg(tail))[1], sum(items)::bigint, sum(bytes)::bigint
    FROM judged WHERE is_several AND NOT is_nothing AND NOT is_folded
    GROUP BY key, name
    ON CONFLICT (key, mark) DO UPDATE
    SET items = e.items + excluded.items, bytes = e.bytes + excluded.bytes
)
SELECT key, keys, pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM upto";

/// What one engine knows of its passes.
#[derive(Default)]
pub(super) struct Tidying(Mutex<Pass>);

#[derive(Default)]
struct Pass {
    /// The last key that was looked at; none at the beginning.
    position: Option<Vec<u8>>,
    /// What was written by this transaction or later ones is left alone: it was under way when the
    /// pass before began.
    idle_before: i64,
    /// The same for the next pass.
    next_idle_before: i64,
}

/// What one step found.
struct Step {
    /// The last key, if there may be more.
    last: Option<Vec<u8>>,
    /// All transactions before this one had ended.
    ended_before: i64,
}

impl Tidying {
    /// One step; answers whether the pass goes on.
    pub(super) async fn step(&self, shared: &Shared) -> EngineResult<bool> {
        if shared.pool.flavour() != Flavour::Postgres {
            return Ok(false);
        }
        let mut pass = self.0.lock().await;
        let step = fold(shared, &pass).await?;
        if pass.position.is_none() {
            pass.next_idle_before = step.ended_before;
        }
        pass.position = step.last;
        if pass.position.is_none() {
            pass.idle_before = pass.next_idle_before;
        }
        Ok(pass.position.is_some())
    }
}

/// Folds the keys of one step.
async fn fold(shared: &Shared, pass: &Pass) -> EngineResult<Step> {
    let tallies = key::tallies();
    let after: &[u8] = pass.position.as_deref().unwrap_or(&tallies.start);
    let end: &[u8] = tallies.end.as_deref().unwrap_or_default();
    let lease = shared.pool.lease().await?;
    lease.set_in_transaction(true);
    let done = lease.answer(async {
        let client = &lease.client;
        // Each statement sees what is committed, and the rows that it locks as they are then.
        client
            .batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            .await?;
        let mark: &[u8] = &FOLDED;
        let row = client
            .query_one(FOLD, &[&after, &end, &STEP_KEYS, &mark, &pass.idle_before])
            .await?;
        client.batch_execute("COMMIT").await?;
        let is_full = row.try_get::<_, i64>(1)? >= STEP_KEYS;
        let last: Option<Vec<u8>> = row.try_get(0)?;
        Ok(Step {
            last: last.filter(|_| is_full),
            ended_before: row.try_get(2)?,
        })
    });
    let step = done.await.map_err(Failure::into_engine_error)?;
    lease.set_in_transaction(false);
    Ok(step)
}
