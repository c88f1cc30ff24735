//! INSERT, UPDATE and DELETE: which rows, what changes in them, and on which condition.

use std::sync::Arc;

use super::assignment::{assignment_of, deletion_of};
use super::condition::Condition;
use super::expression::Expression;
use super::restriction::{Choice, ClusteringStep, ClusteringTest, receiver};
use super::target::set_where;
use super::typing::{Planner, find_column};
use super::view::FollowingView;
use crate::catalog::Relation;
use crate::error::{Result, refuse};
use crate::schema::{ColumnKind, Table};
use crate::statement::{self, Deletion, Term, Using, quoted};
use crate::types::Native;

/// A change that can be made.
#[derive(Debug)]
pub(crate) struct Modification {
    pub(crate) relation: Arc<Relation>,
    /// The views that follow the table.
    pub(crate) views: Vec<FollowingView>,
    pub(crate) kind: Kind,
    pub(crate) partition: Vec<Choice>,
    pub(crate) clustering: Vec<ClusteringStep>,
    pub(crate) changes: Vec<Change>,
    /// Whether the whole rows, ranges or partitions are deleted.
    pub(crate) deletes_all: bool,
    /// Whether only static columns change.
    pub(crate) is_static: bool,
    /// The text of INSERT JSON, and whether columns that it leaves out keep their values.
    pub(crate) json: Option<(Expression, bool)>,
    pub(crate) time_to_live: Option<Expression>,
    pub(crate) timestamp: Option<Expression>,
    pub(crate) condition: Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Update,
    Delete,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A change of one column.
#[derive(Debug)]
pub(crate) struct Change {
    /// Its place in the table.
    pub(crate) column: usize,
    pub(crate) how: How,
}

#[derive(Debug)]
pub(crate) enum How {
    Set(Expression),
    /// Adds to a collection, at its end.
    Append(Expression),
    /// Adds to a list, before its first element.
    Prepend(Expression),
    /// Takes elements out of a list or a set, or keys out of a map.
    Remove(Expression),
    /// Counts up by a number, or down.
    Increment(Expression, bool),
    SetElement(Expression, Expression),
    SetField(usize, Expression),
    Delete,
    DeleteElement(Expression),
    DeleteField(usize),
}

impl Modification {
    pub(crate) fn table(&self) -> &Table {
        &self.relation.table
    }

    pub(super) fn new(relation: &Arc<Relation>, kind: Kind) -> Self {
        Self {
            relation: Arc::clone(relation),
            views: Vec::new(),
            kind,
            partition: Vec::new(),
            clustering: Vec::new(),
            changes: Vec::new(),
            deletes_all: false,
            is_static: false,
            json: None,
            time_to_live: None,
            timestamp: None,
            condition: Condition::Always,
        }
    }

    fn using(&mut self, planner: &mut Planner<'_>, using: &Using) -> Result<()> {
        if let Some(term) = &using.time_to_live {
            if self.table().is_counter() {
                return refuse("Cannot provide custom TTL for counter updates");
            }
            self.time_to_live = Some(planner.native_term(term, "[ttl]", Native::Int)?);
        }
        self.timestamp(planner, using.timestamp.as_ref())
    }

    fn timestamp(&mut self, planner: &mut Planner<'_>, term: Option<&Term>) -> Result<()> {
        let Some(term) = term else {
            return Ok(());
        };
        if self.table().is_counter() {
            return refuse("Cannot provide custom timestamp for counter updates");
        }
        if !matches!(self.condition, Condition::Always) {
            return refuse("Cannot provide custom timestamp for conditional updates");
        }
        self.timestamp = Some(planner.native_term(term, "[timestamp]", Native::Bigint)?);
        Ok(())
    }
}

pub(super) fn insert(
    planner: &mut Planner<'_>,
    insert: &statement::Insert,
    relation: &Arc<Relation>,
) -> Result<Modification> {
    let table: &Table = &relation.table;
    let mut plan = Modification::new(relation, Kind::Insert);
    if table.is_counter() {
        return refuse("INSERT statements are not allowed on counter tables, use UPDATE instead");
    }
    if insert.columns.len() != insert.values.len() {
        return refuse("Unmatched column names/values");
    }
    let mut keys: Vec<Option<Expression>> = vec![None; key_count(table)];
    for (index, (name, term)) in insert.columns.iter().zip(&insert.values).enumerate() {
        let place = find_column(table, name)?;
        if insert.columns.iter().take(index).any(|other| other == name) {
            return refuse("The column names contains duplicates");
        }
        let Some(column) = table.columns.get(place) else {
            continue;
        };
        let value = planner.term(term, receiver(column))?;
        match keys.get_mut(place) {
            Some(key) => *key = Some(value),
            None => plan.changes.push(Change {
                column: place,
                how: How::Set(value),
            }),
        }
    }
    if insert.if_not_exists {
        plan.condition = Condition::NotExists;
    }
    plan.is_static = is_static_only(table, &plan.changes);
    set_keys(table, &mut plan, keys)?;
    plan.using(planner, &insert.using)?;
    Ok(plan)
}

pub(super) fn key_count(table: &Table) -> usize {
    table
        .columns
        .iter()
        .filter(|column| column.is_key())
        .count()
}

/// The keys of an INSERT. Clustering columns may be missing if only static columns are written.
fn set_keys(table: &Table, plan: &mut Modification, keys: Vec<Option<Expression>>) -> Result<()> {
    let partition = table.partition_key().count();
    let missing = |from: usize, to: usize| {
        let columns = table.columns.iter().zip(&keys).take(to).skip(from);
        let names: Vec<String> = columns
            .filter(|(_, key)| key.is_none())
            .map(|(column, _)| column.name.clone())
            .collect();
        names
    };
    let (lost_keys, lost_clustering) = (missing(0, partition), missing(partition, keys.len()));
    if !lost_keys.is_empty() {
        return refuse(format!(
            "Some partition key parts are missing: {}",
            lost_keys.join(", ")
        ));
    }
    let clusterings = keys.len() - partition;
    let is_static = plan.is_static && lost_clustering.len() == clusterings;
    if !lost_clustering.is_empty() && !is_static {
        return refuse(format!(
            "Some clustering keys are missing: {}",
            lost_clustering.join(", ")
        ));
    }
    plan.is_static = is_static && clusterings > 0;
    let mut values = keys.into_iter().flatten();
    plan.partition = values.by_ref().take(partition).map(Choice::One).collect();
    plan.clustering = values
        .enumerate()
        .map(|(start, value)| ClusteringStep {
            start,
            count: 1,
            test: ClusteringTest::Equal(Choice::One(value)),
        })
        .collect();
    Ok(())
}

fn is_static_only(table: &Table, changes: &[Change]) -> bool {
    let is_static = |change: &Change| {
        let column = table.columns.get(change.column);
        column.is_some_and(|column| column.kind == ColumnKind::Static)
    };
    !changes.is_empty() && changes.iter().all(is_static)
}

pub(super) fn insert_json(
    planner: &mut Planner<'_>,
    insert: &statement::InsertJson,
    relation: &Arc<Relation>,
) -> Result<Modification> {
    if relation.table.is_counter() {
        return refuse("INSERT statements are not allowed on counter tables, use UPDATE instead");
    }
    let mut plan = Modification::new(relation, Kind::Insert);
    let text = planner.native_term(&insert.json, "[json]", Native::Text)?;
    plan.json = Some((text, insert.default_unset));
    if insert.if_not_exists {
        plan.condition = Condition::NotExists;
    }
    plan.using(planner, &insert.using)?;
    Ok(plan)
}

pub(super) fn update(
    planner: &mut Planner<'_>,
    update: &statement::Update,
    relation: &Arc<Relation>,
) -> Result<Modification> {
    let table: &Table = &relation.table;
    let mut plan = Modification::new(relation, Kind::Update);
    for assignment in &update.assignments {
        let place = find_column(table, &assignment.column)?;
        let Some(column) = table.columns.get(place) else {
            continue;
        };
        if column.is_key() {
            return refuse(format!(
                "PRIMARY KEY part {} found in SET part",
                quoted(&column.name)
            ));
        }
        let how = assignment_of(planner, column, &assignment.operation)?;
        plan.changes.push(Change { column: place, how });
    }
    plan.condition = planner.condition(&update.condition)?;
    plan.is_static = is_static_only(table, &plan.changes);
    let restrictions = planner.restrictions(&update.relations)?;
    set_where(table, &mut plan, restrictions)?;
    plan.using(planner, &update.using)?;
    Ok(plan)
}

pub(super) fn delete(
    planner: &mut Planner<'_>,
    delete: &statement::Delete,
    relation: &Arc<Relation>,
) -> Result<Modification> {
    let table: &Table = &relation.table;
    let mut plan = Modification::new(relation, Kind::Delete);
    for deletion in &delete.deletions {
        let name = match deletion {
            Deletion::Column(name) | Deletion::Element(name, _) | Deletion::Field(name, _) => name,
        };
        let place = find_column(table, name)?;
        let Some(column) = table.columns.get(place) else {
            continue;
        };
        if column.is_key() {
            return refuse(format!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                quoted(name)
            ));
        }
        let how = deletion_of(planner, column, deletion)?;
        plan.changes.push(Change { column: place, how });
    }
    plan.deletes_all = plan.changes.is_empty();
    plan.is_static = is_static_only(table, &plan.changes);
    plan.condition = planner.condition(&delete.condition)?;
    let restrictions = planner.restrictions(&delete.relations)?;
    set_where(table, &mut plan, restrictions)?;
    plan.timestamp(planner, delete.timestamp.as_ref())?;
    Ok(plan)
}
