//! Functions of decimals beyond the four operations: roots, powers, logarithms, trigonometry.
//!
//! They are calculated with 60 digits or more and rounded once to the 34 that a decimal has.

use dec::{Context, Decimal as Wide};

use crate::number::Decimal;

/// Units of three digits: 60 digits, of which the last 26 are spare.
const UNITS: usize = 20;

/// Below this, functions that would lose digits by subtracting near numbers use their series.
const SMALL: &str = "1E-9";

const PI: &str = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620\
                  899862803482534211706798214808651";

pub(super) type Digits = Wide<UNITS>;

/// A calculation: its context holds the precision and the range of exponents.
pub(super) struct Calculation {
    pub(super) context: Context<Digits>,
}

impl Calculation {
    pub(super) fn new() -> Self {
        let mut context = Context::<Digits>::default();
        // The library's functions ask for a range below a million. Failing to set it leaves the
        // default, with which they answer NaN.
        let limits = context
            .set_max_exponent(99_999)
            .and(context.set_min_exponent(-99_999));
        debug_assert!(limits.is_ok());
        Self { context }
    }

    pub(super) fn wide(value: Decimal) -> Digits {
        Digits::from(value.into_inner())
    }

    pub(super) fn constant(&mut self, text: &str) -> Digits {
        self.context.parse(text).unwrap_or_else(|_| Digits::nan())
    }

    pub(super) fn integer(&mut self, value: i32) -> Digits {
        self.context.from_i32(value)
    }

    pub(super) fn pi(&mut self) -> Digits {
        self.constant(PI)
    }

    pub(super) fn add(&mut self, mut left: Digits, right: Digits) -> Digits {
        self.context.add(&mut left, &right);
        left
    }

    pub(super) fn subtract(&mut self, mut left: Digits, right: Digits) -> Digits {
        self.context.sub(&mut left, &right);
        left
    }

    pub(super) fn multiply(&mut self, mut left: Digits, right: Digits) -> Digits {
        self.context.mul(&mut left, &right);
        left
    }

    pub(super) fn divide(&mut self, mut left: Digits, right: Digits) -> Digits {
        self.context.div(&mut left, &right);
        left
    }

    pub(super) fn half(&mut self, value: Digits) -> Digits {
        let two = self.integer(2);
        self.divide(value, two)
    }

    pub(super) fn sqrt(&mut self, mut value: Digits) -> Digits {
        self.context.sqrt(&mut value);
        value
    }

    pub(super) fn ln(&mut self, mut value: Digits) -> Digits {
        self.context.ln(&mut value);
        value
    }

    pub(super) fn exp(&mut self, mut value: Digits) -> Digits {
        self.context.exp(&mut value);
        value
    }

    pub(super) fn is_below(&mut self, value: Digits, limit: &str) -> bool {
        let limit = self.constant(limit);
        let mut magnitude = value;
        self.context.abs(&mut magnitude);
        self.context
            .partial_cmp(&magnitude, &limit)
            .is_some_and(std::cmp::Ordering::is_lt)
    }

    /// The sum of `x^k * c(k)` for the powers `k = first, first + 2, …`, where each term is the one
    /// before times `x² * factor(k)`.
    pub(super) fn series(
        &mut self,
        x: Digits,
        first: Digits,
        factor: impl Fn(i32) -> (i32, i32),
    ) -> Digits {
        let square = self.multiply(x, x);
        let (mut term, mut sum) = (first, first);
        for step in 1..200 {
            let (numerator, denominator) = factor(step);
            let (numerator, denominator) = (self.integer(numerator), self.integer(denominator));
            term = self.multiply(term, square);
            term = self.multiply(term, numerator);
            term = self.divide(term, denominator);
            let next = self.add(sum, term);
            if term.is_zero()
                || self.context.partial_cmp(&next, &sum) == Some(std::cmp::Ordering::Equal)
            {
                break;
            }
            sum = next;
        }
        sum
    }

    pub(super) fn sin(&mut self, x: Digits) -> Digits {
        self.series(x, x, |k| (-1, 2 * k * (2 * k + 1)))
    }

    pub(super) fn cos(&mut self, x: Digits) -> Digits {
        let one = self.integer(1);
        self.series(x, one, |k| (-1, 2 * k * (2 * k - 1)))
    }

    /// The angle between -π and π that stands for this one.
    pub(super) fn reduced(&mut self, mut x: Digits) -> Digits {
        // The digits of π that are kept decide how large an angle still means something.
        let mut context = Context::<Wide<40>>::default();
        let mut turn = context.parse(PI).unwrap_or_else(|_| Wide::nan());
        let two = context.from_i32(2);
        context.mul(&mut turn, &two);
        let mut angle = context.to_width(x);
        context.rem_near(&mut angle, &turn);
        x = self.context.to_width(angle);
        x
    }

    pub(super) fn atan(&mut self, x: Digits) -> Digits {
        let one = self.integer(1);
        let mut magnitude = x;
        self.context.abs(&mut magnitude);
        let inverted = self
            .context
            .partial_cmp(&magnitude, &one)
            .is_some_and(std::cmp::Ordering::is_gt);
        let mut reduced = if inverted {
            self.divide(one, magnitude)
        } else {
            magnitude
        };
        // atan(x) = 2 atan(x / (1 + √(1 + x²))); four times leaves an angle below 0.05.
        for _ in 0..4 {
            let square = self.multiply(reduced, reduced);
            let sum = self.add(square, one);
            let root = self.sqrt(sum);
            let divisor = self.add(one, root);
            reduced = self.divide(reduced, divisor);
        }
        let mut result = self.atan_series(reduced);
        let sixteen = self.integer(16);
        result = self.multiply(result, sixteen);
        if inverted {
            let pi = self.pi();
            let right_angle = self.half(pi);
            result = self.subtract(right_angle, result);
        }
        if x.is_negative() {
            self.context.neg(&mut result);
        }
        result
    }

    /// x - x³/3 + x⁵/5 - …
    pub(super) fn atan_series(&mut self, x: Digits) -> Digits {
        self.series(x, x, |k| (1 - 2 * k, 2 * k + 1))
    }

    pub(super) fn atan2(&mut self, y: Digits, x: Digits) -> Digits {
        let pi = self.pi();
        if x.is_zero() || y.is_zero() {
            return match (x.is_zero(), x.is_negative() || is_signed_zero(&x)) {
                (true, _) if !y.is_zero() => {
                    let mut right_angle = self.half(pi);
                    if y.is_negative() {
                        self.context.neg(&mut right_angle);
                    }
                    right_angle
                }
                (_, false) => y,
                (_, true) if is_signed_zero(&y) => {
                    let mut negative = pi;
                    self.context.neg(&mut negative);
                    negative
                }
                (_, true) => pi,
            };
        }
        let slope = self.divide(y, x);
        let angle = self.atan(slope);
        match (x.is_negative(), y.is_negative()) {
            (false, _) => angle,
            (true, false) => self.add(angle, pi),
            (true, true) => self.subtract(angle, pi),
        }
    }

    pub(super) fn sinh(&mut self, x: Digits) -> Digits {
        if self.is_below(x, SMALL) {
            return self.series(x, x, |k| (1, 2 * k * (2 * k + 1)));
        }
        let (up, down) = self.exponentials(x);
        let difference = self.subtract(up, down);
        self.half(difference)
    }

    pub(super) fn cosh(&mut self, x: Digits) -> Digits {
        let (up, down) = self.exponentials(x);
        let sum = self.add(up, down);
        self.half(sum)
    }

    pub(super) fn exponentials(&mut self, x: Digits) -> (Digits, Digits) {
        let mut negative = x;
        self.context.neg(&mut negative);
        (self.exp(x), self.exp(negative))
    }

    pub(super) fn tanh(&mut self, x: Digits) -> Digits {
        if !self.is_below(x, "100") {
            return self.integer(if x.is_negative() { -1 } else { 1 });
        }
        let (sinh, cosh) = (self.sinh(x), self.cosh(x));
        self.divide(sinh, cosh)
    }

    /// ln(|x| + √(x² + 1)), with the sign of x.
    pub(super) fn asinh(&mut self, x: Digits) -> Digits {
        if self.is_below(x, SMALL) {
            return self.series(x, x, |k| (-(2 * k - 1) * (2 * k - 1), 2 * k * (2 * k + 1)));
        }
        let mut magnitude = x;
        self.context.abs(&mut magnitude);
        let mut result = self.arc_of_root(magnitude, 1);
        if x.is_negative() {
            self.context.neg(&mut result);
        }
        result
    }

    /// ln(x + √(x² + shift))
    pub(super) fn arc_of_root(&mut self, x: Digits, shift: i32) -> Digits {
        let shift = self.integer(shift);
        let square = self.multiply(x, x);
        let sum = self.add(square, shift);
        let root = self.sqrt(sum);
        let sum = self.add(x, root);
        self.ln(sum)
    }

    pub(super) fn atanh(&mut self, x: Digits) -> Digits {
        if self.is_below(x, SMALL) {
            return self.series(x, x, |k| (2 * k - 1, 2 * k + 1));
        }
        let one = self.integer(1);
        let (sum, difference) = (self.add(one, x), self.subtract(one, x));
        let quotient = self.divide(sum, difference);
        let logarithm = self.ln(quotient);
        self.half(logarithm)
    }
}

fn is_signed_zero(value: &Digits) -> bool {
    value.is_zero() && value.to_decimal128().is_signed()
}

pub(super) fn apply(
    value: Decimal,
    function: impl Fn(&mut Calculation, Digits) -> Digits,
) -> Decimal {
    let mut calculation = Calculation::new();
    let result = function(&mut calculation, Calculation::wide(value));
    result.to_decimal128().into()
}

pub(super) fn one() -> Decimal {
    Decimal::from(1)
}

pub(super) fn infinity(negative: bool) -> Decimal {
    Decimal::from_f64(if negative {
        f64::NEG_INFINITY
    } else {
        f64::INFINITY
    })
}

/// The square root, rounded once; the library finds the exponent that IEEE 754 prefers.
pub(super) fn sqrt(value: Decimal) -> Decimal {
    let mut context = Context::<Wide<12>>::default();
    let limits = context.set_precision(34).and(Ok(())).and(
        context
            .set_max_exponent(6144)
            .and(context.set_min_exponent(-6143))
            .or(Ok(())),
    );
    debug_assert!(limits.is_ok());
    let mut wide = Wide::<12>::from(value.into_inner());
    context.sqrt(&mut wide);
    wide.to_decimal128().into()
}

/// What remains of a division whose quotient has more digits than a decimal: calculated with as
/// many digits as the largest decimal has.
pub(super) fn modulo(value: Decimal, divisor: Decimal) -> Decimal {
    let mut context = Context::<Wide<4200>>::default();
    let mut rest = Wide::<4200>::from(value.into_inner());
    context.rem(&mut rest, &Wide::<4200>::from(divisor.into_inner()));
    rest.to_decimal128().into()
}

/// A result that is an integer is written as one.
fn plain(value: Decimal) -> Decimal {
    match value.to_i64_exact() {
        Some(whole) if whole != 0 => Decimal::from(whole),
        _ => value,
    }
}

pub(super) fn exp(value: Decimal) -> Decimal {
    plain(apply(value, Calculation::exp))
}

pub(super) fn ln(value: Decimal) -> Decimal {
    plain(apply(value, Calculation::ln))
}

pub(super) fn log10(value: Decimal) -> Decimal {
    plain(apply(value, |calculation, mut value| {
        calculation.context.log10(&mut value);
        value
    }))
}

pub(super) fn log(value: Decimal, base: Decimal) -> Decimal {
    // Both logarithms are rounded before they are divided, as the reference server does.
    ln(value).over(ln(base))
}

/// A power, with all 34 digits even where fewer would do.
pub(super) fn pow(base: Decimal, exponent: Decimal) -> Decimal {
    if exponent.is_zero() || base.compare(one()).is_eq() {
        return one();
    }
    if base.is_nan() || exponent.is_nan() {
        return Decimal::NAN;
    }
    let power = apply(base, |calculation, base| {
        let mut result = base;
        calculation
            .context
            .pow(&mut result, &Calculation::wide(exponent));
        result
    });
    padded(power)
}

/// The same number with as many digits as a decimal can have.
fn padded(value: Decimal) -> Decimal {
    let inner = value.into_inner();
    if inner.is_zero() {
        return Decimal::parse("0E-6176").unwrap_or(value);
    }
    if !inner.is_finite() {
        return value;
    }
    let missing = 34 - i32::try_from(inner.digits()).unwrap_or(34);
    let mut context = Context::<dec::Decimal128>::default();
    let mut quantum = dec::Decimal128::ONE;
    context.set_exponent(&mut quantum, inner.exponent() - missing);
    let padded = context.quantize(inner, quantum);
    if padded.is_nan() {
        value
    } else {
        padded.into()
    }
}
