//! Durations: months, days and nanoseconds, which no number of seconds can replace.

use std::fmt;

use super::vint;
use crate::error::{CqlError, Result};

/// A duration. All parts have the same sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Duration {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) nanoseconds: i64,
}

const NANOS_PER_MICRO: i64 = 1000;
const NANOS_PER_MILLI: i64 = 1000 * NANOS_PER_MICRO;
const NANOS_PER_SECOND: i64 = 1000 * NANOS_PER_MILLI;
const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;
const NANOS_PER_HOUR: i64 = 60 * NANOS_PER_MINUTE;

/// What a unit is part of.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Months,
    Days,
    Nanoseconds,
}

/// A unit: its symbol, its name in messages, what it is part of and how much of that it is.
struct Unit {
    symbol: &'static str,
    name: &'static str,
    part: Part,
    size: i64,
}

const fn unit(symbol: &'static str, name: &'static str, part: Part, size: i64) -> Unit {
    Unit {
        symbol,
        name,
        part,
        size,
    }
}

/// Largest first, as a duration must name them.
const UNITS: [Unit; 10] = [
    unit("y", "years", Part::Months, 12),
    unit("mo", "months", Part::Months, 1),
    unit("w", "weeks", Part::Days, 7),
    unit("d", "days", Part::Days, 1),
    unit("h", "hours", Part::Nanoseconds, NANOS_PER_HOUR),
    unit("m", "minutes", Part::Nanoseconds, NANOS_PER_MINUTE),
    unit("s", "seconds", Part::Nanoseconds, NANOS_PER_SECOND),
    unit("ms", "milliseconds", Part::Nanoseconds, NANOS_PER_MILLI),
    unit("us", "microseconds", Part::Nanoseconds, NANOS_PER_MICRO),
    unit("ns", "nanoseconds", Part::Nanoseconds, 1),
];

/// The units of the two halves of the ISO 8601 form, by their letters.
const ISO_DATE: [(char, &str); 4] = [('Y', "y"), ('M', "mo"), ('W', "w"), ('D', "d")];
const ISO_TIME: [(char, &str); 3] = [('H', "h"), ('M', "m"), ('S', "s")];

impl Duration {
    /// Reads one of the four forms: `1y2mo3d4h`, `P1Y2M3DT4H`, `P3W`, `P0001-02-03T04:05:06`.
    pub(crate) fn parse(input: &str) -> Result<Self> {
        let (is_negative, text) = match input.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, input),
        };
        let mut builder = Builder::default();
        let parsed = match text.strip_prefix('P') {
            None => parse_standard(text, &mut builder),
            Some(iso) if iso.contains('-') => parse_alternative(iso, &mut builder),
            Some(iso) => parse_iso(iso, &mut builder),
        };
        match parsed {
            Err(Some(error)) => Err(error),
            Err(None) => Err(CqlError::invalid(format!(
                "Unable to convert '{text}' to a duration"
            ))),
            Ok(()) => Ok(builder.build(is_negative)),
        }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        vint::put_signed(&mut out, i64::from(self.months));
        vint::put_signed(&mut out, i64::from(self.days));
        vint::put_signed(&mut out, self.nanoseconds);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = bytes;
        let mut take = || vint::take_signed(&mut input);
        let (Some(months), Some(days), Some(nanoseconds)) = (take(), take(), take()) else {
            let length = bytes.len();
            let message = format!("Expected at least 3 bytes for a duration ({length})");
            return Err(CqlError::invalid(message));
        };
        let part = |name: &str, value: i64| {
            i32::try_from(value).map_err(|_| {
                CqlError::invalid(format!(
                    "The duration {name} must be a 32 bits integer but was: {value}"
                ))
            })
        };
        let (months, days) = (part("months", months)?, part("days", days)?);
        let signs = [i64::from(months), i64::from(days), nanoseconds].map(i64::signum);
        if signs.contains(&1) && signs.contains(&-1) {
            return Err(CqlError::invalid(format!(
                "The duration months, days and nanoseconds must be all of the same sign \
                 ({months}, {days}, {nanoseconds})"
            )));
        }
        Ok(Self {
            months,
            days,
            nanoseconds,
        })
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let mut parts = [
            (Part::Months, u64::from(self.months.unsigned_abs())),
            (Part::Days, u64::from(self.days.unsigned_abs())),
            (Part::Nanoseconds, self.nanoseconds.unsigned_abs()),
        ];
        for (part, rest) in &mut parts {
            let units = UNITS
                .iter()
                .filter(|unit| unit.part == *part && unit.symbol != "w");
            for unit in units {
                let size = unit.size.unsigned_abs();
                if *rest >= size {
                    write!(f, "{}{}", *rest / size, unit.symbol)?;
                    *rest %= size;
                }
            }
        }
        Ok(())
    }
}

/// What parts of a text add up to. An error without words means that the text has another form.
type Parsed<T> = std::result::Result<T, Option<CqlError>>;

#[derive(Default)]
struct Builder {
    months: i64,
    days: i64,
    nanoseconds: i64,
    /// The units before this one may not be named any more.
    next_unit: usize,
}

impl Builder {
    fn add(&mut self, number: i64, symbol: &str) -> Parsed<()> {
        let symbol = symbol.to_lowercase().replace('µ', "u");
        let found = UNITS
            .iter()
            .enumerate()
            .find(|(_, unit)| unit.symbol == symbol);
        let (index, unit) = found.ok_or(None)?;
        if index < self.next_unit {
            return Err(Some(self.misplaced(index, unit)));
        }
        self.next_unit = index + 1;
        let (total, limit) = match unit.part {
            Part::Months => (&mut self.months, i64::from(i32::MAX)),
            Part::Days => (&mut self.days, i64::from(i32::MAX)),
            Part::Nanoseconds => (&mut self.nanoseconds, i64::MAX),
        };
        let sum = number
            .checked_mul(unit.size)
            .and_then(|value| total.checked_add(value));
        match sum.filter(|sum| *sum <= limit) {
            Some(sum) => *total = sum,
            None => {
                let part = match unit.part {
                    Part::Months => "months",
                    Part::Days => "days",
                    Part::Nanoseconds => "nanoseconds",
                };
                return Err(Some(CqlError::invalid(format!(
                    "Invalid duration. The total number of {part} must be less or equal to {limit}"
                ))));
            }
        }
        Ok(())
    }

    fn misplaced(&self, index: usize, unit: &Unit) -> CqlError {
        let current = self.next_unit - 1;
        CqlError::invalid(if index == current {
            format!(
                "Invalid duration. The {} are specified multiple times",
                unit.name
            )
        } else {
            let before = UNITS.get(current).map_or("", |unit| unit.name);
            format!(
                "Invalid duration. The {before} should be after {}",
                unit.name
            )
        })
    }

    fn build(&self, is_negative: bool) -> Duration {
        let sign = if is_negative { -1 } else { 1 };
        let small = |value: i64| i32::try_from(value * sign).unwrap_or(0);
        Duration {
            months: small(self.months),
            days: small(self.days),
            nanoseconds: self.nanoseconds * sign,
        }
    }
}

/// Takes a number in decimal digits off the front.
fn number(text: &str) -> Parsed<(i64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end).ok_or(None)?;
    Ok((digits.parse().map_err(|_| None)?, rest))
}

fn parse_standard(text: &str, builder: &mut Builder) -> Parsed<()> {
    let mut rest = text;
    loop {
        let (amount, after) = number(rest)?;
        let end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (symbol, after) = after.split_at_checked(end).ok_or(None)?;
        builder.add(amount, symbol)?;
        if after.is_empty() {
            return Ok(());
        }
        rest = after;
    }
}

fn parse_iso(text: &str, builder: &mut Builder) -> Parsed<()> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    parse_iso_half(date, &ISO_DATE, builder)?;
    match time {
        Some(time) => parse_iso_half(time, &ISO_TIME, builder),
        None => Ok(()),
    }
}

fn parse_iso_half(text: &str, letters: &[(char, &str)], builder: &mut Builder) -> Parsed<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let (amount, after) = number(rest)?;
        let letter = after.chars().next().ok_or(None)?;
        let (_, symbol) = letters
            .iter()
            .find(|(known, _)| *known == letter)
            .ok_or(None)?;
        builder.add(amount, symbol)?;
        rest = after.get(letter.len_utf8()..).unwrap_or_default();
    }
    Ok(())
}

fn parse_alternative(text: &str, builder: &mut Builder) -> Parsed<()> {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    if shape != "0000-00-00T00:00:00" {
        return Err(None);
    }
    let numbers = text.split(['-', 'T', ':']);
    for (digits, symbol) in numbers.zip(["y", "mo", "d", "h", "m", "s"]) {
        builder.add(number(digits)?.0, symbol)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(months: i32, days: i32, nanoseconds: i64) -> Duration {
        Duration {
            months,
            days,
            nanoseconds,
        }
    }

    #[test]
    fn all_forms_are_read() {
        for (text, expected) in [
            ("1y2mo", of(14, 0, 0)),
            ("-1y2mo", of(-14, 0, 0)),
            ("1Y2MO", of(14, 0, 0)),
            ("2w", of(0, 14, 0)),
            ("2d10h", of(0, 2, 10 * NANOS_PER_HOUR)),
            (
                "30h20m",
                of(0, 0, 30 * NANOS_PER_HOUR + 20 * NANOS_PER_MINUTE),
            ),
            ("567ms", of(0, 0, 567 * NANOS_PER_MILLI)),
            ("1950us", of(0, 0, 1950 * NANOS_PER_MICRO)),
            ("1950µs", of(0, 0, 1950 * NANOS_PER_MICRO)),
            ("-1950000ns", of(0, 0, -1_950_000)),
            (
                "1y3mo2h10m",
                of(15, 0, 2 * NANOS_PER_HOUR + 10 * NANOS_PER_MINUTE),
            ),
            ("P1Y2D", of(12, 2, 0)),
            ("P1Y2M", of(14, 0, 0)),
            ("P2W", of(0, 14, 0)),
            ("-P2D", of(0, -2, 0)),
            ("PT20M", of(0, 0, 20 * NANOS_PER_MINUTE)),
            (
                "P1Y3MT2H10M",
                of(15, 0, 2 * NANOS_PER_HOUR + 10 * NANOS_PER_MINUTE),
            ),
            (
                "P0001-03-02T01:00:06",
                of(15, 2, NANOS_PER_HOUR + 6 * NANOS_PER_SECOND),
            ),
            ("P", of(0, 0, 0)),
        ] {
            assert_eq!(Duration::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_as_cassandra_names_them() {
        for (text, message) in [
            ("0002-00-20", "Unable to convert '0002-00-20' to a duration"),
            ("", "Unable to convert '' to a duration"),
            ("1y2", "Unable to convert '1y2' to a duration"),
            ("1x", "Unable to convert '1x' to a duration"),
            ("P1Y2H", "Unable to convert 'P1Y2H' to a duration"),
            (
                "1Y3mo3mo",
                "Invalid duration. The months are specified multiple times",
            ),
            ("1d2y", "Invalid duration. The days should be after years"),
            (
                "200000000y",
                "Invalid duration. The total number of months must be less or equal to 2147483647",
            ),
        ] {
            assert_eq!(Duration::parse(text).unwrap_err().message, message);
        }
    }

    #[test]
    fn durations_are_written_as_cassandra_writes_them() {
        for (text, written) in [
            ("P1Y2M3W", "1y2mo21d"),
            ("36h", "36h"),
            ("-1mo1ns", "-1mo1ns"),
            ("90m", "1h30m"),
            ("0s", ""),
        ] {
            assert_eq!(Duration::parse(text).unwrap().to_string(), written);
        }
    }

    #[test]
    fn bytes_are_checked() {
        let bytes = of(1, 2, 3).encode();
        assert_eq!(bytes, [2, 4, 6]);
        for end in 0..bytes.len() {
            assert!(Duration::decode(&bytes[..end]).is_err());
        }
        let mixed = [2, 1, 0];
        let message = "The duration months, days and nanoseconds must be all of the same sign \
                       (1, -1, 0)";
        assert_eq!(Duration::decode(&mixed).unwrap_err().message, message);
    }

    proptest! {
        #[test]
        fn durations_come_back(months in 0..i32::MAX, days in 0..i32::MAX, nanos in 0..i64::MAX) {
            for duration in [of(months, days, nanos), of(-months, -days, -nanos)] {
                prop_assert_eq!(Duration::decode(&duration.encode()), Ok(duration));
                if duration != of(0, 0, 0) {
                    prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
                }
            }
        }
    }
}
