//! Decimals: a whole number of any length, and how many of its digits follow the point.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, Sign};

use crate::error::{CqlError, Result};

/// How many digits a varint or a decimal may have. Numbers become digits and digits numbers in time
/// that grows with the square of their length, so that longer ones would stop a server.
pub(crate) const MOST_DIGITS: usize = 100_000;
/// The most bytes of a whole number with so many digits, and of the sign.
pub(crate) const MOST_BYTES: usize = MOST_DIGITS * 10 / 24;

/// Refuses a number that is longer than any may be.
pub(crate) fn check_length(is_short: bool) -> Result<()> {
    match is_short {
        true => Ok(()),
        false => Err(CqlError::invalid(format!(
            "A varint or decimal may have at most {MOST_DIGITS} digits"
        ))),
    }
}

/// A decimal: `unscaled` × 10^−`scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) unscaled: BigInt,
    pub(crate) scale: i32,
}

/// A decimal as 0.DIGITS × 10^exponent, the same for all decimals of one value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Normal {
    pub(super) sign: Sign,
    pub(super) exponent: i64,
    /// In text, without zeros at either end.
    pub(super) digits: Vec<u8>,
}

impl Decimal {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        check_length(text.len() <= MOST_DIGITS)?;
        parse(text)
            .ok_or_else(|| CqlError::invalid(format!("unable to make BigDecimal from '{text}'")))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.scale.to_be_bytes().to_vec();
        out.append(&mut self.unscaled.to_signed_bytes_be());
        out
    }

    /// Reads the bytes of a value that is not empty.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let short = || {
            let length = bytes.len();
            CqlError::invalid(format!("Expected 0 or at least 4 bytes ({length})"))
        };
        let (scale, unscaled) = bytes.split_first_chunk().ok_or_else(short)?;
        let unscaled = BigInt::from_signed_bytes_be(unscaled);
        Ok(Self {
            unscaled,
            scale: i32::from_be_bytes(*scale),
        })
    }

    /// By value: 1.0 and 1.00 are equal. Works on digits, so that no scale makes it slow.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let (left, right) = (self.normal(), other.normal());
        let rank = |sign: Sign| match sign {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        };
        let by_size = || {
            let size = left.exponent.cmp(&right.exponent);
            let order = size.then_with(|| left.digits.cmp(&right.digits));
            if left.sign == Sign::Minus {
                order.reverse()
            } else {
                order
            }
        };
        rank(left.sign).cmp(&rank(right.sign)).then_with(by_size)
    }

    pub(super) fn normal(&self) -> Normal {
        let sign = self.unscaled.sign();
        let text = self.unscaled.magnitude().to_string();
        let exponent = i64::try_from(text.len()).unwrap_or(i64::MAX) - i64::from(self.scale);
        let digits = text.trim_end_matches('0').as_bytes().to_vec();
        let exponent = if sign == Sign::NoSign { 0 } else { exponent };
        Normal {
            sign,
            exponent,
            digits,
        }
    }
}

/// As Java writes it: plain while the exponent is small, else with one digit before the point.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unscaled.sign() == Sign::Minus {
            f.write_str("-")?;
        }
        let digits = self.unscaled.magnitude().to_string();
        let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
        let scale = i64::from(self.scale);
        if scale == 0 {
            return f.write_str(&digits);
        }
        let adjusted = length - 1 - scale;
        if scale > 0 && adjusted >= -6 {
            let zeros = usize::try_from(scale - length + 1).unwrap_or(0);
            let padded = format!("{}{digits}", "0".repeat(zeros));
            let point = padded.len() - usize::try_from(scale).unwrap_or(0);
            let (whole, fraction) = padded.split_at_checked(point).unwrap_or((&padded, ""));
            return write!(f, "{whole}.{fraction}");
        }
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        let point = if rest.is_empty() { "" } else { "." };
        write!(f, "{first}{point}{rest}")?;
        if adjusted == 0 {
            Ok(())
        } else {
            write!(f, "E{adjusted:+}")
        }
    }
}

fn parse(text: &str) -> Option<Decimal> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, unsigned) = match mantissa.as_bytes().first()? {
        b'-' => (-1, mantissa.get(1..)?),
        b'+' => (1, mantissa.get(1..)?),
        _ => (1, mantissa),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unscaled = BigInt::parse_bytes(digits.as_bytes(), 10)? * sign;
    let scale = i64::try_from(fraction.len()).ok()? - i64::from(exponent);
    Some(Decimal {
        unscaled,
        scale: i32::try_from(scale).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn decimals_are_written_as_java_writes_them() {
        for (text, written) in [
            ("0", "0"),
            ("-0", "0"),
            ("123", "123"),
            ("1.50", "1.50"),
            ("-0.001", "-0.001"),
            ("0.0000001", "1E-7"),
            ("0.000001", "0.000001"),
            ("0.00000123", "0.00000123"),
            ("0.000000123", "1.23E-7"),
            ("1e3", "1E+3"),
            ("12e3", "1.2E+4"),
            ("1.23e1", "12.3"),
            ("+7.", "7"),
            (".5", "0.5"),
            ("0.00", "0.00"),
        ] {
            assert_eq!(decimal(text).to_string(), written, "{text}");
        }
        for bad in [
            "",
            "-",
            ".",
            "1.2.3",
            "1e",
            "e1",
            "0x1",
            "NaN",
            "1 ",
            "1e99999999999",
        ] {
            let message = format!("unable to make BigDecimal from '{bad}'");
            assert_eq!(Decimal::parse(bad).unwrap_err().message, message);
        }
    }

    #[test]
    fn decimals_compare_by_value() {
        let sorted = [
            "-1e400000000",
            "-10",
            "-9.9",
            "-0.5",
            "-1e-400000000",
            "0",
            "1e-9",
            "0.1",
            "0.10001",
            "1",
            "1.5",
            "10",
            "99",
            "1e400000000",
        ];
        for (left, right) in sorted.iter().zip(sorted.iter().skip(1)) {
            assert_eq!(
                decimal(left).compare(&decimal(right)),
                Ordering::Less,
                "{left} {right}"
            );
            assert_eq!(decimal(right).compare(&decimal(left)), Ordering::Greater);
        }
        for (left, right) in [("1.0", "1.00"), ("0", "0.000"), ("1e3", "1000")] {
            assert_eq!(decimal(left).compare(&decimal(right)), Ordering::Equal);
        }
    }

    proptest! {
        #[test]
        fn decimals_come_back(unscaled: i128, scale: i32) {
            let decimal = Decimal { unscaled: BigInt::from(unscaled), scale };
            prop_assert_eq!(Decimal::decode(&decimal.encode()), Ok(decimal.clone()));
            let text = decimal.to_string();
            // Java's own text loses the scale of zeros with many digits.
            if unscaled != 0 && scale.abs() < i32::MAX - 50 {
                prop_assert_eq!(Decimal::parse(&text), Ok(decimal), "{}", text);
            }
        }
    }
}
