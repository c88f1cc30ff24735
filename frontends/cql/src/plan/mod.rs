//! Statements with their tables found and their terms typed: all that can be refused without
//! looking at a row is refused here.
//!
//! A [`Plan`] is made once and runs often: a prepared statement is one. It owns what it needs and
//! never changes; the values of its markers come with each run.

use std::sync::Arc;

use crate::catalog::{Catalog, Relation};
use crate::error::{CqlError, Result};
use crate::statement::{Parsed, Statement};
use crate::wire::ColumnSpec;

/// A statement that can be run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The markers, in the order of the text.
    pub(crate) variables: Vec<ColumnSpec>,
    /// Which markers are the partition key, in its order. Empty unless all of it is markers.
    pub(crate) partition_key_indexes: Vec<u16>,
    /// The columns of the rows that it gives. Those of conditional writes come with the rows.
    pub(crate) result_columns: Option<Arc<[ColumnSpec]>>,
    pub(crate) step: Step,
}

/// What a plan does.
#[derive(Debug)]
pub(crate) enum Step {
    Empty,
}

impl Plan {
    /// The tables and views that it reads or writes, each once: what permissions are asked for.
    pub(crate) fn relations(&self) -> Vec<&Arc<Relation>> {
        Vec::new()
    }

    /// Whether it changes anything.
    pub(crate) fn is_write(&self) -> bool {
        true
    }
}

/// Plans a SELECT, INSERT, UPDATE, DELETE or BATCH, in a session with this keyspace.
pub(crate) fn prepare(parsed: &Parsed, _: &Catalog, _: Option<&str>) -> Result<Plan> {
    match &parsed.statement {
        Statement::Batch(_) => Ok(Plan {
            variables: Vec::new(),
            partition_key_indexes: Vec::new(),
            result_columns: None,
            step: Step::Empty,
        }),
        _ => Err(CqlError::invalid("only statements on rows are planned")),
    }
}
