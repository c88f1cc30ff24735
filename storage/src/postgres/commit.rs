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

use tessera_core::engine::{CommitOutcome, Done, EngineError, EngineResult};
use tessera_core::write_set::WriteSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error, Row};

use super::connection::Connection;
use super::failure::Failure;
use super::log::LogStatements;
use super::pipeline::Pipeline;
use super::plan::{Appends, Bounds, Columns, Plan, Tallies};
use super::pool::Lease;
use super::snapshot::Seen;
use super::{CAPABILITIES, Flavour, Shared, guard, log, newer, news, unknown};

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
        let version = shared.version.load(Ordering::Acquire);
        return Ok(CommitOutcome::Done(Done::at(version)));
    }
    let begins = lease.is_none();
    let lease = match lease {
        Some(lease) => lease,
        None => shared.pool.lease().await?,
    };
    if lease.epoch.is_none() && !writes.appended().is_empty() {
        let cause = "change feeds need PostgreSQL itself, or another engine".to_owned();
        return Err(EngineError::Unavailable(cause));
    }
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
        Ok(appended) if changes_something => {
            let version = shared.version.fetch_add(1, Ordering::AcqRel) + 1;
            let stamp = lease.epoch.zip(appended);
            Ok(CommitOutcome::Done(Done {
                version,
                stamp: stamp.map(|(epoch, version)| log::stamp(epoch, version)),
            }))
        }
        Ok(_) => {
            let version = shared.version.load(Ordering::Acquire);
            Ok(CommitOutcome::Done(Done::at(version)))
        }
        Err(Stop::Before(Failure::Engine(error)) | Stop::Behind(Failure::Engine(error))) => {
            Err(error)
        }
        // Nothing was done, and whoever tries again gets another connection.
        Err(Stop::Before(Failure::Conflict | Failure::Lost(_)))
        | Err(Stop::Behind(Failure::Conflict)) => Ok(CommitOutcome::Conflict),
        Err(Stop::Before(Failure::Silent(cause) | Failure::Crowded(cause))) => {
            Err(EngineError::Unavailable(cause))
        }
        Err(Stop::Behind(
            Failure::Lost(cause) | Failure::Silent(cause) | Failure::Crowded(cause),
        )) => Ok(unknown::resolve(shared, &lease.id, attempt.record, &cause).await),
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

/// Where in a pipeline statements are whose answers count.
#[derive(Clone, Copy, Default)]
struct Places {
    deletes: Option<usize>,
    appends: Option<usize>,
}

impl<'a> Attempt<'a> {
    /// Answers the version of what was appended.
    async fn run(&self) -> Result<Option<i64>, Stop> {
        let looks_for_newer = self.shared.pool.flavour() == Flavour::Postgres
            && (!self.plan.ranges.is_empty() || !self.plan.deletes_are_sure);
        let mut pipeline = Pipeline::new();
        let places = self.write(&mut pipeline);
        let mut appended = None;
        if looks_for_newer {
            let answers = self.lease.wait(pipeline.run()).await;
            let answers = answers.and_then(|answers| self.check(answers));
            let answers = answers.map_err(Stop::Before)?;
            appended = places.version(&answers).map_err(Stop::Before)?;
            let deleted = places.deletes.and_then(|place| answers.get(place));
            let missing = self.missing(deleted.map_or(&[], Vec::as_slice));
            let missing = missing.map_err(|error| Stop::Before(Failure::of(&error)))?;
            self.look_for_newer(&missing).await.map_err(Stop::Before)?;
            pipeline = Pipeline::new();
        }
        self.finish(&mut pipeline);
        let answers = self.lease.wait(pipeline.run()).await;
        let answers = answers.and_then(|answers| self.check(answers));
        let answers = answers.map_err(Stop::Behind)?;
        self.lease.set_in_transaction(false);
        match looks_for_newer {
            true => Ok(appended),
            false => places.version(&answers).map_err(Stop::Behind),
        }
    }

    /// Adds everything but the end.
    fn write(&self, pipeline: &mut Pipeline<'a, Vec<Row>>) -> Places {
        let (connection, plan): (&'a Connection, _) = (self.lease, self.plan);
        let statements = &connection.statements;
        if self.begins {
            let begin = self.shared.pool.flavour().begin();
            pipeline.push(plain(connection, begin));
        }
        if !plan.guarded.is_empty() {
            pipeline.push(lock_guards(connection, plan));
        }
        if !plan.turned.is_empty() {
            let turn = &statements.turn_guards;
            pipeline.push(async { connection.client.query(turn, &[&plan.turned]).await });
        }
        if !plan.shared.is_empty() {
            pipeline.push(with_keys(connection, &statements.share, &plan.shared));
        }
        for range in &plan.ranges {
            pipeline.push(delete_range(connection, range));
        }
        if !plan.claimed.is_empty() {
            pipeline.push(with_keys(connection, &statements.claim, &plan.claimed));
        }
        for columns in &plan.inserts {
            pipeline.push(with_values(connection, &statements.insert, columns));
        }
        for columns in &plan.puts {
            pipeline.push(with_values(connection, &statements.put, columns));
        }
        let mut places = Places::default();
        if !plan.deletes.is_empty() {
            places.deletes = Some(pipeline.len());
            pipeline.push(with_keys(connection, &statements.delete, &plan.deletes));
        }
        if !plan.tallies.heads.is_empty() {
            pipeline.push(add(connection, plan));
        }
        if !plan.claimed.is_empty() {
            pipeline.push(with_keys(connection, &statements.unclaim, &plan.claimed));
        }
        if let Some(log) = &statements.log {
            places.appends = self.write_log(pipeline, log);
        }
        places
    }

    /// Adds what is done to the log. Returns the place of the first append, if there is one.
    fn write_log(
        &self,
        pipeline: &mut Pipeline<'a, Vec<Row>>,
        log: &'a LogStatements,
    ) -> Option<usize> {
        let (connection, plan): (&'a Connection, &'a Plan<'a>) = (self.lease, self.plan);
        let client = &connection.client;
        if !plan.log_deletes.is_empty() {
            pipeline.push(async { client.query(&log.delete, &[&plan.log_deletes]).await });
        }
        for (start, end) in &plan.log_ranges {
            pipeline.push(async move { client.query(&log.delete_range, &[start, end]).await });
        }
        let place = pipeline.len();
        for entries in &plan.appends {
            pipeline.push(append(connection, log, entries));
        }
        (!plan.appends.is_empty()).then_some(place)
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

impl Places {
    /// The version of what was appended, from the answers of its pipeline.
    fn version(self, answers: &[Vec<Row>]) -> Result<Option<i64>, Failure> {
        let row = self.appends.and_then(|place| answers.get(place)?.first());
        let version = row.map(|row| row.try_get(0)).transpose();
        version.map_err(|error| Failure::of(&error))
    }
}

async fn append(
    connection: &Connection,
    log: &LogStatements,
    entries: &Appends<'_>,
) -> Result<Vec<Row>, Error> {
    let Appends {
        prefixes,
        values,
        first,
        ..
    } = entries;
    let epoch = connection.epoch.unwrap_or_default();
    let client = &connection.client;
    client
        .query(&log.append, &[prefixes, values, &epoch, first])
        .await
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
