//! Arithmetic over the four numeric types; decimals never go through doubles.

mod decimal;

use std::cmp::Ordering;

use bson::Bson;
use dec::Rounding;

pub use decimal::Decimal;

/// 2^63, the first double beyond the 64-bit integers.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// A number of any BSON type.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A 32-bit integer.
    Int32(i32),
    /// A 64-bit integer.
    Int64(i64),
    /// A double.
    Double(f64),
    /// A decimal.
    Decimal(Decimal),
}

/// Two numbers in the wider of their types.
enum Pair {
    Int32(i32, i32),
    Int64(i64, i64),
    Double(f64, f64),
    Decimal(Decimal, Decimal),
}

impl Number {
    /// The number, if the value is one.
    pub fn from_bson(value: &Bson) -> Option<Self> {
        match value {
            Bson::Int32(value) => Some(Self::Int32(*value)),
            Bson::Int64(value) => Some(Self::Int64(*value)),
            Bson::Double(value) => Some(Self::Double(*value)),
            Bson::Decimal128(value) => Some(Self::Decimal(Decimal::from_bson(*value))),
            _ => None,
        }
    }

    /// The value that stores the number in its own type.
    pub fn into_bson(self) -> Bson {
        match self {
            Self::Int32(value) => Bson::Int32(value),
            Self::Int64(value) => Bson::Int64(value),
            Self::Double(value) => Bson::Double(value),
            Self::Decimal(value) => Bson::Decimal128(value.to_bson()),
        }
    }

    /// The sum in the wider type of the two. 32-bit integers that overflow become 64-bit ones, and
    /// those become doubles.
    #[expect(
        clippy::should_implement_trait,
        reason = "named as its sisters, of which some may fail"
    )]
    pub fn add(self, other: Self) -> Self {
        self.checked_add(other)
            .unwrap_or_else(|| Self::Double(self.to_f64() + other.to_f64()))
    }

    /// The difference, in the type that [`Self::add`] would give.
    pub fn subtract(self, other: Self) -> Self {
        match self.pair(other) {
            Pair::Int32(a, b) => integer(i64::from(a) - i64::from(b)),
            Pair::Int64(a, b) => a
                .checked_sub(b)
                .map_or(Self::Double(self.to_f64() - other.to_f64()), Self::Int64),
            Pair::Double(a, b) => Self::Double(a - b),
            Pair::Decimal(a, b) => Self::Decimal(a.minus(b)),
        }
    }

    /// The product, in the type that [`Self::add`] would give.
    pub fn multiply(self, other: Self) -> Self {
        self.checked_multiply(other)
            .unwrap_or_else(|| Self::Double(self.to_f64() * other.to_f64()))
    }

    /// The sum as `$inc` wants it: none where 64-bit integers overflow.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        match self.pair(other) {
            Pair::Int32(a, b) => Some(integer(i64::from(a) + i64::from(b))),
            Pair::Int64(a, b) => a.checked_add(b).map(Self::Int64),
            Pair::Double(a, b) => Some(Self::Double(a + b)),
            Pair::Decimal(a, b) => Some(Self::Decimal(a.plus(b))),
        }
    }

    /// The product as `$mul` wants it: none where 64-bit integers overflow.
    pub fn checked_multiply(self, other: Self) -> Option<Self> {
        match self.pair(other) {
            Pair::Int32(a, b) => Some(integer(i64::from(a) * i64::from(b))),
            Pair::Int64(a, b) => a.checked_mul(b).map(Self::Int64),
            Pair::Double(a, b) => Some(Self::Double(a * b)),
            Pair::Decimal(a, b) => Some(Self::Decimal(a.times(b))),
        }
    }

    /// The quotient: a decimal if either is one, else a double. None if the divisor is zero.
    pub fn divide(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        Some(match self.pair(other) {
            Pair::Decimal(a, b) => Self::Decimal(a.over(b)),
            _ => Self::Double(self.to_f64() / other.to_f64()),
        })
    }

    /// What remains of a division, with the sign of the dividend, in the wider type of the two.
    /// None if the divisor is zero.
    pub fn modulo(self, other: Self) -> Option<Self> {
        if other.is_zero() {
            return None;
        }
        Some(match self.pair(other) {
            Pair::Int32(a, b) => Self::Int32(a.wrapping_rem(b)),
            Pair::Int64(a, b) => Self::Int64(a.wrapping_rem(b)),
            Pair::Double(a, b) => Self::Double(a % b),
            Pair::Decimal(a, b) => Self::Decimal(a.modulo(b)),
        })
    }

    /// The order by value, whatever the types. NaN is below all numbers, and equal to itself; the
    /// two zeros are equal.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Decimal(a), Self::Decimal(b)) => a.compare(b),
            (Self::Decimal(a), Self::Double(b)) => a.compare_f64(b),
            (Self::Double(a), Self::Decimal(b)) => b.compare_f64(a).reverse(),
            (Self::Decimal(a), Self::Int32(_) | Self::Int64(_)) => a.compare(other.to_decimal()),
            (Self::Int32(_) | Self::Int64(_), Self::Decimal(b)) => self.to_decimal().compare(b),
            (Self::Double(a), Self::Double(b)) => compare_doubles(a, b),
            (Self::Double(a), Self::Int32(b)) => compare_doubles(a, f64::from(b)),
            (Self::Int32(a), Self::Double(b)) => compare_doubles(f64::from(a), b),
            (Self::Double(a), Self::Int64(b)) => compare_integer(b, a).reverse(),
            (Self::Int64(a), Self::Double(b)) => compare_integer(a, b),
            (Self::Int32(a), Self::Int32(b)) => a.cmp(&b),
            (Self::Int32(a), Self::Int64(b)) => i64::from(a).cmp(&b),
            (Self::Int64(a), Self::Int32(b)) => a.cmp(&i64::from(b)),
            (Self::Int64(a), Self::Int64(b)) => a.cmp(&b),
        }
    }

    /// The integer that this number is, if it is one that fits 64 bits.
    pub fn as_i64_exact(self) -> Option<i64> {
        match self {
            Self::Int32(value) => Some(i64::from(value)),
            Self::Int64(value) => Some(value),
            Self::Double(value) => {
                let whole = value.trunc() == value;
                (whole && (-TWO_TO_63..TWO_TO_63).contains(&value)).then(|| truncate(value))
            }
            Self::Decimal(value) => value.to_i64_exact(),
        }
    }

    /// The integer that this number is, if it is one that fits 32 bits.
    pub fn as_i32_exact(self) -> Option<i32> {
        i32::try_from(self.as_i64_exact()?).ok()
    }

    /// The number as commands take an integer: doubles are truncated, decimals rounded to the
    /// nearest, what lies outside becomes the limit, NaN becomes 0.
    pub fn to_i64_saturating(self) -> i64 {
        match self {
            Self::Int32(value) => i64::from(value),
            Self::Int64(value) => value,
            Self::Double(value) => truncate(value),
            Self::Decimal(value) => value.to_i64_saturating(Rounding::HalfEven),
        }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int32(value) => f64::from(value),
            Self::Int64(value) => nearest(value),
            Self::Double(value) => value,
            Self::Decimal(value) => value.to_f64(),
        }
    }

    /// The number as a decimal: doubles have 15 digits.
    pub fn to_decimal(self) -> Decimal {
        match self {
            Self::Int32(value) => i64::from(value).into(),
            Self::Int64(value) => value.into(),
            Self::Double(value) => Decimal::from_f64(value),
            Self::Decimal(value) => value,
        }
    }

    /// Whether this is not a number.
    pub fn is_nan(self) -> bool {
        match self {
            Self::Int32(_) | Self::Int64(_) => false,
            Self::Double(value) => value.is_nan(),
            Self::Decimal(value) => value.is_nan(),
        }
    }

    /// Whether this is zero.
    pub fn is_zero(self) -> bool {
        match self {
            Self::Int32(value) => value == 0,
            Self::Int64(value) => value == 0,
            Self::Double(value) => value == 0.0,
            Self::Decimal(value) => value.is_zero(),
        }
    }

    fn pair(self, other: Self) -> Pair {
        match (self, other) {
            (Self::Decimal(_), _) | (_, Self::Decimal(_)) => {
                Pair::Decimal(self.to_decimal(), other.to_decimal())
            }
            (Self::Double(_), _) | (_, Self::Double(_)) => {
                Pair::Double(self.to_f64(), other.to_f64())
            }
            (Self::Int32(a), Self::Int32(b)) => Pair::Int32(a, b),
            (Self::Int32(a), Self::Int64(b)) => Pair::Int64(a.into(), b),
            (Self::Int64(a), Self::Int32(b)) => Pair::Int64(a, b.into()),
            (Self::Int64(a), Self::Int64(b)) => Pair::Int64(a, b),
        }
    }
}

/// The narrower integer type that holds the result of two 32-bit integers.
fn integer(value: i64) -> Number {
    i32::try_from(value).map_or(Number::Int64(value), Number::Int32)
}

fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Compares without rounding the integer to a double.
fn compare_integer(a: i64, b: f64) -> Ordering {
    if b.is_nan() || b < -TWO_TO_63 {
        return Ordering::Greater;
    }
    if b >= TWO_TO_63 {
        return Ordering::Less;
    }
    let whole = truncate(b);
    // Where the whole parts are the same the double's fraction decides.
    a.cmp(&whole)
        .then_with(|| compare_doubles(0.0, b - b.trunc()))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "saturates, and turns NaN into 0, as wanted"
)]
fn truncate(value: f64) -> i64 {
    value as i64
}

#[expect(clippy::cast_precision_loss, reason = "rounds to the nearest double")]
fn nearest(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Number {
        Number::Decimal(Decimal::parse(text).unwrap())
    }

    /// Numbers as the shell writes them: `1` and `2L` are integers, `1.0` a double, `1d` a decimal.
    fn number(text: &str) -> Number {
        if let Some(text) = text.strip_suffix('d') {
            decimal(text)
        } else if let Some(text) = text.strip_suffix('L') {
            Number::Int64(text.parse().unwrap())
        } else if let Ok(value) = text.parse() {
            Number::Int32(value)
        } else {
            Number::Double(text.parse().unwrap())
        }
    }

    fn print(value: Number) -> String {
        match value {
            Number::Int32(value) => value.to_string(),
            Number::Int64(value) => format!("{value}L"),
            Number::Double(value) => format!("{value:?}"),
            Number::Decimal(value) => format!("{value}d"),
        }
    }

    #[test]
    fn results_take_the_wider_type() {
        type Operation = fn(Number, Number) -> Number;
        let add: Operation = Number::add;
        let subtract: Operation = Number::subtract;
        let multiply: Operation = Number::multiply;
        for (operation, a, b, expected) in [
            (add, "1", "2", "3"),
            (add, "1", "2L", "3L"),
            (add, "1", "2.0", "3.0"),
            (add, "1L", "2d", "3d"),
            (add, "1.5", "2d", "3.50000000000000d"),
            (add, "2147483647", "1", "2147483648L"),
            (add, "9223372036854775807L", "1", "9.223372036854776e18"),
            (add, "0.1d", "0.2d", "0.3d"),
            (add, "NaNd", "1", "NaNd"),
            (subtract, "-2147483648", "1", "-2147483649L"),
            (
                subtract,
                "-9223372036854775808L",
                "1",
                "-9.223372036854776e18",
            ),
            (subtract, "1", "0.5", "0.5"),
            (subtract, "0.3d", "0.1d", "0.2d"),
            (multiply, "65536", "65536", "4294967296L"),
            (
                multiply,
                "4294967296L",
                "4294967296L",
                "1.8446744073709552e19",
            ),
            (multiply, "3", "1.50d", "4.50d"),
            (multiply, "9.999E6144d", "10", "Infinityd"),
        ] {
            let result = operation(number(a), number(b));
            assert_eq!(print(result), expected, "{a}, {b}");
        }
    }

    #[test]
    fn checked_arithmetic_refuses_what_leaves_64_bits() {
        let largest = Number::Int64(i64::MAX);
        assert!(largest.checked_add(Number::Int32(1)).is_none());
        assert!(largest.checked_multiply(Number::Int32(2)).is_none());
        assert!(largest.checked_add(Number::Double(1.0)).is_some());
    }

    #[test]
    fn division_is_never_by_zero() {
        for (a, b, quotient, remainder) in [
            ("7", "2", Some("3.5"), Some("1")),
            ("-7", "2L", Some("-3.5"), Some("-1L")),
            ("7", "2.5", Some("2.8"), Some("2.0")),
            ("7", "2d", Some("3.5d"), Some("1d")),
            ("-2147483648", "-1", Some("2147483648.0"), Some("0")),
            ("7", "0", None, None),
            ("7", "-0.0", None, None),
            ("7", "0E+5d", None, None),
        ] {
            let (a, b) = (number(a), number(b));
            assert_eq!(a.divide(b).map(print).as_deref(), quotient, "{a:?} {b:?}");
            assert_eq!(a.modulo(b).map(print).as_deref(), remainder, "{a:?} {b:?}");
        }
    }

    #[test]
    fn numbers_compare_exactly_across_types() {
        // Each row in ascending order; numbers within one string are equal.
        let order = [
            "NaN NaNd -NaNd",
            "-inf -Infinityd",
            "-1E+6000d",
            "-1.7976931348623157e308",
            "-9223372036854775809d",
            "-9223372036854775808L -9223372036854775808.0 -9223372036854775808d",
            "-9223372036854775807L",
            "-0.1",
            "-0.1d",
            "-5e-324",
            "-1E-6176d",
            "0 0L 0.0 -0.0 0d -0d 0E+6111d",
            "1E-6176d",
            "5e-324",
            "0.1d 0.10d",
            "0.1",
            "0.5 0.5d 0.50d",
            "1 1L 1.0 1d 1.000d",
            "1.5 1.5d",
            "9007199254740992L 9007199254740992.0 9007199254740992d",
            "9007199254740993L 9007199254740993d",
            "9223372036854775807L",
            "9223372036854775808.0 9223372036854775808d",
            "1E+300d",
            "1e300",
            "1.7976931348623157e308",
            "1E+309d 10E+308d",
            "inf Infinityd",
        ];
        let numbers: Vec<(usize, Number)> = order
            .iter()
            .enumerate()
            .flat_map(|(rank, row)| row.split(' ').map(move |text| (rank, number(text))))
            .collect();
        for (a_rank, a) in &numbers {
            for (b_rank, b) in &numbers {
                assert_eq!(a.compare(*b), a_rank.cmp(b_rank), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn integers_are_taken_exactly_or_not_at_all() {
        for (text, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("5.5", None),
            ("-0.0", Some(0)),
            ("9223372036854775808.0", None),
            ("-9223372036854775808.0", Some(i64::MIN)),
            ("5d", Some(5)),
            ("5.00d", Some(5)),
            ("1E+3d", Some(1000)),
            ("5.01d", None),
            ("9223372036854775808d", None),
            ("NaN", None),
            ("Infinityd", None),
        ] {
            assert_eq!(number(text).as_i64_exact(), expected, "{text}");
        }
    }

    #[test]
    fn decimals_keep_their_bytes() {
        for text in [
            "0",
            "-0",
            "0E-6176",
            "0E+6111",
            "1",
            "-1.50",
            "1E-6176",
            "9.999999999999999999999999999999999E+6144",
            "Infinity",
            "-Infinity",
            "NaN",
        ] {
            let stored: bson::Decimal128 = text.parse().unwrap();
            let decimal = Decimal::from_bson(stored);
            assert_eq!(decimal.to_string(), text);
            assert_eq!(decimal.to_bson().bytes(), stored.bytes(), "{text}");
        }
    }

    #[test]
    fn decimals_that_are_not_canonical_are_zero() {
        // A coefficient beyond 34 digits, in the ordinary form and in the one with a given start.
        for bits in [
            (u128::from(6176_u32) << 113) | ((1 << 113) - 1),
            (0b11 << 125) | (u128::from(6176_u32) << 111) | 7,
        ] {
            let decimal = Decimal::from_bson(bson::Decimal128::from_bytes(bits.to_le_bytes()));
            assert_eq!(decimal.to_string(), "0");
        }
    }

    #[test]
    fn decimals_convert_to_the_nearest_double() {
        for (text, expected) in [
            ("0.1", 0.1),
            ("-0", -0.0),
            ("1E+400", f64::INFINITY),
            ("1E-400", 0.0),
            ("Infinity", f64::INFINITY),
        ] {
            let double = Decimal::parse(text).unwrap().to_f64();
            assert_eq!(double.to_bits(), expected.to_bits(), "{text}");
        }
        assert_eq!(Decimal::from_f64(0.1).to_string(), "0.100000000000000");
        assert_eq!(Decimal::from_f64(1e20).to_string(), "1.00000000000000E+20");
        let nearest = Decimal::from_f64_nearest(0.1).to_string();
        assert_eq!(nearest, "0.1000000000000000055511151231257827");
    }

    #[test]
    fn only_numbers_parse() {
        for text in ["", "x", "1x", "nan1", "sNaN", "--1", "1e", " 1", "1E+7000"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
        assert!(Decimal::parse("+.5e-3").is_some());
        assert!(Decimal::parse("-inf").is_some());
    }
}
