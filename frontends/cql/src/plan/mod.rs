//! Statements with their tables found and their terms typed: all that can be refused without
//! looking at a row is refused here.
//!
//! A [`Plan`] is made once and runs often: a prepared statement is one. It owns what it needs and
//! never changes; the values of its markers come with each run.

mod assignment;
mod batch;
mod condition;
mod constant;
mod expression;
mod literal;
mod modify;
mod near;
mod operation;
mod repeats;
mod restriction;
mod route;
mod select;
mod selection;
mod target;
#[cfg(test)]
mod tests;
mod together;
mod typing;
#[cfg(test)]
mod typing_tests;
mod view;

use std::sync::{Arc, OnceLock};

use crate::auth::{self, Need};
use crate::catalog::{Catalog, KeyspaceEntry, Place, Relation, keyspace_of};
use crate::error::{CqlError, Result};
use crate::statement::{Parsed, QualifiedName, Statement};
use crate::types::{DataType, Native};
use crate::wire::ColumnSpec;
use typing::Planner;

pub(crate) use batch::{Batch, check_batch, nowhere};
pub(crate) use condition::{ColumnCondition, Condition, ConditionPart, ConditionTest};
pub(crate) use expression::{Expression, Part, Typed};
pub(crate) use modify::{Change, How, Kind, Modification};
pub(crate) use near::Near;
pub(crate) use restriction::{
    Bound, Choice, ClusteringStep, ClusteringTest, Filter, Test, TokenRange, Tuple,
};
#[cfg(test)]
pub(crate) use route::NEEDS_FILTERING;
pub(crate) use route::Partitions;
pub(crate) use select::Select;
pub(crate) use view::FollowingView;

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
    needs: OnceLock<Vec<Need>>,
}

impl Plan {
    /// What a role needs to run it.
    pub(crate) fn needs(&self) -> &[Need] {
        self.needs.get_or_init(|| auth::of_plan(&self.step))
    }
}

/// What a plan does.
#[derive(Debug)]
pub(crate) enum Step {
    Select(Box<Select>),
    Modify(Arc<Modification>),
    Batch(Batch),
}

/// Plans a SELECT, INSERT, UPDATE, DELETE or BATCH, in a session with this keyspace.
pub(crate) fn prepare(parsed: &Parsed, catalog: &Catalog, keyspace: Option<&str>) -> Result<Plan> {
    let mut variables = vec![None; parsed.markers.len()];
    let scope = Scope {
        catalog,
        keyspace,
        names: &parsed.markers,
    };
    let step = match &parsed.statement {
        Statement::Select(select) => {
            let (entry, relation) = scope.relation(&select.table)?;
            let mut planner = Planner::new(&relation.table, &entry.types, scope.names);
            let plan = select::select(&mut planner, select, relation)?;
            keep(&mut variables, planner);
            Step::Select(Box::new(plan))
        }
        Statement::Batch(batch) => Step::Batch(batch::batch(&scope, batch, &mut variables)?),
        other => Step::Modify(Arc::new(scope.modification(other, &mut variables)?)),
    };
    let result_columns = match &step {
        Step::Select(select) => Some(Arc::clone(&select.selection.columns)),
        Step::Modify(_) | Step::Batch(_) => None,
    };
    let partition_key_indexes = match &step {
        Step::Select(select) => match &select.route.partitions {
            Partitions::Keys(choices, _) => markers_of(choices),
            _ => Vec::new(),
        },
        Step::Modify(modification) => markers_of(&modification.partition),
        Step::Batch(batch) => {
            let first = batch.modifications.first();
            first.map_or_else(Vec::new, |first| markers_of(&first.partition))
        }
    };
    Ok(Plan {
        variables: variables.into_iter().map(known).collect(),
        partition_key_indexes,
        result_columns,
        step,
        needs: OnceLock::new(),
    })
}

/// Where the names of a statement are looked up.
struct Scope<'a> {
    catalog: &'a Catalog,
    keyspace: Option<&'a str>,
    names: &'a [Option<String>],
}

impl Scope<'_> {
    fn relation(&self, name: &QualifiedName) -> Result<(&Arc<KeyspaceEntry>, &Arc<Relation>)> {
        let relation = self.catalog.relation(name, self.keyspace)?;
        let entry = self.catalog.keyspace(keyspace_of(name, self.keyspace)?)?;
        Ok((entry, relation))
    }

    /// Plans a change of rows, and puts its markers to the others.
    fn modification(
        &self,
        statement: &Statement,
        variables: &mut [Option<ColumnSpec>],
    ) -> Result<Modification> {
        let name = match statement {
            Statement::Insert(insert) => &insert.table,
            Statement::InsertJson(insert) => &insert.table,
            Statement::Update(update) => &update.table,
            Statement::Delete(delete) => &delete.table,
            _ => return Err(CqlError::invalid("only statements on rows are planned")),
        };
        let (entry, relation) = self.relation(name)?;
        if relation.view.is_some() {
            return Err(CqlError::invalid(
                "Cannot directly modify a materialized view",
            ));
        }
        if matches!(relation.place, Place::Computed) {
            return Err(CqlError::invalid(format!(
                "{} keyspace is not user-modifiable.",
                relation.table.keyspace
            )));
        }
        let mut planner = Planner::new(&relation.table, &entry.types, self.names);
        let mut plan = match statement {
            Statement::Insert(insert) => modify::insert(&mut planner, insert, relation)?,
            Statement::InsertJson(insert) => modify::insert_json(&mut planner, insert, relation)?,
            Statement::Update(update) => modify::update(&mut planner, update, relation)?,
            Statement::Delete(delete) => modify::delete(&mut planner, delete, relation)?,
            _ => return Err(CqlError::invalid("only statements on rows are planned")),
        };
        check_condition(&plan)?;
        for view in entry.views_of(relation) {
            plan.views
                .push(FollowingView::new(&view, &relation.table, &entry.types)?);
        }
        keep(variables, planner);
        Ok(plan)
    }
}

/// A conditional change is of one row, or of what rows share.
fn check_condition(plan: &Modification) -> Result<()> {
    if !plan.condition.is_conditional() {
        return Ok(());
    }
    if plan
        .partition
        .iter()
        .any(|choice| !matches!(choice, Choice::One(_)))
    {
        return Err(CqlError::invalid(format!(
            "IN on the partition key is not supported with conditional {}",
            if plan.kind == Kind::Delete {
                "deletions"
            } else {
                "updates"
            }
        )));
    }
    let is_one = |step: &ClusteringStep| {
        matches!(
            step.test,
            ClusteringTest::Equal(Choice::One(_)) | ClusteringTest::EqualTuple(_)
        )
    };
    if !plan.clustering.iter().all(is_one) {
        return Err(CqlError::invalid(format!(
            "IN on the clustering key columns is not supported with conditional {}",
            if plan.kind == Kind::Delete {
                "deletions"
            } else {
                "updates"
            }
        )));
    }
    Ok(())
}

fn keep(variables: &mut [Option<ColumnSpec>], planner: Planner<'_>) {
    for (place, found) in variables.iter_mut().zip(planner.into_variables()) {
        if found.is_some() {
            *place = found;
        }
    }
}

fn known(variable: Option<ColumnSpec>) -> ColumnSpec {
    variable.unwrap_or_else(|| ColumnSpec {
        keyspace: String::new(),
        table: String::new(),
        name: String::new(),
        data_type: DataType::Native(Native::Blob),
    })
}

/// The markers that are the partition key, if all of it is markers.
fn markers_of(choices: &[Choice]) -> Vec<u16> {
    let marker = |choice: &Choice| match choice {
        Choice::One(Expression::Marker(index)) => u16::try_from(*index).ok(),
        _ => None,
    };
    choices
        .iter()
        .map(marker)
        .collect::<Option<Vec<u16>>>()
        .unwrap_or_default()
}
