//! Dates from text: `$dateFromString`, by a format or as people and programs write dates.

use bson::{Bson, DateTime};
use tessera_core::deadline;

use super::calendar::{Civil, days_in_month, from_iso_week};
use super::format::{FROM_STRING_SPECIFIERS, month_named, validate};
use super::zone::Zone;
use super::zone_argument;
use crate::error::{Code, Error, Result};
use crate::expression::operator::{Form, Named, Operator, optional, required};
use crate::expression::{Call, Frame, Value, fail, is_nullish, null, some};
use crate::size::text_steps;

const FROM_STRING: Named = Named {
    fields: &[
        required("dateString", 40542),
        optional("format"),
        optional("timezone"),
        optional("onNull"),
        optional("onError"),
    ],
    not_object: 40540,
    unknown: 40541,
};

pub(super) const OPERATORS: &[Operator] = &[Operator::lazy(
    "$dateFromString",
    Form::Named(&FROM_STRING),
    date_from_string,
)];

const CONVERSION_FAILURE: Code = Code(241);

fn date_from_string<'a>(call: &'a Call, frame: &Frame<'a>) -> Result<Value<'a>> {
    let text = call.evaluate_argument(0, frame)?;
    let pattern = call.evaluate_argument(1, frame)?;
    match pattern.as_deref() {
        Some(Bson::String(pattern)) => validate(pattern, FROM_STRING_SPECIFIERS)?,
        other if is_nullish(other) => {}
        _ => return fail(40684, "$dateFromString requires that 'format' be a string"),
    }
    let zone = zone_argument(call, 2, frame)?;
    if is_nullish(text.as_deref()) {
        return if call.argument(3).is_absent() {
            null()
        } else {
            call.evaluate_argument(3, frame)
        };
    }
    let steps = |text: &Value<'_>| text.as_deref().map_or(0, text_steps);
    deadline::step(steps(&text) + steps(&pattern))?;
    let parsed = match (text.as_deref(), pattern.as_deref()) {
        (Some(Bson::String(_)), None | Some(Bson::Null | Bson::Undefined))
            if !call.argument(1).is_absent() =>
        {
            return null();
        }
        (Some(Bson::String(text)), pattern) => {
            let Some(zone) = zone else { return null() };
            match pattern {
                Some(Bson::String(pattern)) => parse_by_format(text, pattern, &zone),
                _ => parse_within(text, &zone),
            }
        }
        _ => Err(failure(
            "$dateFromString requires that 'dateString' be a string",
        )),
    };
    match parsed {
        Ok(millis) => some(DateTime::from_millis(millis)),
        Err(error) if error.code == CONVERSION_FAILURE && !call.argument(4).is_absent() => {
            call.evaluate_argument(4, frame)
        }
        Err(error) => Err(error),
    }
}

fn failure(message: impl Into<String>) -> Error {
    Error::new(CONVERSION_FAILURE, message)
}

/// The date that a text says, in the world's time unless it says another.
pub(in crate::expression) fn parse(text: &str) -> Result<i64> {
    parse_within(text, &Zone::UTC)
}

fn parse_within(text: &str, zone: &Zone) -> Result<i64> {
    let is_blank = |c: char| c.is_whitespace() || c == '\0';
    let mut reader = Reader {
        rest: text.trim_matches(is_blank),
        found: Found::default(),
    };
    if reader.read_all().is_none() || !reader.rest.is_empty() {
        return Err(failure(format!("Error parsing date string '{text}'")));
    }
    reader.found.resolve(text, zone)
}

fn parse_by_format(text: &str, pattern: &str, zone: &Zone) -> Result<i64> {
    let mut reader = Reader {
        rest: text,
        found: Found::default(),
    };
    if reader.read_by(pattern).is_none() || !reader.rest.is_empty() {
        return Err(failure(format!("Error parsing date string '{text}'")));
    }
    reader.found.resolve(text, zone)
}

/// What has been found of a date.
#[derive(Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    millisecond: Option<i64>,
    offset: Option<i64>,
}

impl Found {
    fn resolve(self, text: &str, zone: &Zone) -> Result<i64> {
        let incomplete = || {
            let message = "an incomplete date/time string has been found, with elements missing";
            failure(format!("{message}: \"{text}\""))
        };
        let (year, month, day) = self.date().ok_or_else(incomplete)?;
        if self.hour.is_none() && (self.minute.is_some() || self.second.is_some()) {
            return Err(incomplete());
        }
        let civil = Civil {
            year,
            month,
            day,
            hour: self.hour.unwrap_or(0),
            minute: self.minute.unwrap_or(0),
            second: self.second.unwrap_or(0),
            millisecond: self.millisecond.unwrap_or(0),
        };
        if self.is_impossible(civil) {
            return Err(failure(format!(
                "Error parsing date string '{text}'; the date is invalid"
            )));
        }
        let zone = match self.offset {
            None => zone,
            Some(_) if !zone.is_utc() => {
                let message = "you cannot pass in a date/time string with time zone information \
                               together with a timezone argument";
                return Err(failure(message));
            }
            Some(offset) => &Zone::Fixed(offset),
        };
        zone.to_utc(civil)
            .ok_or_else(|| failure("the date is out of range"))
    }

    fn date(&self) -> Option<(i64, i64, i64)> {
        if let Some(year) = self.iso_year {
            return from_iso_week(year, self.iso_week.unwrap_or(1), self.iso_day.unwrap_or(1));
        }
        match self.day_of_year {
            // Counted from zero, and counting on from January.
            Some(day) => Some((self.year?, 1, day + 1)),
            None => Some((self.year?, self.month?, self.day?)),
        }
    }

    fn is_impossible(&self, civil: Civil) -> bool {
        let is_natural = self.day_of_year.is_none();
        civil.hour > 24
            || civil.minute > 59
            || civil.second > 60
            || is_natural
                && (!(1..=12).contains(&civil.month)
                    || civil.day < 1
                    || civil.day > days_in_month(civil.year, civil.month))
    }
}

/// Reads a text from its front.
struct Reader<'t> {
    rest: &'t str,
    found: Found,
}

impl<'t> Reader<'t> {
    fn take(&mut self, count: usize) -> Option<&'t str> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn skip(&mut self, c: char) -> bool {
        let skipped = self.rest.strip_prefix(c);
        self.rest = skipped.unwrap_or(self.rest);
        skipped.is_some()
    }

    fn digits(&mut self, most: usize) -> Option<&'t str> {
        let count = self
            .rest
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        if count == 0 { None } else { self.take(count) }
    }

    fn number(&mut self, most: usize) -> Option<i64> {
        self.digits(most)?.parse().ok()
    }

    fn word(&mut self) -> &'t str {
        let count = self
            .rest
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        self.take(count).unwrap_or_default()
    }

    /// Exactly what a format says.
    fn read_by(&mut self, pattern: &str) -> Option<()> {
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                self.skip(character).then_some(())?;
                continue;
            }
            match characters.next()? {
                'Y' => self.found.year = Some(self.year()?),
                'm' => self.found.month = Some(self.number(2)?),
                'd' => self.found.day = Some(self.number(2)?),
                'H' => self.found.hour = Some(self.number(2)?),
                'M' => self.found.minute = Some(self.number(2)?),
                'S' => self.found.second = Some(self.number(2)?),
                'L' => self.found.millisecond = Some(self.number(3)?),
                'j' => self.found.day_of_year = Some(self.number(3)?),
                'G' => self.found.iso_year = Some(self.number(4)?),
                'V' => self.found.iso_week = Some(self.number(2)?),
                'u' => self.found.iso_day = Some(self.number(1)?),
                'b' | 'B' => self.found.month = Some(month_named(self.word())?),
                'z' => self.found.offset = Some(self.offset()?),
                'Z' => self.found.offset = Some(self.minutes()? * 60),
                literal => self.skip(literal).then_some(())?,
            }
        }
        Some(())
    }

    fn year(&mut self) -> Option<i64> {
        let digits = self.digits(4)?;
        (digits.len() == 4).then(|| digits.parse().ok()).flatten()
    }

    fn minutes(&mut self) -> Option<i64> {
        let sign = if self.skip('-') {
            -1
        } else {
            self.skip('+').then_some(1)?
        };
        Some(sign * self.number(4)?)
    }

    /// `+hh:mm`, `+hhmm`, `+hh` or `Z`, in seconds.
    fn offset(&mut self) -> Option<i64> {
        if self.skip('Z') || self.skip('z') {
            return Some(0);
        }
        let sign = if self.skip('-') {
            -1
        } else {
            self.skip('+').then_some(1)?
        };
        let digits = self.digits(4)?;
        let (hours, minutes) = match digits.len() {
            1 | 2 if self.skip(':') => (digits, self.digits(2)?),
            1 | 2 => (digits, "0"),
            count => digits.split_at_checked(count - 2)?,
        };
        Some(sign * (hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60))
    }

    /// Whatever comes: dates, times, names of months and days, zones.
    fn read_all(&mut self) -> Option<()> {
        while let Some(next) = self.rest.chars().next() {
            match next {
                ' ' | ',' | '\t' => {
                    self.skip(next);
                }
                '+' | '-' if self.found.hour.is_some() => {
                    let offset = self.offset()?;
                    self.set_offset(offset)?;
                }
                // A year before the first one.
                '-' if self.found.year.is_none() => {
                    self.skip('-');
                    let year = self.year()?;
                    self.read_iso_date(-year)?;
                }
                '0'..='9' => self.read_numbers()?,
                'a'..='z' | 'A'..='Z' => self.read_word()?,
                _ => return None,
            }
        }
        Some(())
    }

    fn set_offset(&mut self, offset: i64) -> Option<()> {
        self.found.offset.replace(offset).is_none().then_some(())
    }

    fn read_word(&mut self) -> Option<()> {
        const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
        let word = self.word();
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "t" if self.found.hour.is_none() && self.found.day.is_some() => return Some(()),
            "z" | "utc" | "gmt" if self.found.hour.is_some() => return self.set_offset(0),
            "est" if self.found.hour.is_some() => return self.set_offset(-5 * 3600),
            "edt" | "cst" if self.found.hour.is_some() => {
                return self.set_offset(if lower == "edt" { -4 } else { -6 } * 3600);
            }
            "cdt" | "mst" if self.found.hour.is_some() => {
                return self.set_offset(if lower == "cdt" { -5 } else { -7 } * 3600);
            }
            "mdt" | "pst" if self.found.hour.is_some() => {
                return self.set_offset(if lower == "mdt" { -6 } else { -8 } * 3600);
            }
            "pdt" if self.found.hour.is_some() => return self.set_offset(-7 * 3600),
            "am" | "pm" => return self.read_half_day(lower == "pm"),
            _ => {}
        }
        if let Some(month) = month_named(word) {
            self.skip('.');
            self.skip('-');
            return self.found.month.replace(month).is_none().then_some(());
        }
        let is_weekday = lower
            .get(..3)
            .is_some_and(|short| WEEKDAYS.contains(&short));
        (is_weekday && (lower.len() == 3 || lower.ends_with("day"))).then_some(())
    }

    fn read_half_day(&mut self, afternoon: bool) -> Option<()> {
        let hour = self.found.hour.filter(|hour| (1..=12).contains(hour))?;
        self.found.hour = Some(hour % 12 + if afternoon { 12 } else { 0 });
        Some(())
    }

    /// Digits: what they are depends on how many there are and on what follows.
    fn read_numbers(&mut self) -> Option<()> {
        let digits = self.digits(usize::MAX)?;
        let value: i64 = digits.parse().ok()?;
        let next = self.rest.chars().next();
        let has_date = self.found.year.is_some() && self.found.month.is_some()
            || self.found.iso_year.is_some();
        match (digits.len(), next) {
            (1 | 2, Some(':')) => self.read_time(value),
            (1 | 2, _) if self.is_followed_by_half_day() => {
                self.found.hour.replace(value).is_none().then_some(())
            }
            (4, Some('-')) if !has_date => self.read_iso_date(value),
            (4, Some('/')) if !has_date => {
                self.found.year = Some(value);
                self.read_two('/')
            }
            (8, _) if !has_date => {
                self.found.year = Some(value / 10_000);
                self.found.month = Some(value / 100 % 100);
                self.found.day.replace(value % 100).is_none().then_some(())
            }
            (1 | 2, Some('/')) if !has_date => self.read_american(value),
            (1 | 2, Some('-' | '.')) if !has_date && self.found.month.is_none() => {
                self.read_european(value)
            }
            (4 | 6, _) if has_date && self.found.hour.is_none() => {
                let (minutes, seconds) = if digits.len() == 6 {
                    (value / 100, Some(value % 100))
                } else {
                    (value, None)
                };
                self.found.hour = Some(minutes / 100);
                self.found.minute = Some(minutes % 100);
                self.found.second = seconds;
                self.read_fraction()
            }
            (4, _) => self.found.year.replace(value).is_none().then_some(()),
            (1 | 2, _) if self.found.day.is_none() => {
                self.found.day = Some(value);
                for suffix in ["st", "nd", "rd", "th"] {
                    self.rest = self.rest.strip_prefix(suffix).unwrap_or(self.rest);
                }
                self.skip('-');
                Some(())
            }
            _ => None,
        }
    }

    fn is_followed_by_half_day(&self) -> bool {
        let word = self
            .rest
            .trim_start()
            .get(..2)
            .unwrap_or_default()
            .to_ascii_lowercase();
        (word == "am" || word == "pm") && self.found.hour.is_none()
    }

    fn read_time(&mut self, hour: i64) -> Option<()> {
        if self.found.hour.is_some() {
            return None;
        }
        self.skip(':');
        self.found.hour = Some(hour);
        self.found.minute = Some(self.number(2)?);
        if self.skip(':') {
            self.found.second = Some(self.number(2)?);
        }
        self.read_fraction()
    }

    fn read_fraction(&mut self) -> Option<()> {
        if self.found.second.is_some() && (self.skip('.') || self.skip(',')) {
            let digits = self.digits(9)?;
            let millis = format!("{digits:0<3}");
            self.found.millisecond = Some(millis.get(..3)?.parse().ok()?);
        }
        Some(())
    }

    fn read_iso_date(&mut self, year: i64) -> Option<()> {
        self.skip('-');
        if self.skip('W') {
            self.found.iso_year = Some(year);
            self.found.iso_week = Some(self.number(2)?);
            if self.skip('-') {
                self.found.iso_day = Some(self.number(1)?);
            }
            return Some(());
        }
        self.found.year = Some(year);
        let digits = self.digits(3)?;
        if digits.len() == 3 {
            self.found.day_of_year = Some(digits.parse::<i64>().ok()? - 1);
            return Some(());
        }
        self.found.month = Some(digits.parse().ok()?);
        // A month alone is its first day.
        self.found.day = Some(if self.skip('-') { self.number(2)? } else { 1 });
        Some(())
    }

    fn read_two(&mut self, separator: char) -> Option<()> {
        self.skip(separator).then_some(())?;
        self.found.month = Some(self.number(2)?);
        self.skip(separator).then_some(())?;
        self.found.day = Some(self.number(2)?);
        Some(())
    }

    /// Month, day, year.
    fn read_american(&mut self, month: i64) -> Option<()> {
        self.found.month = Some(month);
        self.skip('/');
        self.found.day = Some(self.number(2)?);
        if self.skip('/') {
            self.found.year = Some(self.number(4)?);
        }
        Some(())
    }

    /// Day, month by number or name, year.
    fn read_european(&mut self, day: i64) -> Option<()> {
        let separator = if self.rest.starts_with('-') { '-' } else { '.' };
        self.skip(separator);
        self.found.day = Some(day);
        self.found.month = Some(match self.word() {
            "" => self.number(2)?,
            name => month_named(name)?,
        });
        self.skip(separator).then_some(())?;
        self.found.year = Some(self.year()?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, bson};

    use crate::expression::tests::{fails, gives};

    fn date(text: &str) -> Bson {
        Bson::DateTime(DateTime::parse_rfc3339_str(text).unwrap())
    }

    #[test]
    fn reads_what_people_write() {
        for (text, expected) in [
            ("2017-02-08T12:10:40.787Z", "2017-02-08T12:10:40.787Z"),
            ("2017-02-08T12:10:40.787", "2017-02-08T12:10:40.787Z"),
            ("2017-02-08 12:10:40+05:00", "2017-02-08T07:10:40Z"),
            ("2017-02-08T12:10", "2017-02-08T12:10:00Z"),
            ("2017-02-08", "2017-02-08T00:00:00Z"),
            ("2017-02", "2017-02-01T00:00:00Z"),
            ("20170208T121040Z", "2017-02-08T12:10:40Z"),
            ("2017/02/08", "2017-02-08T00:00:00Z"),
            ("02/08/2017", "2017-02-08T00:00:00Z"),
            ("08-02-2017", "2017-02-08T00:00:00Z"),
            ("08-Feb-2017", "2017-02-08T00:00:00Z"),
            ("2017-W06-3", "2017-02-08T00:00:00Z"),
            ("2017-039", "2017-02-08T00:00:00Z"),
            ("oct 20 2020", "2020-10-20T00:00:00Z"),
            ("July 4th, 2017 12:39 pm", "2017-07-04T12:39:00Z"),
            ("Wed, 31 Jan 1996 12:05:28 GMT", "1996-01-31T12:05:28Z"),
            ("WED jan 31 12:05:28 +03:30 1996", "1996-01-31T08:35:28Z"),
            ("2017-02-08 5 am", "2017-02-08T05:00:00Z"),
        ] {
            gives([(
                bson!({ "$dateFromString": { "dateString": text } }),
                date(expected),
            )]);
        }
        for text in [
            "",
            "not-a-date",
            "2017-13-01",
            "2017-02-30",
            "2019-02-29",
            "2017",
            "12:00",
            "2017-02-08T25:00",
            "2017-02-08T12:10:40 America/New_York",
            "yesterday",
            "2017-02-08x",
        ] {
            fails([(bson!({ "$dateFromString": { "dateString": text } }), 241)]);
        }
    }

    #[test]
    fn reads_by_format() {
        for (text, format, expected) in [
            ("06-15-2018", "%m-%d-%Y", "2018-06-15T00:00:00Z"),
            (
                "2018-06-15T10:30:45.123",
                "%Y-%m-%dT%H:%M:%S.%L",
                "2018-06-15T10:30:45.123Z",
            ),
            ("jan 15 2020", "%b %d %Y", "2020-01-15T00:00:00Z"),
            ("january 15 2020", "%B %d %Y", "2020-01-15T00:00:00Z"),
            ("2024-W24-6", "%G-W%V-%u", "2024-06-15T00:00:00Z"),
            ("2024", "%G", "2024-01-01T00:00:00Z"),
            ("2024-06-15 +0530", "%Y-%m-%d %z", "2024-06-14T18:30:00Z"),
            ("2024-06-15 +330", "%Y-%m-%d %Z", "2024-06-14T18:30:00Z"),
            ("2024 167", "%Y %j", "2024-06-16T00:00:00Z"),
            ("100% 2024-06-15", "100%% %Y-%m-%d", "2024-06-15T00:00:00Z"),
        ] {
            gives([(
                bson!({ "$dateFromString": { "dateString": text, "format": format } }),
                date(expected),
            )]);
        }
        fails([
            (
                bson!({ "$dateFromString": { "dateString": "2017-02-08", "format": "%m-%d-%Y" } }),
                241,
            ),
            (
                bson!({ "$dateFromString": { "dateString": "2017", "format": "%Q" } }),
                18536,
            ),
            (
                bson!({ "$dateFromString": { "dateString": "2017", "format": "%w" } }),
                18536,
            ),
            (
                bson!({ "$dateFromString": { "dateString": "2017", "format": 1 } }),
                40684,
            ),
        ]);
    }

    #[test]
    fn falls_back() {
        gives([
            (
                bson!({ "$dateFromString": { "dateString": "x", "onError": "bad" } }),
                bson!("bad"),
            ),
            (
                bson!({ "$dateFromString": { "dateString": 1, "onError": "bad" } }),
                bson!("bad"),
            ),
            (
                bson!({ "$dateFromString": { "dateString": null, "onNull": "none" } }),
                bson!("none"),
            ),
            (
                bson!({ "$dateFromString": { "dateString": null } }),
                bson!(null),
            ),
            (
                bson!({ "$dateFromString": { "dateString": "2024-06-15", "timezone": null } }),
                bson!(null),
            ),
            (
                bson!({ "$dateFromString": {
                    "dateString": "2024-06-15T12:00:00", "timezone": "America/New_York",
                } }),
                date("2024-06-15T16:00:00Z"),
            ),
        ]);
        fails([
            (bson!({ "$dateFromString": 1 }), 40540),
            (bson!({ "$dateFromString": { "x": 1 } }), 40541),
            (bson!({ "$dateFromString": {} }), 40542),
            (bson!({ "$dateFromString": { "dateString": 1 } }), 241),
            (
                bson!({ "$dateFromString": {
                    "dateString": "2024-06-15T12:00:00Z", "timezone": "America/New_York",
                } }),
                241,
            ),
        ]);
    }
}
