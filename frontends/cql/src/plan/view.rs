//! Views as writes of their base table see them: which rows they take.

use std::sync::Arc;

use super::restriction::Filter;
use super::typing::{Planner, find_column};
use crate::catalog::Relation;
use crate::error::Result;
use crate::schema::{Table, Types, relations_of};
use crate::statement;

/// A view that follows a table.
#[derive(Debug)]
pub(crate) struct FollowingView {
    pub(crate) relation: Arc<Relation>,
    /// What rows must be like to be in it.
    pub(crate) filters: Vec<Filter>,
    /// Which columns of the table must have a value, by place.
    pub(crate) not_null: Vec<usize>,
}

impl FollowingView {
    /// A view of this table, in a keyspace with these types.
    pub(crate) fn new(relation: &Arc<Relation>, base: &Table, types: &Types) -> Result<Self> {
        let clause = relation
            .view
            .as_ref()
            .map_or("", |view| view.where_clause.as_str());
        let mut not_null = Vec::new();
        let mut relations = Vec::new();
        for relation in relations_of(clause)? {
            match relation {
                statement::Relation::IsNotNull(name) => not_null.push(find_column(base, &name)?),
                other => relations.push(other),
            }
        }
        let mut planner = Planner::new(base, types, &[]);
        let restrictions = planner.restrictions(&relations)?;
        let first = base.partition_key().count();
        let together = restrictions.together.into_iter().map(|step| Filter {
            column: first + step.start,
            test: super::Test::Together(step),
        });
        Ok(Self {
            relation: Arc::clone(relation),
            filters: restrictions.filters.into_iter().chain(together).collect(),
            not_null,
        })
    }
}
