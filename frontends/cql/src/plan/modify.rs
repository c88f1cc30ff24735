//! INSERT, UPDATE and DELETE: which rows, what changes in them, and on which condition.

use std::sync::Arc;

use super::condition::Condition;
use super::expression::Expression;
use super::restriction::{
    Choice, ClusteringStep, ClusteringTest, Filter, Restrictions, clustering_place, receiver,
};
use super::route::{check_clustering, choice_of, take_prefix};
use super::selection::field_of;
use super::typing::{Planner, Receiver, find_column};
use super::view::FollowingView;
use crate::catalog::Relation;
use crate::error::{CqlError, Result};
use crate::schema::{Column, ColumnKind, Table};
use crate::statement::{self, Deletion, Operation, Term, Using, quoted};
use crate::types::{DataType, Native};

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

fn refuse<T>(words: impl Into<String>) -> Result<T> {
    Err(CqlError::invalid(words))
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
            return refuse(format!(
                "The column names contains duplicates: {}",
                quoted(name)
            ));
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

fn key_count(table: &Table) -> usize {
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

fn assignment_of(planner: &mut Planner<'_>, column: &Column, operation: &Operation) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    let is_multi = data_type.is_multi_cell();
    if data_type.is_counter() && !matches!(operation, Operation::Add(_) | Operation::Subtract(_)) {
        return refuse(format!(
            "Cannot set the value of counter column {name} (counters can only be \
             incremented/decremented, not set)"
        ));
    }
    match operation {
        Operation::Set(term) => Ok(How::Set(planner.term(term, receiver(column))?)),
        Operation::Add(term) | Operation::Subtract(term) => {
            let is_add = matches!(operation, Operation::Add(_));
            add_or_subtract(planner, column, term, is_add)
        }
        Operation::Prepend(term) => match data_type {
            DataType::List { .. } if is_multi => {
                Ok(How::Prepend(planner.term(term, receiver(column))?))
            }
            DataType::List { .. } => refuse(format!(
                "Invalid operation ({name} = {term} - {name}) for frozen list column {name}"
            )),
            DataType::Set { .. } | DataType::Map { .. } if is_multi => {
                Ok(How::Append(planner.term(term, receiver(column))?))
            }
            _ => refuse(format!(
                "Invalid operation ({name} = {term} + {name}) for non list column {name}"
            )),
        },
        Operation::SetElement(key, value) => {
            let shown = || format!("{name}[{key}] = {value}");
            let (key_name, key_type, value_type) = match data_type {
                _ if data_type.is_collection() && !is_multi => {
                    return refuse(format!(
                        "Invalid operation ({}) for frozen collection column {name}",
                        shown()
                    ));
                }
                DataType::List { element, .. } => (
                    format!("idx({name})"),
                    &DataType::Native(Native::Int),
                    element,
                ),
                DataType::Map { key, value, .. } => (format!("key({name})"), &**key, value),
                DataType::Set { .. } => {
                    return refuse(format!(
                        "Invalid operation ({}) for set column {name}",
                        shown()
                    ));
                }
                _ => {
                    return refuse(format!(
                        "Invalid operation ({}) for non collection column {name}",
                        shown()
                    ));
                }
            };
            let receiver = Receiver {
                name: &key_name,
                data_type: key_type,
            };
            let key = planner.term(key, receiver)?;
            let receiver = Receiver {
                name: &format!("value({name})"),
                data_type: value_type,
            };
            Ok(How::SetElement(key, planner.term(value, receiver)?))
        }
        Operation::SetField(field, value) => {
            let shown = || format!("{name}.{field} = {value}");
            match data_type {
                DataType::User { frozen: true, .. } => refuse(format!(
                    "Invalid operation ({}) for frozen UDT column {name}",
                    shown()
                )),
                DataType::User { definition, .. } => {
                    let Ok((place, data_type)) = field_of(data_type, field) else {
                        return refuse(format!(
                            "UDT column {name} does not have a field named {field}"
                        ));
                    };
                    let name = &format!("{}.{field}", definition.name);
                    let data_type = &data_type;
                    let value = planner.term(value, Receiver { name, data_type })?;
                    Ok(How::SetField(place, value))
                }
                _ => refuse(format!(
                    "Invalid operation ({}) for non-UDT column {name}",
                    shown()
                )),
            }
        }
    }
}

fn add_or_subtract(
    planner: &mut Planner<'_>,
    column: &Column,
    term: &Term,
    is_add: bool,
) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    let symbol = if is_add { '+' } else { '-' };
    if data_type.is_counter() {
        let data_type = &DataType::Native(Native::Bigint);
        let value = planner.term(term, Receiver { name, data_type })?;
        return Ok(How::Increment(value, is_add));
    }
    if data_type.is_collection() && !data_type.is_multi_cell() {
        return refuse(format!(
            "Invalid operation ({name} = {name} {symbol} {term}) for frozen collection column {name}"
        ));
    }
    match data_type {
        DataType::Map { key, .. } if !is_add => {
            let data_type = &DataType::set((**key).clone());
            Ok(How::Remove(
                planner.term(term, Receiver { name, data_type })?,
            ))
        }
        DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. } => {
            let value = planner.term(term, receiver(column))?;
            Ok(if is_add {
                How::Append(value)
            } else {
                How::Remove(value)
            })
        }
        _ => refuse(format!(
            "Invalid operation ({name} = {name} {symbol} {term}) for non counter column {name}"
        )),
    }
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

fn deletion_of(planner: &mut Planner<'_>, column: &Column, deletion: &Deletion) -> Result<How> {
    let (name, data_type) = (&column.name, &column.data_type);
    match deletion {
        Deletion::Column(_) => Ok(How::Delete),
        Deletion::Element(_, key) => {
            if !data_type.is_collection() {
                return refuse(format!(
                    "Invalid deletion operation for non collection column {name}"
                ));
            }
            if !data_type.is_multi_cell() {
                return refuse(format!(
                    "Invalid deletion operation for frozen collection column {name}"
                ));
            }
            let int = DataType::Native(Native::Int);
            let (key_name, data_type) = match data_type {
                DataType::Map { key, .. } => (format!("key({name})"), &**key),
                DataType::Set { element, .. } => (format!("value({name})"), &**element),
                _ => (format!("idx({name})"), &int),
            };
            let name = &key_name;
            Ok(How::DeleteElement(
                planner.term(key, Receiver { name, data_type })?,
            ))
        }
        Deletion::Field(_, field) => match data_type {
            DataType::User { frozen: false, .. } => match field_of(data_type, field) {
                Ok((place, _)) => Ok(How::DeleteField(place)),
                Err(_) => refuse(format!(
                    "UDT column {name} does not have a field named {field}"
                )),
            },
            DataType::User { .. } => refuse(format!(
                "Frozen UDT column {name} does not support field deletions"
            )),
            _ => refuse(format!(
                "Invalid field deletion operation for non-UDT column {name}"
            )),
        },
    }
}

/// The rows of an UPDATE or a DELETE: by their whole keys, or for DELETE by a part of them.
fn set_where(table: &Table, plan: &mut Modification, restrictions: Restrictions) -> Result<()> {
    let kind = plan.kind.name();
    let Restrictions {
        filters,
        mut together,
        token,
    } = restrictions;
    if token.is_some() {
        return refuse(format!(
            "The token function cannot be used in WHERE clauses for {kind} statements"
        ));
    }
    let partition = table.partition_key().count();
    let others: Vec<&str> = filters
        .iter()
        .filter_map(|filter| table.columns.get(filter.column))
        .filter(|column| !column.is_key())
        .map(|column| column.name.as_str())
        .collect();
    if !others.is_empty() {
        return refuse(format!(
            "Non PRIMARY KEY columns found in where clause: {} ",
            others.join(", ")
        ));
    }
    let (keys, mut clustering): (Vec<Filter>, Vec<Filter>) = filters
        .into_iter()
        .partition(|filter| clustering_place(table, filter.column).is_none());
    let mut missing = Vec::new();
    for (place, column) in table.partition_key().enumerate() {
        let filter = keys.iter().find(|filter| filter.column == place);
        match filter.map(choice_of) {
            None => missing.push(column.name.as_str()),
            Some(Some(choice)) => plan.partition.push(choice),
            Some(None) => {
                return refuse(
                    "Only EQ and IN relation are supported on the partition key (unless you use \
                     the token() function)",
                );
            }
        }
    }
    if !missing.is_empty() {
        return refuse(format!(
            "Some partition key parts are missing: {}",
            missing.join(", ")
        ));
    }
    let has_clustering = !clustering.is_empty() || !together.is_empty();
    plan.clustering = take_prefix(table, &mut clustering, &mut together);
    check_clustering(table, &clustering, &together, plan.clustering.last())?;
    if let Some(filter) = clustering.first() {
        let name = table
            .columns
            .get(filter.column)
            .map_or("", |column| column.name.as_str());
        return refuse(format!(
            "Cannot restrict clustering column {name} in this way"
        ));
    }
    let covered: usize = plan
        .clustering
        .iter()
        .filter(|step| !matches!(step.test, ClusteringTest::Slice { .. }))
        .map(|step| step.count)
        .sum();
    let count = table.columns.len().min(key_count(table)) - partition;
    check_rows(table, plan, has_clustering, covered == count)
}

fn check_rows(
    table: &Table,
    plan: &mut Modification,
    has_clustering: bool,
    is_whole: bool,
) -> Result<()> {
    let kind = plan.kind.name();
    let has_slice = plan
        .clustering
        .iter()
        .any(|step| matches!(step.test, ClusteringTest::Slice { .. }));
    if plan.is_static && table.clustering().next().is_some() {
        // A condition on a row may name that row all the same.
        if has_clustering && !plan.condition.is_of_rows(table) {
            return refuse(format!(
                "Invalid restrictions on clustering columns since the {kind} statement modifies \
                 only static columns"
            ));
        }
        plan.is_static = !has_clustering;
        return Ok(());
    }
    plan.is_static = false;
    if has_slice && plan.kind == Kind::Update {
        return refuse(
            "Slice restrictions are not supported on the clustering columns in UPDATE statements",
        );
    }
    if !is_whole && !plan.deletes_all {
        if has_slice {
            return refuse("Range deletions are not supported for specific columns");
        }
        let done: usize = plan.clustering.iter().map(|step| step.count).sum();
        let missing: Vec<&str> = table
            .clustering()
            .skip(done)
            .map(|column| column.name.as_str())
            .collect();
        return refuse(format!(
            "Some clustering keys are missing: {}",
            missing.join(", ")
        ));
    }
    if !is_whole && plan.condition.is_of_rows(table) {
        let done: usize = plan.clustering.iter().map(|step| step.count).sum();
        let name = table
            .clustering()
            .nth(done)
            .map_or("", |column| column.name.as_str());
        return refuse(format!(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in \
             order to delete non static columns, but column '{name}' is not restricted"
        ));
    }
    Ok(())
}
