//! `$push` with `$each`, `$position`, `$sort` and `$slice`.

use std::{cmp::Ordering, sync::Arc};

use bson::{Bson, Document};
use tessera_core::deadline;

use super::modifier::{At, Change, Modifier};
use crate::{
    collation::Collation,
    compare::{compare, type_name},
    error::{Result, bad_value},
    expression::variables::Context,
    number::Number,
    path::Path,
};

pub(super) fn push(operand: &Bson, context: &Context) -> Result<Arc<dyn Modifier>> {
    let push = match operand {
        Bson::Document(clauses) if clauses.contains_key("$each") => Push::parse(clauses, context)?,
        value => Push {
            values: vec![value.clone()],
            ..Push::default()
        },
    };
    Ok(Arc::new(push))
}

/// Inserts values, then sorts, then cuts.
#[derive(Debug, Default)]
struct Push {
    values: Vec<Bson>,
    /// Counted from the end if negative; none is the end.
    position: Option<i64>,
    sort: Option<Sort>,
    /// How many elements stay: the first, or the last if negative.
    slice: Option<i64>,
}

impl Push {
    fn parse(clauses: &Document, context: &Context) -> Result<Self> {
        let mut push = Self::default();
        for (name, value) in clauses {
            match name.as_str() {
                "$each" => push.values = each(value)?,
                "$position" => push.position = Some(integer(name, value)?),
                "$slice" => push.slice = Some(integer(name, value)?),
                "$sort" => push.sort = Some(Sort::parse(value, context)?),
                _ => {
                    let message = format!("Unrecognized clause in $push: {name}");
                    return Err(bad_value(message));
                }
            }
        }
        Ok(push)
    }

    fn apply(&self, elements: &mut Vec<Bson>) -> Result<Change> {
        let mut change = Change::None;
        if !self.values.is_empty() {
            let length = elements.len();
            let position = self.index(length);
            elements.splice(position..position, self.values.iter().cloned());
            let appended = position == length && self.sort.is_none() && self.slice.is_none();
            change = if appended {
                Change::Appended(length)
            } else {
                Change::Changed
            };
        }
        if let Some(sort) = &self.sort {
            deadline::sort_by(elements, |a, b| sort.compare(a, b))?;
            change = Change::Changed;
        }
        if let Some(slice) = self.slice {
            let kept = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
            if elements.len() > kept {
                let excess = elements.len() - kept;
                if slice >= 0 {
                    elements.truncate(kept);
                } else {
                    elements.drain(..excess);
                }
                change = Change::Changed;
            }
        }
        Ok(change)
    }

    /// Where to insert into an array of that length.
    fn index(&self, length: usize) -> usize {
        let Some(position) = self.position else {
            return length;
        };
        let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
        if position >= 0 {
            distance.min(length)
        } else {
            length.saturating_sub(distance)
        }
    }
}

impl Modifier for Push {
    fn change(&self, value: &mut Bson, place: At<'_>) -> Result<Change> {
        let Bson::Array(elements) = value else {
            return Err(bad_value(format!(
                "The field '{place}' must be an array but is of type {}",
                type_name(value)
            )));
        };
        self.apply(elements)
    }

    fn create(&self) -> Result<Option<Bson>> {
        let mut elements = Vec::new();
        self.apply(&mut elements)?;
        Ok(Some(Bson::Array(elements)))
    }
}

fn each(value: &Bson) -> Result<Vec<Bson>> {
    match value {
        Bson::Array(values) => Ok(values.clone()),
        other => Err(bad_value(format!(
            "The argument to $each in $push must be an array but it was of type: {}",
            type_name(other)
        ))),
    }
}

fn integer(name: &str, value: &Bson) -> Result<i64> {
    Number::from_bson(value)
        .and_then(Number::as_i64_exact)
        .ok_or_else(|| {
            bad_value(format!(
                "The value for {name} must be an integer value but was given type: {}",
                type_name(value)
            ))
        })
}

/// The order of an array's elements: by themselves, or by fields of theirs.
#[derive(Debug)]
struct Sort {
    keys: Vec<(Path, bool)>,
    collation: Collation,
}

impl Sort {
    fn parse(value: &Bson, context: &Context) -> Result<Self> {
        let keys = match value {
            Bson::Document(fields) if fields.is_empty() => {
                return Err(bad_value(
                    "The sort pattern is empty when it should be a set of fields.",
                ));
            }
            Bson::Document(fields) => fields
                .iter()
                .map(|(name, direction)| Ok((sort_path(name)?, is_descending(direction)?)))
                .collect::<Result<_>>()?,
            direction if Number::from_bson(direction).is_some() => {
                vec![(Path::itself(), is_descending(direction)?)]
            }
            _ => {
                return Err(bad_value(
                    "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to \
                     sort embedded fields",
                ));
            }
        };
        Ok(Self {
            keys,
            collation: context.collation.clone(),
        })
    }

    fn compare(&self, a: &Bson, b: &Bson) -> Ordering {
        self.keys
            .iter()
            .fold(Ordering::Equal, |order, (path, descending)| {
                order.then_with(|| {
                    let by_key = compare(key(path, a), key(path, b), &self.collation);
                    if *descending {
                        by_key.reverse()
                    } else {
                        by_key
                    }
                })
            })
    }
}

/// What an element is sorted by: what is missing counts as null.
fn key<'a>(path: &Path, element: &'a Bson) -> &'a Bson {
    if path.components().is_empty() {
        return element;
    }
    match element {
        Bson::Document(document) => path.get(document).unwrap_or(&Bson::Null),
        _ => &Bson::Null,
    }
}

fn sort_path(name: &str) -> Result<Path> {
    if name.split('.').any(str::is_empty) {
        return Err(bad_value(format!(
            "The sort field cannot have an empty part: '{name}'"
        )));
    }
    Ok(Path::parse(name))
}

fn is_descending(direction: &Bson) -> Result<bool> {
    match Number::from_bson(direction).and_then(Number::as_i64_exact) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => Err(bad_value("The sort element value must be either 1 or -1")),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson, doc};

    use crate::update::tests::{MISSING, check_field, refuse_field, run};

    #[test]
    fn values_are_inserted() {
        let at = |position: i64| bson!({ "$each": [8, 9], "$position": position });
        let rows = [
            (bson!([1]), bson!(2), bson!([1, 2])),
            (bson!([1]), bson!([2]), bson!([1, [2]])),
            (MISSING, bson!(1), bson!([1])),
            (bson!([]), bson!({ "$slice": 1 }), bson!([{ "$slice": 1 }])),
            (bson!([1]), bson!({ "$each": [2, 3] }), bson!([1, 2, 3])),
            (bson!([1]), bson!({ "$each": [] }), bson!([1])),
            (MISSING, bson!({ "$each": [] }), bson!([])),
            (bson!([1, 2]), at(0), bson!([8, 9, 1, 2])),
            (bson!([1, 2]), at(1), bson!([1, 8, 9, 2])),
            (bson!([1, 2]), at(9), bson!([1, 2, 8, 9])),
            (bson!([1, 2]), at(-1), bson!([1, 8, 9, 2])),
            (bson!([1, 2]), at(-9), bson!([8, 9, 1, 2])),
            (bson!([1, 2]), at(i64::MIN), bson!([8, 9, 1, 2])),
            (MISSING, at(5), bson!([8, 9])),
        ];
        check_field("$push", rows);
    }

    #[test]
    fn arrays_are_sorted_then_cut() {
        let sort = |order: Bson| bson!({ "$each": [2], "$sort": order });
        let slice = |slice: f64| bson!({ "$each": [3], "$slice": slice });
        let rows = [
            (bson!([3, 1]), sort(bson!(1)), bson!([1, 2, 3])),
            (bson!([3, 1]), sort(bson!(-1.0)), bson!([3, 2, 1])),
            (
                bson!([{ "x": 2, "y": 1 }, { "x": 1 }, { "x": 2, "y": 0 }]),
                sort(bson!({ "x": 1, "y": 1 })),
                bson!([2, { "x": 1 }, { "x": 2, "y": 0 }, { "x": 2, "y": 1 }]),
            ),
            (bson!([1, 2]), slice(1.0), bson!([1])),
            (bson!([1, 2]), slice(-2.0), bson!([2, 3])),
            (bson!([1, 2]), slice(9.0), bson!([1, 2, 3])),
            (bson!([1, 2]), slice(0.0), bson!([])),
            (
                MISSING,
                bson!({ "$each": [2, 1], "$sort": 1, "$slice": 1 }),
                bson!([1]),
            ),
        ];
        check_field("$push", rows);
        // What comes of it may be the same array; it is a modification nevertheless.
        for clauses in [slice(2.0), bson!({ "$each": [], "$sort": 1 })] {
            let before = doc! { "a": [1, 2] };
            let applied = run(&before, doc! { "$push": { "a": clauses } }).unwrap();
            assert!(applied.modified);
            assert_eq!(applied.document, before);
        }
    }

    #[test]
    fn wrong_clauses_are_refused() {
        let refused = [
            (bson!(1), bson!(1), 2),
            (Bson::Null, bson!(1), 2),
            (bson!([]), bson!({ "$each": 1 }), 2),
        ];
        refuse_field("$push", refused);
        let clauses = [
            ("$xxx", bson!(1)),
            ("$position", bson!(1.5)),
            ("$position", bson!("1")),
            ("$slice", bson!(f64::NAN)),
            ("$slice", bson!(f64::INFINITY)),
            ("$sort", bson!(2)),
            ("$sort", bson!("x")),
            ("$sort", bson!({})),
            ("$sort", bson!({ "x.": 1 })),
            ("$sort", bson!({ "": 1 })),
            ("$sort", bson!({ "x": 0 })),
            ("$sort", bson!({ "x": "asc" })),
        ];
        refuse_field(
            "$push",
            clauses.map(|(name, value)| (bson!([]), bson!({ "$each": [], name: value }), 2)),
        );
    }
}
