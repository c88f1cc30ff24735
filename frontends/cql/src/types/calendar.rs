//! Dates, times and moments as text. Time zones are offsets; without one, it is UTC.

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_DAY: i64 = 86_400 * NANOS_PER_SECOND;
const MILLIS_PER_DAY: i64 = 86_400_000;
/// Days of type `date` count from here.
const DATE_EPOCH: i64 = 1 << 31;

/// A day of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Day {
    year: i64,
    month: i64,
    day: i64,
}

impl Day {
    fn is_real(self) -> bool {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let last = match self.month {
            4 | 6 | 9 | 11 => 30,
            2 if is_leap => 29,
            2 => 28,
            1..=12 => 31,
            _ => 0,
        };
        (1..=last).contains(&self.day)
    }

    /// Days since 1970. Years begin in March here, so that the leap day is their last.
    fn number(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    fn from_number(days: i64) -> Self {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Self { year, month, day }
    }
}

/// The day so many months later, of days that count from 1970; the last of its month if that month
/// is shorter.
pub(crate) fn add_months(days: i64, months: i64) -> i64 {
    let day = Day::from_number(days);
    let month = (day.year * 12 + day.month - 1).saturating_add(months);
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let mut moved = Day { year, month, ..day };
    while !moved.is_real() {
        moved.day -= 1;
    }
    moved.number()
}

/// Months since 1970 of the month in which a day is, of days that count from there.
pub(crate) fn month_of(days: i64) -> i64 {
    let day = Day::from_number(days);
    (day.year - 1970) * 12 + day.month - 1
}

/// A value of type `date` as text.
pub(crate) fn date_text(date: u32) -> String {
    let day = Day::from_number(i64::from(date) - DATE_EPOCH);
    let sign = match day.year {
        10_000.. => "+",
        ..0 => "-",
        _ => "",
    };
    format!(
        "{sign}{:04}-{:02}-{:02}",
        day.year.abs(),
        day.month,
        day.day
    )
}

/// A value of type `time` as text.
pub(crate) fn time_text(nanoseconds: i64) -> String {
    let nanoseconds = nanoseconds.rem_euclid(NANOS_PER_DAY);
    let seconds = nanoseconds / NANOS_PER_SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!(
        "{hour:02}:{minute:02}:{second:02}.{:09}",
        nanoseconds % NANOS_PER_SECOND
    )
}

/// A value of type `timestamp` as text, with this between the day and the time.
pub(crate) fn timestamp_text(milliseconds: i64, between: char) -> String {
    let day = Day::from_number(milliseconds.div_euclid(MILLIS_PER_DAY));
    let millis = milliseconds.rem_euclid(MILLIS_PER_DAY);
    let seconds = millis / 1000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    // The year of its era: Java's letter for years has no sign before year 1.
    let year = if day.year > 0 { day.year } else { 1 - day.year };
    let sign = if year > 9999 { "+" } else { "" };
    format!(
        "{sign}{year:04}-{:02}-{:02}{between}{hour:02}:{minute:02}:{second:02}.{:03}Z",
        day.month,
        day.day,
        millis % 1000
    )
}

/// Reads a date, such as 2024-02-29 or a number of days with the epoch at 2^31.
pub(super) fn parse_date(text: &str) -> Result<u32, String> {
    if is_number(text) {
        return text
            .parse()
            .map_err(|_| format!("Unable to make unsigned int (for date) from: '{text}'"));
    }
    let bad = || format!("Unable to coerce '{text}' to a formatted date (long)");
    let mut cursor = Cursor(text);
    let day = cursor
        .strict_day()
        .filter(|_| cursor.0.is_empty())
        .ok_or_else(bad)?;
    let number = day.number();
    u32::try_from(number + DATE_EPOCH).map_err(|_| {
        let (side, limit) = if number < 0 {
            ("less than min", "-5877641-06-23T00:00Z")
        } else {
            ("greater than max", "+5881580-07-11T00:00Z")
        };
        format!("Input date {text} is {side} supported date {limit}")
    })
}

/// Reads a time, such as 08:12:54.123 or a number of nanoseconds.
pub(super) fn parse_time(text: &str) -> Result<i64, String> {
    if is_number(text) {
        let number = text
            .parse()
            .ok()
            .filter(|nanos| (0..NANOS_PER_DAY).contains(nanos));
        return number.ok_or_else(|| format!("Unable to make long (for time) from: '{text}'"));
    }
    parse_clock(text.trim())
        .ok_or_else(|| format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)"))
}

fn parse_clock(text: &str) -> Option<i64> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, fraction) = match rest.split_once('.') {
        Some((second, fraction)) => (second, Some(fraction)),
        None => (rest, None),
    };
    let part = |digits: &str, limit: i64| {
        let number = digits
            .parse()
            .ok()
            .filter(|number| (0..limit).contains(number));
        number.filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let seconds = part(hour, 24)? * 3600 + part(minute, 60)? * 60 + part(second, 60)?;
    let nanos = match fraction {
        None => 0,
        Some(digits) => fraction_of(digits, 9)?,
    };
    Some(seconds * NANOS_PER_SECOND + nanos)
}

/// One to nine digits after a point, as a number of this many digits. More are cut off.
fn fraction_of(digits: &str, width: usize) -> Option<i64> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let padded = format!("{digits:0<9}");
    padded.get(..width)?.parse().ok()
}

/// Reads a moment, such as 2024-02-29 13:00+01:00 or a number of milliseconds.
pub(super) fn parse_timestamp(text: &str) -> Result<i64, String> {
    if is_number(text) {
        return text
            .parse()
            .map_err(|_| format!("Unable to make long (for date) from: '{text}'"));
    }
    parse_moment(text).ok_or_else(|| format!("Unable to parse a date/time from '{text}'"))
}

fn parse_moment(text: &str) -> Option<i64> {
    let mut cursor = Cursor(text);
    let day = cursor.day()?;
    let mut millis = 0;
    let before = cursor;
    if let Some(clock) = cursor.clock() {
        millis = clock;
    } else {
        cursor = before;
        // Without a time, the day must be written in full.
        let mut strict = Cursor(text);
        strict.strict_day()?;
    }
    let offset = cursor.offset()?;
    let start = day.number().checked_mul(MILLIS_PER_DAY)?;
    start.checked_add(millis)?.checked_sub(offset * 1000)
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// What is left of a text.
#[derive(Clone, Copy)]
struct Cursor<'t>(&'t str);

impl Cursor<'_> {
    fn take(&mut self, character: char) -> Option<()> {
        self.0 = self.0.strip_prefix(character)?;
        Some(())
    }

    /// A number of so many digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let end = self
            .0
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.0.len());
        let end = end.min(most);
        let (digits, rest) = self.0.split_at_checked(end).filter(|_| end >= least)?;
        self.0 = rest;
        digits.parse().ok()
    }

    /// A day with any number of digits in the year, and one or two in the others.
    fn day(&mut self) -> Option<Day> {
        let sign = self.sign();
        let year = self.digits(1, 9)? * sign;
        self.take('-')?;
        let month = self.digits(1, 2)?;
        self.take('-')?;
        let day = self.digits(1, 2)?;
        Some(Day { year, month, day }).filter(|day| day.is_real())
    }

    /// A day with at least four digits in the year, and two in the others. More than four digits
    /// have a sign in front.
    fn strict_day(&mut self) -> Option<Day> {
        let is_signed = self.0.starts_with(['-', '+']);
        let sign = self.sign();
        let year = self.digits(4, if is_signed { 9 } else { 4 })? * sign;
        self.take('-')?;
        let month = self.digits(2, 2)?;
        self.take('-')?;
        let day = self.digits(2, 2)?;
        Some(Day { year, month, day }).filter(|day| day.is_real())
    }

    fn sign(&mut self) -> i64 {
        if self.take('-').is_some() {
            return -1;
        }
        if self.0.starts_with('+') {
            self.0 = self.0.get(1..).unwrap_or_default();
        }
        1
    }

    /// Hours and minutes after a blank or a T, perhaps seconds, perhaps a fraction: milliseconds.
    fn clock(&mut self) -> Option<i64> {
        if self.take('T').is_none() {
            self.take(' ')?;
        }
        let hour = self.digits(1, 2).filter(|hour| *hour < 24)?;
        self.take(':')?;
        let minute = self.digits(1, 2).filter(|minute| *minute < 60)?;
        let second = match self.take(':') {
            Some(()) => self.digits(1, 2).filter(|second| *second < 60)?,
            None => 0,
        };
        let mut millis = 0;
        if self.take('.').is_some() {
            let end = self
                .0
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(self.0.len());
            let (digits, rest) = self.0.split_at_checked(end)?;
            millis = fraction_of(digits, 3)?;
            self.0 = rest;
        }
        Some(((hour * 60 + minute) * 60 + second) * 1000 + millis)
    }

    /// What is left: nothing, or an offset from UTC, in seconds.
    fn offset(mut self) -> Option<i64> {
        if self.0.is_empty() {
            return Some(0);
        }
        if self.0.starts_with(' ') {
            self.take(' ')?;
            if ["UTC", "GMT", "UT"]
                .iter()
                .any(|zone| self.0.eq_ignore_ascii_case(zone))
            {
                return Some(0);
            }
        }
        if self.0 == "Z" {
            return Some(0);
        }
        let sign = if self.take('-').is_some() {
            -1
        } else {
            self.take('+')?;
            1
        };
        let hours = self.digits(2, 2).filter(|hours| *hours <= 18)?;
        let minutes = if self.0.is_empty() {
            0
        } else {
            let _colon = self.take(':');
            self.digits(2, 2).filter(|minutes| *minutes < 60)?
        };
        self.0
            .is_empty()
            .then_some(sign * (hours * 60 + minutes) * 60)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        for (text, days, written) in [
            ("1970-01-01", 1u32 << 31, "1970-01-01"),
            ("2024-01-01", 0x8000_4d0b, "2024-01-01"),
            ("2024-02-29", 0x8000_4d46, "2024-02-29"),
            ("0", 0, "-5877641-06-23"),
            ("2147483648", 1 << 31, "1970-01-01"),
            ("-0001-12-31", (1u32 << 31) - 719_529, "-0001-12-31"),
            ("+10000-01-01", (1u32 << 31) + 2_932_897, "+10000-01-01"),
        ] {
            assert_eq!(parse_date(text), Ok(days), "{text}");
            assert_eq!(date_text(days), written);
        }
        for (bad, message) in [
            (
                "2023-02-29",
                "Unable to coerce '2023-02-29' to a formatted date (long)",
            ),
            (
                "1970-1-1",
                "Unable to coerce '1970-1-1' to a formatted date (long)",
            ),
            ("x", "Unable to coerce 'x' to a formatted date (long)"),
            ("-1", "Unable to make unsigned int (for date) from: '-1'"),
            (
                "4294967296",
                "Unable to make unsigned int (for date) from: '4294967296'",
            ),
        ] {
            assert_eq!(parse_date(bad), Err(message.to_owned()));
        }
        let far = parse_date("+9999999-01-01").unwrap_err();
        assert!(far.contains("greater than max supported date"), "{far}");
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, nanos, written) in [
            ("00:00:00", 0, "00:00:00.000000000"),
            ("8:12:54", 29_574_000_000_000, "08:12:54.000000000"),
            (
                "23:59:59.999999999",
                86_399_999_999_999,
                "23:59:59.999999999",
            ),
            ("01:02:03.5", 3_723_500_000_000, "01:02:03.500000000"),
            ("1000", 1000, "00:00:00.000001000"),
        ] {
            assert_eq!(parse_time(text), Ok(nanos), "{text}");
            assert_eq!(time_text(nanos), written);
        }
        for bad in [
            "24:00:00",
            "12:60:00",
            "12:00",
            "12:00:00.",
            "12:00:00.1234567890",
            "a:b:c",
        ] {
            let message = format!("(TimeType) Unable to coerce '{bad}' to a formatted time (long)");
            assert_eq!(parse_time(bad), Err(message));
        }
        let message = "Unable to make long (for time) from: '86400000000000'";
        assert_eq!(parse_time("86400000000000"), Err(message.to_owned()));
    }

    #[test]
    fn moments_are_read_with_and_without_offsets() {
        const NEW_YEAR: i64 = 1_704_067_200_000;
        for (text, millis) in [
            ("2024-01-01", NEW_YEAR),
            ("2024-01-01 00:00", NEW_YEAR),
            ("2024-1-1 0:0", NEW_YEAR),
            ("2024-01-01T00:00:00Z", NEW_YEAR),
            ("2024-01-01 01:00:00+01:00", NEW_YEAR),
            ("2024-01-01 01:00:00+0100", NEW_YEAR),
            ("2024-01-01 01:00:00 +01", NEW_YEAR),
            ("2023-12-31 19:00-0500", NEW_YEAR),
            ("2024-01-01+0000", NEW_YEAR),
            ("2024-01-01 00:00:00 UTC", NEW_YEAR),
            ("2024-01-01 00:00:00.123", NEW_YEAR + 123),
            ("2024-01-01 00:00:00.123999Z", NEW_YEAR + 123),
            ("-5", -5),
            ("1704067200000", NEW_YEAR),
        ] {
            assert_eq!(parse_timestamp(text), Ok(millis), "{text}");
        }
        for bad in [
            "",
            "2024-1-1",
            "2024-13-01",
            "2024-01-01 25:00",
            "2024-01-01 00:00+1",
            "2024-01-01 00:00:00.",
            "2024-01-01x",
        ] {
            let message = format!("Unable to parse a date/time from '{bad}'");
            assert_eq!(parse_timestamp(bad), Err(message));
        }
        assert_eq!(
            timestamp_text(NEW_YEAR + 7, 'T'),
            "2024-01-01T00:00:00.007Z"
        );
        assert_eq!(timestamp_text(-1, ' '), "1969-12-31 23:59:59.999Z");
    }

    proptest! {
        #[test]
        fn every_day_comes_back(days: u32) {
            prop_assert_eq!(parse_date(&date_text(days)), Ok(days));
        }

        #[test]
        fn moments_of_this_era_come_back(millis in -62_135_596_800_000i64..253_402_300_800_000) {
            for between in ['T', ' '] {
                prop_assert_eq!(parse_timestamp(&timestamp_text(millis, between)), Ok(millis));
            }
        }
    }
}
