//! WHERE: which partitions, which of their rows, and what is left to be asked of each row.

use std::collections::HashSet;

use super::expression::Expression;
use super::repeats::{check_comparison, check_multi_cell, check_repeats};
use super::route::slice_of;
use super::typing::{Planner, Receiver, find_column};
use crate::error::{Result, refuse};
use crate::schema::{Column, ColumnKind, Table};
use crate::statement::{Comparator, InValues, Relation, Term, quoted};
use crate::types::{DataType, Native};

/// The values that a column may have.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    One(Expression),
    Many(Vec<Expression>),
    /// The elements of a list.
    List(Expression),
}

impl Choice {
    /// That a column is one of these. One value that it may be is the one that it must be.
    fn test(self) -> Test {
        match self {
            Self::Many(values) => match <[Expression; 1]>::try_from(values) {
                Ok([only]) => Test::Compare(Comparator::Equal, only),
                Err(values) => Test::In(Self::Many(values)),
            },
            other => Test::In(other),
        }
    }
}

/// One end of a slice of rows: values of the first columns of it, and whether they are inside.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) values: Tuple,
    pub(crate) is_inclusive: bool,
}

/// Values of several columns: each by itself, or one tuple.
#[derive(Clone, Debug)]
pub(crate) enum Tuple {
    Each(Vec<Expression>),
    /// A tuple of this type.
    Whole(Expression, DataType),
}

/// What is asked of some clustering columns that stand together.
#[derive(Clone, Debug)]
pub(crate) enum ClusteringTest {
    Equal(Choice),
    EqualTuple(Tuple),
    InTuples(Vec<Tuple>),
    /// A list of tuples of this type.
    InTupleList(Expression, DataType),
    Slice {
        lower: Option<Bound>,
        upper: Option<Bound>,
    },
}

/// Clustering columns from `start` on, and what is asked of them.
#[derive(Clone, Debug)]
pub(crate) struct ClusteringStep {
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) test: ClusteringTest,
}

/// What is asked of a column of each row.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) column: usize,
    pub(crate) test: Test,
}

impl Filter {
    /// The values that it asks for, as far as they are not of several columns together.
    pub(crate) fn values(&self) -> &[Expression] {
        match &self.test {
            Test::Compare(_, value)
            | Test::Contains(value)
            | Test::ContainsKey(value)
            | Test::Entry(_, _, value)
            | Test::In(Choice::One(value) | Choice::List(value)) => std::slice::from_ref(value),
            Test::In(Choice::Many(values)) => values,
            Test::Together(_) => &[],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    Compare(Comparator, Expression),
    In(Choice),
    Contains(Expression),
    ContainsKey(Expression),
    /// `column[key] = value`.
    Entry(Expression, Comparator, Expression),
    /// Clustering columns from this one on, together.
    Together(ClusteringStep),
}

/// Bounds of tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenRange {
    pub(crate) lower: Option<(Expression, bool)>,
    pub(crate) upper: Option<(Expression, bool)>,
}

/// Relations, sorted by what they are about.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    /// By place of the column in its table.
    pub(super) filters: Vec<Filter>,
    pub(super) together: Vec<ClusteringStep>,
    pub(super) token: Option<TokenRange>,
}

impl Planner<'_> {
    /// Types the relations, and refuses those that can never be.
    pub(super) fn restrictions(&mut self, relations: &[Relation]) -> Result<Restrictions> {
        let mut restrictions = Restrictions::default();
        for relation in relations {
            self.relation(relation, &mut restrictions)?;
        }
        restrictions.join_slices(self.table);
        check_repeats(self.table, &restrictions)?;
        Ok(restrictions)
    }

    pub(super) fn column(&self, name: &str) -> Result<(usize, Column)> {
        let place = find_column(self.table, name)?;
        match self.table.columns.get(place) {
            Some(column) => Ok((place, column.clone())),
            None => refuse("the column is gone"),
        }
    }

    fn relation(&mut self, relation: &Relation, out: &mut Restrictions) -> Result<()> {
        match relation {
            Relation::Compare {
                column,
                comparator,
                value,
            } => {
                let (place, column) = self.column(column)?;
                check_comparison(&column, *comparator, value)?;
                let receiver = receiver(&column);
                let value = self.term(value, receiver)?;
                out.push(place, Test::Compare(*comparator, value));
            }
            Relation::In { column, values } => {
                let (place, column) = self.column(column)?;
                check_multi_cell(&column, "IN")?;
                out.push(place, self.choice(values, &column)?.test());
            }
            Relation::CompareElement {
                column,
                key,
                comparator,
                value,
            } => {
                let (place, column) = self.column(column)?;
                out.push(place, self.entry(&column, key, *comparator, value)?);
            }
            Relation::Contains {
                column,
                is_key,
                value,
            } => {
                let (place, column) = self.column(column)?;
                out.push(place, self.contains(&column, *is_key, value)?);
            }
            Relation::Token {
                columns,
                comparator,
                value,
            } => self.token_relation(columns, *comparator, value, out)?,
            Relation::CompareTuple {
                columns,
                comparator,
                value,
            } => {
                let step = self.compare_tuple(columns, *comparator, value)?;
                out.push_step(step, self.table);
            }
            Relation::InTuples { columns, values } => {
                let step = self.in_tuples(columns, values)?;
                out.push_step(step, self.table);
            }
            Relation::Like { column, .. } | Relation::IsNotNull(column) => {
                self.column(column)?;
                return refuse(unsupported(relation));
            }
            Relation::IndexExpression { .. } => return refuse(unsupported(relation)),
        }
        Ok(())
    }

    /// The values of IN for one column.
    pub(super) fn choice(&mut self, values: &InValues, column: &Column) -> Result<Choice> {
        Ok(match values {
            InValues::Marker(marker) => {
                let data_type = &DataType::list(column.data_type.freeze()).freeze();
                let name = &format!("in({})", column.name);
                Choice::List(self.marker(*marker, Receiver { name, data_type }))
            }
            InValues::Terms(terms) => {
                let receiver = receiver(column);
                let values: Result<Vec<Expression>> =
                    terms.iter().map(|term| self.term(term, receiver)).collect();
                Choice::Many(values?)
            }
        })
    }

    fn entry(
        &mut self,
        column: &Column,
        key: &Term,
        comparator: Comparator,
        value: &Term,
    ) -> Result<Test> {
        let DataType::Map {
            key: key_type,
            value: value_type,
            ..
        } = &column.data_type
        else {
            let name = &column.name;
            return refuse(match &column.data_type {
                DataType::List { .. } => format!(
                    "Indexes on list entries ({name}[index] = value) are not currently supported."
                ),
                _ => format!("Column {name} cannot be used as a map"),
            });
        };
        if !column.data_type.is_multi_cell() {
            return refuse(format!(
                "Map-entry equality predicates on frozen map column {} are not supported",
                column.name
            ));
        }
        if comparator != Comparator::Equal && comparator != Comparator::NotEqual {
            return refuse("Only EQ relations are supported on map entries");
        }
        let name = &format!("key({})", column.name);
        let data_type = &**key_type;
        let key = self.term(key, Receiver { name, data_type })?;
        let name = &format!("value({})", column.name);
        let data_type = &**value_type;
        let value = self.term(value, Receiver { name, data_type })?;
        Ok(Test::Entry(key, comparator, value))
    }

    /// What a collection shall contain, as a key or as a value.
    pub(super) fn contained(
        &mut self,
        column: &Column,
        is_key: bool,
        value: &Term,
    ) -> Result<Expression> {
        let name = &column.name;
        let data_type = match (&column.data_type, is_key) {
            (DataType::Map { key, .. }, true) => key,
            (DataType::Map { value, .. }, false) => value,
            (DataType::List { element, .. } | DataType::Set { element, .. }, false) => element,
            (_, true) => {
                return refuse(format!("Cannot use CONTAINS KEY on non-map column {name}"));
            }
            (_, false) => {
                return refuse(format!(
                    "Cannot use CONTAINS on non-collection column {name}"
                ));
            }
        };
        let word = if is_key { "key" } else { "value" };
        let name = &format!("{word}({name})");
        self.term(value, Receiver { name, data_type })
    }

    fn contains(&mut self, column: &Column, is_key: bool, value: &Term) -> Result<Test> {
        let value = self.contained(column, is_key, value)?;
        Ok(if is_key {
            Test::ContainsKey(value)
        } else {
            Test::Contains(value)
        })
    }

    fn token_relation(
        &mut self,
        columns: &[String],
        comparator: Comparator,
        value: &Term,
        out: &mut Restrictions,
    ) -> Result<()> {
        for column in columns {
            self.column(column)?;
        }
        let keys: Vec<&str> = self
            .table
            .partition_key()
            .map(|c| c.name.as_str())
            .collect();
        let is_all = keys
            .iter()
            .all(|key| columns.iter().any(|column| column == key));
        let different: HashSet<&String> = columns.iter().collect();
        if is_all && different.len() < columns.len() {
            return refuse("The token() function contains duplicate partition key components");
        }
        if !is_all || columns.len() != keys.len() {
            return refuse(
                "The token() function must be applied to all partition key components or none of \
                 them",
            );
        }
        if keys != columns.iter().map(String::as_str).collect::<Vec<_>>() {
            return refuse(format!(
                "The token function arguments must be in the partition key order: {}",
                keys.join(", ")
            ));
        }
        let unequal = format!(
            "Unsupported \"!=\" relation: token({}) != {value}",
            keys.join(", ")
        );
        let value = self.native_term(value, "partition key token", Native::Bigint)?;
        let range = out.token.get_or_insert_default();
        let list = keys.join(", ");
        let bound = |place: &mut Option<(Expression, bool)>, which, value, is_inclusive| {
            if place.is_some() {
                return refuse(format!(
                    "More than one restriction was found for the {which} bound on {list}"
                ));
            }
            *place = Some((value, is_inclusive));
            Ok(())
        };
        match comparator {
            Comparator::Equal => {
                bound(&mut range.lower, "start", value.clone(), true)?;
                bound(&mut range.upper, "end", value, true)
            }
            Comparator::Greater => bound(&mut range.lower, "start", value, false),
            Comparator::GreaterOrEqual => bound(&mut range.lower, "start", value, true),
            Comparator::Less => bound(&mut range.upper, "end", value, false),
            Comparator::LessOrEqual => bound(&mut range.upper, "end", value, true),
            Comparator::NotEqual => refuse(unequal),
        }
    }
}

/// Why a relation is never possible in the WHERE of a statement on rows.
fn unsupported(relation: &Relation) -> String {
    match relation {
        Relation::Like { column, pattern } => format!(
            "LIKE restriction is only supported on properly indexed columns. {} LIKE {pattern} is \
             not valid.",
            quoted(column)
        ),
        Relation::IsNotNull(column) => {
            format!("Unsupported restriction: {} IS NOT NULL", quoted(column))
        }
        Relation::IndexExpression { index, .. } => {
            format!("Invalid INDEX {index}: custom expressions are not supported by its class")
        }
        _ => "Unsupported restriction".to_owned(),
    }
}

impl Restrictions {
    /// A slice of one column beside a slice of several that begin with it bounds the same rows.
    fn join_slices(&mut self, table: &Table) {
        let is_slice = |step: &ClusteringStep| matches!(step.test, ClusteringTest::Slice { .. });
        for filter in std::mem::take(&mut self.filters) {
            let place = clustering_place(table, filter.column);
            let mut together = self.together.iter();
            let is_beside = together.any(|step| is_slice(step) && Some(step.start) == place);
            match (place, slice_of(&filter)) {
                (Some(start), Some(test)) if is_beside => {
                    let count = 1;
                    self.together.push(ClusteringStep { start, count, test });
                }
                _ => self.filters.push(filter),
            }
        }
    }

    /// Adds what is asked of columns together. A tuple of one is its value.
    fn push_step(&mut self, step: ClusteringStep, table: &Table) {
        match (&step.test, step.count) {
            (ClusteringTest::EqualTuple(Tuple::Each(values)), 1) => {
                let column = table.partition_key().count() + step.start;
                let tests = values.iter().map(|value| Filter {
                    column,
                    test: Test::Compare(Comparator::Equal, value.clone()),
                });
                self.filters.extend(tests);
            }
            _ => self.together.push(step),
        }
    }

    fn push(&mut self, column: usize, test: Test) {
        self.filters.push(Filter { column, test });
    }
}

pub(super) fn receiver(column: &Column) -> Receiver<'_> {
    Receiver {
        name: &column.name,
        data_type: &column.data_type,
    }
}

/// Whether a column is a clustering column, and its place among them.
pub(super) fn clustering_place(table: &Table, column: usize) -> Option<usize> {
    let found = table.columns.get(column)?;
    match found.kind {
        ColumnKind::Clustering(_) => column.checked_sub(table.partition_key().count()),
        _ => None,
    }
}
