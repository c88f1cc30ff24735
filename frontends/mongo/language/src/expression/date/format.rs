//! Dates as text: `$dateToString` and the formats that it shares with `$dateFromString`.

use bson::Bson;

use super::zone::Zone;
use super::{coerce, zone_argument};
use crate::error::Result;
use crate::expression::operator::{Form, Named, Operator, optional, required};
use crate::expression::{Call, Frame, Value, fail, is_nullish, null, some};

const TO_STRING: Named = Named {
    fields: &[
        required("date", 18628),
        optional("format"),
        optional("timezone"),
        optional("onNull"),
    ],
    not_object: 18629,
    unknown: 18534,
};

pub(super) const OPERATORS: &[Operator] = &[Operator::lazy(
    "$dateToString",
    Form::Named(&TO_STRING),
    date_to_string,
)];

const TO_STRING_SPECIFIERS: &str = "bBdGHjLmMSwuUVYzZ%";
pub(super) const FROM_STRING_SPECIFIERS: &str = "bBdGHjLmMSuVYzZ%";
const ISO_UTC: &str = "%Y-%m-%dT%H:%M:%S.%LZ";
const ISO_LOCAL: &str = "%Y-%m-%dT%H:%M:%S.%L";

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The month that a name, in full or its first three letters, stands for.
pub(super) fn month_named(name: &str) -> Option<i64> {
    let is_named = |month: &&'static str| {
        month.eq_ignore_ascii_case(name)
            || month
                .get(..3)
                .is_some_and(|short| short.eq_ignore_ascii_case(name))
    };
    let index = MONTHS.iter().position(is_named)?;
    i64::try_from(index + 1).ok()
}

fn month_name(month: i64) -> &'static str {
    usize::try_from(month - 1)
        .ok()
        .and_then(|index| MONTHS.get(index))
        .copied()
        .unwrap_or("")
}

/// A date of the world's time in the form of ISO 8601.
pub(in crate::expression) fn iso(millis: i64) -> Result<String> {
    format(millis, &Zone::UTC, ISO_UTC)
}

/// A date without its year, the way timestamps are shown: `Jan  1 00:00:00`.
pub(in crate::expression) fn short(millis: i64) -> String {
    let civil = Zone::UTC.civil(millis);
    let month: String = month_name(civil.month).chars().take(3).collect();
    let (day, hour, minute, second) = (civil.day, civil.hour, civil.minute, civil.second);
    format!("{month} {day:2} {hour:02}:{minute:02}:{second:02}")
}

fn date_to_string<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let date = call.evaluate_argument(0, frame)?;
    let pattern = call.evaluate_argument(1, frame)?;
    match pattern.as_deref() {
        Some(Bson::String(pattern)) => validate(pattern, TO_STRING_SPECIFIERS)?,
        other if is_nullish(other) => {}
        _ => return fail(18533, "$dateToString requires that 'format' be a string"),
    }
    let zone = zone_argument(call, 2, frame)?;
    if is_nullish(date.as_deref()) {
        return if call.argument(3).is_absent() {
            null()
        } else {
            call.evaluate_argument(3, frame)
        };
    }
    let Some(zone) = zone else { return null() };
    let pattern = match pattern.as_deref() {
        Some(Bson::String(pattern)) => pattern.as_str(),
        _ if !call.argument(1).is_absent() => return null(),
        _ if zone.is_utc() => ISO_UTC,
        _ => ISO_LOCAL,
    };
    some(format(coerce(date.as_deref())?, &zone, pattern)?)
}

/// Refuses a pattern with a specifier that is not among the allowed ones.
pub(super) fn validate(pattern: &str, allowed: &str) -> Result<()> {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            continue;
        }
        match characters.next() {
            None => return fail(18535, "Unmatched '%' at end of format string"),
            Some(specifier) if allowed.contains(specifier) => {}
            Some(specifier) => {
                return fail(18536, format!("Invalid format character '%{specifier}'"));
            }
        }
    }
    Ok(())
}

fn format(millis: i64, zone: &Zone, pattern: &str) -> Result<String> {
    let civil = zone.civil(millis);
    let mut text = String::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let (value, width) = match characters.next() {
            Some('Y') => (civil.year, 4),
            Some('m') => (civil.month, 2),
            Some('d') => (civil.day, 2),
            Some('H') => (civil.hour, 2),
            Some('M') => (civil.minute, 2),
            Some('S') => (civil.second, 2),
            Some('L') => (civil.millisecond, 3),
            Some('j') => (civil.day_of_year(), 3),
            Some('w') => (civil.day_of_week(), 1),
            Some('U') => (civil.week(), 2),
            Some('G') => (civil.iso_week().0, 4),
            Some('V') => (civil.iso_week().1, 2),
            Some('u') => (civil.iso_day_of_week(), 1),
            Some('B') => {
                text.push_str(month_name(civil.month));
                continue;
            }
            Some('b') => {
                text.extend(month_name(civil.month).chars().take(3));
                continue;
            }
            Some('z') => {
                let minutes = zone.offset_at(millis) / 60;
                let sign = if minutes < 0 { '-' } else { '+' };
                let minutes = minutes.abs();
                text.push_str(&format!("{sign}{:02}{:02}", minutes / 60, minutes % 60));
                continue;
            }
            Some('Z') => {
                text.push_str(&(zone.offset_at(millis) / 60).to_string());
                continue;
            }
            literal => {
                text.extend(literal);
                continue;
            }
        };
        if !(0..=9999).contains(&value) {
            return fail(
                18537,
                "Could not convert date to string: date component out of range",
            );
        }
        text.push_str(&format!("{value:0width$}"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, bson};

    use crate::expression::tests::{fails, gives};

    fn date() -> Bson {
        Bson::DateTime(DateTime::from_millis(1_718_461_845_123))
    }

    #[test]
    fn formats() {
        gives([
            (
                bson!({ "$dateToString": { "date": date() } }),
                bson!("2024-06-15T14:30:45.123Z"),
            ),
            (
                bson!({ "$dateToString": { "date": date(), "timezone": "America/New_York" } }),
                bson!("2024-06-15T10:30:45.123"),
            ),
            (
                bson!({ "$dateToString": {
                    "date": date(),
                    "format": "%d.%m.%Y %H:%M:%S.%L %j %w %u %U %G-%V %b %B %z %Z %%",
                    "timezone": "+05:30",
                } }),
                bson!("15.06.2024 20:00:45.123 167 7 6 23 2024-24 Jun June +0530 330 %"),
            ),
            (
                bson!({ "$dateToString": { "date": null, "onNull": "none" } }),
                bson!("none"),
            ),
            (bson!({ "$dateToString": { "date": null } }), bson!(null)),
            (
                bson!({ "$dateToString": { "date": date(), "format": null } }),
                bson!(null),
            ),
            (
                bson!({ "$dateToString": { "date": date(), "timezone": null } }),
                bson!(null),
            ),
        ]);
        fails([
            (bson!({ "$dateToString": 1 }), 18629),
            (bson!({ "$dateToString": { "x": 1 } }), 18534),
            (bson!({ "$dateToString": {} }), 18628),
            (
                bson!({ "$dateToString": { "date": date(), "format": 1 } }),
                18533,
            ),
            (
                bson!({ "$dateToString": { "date": date(), "format": "%" } }),
                18535,
            ),
            (
                bson!({ "$dateToString": { "date": date(), "format": "%Q" } }),
                18536,
            ),
            (
                bson!({ "$dateToString": { "date": DateTime::from_millis(i64::MAX) } }),
                18537,
            ),
            (bson!({ "$dateToString": { "date": "x" } }), 16006),
            (
                bson!({ "$dateToString": { "date": date(), "timezone": 1 } }),
                40517,
            ),
            (
                bson!({ "$dateToString": { "date": date(), "timezone": "x" } }),
                40485,
            ),
        ]);
    }
}
