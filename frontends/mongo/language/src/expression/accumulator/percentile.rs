//! `$median` and `$percentile`.

use bson::{Bson, Document};
use tessera_core::deadline;

use super::{Accumulate, Accumulator, Kind, MAX_BYTES};
use crate::error::Result;
use crate::expression::{Expression, ParseContext, Variables, fail};
use crate::number::Number;

/// How a percentile that falls between two values is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// It is one of the values.
    Discrete,
    /// It lies between them.
    Continuous,
}

/// `input`, `method` and, for percentiles, `p`.
pub(super) fn parse(
    argument: &Bson,
    context: &ParseContext<'_>,
    several: bool,
) -> Result<Accumulator> {
    let Bson::Document(fields) = argument else {
        return fail(
            if several { 7429703 } else { 7436100 },
            "specification must be an object",
        );
    };
    let (input, points, method) = parse_fields(fields, context, several)?;
    Ok(Accumulator {
        kind: Kind::Percentile {
            points,
            method,
            several,
        },
        argument: Expression::parse(input, context)?,
        count: None,
        collation: context.collation().clone(),
    })
}

/// The input as it is written, the points asked for, and the method.
pub(super) fn parse_fields<'b>(
    fields: &'b Document,
    context: &ParseContext<'_>,
    several: bool,
) -> Result<(&'b Bson, Vec<f64>, Method)> {
    let known = |name: &str| matches!(name, "input" | "method") || several && name == "p";
    if let Some(name) = fields.keys().find(|name| !known(name)) {
        return fail(40415, format!("field '{name}' is an unknown field"));
    }
    let required = |name: &str| match fields.get(name) {
        Some(value) => Ok(value),
        None => fail(
            40414,
            format!("field '{name}' is missing but a required field"),
        ),
    };
    let input = required("input")?;
    let method = match required("method")? {
        Bson::String(method) => match method.as_str() {
            // Approximations are for what does not fit memory; within it, values are exact.
            "approximate" | "discrete" => Method::Discrete,
            "continuous" => Method::Continuous,
            _ => return fail(2, format!("unknown percentile method: {method}")),
        },
        _ => return fail(14, "'method' must be a string"),
    };
    let points = if several {
        parse_points(required("p")?, context)?
    } else {
        vec![0.5]
    };
    Ok((input, points, method))
}

fn parse_points(value: &Bson, context: &ParseContext<'_>) -> Result<Vec<f64>> {
    let expression = Expression::parse(value, context)?;
    if expression.reads_document() {
        return fail(
            7750300,
            "The $percentile 'p' field must be an array of constant values",
        );
    }
    let variables: &Variables = context.variables();
    let points = expression.evaluate(&Document::new(), variables)?;
    let Some(Bson::Array(points)) = points.filter(|points| *points != Bson::Array(vec![])) else {
        return fail(
            7750301,
            "The $percentile 'p' field must be a non-empty array of numbers",
        );
    };
    let point = |point: &Bson| match Number::from_bson(point).map(Number::to_f64) {
        None => fail(
            7750302,
            "The $percentile 'p' field must be an array of numbers",
        ),
        Some(point) if (0.0..=1.0).contains(&point) => Ok(point),
        Some(point) => fail(
            7750303,
            format!("'p' must be within [0.0, 1.0], found {point}"),
        ),
    };
    points.iter().map(point).collect()
}

/// The number that counts, if a value is one.
fn number_of(value: Option<&Bson>) -> Option<Number> {
    let number = value.and_then(Number::from_bson);
    number.filter(|number| !number.is_nan())
}

/// The numbers below which given shares of all numbers lie.
#[derive(Debug)]
pub(super) struct Percentile {
    points: Vec<f64>,
    method: Method,
    several: bool,
    values: Vec<f64>,
}

impl Percentile {
    pub(super) fn new(points: Vec<f64>, method: Method, several: bool) -> Self {
        Self {
            points,
            method,
            several,
            values: Vec::new(),
        }
    }
}

impl Accumulate for Percentile {
    fn add(&mut self, value: Option<Bson>) -> Result<()> {
        if let Some(number) = number_of(value.as_ref()) {
            if self.values.len() * size_of::<f64>() > MAX_BYTES {
                return fail(146, "a percentile used too much memory");
            }
            self.values.push(number.to_f64());
        }
        Ok(())
    }

    fn remove_first(&mut self, values: &[Option<Bson>]) -> Result<bool> {
        let there = values
            .iter()
            .filter(|value| number_of(value.as_ref()).is_some());
        let there = there.count().min(self.values.len());
        self.values.drain(..there);
        Ok(true)
    }

    fn value(&self) -> Bson {
        deadline::note(self.values.len() / 4);
        let mut values = self.values.clone();
        let at = |point: &f64| match percentile(&mut values, *point, self.method) {
            Some(value) => Bson::Double(value),
            None => Bson::Null,
        };
        let mut found: Vec<Bson> = self.points.iter().map(at).collect();
        if self.several {
            Bson::Array(found)
        } else {
            found.pop().unwrap_or(Bson::Null)
        }
    }

    fn size(&self) -> usize {
        64 + self.values.len() * size_of::<f64>()
    }
}

fn percentile(values: &mut [f64], point: f64, method: Method) -> Option<f64> {
    let count = Number::Int64(i64::try_from(values.len()).ok()?).to_f64();
    let mut at = |rank: f64| {
        let index = Number::Double(rank)
            .as_i64_exact()
            .and_then(|rank| usize::try_from(rank).ok());
        let index = index?.min(values.len().checked_sub(1)?);
        let (_, found, _) = values.select_nth_unstable_by(index, f64::total_cmp);
        Some(*found)
    };
    match method {
        Method::Discrete => at(((count * point).ceil() - 1.0).max(0.0)),
        Method::Continuous => {
            let rank = point * (count - 1.0);
            let (low, high) = (at(rank.floor().max(0.0))?, at(rank.ceil().max(0.0))?);
            // Values as they are need no weighing, which infinite ones would not survive.
            if low == high || rank.fract() == 0.0 {
                return Some(low);
            }
            Some(low * (rank.ceil() - rank) + high * (rank - rank.floor()))
        }
    }
}
