//! Decimal numbers of 34 digits: the arithmetic of `dec`, the bytes of BSON.

use std::{cmp::Ordering, fmt};

use bson::Decimal128;
use dec::{Context, Rounding};

/// What is added to an exponent in BSON's bytes.
const EXPONENT_BIAS: i32 = 6176;
/// The bits of a coefficient, below the exponent.
const COEFFICIENT_BITS: u32 = 113;
/// Coefficients have 34 digits; a larger one in BSON's bytes stands for zero.
const COEFFICIENT_LIMIT: u128 = 10_u128.pow(34);
const SIGN: u128 = 1 << 127;
const INFINITY: u128 = 0b11110 << 122;
const NAN: u128 = 0b11111 << 122;
/// Both leading bits of the exponent: not a number, infinite, or a coefficient beyond the limit.
const SPECIAL: u128 = 0b11 << 125;

/// A decimal number with IEEE 754 semantics.
#[derive(Clone, Copy, Debug)]
pub struct Decimal(dec::Decimal128);

impl Decimal {
    /// Zero.
    pub const ZERO: Self = Self(dec::Decimal128::ZERO);
    /// Not a number.
    pub const NAN: Self = Self(dec::Decimal128::NAN);

    /// Reads a number as people write it: `-1.50E+3`, `Infinity`, `NaN`. Digits beyond 34 are
    /// rounded. None if the text is no number, or lies beyond the range of decimals.
    pub fn parse(text: &str) -> Option<Self> {
        // The library takes payloads and signals, which MongoDB does not.
        let letters = text.trim_start_matches(['+', '-']);
        if !letters.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && !["nan", "inf", "infinity"].contains(&letters.to_ascii_lowercase().as_str())
        {
            return None;
        }
        let mut context = Context::<dec::Decimal128>::default();
        let value = context.parse(text).ok()?;
        (!context.status().overflow()).then_some(Self(value))
    }

    /// Reads BSON's bytes. Every pattern of bits is a number.
    pub fn from_bson(value: Decimal128) -> Self {
        let bits = u128::from_le_bytes(value.bytes());
        let magnitude = if bits & NAN == NAN {
            dec::Decimal128::NAN
        } else if bits & NAN == INFINITY {
            infinity()
        } else if bits & SPECIAL == SPECIAL {
            // The exponent lies two bits lower; the coefficient is beyond the limit, so zero.
            from_parts(0, exponent_of(bits >> (COEFFICIENT_BITS - 2)))
        } else {
            let coefficient = bits & ((1 << COEFFICIENT_BITS) - 1);
            let canonical = if coefficient < COEFFICIENT_LIMIT {
                coefficient
            } else {
                0
            };
            from_parts(canonical, exponent_of(bits >> COEFFICIENT_BITS))
        };
        Self(with_sign(magnitude, bits & SIGN != 0))
    }

    /// The canonical bytes of the number.
    pub fn to_bson(self) -> Decimal128 {
        let magnitude = if self.0.is_nan() {
            NAN
        } else if self.0.is_infinite() {
            INFINITY
        } else {
            let exponent = u128::from((self.0.exponent() + EXPONENT_BIAS).unsigned_abs());
            (exponent << COEFFICIENT_BITS) | self.0.coefficient().unsigned_abs()
        };
        let sign = if self.0.is_signed() { SIGN } else { 0 };
        Decimal128::from_bytes((magnitude | sign).to_le_bytes())
    }

    /// The decimal of a double, rounded to the 15 digits that a double is sure to have. It keeps
    /// all 15: 1.5 becomes 1.50000000000000.
    pub fn from_f64(value: f64) -> Self {
        Self::from_digits_of(value, 14)
    }

    /// The decimal nearest to a double, with all 34 digits.
    pub fn from_f64_nearest(value: f64) -> Self {
        let Self(exact) = Self::from_digits_of(value, 33);
        Self(Context::<dec::Decimal128>::default().reduce(exact))
    }

    fn from_digits_of(value: f64, decimals: usize) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        let magnitude = if value.is_infinite() {
            infinity()
        } else if value == 0.0 {
            dec::Decimal128::ZERO
        } else {
            // Formatting with a precision is exact, so this rounds once, ties to even.
            let digits = format!("{:.*e}", decimals, value.abs());
            digits.parse().unwrap_or(dec::Decimal128::NAN)
        };
        Self(with_sign(magnitude, value.is_sign_negative()))
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        if self.is_nan() {
            return f64::NAN;
        }
        self.0.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The double nearest to this number among those between it and zero, and whether it is the
    /// same number.
    pub fn to_f64_towards_zero(self) -> (f64, bool) {
        let magnitude = self.abs();
        let nearest = magnitude.to_f64();
        let (truncated, exact) = match magnitude.compare_f64(nearest) {
            Ordering::Equal => (nearest, true),
            Ordering::Greater => (nearest, false),
            // Rounding went up, over the largest double perhaps.
            Ordering::Less => (nearest.next_down(), false),
        };
        (
            truncated.copysign(if self.0.is_signed() { -1.0 } else { 1.0 }),
            exact,
        )
    }

    /// This number as an integer, if it is one and fits.
    pub fn to_i64_exact(self) -> Option<i64> {
        self.0.is_finite().then_some(())?;
        let whole = self.round_to_integer(Rounding::Down);
        (whole.compare(self) == Ordering::Equal).then_some(())?;
        // Beyond 34 digits it kept an exponent, and is far beyond 64 bits.
        (whole.0.exponent() == 0).then_some(())?;
        i64::try_from(whole.0.coefficient()).ok()
    }

    /// This number rounded to an integer, in the given way. Infinite numbers and NaN stay.
    pub fn round_to_integer(self, rounding: Rounding) -> Self {
        let mut context = Context::<dec::Decimal128>::default();
        context.set_rounding(rounding);
        let rounded = context.round(self.0);
        // A number such as 1E+3 keeps its form; it must read as the integer that it is.
        if rounded.exponent() > 0 && rounded.is_finite() {
            let quantized = context.quantize(rounded, dec::Decimal128::ZERO);
            if quantized.is_finite() {
                return Self(quantized);
            }
        }
        Self(rounded)
    }

    /// The integer nearest to zero that is within one of this number; beyond the range of integers
    /// the largest or the smallest, and 0 for NaN.
    pub fn to_i64_saturating(self, rounding: Rounding) -> i64 {
        if self.is_nan() {
            return 0;
        }
        self.round_to_integer(rounding).to_i64_exact().unwrap_or({
            if self.0.is_signed() {
                i64::MIN
            } else {
                i64::MAX
            }
        })
    }

    /// Whether this is not a number.
    pub fn is_nan(self) -> bool {
        self.0.is_nan()
    }

    /// Whether this is one of the two infinite numbers.
    pub fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }

    /// Whether this is zero, of either sign.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Whether the sign is negative: so of −0, too.
    pub fn is_sign_negative(self) -> bool {
        self.0.is_signed()
    }

    /// The number without its sign.
    pub fn abs(self) -> Self {
        Self(with_sign(self.0, false))
    }

    /// The order by value. NaN is below all numbers, and equal to itself.
    pub fn compare(self, other: Self) -> Ordering {
        match (self.is_nan(), other.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => Context::<dec::Decimal128>::default()
                .partial_cmp(self.0, other.0)
                .unwrap_or(Ordering::Equal),
        }
    }

    /// The order by value between a decimal and a double, neither of which is rounded.
    pub fn compare_f64(self, other: f64) -> Ordering {
        match (self.is_nan(), other.is_nan()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        // Rounding keeps the order: only what rounds to the same double needs a closer look.
        let nearest = self.to_f64();
        match nearest.partial_cmp(&other) {
            Some(Ordering::Equal) | None if other.is_finite() => self.compare_finite(other),
            Some(Ordering::Equal) | None if self.is_infinite() => Ordering::Equal,
            // A finite decimal beyond all doubles.
            Some(Ordering::Equal) | None if other > 0.0 => Ordering::Less,
            Some(Ordering::Equal) | None => Ordering::Greater,
            Some(order) => order,
        }
    }

    /// Compares with a finite double that has the same sign, if any, by all of the double's digits.
    fn compare_finite(self, other: f64) -> Ordering {
        // A double has up to 767 digits. The first 34 are rounded down into a decimal.
        let digits = format!("{:.766e}", other.abs());
        let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
        let (kept, rest) = mantissa.split_at_checked(35).unwrap_or((mantissa, ""));
        let truncated = Self::parse(&format!("{kept}e{exponent}")).unwrap_or(Self::NAN);
        let magnitudes = match self.abs().compare(truncated) {
            Ordering::Equal if rest.bytes().any(|digit| digit != b'0') => Ordering::Less,
            order => order,
        };
        if self.0.is_negative() {
            magnitudes.reverse()
        } else {
            magnitudes
        }
    }

    /// The digits of a finite number other than zero as a coefficient of exactly 34 digits, and the
    /// power of ten of the first one.
    pub(crate) fn normalized(self) -> (u128, i32) {
        let mut coefficient = self.0.coefficient().unsigned_abs();
        let mut exponent = self.0.exponent() + 33;
        while coefficient != 0 && coefficient < COEFFICIENT_LIMIT / 10 {
            coefficient *= 10;
            exponent -= 1;
        }
        (coefficient, exponent)
    }

    /// The number in the form that the library calculates with.
    pub fn into_inner(self) -> dec::Decimal128 {
        self.0
    }
}

impl From<dec::Decimal128> for Decimal {
    fn from(value: dec::Decimal128) -> Self {
        Self(value)
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Self(value.into())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bson().fmt(formatter)
    }
}

macro_rules! arithmetic {
    ($($operation:ident = $function:ident $described:literal,)*) => {
        impl Decimal {$(
            #[doc = $described]
            pub fn $operation(self, other: Self) -> Self {
                Self(Context::<dec::Decimal128>::default().$function(self.0, other.0))
            }
        )*}
    };
}

arithmetic! {
    plus = add "The sum.",
    minus = sub "The difference.",
    times = mul "The product.",
    over = div "The quotient; infinite or NaN where the divisor is zero.",
    modulo = rem "What remains of a division, with the sign of the dividend.",
}

fn infinity() -> dec::Decimal128 {
    "Infinity".parse().unwrap_or(dec::Decimal128::NAN)
}

/// The exponent in the 14 bits above a coefficient.
fn exponent_of(bits: u128) -> i32 {
    i32::try_from(bits & 0x3fff).unwrap_or(0) - EXPONENT_BIAS
}

fn from_parts(coefficient: u128, exponent: i32) -> dec::Decimal128 {
    let mut context = Context::<dec::Decimal128>::default();
    let mut value = context.from_u128(coefficient);
    context.set_exponent(&mut value, exponent);
    value
}

/// The value with the given sign, which the library's own negation refuses to zero.
fn with_sign(value: dec::Decimal128, negative: bool) -> dec::Decimal128 {
    let bits = u128::from_le_bytes(value.to_le_bytes()) & !SIGN;
    let signed = if negative { bits | SIGN } else { bits };
    dec::Decimal128::from_le_bytes(signed.to_le_bytes())
}
