//! A moment in steps of 100 ns, and its texts.

use std::fmt;
use std::time::SystemTime;

use time::{Date, Month, OffsetDateTime};

const TICKS_PER_SECOND: i64 = 10_000_000;
const DIGITS: usize = 7;
/// The length of `2026-11-16T01:44:04.3937882Z`.
pub(super) const LENGTH: usize = 28;

/// A moment in steps of 100 ns since 1970, negative before. The service knows 1601 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DateTime {
    pub(crate) ticks: i64,
}

impl DateTime {
    /// 1601-01-01T00:00:00Z.
    const FIRST: Self = Self {
        ticks: -11_644_473_600 * TICKS_PER_SECOND,
    };
    /// 9999-12-31T23:59:59.9999999Z.
    const LAST: Self = Self {
        ticks: 253_402_300_800 * TICKS_PER_SECOND - 1,
    };

    /// The time of a version of the store, which counts microseconds.
    pub(crate) fn from_version(micros: u64) -> Self {
        let ticks = i64::try_from(micros.saturating_mul(10)).unwrap_or(i64::MAX);
        Self {
            ticks: ticks.min(Self::LAST.ticks),
        }
    }

    /// The time of the server.
    pub(crate) fn of(time: SystemTime) -> Self {
        let since = time
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self::from_version(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// Reads `2026-11-16`, `2026-11-16T01:44`, with seconds, with a fraction, with `Z` or an
    /// offset; without either it is UTC. Digits beyond 100 ns are dropped.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = &mut text.as_bytes();
        let midnight = date(rest)?.midnight().assume_utc().unix_timestamp();
        if rest.is_empty() {
            return Some(Self {
                ticks: midnight * TICKS_PER_SECOND,
            });
        }
        expect(rest, b'T')?;
        let (hour, minute) = hour_and_minute(rest, 23)?;
        let mut second = 0;
        let mut fraction = 0;
        if expect(rest, b':').is_some() {
            second = number(rest, 2).filter(|second| *second < 60)?;
            if expect(rest, b'.').is_some() {
                fraction = ticks_of_fraction(rest)?;
            }
        }
        let offset = offset_seconds(rest)?;
        if !rest.is_empty() {
            return None;
        }
        let seconds = midnight + hour * 3600 + minute * 60 + second - offset;
        Some(Self {
            ticks: seconds * TICKS_PER_SECOND + fraction,
        })
    }

    /// Whether the service accepts it as a value.
    pub(crate) fn in_range(self) -> bool {
        (Self::FIRST..=Self::LAST).contains(&self)
    }

    /// The text that values of properties have: the fraction without zeros at its end.
    pub(crate) fn trimmed(self) -> Trimmed {
        Trimmed(self)
    }

    /// Adds its text.
    pub(crate) fn push_to(self, text: &mut String) {
        text.push_str(self.text(&mut [0; LENGTH]));
    }

    /// Writes all seven digits of the fraction. A moment outside the range becomes its end.
    pub(super) fn text(self, buffer: &mut [u8; LENGTH]) -> &str {
        *buffer = self.ascii();
        str::from_utf8(buffer).unwrap_or_default()
    }

    /// The same as bytes.
    pub(super) fn ascii(self) -> [u8; LENGTH] {
        let ticks = self.clamp(Self::FIRST, Self::LAST).ticks;
        let moment = OffsetDateTime::from_unix_timestamp(ticks.div_euclid(TICKS_PER_SECOND))
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let year = moment.year().unsigned_abs();
        let fraction = u32::try_from(ticks.rem_euclid(TICKS_PER_SECOND)).unwrap_or_default();
        let [y1, y2] = two_digits(year / 100);
        let [y3, y4] = two_digits(year);
        let [m1, m2] = two_digits(u8::from(moment.month()));
        let [d1, d2] = two_digits(moment.day());
        let [h1, h2] = two_digits(moment.hour());
        let [n1, n2] = two_digits(moment.minute());
        let [s1, s2] = two_digits(moment.second());
        let [_, f1] = two_digits(fraction / 1_000_000);
        let [f2, f3] = two_digits(fraction / 10_000);
        let [f4, f5] = two_digits(fraction / 100);
        let [f6, f7] = two_digits(fraction);
        [
            y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2,
            b'.', f1, f2, f3, f4, f5, f6, f7, b'Z',
        ]
    }
}

/// The last two digits of a number.
fn two_digits(number: impl Into<u32>) -> [u8; 2] {
    let last_two = number.into() % 100;
    [last_two / 10, last_two % 10].map(|digit| b'0' | digit.to_le_bytes()[0])
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; LENGTH]))
    }
}

/// Writes a moment without the zeros at the end of its fraction.
pub(crate) struct Trimmed(DateTime);

impl Trimmed {
    /// The same as [`DateTime::text`], trimmed.
    pub(super) fn text<'b>(&self, buffer: &'b mut [u8; LENGTH]) -> &'b str {
        let digits = self.0.text(buffer).trim_end_matches('Z');
        let length = digits.trim_end_matches('0').trim_end_matches('.').len();
        if let Some(end) = buffer.get_mut(length) {
            *end = b'Z';
        }
        let (text, _) = buffer.split_at(length + 1);
        str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Display for Trimmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; LENGTH]))
    }
}

fn date(rest: &mut &[u8]) -> Option<Date> {
    let year = i32::try_from(number(rest, 4)?).ok()?;
    expect(rest, b'-')?;
    let month = u8::try_from(number(rest, 2)?).ok()?;
    expect(rest, b'-')?;
    let day = u8::try_from(number(rest, 2)?).ok()?;
    Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()
}

fn hour_and_minute(rest: &mut &[u8], last_hour: i64) -> Option<(i64, i64)> {
    let hour = number(rest, 2).filter(|hour| *hour <= last_hour)?;
    expect(rest, b':')?;
    let minute = number(rest, 2).filter(|minute| *minute < 60)?;
    Some((hour, minute))
}

/// How far the clock that was read is ahead of UTC.
fn offset_seconds(rest: &mut &[u8]) -> Option<i64> {
    let sign = match rest.split_first() {
        None => return Some(0),
        Some((b'Z', tail)) => {
            *rest = tail;
            return Some(0);
        }
        Some((b'+', tail)) => {
            *rest = tail;
            1
        }
        Some((b'-', tail)) => {
            *rest = tail;
            -1
        }
        Some(_) => return None,
    };
    let (hours, minutes) = hour_and_minute(rest, 14)?;
    Some(sign * (hours * 3600 + minutes * 60))
}

fn ticks_of_fraction(rest: &mut &[u8]) -> Option<i64> {
    let mut ticks = number(rest, 1)?;
    for _ in 1..DIGITS {
        ticks = ticks * 10 + number(rest, 1).unwrap_or_default();
    }
    while number(rest, 1).is_some() {}
    Some(ticks)
}

/// Takes exactly `width` digits, or nothing.
fn number(rest: &mut &[u8], width: usize) -> Option<i64> {
    let (digits, tail) = rest.split_at_checked(width)?;
    let mut value = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    *rest = tail;
    Some(value)
}

fn expect(rest: &mut &[u8], byte: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, full: &str, trimmed: &str) {
        let moment = DateTime::parse(text).unwrap_or_else(|| panic!("{text} is refused"));
        assert_eq!(moment.to_string(), full, "{text}");
        assert_eq!(moment.trimmed().to_string(), trimmed, "{text}");
    }

    #[test]
    fn reads_the_forms_that_clients_send() {
        check(
            "2026-11-16T01:44:04.3937882Z",
            "2026-11-16T01:44:04.3937882Z",
            "2026-11-16T01:44:04.3937882Z",
        );
        check(
            "2024-01-02T03:04:05.678901Z",
            "2024-01-02T03:04:05.6789010Z",
            "2024-01-02T03:04:05.678901Z",
        );
        check(
            "2012-01-02T23:00:00.123456789Z",
            "2012-01-02T23:00:00.1234567Z",
            "2012-01-02T23:00:00.1234567Z",
        );
        for same in [
            "2012-02-29T23:00:00Z",
            "2012-02-29T23:00:00",
            "2012-02-29T23:00",
            "2012-02-29T23:00Z",
            "2012-02-29T23:00:00.0",
            "2012-03-01T01:30:00.000+02:30",
            "2012-02-29T15:00-08:00",
        ] {
            check(same, "2012-02-29T23:00:00.0000000Z", "2012-02-29T23:00:00Z");
        }
        check(
            "1601-01-01",
            "1601-01-01T00:00:00.0000000Z",
            "1601-01-01T00:00:00Z",
        );
    }

    #[test]
    fn refuses_what_is_no_moment() {
        for text in [
            "",
            "not a date",
            "2012",
            "2012-13-01T00:00:00Z",
            "2011-02-29T00:00:00Z",
            "2012-01-02T24:00:00Z",
            "2012-01-02T23:60:00Z",
            "2012-01-02T23:00:60Z",
            "2012-01-02T23:00:00.Z",
            "2012-01-02T23:00:00+02",
            "2012-01-02T23:00:00+15:00",
            "2012-01-02T23:00:00ZZ",
            "2012-01-02 23:00:00Z",
            "+012-01-02T23:00:00Z",
            "2012-01-02T2\u{661}:00:00Z",
        ] {
            assert_eq!(DateTime::parse(text), None, "{text}");
        }
    }

    #[test]
    fn knows_its_range() {
        for (text, inside) in [
            ("1600-12-31T23:59:59.9999999Z", false),
            ("1601-01-01T00:00:00Z", true),
            ("9999-12-31T23:59:59.9999999Z", true),
            ("9999-12-31T23:59:59.9999999-01:00", false),
        ] {
            assert_eq!(DateTime::parse(text).map(DateTime::in_range), Some(inside));
        }
        let last = DateTime { ticks: i64::MAX };
        assert_eq!(last.to_string(), "9999-12-31T23:59:59.9999999Z");
    }

    #[test]
    fn tells_the_time_of_a_version() {
        let moment = DateTime::from_version(1_794_793_444_393_788);
        assert_eq!(moment.to_string(), "2026-11-16T01:44:04.3937880Z");
        assert_eq!(DateTime::from_version(u64::MAX), DateTime::LAST);
    }

    proptest! {
        #[test]
        fn texts_read_back(ticks in DateTime::FIRST.ticks..=DateTime::LAST.ticks) {
            let moment = DateTime { ticks };
            prop_assert_eq!(DateTime::parse(&moment.to_string()), Some(moment));
            prop_assert_eq!(DateTime::parse(&moment.trimmed().to_string()), Some(moment));
        }

        #[test]
        fn any_text_is_read_or_refused(
            text in "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9][0-9:.Z+-]{0,12}"
        ) {
            if let Some(moment) = DateTime::parse(&text).filter(|moment| moment.in_range()) {
                prop_assert_eq!(DateTime::parse(&moment.to_string()), Some(moment));
            }
        }
    }
}
