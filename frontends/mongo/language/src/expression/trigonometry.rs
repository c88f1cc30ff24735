//! Functions of one number: trigonometry, logarithms, powers and roots.

use std::f64::consts::PI;

use bson::Bson;

use super::arithmetic::{integer, unary};
use super::operator::{Form, Operator, take};
use super::{
    Frame, Node, ParseContext, Value, decimal, decimal_trigonometry, fail, is_nullish, null, some,
};
use crate::compare::type_name;
use crate::error::Result;
use crate::number::{Decimal, Number};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::values("$acos", Form::Exactly(1), |v, _| {
        bounded(
            "$acos",
            v,
            (-1.0, 1.0),
            (f64::acos, decimal_trigonometry::acos),
        )
    }),
    Operator::values("$acosh", Form::Exactly(1), |v, _| {
        bounded(
            "$acosh",
            v,
            (1.0, f64::INFINITY),
            (f64::acosh, decimal_trigonometry::acosh),
        )
    }),
    Operator::values("$asin", Form::Exactly(1), |v, _| {
        bounded(
            "$asin",
            v,
            (-1.0, 1.0),
            (f64::asin, decimal_trigonometry::asin),
        )
    }),
    Operator::values("$asinh", Form::Exactly(1), |v, _| {
        function("$asinh", v, f64::asinh, decimal_trigonometry::asinh)
    }),
    Operator::values("$atan", Form::Exactly(1), |v, _| {
        function("$atan", v, f64::atan, decimal_trigonometry::atan)
    }),
    Operator::values("$atan2", Form::Exactly(2), atan2),
    Operator::values("$atanh", Form::Exactly(1), |v, _| {
        bounded(
            "$atanh",
            v,
            (-1.0, 1.0),
            (f64::atanh, decimal_trigonometry::atanh),
        )
    }),
    Operator::values("$cos", Form::Exactly(1), |v, _| {
        finite("$cos", v, f64::cos, decimal_trigonometry::cos)
    }),
    Operator::values("$cosh", Form::Exactly(1), |v, _| {
        function("$cosh", v, f64::cosh, decimal_trigonometry::cosh)
    }),
    Operator::values("$degreesToRadians", Form::Exactly(1), |v, _| {
        scale(
            "$degreesToRadians",
            v,
            PI / 180.0,
            "0.01745329251994329576923690768488613",
        )
    }),
    Operator::values("$exp", Form::Exactly(1), |v, _| {
        function("$exp", v, f64::exp, decimal::exp)
    }),
    Operator::values("$ln", Form::Exactly(1), |v, _| {
        logarithm("$ln", v, 28766, (f64::ln, decimal::ln))
    }),
    Operator::values("$log", Form::Exactly(2), log),
    Operator::values("$log10", Form::Exactly(1), |v, _| {
        logarithm("$log10", v, 28761, (f64::log10, decimal::log10))
    }),
    Operator::values("$pow", Form::Exactly(2), pow),
    Operator::values("$radiansToDegrees", Form::Exactly(1), |v, _| {
        scale(
            "$radiansToDegrees",
            v,
            180.0 / PI,
            "57.29577951308232087679815481410517",
        )
    }),
    Operator::values("$sigmoid", Form::Special(parse_sigmoid), |v, _| sigmoid(v)),
    Operator::values("$sin", Form::Exactly(1), |v, _| {
        finite("$sin", v, f64::sin, decimal_trigonometry::sin)
    }),
    Operator::values("$sinh", Form::Exactly(1), |v, _| {
        function("$sinh", v, f64::sinh, decimal_trigonometry::sinh)
    }),
    Operator::values("$sqrt", Form::Exactly(1), |v, _| unary("$sqrt", v, sqrt)),
    Operator::values("$tan", Form::Exactly(1), |v, _| {
        finite("$tan", v, f64::tan, decimal_trigonometry::tan)
    }),
    Operator::values("$tanh", Form::Exactly(1), |v, _| {
        function("$tanh", v, f64::tanh, decimal_trigonometry::tanh)
    }),
];

type Functions = (fn(f64) -> f64, fn(Decimal) -> Decimal);

fn function<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Value<'a>> {
    unary(name, values, |number| Ok(apply(number, (double, decimal))))
}

fn apply(number: Number, (double, decimal): Functions) -> Number {
    match number {
        Number::Decimal(value) => Number::Decimal(decimal(value)),
        number => Number::Double(double(number.to_f64())),
    }
}

/// A function of the numbers within bounds, both included.
fn bounded<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    (low, high): (f64, f64),
    functions: Functions,
) -> Result<Value<'a>> {
    unary(name, values, |number| {
        let within = |bound| number.compare(Number::Double(bound));
        if number.is_nan() {
            return Ok(number);
        }
        if within(low).is_lt() || within(high).is_gt() {
            let message = format!("cannot apply {name}, value must be in [{low},{high}]");
            return fail(50989, message);
        }
        Ok(apply(number, functions))
    })
}

/// A function of all numbers but the infinite ones.
fn finite<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    double: fn(f64) -> f64,
    decimal: fn(Decimal) -> Decimal,
) -> Result<Value<'a>> {
    unary(name, values, |number| {
        if number.is_nan() {
            return Ok(number);
        }
        if number.to_f64().is_infinite()
            && !matches!(number, Number::Decimal(d) if !d.is_infinite())
        {
            return fail(
                50989,
                format!("cannot apply {name}, value must be in (-inf,inf)"),
            );
        }
        Ok(apply(number, (double, decimal)))
    })
}

fn scale<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    factor: f64,
    decimal_factor: &str,
) -> Result<Value<'a>> {
    unary(name, values, |number| {
        Ok(match number {
            Number::Decimal(value) => {
                let factor = Decimal::parse(decimal_factor).unwrap_or(Decimal::NAN);
                Number::Decimal(value.times(factor))
            }
            number => Number::Double(number.to_f64() * factor),
        })
    })
}

fn atan2<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let mut sides = Vec::with_capacity(2);
    for (value, code) in values.iter().zip([51044, 51045]) {
        let value = match value.as_deref() {
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(value) => value,
        };
        match Number::from_bson(value) {
            Some(side) => sides.push(side),
            None => {
                let found = type_name(value);
                return fail(
                    code,
                    format!("$atan2 only supports numeric types, not {found}"),
                );
            }
        }
    }
    match sides.as_slice() {
        [y @ Number::Decimal(_), x] | [y, x @ Number::Decimal(_)] => some(
            Number::Decimal(decimal_trigonometry::atan2(y.to_decimal(), x.to_decimal()))
                .into_bson(),
        ),
        [y, x] => some(y.to_f64().atan2(x.to_f64())),
        _ => null(),
    }
}

fn logarithm<'a>(
    name: &str,
    values: Vec<Value<'a>>,
    not_positive: i32,
    (double, decimal): Functions,
) -> Result<Value<'a>> {
    unary(name, values, |number| {
        if !number.is_nan() && number.compare(Number::Int32(0)).is_le() {
            return fail(
                not_positive,
                format!("{name}'s argument must be a positive number"),
            );
        }
        Ok(match number {
            Number::Decimal(value) if value.is_nan() => Number::Double(f64::NAN),
            number => apply(number, (double, decimal)),
        })
    })
}

fn log<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [argument, base] = take(values);
    let (Some(argument), Some(base)) = (argument.as_deref(), base.as_deref()) else {
        return null();
    };
    if is_nullish(Some(argument)) || is_nullish(Some(base)) {
        return null();
    }
    let Some(argument) = Number::from_bson(argument) else {
        return fail(28756, "$log's argument must be numeric");
    };
    let Some(base) = Number::from_bson(base) else {
        return fail(28757, "$log's base must be numeric");
    };
    let is_positive = |number: Number| number.compare(Number::Int32(0)).is_gt();
    if !is_positive(argument) && !argument.is_nan() {
        return fail(28758, "$log's argument must be a positive number");
    }
    let usable = is_positive(base) && base.compare(Number::Int32(1)).is_ne();
    if !usable && !base.is_nan() {
        return fail(
            28759,
            "$log's base must be a positive number not equal to 1",
        );
    }
    let has_decimal = matches!(
        (argument, base),
        (Number::Decimal(_), _) | (_, Number::Decimal(_))
    );
    if has_decimal && !argument.is_nan() && !base.is_nan() {
        let value = decimal::log(argument.to_decimal(), base.to_decimal());
        return some(Number::Decimal(value).into_bson());
    }
    some(argument.to_f64().ln() / base.to_f64().ln())
}

fn pow<'a>(values: Vec<Value<'a>>, _: &Frame<'a>) -> Result<Value<'a>> {
    let [base, exponent] = take(values);
    let (Some(base), Some(exponent)) = (base.as_deref(), exponent.as_deref()) else {
        return null();
    };
    if is_nullish(Some(base)) || is_nullish(Some(exponent)) {
        return null();
    }
    let Some(base) = Number::from_bson(base) else {
        return fail(28762, "$pow's base must be numeric");
    };
    let Some(exponent) = Number::from_bson(exponent) else {
        return fail(28763, "$pow's exponent must be numeric");
    };
    let is_negative = exponent.compare(Number::Int32(0)).is_lt() && !exponent.is_nan();
    if base.is_zero() && is_negative {
        return fail(
            28764,
            "$pow cannot take a base of 0 and a negative exponent",
        );
    }
    some(match (base, exponent) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            let power = decimal::pow(base.to_decimal(), exponent.to_decimal());
            Number::Decimal(power).into_bson()
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            Bson::Double(base.to_f64().powf(exponent.to_f64()))
        }
        (Number::Int32(_), Number::Int32(_)) => whole_power(base, exponent, integer),
        _ => whole_power(base, exponent, Bson::Int64),
    })
}

/// A power of integers: an integer if it fits, else a double.
fn whole_power(base: Number, exponent: Number, whole: fn(i64) -> Bson) -> Bson {
    let (value, power) = (base.to_i64_saturating(), exponent.to_i64_saturating());
    let exact = match value {
        1 => Some(1),
        -1 => Some(if power % 2 == 0 { 1 } else { -1 }),
        0 if power > 0 => Some(0),
        _ => u32::try_from(power)
            .ok()
            .and_then(|power| value.checked_pow(power)),
    };
    match exact {
        Some(exact) => whole(exact),
        None => Bson::Double(base.to_f64().powf(exponent.to_f64())),
    }
}

fn sqrt(number: Number) -> Result<Number> {
    if number.compare(Number::Int32(0)).is_lt() && !number.is_nan() {
        return fail(28714, "$sqrt's argument must be greater than or equal to 0");
    }
    Ok(apply(number, (f64::sqrt, decimal::sqrt)))
}

/// The argument as it stands, which an array may not be.
fn parse_sigmoid(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    Ok(operator.call(vec![Node::parse(argument, context)?]))
}

/// 1 / (1 + e^-x)
fn sigmoid(values: Vec<Value<'_>>) -> Result<Value<'_>> {
    let [value] = take(values);
    let number = match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(value) => match Number::from_bson(value) {
            Some(number) => number,
            None => {
                let found = type_name(value);
                return fail(
                    14,
                    format!("$sigmoid only supports numeric types, not {found}"),
                );
            }
        },
    };
    some(match number {
        Number::Decimal(value) => {
            let (one, negative) = (Decimal::from(1), Decimal::ZERO.minus(value));
            Bson::Decimal128(one.over(one.plus(decimal::exp(negative))).to_bson())
        }
        number => Bson::Double(1.0 / (1.0 + (-number.to_f64()).exp())),
    })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::tests::{fails, gives};

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn calculates_doubles() {
        gives([
            (bson!({ "$sin": 0 }), bson!(0.0)),
            (bson!({ "$acos": 1 }), bson!(0.0)),
            (
                bson!({ "$atan2": [1, 1] }),
                bson!(std::f64::consts::FRAC_PI_4),
            ),
            (
                bson!({ "$degreesToRadians": 180 }),
                bson!(std::f64::consts::PI),
            ),
            (bson!({ "$exp": 0 }), bson!(1.0)),
            (bson!({ "$ln": 1 }), bson!(0.0)),
            (bson!({ "$log": [8, 2] }), bson!(3.0)),
            (bson!({ "$log10": 1000 }), bson!(3.0)),
            (bson!({ "$pow": [2, 10] }), bson!(1024)),
            (bson!({ "$pow": [2, 40] }), bson!(1099511627776_i64)),
            (bson!({ "$pow": [2_i64, 3] }), bson!(8_i64)),
            (bson!({ "$pow": [2, 64] }), bson!(18446744073709551616.0)),
            (bson!({ "$pow": [2, -1] }), bson!(0.5)),
            (bson!({ "$sqrt": 9 }), bson!(3.0)),
            (bson!({ "$sqrt": null }), bson!(null)),
            (bson!({ "$sigmoid": 0 }), bson!(0.5)),
        ]);
    }

    #[test]
    fn calculates_decimals() {
        gives([
            (
                bson!({ "$exp": decimal("1") }),
                decimal("2.718281828459045235360287471352662"),
            ),
            (
                bson!({ "$exp": decimal("-1") }),
                decimal("0.3678794411714423215955237701614609"),
            ),
            (
                bson!({ "$ln": decimal("10") }),
                decimal("2.302585092994045684017991454684364"),
            ),
            (
                bson!({ "$log10": decimal("2") }),
                decimal("0.3010299956639811952137388947244930"),
            ),
            (
                bson!({ "$sqrt": decimal("2") }),
                decimal("1.414213562373095048801688724209698"),
            ),
            (bson!({ "$sqrt": decimal("4") }), decimal("2")),
            (bson!({ "$sqrt": decimal("1E-6176") }), decimal("1E-3088")),
            (
                bson!({ "$pow": [decimal("2"), 10] }),
                decimal("1024.000000000000000000000000000000"),
            ),
            (
                bson!({ "$sin": decimal("1") }),
                decimal("0.8414709848078965066525023216302990"),
            ),
            (
                bson!({ "$cos": decimal("1") }),
                decimal("0.5403023058681397174009366074429766"),
            ),
            (
                bson!({ "$tan": decimal("1") }),
                decimal("1.557407724654902230506974807458360"),
            ),
            (
                bson!({ "$asin": decimal("1") }),
                decimal("1.570796326794896619231321691639751"),
            ),
            (
                bson!({ "$atan": decimal("1") }),
                decimal("0.7853981633974483096156608458198757"),
            ),
            (
                bson!({ "$sinh": decimal("1") }),
                decimal("1.175201193643801456882381850595601"),
            ),
            (
                bson!({ "$tanh": decimal("1") }),
                decimal("0.7615941559557648881194582826047936"),
            ),
            (
                bson!({ "$asinh": decimal("1") }),
                decimal("0.8813735870195430252326093249797923"),
            ),
            (
                bson!({ "$acosh": decimal("2") }),
                decimal("1.316957896924816708625046347307968"),
            ),
            (
                bson!({ "$atanh": decimal("0.5") }),
                decimal("0.5493061443340548456976226184612629"),
            ),
        ]);
    }

    #[test]
    fn refuses_what_is_out_of_bounds() {
        fails([
            (bson!({ "$acos": 2 }), 50989),
            (bson!({ "$acosh": 0 }), 50989),
            (bson!({ "$sin": f64::INFINITY }), 50989),
            (bson!({ "$atan2": ["x", 1] }), 51044),
            (bson!({ "$atan2": [1, "x"] }), 51045),
            (bson!({ "$ln": 0 }), 28766),
            (bson!({ "$log10": -1 }), 28761),
            (bson!({ "$log": ["x", 2] }), 28756),
            (bson!({ "$log": [2, "x"] }), 28757),
            (bson!({ "$log": [0, 2] }), 28758),
            (bson!({ "$log": [2, 1] }), 28759),
            (bson!({ "$pow": ["x", 2] }), 28762),
            (bson!({ "$pow": [2, "x"] }), 28763),
            (bson!({ "$pow": [0, -1] }), 28764),
            (bson!({ "$sqrt": -1 }), 28714),
            (bson!({ "$exp": "x" }), 28765),
        ]);
    }
}
