//! `ORDER BY … ANN OF`: the rows whose vectors are most like another one.

use super::expression::Expression;
use super::restriction::{Filter, Restrictions};
use super::route::Route;
use super::typing::{Planner, Receiver, find_column};
use crate::error::{Result, refuse};
use crate::schema::{ColumnKind, Index, Table};
use crate::statement::{self, Term};
use crate::types::{DataType, Native, Similarity};

/// What the nearest rows are near to.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) column: usize,
    pub(crate) similarity: Similarity,
    pub(crate) to: Expression,
}

impl Planner<'_> {
    /// What a SELECT asks the nearest of, if it does.
    pub(super) fn near(&mut self, select: &statement::Select) -> Result<Option<Near>> {
        let asked = select.order_by.iter().filter_map(|order| {
            let near = order.near.as_ref()?;
            Some((order, near))
        });
        let asked: Vec<_> = asked.collect();
        let Some((order, term)) = asked.first() else {
            return Ok(None);
        };
        let table = self.table;
        let place = find_column(table, &order.column)?;
        let Some(column) = table.columns.get(place) else {
            return Ok(None);
        };
        let data_type = &column.data_type;
        let is_sequence = matches!(data_type, DataType::Vector { .. } | DataType::List { .. });
        if matches!(term, Term::List(_)) && !is_sequence {
            return refuse(format!(
                "Unexpected receiver type '{data_type}'; only list and vector are expected"
            ));
        }
        let name = &column.name;
        let to = self.term(term, Receiver { name, data_type })?;
        if asked.len() > 1 {
            return refuse("Cannot specify more than one ANN ordering");
        }
        if select.order_by.len() > 1 {
            return refuse("ANN ordering does not support any other ordering");
        }
        if order.is_descending {
            return refuse("Descending ANN ordering is not supported");
        }
        let float = DataType::Native(Native::Float);
        if !matches!(data_type, DataType::Vector { element, .. } if **element == float) {
            return refuse("ANN ordering is only supported on float vector indexes");
        }
        let mut indexes = indexes_on(table, name);
        let Some(index) = indexes.find(|index| index.is_storage_attached()) else {
            return refuse("ANN ordering by vector requires the column to be indexed");
        };
        let similarity = index.similarity();
        Ok(Some(Near {
            column: place,
            similarity,
            to,
        }))
    }
}

fn indexes_on<'t>(table: &'t Table, column: &str) -> impl Iterator<Item = &'t Index> {
    let indexes = table.indexes.iter();
    indexes.filter(move |index| index.column == column)
}

/// Refuses restrictions of vectors that are indexed: by an index, only the nearest are found.
pub(super) fn check_vectors(
    table: &Table,
    near: Option<&Near>,
    restrictions: &Restrictions,
) -> Result<()> {
    for filter in &restrictions.filters {
        let Some(column) = table.columns.get(filter.column) else {
            continue;
        };
        let name = &column.name;
        match near {
            Some(near) if near.column == filter.column => {
                return refuse(format!(
                    "{name} cannot be restricted by more than one relation in an ANN ordering"
                ));
            }
            Some(_) => {}
            None if matches!(column.data_type, DataType::Vector { .. })
                && indexes_on(table, name).next().is_some() =>
            {
                return refuse("Vector indexes only support ANN queries");
            }
            None => {}
        }
    }
    Ok(())
}

/// Refuses what only each row could be asked: of the nearest, all is found by keys or by indexes.
pub(super) fn check_route(table: &Table, route: &Route) -> Result<()> {
    let is_found = |filter: &Filter| {
        table.columns.get(filter.column).is_some_and(|column| {
            column.kind != ColumnKind::PartitionKey
                && indexes_on(table, &column.name).next().is_some()
        })
    };
    if route.filters.iter().all(is_found) {
        return Ok(());
    }
    refuse("ANN ordering by vector requires all restricted column(s) to be indexed")
}
