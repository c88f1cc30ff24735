//! Mathematics: `abs`, `exp`, `log`, `log10`, `round`.

use num_bigint::Sign;

use super::number::{Number, divide};
use super::{Call, Pattern, Returns, Row};
use crate::error::Result;
use crate::types::Decimal;

const SAME: &[(&[Pattern], Returns)] = &[(&[Pattern::Number], Returns::First)];

pub(super) const ROWS: &[Row] = &[
    row("abs", abs),
    row("exp", exp),
    row("log", log),
    row("log10", log10),
    row("round", round),
];

const fn row(name: &'static str, evaluate: super::Evaluate) -> Row {
    Row {
        name,
        legacy: name,
        overloads: SAME,
        takes_null: false,
        evaluate,
    }
}

fn number(call: &Call<'_>) -> Option<Number> {
    Number::read(call.native(0)?, call.bytes(0)?)
}

fn abs(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(number(call).map(|number| {
        if number.is_negative() {
            number.negate().write()
        } else {
            number.write()
        }
    }))
}

fn exp(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    of_real(call, f64::exp)
}

fn log(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    of_real(call, f64::ln)
}

fn log10(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    of_real(call, f64::log10)
}

fn of_real(call: &Call<'_>, function: fn(f64) -> f64) -> Result<Option<Vec<u8>>> {
    let (Some(number), Some(native)) = (number(call), call.native(0)) else {
        return Ok(None);
    };
    let result = Number::Double(function(number.real())).convert(native);
    Ok(result.map(|result| result.write()))
}

/// Halves go up, as Java's `round` does it; those of decimals away from zero.
fn round(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(number) = number(call) else {
        return Ok(None);
    };
    Ok(Some(match number {
        Number::Float(real) => Number::Float((real + 0.5).floor()).write(),
        Number::Double(real) => Number::Double((real + 0.5).floor()).write(),
        Number::Decimal(decimal) if decimal.scale > 0 => {
            let one = Decimal {
                unscaled: num_bigint::BigInt::from_biguint(Sign::Plus, 1u8.into()),
                scale: 0,
            };
            divide(&decimal, &one, 0)?.encode()
        }
        whole => whole.write(),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::called;
    use crate::types::Native;

    #[test]
    fn numbers_are_computed_in_their_types() {
        for (name, native, text, expected) in [
            ("abs", Native::Int, "-5", "5"),
            ("abs", Native::Decimal, "-1.50", "1.50"),
            ("abs", Native::Float, "-1.5", "1.5"),
            ("abs", Native::Int, "null", "null"),
            ("exp", Native::Double, "0", "1.0"),
            ("exp", Native::Int, "1", "2"),
            ("log", Native::Double, "1", "0.0"),
            ("log10", Native::Bigint, "1000", "3"),
            ("round", Native::Double, "2.5", "3.0"),
            ("round", Native::Double, "-2.5", "-2.0"),
            ("round", Native::Decimal, "2.5", "3"),
            ("round", Native::Decimal, "-2.5", "-3"),
            ("round", Native::Float, "1.4", "1.0"),
            ("round", Native::Varint, "7", "7"),
        ] {
            assert_eq!(
                called(name, &[(native.into(), text)]),
                expected,
                "{name}({text})"
            );
        }
        assert!(called("abs", &[(Native::Text.into(), "a")]).starts_with("Invalid call"));
    }
}
