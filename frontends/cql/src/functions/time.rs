//! Functions of time: now in every type, from one type to another, and times rounded down.

use std::borrow::Cow;

use tessera_core::clock::Clock;

use super::{Call, Pattern, Returns, Row};
use crate::error::{CqlError, Result};
use crate::types::{Duration, Native, add_months, month_of};

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_DAY: i64 = MILLIS_PER_DAY * NANOS_PER_MILLI;
/// Days of type `date` count from here.
const DATE_EPOCH: i64 = 1 << 31;
/// Times in UUIDs are tenths of microseconds since 1582, of which so many were before 1970.
const UUID_EPOCH: u64 = 0x01b2_1dd2_1381_4000;
const UUID_TICKS_PER_MILLI: i64 = 10_000;

const TIMEUUID: Pattern = Pattern::Native(Native::Timeuuid);
const TIMESTAMP: Pattern = Pattern::Native(Native::Timestamp);
const DATE: Pattern = Pattern::Native(Native::Date);
const TIME: Pattern = Pattern::Native(Native::Time);
const DURATION: Pattern = Pattern::Native(Native::Duration);

const fn returns(native: Native) -> Returns {
    Returns::Native(native)
}

pub(super) const ROWS: &[Row] = &[
    row("now", "now", &[(&[], returns(Native::Timeuuid))], now),
    row("uuid", "uuid", &[(&[], returns(Native::Uuid))], random_uuid),
    row(
        "current_timeuuid",
        "currenttimeuuid",
        &[(&[], returns(Native::Timeuuid))],
        now,
    ),
    row(
        "current_timestamp",
        "currenttimestamp",
        &[(&[], returns(Native::Timestamp))],
        current_timestamp,
    ),
    row(
        "current_date",
        "currentdate",
        &[(&[], returns(Native::Date))],
        current_date,
    ),
    row(
        "current_time",
        "currenttime",
        &[(&[], returns(Native::Time))],
        current_time,
    ),
    row(
        "min_timeuuid",
        "mintimeuuid",
        &[(&[TIMESTAMP], returns(Native::Timeuuid))],
        min_timeuuid,
    ),
    row(
        "max_timeuuid",
        "maxtimeuuid",
        &[(&[TIMESTAMP], returns(Native::Timeuuid))],
        max_timeuuid,
    ),
    row(
        "to_date",
        "todate",
        &[
            (&[TIMEUUID], returns(Native::Date)),
            (&[TIMESTAMP], returns(Native::Date)),
        ],
        to_date,
    ),
    row(
        "to_timestamp",
        "totimestamp",
        &[
            (&[TIMEUUID], returns(Native::Timestamp)),
            (&[DATE], returns(Native::Timestamp)),
        ],
        to_timestamp,
    ),
    row(
        "to_unix_timestamp",
        "tounixtimestamp",
        &[
            (&[TIMEUUID], returns(Native::Bigint)),
            (&[TIMESTAMP], returns(Native::Bigint)),
            (&[DATE], returns(Native::Bigint)),
        ],
        to_timestamp,
    ),
    row(
        "date_of",
        "dateof",
        &[(&[TIMEUUID], returns(Native::Timestamp))],
        to_timestamp,
    ),
    row(
        "unix_timestamp_of",
        "unixtimestampof",
        &[(&[TIMEUUID], returns(Native::Bigint))],
        to_timestamp,
    ),
    row(
        "floor",
        "floor",
        &[
            (&[TIMESTAMP, DURATION], returns(Native::Timestamp)),
            (
                &[TIMESTAMP, DURATION, TIMESTAMP],
                returns(Native::Timestamp),
            ),
            (&[TIMEUUID, DURATION], returns(Native::Timestamp)),
            (&[TIMEUUID, DURATION, TIMESTAMP], returns(Native::Timestamp)),
            (&[DATE, DURATION], returns(Native::Date)),
            (&[DATE, DURATION, DATE], returns(Native::Date)),
            (&[TIME, DURATION], returns(Native::Time)),
        ],
        floor,
    ),
];

const fn row(
    name: &'static str,
    legacy: &'static str,
    overloads: &'static [(&'static [Pattern], Returns)],
    evaluate: super::Evaluate,
) -> Row {
    Row {
        name,
        legacy,
        overloads,
        takes_null: false,
        evaluate,
    }
}

fn now(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(new_timeuuid(call.clock).to_vec()))
}

/// A UUID of this moment that nobody else has.
pub(crate) fn new_timeuuid(clock: &Clock) -> [u8; 16] {
    let ticks = clock.next_version(0).wrapping_mul(10);
    // The multicast bit tells a random node from a real one.
    let rest: u64 = rand::random::<u64>() & 0x3fff_ffff_ffff_ffff | 0x8000_0100_0000_0000;
    timeuuid(ticks.wrapping_add(UUID_EPOCH), rest)
}

fn timeuuid(ticks: u64, rest: u64) -> [u8; 16] {
    let low = ticks & 0xffff_ffff;
    let middle = ticks >> 32 & 0xffff;
    let high = ticks >> 48 & 0x0fff;
    let first = low << 32 | middle << 16 | high | 0x1000;
    (u128::from(first) << 64 | u128::from(rest)).to_be_bytes()
}

/// Milliseconds since 1970 of a UUID of version 1.
pub(crate) fn timeuuid_millis(uuid: [u8; 16]) -> i64 {
    let first = u128::from_be_bytes(uuid) >> 64;
    let first = u64::try_from(first).unwrap_or(0);
    let ticks = (first & 0x0fff) << 48 | (first >> 16 & 0xffff) << 32 | first >> 32;
    ticks
        .wrapping_sub(UUID_EPOCH)
        .cast_signed()
        .div_euclid(UUID_TICKS_PER_MILLI)
}

fn random_uuid(_: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let random = rand::random::<u128>();
    let marked = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    Ok(Some(marked.to_be_bytes().to_vec()))
}

fn now_millis(call: &Call<'_>) -> i64 {
    i64::try_from(call.clock.now_ms()).unwrap_or(i64::MAX)
}

fn current_timestamp(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(now_millis(call).to_be_bytes().to_vec()))
}

fn current_date(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(Some(date_of(now_millis(call))))
}

fn current_time(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let nanos = now_millis(call).rem_euclid(MILLIS_PER_DAY) * NANOS_PER_MILLI;
    Ok(Some(nanos.to_be_bytes().to_vec()))
}

fn date_of(millis: i64) -> Vec<u8> {
    let day = millis.div_euclid(MILLIS_PER_DAY).saturating_add(DATE_EPOCH);
    let day = u32::try_from(day).unwrap_or(if day < 0 { 0 } else { u32::MAX });
    day.to_be_bytes().to_vec()
}

/// Milliseconds since 1970 of an argument that is a moment or a day.
fn millis(call: &Call<'_>, index: usize) -> Option<i64> {
    match call.native(index)? {
        Native::Timeuuid => Some(timeuuid_millis(call.fixed(index)?)),
        Native::Timestamp => Some(i64::from_be_bytes(call.fixed(index)?)),
        Native::Date => {
            let day = i64::from(u32::from_be_bytes(call.fixed(index)?)) - DATE_EPOCH;
            Some(day * MILLIS_PER_DAY)
        }
        _ => None,
    }
}

fn to_date(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(millis(call, 0).map(date_of))
}

fn to_timestamp(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    Ok(millis(call, 0).map(|millis| millis.to_be_bytes().to_vec()))
}

/// Sorts before all UUIDs of this millisecond: the rest is the smallest of signed bytes.
fn min_timeuuid(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    bound(call, 0, 0x8080_8080_8080_8080)
}

/// Sorts behind all UUIDs of this millisecond.
fn max_timeuuid(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    bound(call, UUID_TICKS_PER_MILLI - 1, 0x7f7f_7f7f_7f7f_7f7f)
}

fn bound(call: &Call<'_>, ticks: i64, rest: u64) -> Result<Option<Vec<u8>>> {
    Ok(millis(call, 0).map(|millis| {
        let since = millis
            .wrapping_mul(UUID_TICKS_PER_MILLI)
            .wrapping_add(ticks);
        timeuuid(since.cast_unsigned().wrapping_add(UUID_EPOCH), rest).to_vec()
    }))
}

/// A moment or a day, so much later or earlier.
pub(super) fn add_duration(
    native: Native,
    value: &[u8],
    duration: Duration,
    sign: i64,
) -> Result<Vec<u8>> {
    let wrong = || CqlError::invalid("not a time");
    let imprecise = |precision: &str| {
        CqlError::invalid(format!(
            "The duration must have a {precision} precision. Was: {duration}"
        ))
    };
    let months = i64::from(duration.months) * sign;
    let days = i64::from(duration.days) * sign;
    match native {
        Native::Date => {
            if duration.nanoseconds != 0 {
                return Err(imprecise("day"));
            }
            let day: [u8; 4] = value.try_into().map_err(|_| wrong())?;
            let day = i64::from(u32::from_be_bytes(day)) - DATE_EPOCH;
            let moved = add_months(day, months) + days + DATE_EPOCH;
            let moved = u32::try_from(moved).map_err(|_| wrong())?;
            Ok(moved.to_be_bytes().to_vec())
        }
        _ => {
            if duration.nanoseconds % NANOS_PER_MILLI != 0 {
                return Err(imprecise("millisecond"));
            }
            let millis = i64::from_be_bytes(value.try_into().map_err(|_| wrong())?);
            let day = add_months(millis.div_euclid(MILLIS_PER_DAY), months) + days;
            let rest = millis.rem_euclid(MILLIS_PER_DAY);
            let more = duration.nanoseconds / NANOS_PER_MILLI * sign;
            let moved = day
                .saturating_mul(MILLIS_PER_DAY)
                .saturating_add(rest + more);
            Ok(moved.to_be_bytes().to_vec())
        }
    }
}

fn floor(call: &Call<'_>) -> Result<Option<Vec<u8>>> {
    let Some(duration) = call.arguments.get(1).and_then(Option::as_ref) else {
        return Ok(None);
    };
    let duration = Duration::decode(Cow::as_ref(duration))?;
    let Duration {
        months,
        days,
        nanoseconds,
    } = duration;
    if months < 0 || days < 0 || nanoseconds < 0 {
        return Err(CqlError::invalid(
            "Negative durations are not supported by the floor function",
        ));
    }
    if call.native(0) == Some(Native::Time) {
        if months != 0 || days != 0 || nanoseconds == 0 {
            return Err(CqlError::invalid(
                "For time values, the floor can only be computed for durations smaller that a day",
            ));
        }
        return Ok(call.fixed(0).map(|bytes| {
            let time = i64::from_be_bytes(bytes);
            (time - time.rem_euclid(nanoseconds)).to_be_bytes().to_vec()
        }));
    }
    let start = if call.arguments.len() > 2 {
        millis(call, 2)
    } else {
        Some(0)
    };
    let (Some(time), Some(start)) = (millis(call, 0), start) else {
        return Ok(None);
    };
    if start > time {
        return Err(CqlError::invalid(
            "The floor function starting time is greater than the provided time",
        ));
    }
    let is_date = call.native(0) == Some(Native::Date);
    if is_date && nanoseconds != 0 {
        return Err(CqlError::invalid(
            "The floor on date values cannot be computed for a duration with a time precision",
        ));
    }
    let floored = match (months, i64::from(days) * NANOS_PER_DAY + nanoseconds) {
        (0, 0) => return Err(CqlError::invalid("The floor duration must not be zero")),
        (0, size) => {
            let size = (size / NANOS_PER_MILLI).max(1);
            start + (time - start) / size * size
        }
        (months, 0) => floor_months(time, start, i64::from(months)),
        _ => {
            return Err(CqlError::invalid(
                "Durations with months and days or nanoseconds are not supported by floor",
            ));
        }
    };
    Ok(Some(if is_date {
        date_of(floored)
    } else {
        floored.to_be_bytes().to_vec()
    }))
}

/// The last of `start`, `start` and so many months, and so on, that is not behind `time`.
fn floor_months(time: i64, start: i64, months: i64) -> i64 {
    let (start_day, rest) = (
        start.div_euclid(MILLIS_PER_DAY),
        start.rem_euclid(MILLIS_PER_DAY),
    );
    let between = month_of(time.div_euclid(MILLIS_PER_DAY)) - month_of(start_day);
    let at = |count: i64| add_months(start_day, count * months) * MILLIS_PER_DAY + rest;
    let count = between / months;
    if at(count) > time {
        at(count - 1)
    } else {
        at(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::called;
    use super::*;

    #[test]
    fn times_change_their_types() {
        let id = "d2177dd0-eaa2-11de-a572-001b779c76e3";
        for (name, native, text, expected) in [
            (
                "to_timestamp",
                Native::Timeuuid,
                id,
                "'2009-12-17T00:26:29.805Z'",
            ),
            ("todate", Native::Timeuuid, id, "'2009-12-17'"),
            ("to_date", Native::Timestamp, "-1", "'1969-12-31'"),
            ("tounixtimestamp", Native::Date, "1970-01-02", "86400000"),
            ("dateof", Native::Timeuuid, id, "'2009-12-17T00:26:29.805Z'"),
            (
                "min_timeuuid",
                Native::Timestamp,
                "0",
                "13814000-1dd2-11b2-8080-808080808080",
            ),
            (
                "maxtimeuuid",
                Native::Timestamp,
                "0",
                "1381670f-1dd2-11b2-7f7f-7f7f7f7f7f7f",
            ),
            ("to_date", Native::Timestamp, "null", "null"),
        ] {
            assert_eq!(
                called(name, &[(native.into(), text)]),
                expected,
                "{name}({text})"
            );
        }
        assert_eq!(
            called("currenttimestamp", &[]),
            "'2023-11-14T22:13:20.000Z'"
        );
        assert_eq!(called("current_date", &[]), "'2023-11-14'");
        assert_eq!(called("currentTime", &[]), "Unknown function 'currentTime'");
    }

    #[test]
    fn new_ids_are_of_now_and_differ() {
        let clock = Clock::manual(1_700_000_000_000);
        let (first, second) = (new_timeuuid(&clock), new_timeuuid(&clock));
        assert_ne!(first, second);
        assert_eq!(timeuuid_millis(first), 1_700_000_000_000);
        assert_eq!(first[6] >> 4, 1);
        let id = called("uuid", &[]);
        assert_eq!(id.as_bytes()[14], b'4');
    }

    #[test]
    fn times_are_rounded_down() {
        let floor = |native: Native, time, duration| {
            called(
                "floor",
                &[(native.into(), time), (Native::Duration.into(), duration)],
            )
        };
        for (native, time, duration, expected) in [
            (
                Native::Timestamp,
                "2016-09-27T16:12:00Z",
                "5m",
                "'2016-09-27T16:10:00.000Z'",
            ),
            (
                Native::Timestamp,
                "2016-09-27T16:12:00Z",
                "2d",
                "'2016-09-26T00:00:00.000Z'",
            ),
            (
                Native::Timestamp,
                "2016-09-27T16:12:00Z",
                "2mo",
                "'2016-09-01T00:00:00.000Z'",
            ),
            (Native::Date, "2016-09-27", "1y", "'2016-01-01'"),
            (Native::Time, "16:12:00", "1h", "'16:00:00.000000000'"),
        ] {
            assert_eq!(floor(native, time, duration), expected, "{time} {duration}");
        }
        assert!(floor(Native::Date, "2016-09-27", "1h").contains("time precision"));
    }
}
