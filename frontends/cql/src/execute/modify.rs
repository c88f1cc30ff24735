//! Changes of rows: one statement or a batch, in one transaction.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use tessera_core::Error;
use tessera_core::throughput::Charge;
use tessera_core::transaction::Transaction;

use super::batch_limits;
use super::change::Stamp;
use super::conditional::{Found, answer, check, check_together};
use super::evaluate::{Given, Scope, bind};
use super::overtaking::forget_hidden;
use super::write::Write;
use super::{Answer, Context, Outcome, now_of};
use crate::error::{CqlError, Result};
use crate::failure::Failure;
use crate::plan::{Expression, Modification};
use crate::statement::BatchType;
use crate::wire::{ColumnSpec, Value};

/// Twenty years: the longest that anything lives.
const LONGEST_LIFE: i32 = 20 * 365 * 24 * 60 * 60;
/// Items whose writers wait for each other; those of larger batches just try again.
const MOST_LATCHED: usize = 64;

/// A change and the values that came for it.
pub(super) struct Statement<'s> {
    pub(super) plan: &'s Arc<Modification>,
    pub(super) given: Vec<Given<'static>>,
    /// The timestamp that its batch has.
    pub(super) timestamp: Option<i64>,
}

/// Checks the values of a statement and keeps them.
pub(super) fn given(variables: &[ColumnSpec], values: &[Value<'_>]) -> Result<Vec<Given<'static>>> {
    let owned = |given: Given<'_>| match given {
        Given::Null => Given::Null,
        Given::Unset => Given::Unset,
        Given::Bytes(bytes) => Given::Bytes(Cow::Owned(bytes.into_owned())),
    };
    Ok(bind(variables, values)?.into_iter().map(owned).collect())
}

/// Makes all changes, or none. `batch` is what they are together, if they are more than a
/// statement.
pub(super) async fn modify(
    statements: Vec<Statement<'_>>,
    batch: Option<BatchType>,
    context: &Context<'_>,
) -> std::result::Result<Answer, Failure> {
    let store = &context.service.store;
    let micros = i64::try_from(store.clock().next_version(0)).unwrap_or(i64::MAX);
    let mut writes = Vec::with_capacity(statements.len());
    for (index, statement) in statements.into_iter().enumerate() {
        writes.push(write(statement, index, micros, context)?);
    }
    let conditional = writes
        .iter()
        .any(|write| write.plan.condition.is_conditional());
    let warnings = match batch {
        _ if conditional => {
            one_partition(&writes)?;
            check_together(&writes)?;
            Vec::new()
        }
        Some(kind) => batch_limits::check(kind, &writes, &context.service.config.batches)?,
        None => Vec::new(),
    };
    context.service.newest_deletion.note(&writes);
    let writes: Arc<[Write]> = writes.into();
    let locators: Vec<_> = writes
        .iter()
        .flat_map(|write| {
            write
                .locators()
                .into_iter()
                .map(move |locator| (write, locator))
        })
        .take(MOST_LATCHED)
        .collect();
    let items: Vec<_> = locators
        .iter()
        .filter_map(|(write, locator)| match &write.plan.relation.place {
            crate::catalog::Place::Stored { name, .. } => Some((name, locator)),
            crate::catalog::Place::Computed => None,
        })
        .collect();
    let outcome = store
        .run(&items, |transaction| {
            let writes = Arc::clone(&writes);
            Box::pin(async move { apply_all(&writes, transaction).await })
        })
        .await?;
    let (is_applied, found, unclean) = outcome.value;
    let mut charge = outcome.meter.charge();
    if is_applied {
        charge += forget(&writes, context).await?;
    }
    for (index, key) in unclean {
        charge += purge(&writes, index, key, context).await?;
    }
    let outcome = match conditional {
        true => told(&writes, batch.is_some(), (!is_applied).then_some(&found)),
        false => Outcome::Void,
    };
    Ok(Answer {
        outcome,
        charge,
        warnings,
    })
}

/// What conditional changes answer: whether they were made, and else what was there instead.
fn told(writes: &[Write], is_batch: bool, instead: Option<&Found>) -> Outcome {
    let plans: Vec<&Modification> = writes
        .iter()
        .map(|write| &*write.plan)
        .filter(|plan| plan.condition.is_conditional())
        .collect();
    Outcome::Rows(answer(&plans, is_batch, instead))
}

/// Whether the conditions were met, the rows that they looked at, and where deleted rows are left.
type Applied = (bool, Found, Vec<(usize, Bytes)>);

/// Makes all changes in a transaction, if all conditions are met.
async fn apply_all(
    writes: &[Write],
    transaction: &mut Transaction,
) -> std::result::Result<Applied, Failure> {
    let mut found = Found::of(writes);
    let mut is_applied = true;
    for write in writes {
        if write.plan.condition.is_conditional() {
            is_applied &= check(write, transaction, &mut found).await?;
        }
    }
    if !is_applied {
        found.complete(writes, transaction).await?;
    }
    let mut unclean = Vec::new();
    if is_applied {
        for (index, write) in writes.iter().enumerate() {
            let rest = write.apply(transaction).await?;
            unclean.extend(rest.unclean.into_iter().map(|key| (index, key)));
        }
    }
    Ok((is_applied, found, unclean))
}

/// Takes away what deletions hide of these.
async fn forget(
    writes: &Arc<[Write]>,
    context: &Context<'_>,
) -> std::result::Result<Charge, Failure> {
    loop {
        match forget_hidden(writes, context).await {
            Err(failure) => wait_out(failure).await?,
            forgotten => return forgotten,
        }
    }
}

/// Takes away the rows of a deleted partition that did not fit in its transaction.
async fn purge(
    writes: &Arc<[Write]>,
    index: usize,
    key: Bytes,
    context: &Context<'_>,
) -> std::result::Result<Charge, Failure> {
    let mut charge = Charge::default();
    loop {
        let purged = context
            .service
            .store
            .run(&[], |transaction| {
                let (writes, key) = (Arc::clone(writes), key.clone());
                Box::pin(async move {
                    match writes.get(index) {
                        Some(write) => write.purge_more(transaction, &key).await,
                        None => Ok(true),
                    }
                })
            })
            .await;
        match purged {
            Ok(purged) => {
                charge += purged.meter.charge();
                if purged.value {
                    return Ok(charge);
                }
            }
            Err(failure) => wait_out(failure).await?,
        }
    }
}

/// Waits for the throughput that was missing. A change that was made must not be answered as
/// refused for what is left to do behind it.
async fn wait_out(failure: Failure) -> std::result::Result<(), Failure> {
    match failure {
        Failure::Core(Error::Throttled { retry_after, .. }) => {
            Box::pin(tokio::time::sleep(retry_after)).await;
            Ok(())
        }
        failure => Err(failure),
    }
}

fn write(
    statement: Statement<'_>,
    index: usize,
    micros: i64,
    context: &Context<'_>,
) -> Result<Write> {
    let Statement {
        plan,
        given,
        timestamp,
    } = statement;
    let clock = context.service.store.clock();
    let stamp = {
        let scope = Scope {
            table: plan.table(),
            given: &given,
            clock,
            now: now_of(context),
            line: None,
            aggregates: &[],
        };
        let own = match &plan.timestamp {
            Some(expression) => time(&scope, expression, "timestamp")?,
            None => None,
        };
        let timestamp = own.or(timestamp).or(context.timestamp);
        if timestamp == Some(i64::MIN) {
            return Err(CqlError::invalid(format!(
                "Out of bound timestamp, must be in [{}, {}]",
                i64::MIN + 1,
                i64::MAX
            )));
        }
        // Conditional writes follow each other, whatever clients' clocks say.
        let timestamp = timestamp.filter(|_| !plan.condition.is_conditional());
        Stamp {
            timestamp: timestamp.unwrap_or(micros),
            time_to_live: time_to_live(plan, &scope)?,
            now: scope.now,
            arrival: micros,
            statement: u16::try_from(index).unwrap_or(u16::MAX),
        }
    };
    let is_timed = stamp.timestamp != micros;
    Write::new(plan, given, stamp, clock, is_timed)
}

fn time(scope: &Scope<'_>, expression: &Expression, name: &str) -> Result<Option<i64>> {
    if scope.is_unset(expression) {
        return Ok(None);
    }
    let scope = Scope { ..*scope };
    match scope.evaluate(expression)? {
        None => Err(CqlError::invalid(format!("Invalid null value of {name}"))),
        Some(value) => match value.as_ref().try_into() {
            Ok(bytes) => Ok(Some(i64::from_be_bytes(bytes))),
            Err(_) => Err(CqlError::invalid(format!("Invalid {name} value: "))),
        },
    }
}

fn time_to_live(plan: &Modification, scope: &Scope<'_>) -> Result<i32> {
    let default = plan.table().options.default_time_to_live;
    let Some(expression) = &plan.time_to_live else {
        return Ok(default);
    };
    if scope.is_unset(expression) {
        return Ok(default);
    }
    let scope = Scope { ..*scope };
    let Some(value) = scope.evaluate(expression)? else {
        return Ok(0);
    };
    let Ok(bytes) = value.as_ref().try_into() else {
        return Err(CqlError::invalid("Invalid TTL value: "));
    };
    match i32::from_be_bytes(bytes) {
        negative @ ..0 => Err(CqlError::invalid(format!(
            "A TTL must be greater or equal to 0, but was {negative}"
        ))),
        long if long > LONGEST_LIFE => Err(CqlError::invalid(format!(
            "ttl is too large. requested ({long}) maximum ({LONGEST_LIFE})"
        ))),
        seconds => Ok(seconds),
    }
}

fn one_partition(writes: &[Write]) -> Result<()> {
    let mut keys = writes.iter().flat_map(|write| &write.keys);
    let first = keys.next();
    if keys.any(|key| Some(key) != first) {
        return Err(CqlError::invalid(
            "Batch with conditions cannot span multiple partitions",
        ));
    }
    Ok(())
}

/// The timestamp of a whole batch.
pub(super) fn batch_timestamp(
    expression: &Expression,
    given: &[Given<'static>],
    context: &Context<'_>,
) -> Result<Option<i64>> {
    let table = crate::plan::nowhere();
    let scope = Scope {
        table: &table,
        given,
        clock: context.service.store.clock(),
        now: 0,
        line: None,
        aggregates: &[],
    };
    time(&scope, expression, "timestamp")
}
