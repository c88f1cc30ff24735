//! Runs plans on the core.
//!
//! `select` reads through `reader`, which hands rows as `line`s to `collect`; `modify` makes
//! `write`s, which change rows as `change` says and keep what `settle` leaves of them. Expressions
//! are evaluated in `evaluate`, keys encoded in `keys`.

#[cfg(test)]
mod analysis_tests;
mod batch_limits;
#[cfg(test)]
mod batch_tests;
mod change;
mod collect;
mod computed;
mod condition;
mod conditional;
mod evaluate;
mod filter;
mod index_reader;
mod indexed;
mod keys;
#[cfg(test)]
mod language_tests;
mod line;
mod model;
mod modify;
#[cfg(test)]
mod near_tests;
mod nearest;
mod overtaking;
mod paging;
mod partition;
#[cfg(test)]
mod peer_tests;
#[cfg(test)]
mod properties;
mod reader;
mod select;
mod settle;
mod shown;
#[cfg(test)]
mod suite_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod time_tests;
#[cfg(test)]
mod value_tests;
mod view_build;
mod views;
mod write;

use tessera_core::throughput::Charge;

use crate::auth::Permitted;
use crate::error::CqlError;
use crate::failure::Failure;
use crate::plan::{Plan, Step, check_batch};
use crate::service::Service;
use crate::statement::BatchType;
use crate::wire::{BatchKind, Consistency, Rows, Value};
use modify::Statement;

pub use batch_limits::BatchLimits;
pub use model::CqlModel;
pub(crate) use overtaking::NewestDeletion;
pub(crate) use view_build::build_view;

/// What comes with a request.
pub(crate) struct Context<'a> {
    pub(crate) service: &'a Service,
    /// The values of the markers, in the order of the text.
    pub(crate) values: &'a [Value<'a>],
    pub(crate) consistency: Consistency,
    /// Microseconds since 1970, if the client gives the time of its write.
    pub(crate) timestamp: Option<i64>,
    /// The second at which times to live are judged, if the client says so.
    pub(crate) now_in_seconds: Option<i32>,
    /// None: all rows at once.
    pub(crate) page_size: Option<i32>,
    pub(crate) paging_state: Option<&'a [u8]>,
}

/// What a plan did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) charge: Charge,
    pub(crate) warnings: Vec<String>,
}

/// What a plan gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Void,
    /// The rows of a SELECT, with where the next page begins; or `[applied]` and its row.
    Rows(Rows),
}

/// Runs a plan. [`Failure::Stale`] if its table was changed since: plan it again.
pub(crate) async fn run(
    plan: Permitted<'_, Plan>,
    context: &Context<'_>,
) -> Result<Answer, Failure> {
    match &plan.step {
        Step::Select(select) => select::select(&plan, select, context).await,
        Step::Modify(modification) => {
            let statement = Statement {
                plan: modification,
                given: modify::given(&plan.variables, context.values)?,
                timestamp: None,
            };
            modify::modify(vec![statement], None, context).await
        }
        Step::Batch(batch) => {
            let given = modify::given(&plan.variables, context.values)?;
            let timestamp = match &batch.timestamp {
                None => None,
                Some(expression) => modify::batch_timestamp(expression, &given, context)?,
            };
            let statements = batch
                .modifications
                .iter()
                .map(|modification| Statement {
                    plan: modification,
                    given: given.clone(),
                    timestamp,
                })
                .collect();
            modify::modify(statements, Some(batch.kind), context).await
        }
    }
}

/// Runs the statements of a BATCH message, each with its own values; those of the context are not
/// used.
pub(crate) async fn run_batch(
    kind: BatchKind,
    statements: &[(Permitted<'_, Plan>, &[Value<'_>])],
    context: &Context<'_>,
) -> Result<Answer, Failure> {
    let kind = match kind {
        BatchKind::Logged => BatchType::Logged,
        BatchKind::Unlogged => BatchType::Unlogged,
        BatchKind::Counter => BatchType::Counter,
    };
    let mut changes = Vec::with_capacity(statements.len());
    for (plan, values) in statements {
        let Step::Modify(modification) = &plan.step else {
            return Err(CqlError::invalid(
                "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are \
                 allowed.",
            )
            .into());
        };
        changes.push(Statement {
            plan: modification,
            given: modify::given(&plan.variables, values)?,
            timestamp: None,
        });
    }
    let plans: Vec<_> = changes.iter().map(|change| &**change.plan).collect();
    check_batch(kind, &plans, false)?;
    modify::modify(changes, Some(kind), context).await
}

/// The second at which times to live are judged.
fn now_of(context: &Context<'_>) -> i64 {
    match context.now_in_seconds {
        Some(second) => i64::from(second),
        None => {
            let now_ms = context.service.store.clock().now_ms();
            i64::try_from(now_ms / 1_000).unwrap_or(i64::MAX)
        }
    }
}
