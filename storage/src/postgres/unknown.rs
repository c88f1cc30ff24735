//! Finding out how a commit ended whose answer never came.
//!
//! Each commit notes its number in the row of its connection, in the same transaction. Reading that
//! row from another connection tells whether the commit happened. Fencing it at the same time waits
//! for a transaction that is still under way, and makes one fail that has not come that far. A row
//! that is not there tells nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tessera_core::engine::{CommitOutcome, Done, EngineResult};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Shared;
use super::failure::{Failure, engine_error};

/// How long to try. A standby has to be promoted meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

const FENCE: &str = "UPDATE tessera_connection SET fenced = true WHERE id = $1 RETURNING commits";

/// How commit number `record` of the connection `id` ended, whose answer was lost for `cause`.
pub(super) async fn resolve(
    shared: &Arc<Shared>,
    id: &Vec<u8>,
    record: Option<i64>,
    cause: &str,
) -> CommitOutcome {
    // What only checks guards is simply checked again.
    let Some(record) = record else {
        return CommitOutcome::Conflict;
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match last_commit(shared, id).await {
            Ok(Some(last)) if last >= record => {
                info!(cause, "a commit was done although its answer was lost");
                let version = shared.version.fetch_add(1, Ordering::AcqRel) + 1;
                return CommitOutcome::Done(Done::at(version));
            }
            Ok(Some(_)) => return CommitOutcome::Conflict,
            Ok(None) => {
                warn!(
                    cause,
                    "the outcome of a commit is unknown: its record is missing"
                );
                return CommitOutcome::Unknown;
            }
            Err(error) if Instant::now() > deadline => {
                warn!(cause, %error, "the outcome of a commit is unknown");
                return CommitOutcome::Unknown;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The number of the last commit of a connection, after which there will be no other; none if
/// nobody knows that connection any more.
async fn last_commit(shared: &Arc<Shared>, id: &Vec<u8>) -> EngineResult<Option<i64>> {
    let connection = shared.pool.open().await?;
    let row = connection
        .answer(connection.client.query_opt(FENCE, &[id]))
        .await;
    let row = row.map_err(Failure::into_engine_error)?;
    connection.forget();
    let commits = row.map(|row| row.try_get(0)).transpose();
    commits.map_err(|error| engine_error(&error))
}
