//! Committing a write set in the transaction that read.
//!
//! PostgreSQL itself refuses to change or lock a row that changed since the snapshot, and to insert
//! a key that is there. What is left to do here: a guard on an absent key inserts it, which
//! collides with others, and removes it again; and what a delete or a range delete did not see
//! because it is newer than the snapshot is looked for from another connection.
//!
//! All statements travel together with COMMIT, in one round trip. Only where something has to be
//! looked for, COMMIT waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tessera_core::engine::{CommitOutcome, EngineError, EngineResult};
use tessera_core::write_set::WriteSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use super::connection::Connection;
use super::failure::Failure;
use super::pipeline::Pipeline;
use super::plan::{Bounds, Columns, Plan, Tallies};
use super::pool::Lease;
use super::snapshot::Seen;
use super::{CAPABILITIES, Flavour, Shared, guard, newer, news, unknown};

/// Commits `writes` in the transaction of `lease`, or in a new one.
pub(super) async fn commit(
    shared: &Arc<Shared>,
    lease: Option<Lease>,
    seen: &Seen,
    writes: &WriteSet,
) -> EngineResult<CommitOutcome> {
    CAPABILITIES.check(writes)?;
    // Closing waits for the commits that came before it.
    let _open = shared.commits.read().await;
    shared.pool.check_open()?;
    let changes_something = !writes.is_empty() || writes.sync_demanded();
    if !changes_something && (writes.guards().is_empty() || lease.is_none()) {
        return Ok(CommitOutcome::Done(shared.version.load(Ordering::Acquire)));
    }
    let begins = lease.is_none();
    let lease = match lease {
        Some(lease) => lease,
        None => shared.pool.lease().await?,
    };
    let plan = Plan::new(writes, seen, lease.slot);
    let announcement = match shared.pool.flavour() {
        Flavour::Postgres => news::announcement(&shared.name, writes.announced()),
        Flavour::Cockroach | Flavour::Yugabyte => None,
    };
    let attempt = Attempt {
        shared,
        lease: &lease,
        plan: &plan,
        begins,
        record: changes_something.then(|| lease.next_commit()),
        announcement: announcement.as_deref(),
    };
    lease.set_in_transaction(true);
    match attempt.run().await {
        Ok(()) if changes_something => {
            let version = shared.version.fetch_add(1, Ordering::AcqRel) + 1;
            Ok(CommitOutcome::Done(version))
        }
        Ok(()) => Ok(CommitOutcome::Done(shared.version.load(Ordering::Acquire))),
        Err(Stop::Before(Failure::Engine(error)) | Stop::Behind(Failure::Engine(error))) => {
            Err(error)
        }
        // Nothing was done, and whoever tries again gets another connection.
        Err(Stop::Before(Failure::Conflict | Failure::Lost(_)))
        | Err(Stop::Behind(Failure::Conflict)) => Ok(CommitOutcome::Conflict),
        Err(Stop::Before(Failure::Silent(cause))) => Err(EngineError::Unavailable(cause)),
        Err(Stop::Behind(Failure::Lost(cause) | Failure::Silent(cause))) => {
            Ok(unknown::resolve(shared, &lease.id, attempt.record, &cause).await)
        }
    }
}

/// Where an attempt ended.
enum Stop {
    /// Before COMMIT was sent: nothing was done.
    Before(Failure),
    /// After COMMIT was sent.
    Behind(Failure),
}

struct Attempt<'a> {
    shared: &'a Arc<Shared>,
    lease: &'a Lease,
    plan: &'a Plan<'a>,
    begins: bool,
    /// The number of this commit; none if it changes nothing.
    record: Option<i64>,
    /// What tells other servers.
    announcement: Option<&'a str>,
}

impl<'a> Attempt<'a> {
    async fn run(&self) -> Result<(), Stop> {
        let looks_for_newer = self.shared.pool.flavour() == Flavour::Postgres
            && (!self.plan.ranges.is_empty() || !self.plan.deletes_are_sure);
        let mut pipeline = Pipeline::new();
        let place_of_deletes = self.write(&mut pipeline);
        if looks_for_newer {
            let answers = self.lease.wait(pipeline.run()).await;
            let answers = answers.and_then(|answers| self.check(answers));
            let answers = answers.map_err(Stop::Before)?;
            let deleted = place_of_deletes.and_then(|place| answers.get(place));
            let missing = self.missing(deleted.map_or(&[], Vec::as_slice));
            let missing = missing.map_err(|error| Stop::Before(Failure::of(&error)))?;
            self.look_for_newer(&missing).await.map_err(Stop::Before)?;
            pipeline = Pipeline::new();
        }
        self.finish(&mut pipeline);
        let answers = self.lease.wait(pipeline.run()).await;
        let answers = answers.and_then(|answers| self.check(answers));
        answers.map_err(Stop::Behind)?;
        self.lease.set_in_transaction(false);
        Ok(())
    }

    /// Adds everything but the end. Returns the place of the delete statement, if there is one.
    fn write(&self, pipeline: &mut Pipeline<'a, Vec<Row>>) -> Option<usize> {
        let (connection, plan): (&'a Connection, _) = (self.lease, self.plan);
        let statements = &connection.statements;
        let mut place = 0;
        if self.begins {
            let begin = self.shared.pool.flavour().begin();
            pipeline.push(plain(connection, begin));
            place += 1;
        }
        if !plan.guarded.is_empty() {
            pipeline.push(lock_guards(connection, plan));
            place += 1;
        }
        if !plan.turned.is_empty() {
            let turn = &statements.turn_guards;
            pipeline.push(async { connection.client.query(turn, &[&plan.turned]).await });
            place += 1;
        }
        if !plan.shared.is_empty() {
            pipeline.push(with_keys(connection, &statements.share, &plan.shared));
            place += 1;
        }
        for range in &plan.ranges {
            pipeline.push(delete_range(connection, range));
            place += 1;
        }
        if !plan.claimed.is_empty() {
            pipeline.push(with_keys(connection, &statements.claim, &plan.claimed));
            place += 1;
        }
        for columns in &plan.inserts {
            pipeline.push(with_values(connection, &statements.insert, columns));
            place += 1;
        }
        for columns in &plan.puts {
            pipeline.push(with_values(connection, &statements.put, columns));
            place += 1;
        }
        let mut place_of_deletes = None;
        if !plan.deletes.is_empty() {
            pipeline.push(with_keys(connection, &statements.delete, &plan.deletes));
            place_of_deletes = Some(place);
        }
        if !plan.tallies.heads.is_empty() {
            pipeline.push(add(connection, plan));
        }
        if !plan.claimed.is_empty() {
            pipeline.push(with_keys(connection, &statements.unclaim, &plan.claimed));
        }
        place_of_deletes
    }

    /// Adds the record of this commit, and COMMIT.
    fn finish(&self, pipeline: &mut Pipeline<'a, Vec<Row>>) {
        let connection: &'a Connection = self.lease;
        if let Some(announcement) = self.announcement {
            pipeline.push(plain(connection, announcement));
        }
        if let Some(number) = self.record {
            pipeline.push(async move {
                let record = &connection.statements.record;
                let client = &connection.client;
                client.query(record, &[&connection.id, &number]).await
            });
        }
        pipeline.push(plain(connection, "COMMIT"));
    }

    /// The answers, or why the first that failed did. Those behind it only follow from it.
    fn check(&self, answers: Vec<Result<Vec<Row>, Error>>) -> Result<Vec<Vec<Row>>, Failure> {
        answers
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error: Error| {
                let failure = Failure::of(&error);
                let was_fenced = error.code() == Some(&SqlState::DIVISION_BY_ZERO);
                if was_fenced || matches!(failure, Failure::Lost(_)) {
                    self.lease.give_up();
                }
                failure
            })
    }

    /// The deleted keys for which no value was there, or one that may be a tally, which is spread
    /// over rows of which some may be newer.
    fn missing(&self, deleted: &[Row]) -> Result<Vec<&'a [u8]>, Error> {
        let heads = &self.plan.deletes.heads;
        let mut is_missing = vec![true; heads.len()];
        for row in deleted {
            let position = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
            let may_be_tally: bool = row.try_get(1)?;
            if let Some(is_missing) = is_missing.get_mut(position) {
                *is_missing = may_be_tally;
            }
        }
        let missing = heads.iter().zip(is_missing);
        Ok(missing
            .filter_map(|(head, is_missing)| is_missing.then_some(*head))
            .collect())
    }

    async fn look_for_newer(&self, missing: &[&[u8]]) -> Result<(), Failure> {
        if missing.is_empty() && self.plan.ranges.is_empty() {
            return Ok(());
        }
        let moment = newer::moment(self.lease).await?;
        let found = newer::exists(self.shared, &moment, missing, &self.plan.ranges).await;
        match found.map_err(Failure::Engine)? {
            true => Err(Failure::Conflict),
            false => Ok(()),
        }
    }
}

async fn plain(connection: &Connection, text: &str) -> Result<Vec<Row>, Error> {
    let done = connection.client.batch_execute(text).await;
    done.map(|()| Vec::new())
}

async fn with_keys(
    connection: &Connection,
    statement: &tokio_postgres::Statement,
    columns: &Columns<'_>,
) -> Result<Vec<Row>, Error> {
    let client = &connection.client;
    client
        .query(statement, &[&columns.heads, &columns.marks])
        .await
}

async fn with_values(
    connection: &Connection,
    statement: &tokio_postgres::Statement,
    columns: &Columns<'_>,
) -> Result<Vec<Row>, Error> {
    let Columns {
        heads,
        marks,
        tails,
        values,
        ..
    } = columns;
    let client = &connection.client;
    client
        .query(statement, &[heads, marks, tails, values])
        .await
}

async fn delete_range(connection: &Connection, range: &Bounds<'_>) -> Result<Vec<Row>, Error> {
    let ((start, start_tail), (end, end_tail)) = (range.start, range.end());
    let statement = &connection.statements.delete_range;
    let client = &connection.client;
    client
        .query(statement, &[&start, &start_tail, &end, &end_tail])
        .await
}

async fn add(connection: &Connection, plan: &Plan<'_>) -> Result<Vec<Row>, Error> {
    let tallies = &plan.tallies;
    let statement = &connection.statements.add;
    let client = &connection.client;
    let Tallies {
        heads,
        marks,
        tails,
        items,
        bytes,
    } = tallies;
    client
        .query(statement, &[heads, marks, tails, items, bytes])
        .await
}

async fn lock_guards(connection: &Connection, plan: &Plan<'_>) -> Result<Vec<Row>, Error> {
    let statement = &connection.statements.lock_guards;
    let row = guard::row(connection.slot);
    let client = &connection.client;
    client.query(statement, &[&plan.guarded, &row]).await
}
