//! The bounds of a window: a number of documents, or a range of the sorted field.

use bson::{Bson, Document};

use super::function::Partition;
use crate::collation::Collation;
use crate::compare::{compare, type_name};
use crate::error::Result;
use crate::expression::date::{Unit, add_to_date};
use crate::expression::{Context, Expression, ParseContext, fail};
use crate::number::Number;
use crate::pipeline::sort::Sort;

/// Where a window begins or ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound<T> {
    Unbounded,
    Current,
    At(T),
}

/// A window around each document, both ends included.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Documents(Bound<i64>, Bound<i64>),
    Range(Bound<Bson>, Bound<Bson>, Option<Unit>),
}

impl Bounds {
    /// All documents of the partition.
    pub(super) const ALL: Self = Self {
        kind: Kind::Documents(Bound::Unbounded, Bound::Unbounded),
    };

    pub(super) fn parse(value: &Bson, sort: Option<&Sort>, context: &Context) -> Result<Self> {
        let Bson::Document(window) = value else {
            return fail(9, "'window' field must be an object");
        };
        let (documents, range, unit) = (
            window.get("documents"),
            window.get("range"),
            window.get("unit"),
        );
        let count = usize::from(documents.is_some())
            + usize::from(range.is_some())
            + usize::from(unit.is_some());
        if window.len() != count || documents.is_some() && count > 1 {
            return fail(
                9,
                "'window' takes 'documents', or 'range' with an optional 'unit'",
            );
        }
        match (documents, range) {
            (Some(documents), _) => Self::parse_documents(documents, sort, context),
            (None, Some(range)) => Self::parse_range(range, unit, sort, context),
            (None, None) if unit.is_some() => fail(
                9,
                "Window bounds can only specify 'unit' with range-based bounds.",
            ),
            (None, None) => Ok(Self::ALL),
        }
    }

    fn parse_documents(value: &Bson, sort: Option<&Sort>, context: &Context) -> Result<Self> {
        let integer = |value: &Bson| match Number::from_bson(value).and_then(Number::as_i32_exact) {
            Some(count) => Ok(i64::from(count)),
            None => fail(9, "Numeric document-based bounds must be an integer"),
        };
        let (lower, upper) = parse_pair(value, context)?;
        let (lower, upper) = (lower.map(integer)?, upper.map(integer)?);
        let position = |bound: &Bound<i64>, unbounded| match bound {
            Bound::Unbounded => unbounded,
            Bound::Current => 0,
            Bound::At(count) => *count,
        };
        if position(&lower, i64::MIN) > position(&upper, i64::MAX) {
            return fail(5339900, "Lower bound must not exceed upper bound");
        }
        let unbounded = (&lower, &upper) == (&Bound::Unbounded, &Bound::Unbounded);
        if sort.is_none() && !unbounded {
            return fail(5339901, "Document-based bounds require a sortBy");
        }
        Ok(Self {
            kind: Kind::Documents(lower, upper),
        })
    }

    fn parse_range(
        value: &Bson,
        unit: Option<&Bson>,
        sort: Option<&Sort>,
        context: &Context,
    ) -> Result<Self> {
        let unit = match unit {
            None => None,
            Some(Bson::String(unit)) => Some(Unit::parse(unit)?),
            Some(_) => return fail(9, "'unit' must be a string"),
        };
        let (lower, upper) = parse_pair(value, context)?;
        let number = |value: &Bson| match (Number::from_bson(value), unit) {
            (Some(number), Some(_)) if number.as_i32_exact().is_none() => {
                fail(9, "With 'unit', range-based bounds must be an integer")
            }
            (Some(_), _) => Ok(value.clone()),
            (None, _) => fail(9, "Range-based bounds expression must be a number"),
        };
        let (lower, upper) = (lower.map(number)?, upper.map(number)?);
        let position = |bound: &Bound<Bson>| match bound {
            Bound::At(value) => value.clone(),
            _ => Bson::Int32(0),
        };
        let bounded = !matches!(
            (&lower, &upper),
            (Bound::Unbounded, _) | (_, Bound::Unbounded)
        );
        let order = compare(&position(&lower), &position(&upper), &Collation::default());
        if bounded && order.is_gt() {
            return fail(5339900, "Lower bound must not exceed upper bound");
        }
        match sort
            .map(|sort| sort.pattern.iter().collect::<Vec<_>>())
            .as_deref()
        {
            Some([(_, direction)]) => {
                if Number::from_bson(direction).is_some_and(|d| d.compare(Number::Int32(0)).is_lt())
                {
                    return fail(8947401, "Range-based bounds require an ascending sortBy");
                }
            }
            _ => return fail(5339902, "Range-based bounds require sortBy a single field"),
        }
        Ok(Self {
            kind: Kind::Range(lower, upper, unit),
        })
    }

    /// The positions of the window around a position, the end not included.
    pub(super) fn around(&self, at: usize, partition: &Partition<'_>) -> Result<(usize, usize)> {
        let length = partition.documents.len();
        match &self.kind {
            Kind::Documents(lower, upper) => {
                let place = |count: i64| {
                    let at = i64::try_from(at).unwrap_or(i64::MAX);
                    let place = at.saturating_add(count).max(0);
                    usize::try_from(place).unwrap_or(usize::MAX).min(length)
                };
                let start = match lower {
                    Bound::Unbounded => 0,
                    Bound::Current => at,
                    Bound::At(count) => place(*count),
                };
                let end = match upper {
                    Bound::Unbounded => length,
                    Bound::Current => at + 1,
                    Bound::At(count) => place(count.saturating_add(1)),
                };
                Ok((start.min(end), end))
            }
            Kind::Range(lower, upper, unit) => {
                let value = partition.sort_value(at);
                let edge = |bound: &Bound<Bson>| match bound {
                    Bound::Unbounded => Ok(None),
                    Bound::Current => moved(&value, &Bson::Int32(0), *unit).map(Some),
                    Bound::At(amount) => moved(&value, amount, *unit).map(Some),
                };
                let (low, high) = (edge(lower)?, edge(upper)?);
                let simple = Collation::default();
                let is_below = |place: usize, edge: &Bson| {
                    compare(&partition.sort_value(place), edge, &simple).is_lt()
                };
                let is_within = |place: usize, edge: &Bson| {
                    compare(&partition.sort_value(place), edge, &simple).is_le()
                };
                let start = low.map_or(0, |low| {
                    first_without(length, |place| is_below(place, &low))
                });
                let end = high.map_or(length, |high| {
                    first_without(length, |place| is_within(place, &high))
                });
                Ok((start.min(end), end))
            }
        }
    }
}

/// The first of so many places for which something does not hold that holds for all before it.
fn first_without(length: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The sorted value, so much later.
fn moved(value: &Bson, amount: &Bson, unit: Option<Unit>) -> Result<Bson> {
    let found = type_name(value);
    match (value, unit) {
        (Bson::DateTime(date), Some(unit)) => {
            let amount = Number::from_bson(amount)
                .and_then(Number::as_i64_exact)
                .unwrap_or(0);
            let moved = add_to_date(date.timestamp_millis(), unit, amount)?;
            Ok(Bson::DateTime(bson::DateTime::from_millis(moved)))
        }
        (_, Some(_)) => fail(
            5429513,
            format!("Expected the sortBy field to be a Date, not {found}"),
        ),
        (value, None) => match (Number::from_bson(value), Number::from_bson(amount)) {
            (Some(number), Some(amount)) => Ok(number.add(amount).into_bson()),
            _ => fail(
                5429414,
                format!("Expected the sortBy field to be a number, not {found}"),
            ),
        },
    }
}

impl<T> Bound<T> {
    fn map<U>(&self, map: impl Fn(&T) -> Result<U>) -> Result<Bound<U>> {
        Ok(match self {
            Self::Unbounded => Bound::Unbounded,
            Self::Current => Bound::Current,
            Self::At(value) => Bound::At(map(value)?),
        })
    }
}

fn parse_pair(value: &Bson, context: &Context) -> Result<(Bound<Bson>, Bound<Bson>)> {
    let pair = value.as_array().map(Vec::as_slice);
    let Some([lower, upper]) = pair else {
        return fail(9, "Window bounds must be a 2-element array");
    };
    Ok((parse_bound(lower, context)?, parse_bound(upper, context)?))
}

fn parse_bound(value: &Bson, context: &Context) -> Result<Bound<Bson>> {
    if let Bson::String(name) = value
        && !name.starts_with('$')
    {
        return match name.as_str() {
            "unbounded" => Ok(Bound::Unbounded),
            "current" => Ok(Bound::Current),
            _ => fail(
                9,
                "Window bounds must be 'unbounded', 'current', or a number.",
            ),
        };
    }
    let expression = Expression::parse(value, &ParseContext::from(context))?;
    if expression.reads_document() {
        return fail(9, "Window bounds expression must be a constant.");
    }
    let value = expression.evaluate(&Document::new(), &context.variables)?;
    Ok(Bound::At(value.unwrap_or(Bson::Null)))
}
