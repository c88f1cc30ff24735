//! Arithmetic: `$add`, `$subtract`, `$multiply`, `$divide`, `$mod`, and rounding.

use bson::{Bson, DateTime};
use dec::Rounding;

use super::operator::{Form, Operator, take};
use super::{Frame, Value, decimal, fail, is_nullish, null, some};
use crate::compare::type_name;
use crate::error::Result;
use crate::number::{Decimal, Number};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$abs", Form::Exactly(1), |v, _| unary("$abs", v, abs)),
    Operator::values("$add", Form::Any, add),
    Operator::values("$ceil", Form::Exactly(1), |v, _| {
        unary("$ceil", v, |number| {
            Ok(to_whole(number, f64::ceil, Rounding::Ceiling))
        })
    }),
    Operator::values("$divide", Form::Exactly(2), divide),
    Operator::values("$floor", Form::Exactly(1), |v, _| {
        unary("$floor", v, |number| {
            Ok(to_whole(number, f64::floor, Rounding::Floor))
        })
    }),
    Operator::values("$mod", Form::Exactly(2), modulo),
    Operator::values("$multiply", Form::Any, multiply),
    Operator::values("$round", Form::Between(1, 2), |v, _| {
        round("$round", v, Rounding::HalfEven)
    }),
    Operator::values("$subtract", Form::Exactly(2), subtract),
    Operator::values("$trunc", Form::Between(1, 2), |v, _| {
        round("$trunc", v, Rounding::Down)
    }),
];

/// How many decimals `$round` and `$trunc` may be asked for.
const PLACES: std::ops::RangeInclusive<i64> = -20..=100;

/// What an operator of one number answers: null for null, an error for what is no number.
pub(super) fn unary<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    apply: impl Fn(Number) -> Result<Number>,
) -> Result<Value<'a>> {
    let [value] = take(values);
    let value = match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(value) => value,
    };
    match Number::from_bson(value) {
        Some(number) => some(apply(number)?.into_bson()),
        None => {
            let found = type_name(value);
            fail(
                28765,
                format!("{name} only supports numeric types, not {found}"),
            )
        }
    }
}

fn abs(number: Number) -> Result<Number> {
    Ok(match number {
        Number::Int32(value) => match value.checked_abs() {
            Some(value) => Number::Int32(value),
            None => Number::Int64(i64::from(value).abs()),
        },
        Number::Int64(value) => match value.checked_abs() {
            Some(value) => Number::Int64(value),
            None => return fail(28680, "can't take $abs of long long min"),
        },
        Number::Double(value) => Number::Double(value.abs()),
        Number::Decimal(value) => Number::Decimal(value.abs()),
    })
}

fn to_whole(number: Number, double: fn(f64) -> f64, rounding: Rounding) -> Number {
    match number {
        Number::Double(value) => Number::Double(double(value)),
        Number::Decimal(value) => Number::Decimal(quantize(value, 0, rounding)),
        whole => whole,
    }
}

/// A sum or product under way. Integers stay exact until the end, so that an intermediate that does
/// not fit 32 bits leaves no trace in the type of the result.
struct Running {
    total: Number,
    has_int64: bool,
}

impl Running {
    fn starting_with(value: i64) -> Self {
        Self {
            total: Number::Int64(value),
            has_int64: false,
        }
    }

    fn combine(&mut self, number: Number, combine: fn(Number, Number) -> Number) {
        self.has_int64 |= matches!(number, Number::Int64(_));
        self.total = combine(self.total, number);
    }

    fn finish(self) -> Bson {
        match self.total {
            Number::Int64(value) if !self.has_int64 => integer(value),
            total => total.into_bson(),
        }
    }
}

/// The smaller of the two integer types that holds the value.
pub(super) fn integer(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

fn add<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let mut sum = Running::starting_with(0);
    let mut date: Option<i64> = None;
    for value in values {
        let value = match value.as_deref() {
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(Bson::DateTime(_)) if date.is_some() => {
                return fail(16612, "only one date allowed in an $add expression");
            }
            Some(Bson::DateTime(added)) => {
                // What was summed so far now counts as milliseconds.
                date = Some(milliseconds(added.timestamp_millis(), sum.total, 1)?);
                continue;
            }
            Some(value) => value,
        };
        let Some(number) = Number::from_bson(value) else {
            let found = type_name(value);
            return fail(
                14,
                format!("$add only supports numeric or date types, not {found}"),
            );
        };
        match &mut date {
            Some(date) => *date = milliseconds(*date, number, 1)?,
            None => sum.combine(number, Number::add),
        }
    }
    match date {
        Some(date) => some(DateTime::from_millis(date)),
        None => some(sum.finish()),
    }
}

/// A date so many milliseconds later or earlier.
fn milliseconds(date: i64, number: Number, sign: i64) -> Result<i64> {
    let amount = match number {
        Number::Double(value) => Number::Double(value.round()).as_i64_exact(),
        Number::Decimal(value) => value.round_to_integer(Rounding::HalfEven).to_i64_exact(),
        whole => whole.as_i64_exact(),
    };
    let moved = amount.and_then(|amount| match sign {
        1 => date.checked_add(amount),
        _ => date.checked_sub(amount),
    });
    match moved {
        Some(moved) => Ok(moved),
        None => fail(15, "date overflow"),
    }
}

fn multiply<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let mut product = Running::starting_with(1);
    for value in values {
        let value = match value.as_deref() {
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(value) => value,
        };
        let Some(number) = Number::from_bson(value) else {
            let found = type_name(value);
            return fail(
                14,
                format!("$multiply only supports numeric types, not {found}"),
            );
        };
        product.combine(number, Number::multiply);
    }
    some(product.finish())
}

fn subtract<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [left, right] = take(values);
    let (Some(left), Some(right)) = (left.as_deref(), right.as_deref()) else {
        return null();
    };
    match (left, right) {
        (Bson::Null | Bson::Undefined, _) | (_, Bson::Null | Bson::Undefined) => null(),
        (Bson::DateTime(left), Bson::DateTime(right)) => {
            match left
                .timestamp_millis()
                .checked_sub(right.timestamp_millis())
            {
                Some(difference) => some(difference),
                None => fail(15, "date overflow"),
            }
        }
        (Bson::DateTime(date), right) => match Number::from_bson(right) {
            Some(number) => {
                let date = milliseconds(date.timestamp_millis(), number, -1)?;
                some(DateTime::from_millis(date))
            }
            None => fail(
                14,
                format!("can't $subtract {} from Date", type_name(right)),
            ),
        },
        _ => match (Number::from_bson(left), Number::from_bson(right)) {
            (Some(left), Some(right)) => some(left.subtract(right).into_bson()),
            _ => {
                let (left, right) = (type_name(left), type_name(right));
                fail(14, format!("can't $subtract {right} from {left}"))
            }
        },
    }
}

/// Two numbers; none if either argument is null, and the given error if either is no number.
fn pair<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    not_numeric: i32,
) -> Result<Option<(Number, Number)>> {
    let [left, right] = take(values);
    let number = |value: &Value<'a>| value.as_deref().and_then(Number::from_bson);
    if let (Some(left), Some(right)) = (number(&left), number(&right)) {
        return Ok(Some((left, right)));
    }
    if is_nullish(left.as_deref()) || is_nullish(right.as_deref()) {
        return Ok(None);
    }
    fail(not_numeric, format!("{name} only supports numeric types"))
}

fn divide<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    match pair("$divide", values, 14)? {
        None => null(),
        Some((left, right)) => match left.divide(right) {
            Some(quotient) => some(quotient.into_bson()),
            None => fail(2, "can't $divide by zero"),
        },
    }
}

fn modulo<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    match pair("$mod", values, 16611)? {
        None => null(),
        Some((left, right)) => match left.modulo(right) {
            Some(Number::Decimal(rest)) if rest.is_nan() => {
                let rest = decimal::modulo(left.to_decimal(), right.to_decimal());
                some(Number::Decimal(rest).into_bson())
            }
            Some(rest) => some(rest.into_bson()),
            None if matches!(
                (left, right),
                (Number::Decimal(_), _) | (_, Number::Decimal(_))
            ) =>
            {
                fail(5733415, "can't $mod by zero")
            }
            None => fail(16610, "can't $mod by zero"),
        },
    }
}

fn round<'a>(name: &str, values: Vec<Value<'a>>, rounding: Rounding) -> Result<Value<'a>> {
    let has_places = values.len() > 1;
    let [value, places] = take(values);
    let number = match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(value) => match Number::from_bson(value) {
            Some(number) => number,
            None => {
                let found = type_name(value);
                return fail(
                    51081,
                    format!("{name} only supports numeric types, not {found}"),
                );
            }
        },
    };
    let places = match places.as_deref() {
        _ if !has_places => 0,
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(places) => self::places(name, places)?,
    };
    some(rounded(name, number, places, rounding)?.into_bson())
}

fn places(name: &str, places: &Bson) -> Result<i32> {
    let value = to_i64(places)?;
    if Number::from_bson(places)
        .and_then(Number::as_i32_exact)
        .is_none()
    {
        return fail(
            51082,
            format!("precision argument to {name} must be a integral value"),
        );
    }
    match i32::try_from(value) {
        Ok(places) if PLACES.contains(&value) => Ok(places),
        _ => fail(
            51083,
            format!("cannot apply {name} with precision value {value}"),
        ),
    }
}

fn rounded(name: &str, number: Number, places: i32, rounding: Rounding) -> Result<Number> {
    let whole = |value: i64| quantize(Decimal::from(value), places, rounding).to_i64_exact();
    Ok(match number {
        Number::Decimal(value) if value.is_infinite() => number,
        Number::Decimal(value) => Number::Decimal(quantize_or_keep(value, places, rounding)),
        Number::Double(value) if !value.is_finite() => number,
        Number::Double(value) => {
            let exact = Decimal::from_f64_nearest(value);
            Number::Double(quantize_or_keep(exact, places, rounding).to_f64())
        }
        whole if places >= 0 => whole,
        Number::Int32(value) => match whole(i64::from(value)) {
            Some(value) => i32::try_from(value).map_or(Number::Int64(value), Number::Int32),
            None => {
                return fail(
                    51080,
                    format!("invalid conversion from Decimal128 in {name}"),
                );
            }
        },
        Number::Int64(value) => match whole(value) {
            Some(value) => Number::Int64(value),
            None => {
                return fail(
                    51080,
                    format!("invalid conversion from Decimal128 in {name}"),
                );
            }
        },
    })
}

/// The decimal with so many places; not a number if it would have more than 34 digits.
fn quantize(value: Decimal, places: i32, rounding: Rounding) -> Decimal {
    let mut context = dec::Context::<dec::Decimal128>::default();
    context.set_rounding(rounding);
    let mut quantum = dec::Decimal128::ONE;
    context.set_exponent(&mut quantum, -places);
    context.quantize(value.into_inner(), quantum).into()
}

/// The same; what has no room for so many places has them all already.
fn quantize_or_keep(value: Decimal, places: i32, rounding: Rounding) -> Decimal {
    let quantized = quantize(value, places, rounding);
    if quantized.is_nan() { value } else { quantized }
}

/// A value as a 64-bit integer, the way operators take counts and positions: truncated.
pub(super) fn to_i64(value: &Bson) -> Result<i64> {
    match Number::from_bson(value) {
        Some(Number::Double(double)) => match Number::Double(double.trunc()).as_i64_exact() {
            Some(value) => Ok(value),
            None => fail(
                31109,
                format!("Can't coerce out of range value {double} to long"),
            ),
        },
        // What is out of range becomes the least integer, whichever way it lies.
        Some(Number::Decimal(decimal)) => {
            let whole = decimal.round_to_integer(Rounding::HalfEven);
            Ok(whole.to_i64_exact().unwrap_or(i64::MIN))
        }
        Some(number) => Ok(number.to_i64_saturating()),
        None if matches!(value, Bson::Null | Bson::Undefined) => Ok(0),
        None => fail(
            16004,
            format!("can't convert from BSON type {} to long", type_name(value)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, bson};

    use crate::expression::tests::{fails, gives};

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    fn date(millis: i64) -> Bson {
        Bson::DateTime(DateTime::from_millis(millis))
    }

    #[test]
    fn adds_and_subtracts() {
        gives([
            (bson!({ "$add": [] }), bson!(0)),
            (bson!({ "$add": ["$a", "$b"] }), bson!(3.5)),
            (bson!({ "$add": [i32::MAX, 1] }), bson!(2147483648_i64)),
            (bson!({ "$add": [i32::MAX, 1, -1] }), bson!(i32::MAX)),
            (bson!({ "$add": [1, 1_i64] }), bson!(2_i64)),
            (
                bson!({ "$add": [i64::MAX, 1] }),
                bson!(9223372036854775807.0),
            ),
            (bson!({ "$add": [1, decimal("0.10")] }), decimal("1.10")),
            (bson!({ "$add": [1, null] }), bson!(null)),
            (bson!({ "$add": [date(5), 1.5] }), date(7)),
            (bson!({ "$add": [2, date(5)] }), date(7)),
            (bson!({ "$subtract": [date(5), date(7)] }), bson!(-2_i64)),
            (bson!({ "$subtract": [date(5), 7] }), date(-2)),
            (bson!({ "$subtract": [5, "$b"] }), bson!(2.5)),
            (bson!({ "$subtract": ["$n", 1] }), bson!(null)),
        ]);
        fails([
            (bson!({ "$add": ["x"] }), 14),
            (bson!({ "$add": [date(1), date(2)] }), 16612),
            (bson!({ "$add": [date(1), i64::MAX] }), 15),
            (bson!({ "$subtract": [1, "x"] }), 14),
            (bson!({ "$subtract": [1, date(1)] }), 14),
            (bson!({ "$subtract": [1] }), 16020),
        ]);
    }

    #[test]
    fn multiplies_and_divides() {
        gives([
            (bson!({ "$multiply": [] }), bson!(1)),
            (bson!({ "$multiply": [3, "$b"] }), bson!(7.5)),
            (
                bson!({ "$multiply": [65536, 65536] }),
                bson!(4294967296_i64),
            ),
            (bson!({ "$multiply": ["$none", "x"] }), bson!(null)),
            (bson!({ "$divide": [3, 2] }), bson!(1.5)),
            (bson!({ "$divide": [decimal("1"), 4] }), decimal("0.25")),
            (bson!({ "$divide": [null, "x"] }), bson!(null)),
            (bson!({ "$mod": [-7, 3] }), bson!(-1)),
            (bson!({ "$mod": [7.5, 2] }), bson!(1.5)),
            (bson!({ "$mod": [7, 2_i64] }), bson!(1_i64)),
        ]);
        fails([
            (bson!({ "$multiply": ["x"] }), 14),
            (bson!({ "$divide": [1, 0] }), 2),
            (bson!({ "$divide": ["x", 1] }), 14),
            (bson!({ "$mod": [1, 0] }), 16610),
            (bson!({ "$mod": [decimal("1"), 0] }), 5733415),
            (bson!({ "$mod": ["x", 1] }), 16611),
        ]);
    }

    #[test]
    fn rounds() {
        gives([
            (bson!({ "$abs": -1 }), bson!(1)),
            (bson!({ "$abs": i32::MIN }), bson!(2147483648_i64)),
            (bson!({ "$ceil": 1.2 }), bson!(2.0)),
            (bson!({ "$floor": decimal("-1.2") }), decimal("-2")),
            (bson!({ "$floor": 3 }), bson!(3)),
            (bson!({ "$round": 2.5 }), bson!(2.0)),
            (bson!({ "$round": [1234.567, 1] }), bson!(1234.6)),
            (bson!({ "$round": [1250, -2] }), bson!(1200)),
            (bson!({ "$trunc": [1290, -2] }), bson!(1200)),
            (bson!({ "$trunc": [decimal("1.999"), 2] }), decimal("1.99")),
            (bson!({ "$round": [1.5, null] }), bson!(null)),
        ]);
        fails([
            (bson!({ "$abs": "x" }), 28765),
            (bson!({ "$abs": i64::MIN }), 28680),
            (bson!({ "$round": "x" }), 51081),
            (bson!({ "$round": [1, 1.5] }), 51082),
            (bson!({ "$round": [1, 101] }), 51083),
            (bson!({ "$round": [1, "x"] }), 16004),
            (bson!({ "$round": [1, 2, 3] }), 28667),
        ]);
    }
}
