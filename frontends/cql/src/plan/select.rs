//! SELECT.

use std::sync::Arc;

use super::expression::{Expression, Typed};
use super::near::{self, Near};
use super::restriction::{Choice, ClusteringTest, Test};
use super::route::{Partitions, Route, route};
use super::selection::{Selection, columns_of};
use super::typing::{Planner, find_column};
use crate::catalog::Relation;
use crate::error::{Result, refuse};
use crate::functions::Aggregate;
use crate::schema::{ColumnKind, Table};
use crate::statement::{self, Direction, Selector, function_text};
use crate::types::Native;

/// A SELECT that can be run.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) relation: Arc<Relation>,
    pub(crate) route: Route,
    pub(crate) selection: Selection,
    /// The aggregates, with what they are of; none is of rows.
    pub(crate) aggregates: Vec<(Aggregate, Option<Expression>)>,
    /// Whether rows are put together: by aggregates or groups.
    pub(crate) is_grouped: bool,
    /// What rows of one group have in common, besides their partition if there is anything.
    pub(crate) group_by: Vec<Typed>,
    pub(crate) is_distinct: bool,
    /// Whether rows come in the reverse of their clustering order.
    pub(crate) is_reversed: bool,
    /// The columns by which rows of several partitions are sorted, and whether in descending order.
    pub(crate) sort: Vec<(usize, bool)>,
    /// What the rows are asked for that are nearest to it.
    pub(crate) near: Option<Near>,
    pub(crate) limit: Option<Expression>,
    pub(crate) per_partition_limit: Option<Expression>,
    /// Which columns of the table are looked at.
    pub(crate) needed: Vec<bool>,
    /// Whether a partition without rows gives its static columns.
    pub(crate) shows_statics: bool,
}

impl Select {
    pub(crate) fn table(&self) -> &Table {
        &self.relation.table
    }
}

/// Plans a SELECT on this table.
pub(super) fn select(
    planner: &mut Planner<'_>,
    select: &statement::Select,
    relation: &Arc<Relation>,
) -> Result<Select> {
    let table: &Table = &relation.table;
    let selection = planner.selection(&select.selection, select.is_json)?;
    let restrictions = planner.restrictions(&select.relations)?;
    let group_by = groups(planner, select)?;
    let near = planner.near(select)?;
    near::check_vectors(table, near.as_ref(), &restrictions)?;
    let route = route(
        table,
        restrictions,
        select.allow_filtering || near.is_some(),
    )?;
    if near.is_some() {
        near::check_route(table, &route)?;
    }
    if select.is_distinct {
        check_distinct(table, &selection, &route)?;
        check_distinct_groups(table, &group_by)?;
    }
    check_group_order(table, &group_by, &route)?;
    let (is_reversed, sort) = match near {
        Some(_) => (false, Vec::new()),
        None => order(table, select, &route)?,
    };
    let aggregates = std::mem::take(&mut planner.aggregates);
    let is_grouped = !aggregates.is_empty() || !group_by.is_empty();
    if select.per_partition_limit.is_some() {
        if select.is_distinct {
            return refuse("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
        }
        if !aggregates.is_empty() && group_by.is_empty() {
            return refuse("PER PARTITION LIMIT is not allowed with aggregate queries.");
        }
    }
    let limit = limit(planner, select.limit.as_ref(), "limit", "LIMIT")?;
    let per_partition_limit = self::limit(
        planner,
        select.per_partition_limit.as_ref(),
        "per_partition_limit",
        "LIMIT",
    )?;
    if near.is_some() && is_grouped {
        return refuse("Top-K queries can not be run with aggregation");
    }
    let mut needed = needed(table, &selection, &aggregates, &group_by, &route);
    if let Some(needed) = near.as_ref().and_then(|near| needed.get_mut(near.column)) {
        *needed = true;
    }
    let is_of_regular = |filter: &super::restriction::Filter| {
        let kind = table.columns.get(filter.column).map(|column| column.kind);
        !matches!(kind, Some(ColumnKind::Static | ColumnKind::PartitionKey))
    };
    let shows_statics = route.clustering.is_empty() && !route.filters.iter().any(is_of_regular);
    Ok(Select {
        relation: Arc::clone(relation),
        selection,
        aggregates,
        is_grouped,
        group_by,
        is_distinct: select.is_distinct,
        is_reversed,
        sort,
        near,
        limit,
        per_partition_limit,
        needed,
        shows_statics,
        route,
    })
}

fn limit(
    planner: &mut Planner<'_>,
    term: Option<&statement::Term>,
    name: &str,
    words: &str,
) -> Result<Option<Expression>> {
    let Some(term) = term else {
        return Ok(None);
    };
    let limit = planner.native_term(term, &format!("[{name}]"), Native::Int)?;
    match &limit {
        Expression::Constant(bytes) => {
            let count = bytes.as_slice().try_into().map_or(0, i32::from_be_bytes);
            if count <= 0 {
                return refuse(format!("{words} must be strictly positive"));
            }
        }
        Expression::Null => return refuse(format!("Invalid null value of {name}")),
        _ => {}
    }
    Ok(Some(limit))
}

fn needed(
    table: &Table,
    selection: &Selection,
    aggregates: &[(Aggregate, Option<Expression>)],
    group_by: &[Typed],
    route: &Route,
) -> Vec<bool> {
    let mut expressions: Vec<&Expression> = selection.items.iter().collect();
    expressions.extend(aggregates.iter().filter_map(|(_, of)| of.as_ref()));
    expressions.extend(group_by.iter().map(|typed| &typed.expression));
    let mut needed = columns_of(table, &expressions);
    for filter in &route.filters {
        let count = match &filter.test {
            Test::Together(step) => step.count,
            _ => 1,
        };
        for place in filter.column..filter.column + count {
            if let Some(needed) = needed.get_mut(place) {
                *needed = true;
            }
        }
    }
    needed
}

fn check_distinct(table: &Table, selection: &Selection, route: &Route) -> Result<()> {
    let expressions: Vec<&Expression> = selection.items.iter().collect();
    let used = columns_of(table, &expressions);
    for (column, is_used) in table.columns.iter().zip(&used) {
        let is_shared = matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static);
        if *is_used && !is_shared {
            return refuse(format!(
                "SELECT DISTINCT queries must only request partition key columns and/or static \
                 columns (not {})",
                column.name
            ));
        }
    }
    for (column, is_used) in table.columns.iter().zip(&used) {
        if column.kind == ColumnKind::PartitionKey
            && !*is_used
            && !matches!(route.partitions, Partitions::Keys(..))
        {
            return refuse(format!(
                "SELECT DISTINCT queries must request all the partition key columns (missing {})",
                column.name
            ));
        }
    }
    let is_other = |filter: &super::restriction::Filter| {
        let kind = table.columns.get(filter.column).map(|column| column.kind);
        !matches!(kind, Some(ColumnKind::PartitionKey | ColumnKind::Static))
    };
    if !route.clustering.is_empty() || route.filters.iter().any(is_other) {
        return refuse(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or \
             static columns.",
        );
    }
    Ok(())
}

/// Rows of one partition cannot be told apart where each partition is one row.
fn check_distinct_groups(table: &Table, groups: &[Typed]) -> Result<()> {
    let kind = |group: &Typed| Some(table.columns.get(group_column(group)?)?.kind);
    let is_of_rows = |group| matches!(kind(group), Some(ColumnKind::Clustering(_)));
    if groups.iter().any(is_of_rows) {
        return refuse("Grouping on clustering columns is not allowed for SELECT DISTINCT queries");
    }
    Ok(())
}

fn groups(planner: &mut Planner<'_>, select: &statement::Select) -> Result<Vec<Typed>> {
    planner.has_rows = true;
    let aggregates = planner.aggregates.len();
    let groups: Result<Vec<Typed>> = select
        .group_by
        .iter()
        .map(|selector| match selector {
            Selector::Column(_) | Selector::Function { .. } => planner.typed(selector, None),
            other => refuse(format!(
                "Group by currently only supports groups of columns or functions, got {other}"
            )),
        })
        .collect();
    planner.has_rows = false;
    if planner.aggregates.len() > aggregates {
        let last = select
            .group_by
            .iter()
            .rev()
            .find_map(|selector| match selector {
                Selector::Function { name, .. } => Some(function_text(name)),
                _ => None,
            });
        return refuse(format!(
            "Aggregate functions are not supported within the GROUP BY clause, got: {}",
            last.unwrap_or_default()
        ));
    }
    groups
}

/// The column that a group is of: itself, or the one inside a function.
fn group_column(group: &Typed) -> Option<usize> {
    let mut found = None;
    group.expression.walk(&mut |inner| {
        if let Expression::Column(place) = inner {
            found = Some(*place);
        }
    });
    found
}

fn check_group_order(table: &Table, groups: &[Typed], route: &Route) -> Result<()> {
    let fixed = fixed_columns(table, route);
    let keys = table
        .columns
        .iter()
        .filter(|column| column.is_key())
        .count();
    let mut next = 0;
    for (index, group) in groups.iter().enumerate() {
        let Some(place) = group_column(group) else {
            return refuse("GROUP BY functions must have one clustering column name as parameter");
        };
        let is_function = !matches!(group.expression, Expression::Column(_));
        let name = table
            .columns
            .get(place)
            .map_or("", |column| column.name.as_str());
        if place >= keys {
            return refuse(format!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {name}"
            ));
        }
        if is_function && index + 1 < groups.len() {
            return refuse(
                "Functions are only supported on the last element of the GROUP BY clause",
            );
        }
        while next < place && fixed.get(next).copied().unwrap_or(false) {
            next += 1;
        }
        if place != next {
            return refuse(
                "Group by currently only support groups of columns following their declared order \
                 in the PRIMARY KEY",
            );
        }
        next += 1;
    }
    let partition = table.partition_key().count();
    if !groups.is_empty() && next < partition {
        let rest = (next..partition).all(|place| fixed.get(place).copied().unwrap_or(false));
        if !rest {
            return refuse("Group by is not supported on only a part of the partition key");
        }
    }
    Ok(())
}

/// Which key columns have one value in all rows that are read.
fn fixed_columns(table: &Table, route: &Route) -> Vec<bool> {
    let mut fixed = vec![false; table.columns.len()];
    let mut fix = |place: usize| {
        if let Some(fixed) = fixed.get_mut(place) {
            *fixed = true;
        }
    };
    let first = table.partition_key().count();
    if let Partitions::Keys(choices, _) = &route.partitions {
        for (place, choice) in choices.iter().enumerate() {
            if matches!(choice, Choice::One(_)) {
                fix(place);
            }
        }
    }
    for step in &route.clustering {
        match &step.test {
            ClusteringTest::Equal(Choice::One(_)) | ClusteringTest::EqualTuple(_) => {
                for place in step.start..step.start + step.count {
                    fix(first + place);
                }
            }
            _ => {}
        }
    }
    fixed
}

/// Whether rows come in reverse, and what rows of several partitions are sorted by.
fn order(
    table: &Table,
    select: &statement::Select,
    route: &Route,
) -> Result<(bool, Vec<(usize, bool)>)> {
    if select.order_by.is_empty() {
        return Ok((false, Vec::new()));
    }
    if route.index.is_some() {
        return refuse("ORDER BY with 2ndary indexes is not supported, except for ANN queries.");
    }
    let Partitions::Keys(choices, _) = &route.partitions else {
        return refuse(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        );
    };
    let keys = table.partition_key().count();
    let fixed = fixed_columns(table, route);
    let mut is_reversed = None;
    let mut next = keys;
    let mut sort = Vec::new();
    for order in &select.order_by {
        let place = find_column(table, &order.column)?;
        let column = table.columns.get(place);
        let Some(ColumnKind::Clustering(direction)) = column.map(|column| column.kind) else {
            return refuse(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY \
                 KEY, got {}",
                order.column
            ));
        };
        while next < place && fixed.get(next).copied().unwrap_or(false) {
            next += 1;
        }
        if place != next {
            return refuse(
                "Order by currently only supports the ordering of columns following their \
                 declared order in the PRIMARY KEY",
            );
        }
        next += 1;
        let reverses = order.is_descending != (direction == Direction::Descending);
        if is_reversed.is_some_and(|earlier| earlier != reverses) {
            return refuse("Unsupported order by relation");
        }
        is_reversed = Some(reverses);
        sort.push((place, order.is_descending));
    }
    let has_many = choices
        .iter()
        .any(|choice| !matches!(choice, Choice::One(_)));
    if !has_many {
        sort.clear();
    }
    Ok((is_reversed.unwrap_or(false), sort))
}
