//! Arithmetic with dates: `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`.

use bson::{Bson, DateTime};

use super::calendar::{Civil, DAY, days_before, days_in_month};
use super::zone::Zone;
use super::{as_date, zone_argument};
use crate::compare::type_name;
use crate::error::Result;
use crate::expression::operator::{Form, Named, Operator, optional, required};
use crate::expression::{Call, Frame, Value, fail, is_nullish, null, some};
use crate::number::Number;

const ADD: Named = Named {
    fields: &[
        required("startDate", 5166402),
        required("unit", 5166402),
        required("amount", 5166402),
        optional("timezone"),
    ],
    not_object: 5166400,
    unknown: 5166401,
};

const DIFFERENCE: Named = Named {
    fields: &[
        required("startDate", 5166303),
        required("endDate", 5166304),
        required("unit", 5166305),
        optional("timezone"),
        optional("startOfWeek"),
    ],
    not_object: 5166301,
    unknown: 5166302,
};

const TRUNCATE: Named = Named {
    fields: &[
        required("date", 5439009),
        required("unit", 5439010),
        optional("binSize"),
        optional("timezone"),
        optional("startOfWeek"),
    ],
    not_object: 5439007,
    unknown: 5439008,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy("$dateAdd", Form::Named(&ADD), |call, frame| {
        date_add(call, frame, false)
    }),
    Operator::lazy("$dateDiff", Form::Named(&DIFFERENCE), date_diff),
    Operator::lazy("$dateSubtract", Form::Named(&ADD), |call, frame| {
        date_add(call, frame, true)
    }),
    Operator::lazy("$dateTrunc", Form::Named(&TRUNCATE), date_trunc),
];

/// A unit of time, the longest ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    pub(crate) fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "millisecond" => Self::Millisecond,
            _ => return fail(9, format!("unknown time unit value: {name}")),
        })
    }

    /// The unit that an argument names; none for null.
    fn from_value(name: &str, value: Option<&Bson>) -> Result<Option<Self>> {
        match value {
            None | Some(Bson::Null | Bson::Undefined) => Ok(None),
            Some(Bson::String(unit)) => Self::parse(unit).map(Some),
            Some(other) => {
                let found = type_name(other);
                fail(
                    5439013,
                    format!("{name} requires 'unit' to be a string, but got {found}"),
                )
            }
        }
    }

    /// The milliseconds of units that always have as many.
    fn millis(self) -> Option<i64> {
        match self {
            Self::Hour => Some(3_600_000),
            Self::Minute => Some(60_000),
            Self::Second => Some(1000),
            Self::Millisecond => Some(1),
            _ => None,
        }
    }

    /// The milliseconds that the unit usually has: months are of 30 days.
    pub(crate) fn typical_millis(self) -> i64 {
        match self {
            Self::Year => 365 * DAY,
            Self::Quarter => 90 * DAY,
            Self::Month => 30 * DAY,
            Self::Week => 7 * DAY,
            Self::Day => DAY,
            shorter => shorter.millis().unwrap_or(1),
        }
    }

    /// More of a unit than there are in all dates is refused.
    fn limit(self) -> i64 {
        const DAYS: i64 = 213_503_982_336;
        const YEARS: i64 = DAYS / 365 + 1;
        match self {
            Self::Year => YEARS,
            Self::Quarter => YEARS * 4,
            Self::Month => YEARS * 12,
            Self::Week => DAYS / 7,
            Self::Day => DAYS,
            Self::Hour => DAYS * 24,
            Self::Minute => DAYS * 24 * 60,
            Self::Second => DAYS * 24 * 3600,
            Self::Millisecond => i64::MAX,
        }
    }
}

fn date_add<'a>(call: &'a Call, frame: &Frame<'a>, subtract: bool) -> Result<Value<'a>> {
    let name = call.operator.name;
    let start = call.evaluate_argument(0, frame)?;
    if is_nullish(start.as_deref()) {
        return null();
    }
    let unit = call.evaluate_argument(1, frame)?;
    let Some(unit) = Unit::from_value(name, unit.as_deref())? else {
        return null();
    };
    let amount = call.evaluate_argument(2, frame)?;
    if is_nullish(amount.as_deref()) {
        return null();
    }
    let Some(zone) = zone_argument(call, 3, frame)? else {
        return null();
    };
    let Some(date) = start.as_deref().and_then(as_date) else {
        return fail(
            5166403,
            format!("{name} requires startDate to be convertible to a date"),
        );
    };
    let integer = |value| Number::from_bson(value).and_then(Number::as_i64_exact);
    let Some(amount) = amount.as_deref().and_then(integer) else {
        return fail(
            5166405,
            format!("{name} expects integer amount of time units"),
        );
    };
    let amount = match (subtract, amount.checked_neg()) {
        (false, _) => amount,
        (true, Some(amount)) => amount,
        (true, None) => return fail(6045000, format!("invalid {name} 'amount': {amount}")),
    };
    some(DateTime::from_millis(add_within(
        date, unit, amount, &zone,
    )?))
}

/// A date so many units later, by the calendar of the world's time.
pub(crate) fn add(date: i64, unit: Unit, amount: i64) -> Result<i64> {
    add_within(date, unit, amount, &Zone::UTC)
}

/// Days and longer units are of the calendar, so that clocks show the same; shorter ones are not.
fn add_within(date: i64, unit: Unit, amount: i64, zone: &Zone) -> Result<i64> {
    if unit != Unit::Millisecond && amount.abs() >= unit.limit() {
        return fail(
            5976500,
            format!("invalid dateAdd 'amount' parameter value: {amount}"),
        );
    }
    let moved = match unit.millis() {
        Some(millis) => amount
            .checked_mul(millis)
            .and_then(|millis| date.checked_add(millis)),
        None => {
            let mut civil = zone.civil(date);
            match unit {
                Unit::Week => civil.day += amount * 7,
                Unit::Day => civil.day += amount,
                _ => {
                    let months = match unit {
                        Unit::Year => amount * 12,
                        Unit::Quarter => amount * 3,
                        _ => amount,
                    };
                    let month = civil.month - 1 + months;
                    civil.year += month.div_euclid(12);
                    civil.month = month.rem_euclid(12) + 1;
                    civil.day = civil.day.min(days_in_month(civil.year, civil.month));
                }
            }
            zone.to_utc(civil)
        }
    };
    match moved {
        Some(moved) => Ok(moved),
        None => fail(5166406, "dateAdd overflowed"),
    }
}

/// The day on which weeks begin, from Monday, which is 1; none for null.
fn start_of_week<'a>(call: &'a Call, index: usize, frame: &Frame<'a>) -> Result<Option<i64>> {
    const DAYS: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let name = call.operator.name;
    if call.argument(index).is_absent() {
        return Ok(Some(7));
    }
    match call.evaluate_argument(index, frame)?.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => Ok(None),
        Some(Bson::String(day)) => {
            let day = day.to_lowercase();
            let is_named = |full: &&str| *full == day || full.get(..3) == Some(day.as_str());
            match (1..).zip(DAYS).find(|(_, full)| is_named(full)) {
                Some((number, _)) => Ok(Some(number)),
                None => fail(5439016, format!("{name}: not a day of the week: {day}")),
            }
        }
        Some(_) => fail(
            5439015,
            format!("{name} requires 'startOfWeek' to be a string"),
        ),
    }
}

fn date_argument(name: &str, value: Option<&Bson>) -> Result<i64> {
    match value.and_then(as_date) {
        Some(date) => Ok(date),
        None => {
            let found = value.map_or("missing", type_name);
            fail(5166307, format!("{name} requires a date, but got {found}"))
        }
    }
}

fn date_diff<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let start = call.evaluate_argument(0, frame)?;
    if is_nullish(start.as_deref()) {
        return null();
    }
    let end = call.evaluate_argument(1, frame)?;
    if is_nullish(end.as_deref()) {
        return null();
    }
    let unit = call.evaluate_argument(2, frame)?;
    let Some(unit) = Unit::from_value("$dateDiff", unit.as_deref())? else {
        return null();
    };
    let first_day = match unit {
        Unit::Week => start_of_week(call, 4, frame)?,
        _ => Some(7),
    };
    let Some(first_day) = first_day else {
        return null();
    };
    let Some(zone) = zone_argument(call, 3, frame)? else {
        return null();
    };
    let start = date_argument("$dateDiff", start.as_deref())?;
    let end = date_argument("$dateDiff", end.as_deref())?;
    if unit == Unit::Millisecond {
        return match end.checked_sub(start) {
            Some(difference) => some(difference),
            None => fail(5166308, "dateDiff overflowed"),
        };
    }
    let (from, to) = (zone.civil(start), zone.civil(end));
    let offsets = zone.offset_at(start) - zone.offset_at(end);
    some(match unit {
        Unit::Year => to.year - from.year,
        Unit::Quarter => quarters(to) - quarters(from),
        Unit::Month => months(to) - months(from),
        Unit::Week => weeks(to.days(), first_day) - weeks(from.days(), first_day),
        Unit::Day => to.days() - from.days(),
        Unit::Hour => hours(to) - hours(from) + offsets / 3600,
        Unit::Minute => minutes(to) - minutes(from) + offsets / 60,
        _ => seconds(to) - seconds(from) + offsets,
    })
}

fn quarters(date: Civil) -> i64 {
    date.year * 4 + (date.month - 1) / 3
}

fn months(date: Civil) -> i64 {
    date.year * 12 + date.month
}

/// Weeks that have begun, of those that begin on the given day.
fn weeks(days: i64, first_day: i64) -> i64 {
    (days + 4 - first_day).div_euclid(7)
}

fn hours(date: Civil) -> i64 {
    date.days() * 24 + date.hour
}

fn minutes(date: Civil) -> i64 {
    hours(date) * 60 + date.minute
}

fn seconds(date: Civil) -> i64 {
    minutes(date) * 60 + date.second
}

fn bin_size<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Option<i64>> {
    if call.argument(2).is_absent() {
        return Ok(Some(1));
    }
    match call.evaluate_argument(2, frame)?.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => Ok(None),
        Some(value) => match Number::from_bson(value).and_then(Number::as_i64_exact) {
            None => fail(
                5439017,
                "$dateTrunc requires 'binSize' to be a 64-bit integer",
            ),
            Some(size) if size <= 0 => fail(
                5439018,
                format!("$dateTrunc requires 'binSize' to be positive, got {size}"),
            ),
            Some(size) => Ok(Some(size)),
        },
    }
}

fn date_trunc<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let date = call.evaluate_argument(0, frame)?;
    if is_nullish(date.as_deref()) {
        return null();
    }
    let Some(size) = bin_size(call, frame)? else {
        return null();
    };
    let unit = call.evaluate_argument(1, frame)?;
    let Some(unit) = Unit::from_value("$dateTrunc", unit.as_deref())? else {
        return null();
    };
    let first_day = match unit {
        Unit::Week => start_of_week(call, 4, frame)?,
        _ => Some(7),
    };
    let Some(first_day) = first_day else {
        return null();
    };
    let Some(zone) = zone_argument(call, 3, frame)? else {
        return null();
    };
    let date = date_argument("$dateTrunc", date.as_deref())?;
    some(DateTime::from_millis(truncate(
        date,
        (unit, size),
        &zone,
        first_day,
    )?))
}

/// The start of the bin that a date is in. Bins are counted from the beginning of 2000, or for
/// weeks from the first week that began in it.
fn truncate(date: i64, (unit, size): (Unit, i64), zone: &Zone, first_day: i64) -> Result<i64> {
    const REFERENCE: i64 = 946_684_800_000;
    let mut reference = REFERENCE - zone.offset_at(REFERENCE) * 1000;
    if let Some(millis) = unit.millis() {
        let Some(bin) = size.checked_mul(millis) else {
            return fail(5439002, "dateTrunc overflowed");
        };
        let start = date
            .checked_sub(reference)
            .and_then(|shifted| date.checked_sub(shifted.rem_euclid(bin)));
        return match start {
            Some(start) => Ok(start),
            None => fail(5439000, "dateTrunc overflowed"),
        };
    }
    if size > 100_000_000_000 {
        return fail(5439006, "dateTrunc unsupported binSize value");
    }
    let civil = zone.civil(date);
    let distance = match unit {
        Unit::Year => civil.year - 2000,
        Unit::Quarter => quarters(civil) - 2000 * 4,
        Unit::Month => months(civil) - 2000 * 12 - 1,
        Unit::Day => civil.days() - days_before(2000, 1, 1).unwrap_or(0),
        _ => {
            // The first of January 2000 was a Saturday.
            let skipped = (first_day - 6).rem_euclid(7);
            reference += skipped * DAY;
            let first = days_before(2000, 1, 1 + skipped).unwrap_or(0);
            weeks(civil.days(), first_day) - weeks(first, first_day)
        }
    };
    match distance.checked_sub(distance.rem_euclid(size)) {
        Some(bins) => add_within(reference, unit, bins, zone),
        None => fail(5439004, "dateTrunc overflowed"),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, bson};

    use crate::expression::tests::{fails, gives};

    fn date(text: &str) -> Bson {
        Bson::DateTime(DateTime::parse_rfc3339_str(text).unwrap())
    }

    fn add(start: &str, unit: &str, amount: i64, zone: &str) -> Bson {
        bson!({ "$dateAdd": {
            "startDate": date(start), "unit": unit, "amount": amount, "timezone": zone,
        } })
    }

    #[test]
    fn adds() {
        gives([
            (
                add("2024-01-31T00:00:00Z", "month", 1, "UTC"),
                date("2024-02-29T00:00:00Z"),
            ),
            (
                add("2024-02-29T00:00:00Z", "year", 1, "UTC"),
                date("2025-02-28T00:00:00Z"),
            ),
            (
                add("2024-01-01T00:00:00Z", "quarter", -1, "UTC"),
                date("2023-10-01T00:00:00Z"),
            ),
            (
                add("2024-01-01T00:00:00Z", "week", 1, "UTC"),
                date("2024-01-08T00:00:00Z"),
            ),
            (
                add("2024-01-01T00:00:00Z", "millisecond", 5, "UTC"),
                date("2024-01-01T00:00:00.005Z"),
            ),
            // A day keeps the clock, and so has an hour less when clocks are put forward.
            (
                add("2024-03-09T12:00:00Z", "day", 1, "America/New_York"),
                date("2024-03-10T11:00:00Z"),
            ),
            (
                add("2024-03-09T12:00:00Z", "hour", 24, "America/New_York"),
                date("2024-03-10T12:00:00Z"),
            ),
            (
                bson!({ "$dateSubtract": {
                    "startDate": date("2024-03-31T00:00:00Z"), "unit": "month", "amount": 1,
                } }),
                date("2024-02-29T00:00:00Z"),
            ),
            (
                bson!({ "$dateAdd": { "startDate": null, "unit": "day", "amount": 1 } }),
                bson!(null),
            ),
        ]);
    }

    #[test]
    fn refuses_malformed_additions() {
        fails([
            (bson!({ "$dateAdd": 1 }), 5166400),
            (bson!({ "$dateAdd": { "x": 1 } }), 5166401),
            (
                bson!({ "$dateAdd": { "unit": "day", "amount": 1 } }),
                5166402,
            ),
            (
                bson!({ "$dateAdd": { "startDate": 1, "unit": "day", "amount": 1 } }),
                5166403,
            ),
            (add("2024-01-01T00:00:00Z", "days", 1, "UTC"), 9),
            (
                bson!({ "$dateAdd": {
                    "startDate": date("2024-01-01T00:00:00Z"), "unit": 1, "amount": 1,
                } }),
                5439013,
            ),
            (
                bson!({ "$dateAdd": {
                    "startDate": date("2024-01-01T00:00:00Z"), "unit": "day", "amount": 1.5,
                } }),
                5166405,
            ),
            (
                add("2024-01-01T00:00:00Z", "year", i64::MAX, "UTC"),
                5976500,
            ),
            (
                add("2024-01-01T00:00:00Z", "year", 500_000_000, "UTC"),
                5166406,
            ),
            (
                bson!({ "$dateSubtract": {
                    "startDate": date("2024-01-01T00:00:00Z"), "unit": "day", "amount": i64::MIN,
                } }),
                6045000,
            ),
        ]);
    }

    #[test]
    fn measures() {
        let between = |start: &str, end: &str, unit: &str| {
            bson!({ "$dateDiff": {
                "startDate": date(start), "endDate": date(end), "unit": unit,
            } })
        };
        gives([
            (
                between("2023-12-31T23:59:59Z", "2024-01-01T00:00:00Z", "year"),
                bson!(1_i64),
            ),
            (
                between("2023-12-31T23:59:59Z", "2024-01-01T00:00:00Z", "quarter"),
                bson!(1_i64),
            ),
            (
                between("2024-01-31T00:00:00Z", "2024-03-01T00:00:00Z", "month"),
                bson!(2_i64),
            ),
            // From a Saturday to the Sunday after it.
            (
                between("2024-06-15T00:00:00Z", "2024-06-16T00:00:00Z", "week"),
                bson!(1_i64),
            ),
            (
                between("2024-06-16T00:00:00Z", "2024-06-15T00:00:00Z", "day"),
                bson!(-1_i64),
            ),
            (
                between("2024-06-15T00:59:00Z", "2024-06-15T01:00:00Z", "hour"),
                bson!(1_i64),
            ),
            (
                between("2024-06-15T00:00:00Z", "2024-06-15T01:00:00Z", "minute"),
                bson!(60_i64),
            ),
            (
                between(
                    "2024-06-15T00:00:00Z",
                    "2024-06-15T00:00:01Z",
                    "millisecond",
                ),
                bson!(1000_i64),
            ),
            (
                bson!({ "$dateDiff": {
                    "startDate": date("2024-06-15T00:00:00Z"),
                    "endDate": date("2024-06-16T00:00:00Z"),
                    "unit": "week", "startOfWeek": "Mon",
                } }),
                bson!(0_i64),
            ),
        ]);
    }

    #[test]
    fn refuses_malformed_measures() {
        fails([
            (bson!({ "$dateDiff": 1 }), 5166301),
            (bson!({ "$dateDiff": { "x": 1 } }), 5166302),
            (bson!({ "$dateDiff": { "endDate": 1, "unit": 1 } }), 5166303),
            (
                bson!({ "$dateDiff": { "startDate": 1, "unit": 1 } }),
                5166304,
            ),
            (
                bson!({ "$dateDiff": { "startDate": 1, "endDate": 1 } }),
                5166305,
            ),
            (
                bson!({ "$dateDiff": { "startDate": 1, "endDate": 1, "unit": "day" } }),
                5166307,
            ),
            (
                bson!({ "$dateDiff": {
                    "startDate": 1, "endDate": 1, "unit": "week", "startOfWeek": "x",
                } }),
                5439016,
            ),
        ]);
    }

    #[test]
    fn truncates() {
        let trunc = |text: &str, unit: &str, size: i64, zone: &str| {
            bson!({ "$dateTrunc": {
                "date": date(text), "unit": unit, "binSize": size, "timezone": zone,
            } })
        };
        gives([
            (
                trunc("2024-06-15T14:30:45Z", "year", 1, "UTC"),
                date("2024-01-01T00:00:00Z"),
            ),
            (
                trunc("2024-06-15T14:30:45Z", "quarter", 1, "UTC"),
                date("2024-04-01T00:00:00Z"),
            ),
            (
                trunc("2024-06-15T14:30:45Z", "month", 5, "UTC"),
                date("2024-03-01T00:00:00Z"),
            ),
            (
                trunc("2024-06-15T14:30:45Z", "week", 1, "UTC"),
                date("2024-06-09T00:00:00Z"),
            ),
            (
                trunc("2024-06-15T14:30:45Z", "day", 1, "+05:30"),
                date("2024-06-14T18:30:00Z"),
            ),
            (
                trunc("2024-06-15T14:30:45Z", "hour", 6, "UTC"),
                date("2024-06-15T12:00:00Z"),
            ),
            (
                trunc("1969-12-31T23:59:59Z", "minute", 1, "UTC"),
                date("1969-12-31T23:59:00Z"),
            ),
            (
                bson!({ "$dateTrunc": { "date": null, "unit": "day" } }),
                bson!(null),
            ),
        ]);
        fails([
            (bson!({ "$dateTrunc": 1 }), 5439007),
            (bson!({ "$dateTrunc": { "x": 1 } }), 5439008),
            (bson!({ "$dateTrunc": { "unit": "day" } }), 5439009),
            (bson!({ "$dateTrunc": { "date": 1 } }), 5439010),
            (
                bson!({ "$dateTrunc": { "date": 1, "unit": "day", "binSize": "x" } }),
                5439017,
            ),
            (
                bson!({ "$dateTrunc": { "date": 1, "unit": "day", "binSize": 0 } }),
                5439018,
            ),
            (
                bson!({ "$dateTrunc": { "date": 1, "unit": "week", "startOfWeek": 1 } }),
                5439015,
            ),
            (
                trunc("2024-06-15T14:30:45Z", "hour", i64::MAX, "UTC"),
                5439002,
            ),
            (
                trunc("2024-06-15T14:30:45Z", "year", i64::MAX, "UTC"),
                5439006,
            ),
        ]);
    }
}
