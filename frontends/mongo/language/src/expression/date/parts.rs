//! Dates from their parts and back: `$dateFromParts`, `$dateToParts`.

use bson::{Bson, DateTime, doc};

use super::calendar::{Civil, from_iso_week};
use super::{coerce, zone_argument};
use crate::compare::type_name;
use crate::error::Result;
use crate::expression::operator::{Form, Named, Operator, optional, required};
use crate::expression::{Call, Frame, Node, ParseContext, Value, fail, is_nullish, null, some};
use crate::number::Number;

const TO_PARTS: Named = Named {
    fields: &[
        required("date", 40522),
        optional("timezone"),
        optional("iso8601"),
    ],
    not_object: 40524,
    unknown: 40520,
};

const FROM_PARTS: Named = Named {
    fields: &[
        optional("year"),
        optional("month"),
        optional("day"),
        optional("hour"),
        optional("minute"),
        optional("second"),
        optional("millisecond"),
        optional("timezone"),
        optional("isoWeekYear"),
        optional("isoWeek"),
        optional("isoDayOfWeek"),
    ],
    not_object: 40519,
    unknown: 40518,
};

pub(super) const OPERATORS: &[Operator] = &[
    Operator::lazy(
        "$dateFromParts",
        Form::Special(parse_from_parts),
        from_parts,
    ),
    Operator::lazy("$dateToParts", Form::Named(&TO_PARTS), to_parts),
];

fn parse_from_parts(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    let fields = operator.fields(&FROM_PARTS, argument)?;
    let has = |index: usize| fields.get(index).is_some_and(Option::is_some);
    let (year, month, day) = (has(0), has(1), has(2));
    let (iso_year, iso_week, iso_day) = (has(8), has(9), has(10));
    if !year && !iso_year {
        return fail(
            40516,
            "$dateFromParts requires either 'year' or 'isoWeekYear'",
        );
    }
    if year && (iso_year || iso_week || iso_day) {
        return fail(
            40489,
            "$dateFromParts does not allow mixing natural dates with ISO dates",
        );
    }
    if iso_year && (month || day) {
        return fail(
            40525,
            "$dateFromParts does not allow mixing ISO dates with natural dates",
        );
    }
    Ok(operator.call(operator.named(&FROM_PARTS, argument, context)?))
}

/// One part; none for null.
fn part<'a>(call: &'a Call, index: usize, default: i64, frame: &Frame<'a>) -> Result<Option<i64>> {
    if call.argument(index).is_absent() {
        return Ok(Some(default));
    }
    let value = call.evaluate_argument(index, frame)?;
    match value.as_deref() {
        None | Some(Bson::Null | Bson::Undefined) => Ok(None),
        Some(value) => match Number::from_bson(value).and_then(Number::as_i64_exact) {
            Some(part) => Ok(Some(part)),
            None => {
                let name = FROM_PARTS.fields.get(index).map_or("", |field| field.name);
                let found = type_name(value);
                fail(
                    40515,
                    format!("'{name}' must evaluate to an integer, found {found}"),
                )
            }
        },
    }
}

/// One part of those that may count only so far beyond their range.
fn small_part<'a>(
    call: &'a Call,
    index: usize,
    default: i64,
    frame: &Frame<'a>,
) -> Result<Option<i64>> {
    let part = part(call, index, default, frame)?;
    if part.is_some_and(|part| i16::try_from(part).is_err()) {
        let name = FROM_PARTS.fields.get(index).map_or("", |field| field.name);
        return fail(
            31034,
            format!("'{name}' must evaluate to a value in the range of 16 bits"),
        );
    }
    Ok(part)
}

fn from_parts<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let (Some(hour), Some(minute), Some(second), Some(millisecond)) = (
        small_part(call, 3, 0, frame)?,
        small_part(call, 4, 0, frame)?,
        part(call, 5, 0, frame)?,
        part(call, 6, 0, frame)?,
    ) else {
        return null();
    };
    let Some(zone) = zone_argument(call, 7, frame)? else {
        return null();
    };
    let date = if call.argument(0).is_absent() {
        iso_date(call, frame)?
    } else {
        natural_date(call, frame)?
    };
    let Some((year, month, day)) = date else {
        return null();
    };
    let civil = Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
        millisecond,
    };
    match zone.to_utc(civil) {
        Some(millis) => some(DateTime::from_millis(millis)),
        None => fail(15, "$dateFromParts: the date is out of range"),
    }
}

type YearMonthDay = (i64, i64, i64);

fn natural_date<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Option<YearMonthDay>> {
    let (Some(year), Some(month), Some(day)) = (
        part(call, 0, 1970, frame)?,
        small_part(call, 1, 1, frame)?,
        small_part(call, 2, 1, frame)?,
    ) else {
        return Ok(None);
    };
    if !(1..=9999).contains(&year) {
        return fail(
            40523,
            format!("'year' must be an integer from 1 to 9999, found {year}"),
        );
    }
    Ok(Some((year, month, day)))
}

fn iso_date<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Option<YearMonthDay>> {
    let (Some(year), Some(week), Some(day)) = (
        part(call, 8, 1970, frame)?,
        small_part(call, 9, 1, frame)?,
        small_part(call, 10, 1, frame)?,
    ) else {
        return Ok(None);
    };
    if !(1..=9999).contains(&year) {
        return fail(
            31095,
            format!("'isoWeekYear' must be from 1 to 9999, found {year}"),
        );
    }
    Ok(from_iso_week(year, week, day))
}

fn to_parts<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let date = call.evaluate_argument(0, frame)?;
    let Some(zone) = zone_argument(call, 1, frame)? else {
        return null();
    };
    let iso = match call.evaluate_argument(2, frame)?.as_deref() {
        None if call.argument(2).is_absent() => false,
        None | Some(Bson::Null | Bson::Undefined) => return null(),
        Some(Bson::Boolean(iso)) => *iso,
        Some(other) => {
            let found = type_name(other);
            return fail(
                40521,
                format!("iso8601 must evaluate to a bool, found {found}"),
            );
        }
    };
    if is_nullish(date.as_deref()) {
        return null();
    }
    let civil = zone.civil(coerce(date.as_deref())?);
    let number = super::small;
    let mut parts = if iso {
        let (year, week) = civil.iso_week();
        doc! {
            "isoWeekYear": number(year), "isoWeek": number(week),
            "isoDayOfWeek": number(civil.iso_day_of_week()),
        }
    } else {
        doc! {
            "year": number(civil.year), "month": number(civil.month), "day": number(civil.day),
        }
    };
    parts.extend(doc! {
        "hour": number(civil.hour), "minute": number(civil.minute),
        "second": number(civil.second), "millisecond": number(civil.millisecond),
    });
    some(parts)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, bson};

    use crate::expression::tests::{fails, gives};

    fn date(millis: i64) -> Bson {
        Bson::DateTime(DateTime::from_millis(millis))
    }

    #[test]
    fn goes_both_ways() {
        gives([
            (
                bson!({ "$dateFromParts": { "year": 2024, "month": 6, "day": 15, "hour": 12 } }),
                date(1_718_452_800_000),
            ),
            (
                bson!({ "$dateFromParts": { "year": 2024, "month": 14, "day": 0 } }),
                date(1_738_281_600_000),
            ),
            (
                bson!({ "$dateFromParts": {
                    "isoWeekYear": 2024, "isoWeek": 24, "isoDayOfWeek": 6,
                } }),
                date(1_718_409_600_000),
            ),
            (
                bson!({ "$dateFromParts": { "year": 2024, "timezone": "+01:00" } }),
                date(1_704_063_600_000),
            ),
            (bson!({ "$dateFromParts": { "year": null } }), bson!(null)),
            (
                bson!({ "$dateToParts": { "date": date(-1) } }),
                bson!({
                    "year": 1969, "month": 12, "day": 31, "hour": 23, "minute": 59, "second": 59,
                    "millisecond": 999,
                }),
            ),
            (
                bson!({ "$dateToParts": { "date": date(0), "iso8601": true, "timezone": "+01" } }),
                bson!({
                    "isoWeekYear": 1970, "isoWeek": 1, "isoDayOfWeek": 4, "hour": 1, "minute": 0,
                    "second": 0, "millisecond": 0,
                }),
            ),
            (bson!({ "$dateToParts": { "date": null } }), bson!(null)),
        ]);
    }

    #[test]
    fn refuses_malformed_parts() {
        fails([
            (bson!({ "$dateFromParts": 1 }), 40519),
            (bson!({ "$dateFromParts": { "x": 1 } }), 40518),
            (bson!({ "$dateFromParts": { "month": 1 } }), 40516),
            (
                bson!({ "$dateFromParts": { "year": 1, "isoWeek": 1 } }),
                40489,
            ),
            (
                bson!({ "$dateFromParts": { "isoWeekYear": 1, "day": 1 } }),
                40525,
            ),
            (bson!({ "$dateFromParts": { "year": 1.5 } }), 40515),
            (bson!({ "$dateFromParts": { "year": 10000 } }), 40523),
            (bson!({ "$dateFromParts": { "isoWeekYear": 0 } }), 31095),
            (
                bson!({ "$dateFromParts": { "year": 2000, "month": 40000 } }),
                31034,
            ),
            (bson!({ "$dateToParts": 1 }), 40524),
            (bson!({ "$dateToParts": { "x": 1 } }), 40520),
            (bson!({ "$dateToParts": {} }), 40522),
            (
                bson!({ "$dateToParts": { "date": date(0), "iso8601": 1 } }),
                40521,
            ),
            (bson!({ "$dateToParts": { "date": 1 } }), 16006),
        ]);
    }
}
