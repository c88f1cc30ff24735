//! Numbers of every type, and what Cassandra does with them.

use num_bigint::{BigInt, Sign};

use crate::error::{CqlError, Result};
use crate::statement::Arithmetic;
use crate::types::{Decimal, MOST_BYTES, Native, check_length};

/// A number, in the width that it is computed in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Tinyint(i8),
    Smallint(i16),
    Int(i32),
    Bigint(i64),
    Varint(BigInt),
    Float(f32),
    Double(f64),
    Decimal(Decimal),
}

/// Quotients have at least so many digits behind the point.
const MIN_DIGITS: i64 = 32;
/// And never more than this.
const MAX_DIGITS: i64 = 1_000;
/// A decimal is written out to no more digits than this.
const MAX_EXPANSION: i64 = 10_000;

impl Number {
    /// Reads a value of this type that is not empty; none if the type is no number.
    pub(crate) fn read(native: Native, bytes: &[u8]) -> Option<Self> {
        Some(match native {
            Native::Tinyint => Self::Tinyint(i8::from_be_bytes(bytes.try_into().ok()?)),
            Native::Smallint => Self::Smallint(i16::from_be_bytes(bytes.try_into().ok()?)),
            Native::Int => Self::Int(i32::from_be_bytes(bytes.try_into().ok()?)),
            Native::Bigint | Native::Counter => {
                Self::Bigint(i64::from_be_bytes(bytes.try_into().ok()?))
            }
            Native::Varint => Self::Varint(BigInt::from_signed_bytes_be(bytes)),
            Native::Float => Self::Float(f32::from_be_bytes(bytes.try_into().ok()?)),
            Native::Double => Self::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
            Native::Decimal => Self::Decimal(Decimal::decode(bytes).ok()?),
            _ => return None,
        })
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        match self {
            Self::Tinyint(number) => number.to_be_bytes().into(),
            Self::Smallint(number) => number.to_be_bytes().into(),
            Self::Int(number) => number.to_be_bytes().into(),
            Self::Bigint(number) => number.to_be_bytes().into(),
            Self::Varint(number) => number.to_signed_bytes_be(),
            Self::Float(number) => number.to_be_bytes().into(),
            Self::Double(number) => number.to_be_bytes().into(),
            Self::Decimal(number) => number.encode(),
        }
    }

    /// The number in another type: integers wrap and reals are cut, as Java does it.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "narrowing is what is asked for"
    )]
    pub(crate) fn convert(&self, native: Native) -> Option<Self> {
        Some(match native {
            Native::Tinyint => Self::Tinyint(self.integer() as i8),
            Native::Smallint => Self::Smallint(self.integer() as i16),
            Native::Int => match self {
                Self::Float(number) => Self::Int(*number as i32),
                Self::Double(number) => Self::Int(*number as i32),
                _ => Self::Int(self.integer() as i32),
            },
            Native::Bigint | Native::Counter => Self::Bigint(self.integer()),
            Native::Varint => Self::Varint(self.big_integer()),
            Native::Float => match self {
                Self::Float(number) => Self::Float(*number),
                _ => Self::Float(self.real() as f32),
            },
            Native::Double => Self::Double(self.real()),
            Native::Decimal => Self::Decimal(self.decimal()?),
            _ => return None,
        })
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "reals beyond the range become its ends"
    )]
    fn integer(&self) -> i64 {
        match self {
            Self::Tinyint(number) => i64::from(*number),
            Self::Smallint(number) => i64::from(*number),
            Self::Int(number) => i64::from(*number),
            Self::Bigint(number) => *number,
            Self::Float(number) => *number as i64,
            Self::Double(number) => *number as i64,
            Self::Varint(_) | Self::Decimal(_) => low_bits(&self.big_integer()),
        }
    }

    fn big_integer(&self) -> BigInt {
        match self {
            Self::Varint(number) => number.clone(),
            Self::Decimal(decimal) => whole(decimal),
            Self::Float(_) | Self::Double(_) => {
                self.decimal().map_or_else(BigInt::default, |d| whole(&d))
            }
            _ => BigInt::from(self.integer()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "reals are near, not equal")]
    pub(crate) fn real(&self) -> f64 {
        match self {
            Self::Float(number) => f64::from(*number),
            Self::Double(number) => *number,
            Self::Varint(number) => number.to_string().parse().unwrap_or(f64::NAN),
            Self::Decimal(decimal) => decimal.to_string().parse().unwrap_or(f64::NAN),
            _ => self.integer() as f64,
        }
    }

    /// None for reals that are no numbers.
    pub(crate) fn decimal(&self) -> Option<Decimal> {
        match self {
            Self::Decimal(decimal) => Some(decimal.clone()),
            Self::Float(number) => Decimal::parse(&format!("{number:?}")).ok(),
            Self::Double(number) => Decimal::parse(&format!("{number:?}")).ok(),
            _ => Some(Decimal {
                unscaled: self.big_integer(),
                scale: 0,
            }),
        }
    }

    /// Both in the type of the result, which is no longer than numbers may be.
    pub(crate) fn operate(&self, operator: Arithmetic, other: &Self) -> Result<Self> {
        let result = self.operate_unbounded(operator, other)?;
        let bits = match &result {
            Self::Varint(number) => number.bits(),
            Self::Decimal(decimal) => decimal.unscaled.bits(),
            Self::Tinyint(_)
            | Self::Smallint(_)
            | Self::Int(_)
            | Self::Bigint(_)
            | Self::Float(_)
            | Self::Double(_) => 0,
        };
        check_length(bits / 8 < MOST_BYTES as u64)?;
        Ok(result)
    }

    fn operate_unbounded(&self, operator: Arithmetic, other: &Self) -> Result<Self> {
        use Arithmetic::{Divide, Remainder};
        let zero = || CqlError::invalid("/ by zero");
        macro_rules! integers {
            ($kind:ident, $left:expr, $right:expr) => {{
                if matches!(operator, Divide | Remainder) && *$right == 0 {
                    return Err(zero());
                }
                Self::$kind(match operator {
                    Arithmetic::Add => $left.wrapping_add(*$right),
                    Arithmetic::Subtract => $left.wrapping_sub(*$right),
                    Arithmetic::Multiply => $left.wrapping_mul(*$right),
                    Divide => $left.wrapping_div(*$right),
                    Remainder => $left.wrapping_rem(*$right),
                })
            }};
        }
        macro_rules! reals {
            ($kind:ident, $left:expr, $right:expr) => {
                Self::$kind(match operator {
                    Arithmetic::Add => $left + $right,
                    Arithmetic::Subtract => $left - $right,
                    Arithmetic::Multiply => $left * $right,
                    Divide => $left / $right,
                    Remainder => $left % $right,
                })
            };
        }
        Ok(match (self, other) {
            (Self::Tinyint(left), Self::Tinyint(right)) => integers!(Tinyint, left, right),
            (Self::Smallint(left), Self::Smallint(right)) => integers!(Smallint, left, right),
            (Self::Int(left), Self::Int(right)) => integers!(Int, left, right),
            (Self::Bigint(left), Self::Bigint(right)) => integers!(Bigint, left, right),
            (Self::Float(left), Self::Float(right)) => reals!(Float, left, right),
            (Self::Double(left), Self::Double(right)) => reals!(Double, left, right),
            (Self::Varint(left), Self::Varint(right)) => {
                if matches!(operator, Divide | Remainder) && right.sign() == Sign::NoSign {
                    return Err(zero());
                }
                reals!(Varint, left, right)
            }
            (left, right) => {
                let decimal = |number: &Self| {
                    let what = if number.real().is_nan() {
                        "A NaN"
                    } else {
                        "An infinite number"
                    };
                    let words = || format!("{what} cannot be converted into a decimal");
                    let none = || CqlError::invalid(words());
                    number.decimal().ok_or_else(none)
                };
                Self::Decimal(operate_decimals(
                    operator,
                    &decimal(left)?,
                    &decimal(right)?,
                )?)
            }
        })
    }

    #[must_use]
    pub(crate) fn negate(&self) -> Self {
        match self {
            Self::Tinyint(number) => Self::Tinyint(number.wrapping_neg()),
            Self::Smallint(number) => Self::Smallint(number.wrapping_neg()),
            Self::Int(number) => Self::Int(number.wrapping_neg()),
            Self::Bigint(number) => Self::Bigint(number.wrapping_neg()),
            Self::Varint(number) => Self::Varint(-number),
            Self::Float(number) => Self::Float(-number),
            Self::Double(number) => Self::Double(-number),
            Self::Decimal(decimal) => Self::Decimal(Decimal {
                unscaled: -&decimal.unscaled,
                scale: decimal.scale,
            }),
        }
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::Float(number) => *number < 0.0,
            Self::Double(number) => *number < 0.0,
            Self::Decimal(decimal) => decimal.unscaled.sign() == Sign::Minus,
            other => other.big_integer().sign() == Sign::Minus,
        }
    }
}

fn low_bits(number: &BigInt) -> i64 {
    let bytes = number.to_signed_bytes_be();
    let fill = if number.sign() == Sign::Minus {
        0xff
    } else {
        0
    };
    let mut last = [fill; 8];
    for (to, from) in last.iter_mut().rev().zip(bytes.iter().rev()) {
        *to = *from;
    }
    i64::from_be_bytes(last)
}

fn power_of_ten(exponent: i64) -> Option<BigInt> {
    let exponent = u32::try_from(exponent).ok()?;
    (i64::from(exponent) <= MAX_EXPANSION).then(|| BigInt::from(10).pow(exponent))
}

/// The digits before the point.
fn whole(decimal: &Decimal) -> BigInt {
    let scale = i64::from(decimal.scale);
    let power = power_of_ten(scale.abs());
    match (scale > 0, power) {
        (true, Some(power)) => &decimal.unscaled / power,
        (false, Some(power)) => &decimal.unscaled * power,
        // So small that nothing is left; so large that nothing can be done.
        (_, None) => BigInt::default(),
    }
}

fn rescaled(decimal: &Decimal, scale: i64) -> Result<BigInt> {
    let power = power_of_ten(scale - i64::from(decimal.scale));
    let power = power.ok_or_else(|| CqlError::invalid("too many digits"))?;
    Ok(&decimal.unscaled * power)
}

fn of_scale(unscaled: BigInt, scale: i64) -> Decimal {
    let scale = i32::try_from(scale).unwrap_or(i32::MAX);
    Decimal { unscaled, scale }
}

fn operate_decimals(operator: Arithmetic, left: &Decimal, right: &Decimal) -> Result<Decimal> {
    let scale = i64::from(left.scale.max(right.scale));
    let zero = || CqlError::invalid("/ by zero");
    Ok(match operator {
        Arithmetic::Add => of_scale(rescaled(left, scale)? + rescaled(right, scale)?, scale),
        Arithmetic::Subtract => of_scale(rescaled(left, scale)? - rescaled(right, scale)?, scale),
        Arithmetic::Multiply => of_scale(
            &left.unscaled * &right.unscaled,
            i64::from(left.scale) + i64::from(right.scale),
        ),
        Arithmetic::Remainder => {
            let divisor = rescaled(right, scale)?;
            if divisor.sign() == Sign::NoSign {
                return Err(zero());
            }
            of_scale(rescaled(left, scale)? % divisor, scale)
        }
        Arithmetic::Divide => {
            if right.unscaled.sign() == Sign::NoSign {
                return Err(zero());
            }
            // Enough digits behind the first one that counts.
            let size = |d: &Decimal| {
                i64::try_from(d.unscaled.magnitude().to_string().len()).unwrap_or(i64::MAX)
                    - i64::from(d.scale)
            };
            let first = size(left) - size(right);
            let digits = (MIN_DIGITS - first)
                .max(scale)
                .clamp(MIN_DIGITS, MAX_DIGITS);
            strip_zeros(divide(left, right, digits)?)
        }
    })
}

/// The quotient with so many digits behind the point, the last one rounded.
pub(super) fn divide(left: &Decimal, right: &Decimal, digits: i64) -> Result<Decimal> {
    let shift = digits + i64::from(right.scale) - i64::from(left.scale);
    let too_many = || CqlError::invalid("too many digits");
    let power = power_of_ten(shift.abs()).ok_or_else(too_many)?;
    let (dividend, divisor) = if shift >= 0 {
        (&left.unscaled * power, right.unscaled.clone())
    } else {
        (left.unscaled.clone(), &right.unscaled * power)
    };
    let (quotient, rest) = (&dividend / &divisor, &dividend % &divisor);
    let is_up = rest.magnitude() * 2u8 >= *divisor.magnitude();
    let is_negative = (dividend.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    let rounded = match (is_up, is_negative) {
        (true, true) => quotient - 1,
        (true, false) => quotient + 1,
        (false, _) => quotient,
    };
    Ok(of_scale(rounded, digits))
}

fn strip_zeros(decimal: Decimal) -> Decimal {
    let Decimal { unscaled, scale } = decimal;
    if unscaled.sign() == Sign::NoSign {
        return of_scale(unscaled, 0);
    }
    let text = unscaled.to_string();
    let kept = text.trim_end_matches('0');
    let zeros = i64::try_from(text.len() - kept.len()).unwrap_or(0);
    let unscaled = BigInt::parse_bytes(kept.as_bytes(), 10).unwrap_or(unscaled);
    of_scale(unscaled, i64::from(scale) - zeros)
}

/// The type of the result of an operator between numbers of these types.
pub(crate) fn result_type(left: Native, right: Native) -> Option<Native> {
    let size = |native: Native| {
        Some(match native {
            Native::Tinyint => 1,
            Native::Smallint => 2,
            Native::Int | Native::Float => 4,
            Native::Bigint | Native::Double | Native::Counter => 8,
            Native::Varint | Native::Decimal => 16,
            _ => return None,
        })
    };
    let is_real = |native| matches!(native, Native::Float | Native::Double | Native::Decimal);
    let size = size(left)?.max(size(right)?);
    Some(if is_real(left) || is_real(right) {
        match size {
            1..=4 => Native::Float,
            5..=8 => Native::Double,
            _ => Native::Decimal,
        }
    } else {
        match size {
            1 => Native::Tinyint,
            2 => Native::Smallint,
            4 => Native::Int,
            8 => Native::Bigint,
            _ => Native::Varint,
        }
    })
}

pub(crate) fn is_number(native: Native) -> bool {
    result_type(native, native).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Number {
        Number::Decimal(Decimal::parse(text).unwrap())
    }

    #[test]
    fn operators_work_in_every_width() {
        use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
        let big = |number: i64| Number::Varint(BigInt::from(number));
        for (left, operator, right, expected) in [
            (
                Number::Tinyint(127),
                Add,
                Number::Tinyint(1),
                Number::Tinyint(-128),
            ),
            (Number::Int(7), Divide, Number::Int(2), Number::Int(3)),
            (Number::Int(-7), Remainder, Number::Int(2), Number::Int(-1)),
            (
                Number::Double(1.5),
                Multiply,
                Number::Double(2.0),
                Number::Double(3.0),
            ),
            (big(5), Subtract, big(7), big(-2)),
            (decimal("1.10"), Add, decimal("2"), decimal("3.10")),
            (decimal("1"), Divide, decimal("4"), decimal("0.25")),
            (decimal("-10"), Divide, decimal("4"), decimal("-2.5")),
            (decimal("7.5"), Remainder, decimal("2"), decimal("1.5")),
        ] {
            assert_eq!(
                left.operate(operator, &right),
                Ok(expected),
                "{left:?} {right:?}"
            );
        }
        let third = decimal("1").operate(Divide, &decimal("3")).unwrap();
        assert_eq!(third, decimal(&format!("0.{}", "3".repeat(32))));
        for zero in [Number::Int(0), big(0), decimal("0.0")] {
            assert!(zero.operate(Divide, &zero).is_err());
        }
    }

    #[test]
    fn conversions_are_those_of_java() {
        for (number, native, expected) in [
            (Number::Int(300), Native::Tinyint, Number::Tinyint(44)),
            (Number::Double(-2.9), Native::Int, Number::Int(-2)),
            (Number::Double(1e20), Native::Int, Number::Int(i32::MAX)),
            (Number::Float(2.5), Native::Decimal, decimal("2.5")),
            (decimal("12.9"), Native::Bigint, Number::Bigint(12)),
            (Number::Bigint(5), Native::Double, Number::Double(5.0)),
            (
                decimal("1e3"),
                Native::Varint,
                Number::Varint(BigInt::from(1000)),
            ),
        ] {
            assert_eq!(number.convert(native), Some(expected), "{number:?}");
        }
        assert_eq!(Number::Double(f64::NAN).convert(Native::Decimal), None);
    }

    #[test]
    fn results_take_the_wider_type() {
        for (left, right, expected) in [
            (Native::Tinyint, Native::Tinyint, Native::Tinyint),
            (Native::Tinyint, Native::Int, Native::Int),
            (Native::Int, Native::Float, Native::Float),
            (Native::Bigint, Native::Float, Native::Double),
            (Native::Varint, Native::Double, Native::Decimal),
            (Native::Varint, Native::Int, Native::Varint),
        ] {
            assert_eq!(result_type(left, right), Some(expected));
        }
        assert_eq!(result_type(Native::Text, Native::Int), None);
    }
}
