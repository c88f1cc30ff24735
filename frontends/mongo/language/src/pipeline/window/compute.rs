//! How the functions of windows are computed.

use bson::{Bson, Document};
use tessera_core::deadline::{self, Held};

use super::bounds::Bounds;
use crate::error::Result;
use crate::expression::accumulator::{Accumulate, Accumulator};
use crate::expression::date::Unit;
use crate::expression::{Expression, fail};
use crate::number::Number;
use crate::size::footprint;

use super::function::Partition;

pub(super) fn accumulate(
    accumulator: &Accumulator,
    bounds: &Bounds,
    partition: &Partition<'_>,
) -> Result<Vec<Bson>> {
    let variables = partition.variables;
    let start = || accumulator.start(&Document::new(), variables);
    let argument = |document: &&Document| accumulator.argument(document, variables);
    let arguments: Vec<Option<Bson>> = partition
        .documents
        .iter()
        .map(argument)
        .collect::<Result<_>>()?;
    let mut state: Box<dyn Accumulate> = start()?;
    let mut taken = (0, 0);
    let mut held = Held::new();
    let mut values = Vec::with_capacity(partition.documents.len());
    for at in 0..partition.documents.len() {
        let (low, high) = bounds.around(at, partition)?;
        // A window that only grows goes on with what it has.
        let gone = arguments.get(taken.0..low).unwrap_or_default();
        let slides = low < taken.1 && high >= taken.1 && state.remove_first(gone)?;
        if !slides && (low != taken.0 || high < taken.1) {
            state = start()?;
            taken = (low, low);
        }
        for value in arguments.get(taken.1..high).unwrap_or_default() {
            deadline::step(1)?;
            state.add(value.clone())?;
        }
        taken = (low, high);
        // The values of all windows are there before the first is passed on.
        let value = state.value();
        held.add(footprint(&value))?;
        values.push(value);
    }
    Ok(values)
}

pub(super) fn ranks(partition: &Partition<'_>, dense: bool) -> Vec<Bson> {
    let (mut rank, mut previous) = (0, None);
    let mut ranks = Vec::with_capacity(partition.orders.len());
    for (position, order) in (1..).zip(partition.orders.iter().copied()) {
        if previous != Some(order) {
            rank = if dense { rank + 1 } else { position };
            previous = Some(order);
        }
        ranks.push(Bson::Int32(rank));
    }
    ranks
}

pub(super) fn shift(
    output: &Expression,
    by: i64,
    default: &Bson,
    partition: &Partition<'_>,
) -> Result<Vec<Bson>> {
    let values = partition.evaluate(output)?;
    let at = |position: usize| {
        let source = i64::try_from(position).ok()?.checked_add(by)?;
        values.get(usize::try_from(source).ok()?)
    };
    let shifted = (0..values.len()).map(|position| match at(position) {
        Some(value) => value.clone().unwrap_or(Bson::Null),
        None => default.clone(),
    });
    Ok(shifted.collect())
}

/// The numbers of an expression; what is no number has none.
fn numbers(input: &Expression, partition: &Partition<'_>) -> Result<Vec<Option<Number>>> {
    let values = partition.evaluate(input)?.into_iter();
    Ok(values
        .map(|value| value.as_ref().and_then(Number::from_bson))
        .collect())
}

pub(super) fn derivative(
    input: &Expression,
    unit: Option<Unit>,
    bounds: &Bounds,
    partition: &Partition<'_>,
) -> Result<Vec<Bson>> {
    let inputs = numbers(input, partition)?;
    let mut values = Vec::with_capacity(inputs.len());
    for at in 0..inputs.len() {
        let (low, high) = bounds.around(at, partition)?;
        if high < low + 2 {
            values.push(Bson::Null);
            continue;
        }
        let last = high - 1;
        let ends = inputs
            .get(low)
            .copied()
            .flatten()
            .zip(inputs.get(last).copied().flatten());
        let Some((first_input, last_input)) = ends else {
            return fail(5624900, "$derivative's input must be numeric");
        };
        let run = partition
            .sort_number(last, unit)?
            .subtract(partition.sort_number(low, unit)?);
        let rise = last_input.subtract(first_input);
        values.push(rise.divide(run).map_or(Bson::Null, Number::into_bson));
    }
    Ok(values)
}

pub(super) fn integral(
    input: &Expression,
    unit: Option<Unit>,
    bounds: &Bounds,
    partition: &Partition<'_>,
) -> Result<Vec<Bson>> {
    let inputs = numbers(input, partition)?;
    let mut values = Vec::with_capacity(inputs.len());
    for at in 0..inputs.len() {
        let (low, high) = bounds.around(at, partition)?;
        let mut area = Number::Int32(0);
        for right in low + 1..high {
            deadline::step(4)?;
            let pair = inputs.get(right - 1).copied().flatten();
            let Some((a, b)) = pair.zip(inputs.get(right).copied().flatten()) else {
                continue;
            };
            let width = partition
                .sort_number(right, unit)?
                .subtract(partition.sort_number(right - 1, unit)?);
            let height = a
                .add(b)
                .divide(Number::Int32(2))
                .unwrap_or(Number::Int32(0));
            area = area.add(height.multiply(width));
        }
        values.push(if high > low {
            area.into_bson()
        } else {
            Bson::Null
        });
    }
    Ok(values)
}

pub(super) fn moving_average(
    input: &Expression,
    alpha: f64,
    partition: &Partition<'_>,
) -> Result<Vec<Bson>> {
    let (share, kept) = (Number::Double(alpha), Number::Double(1.0 - alpha));
    let mut average: Option<Number> = None;
    let next = |number: Option<Number>| {
        if let Some(number) = number {
            average = Some(match average {
                None => number,
                Some(average) => number.multiply(share).add(average.multiply(kept)),
            });
        }
        average.map_or(Bson::Null, Number::into_bson)
    };
    Ok(numbers(input, partition)?.into_iter().map(next).collect())
}

pub(super) fn covariance(
    (left, right): (&Expression, &Expression),
    sample: bool,
    bounds: &Bounds,
    partition: &Partition<'_>,
) -> Result<Vec<Bson>> {
    let (left, right) = (numbers(left, partition)?, numbers(right, partition)?);
    let mut values = Vec::with_capacity(left.len());
    for at in 0..left.len() {
        let (low, high) = bounds.around(at, partition)?;
        let (mut count, mut mean_left, mut mean_right, mut sum) = (0.0, 0.0, 0.0, 0.0);
        for place in low..high {
            deadline::step(1)?;
            let pair = left
                .get(place)
                .copied()
                .flatten()
                .zip(right.get(place).copied().flatten());
            let Some((a, b)) = pair.map(|(a, b)| (a.to_f64(), b.to_f64())) else {
                continue;
            };
            count += 1.0;
            let delta = a - mean_left;
            mean_left += delta / count;
            mean_right += (b - mean_right) / count;
            sum += delta * (b - mean_right);
        }
        let divisor = if sample { count - 1.0 } else { count };
        values.push(if divisor > 0.0 {
            Bson::Double(sum / divisor)
        } else {
            Bson::Null
        });
    }
    Ok(values)
}

/// Null between two numbers becomes what lies between them, by the sorted value.
pub(super) fn linear_fill(input: &Expression, partition: &Partition<'_>) -> Result<Vec<Bson>> {
    let inputs = partition.evaluate(input)?;
    let unit = match partition.sort_value(0) {
        Bson::DateTime(_) => Some(Unit::Millisecond),
        _ => None,
    };
    let mut positions = Vec::with_capacity(inputs.len());
    for at in 0..inputs.len() {
        positions.push(partition.sort_number(at, unit)?);
    }
    if positions
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a.compare(*b).is_eq()))
    {
        return fail(
            6050106,
            "There can be no repeated values in the sort field of $linearFill",
        );
    }
    let mut known = Vec::with_capacity(inputs.len());
    for value in &inputs {
        known.push(match value {
            None | Some(Bson::Null | Bson::Undefined) => None,
            Some(value) => match Number::from_bson(value) {
                Some(number) => Some(number),
                None => return fail(14, "Value to be filled must be numeric or nullish"),
            },
        });
    }
    let known_at = |place: usize| known.get(place).copied().flatten().map(|n| (place, n));
    let mut before = None;
    let mut befores = Vec::with_capacity(known.len());
    for at in 0..known.len() {
        before = known_at(at).or(before);
        befores.push(before);
    }
    let mut after = None;
    let mut afters = Vec::with_capacity(known.len());
    for at in (0..known.len()).rev() {
        after = known_at(at).or(after);
        afters.push(after);
    }
    afters.reverse();
    let fill = |at: usize| {
        if let Some((_, number)) = known_at(at) {
            return Some(number);
        }
        let (left, a) = befores.get(at).copied().flatten()?;
        let (right, b) = afters.get(at).copied().flatten()?;
        let position = |place: usize| positions.get(place).copied();
        let share = position(at)?
            .subtract(position(left)?)
            .divide(position(right)?.subtract(position(left)?))?;
        Some(a.add(b.subtract(a).multiply(share)))
    };
    Ok((0..known.len())
        .map(|at| fill(at).map_or(Bson::Null, Number::into_bson))
        .collect())
}
