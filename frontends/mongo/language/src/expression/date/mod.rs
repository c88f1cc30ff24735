//! Dates: their parts, their text, and arithmetic with them, in any time zone.

mod arithmetic;
mod calendar;
pub(super) mod format;
mod parse;
mod parts;
mod zone;

use bson::Bson;

use self::calendar::Civil;
use self::zone::Zone;
use super::operator::{Form, Named, Operator, optional, required};
use super::{Call, Frame, Node, ParseContext, Value, fail, is_nullish, null, some};
use crate::compare::type_name;
use crate::error::Result;

pub(crate) use self::arithmetic::{Unit, add as add_to_date};
pub(super) use self::parse::parse as parse_date;

/// The families of dates, for the table of all operators.
pub(super) const FAMILIES: [&[Operator]; 5] = [
    OPERATORS,
    arithmetic::OPERATORS,
    format::OPERATORS,
    parse::OPERATORS,
    parts::OPERATORS,
];

const fn part(name: &'static str, run: Part) -> Operator {
    Operator::lazy(name, Form::Special(parse_part), run)
}

type Part = for<'a> fn(&'a Call, &Frame<'a>) -> Result<Value<'a>>;

const OPERATORS: &[Operator] = &[
    part("$dayOfMonth", |call, frame| {
        part_of(call, frame, |date| small(date.day))
    }),
    part("$dayOfWeek", |call, frame| {
        part_of(call, frame, |date| small(date.day_of_week()))
    }),
    part("$dayOfYear", |call, frame| {
        part_of(call, frame, |date| small(date.day_of_year()))
    }),
    part("$hour", |call, frame| {
        part_of(call, frame, |date| small(date.hour))
    }),
    part("$isoDayOfWeek", |call, frame| {
        part_of(call, frame, |date| small(date.iso_day_of_week()))
    }),
    part("$isoWeek", |call, frame| {
        part_of(call, frame, |date| small(date.iso_week().1))
    }),
    part("$isoWeekYear", |call, frame| {
        part_of(call, frame, |date| Bson::Int64(date.iso_week().0))
    }),
    part("$millisecond", |call, frame| {
        part_of(call, frame, |date| small(date.millisecond))
    }),
    part("$minute", |call, frame| {
        part_of(call, frame, |date| small(date.minute))
    }),
    part("$month", |call, frame| {
        part_of(call, frame, |date| small(date.month))
    }),
    part("$second", |call, frame| {
        part_of(call, frame, |date| small(date.second))
    }),
    part("$week", |call, frame| {
        part_of(call, frame, |date| small(date.week()))
    }),
    part("$year", |call, frame| {
        part_of(call, frame, |date| small(date.year))
    }),
];

const PART: Named = Named {
    fields: &[required("date", 40539), optional("timezone")],
    not_object: 40539,
    unknown: 40535,
};

/// A part of a date as BSON has it.
fn small(value: i64) -> Bson {
    Bson::Int32(i32::try_from(value).unwrap_or(i32::MAX))
}

/// The date alone, or an object of a date and a time zone.
fn parse_part(
    operator: &'static Operator,
    argument: &Bson,
    context: &ParseContext<'_>,
) -> Result<Node> {
    match argument {
        Bson::Document(document)
            if !document
                .keys()
                .next()
                .is_some_and(|name| name.starts_with('$')) =>
        {
            Ok(operator.call(operator.named(&PART, argument, context)?))
        }
        Bson::Array(items) => match items.as_slice() {
            [date] => Ok(operator.call(vec![Node::parse(date, context)?])),
            _ => fail(
                40536,
                format!("{} accepts exactly one argument", operator.name),
            ),
        },
        date => Ok(operator.call(vec![Node::parse(date, context)?])),
    }
}

fn part_of<'a>(call: &'a Call, frame: &Frame<'a>, part: fn(Civil) -> Bson) -> Result<Value<'a>> {
    let date = call.evaluate_argument(0, frame)?;
    if is_nullish(date.as_deref()) {
        return null();
    }
    let millis = coerce(date.as_deref())?;
    match zone_argument(call, 1, frame)? {
        Some(zone) => some(part(zone.civil(millis))),
        None => null(),
    }
}

/// The time zone that an argument names, the world's if there is no such argument, none for null.
fn zone_argument<'a>(call: &'a Call, index: usize, frame: &Frame<'a>) -> Result<Option<Zone>> {
    if call.argument(index).is_absent() {
        return Ok(Some(Zone::UTC));
    }
    Zone::from_value(call.evaluate_argument(index, frame)?.as_deref())
}

/// The milliseconds of a date, a timestamp, or the moment at which an identifier was made.
fn coerce(value: Option<&Bson>) -> Result<i64> {
    match value.and_then(as_date) {
        Some(millis) => Ok(millis),
        None => {
            let found = value.map_or("missing", type_name);
            fail(
                16006,
                format!("can't convert from BSON type {found} to Date"),
            )
        }
    }
}

pub(super) fn as_date(value: &Bson) -> Option<i64> {
    match value {
        Bson::DateTime(date) => Some(date.timestamp_millis()),
        Bson::Timestamp(timestamp) => Some(i64::from(timestamp.time) * 1000),
        // Seconds of 32 bits, which count as signed.
        Bson::ObjectId(id) => {
            let seconds = id
                .bytes()
                .first_chunk::<4>()
                .map(|bytes| i32::from_be_bytes(*bytes));
            seconds.map(|seconds| i64::from(seconds) * 1000)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, Timestamp, bson, oid::ObjectId};

    use crate::expression::tests::{fails, gives};

    #[test]
    fn takes_parts() {
        let date = || Bson::DateTime(DateTime::from_millis(1_718_461_845_123));
        gives([
            (bson!({ "$year": date() }), bson!(2024)),
            (bson!({ "$month": [date()] }), bson!(6)),
            (bson!({ "$dayOfMonth": { "date": date() } }), bson!(15)),
            (
                bson!({ "$hour": { "date": date(), "timezone": "Asia/Kolkata" } }),
                bson!(20),
            ),
            (bson!({ "$minute": date() }), bson!(30)),
            (bson!({ "$second": date() }), bson!(45)),
            (bson!({ "$millisecond": date() }), bson!(123)),
            (bson!({ "$dayOfWeek": date() }), bson!(7)),
            (bson!({ "$dayOfYear": date() }), bson!(167)),
            (bson!({ "$week": date() }), bson!(23)),
            (bson!({ "$isoWeek": date() }), bson!(24)),
            (bson!({ "$isoWeekYear": date() }), bson!(2024_i64)),
            (bson!({ "$isoDayOfWeek": date() }), bson!(6)),
            (bson!({ "$year": { "$add": [date(), 0] } }), bson!(2024)),
            (
                bson!({ "$year": Timestamp { time: 0, increment: 1 } }),
                bson!(1970),
            ),
            (
                bson!({ "$year": ObjectId::from_bytes([0; 12]) }),
                bson!(1970),
            ),
            (bson!({ "$year": "$none" }), bson!(null)),
            (
                bson!({ "$year": { "date": date(), "timezone": null } }),
                bson!(null),
            ),
        ]);
        fails([
            (bson!({ "$year": "x" }), 16006),
            (bson!({ "$year": [date(), date()] }), 40536),
            (bson!({ "$year": { "date": date(), "x": 1 } }), 40535),
            (bson!({ "$year": { "timezone": "UTC" } }), 40539),
            (bson!({ "$year": { "date": date(), "timezone": 1 } }), 40517),
        ]);
    }
}
