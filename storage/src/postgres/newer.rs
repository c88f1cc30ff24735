//! Whether something is newer than a snapshot, seen from a connection of its own.
//!
//! A transaction cannot see what came after its snapshot, and a delete that covers it would pass it
//! by. Every row knows the transaction that wrote it, and a snapshot can be written down as text:
//! together they tell.

use std::sync::Arc;

use tessera_core::engine::EngineResult;
use tokio_postgres::types::ToSql;

use super::Shared;
use super::connection::Connection;
use super::failure::{Failure, engine_error};
use super::plan::Bounds;

/// Asks whether there are rows that a snapshot does not show. A row has only the lower half of its
/// transaction's number; the upper half is that of the next transaction, or one less where that
/// would lie in the future.
const EXISTS: &str = "
WITH next AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS number),
base AS (SELECT number, number / 4294967296 * 4294967296 AS upper FROM next)
SELECT EXISTS (
    SELECT 1 FROM tessera_data e, base, LATERAL (
        SELECT CASE WHEN base.upper + e.xmin::text::bigint < base.number
            THEN base.upper + e.xmin::text::bigint
            ELSE base.upper + e.xmin::text::bigint - 4294967296 END AS writer
    ) written
    WHERE NOT pg_visible_in_snapshot(written.writer::text::xid8, $1::text::pg_snapshot)
    AND ";
const IN_KEYS: &str = "e.key = ANY($2::bytea[]))";
const IN_RANGE: &str = "e.key >= $2 AND e.key <= $4
    AND (e.key > $2 OR coalesce(e.tail, '') >= $3)
    AND (e.key < $4 OR coalesce(e.tail, '') < $5))";

/// The snapshot of the transaction on `connection`, as text.
pub(super) async fn moment(connection: &Connection) -> Result<String, Failure> {
    let query = "SELECT pg_current_snapshot()::text";
    let row = connection
        .answer(connection.client.query_one(query, &[]))
        .await?;
    row.try_get(0).map_err(|error| Failure::of(&error))
}

/// Whether anything in these keys or ranges is newer than `moment`.
pub(super) async fn exists(
    shared: &Arc<Shared>,
    moment: &String,
    keys: &[&[u8]],
    ranges: &[Bounds<'_>],
) -> EngineResult<bool> {
    if !keys.is_empty() && ask(shared, IN_KEYS, &[moment, &keys]).await? {
        return Ok(true);
    }
    for range in ranges {
        let ((start, start_tail), (end, end_tail)) = (range.start, range.end());
        let parameters: [&(dyn ToSql + Sync); 5] = [moment, &start, &start_tail, &end, &end_tail];
        if ask(shared, IN_RANGE, &parameters).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Asks on the one connection kept for this: whoever asks holds one already, and must not wait for
/// others who do.
async fn ask(
    shared: &Arc<Shared>,
    place: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> EngineResult<bool> {
    let mut onlooker = shared.onlooker.lock().await;
    let connection = match onlooker.take() {
        Some(connection) if connection.is_usable() && !connection.is_old() => connection,
        _ => shared.pool.open().await?,
    };
    let query = format!("{EXISTS}{place}");
    let answer = connection.client.query_one(&query, parameters);
    let row = connection.answer(answer).await;
    *onlooker = Some(connection);
    let row = row.map_err(Failure::into_engine_error)?;
    row.try_get(0).map_err(|error| engine_error(&error))
}
