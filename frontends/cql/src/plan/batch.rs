//! BATCH: several changes at once.

use std::sync::Arc;

use super::expression::Expression;
use super::modify::Modification;
use super::{Scope, typing::Planner};
use crate::error::{Result, refuse};
use crate::schema::{Table, TableOptions, Types};
use crate::statement::{self, BatchType};
use crate::types::Native;
use crate::wire::ColumnSpec;

/// Changes that are made together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) kind: BatchType,
    pub(crate) timestamp: Option<Expression>,
    pub(crate) modifications: Vec<Arc<Modification>>,
}

pub(super) fn batch(
    scope: &Scope<'_>,
    batch: &statement::Batch,
    variables: &mut [Option<ColumnSpec>],
) -> Result<Batch> {
    if batch.using.time_to_live.is_some() {
        return refuse("Global TTL on the BATCH statement is not supported.");
    }
    let mut modifications = Vec::with_capacity(batch.statements.len());
    for statement in &batch.statements {
        modifications.push(Arc::new(scope.modification(statement, variables)?));
    }
    let timestamp = match &batch.using.timestamp {
        None => None,
        Some(term) => {
            let (nowhere, types) = (nowhere(), Types::new());
            let mut planner = Planner::new(&nowhere, &types, scope.names);
            let timestamp = planner.native_term(term, "[timestamp]", Native::Bigint)?;
            super::keep(variables, planner);
            Some(timestamp)
        }
    };
    let all: Vec<&Modification> = modifications.iter().map(|plan| &**plan).collect();
    check_batch(batch.kind, &all, timestamp.is_some())?;
    Ok(Batch {
        kind: batch.kind,
        timestamp,
        modifications,
    })
}

/// The timestamp of a batch belongs to no table.
pub(crate) fn nowhere() -> Table {
    Table {
        keyspace: String::new(),
        name: String::new(),
        id: [0; 16],
        columns: Vec::new(),
        options: TableOptions::default(),
        indexes: Vec::new(),
        dropped: Vec::new(),
    }
}

/// Refuses changes that cannot be made together.
pub(crate) fn check_batch(
    kind: BatchType,
    modifications: &[&Modification],
    has_timestamp: bool,
) -> Result<()> {
    let is_counter = |plan: &&&Modification| plan.table().is_counter();
    let counters = modifications.iter().filter(is_counter).count();
    let conditional = modifications
        .iter()
        .any(|plan| plan.condition.is_conditional());
    match kind {
        BatchType::Counter if counters < modifications.len() => {
            return refuse("Cannot include non-counter statement in a counter batch");
        }
        _ if counters > 0 && counters < modifications.len() => {
            return refuse("Counter and non-counter mutations cannot exist in the same batch");
        }
        BatchType::Logged if counters > 0 => {
            return refuse("Cannot include a counter statement in a logged batch");
        }
        _ => {}
    }
    if has_timestamp {
        if counters > 0 {
            return refuse("Cannot provide custom timestamp for counter BATCH");
        }
        if conditional {
            return refuse("Cannot provide custom timestamp for conditional BATCH");
        }
        if modifications.iter().any(|plan| plan.timestamp.is_some()) {
            return refuse("Timestamp must be set either on BATCH or individual statements");
        }
    }
    if !conditional {
        return Ok(());
    }
    let mut tables = modifications
        .iter()
        .map(|plan| (&plan.table().keyspace, &plan.table().name));
    let first = tables.next();
    if tables.any(|table| Some(table) != first) {
        return refuse("Batch with conditions cannot span multiple tables");
    }
    Ok(())
}
