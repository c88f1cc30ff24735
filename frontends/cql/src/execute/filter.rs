//! What is asked of each row that was found.

use std::cmp::Ordering;

use super::evaluate::Scope;
use crate::error::Result;
use crate::plan::{Bound, ClusteringStep, ClusteringTest, Expression, Filter, Test};
use crate::schema::{Column, Table};
use crate::statement::{Comparator, IndexTargetKind};
use crate::types::{Analysis, DataType, compare, list_elements, map_entries};

/// Whether an order is what a comparator asks for.
pub(super) fn is_so(comparator: Comparator, order: Ordering) -> bool {
    match comparator {
        Comparator::Equal => order.is_eq(),
        Comparator::NotEqual => order.is_ne(),
        Comparator::Less => order.is_lt(),
        Comparator::LessOrEqual => order.is_le(),
        Comparator::Greater => order.is_gt(),
        Comparator::GreaterOrEqual => order.is_ge(),
    }
}

/// Whether a collection has this element, or this value of a map.
pub(super) fn contains(data_type: &DataType, whole: &[u8], wanted: &[u8]) -> Result<bool> {
    Ok(match data_type {
        DataType::Map { value, .. } => map_entries(whole)?
            .iter()
            .any(|(_, bytes)| compare(value, bytes, wanted).is_eq()),
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            list_elements(whole, "list")?
                .iter()
                .any(|bytes| compare(element, bytes, wanted).is_eq())
        }
        _ => false,
    })
}

/// The value of this key of a map.
pub(super) fn entry<'w>(
    data_type: &DataType,
    whole: &'w [u8],
    wanted: &[u8],
) -> Result<Option<&'w [u8]>> {
    let DataType::Map { key, .. } = data_type else {
        return Ok(None);
    };
    let entries = map_entries(whole)?;
    let found = entries
        .into_iter()
        .find(|(bytes, _)| compare(key, bytes, wanted).is_eq());
    Ok(found.map(|(_, value)| value))
}

/// What an index of the column makes of texts, and of which one, if a test is one that it answers:
/// the answer is then the same whether the index is used or not.
fn analyzed<'f>(table: &Table, column: &str, test: &'f Test) -> Option<(Analysis, &'f Expression)> {
    if table.indexes.is_empty() {
        return None;
    }
    let (kind, wanted) = match test {
        Test::Compare(Comparator::Equal, wanted) => (IndexTargetKind::Simple, wanted),
        Test::Contains(wanted) => (IndexTargetKind::Values, wanted),
        Test::ContainsKey(wanted) => (IndexTargetKind::Keys, wanted),
        Test::Compare(..) | Test::In(_) | Test::Entry(..) | Test::Together(_) => return None,
    };
    Some((table.analysis(column, kind)?, wanted))
}

/// The texts of a value that a test is about.
fn parts<'w>(data_type: &DataType, test: &Test, whole: &'w [u8]) -> Result<Vec<&'w [u8]>> {
    let is_key = matches!(test, Test::ContainsKey(_));
    match data_type {
        DataType::Map { .. } => {
            let entries = map_entries(whole)?.into_iter();
            let part = |(key, value)| if is_key { key } else { value };
            Ok(entries.map(part).collect())
        }
        DataType::List { .. } | DataType::Set { .. } => list_elements(whole, "list"),
        DataType::Native(_)
        | DataType::Tuple(_)
        | DataType::Vector { .. }
        | DataType::User { .. } => Ok(vec![whole]),
    }
}

impl<'a> Scope<'a> {
    /// Whether the row passes all filters.
    pub(super) fn passes(&self, table: &Table, filters: &'a [Filter]) -> Result<bool> {
        for filter in filters {
            if !self.passes_one(table, filter)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn passes_one(&self, table: &Table, filter: &'a Filter) -> Result<bool> {
        let Some(column) = table.columns.get(filter.column) else {
            return Ok(false);
        };
        if let Test::Together(step) = &filter.test {
            return self.passes_together(table, step);
        }
        let (name, data_type) = (&column.name, &column.data_type);
        let value = self
            .line
            .and_then(|line| line.values.get(filter.column)?.as_deref());
        if let Some((analysis, wanted)) = analyzed(table, name, &filter.test) {
            let wanted = self.required(wanted, name)?;
            let wanted = analysis.apply(&wanted);
            let parts = match value {
                Some(value) => parts(data_type, &filter.test, value)?,
                None => Vec::new(),
            };
            return Ok(parts.into_iter().any(|part| analysis.apply(part) == wanted));
        }
        Ok(match &filter.test {
            Test::Compare(comparator, wanted) => {
                let wanted = self.required(wanted, name)?;
                value.is_some_and(|value| is_so(*comparator, compare(data_type, value, &wanted)))
            }
            Test::In(choice) => {
                let chosen = self.chosen(choice, column)?;
                value.is_some_and(|value| {
                    chosen
                        .iter()
                        .any(|wanted| compare(data_type, value, wanted).is_eq())
                })
            }
            Test::Contains(wanted) => {
                let wanted = self.required(wanted, name)?;
                match value {
                    Some(value) => contains(data_type, value, &wanted)?,
                    None => false,
                }
            }
            Test::ContainsKey(wanted) => {
                let wanted = self.required(wanted, name)?;
                match value {
                    Some(value) => entry(data_type, value, &wanted)?.is_some(),
                    None => false,
                }
            }
            Test::Entry(key, comparator, wanted) => {
                let (key, wanted) = (self.required(key, name)?, self.required(wanted, name)?);
                let DataType::Map { value: values, .. } = data_type else {
                    return Ok(false);
                };
                let found = match value {
                    Some(value) => entry(data_type, value, &key)?,
                    None => None,
                };
                found.is_some_and(|found| is_so(*comparator, compare(values, found, &wanted)))
            }
            Test::Together(_) => false,
        })
    }

    fn passes_together(&self, table: &Table, step: &'a ClusteringStep) -> Result<bool> {
        let first = table.partition_key().count() + step.start;
        let columns: Vec<&Column> = table.columns.iter().skip(first).take(step.count).collect();
        let values: Option<Vec<&[u8]>> = self.line.and_then(|line| {
            let values = line.values.iter().skip(first).take(step.count);
            values.map(|value| value.as_deref()).collect()
        });
        let Some(values) = values else {
            return Ok(false);
        };
        let order = |wanted: &[std::borrow::Cow<'_, [u8]>]| {
            let pairs = values.iter().zip(wanted).zip(&columns);
            let mut orders =
                pairs.map(|((value, wanted), column)| compare(&column.data_type, value, wanted));
            orders
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        };
        if let ClusteringTest::Slice { lower, upper } = &step.test {
            let beyond = |bound: &'a Option<Bound>, is_lower: bool| -> Result<bool> {
                let Some(bound) = bound else {
                    return Ok(true);
                };
                let order = order(&self.tuple(&bound.values, &columns)?);
                Ok(match (is_lower, bound.is_inclusive) {
                    (true, true) => order.is_ge(),
                    (true, false) => order.is_gt(),
                    (false, true) => order.is_le(),
                    (false, false) => order.is_lt(),
                })
            };
            return Ok(beyond(lower, true)? && beyond(upper, false)?);
        }
        let tuples = self.tuples(&step.test, &columns)?;
        Ok(tuples.iter().any(|tuple| order(tuple).is_eq()))
    }
}
