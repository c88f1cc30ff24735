//! Keys: partitions by Cassandra's own serialisation, rows by bytes that sort as their clustering
//! columns do.
//!
//! The row key of an item is one byte 0 for what belongs to the whole partition, or one byte 1 and
//! the encoded clustering columns.

use std::borrow::Cow;

use bytes::Bytes;
use tessera_core::engine::prefix_successor;

use super::evaluate::Scope;
use crate::error::{CqlError, Result};
use crate::plan::{Bound, Choice, ClusteringStep, ClusteringTest, Expression, Tuple};
use crate::row::KeyRange;
use crate::schema::{Column, ColumnKind, Table};
use crate::statement::Direction;
use crate::types::{
    DataType, compare, list_elements, put_ascending, put_descending, tuple_components,
};

/// The row key of what belongs to a partition and none of its rows.
pub(super) const RECORD_KEY: &[u8] = &[0];
/// What the row keys of rows begin with.
pub(super) const ROW_MARK: u8 = 1;
/// Behind all row keys.
pub(super) const BEHIND_ROWS: &[u8] = &[2];
/// The longest partition key, and the longest values of clustering columns together.
const KEY_LIMIT: usize = 65_535;
/// The most combinations that IN may ask for.
const MOST_KEYS: usize = 100_000;

/// The partition key of these components: one is itself, several each have their length before and
/// a zero behind.
pub(super) fn partition_key<T: AsRef<[u8]>>(components: &[T]) -> Vec<u8> {
    if let [only] = components {
        return only.as_ref().to_vec();
    }
    let mut key = Vec::new();
    for component in components {
        let component = component.as_ref();
        let length = u16::try_from(component.len()).unwrap_or(u16::MAX);
        key.extend_from_slice(&length.to_be_bytes());
        key.extend_from_slice(component);
        key.push(0);
    }
    key
}

/// The components of a partition key.
pub(super) fn key_components(key: &[u8], count: usize) -> Vec<&[u8]> {
    if count == 1 {
        return vec![key];
    }
    let mut components = Vec::with_capacity(count);
    let mut rest = key;
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((component, after)) = after.split_at_checked(length) else {
            break;
        };
        components.push(component);
        rest = after.get(1..).unwrap_or_default();
    }
    components
}

/// Refuses partition keys that Cassandra refuses.
pub(super) fn check_key<T: AsRef<[u8]>>(components: &[T]) -> Result<Bytes> {
    let key = partition_key(components);
    let longest = components
        .iter()
        .map(|component| component.as_ref().len())
        .max();
    if key.is_empty() {
        return Err(CqlError::invalid("Key may not be empty"));
    }
    if key.len() > KEY_LIMIT || longest > Some(KEY_LIMIT) {
        return Err(CqlError::invalid(format!(
            "Key length of {} is longer than maximum of {KEY_LIMIT}",
            key.len()
        )));
    }
    Ok(key.into())
}

/// Refuses clustering keys that Cassandra refuses.
pub(super) fn check_clustering<T: AsRef<[u8]>>(values: &[T]) -> Result<()> {
    let length: usize = values.iter().map(|value| value.as_ref().len()).sum();
    if length <= KEY_LIMIT {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "Key length of {length} is longer than maximum of {KEY_LIMIT}"
    )))
}

/// Appends the value of a clustering column in its direction.
pub(super) fn put_clustering(out: &mut Vec<u8>, column: &Column, value: &[u8]) {
    match column.kind {
        ColumnKind::Clustering(Direction::Descending) => {
            put_descending(out, &column.data_type, value);
        }
        _ => put_ascending(out, &column.data_type, value),
    }
}

/// The row key of an encoded clustering key.
pub(super) fn row_key(clustering: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(1 + clustering.len());
    key.push(ROW_MARK);
    key.extend_from_slice(clustering);
    key.into()
}

/// Everything that begins with these bytes.
pub(super) fn starting_with(prefix: Vec<u8>) -> KeyRange {
    let end = prefix_successor(&prefix).map(|end| end.to_vec());
    KeyRange { start: prefix, end }
}

fn no_value(name: &str, is_unset: bool) -> CqlError {
    CqlError::invalid(if is_unset {
        format!("Invalid unset value for column {name}")
    } else {
        format!("Invalid null value in condition for column {name}")
    })
}

impl<'a> Scope<'a> {
    /// A value for a column that must have one.
    pub(super) fn required(&self, what: &'a Expression, name: &str) -> Result<Cow<'a, [u8]>> {
        if self.is_unset(what) {
            return Err(no_value(name, true));
        }
        self.evaluate(what)?.ok_or_else(|| no_value(name, false))
    }

    /// Refuses null and unset where rows are asked for a value.
    pub(super) fn must_be_given(&self, value: &Expression, what: &str, name: &str) -> Result<()> {
        let missing = match value {
            _ if self.is_unset(value) => "unset",
            Expression::Null => "null",
            Expression::Marker(index) if self.is_null(*index) => "null",
            _ => return Ok(()),
        };
        Err(CqlError::invalid(format!(
            "Unsupported {missing} {what} for column {name}"
        )))
    }

    /// The values that a choice leaves, sorted and each once.
    pub(super) fn chosen(&self, choice: &'a Choice, column: &Column) -> Result<Vec<Cow<'a, [u8]>>> {
        let name = &column.name;
        let mut values = match choice {
            Choice::One(value) => return Ok(vec![self.required(value, name)?]),
            Choice::Many(values) => {
                let required = values.iter().map(|value| self.required(value, name));
                required.collect::<Result<Vec<_>>>()?
            }
            Choice::List(list) => {
                let list = self.required(list, &format!("in({name})"))?;
                owned_elements(&list)?
            }
        };
        values.sort_by(|left, right| compare(&column.data_type, left, right));
        values.dedup_by(|left, right| compare(&column.data_type, left, right).is_eq());
        Ok(values)
    }

    /// The partition keys of these choices, in the order of their values.
    pub(super) fn partition_keys(
        &self,
        table: &Table,
        choices: &'a [Choice],
    ) -> Result<Vec<Bytes>> {
        let mut all: Vec<Vec<Cow<'a, [u8]>>> = vec![Vec::with_capacity(choices.len())];
        for (choice, column) in choices.iter().zip(table.partition_key()) {
            let values = self.chosen(choice, column)?;
            all = combined(&all, &values)?;
        }
        all.iter().map(|components| check_key(components)).collect()
    }

    /// The ranges of encoded clustering keys that steps leave: sorted, and none overlaps another.
    pub(super) fn ranges(
        &self,
        table: &Table,
        steps: &'a [ClusteringStep],
    ) -> Result<Vec<KeyRange>> {
        let columns: Vec<&Column> = table.clustering().collect();
        let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
        let mut slices: Option<Vec<KeyRange>> = None;
        for step in steps {
            let here = columns
                .get(step.start..step.start + step.count)
                .unwrap_or_default();
            if let ClusteringTest::Slice { lower, upper } = &step.test {
                let sliced = self.slice_ranges(&prefixes, here, lower.as_ref(), upper.as_ref())?;
                slices = Some(match slices {
                    None => sliced,
                    Some(before) => intersection(&before, &sliced),
                });
                continue;
            }
            let tuples = self.tuples(&step.test, here)?;
            let mut longer = Vec::with_capacity(combinations(prefixes.len(), tuples.len())?);
            for prefix in &prefixes {
                for tuple in &tuples {
                    let mut key = prefix.clone();
                    for (value, column) in tuple.iter().zip(here) {
                        put_clustering(&mut key, column, value);
                    }
                    longer.push(key);
                }
            }
            prefixes = longer;
        }
        let mut ranges =
            slices.unwrap_or_else(|| prefixes.into_iter().map(starting_with).collect());
        ranges.sort_by(|left, right| left.start.cmp(&right.start));
        ranges.dedup();
        Ok(ranges)
    }

    /// The values of several columns that a test allows.
    pub(super) fn tuples(
        &self,
        test: &'a ClusteringTest,
        columns: &[&Column],
    ) -> Result<Vec<Vec<Cow<'a, [u8]>>>> {
        match test {
            ClusteringTest::Equal(choice) => match columns {
                [column] => {
                    let values = self.chosen(choice, column)?;
                    Ok(values.into_iter().map(|value| vec![value]).collect())
                }
                _ => Ok(Vec::new()),
            },
            ClusteringTest::EqualTuple(tuple) => Ok(vec![self.tuple(tuple, columns)?]),
            ClusteringTest::InTuples(tuples) => tuples
                .iter()
                .map(|tuple| self.tuple(tuple, columns))
                .collect(),
            ClusteringTest::InTupleList(list, data_type) => {
                let list = self.required(list, "in")?;
                let mut tuples = Vec::new();
                for bytes in list_elements(&list, "list")? {
                    tuples.push(whole_tuple(bytes, data_type, columns)?);
                }
                Ok(tuples)
            }
            ClusteringTest::Slice { .. } => Ok(Vec::new()),
        }
    }

    pub(super) fn tuple(
        &self,
        tuple: &'a Tuple,
        columns: &[&Column],
    ) -> Result<Vec<Cow<'a, [u8]>>> {
        match tuple {
            Tuple::Each(values) => values
                .iter()
                .zip(columns)
                .map(|(value, column)| self.required(value, &column.name))
                .collect(),
            Tuple::Whole(value, data_type) => {
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                let bytes = self.required(value, &format!("({})", names.join(",")))?;
                whole_tuple(&bytes, data_type, columns)
            }
        }
    }

    fn slice_ranges(
        &self,
        prefixes: &[Vec<u8>],
        columns: &[&Column],
        lower: Option<&'a Bound>,
        upper: Option<&'a Bound>,
    ) -> Result<Vec<KeyRange>> {
        let mut ranges = Vec::new();
        for prefix in prefixes {
            let mut here = vec![starting_with(prefix.clone())];
            for (bound, is_lower) in [(lower, true), (upper, false)] {
                let Some(bound) = bound else {
                    continue;
                };
                let values = self.tuple(&bound.values, columns)?;
                let sliced = beyond(prefix, columns, &values, is_lower, bound.is_inclusive);
                here = intersection(&here, &sliced);
            }
            ranges.append(&mut here);
        }
        Ok(ranges)
    }
}

/// The keys with this prefix whose next columns together lie beyond these values. Where directions
/// differ, that is one range for each number of equal columns.
fn beyond(
    prefix: &[u8],
    columns: &[&Column],
    values: &[Cow<'_, [u8]>],
    is_lower: bool,
    is_inclusive: bool,
) -> Vec<KeyRange> {
    let mut ranges = Vec::new();
    let mut equal = prefix.to_vec();
    for (column, value) in columns.iter().zip(values) {
        let whole = starting_with(equal.clone());
        let is_descending = column.kind == ColumnKind::Clustering(Direction::Descending);
        put_clustering(&mut equal, column, value);
        let same = starting_with(equal.clone());
        ranges.push(if is_lower == is_descending {
            KeyRange {
                start: whole.start,
                end: Some(same.start),
            }
        } else {
            match same.end {
                Some(start) => KeyRange {
                    start,
                    end: whole.end,
                },
                None => continue,
            }
        });
    }
    if is_inclusive {
        ranges.push(starting_with(equal));
    }
    ranges.sort_by(|left, right| left.start.cmp(&right.start));
    joined(ranges)
}

/// Ranges that touch become one.
fn joined(ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    let mut out: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        if range.end.as_ref() == Some(&range.start) {
            continue;
        }
        match out.last_mut() {
            Some(last) if last.end.as_ref() == Some(&range.start) => last.end = range.end,
            _ => out.push(range),
        }
    }
    out
}

/// What both lists have in common.
fn intersection(left: &[KeyRange], right: &[KeyRange]) -> Vec<KeyRange> {
    let mut out = Vec::new();
    for one in left {
        for other in right {
            let start = one.start.clone().max(other.start.clone());
            let end = match (&one.end, &other.end) {
                (Some(one), Some(other)) => Some(one.min(other).clone()),
                (end, None) | (None, end) => end.clone(),
            };
            if end.as_ref().is_none_or(|end| start < *end) {
                out.push(KeyRange { start, end });
            }
        }
    }
    out
}

/// How many combinations two restrictions leave, refused if they are more than anybody may ask for.
/// The limit is on what a statement looks at in all: rows or ranges in each of its partitions.
pub(super) fn combinations(left: usize, right: usize) -> Result<usize> {
    match left.checked_mul(right) {
        Some(count @ ..=MOST_KEYS) => Ok(count),
        _ => Err(CqlError::invalid(format!(
            "The IN restrictions of this statement combine to more than {MOST_KEYS} keys"
        ))),
    }
}

fn combined<'a>(
    all: &[Vec<Cow<'a, [u8]>>],
    values: &[Cow<'a, [u8]>],
) -> Result<Vec<Vec<Cow<'a, [u8]>>>> {
    let mut longer = Vec::with_capacity(combinations(all.len(), values.len())?);
    for before in all {
        for value in values {
            let mut tuple = before.clone();
            tuple.push(value.clone());
            longer.push(tuple);
        }
    }
    Ok(longer)
}

fn owned_elements<'a>(list: &[u8]) -> Result<Vec<Cow<'a, [u8]>>> {
    let elements = list_elements(list, "list")?;
    Ok(elements
        .into_iter()
        .map(|element| Cow::Owned(element.to_vec()))
        .collect())
}

fn whole_tuple<'a>(
    bytes: &[u8],
    data_type: &DataType,
    columns: &[&Column],
) -> Result<Vec<Cow<'a, [u8]>>> {
    let components = tuple_components(bytes, data_type)?;
    let value = |(index, column): (usize, &&Column)| {
        let component = components.get(index).copied().flatten();
        let component = component.ok_or_else(|| {
            CqlError::invalid(format!(
                "Invalid null value in condition for column {}",
                column.name
            ))
        })?;
        Ok(Cow::Owned(component.to_vec()))
    };
    columns.iter().enumerate().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composite_keys_come_apart_again() {
        let key = partition_key(&[&b"a"[..], &[0, 0, 0, 1]]);
        assert_eq!(key, [0, 1, b'a', 0, 0, 4, 0, 0, 0, 1, 0]);
        assert_eq!(key_components(&key, 2), [&b"a"[..], &[0, 0, 0, 1]]);
        assert_eq!(partition_key(&[b"single"]), b"single");
        assert_eq!(key_components(b"single", 1), [b"single"]);
        assert!(check_key(&[b""]).is_err());
        assert!(check_key(&[vec![7; 65_536]]).is_err());
    }

    #[test]
    fn ranges_are_cut_and_joined() {
        let range = |start: u8, end: Option<u8>| KeyRange {
            start: vec![start],
            end: end.map(|end| vec![end]),
        };
        let common = intersection(
            &[range(1, Some(5)), range(7, None)],
            &[range(3, Some(8)), range(9, None)],
        );
        assert_eq!(
            common,
            [range(3, Some(5)), range(7, Some(8)), range(9, None)]
        );
        let touching = vec![range(1, Some(3)), range(3, Some(4)), range(5, None)];
        assert_eq!(joined(touching), [range(1, Some(4)), range(5, None)]);
    }
}
