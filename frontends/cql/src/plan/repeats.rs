//! Relations that cannot be, alone or together with others on the same columns.

use std::collections::HashMap;

use tessera_core::deadline;

use super::restriction::{ClusteringTest, Restrictions, Test};
use crate::error::{Result, refuse};
use crate::schema::{Column, Table};
use crate::statement::{Comparator, Term, quoted};
use crate::types::{DataType, Native};

pub(super) fn check_comparison(
    column: &Column,
    comparator: Comparator,
    value: &Term,
) -> Result<()> {
    let (name, symbol) = (&column.name, comparator.symbol());
    if comparator == Comparator::NotEqual {
        return refuse(format!(
            "Unsupported \"!=\" relation: {} != {value}",
            quoted(name)
        ));
    }
    let is_slice = comparator != Comparator::Equal;
    if is_slice
        && column
            .data_type
            .any(&|inner| *inner == DataType::Native(Native::Duration))
    {
        let on = match &column.data_type {
            DataType::Tuple(_) => "tuples containing durations",
            DataType::User { .. } => "UDTs containing durations",
            DataType::Native(_) => "duration columns",
            _ => "collections containing durations",
        };
        return refuse(format!("Slice restrictions are not supported on {on}"));
    }
    check_multi_cell(column, symbol)
}

pub(super) fn check_multi_cell(column: &Column, symbol: &str) -> Result<()> {
    let (name, data_type) = (&column.name, &column.data_type);
    match data_type {
        _ if !data_type.is_multi_cell() => Ok(()),
        DataType::User { .. } => refuse(format!(
            "Non-frozen UDT column '{name}' ({data_type}) cannot be restricted by any relation"
        )),
        _ => refuse(format!(
            "Collection column '{name}' ({data_type}) cannot be restricted by a '{symbol}' relation"
        )),
    }
}

/// A column is restricted by one `=` or IN, or by one bound at each end.
pub(super) fn check_repeats(table: &Table, restrictions: &Restrictions) -> Result<()> {
    let name = |place: usize| {
        let column = table.columns.get(place);
        column.map_or(String::new(), |column| column.name.clone())
    };
    // One of each kind stands for all: there may be as many as a statement is long.
    let mut seen: HashMap<usize, Vec<&Test>> = HashMap::new();
    for filter in &restrictions.filters {
        deadline::step(1)?;
        let kinds = seen.entry(filter.column).or_default();
        for other in &*kinds {
            check_pair(&name(filter.column), &filter.test, other)?;
        }
        if !kinds.iter().any(|other| kind(other) == kind(&filter.test)) {
            kinds.push(&filter.test);
        }
    }
    let first = table.partition_key().count();
    for (index, step) in restrictions.together.iter().enumerate() {
        let span = first + step.start..first + step.start + step.count;
        let single = restrictions
            .filters
            .iter()
            .find(|filter| span.contains(&filter.column));
        if let Some(single) = single {
            return refuse(beside_tuples(
                &name(single.column),
                &step.test,
                &single.test,
            ));
        }
        for other in restrictions.together.iter().take(index) {
            let overlaps =
                other.start < step.start + step.count && step.start < other.start + other.count;
            let are_slices = matches!(step.test, ClusteringTest::Slice { .. })
                && matches!(other.test, ClusteringTest::Slice { .. });
            let same_end = same_end(&step.test, &other.test);
            if !overlaps {
                continue;
            }
            let column = name(first + step.start.max(other.start));
            if let Some(end) = same_end {
                return refuse(format!(
                    "More than one restriction was found for the {end} bound on {column}"
                ));
            }
            if !are_slices {
                return refuse(format!(
                    "{column} cannot be restricted by more than one relation if it includes an \
                     Equal"
                ));
            }
            if step.start != other.start {
                return refuse(format!(
                    "Column \"{column}\" cannot be restricted by two inequalities not starting \
                     with the same column"
                ));
            }
        }
    }
    Ok(())
}

/// Why a column cannot have a relation of its own beside one of several columns.
fn beside_tuples(name: &str, tuples: &ClusteringTest, single: &Test) -> String {
    match (tuples, single) {
        (ClusteringTest::InTuples(_) | ClusteringTest::InTupleList(..), _)
        | (ClusteringTest::Slice { .. }, Test::In(_)) => {
            format!("{name} cannot be restricted by more than one relation if it includes a IN")
        }
        (ClusteringTest::Slice { .. }, Test::Compare(comparator, _))
            if *comparator != Comparator::Equal =>
        {
            format!(
                "Column \"{name}\" cannot be restricted by two inequalities not starting with the \
                 same column"
            )
        }
        (ClusteringTest::Slice { .. }, _) => format!(
            "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
        ),
        _ => {
            format!("{name} cannot be restricted by more than one relation if it includes an Equal")
        }
    }
}

/// The end that two slices both have, if there is one.
fn same_end(one: &ClusteringTest, other: &ClusteringTest) -> Option<&'static str> {
    let ends = |test: &ClusteringTest| match test {
        ClusteringTest::Slice { lower, upper } => (lower.is_some(), upper.is_some()),
        _ => (false, false),
    };
    match (ends(one), ends(other)) {
        ((true, _), (true, _)) => Some("start"),
        ((_, true), (_, true)) => Some("end"),
        _ => None,
    }
}

/// What [`check_pair`] looks at.
fn kind(test: &Test) -> u8 {
    match test {
        Test::Compare(Comparator::Equal, _) => 0,
        Test::Compare(Comparator::Greater | Comparator::GreaterOrEqual, _) => 1,
        Test::Compare(Comparator::Less | Comparator::LessOrEqual, _) => 2,
        Test::In(_) => 3,
        _ => 4,
    }
}

fn check_pair(name: &str, one: &Test, other: &Test) -> Result<()> {
    let is = |test: &Test, wanted: &[Comparator]| match test {
        Test::Compare(comparator, _) => wanted.contains(comparator),
        _ => false,
    };
    let lower = [Comparator::Greater, Comparator::GreaterOrEqual];
    let upper = [Comparator::Less, Comparator::LessOrEqual];
    if is(one, &[Comparator::Equal]) || is(other, &[Comparator::Equal]) {
        return refuse(format!(
            "{name} cannot be restricted by more than one relation if it includes an Equal"
        ));
    }
    if matches!(one, Test::In(_)) || matches!(other, Test::In(_)) {
        return refuse(format!(
            "{name} cannot be restricted by more than one relation if it includes a IN"
        ));
    }
    for (ends, which) in [(lower, "start"), (upper, "end")] {
        if is(one, &ends) && is(other, &ends) {
            return refuse(format!(
                "More than one restriction was found for the {which} bound on {name}"
            ));
        }
    }
    Ok(())
}
