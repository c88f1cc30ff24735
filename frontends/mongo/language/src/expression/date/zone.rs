//! Time zones: by their names in the database of zones, or by an offset such as `+02:00`.

use bson::Bson;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::calendar::Civil;
use crate::compare::type_name;
use crate::error::Result;
use crate::expression::fail;

#[derive(Clone, Debug)]
pub(super) enum Zone {
    /// Seconds to the east.
    Fixed(i64),
    Named(TimeZone),
}

impl Zone {
    pub(super) const UTC: Self = Self::Fixed(0);

    /// The zone that an argument names; none for null.
    pub(super) fn from_value(value: Option<&Bson>) -> Result<Option<Self>> {
        match value {
            None | Some(Bson::Null | Bson::Undefined) => Ok(None),
            Some(Bson::String(name)) => Self::parse(name).map(Some),
            Some(other) => {
                let found = type_name(other);
                fail(
                    40517,
                    format!("timezone must evaluate to a string, found {found}"),
                )
            }
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self> {
        if name == "UTC" || name == "GMT" {
            return Ok(Self::UTC);
        }
        if let Some(offset) = parse_offset(name) {
            return Ok(Self::Fixed(offset));
        }
        // The database does not mind the case of names; MongoDB does.
        match TimeZone::get(name) {
            Ok(zone) if zone.iana_name() == Some(name) => Ok(Self::Named(zone)),
            _ => fail(
                40485,
                format!("unrecognized time zone identifier: \"{name}\""),
            ),
        }
    }

    pub(super) fn is_utc(&self) -> bool {
        matches!(self, Self::Fixed(0))
    }

    /// Seconds to the east at a moment.
    pub(super) fn offset_at(&self, millis: i64) -> i64 {
        match self {
            Self::Fixed(offset) => *offset,
            Self::Named(zone) => i64::from(zone.to_offset(timestamp(millis)).seconds()),
        }
    }

    /// What clocks in the zone show.
    pub(super) fn civil(&self, millis: i64) -> Civil {
        let local = millis.saturating_add(self.offset_at(millis) * 1000);
        Civil::from_millis(local)
    }

    /// When clocks in the zone show this; if twice, the first time, and if never, as if the clocks
    /// had not been put forward.
    pub(super) fn to_utc(&self, civil: Civil) -> Option<i64> {
        let local = civil.to_millis()?;
        let offset = match self {
            Self::Fixed(offset) => *offset,
            Self::Named(_) => {
                let before = self.offset_at(local.saturating_sub(super::calendar::DAY));
                let after = self.offset_at(local.saturating_add(super::calendar::DAY));
                let fits =
                    |offset: i64| self.offset_at(local.saturating_sub(offset * 1000)) == offset;
                if !fits(before) && fits(after) {
                    after
                } else {
                    before
                }
            }
        };
        local.checked_sub(offset.checked_mul(1000)?)
    }
}

fn timestamp(millis: i64) -> Timestamp {
    // The database knows no dates beyond the year 9999; rules stay as they are there.
    Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// Seconds of `+hh`, `+hhmm` or `+hh:mm`.
fn parse_offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = text.get(1..)?;
    let (hours, minutes) = match digits.len() {
        2 => (digits, "0"),
        4 => digits.split_at_checked(2)?,
        5 => digits
            .split_once(':')
            .filter(|(hours, _)| hours.len() == 2)?,
        _ => return None,
    };
    let number = |digits: &str| {
        let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        plain.then(|| digits.parse::<i64>().ok()).flatten()
    };
    Some(sign * (number(hours)? * 3600 + number(minutes)? * 60))
}

#[cfg(test)]
mod tests {
    use super::Zone;

    #[test]
    fn knows_zones() {
        let winter = 1_577_880_000_000;
        for (name, minutes) in [
            ("UTC", 0),
            ("America/New_York", -300),
            ("Asia/Kolkata", 330),
            ("+05:45", 345),
            ("-0330", -210),
            ("+03", 180),
            ("+25:00", 1500),
            ("+05:70", 370),
        ] {
            let offset = Zone::parse(name).unwrap().offset_at(winter);
            assert_eq!(offset, minutes * 60, "{name}");
        }
        for name in [
            "",
            "Z",
            "america/new_york",
            "Nowhere",
            "+1",
            "+100:00",
            "+1:30",
            "+a0",
        ] {
            assert_eq!(Zone::parse(name).unwrap_err().code.0, 40485, "{name}");
        }
    }

    #[test]
    fn changes_clocks() {
        let zone = Zone::parse("America/New_York").unwrap();
        let at = |hour, minute| {
            let civil = super::Civil {
                year: 2024,
                month: 3,
                day: 10,
                hour,
                minute,
                second: 0,
                millisecond: 0,
            };
            zone.to_utc(civil).unwrap() / 60_000 % 1440
        };
        assert_eq!(at(1, 59), 6 * 60 + 59);
        // Skipped by the clocks.
        assert_eq!(at(2, 30), 7 * 60 + 30);
        assert_eq!(at(3, 0), 7 * 60);
    }
}
