//! Runs plans on the core.

use tessera_core::throughput::Charge;

use crate::failure::Failure;
use crate::plan::{Plan, Step};
use crate::service::Service;
use crate::wire::{BatchKind, Consistency, Rows, Value};

/// What comes with a request.
pub(crate) struct Context<'a> {
    pub(crate) service: &'a Service,
    /// The values of the markers, in the order of the text.
    pub(crate) values: &'a [Value<'a>],
    pub(crate) consistency: Consistency,
    pub(crate) serial_consistency: Option<Consistency>,
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
pub(crate) async fn run(plan: &Plan, _: &Context<'_>) -> Result<Answer, Failure> {
    match &plan.step {
        Step::Empty => Ok(Answer {
            outcome: Outcome::Void,
            charge: Charge::default(),
            warnings: Vec::new(),
        }),
    }
}

/// Runs the statements of a BATCH message, each with its own values; those of the context are not
/// used.
pub(crate) async fn run_batch(
    _: BatchKind,
    _: &[(&Plan, &[Value<'_>])],
    _: &Context<'_>,
) -> Result<Answer, Failure> {
    Ok(Answer {
        outcome: Outcome::Void,
        charge: Charge::default(),
        warnings: Vec::new(),
    })
}
