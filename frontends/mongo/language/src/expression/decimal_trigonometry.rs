//! Trigonometry of decimals, calculated as the functions in `decimal` are.

use crate::number::Decimal;

use super::decimal::{Calculation, Digits, apply, infinity, one};

pub(super) fn sin(value: Decimal) -> Decimal {
    if value.is_infinite() || value.is_nan() {
        return Decimal::NAN;
    }
    if value.is_zero() {
        return value;
    }
    apply(value, |calculation, x| {
        let x = calculation.reduced(x);
        calculation.sin(x)
    })
}

pub(super) fn cos(value: Decimal) -> Decimal {
    if value.is_infinite() || value.is_nan() {
        return Decimal::NAN;
    }
    apply(value, |calculation, x| {
        let x = calculation.reduced(x);
        calculation.cos(x)
    })
}

pub(super) fn tan(value: Decimal) -> Decimal {
    if value.is_infinite() || value.is_nan() {
        return Decimal::NAN;
    }
    if value.is_zero() {
        return value;
    }
    apply(value, |calculation, x| {
        let x = calculation.reduced(x);
        let (sin, cos) = (calculation.sin(x), calculation.cos(x));
        calculation.divide(sin, cos)
    })
}

pub(super) fn asin(value: Decimal) -> Decimal {
    if value.is_zero() {
        return value;
    }
    apply(value, |calculation, x| {
        let other = other_side(calculation, x);
        calculation.atan2(x, other)
    })
}

pub(super) fn acos(value: Decimal) -> Decimal {
    if value.compare(one()).is_eq() {
        return Decimal::ZERO;
    }
    apply(value, |calculation, x| {
        let other = other_side(calculation, x);
        calculation.atan2(other, x)
    })
}

/// √(1 - x²), as (1 - x)(1 + x) so that no digits are lost near one.
fn other_side(calculation: &mut Calculation, x: Digits) -> Digits {
    let one = calculation.integer(1);
    let (difference, sum) = (calculation.subtract(one, x), calculation.add(one, x));
    let product = calculation.multiply(difference, sum);
    calculation.sqrt(product)
}

pub(super) fn atan(value: Decimal) -> Decimal {
    if value.is_zero() || value.is_nan() {
        return value;
    }
    if value.is_infinite() {
        let negative = value.is_sign_negative();
        return apply(Decimal::ZERO, |calculation, _| {
            let pi = calculation.pi();
            let mut right_angle = calculation.half(pi);
            if negative {
                calculation.context.neg(&mut right_angle);
            }
            right_angle
        });
    }
    apply(value, Calculation::atan)
}

pub(super) fn atan2(y: Decimal, x: Decimal) -> Decimal {
    if y.is_nan() || x.is_nan() {
        return Decimal::NAN;
    }
    // Infinite sides have the direction of finite ones: the other side counts as nothing, or as
    // just as long.
    let (y, x) = match (y.is_infinite(), x.is_infinite()) {
        (false, false) => (y, x),
        (true, true) => (unit(y), unit(x)),
        (true, false) => (unit(y), Decimal::ZERO),
        (false, true) => (zero_like(y), unit(x)),
    };
    apply(y, |calculation, y| {
        calculation.atan2(y, Calculation::wide(x))
    })
}

fn unit(value: Decimal) -> Decimal {
    Decimal::from(if value.is_sign_negative() { -1 } else { 1 })
}

fn zero_like(value: Decimal) -> Decimal {
    Decimal::from_f64(if value.is_sign_negative() { -0.0 } else { 0.0 })
}

pub(super) fn sinh(value: Decimal) -> Decimal {
    if value.is_zero() || value.is_infinite() || value.is_nan() {
        return value;
    }
    apply(value, Calculation::sinh)
}

pub(super) fn cosh(value: Decimal) -> Decimal {
    if value.is_infinite() {
        return infinity(false);
    }
    apply(value, Calculation::cosh)
}

pub(super) fn tanh(value: Decimal) -> Decimal {
    if value.is_zero() || value.is_nan() {
        return value;
    }
    apply(value, Calculation::tanh)
}

pub(super) fn asinh(value: Decimal) -> Decimal {
    if value.is_zero() || value.is_infinite() || value.is_nan() {
        return value;
    }
    apply(value, Calculation::asinh)
}

pub(super) fn acosh(value: Decimal) -> Decimal {
    if value.is_infinite() || value.is_nan() {
        return value;
    }
    apply(value, |calculation, x| calculation.arc_of_root(x, -1))
}

pub(super) fn atanh(value: Decimal) -> Decimal {
    if value.is_zero() || value.is_nan() {
        return value;
    }
    if value.abs().compare(one()).is_eq() {
        return infinity(value.is_sign_negative());
    }
    apply(value, Calculation::atanh)
}
