//! The functions over a window.

use bson::{Bson, Document};

use super::bounds::Bounds;
use super::compute::{
    accumulate, covariance, derivative, integral, linear_fill, moving_average, ranks, shift,
};
use crate::error::Result;
use crate::expression::accumulator::Accumulator;
use crate::expression::date::Unit;
use crate::expression::{Context, Expression, ParseContext, Variables, fail, is_nullish};
use crate::number::Number;
use crate::pipeline::sort::Sort;

/// The documents of one partition, in their order.
pub(super) struct Partition<'a> {
    pub(super) documents: &'a [&'a Document],
    /// The bytes by which they are sorted.
    pub(super) orders: &'a [&'a [u8]],
    pub(super) sort_field: Option<&'a str>,
    pub(super) variables: &'a Variables,
}

impl Partition<'_> {
    /// The value of the first field by which the documents are sorted.
    pub(super) fn sort_value(&self, at: usize) -> Bson {
        let path: Vec<String> = self
            .sort_field
            .unwrap_or_default()
            .split('.')
            .map(str::to_owned)
            .collect();
        let document = self.documents.get(at);
        let value = document.and_then(|document| crate::pipeline::path::get(document, &path));
        value.cloned().unwrap_or(Bson::Null)
    }

    /// The sorted value as a number: dates in milliseconds, or in the unit.
    pub(super) fn sort_number(&self, at: usize, unit: Option<Unit>) -> Result<Number> {
        match (self.sort_value(at), unit) {
            (Bson::DateTime(date), Some(unit)) => {
                let millis = Number::Int64(date.timestamp_millis());
                let length = unit.typical_millis();
                Ok(millis.divide(Number::Int64(length)).unwrap_or(millis))
            }
            (Bson::DateTime(_), None) => fail(5624901, "a sortBy of dates requires a 'unit' here"),
            (value, None) => match Number::from_bson(&value) {
                Some(number) => Ok(number),
                None => fail(5624902, "the sortBy must be numeric here"),
            },
            (_, Some(_)) => fail(5624900, "with a 'unit' the sortBy must be a date"),
        }
    }

    pub(super) fn evaluate(&self, expression: &Expression) -> Result<Vec<Option<Bson>>> {
        let value = |document: &&Document| expression.evaluate(document, self.variables);
        self.documents.iter().map(value).collect()
    }
}

/// A function of a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Function {
    Accumulate(Box<Accumulator>, Bounds),
    Rank,
    DenseRank,
    DocumentNumber,
    Shift {
        output: Expression,
        by: i64,
        default: Bson,
    },
    Derivative {
        input: Expression,
        unit: Option<Unit>,
        bounds: Bounds,
    },
    Integral {
        input: Expression,
        unit: Option<Unit>,
        bounds: Bounds,
    },
    MovingAverage {
        input: Expression,
        alpha: f64,
    },
    Covariance {
        left: Expression,
        right: Expression,
        sample: bool,
        bounds: Bounds,
    },
    CarryForward(Expression),
    LinearFill(Expression),
}

impl Function {
    /// Parses an output field: a function, and perhaps a window.
    pub(super) fn parse(
        field: &str,
        value: &Bson,
        sort: Option<&Sort>,
        context: &Context,
    ) -> Result<Self> {
        let Bson::Document(specification) = value else {
            return fail(9, format!("The field '{field}' must be an object"));
        };
        let mut function = None;
        for (name, argument) in specification {
            if name == "window" {
                continue;
            }
            if !name.starts_with('$') {
                return fail(
                    9,
                    format!("Window function found an unknown argument: {name}"),
                );
            }
            if function.replace((name.as_str(), argument)).is_some() {
                return fail(9, "Cannot specify two functions in window function spec");
            }
        }
        let Some((name, argument)) = function else {
            return fail(9, "Expected a $-prefixed window function");
        };
        Parser {
            name,
            argument,
            window: specification.get("window"),
            sort,
            context,
        }
        .parse()
    }

    /// The value for each document of a partition.
    pub(super) fn values(&self, partition: &Partition<'_>) -> Result<Vec<Bson>> {
        match self {
            Self::Accumulate(accumulator, bounds) => accumulate(accumulator, bounds, partition),
            Self::Rank => Ok(ranks(partition, false)),
            Self::DenseRank => Ok(ranks(partition, true)),
            Self::DocumentNumber => Ok((1..)
                .take(partition.documents.len())
                .map(Bson::Int32)
                .collect()),
            Self::Shift {
                output,
                by,
                default,
            } => shift(output, *by, default, partition),
            Self::Derivative {
                input,
                unit,
                bounds,
            } => derivative(input, *unit, bounds, partition),
            Self::Integral {
                input,
                unit,
                bounds,
            } => integral(input, *unit, bounds, partition),
            Self::MovingAverage { input, alpha } => moving_average(input, *alpha, partition),
            Self::Covariance {
                left,
                right,
                sample,
                bounds,
            } => covariance((left, right), *sample, bounds, partition),
            Self::CarryForward(input) => {
                let mut last = Bson::Null;
                let carried = partition.evaluate(input)?.into_iter().map(|value| {
                    if let Some(value) = value.filter(|value| !is_nullish(Some(value))) {
                        last = value;
                    }
                    last.clone()
                });
                Ok(carried.collect())
            }
            Self::LinearFill(input) => linear_fill(input, partition),
        }
    }
}

struct Parser<'a> {
    name: &'a str,
    argument: &'a Bson,
    window: Option<&'a Bson>,
    sort: Option<&'a Sort>,
    context: &'a Context,
}

impl Parser<'_> {
    fn parse(&self) -> Result<Function> {
        match self.name {
            "$rank" | "$denseRank" | "$documentNumber" => self.rank(),
            "$shift" => self.shift(),
            "$derivative" | "$integral" => self.slope(),
            "$expMovingAvg" => self.moving_average(),
            "$covariancePop" | "$covarianceSamp" => self.covariance(),
            "$locf" => {
                self.no_window()?;
                Ok(Function::CarryForward(self.expression(self.argument)?))
            }
            "$linearFill" => {
                self.no_window()?;
                if self.sort.is_none_or(|sort| sort.pattern.len() != 1) {
                    return fail(
                        605001,
                        "$linearFill requires a sortBy of exactly one element",
                    );
                }
                Ok(Function::LinearFill(self.expression(self.argument)?))
            }
            name => {
                let context = ParseContext::from(self.context);
                let accumulator = match Accumulator::parse_named(name, self.argument, &context) {
                    Err(error) if error.code.0 == 15952 => {
                        return fail(9, format!("Unrecognized window function, {name}"));
                    }
                    parsed => parsed?,
                };
                Ok(Function::Accumulate(Box::new(accumulator), self.bounds()?))
            }
        }
    }

    fn expression(&self, value: &Bson) -> Result<Expression> {
        Expression::parse(value, &ParseContext::from(self.context))
    }

    fn bounds(&self) -> Result<Bounds> {
        match self.window {
            None => Ok(Bounds::ALL),
            Some(window) => Bounds::parse(window, self.sort, self.context),
        }
    }

    fn no_window(&self) -> Result<()> {
        match self.window {
            None => Ok(()),
            Some(_) => fail(9, format!("'window' field is not allowed in {}", self.name)),
        }
    }

    fn options(&self, known: &[&str]) -> Result<&Document> {
        let Bson::Document(options) = self.argument else {
            return fail(9, format!("{} expects an object", self.name));
        };
        match options.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => fail(9, format!("{} got unexpected argument: {name}", self.name)),
            None => Ok(options),
        }
    }

    fn required<'d>(&self, options: &'d Document, name: &str) -> Result<&'d Bson> {
        match options.get(name) {
            Some(value) => Ok(value),
            None => fail(9, format!("{} requires '{name}'", self.name)),
        }
    }

    fn rank(&self) -> Result<Function> {
        if self.window.is_some() {
            return fail(
                5371601,
                "Rank style window functions take no other arguments",
            );
        }
        if !matches!(self.argument, Bson::Document(argument) if argument.is_empty()) {
            return fail(
                5371603,
                format!("{} must be specified with '{{}}'", self.name),
            );
        }
        if self.sort.is_none_or(|sort| sort.pattern.len() != 1) {
            return fail(
                5371602,
                format!("{} requires a sortBy of one element", self.name),
            );
        }
        Ok(match self.name {
            "$rank" => Function::Rank,
            "$denseRank" => Function::DenseRank,
            _ => Function::DocumentNumber,
        })
    }

    fn shift(&self) -> Result<Function> {
        self.no_window()?;
        let options = self.options(&["output", "by", "default"])?;
        if self.sort.is_none() {
            return fail(9, "$shift requires a sortBy");
        }
        let output = self.expression(self.required(options, "output")?)?;
        let by = Number::from_bson(self.required(options, "by")?).and_then(Number::as_i32_exact);
        let Some(by) = by else {
            return fail(9, "'$shift:by' field must be an integer");
        };
        let default = match options.get("default") {
            None => Bson::Null,
            Some(default) => {
                let default = self.expression(default)?;
                if default.reads_document() {
                    return fail(9, "'$shift:default' expression must yield a constant value");
                }
                let value = default.evaluate(&Document::new(), &self.context.variables)?;
                value.unwrap_or(Bson::Null)
            }
        };
        Ok(Function::Shift {
            output,
            by: i64::from(by),
            default,
        })
    }

    fn slope(&self) -> Result<Function> {
        let options = self.options(&["input", "unit"])?;
        let input = self.expression(self.required(options, "input")?)?;
        let unit = match options.get("unit") {
            None => None,
            Some(Bson::String(unit)) => match Unit::parse(unit)? {
                Unit::Year | Unit::Quarter | Unit::Month => {
                    return fail(5490710, "unit must be 'week' or smaller");
                }
                unit => Some(unit),
            },
            Some(_) => return fail(9, "'unit' must be a string"),
        };
        if self.sort.is_none_or(|sort| sort.pattern.len() != 1) {
            return fail(9, format!("{} requires a non-compound sortBy", self.name));
        }
        if self.name == "$derivative" {
            if self.window.is_none() {
                return fail(9, "$derivative requires explicit window bounds");
            }
            return Ok(Function::Derivative {
                input,
                unit,
                bounds: self.bounds()?,
            });
        }
        Ok(Function::Integral {
            input,
            unit,
            bounds: self.bounds()?,
        })
    }

    fn moving_average(&self) -> Result<Function> {
        self.no_window()?;
        let options = self.options(&["input", "N", "alpha"])?;
        if options.len() != 2 || !options.contains_key("input") {
            return fail(9, "$expMovingAvg takes 'input' and either 'N' or 'alpha'");
        }
        if self.sort.is_none() {
            return fail(9, "$expMovingAvg requires an explicit 'sortBy'");
        }
        let input = self.expression(self.required(options, "input")?)?;
        let number = |name: &str| options.get(name).and_then(Number::from_bson);
        let alpha = match (number("N"), number("alpha")) {
            (Some(count), None) => match count.as_i64_exact() {
                Some(count) if count > 0 => 2.0 / (Number::Int64(count).to_f64() + 1.0),
                _ => return fail(9, "'N' must be an integer greater than zero"),
            },
            (None, Some(alpha)) if alpha.to_f64() > 0.0 && alpha.to_f64() < 1.0 => alpha.to_f64(),
            _ => return fail(9, "'alpha' must be a number between 0 and 1 (exclusive)"),
        };
        Ok(Function::MovingAverage { input, alpha })
    }

    fn covariance(&self) -> Result<Function> {
        let pair = self.argument.as_array().map(Vec::as_slice);
        let Some([left, right]) = pair else {
            return fail(
                9,
                format!("{} takes an array of two expressions", self.name),
            );
        };
        Ok(Function::Covariance {
            left: self.expression(left)?,
            right: self.expression(right)?,
            sample: self.name == "$covarianceSamp",
            bounds: self.bounds()?,
        })
    }
}
